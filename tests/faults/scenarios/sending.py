"""A month's interest, or a night's expired holds: the job is run until it is done, and its messages are posted."""

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from tests.checkers.books import Books, violations
from tests.checkers.windows import open_though_expired
from tests.faults.scenarios import ScenarioResult
from tests.faults.scenarios.scheduled import run_until_done
from tests.support.bodies import Body, hold, openings, payment, rate
from tests.support.faults import FaultsAt
from tests.support.ledger import Ledger
from tools.local_aws.server import Endpoint
from tools.local_aws.tables import refill, scan

MONTH, NIGHT = datetime(2026, 2, 1, tzinfo=UTC), datetime(2026, 3, 2, tzinfo=UTC)

type Check = Callable[[Books, Sequence[str]], list[str]]
"""A sentence for each violation in the books, after these bodies were sent."""


class Sending:
    """Runs a job on the accounts of these messages. What it sends is posted at the end, or before each further run.

    If the messages are posted as of a time, what is sent is posted as of `NIGHT`.
    """

    def __init__(
        self,
        aws: Endpoint,
        dynamodb: Endpoint,
        job: str,
        messages: Sequence[Body],
        check: Check,
        *,
        posted_at: datetime | None = None,
        accounts_per_step: int = 2,
        posted_in_between: bool = False,
        **variables: str,
    ) -> None:
        self._check, self._posted_in_between = check, posted_in_between
        self._event = {"job": job, "scheduled_time": NIGHT.isoformat(), "force": True}
        self._ledger = ledger = Ledger(aws, dynamodb, POWERTOOLS_LOG_LEVEL="CRITICAL")
        self._function = ledger.job(job, POWERTOOLS_LOG_LEVEL="CRITICAL", **variables)
        self._function.ACCOUNTS_PER_STEP = accounts_per_step
        self._post = ledger.post_at if posted_at else lambda _, *bodies: ledger.post(*bodies)
        self._post(posted_at or NIGHT, *messages)
        tables = (ledger.tables.accounts, ledger.tables.journal, ledger.locks_table)
        self._there = {table: list(scan(dynamodb, table)) for table in tables}

    def __call__(self, faults: FaultsAt) -> ScenarioResult:
        """Leaves each account's balance, what is held of it, and its version."""
        for table, items in self._there.items():
            refill(self._ledger.dynamodb, table, items)
        function, sent = self._function, list[str]()

        def post_what_was_sent() -> None:
            bodies = self._ledger.queued()
            self._post(NIGHT, *bodies)
            sent.extend(bodies)

        between = post_what_was_sent if self._posted_in_between else lambda: None
        outcome, _ = run_until_done(
            function, self._event, faults, function.dynamodb, function.queue.client, between=between
        )
        post_what_was_sent()
        books = self._ledger.books
        wrong = [*violations(books), *self._check(books, sent)]
        wrong += [f"dead-lettered: {letter}" for letter in self._ledger.dead_letters()]
        wrong += [] if outcome in {"Done", "DoneBefore"} else [f"the job ended with {outcome!r}"]
        left = {name: (each.balance, each.held, each.version) for name, each in books.accounts.items()}
        return ScenarioResult(faults, left, wrong)


def charging(aws: Endpoint, dynamodb: Endpoint, balances: Mapping[str, int], **how: Any) -> Sending:
    """Interest of a month of 28 days, of a thousandth a day."""
    accounts = openings(*balances, limit=-1000)
    messages = [*accounts, *(payment("first", amount, name) for name, amount in balances.items())]
    messages += [rate("rate", "0.365", name) for name in balances]

    def check(books: Books, sent: Sequence[str]) -> list[str]:
        charged = [
            entry.account_id for entry in books.entries if entry.transaction_id.startswith("teller:overdraft-interest")
        ]
        wrong = [f"charged: {sorted(charged)}"] if len(charged) != len(set(charged)) else []
        return wrong + [
            f"sent, but not charged: {each}" for each in sent if json.loads(each)["account_id"] not in charged
        ]

    return Sending(aws, dynamodb, "charge_overdraft_interest", messages, check, posted_at=MONTH, **how)


def expiring(aws: Endpoint, dynamodb: Endpoint, holds: Mapping[str, Sequence[str | None]], **how: Any) -> Sending:
    """Holds of 1, 10, 100, by the times at which they expire."""
    messages = openings(*holds, limit=-1000) + [
        hold(f"hold-{number}", 10**number, name, expires_at=expires_at)
        for name, times in holds.items()
        for number, expires_at in enumerate(times)
    ]

    def check(books: Books, _: Sequence[str]) -> list[str]:
        return [*open_though_expired(books, NIGHT)]

    return Sending(aws, dynamodb, "expire_holds", messages, check, **how)
