"""A night over many accounts in 1, 4 and 16 segments: the same findings, killed at random or with another number."""

import itertools
import json
import random
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from types import ModuleType
from typing import Any

import pytest

from conditional_writes.items import from_dynamodb, to_dynamodb
from ledger import reconciler
from ledger.core.accounts import Account, AccountStatus, account_item
from tests.support.faults import Killed
from tests.support.in_process import IN_PROCESS
from tests.support.night import entry
from tests.support.reconciling import event
from tools.local_aws.functions import Context, reconcile_accounts
from tools.local_aws.server import Endpoint
from tools.local_aws.tables import Tables, create_locks_table, create_tables
from workers import scheduled_jobs as jobs

# A handler that is killed has no metrics.
pytestmark = pytest.mark.filterwarnings("ignore:No application metrics")

_numbers = itertools.count(1)
LEASE_HOURS = 1
TIMEOUT_SECONDS = 150


class Books:
    """The tables of many accounts with an opening each. Of every fifty accounts, three are damaged."""

    def __init__(self, dynamodb: Endpoint, accounts: int) -> None:
        self.dynamodb, self.accounts, self.damaged = dynamodb, accounts, 3 * accounts // 50
        self.client = dynamodb.client("dynamodb")
        self.tables: Tables = create_tables(dynamodb, f"segmented-{next(_numbers)}")
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(self._put, range(accounts)))

    def _put(self, number: int) -> None:
        name = f"acc-{number:04}"
        state = Account(name, Decimal(0), Decimal(0), "EUR", AccountStatus.OPEN, version=1)
        damage: dict[int, dict[str, Any]] = {0: {"balance": 7}, 2: {"balance": "text"}}
        item = to_dynamodb(account_item(state) | damage.get(number % 50, {}))
        self.client.put_item(TableName=self.tables.accounts, Item=item)
        if number % 50 != 1:
            self.client.put_item(TableName=self.tables.journal, Item=entry(name, 1))

    def night(self, numbers_of_segments: list[int], kills_every: int | None = None) -> dict[str, Any]:
        """A night's report. Invocation after invocation, the parameter JobSegments has the next of these numbers.

        About each so many calls, the function is killed.
        """
        night = Night(self, numbers_of_segments, kills_every)
        return night.run()


class Night:
    """Lambda's asynchronous invocations of the function, until none is left."""

    def __init__(self, books: Books, numbers_of_segments: list[int], kills_every: int | None) -> None:
        self._books, self._segments, self._kills_every = books, itertools.cycle(numbers_of_segments), kills_every
        self._locks_table = create_locks_table(books.dynamodb, f"{books.tables.accounts}-{next(_numbers)}")
        # Each night has checkpoints of its own: otherwise it would do less than the one before.
        self._tables = create_tables(books.dynamodb, f"segmented-{next(_numbers)}")
        self._hours_on = 0
        self._random = random.Random(20_261_122)
        self.waiting: deque[tuple[Any, str]] = deque()
        self.outcomes: list[str] = []

    def run(self) -> dict[str, Any]:
        self.waiting.append((event(0), "the schedule's"))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(jobs, "_invoke_again", lambda again, _: self.waiting.append((again, f"{len(self.outcomes)}")))
            while self.waiting:
                self._deliver(*self.waiting.popleft())
        assert self.outcomes.count("Done") == 1
        assert ("Killed" in self.outcomes) == bool(self._kills_every)
        return self._report()

    def _deliver(self, again: Any, request: str) -> None:
        assert len(self.outcomes) < 2_000
        context = Context(TIMEOUT_SECONDS)
        context.aws_request_id = request
        try:
            self.outcomes.append(self._function().lambda_handler(again, context)["outcome"])
        except Killed:
            self.outcomes.append("Killed")
            self._hours_on += LEASE_HOURS  # Lambda's last retry comes when the lease is over.
            self.waiting.append((again, request))

    def _function(self) -> ModuleType:
        books = self._books.tables
        tables = Tables(books.accounts, books.journal, self._tables.checkpoints, books.reversals)
        segments = str(next(self._segments))
        function = reconcile_accounts(self._books.dynamodb, tables, self._locks_table, JOB_SEGMENTS=segments)
        function.job.locks.now = lambda: time.time() + 3600 * self._hours_on
        # More than the check of one account takes: an account that is killed twice would be skipped.
        calls = self._random.randrange(self._kills_every // 2, 2 * self._kills_every) if self._kills_every else None
        left = itertools.count(calls, -1) if calls else itertools.repeat(1)

        def kill(**_: Any) -> None:
            if next(left) <= 0:
                raise Killed

        function.client.meta.events.register("before-call.dynamodb", kill)
        return function

    def _report(self) -> dict[str, Any]:
        lock_key = f"reconcile_accounts {event(0)['scheduled_time']}"
        response = self._books.client.get_item(TableName=self._locks_table, Key=to_dynamodb({"lock_key": lock_key}))
        return from_dynamodb(response["Item"])


@pytest.fixture(autouse=True)
def without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """No commit is in progress, so no pause is needed before an account is looked at again."""
    monkeypatch.setattr(reconciler, "PAUSES_SECONDS", (0, 0, 0))


@pytest.mark.timeout(900)
def test_the_findings_are_those_of_the_books_however_many_segments_there_are(
    ministack: Endpoint, dynamodb: Endpoint, every_case: bool
) -> None:
    books = Books(dynamodb, 5_000 if every_case and dynamodb == IN_PROCESS else 200)
    for segments in (1, 4, 16):
        report = books.night([segments])
        assert findings(report) == expected(books)
        assert report["segments"] == segments
        assert len(report["first_mismatches"]) == min(20, report["mismatches"])


@pytest.mark.parametrize("numbers_of_segments", [[4], [4, 1, 16]], ids=["4", "4, then 1, then 16"])
def test_kills_and_a_number_that_changes_meanwhile_lose_and_double_nothing(
    dynamodb: Endpoint, numbers_of_segments: list[int]
) -> None:
    books = Books(dynamodb, 300)
    report = books.night(numbers_of_segments, kills_every=100)
    assert findings(report) == expected(books)
    assert report["segments"] == 4
    assert json.dumps(report["first_skipped"]).count("it can't be read") == len(report["first_skipped"])


def findings(report: dict[str, Any]) -> tuple[int, ...]:
    return tuple(int(report[name]) for name in ("accounts_checked", "accounts_skipped", "mismatches"))


def expected(books: Books) -> tuple[int, ...]:
    return books.accounts - books.damaged // 3, books.damaged // 3, 2 * books.damaged // 3
