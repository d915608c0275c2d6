"""A day's interest: the job is run until it is done, and its messages are posted."""

import itertools
import json
from collections.abc import Mapping

from tests.checkers.books import read_books, violations
from tests.faults.scenarios import ScenarioResult
from tests.faults.scenarios.scheduled import run_until_done
from tests.support.faults import FaultsAt
from tools.local_aws.functions import Queue, charge_overdraft_interest, process_transactions, record
from tools.local_aws.queues import take_dead_letters
from tools.local_aws.server import Endpoint
from tools.local_aws.tables import create_locks_table, create_tables, refill, scan

EVENT = {"job": "charge_overdraft_interest", "scheduled_time": "2026-03-01T00:00:00Z", "force": True}
OPEN = {"type": "open_account", "transaction_id": "open", "currency": "EUR", "overdraft_limit": -1000}

_numbers = itertools.count(1)


class Charging:
    """Charges accounts with these balances. Messages are posted at the end, or before each further run of the job."""

    def __init__(
        self,
        aws: Endpoint,
        dynamodb: Endpoint,
        balances: Mapping[str, int],
        *,
        accounts_per_step: int,
        segments: int = 1,
        posted_in_between: bool = False,
    ) -> None:
        self._aws, self._dynamodb, self._posted_in_between = aws, dynamodb, posted_in_between
        prefix = f"charging-scenario-{next(_numbers)}"
        self._tables, self._locks_table = create_tables(dynamodb, prefix), create_locks_table(dynamodb, prefix)
        self._poster = process_transactions(aws, self._tables, dynamodb, POWERTOOLS_LOG_LEVEL="CRITICAL")
        self._function = charge_overdraft_interest(
            aws,
            self._tables,
            self._locks_table,
            self._poster.worker.queue.url,
            dynamodb,
            ANNUAL_RATE="0.365",
            JOB_SEGMENTS=str(segments),
            POWERTOOLS_LOG_LEVEL="CRITICAL",
        )
        self._function.ACCOUNTS_PER_STEP = accounts_per_step
        self._post(
            [json.dumps(OPEN | {"account_id": name}) for name in balances]
            + [
                json.dumps({"transaction_id": "first", "account_id": name, "amount": amount})
                for name, amount in balances.items()
            ]
        )
        self._there = {
            table: list(scan(dynamodb, table))
            for table in (self._tables.accounts, self._tables.journal, self._locks_table)
        }

    def __call__(self, faults: FaultsAt) -> ScenarioResult:
        for table, items in self._there.items():
            refill(self._dynamodb, table, items)
        function, sent = self._function, list[str]()

        def post_what_was_sent() -> None:
            bodies = [message.body for message in take_dead_letters(self._aws, self._poster.worker.queue.url)]
            self._post(bodies)
            sent.extend(bodies)

        between = post_what_was_sent if self._posted_in_between else lambda: None
        outcome, _ = run_until_done(function, EVENT, faults, function.dynamodb, function.sqs, between=between)
        post_what_was_sent()
        books = read_books(self._dynamodb, self._tables)
        wrong = violations(books)
        letters = take_dead_letters(self._aws, self._poster.worker.queue.dead_letter_url)
        wrong += [f"dead-lettered: {letter}" for letter in letters]
        wrong += [] if outcome in {"Done", "DoneBefore"} else [f"the job ended with {outcome!r}"]
        charged = [entry.account_id for entry in books.entries if entry.transaction_id.startswith("overdraft-interest")]
        wrong += [f"charged: {sorted(charged)}"] if len(charged) != len(set(charged)) else []
        wrong += [f"sent, but not charged: {body}" for body in sent if json.loads(body)["account_id"] not in charged]
        return ScenarioResult(faults, {name: account.balance for name, account in books.accounts.items()}, wrong)

    def _post(self, bodies: list[str]) -> None:
        Queue(list(map(record, bodies))).deliver_until_quiet(self._poster)
