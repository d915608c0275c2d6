"""A bank whose scheduled job sends messages about its accounts to the transactions queue."""

import itertools
import json
from abc import ABC, abstractmethod
from collections.abc import Iterable
from types import ModuleType

from tests.checkers.books import Books, read_books
from tests.support.clock import Clock
from tools.local_aws.functions import Queue, process_transactions, record
from tools.local_aws.queues import take_dead_letters
from tools.local_aws.server import Endpoint
from tools.local_aws.tables import Tables, create_locks_table, create_tables, refill

_numbers = itertools.count(1)


class JobBank(ABC):
    """Accounts, the transactions queue with the function that posts, and functions that run the job."""

    def __init__(self, aws: Endpoint, dynamodb: Endpoint) -> None:
        self.aws, self.dynamodb = aws, dynamodb
        self.tables: Tables = create_tables(dynamodb, f"job-{next(_numbers)}")
        self.poster = process_transactions(aws, self.tables, dynamodb)
        self.locks_table = self.new_locks_table()
        self.clock = Clock()

    def new_locks_table(self) -> str:
        return create_locks_table(self.dynamodb, f"job-{next(_numbers)}")

    @abstractmethod
    def new_function(self, locks_table: str, segments: str) -> ModuleType:
        """The job's function in a new process."""

    def function(self, locks_table: str | None = None, segments: int = 1) -> ModuleType:
        """The function in a new process. It uses the test's clock unless it has a locks table of its own."""
        function = self.new_function(locks_table or self.locks_table, str(segments))
        if locks_table is None:
            function.job.locks.now = self.clock
        return function

    def send(self, **message: object) -> None:
        self.post([json.dumps(message)])

    def post(self, bodies: Iterable[str]) -> None:
        Queue([record(body) for body in bodies]).deliver_until_quiet(self.poster)

    def queued(self) -> list[str]:
        """Takes all bodies from the transactions queue."""
        return [message.body for message in take_dead_letters(self.aws, self.poster.worker.queue.url)]

    def forget_all_runs(self) -> None:
        refill(self.dynamodb, self.locks_table)

    def books(self) -> Books:
        """The books, after the dead-letter queue was found empty."""
        books = read_books(self.dynamodb, self.tables)
        assert not take_dead_letters(self.aws, self.poster.worker.queue.dead_letter_url)
        return books
