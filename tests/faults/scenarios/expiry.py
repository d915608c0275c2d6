"""Holds expire: the job is run until it is done, and its messages are posted."""

import itertools
import json
from datetime import UTC, datetime

from tests.checkers.books import read_books, violations
from tests.checkers.windows import open_though_expired
from tests.faults.scenarios import ScenarioResult
from tests.faults.scenarios.scheduled import run_until_done
from tests.support.faults import FaultsAt
from tools.local_aws.functions import Queue, expire_holds, process_transactions, record
from tools.local_aws.queues import take_dead_letters
from tools.local_aws.server import Endpoint
from tools.local_aws.tables import create_locks_table, create_tables, refill, scan

NIGHT = datetime(2026, 3, 2, tzinfo=UTC)
EVENT = {"job": "expire_holds", "scheduled_time": NIGHT.isoformat(), "force": True}
OPEN = {"type": "open_account", "transaction_id": "open", "currency": "EUR", "overdraft_limit": -1000}
EXPIRED, AT_ONCE, LATER = "2026-03-01T12:00:00Z", NIGHT.isoformat(), "2026-03-02T00:00:00.000001Z"
HOLDS: dict[str, list[str | None]] = {
    "anna": [EXPIRED, LATER, AT_ONCE],
    "ben": [],
    "cleo": [None, EXPIRED],
    "dora": [LATER],
    "emil": [EXPIRED],
}
"""The times of expiry of each account's holds."""

_numbers = itertools.count(1)


class Expiring:
    """Expires holds. Messages are posted at the end, or before each further run of the job."""

    def __init__(
        self, aws: Endpoint, dynamodb: Endpoint, *, segments: int = 1, posted_in_between: bool = False
    ) -> None:
        self._aws, self._dynamodb, self._posted_in_between = aws, dynamodb, posted_in_between
        prefix = f"expiring-scenario-{next(_numbers)}"
        self._tables, self._locks_table = create_tables(dynamodb, prefix), create_locks_table(dynamodb, prefix)
        self._poster = process_transactions(aws, self._tables, dynamodb, POWERTOOLS_LOG_LEVEL="CRITICAL")
        self._function = expire_holds(
            aws,
            self._tables,
            self._locks_table,
            self._poster.worker.queue.url,
            dynamodb,
            JOB_SEGMENTS=str(segments),
            POWERTOOLS_LOG_LEVEL="CRITICAL",
        )
        self._function.ACCOUNTS_PER_STEP = 2
        self._post([json.dumps(OPEN | {"account_id": name}) for name in HOLDS])
        self._post(
            [
                json.dumps(_hold(name, number, expires_at))
                for name, holds in HOLDS.items()
                for number, expires_at in enumerate(holds)
            ]
        )
        self._there = {
            table: list(scan(dynamodb, table))
            for table in (self._tables.accounts, self._tables.journal, self._locks_table)
        }

    def __call__(self, faults: FaultsAt) -> ScenarioResult:
        """Leaves what is held of each account, and its version: a hold that was to expire twice would have made two."""
        for table, items in self._there.items():
            refill(self._dynamodb, table, items)
        function = self._function

        def post_what_was_sent() -> None:
            self._post([message.body for message in take_dead_letters(self._aws, self._poster.worker.queue.url)])

        between = post_what_was_sent if self._posted_in_between else lambda: None
        outcome, _ = run_until_done(function, EVENT, faults, function.dynamodb, function.sqs, between=between)
        post_what_was_sent()
        books = read_books(self._dynamodb, self._tables)
        wrong = [*violations(books), *open_though_expired(books, NIGHT)]
        letters = take_dead_letters(self._aws, self._poster.worker.queue.dead_letter_url)
        wrong += [f"dead-lettered: {letter}" for letter in letters]
        wrong += [] if outcome in {"Done", "DoneBefore"} else [f"the job ended with {outcome!r}"]
        left = {name: (account.held, account.version) for name, account in books.accounts.items()}
        return ScenarioResult(faults, left, wrong)

    def _post(self, bodies: list[str]) -> None:
        Queue(list(map(record, bodies))).deliver_until_quiet(self._poster)


def _hold(account_id: str, number: int, expires_at: str | None) -> dict[str, object]:
    hold = {"type": "hold", "transaction_id": f"hold-{number}", "account_id": account_id, "amount": 10**number}
    return hold | ({"expires_at": expires_at} if expires_at else {})
