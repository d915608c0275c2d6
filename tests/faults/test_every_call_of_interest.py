"""Every AWS call of a day's interest, struck by every fault, and run again until it is done: each is charged once."""

import itertools
import json
from typing import Any

import pytest

from tests.faults.every_call import Played, strike_every_call
from tests.faults.faults import Fault, Faults, Killed
from tests.local_aws.checker import read_books, violations
from tests.local_aws.clock import Clock
from tests.local_aws.dead_letters import take_dead_letters
from tests.local_aws.function import Context, Queue, charge_overdraft_interest, process_transactions, record
from tests.local_aws.server import Endpoint
from tests.local_aws.tables import create_locks_table, create_tables

EVENT = {"job": "charge_overdraft_interest", "scheduled_time": "2026-03-01T00:00:00Z"}
BALANCES = {"anna": -100, "ben": -200, "cleo": 50, "dora": -300, "emil": -400, "finn": -500, "gina": 75}
OPEN = {"type": "open_account", "transaction_id": "open", "currency": "EUR", "overdraft_limit": -1000}
POSTINGS = [OPEN | {"account_id": name} for name in BALANCES] + [
    {"transaction_id": "first", "account_id": name, "amount": amount} for name, amount in BALANCES.items()
]
LEASE_SECONDS = 40

_numbers = itertools.count(1)


def play(aws: Endpoint, dynamodb: Endpoint, between: str, fault: Fault | None, at: int) -> Played:
    """Runs the job until its time is done, and posts what it sent."""
    prefix = f"interest-fault-{next(_numbers)}"
    tables, locks_table = create_tables(dynamodb, prefix), create_locks_table(dynamodb, prefix)
    poster = process_transactions(aws, tables, dynamodb, POWERTOOLS_LOG_LEVEL="CRITICAL")
    Queue(list(map(record, POSTINGS))).deliver_until_quiet(poster)
    function = charge_overdraft_interest(
        aws, tables, locks_table, poster.QUEUE_URL, dynamodb, ANNUAL_RATE="0.365", POWERTOOLS_LOG_LEVEL="CRITICAL"
    )
    function.ACCOUNTS_PER_STEP = 3
    clock = function.job.locks.now = Clock()
    faults, bodies, done = Faults(fault, at), [], ""
    with faults.on(function.dynamodb, function.sqs):
        for _ in range(5):
            faults.revive()
            try:
                done = function.lambda_handler(EVENT, Context(LEASE_SECONDS - 10))["outcome"]
            except (Killed, Exception):  # noqa: BLE001 (Lambda tries again, whatever it was)
                clock.seconds += LEASE_SECONDS
            else:
                break
            if between == "posted before it is run again":
                sent = [message.body for message in take_dead_letters(aws, poster.QUEUE_URL)]
                Queue(list(map(record, sent))).deliver_until_quiet(poster)
                bodies += sent
    rest = [message.body for message in take_dead_letters(aws, poster.QUEUE_URL)]
    Queue(list(map(record, rest))).deliver_until_quiet(poster)
    books = read_books(dynamodb, tables)
    wrong = violations(books)
    wrong += [f"dead-lettered: {letter}" for letter in take_dead_letters(aws, poster.DEAD_LETTER_QUEUE_URL)]
    wrong += [] if done in {"DONE", "DONE_BEFORE"} else [f"the job ended with {done!r}"]
    charged = [entry.account_id for entry in books.entries if entry.transaction_id.startswith("overdraft-interest")]
    wrong += [f"charged: {sorted(charged)}"] if len(charged) != len(set(charged)) else []
    wrong += [
        f"sent and not charged: {body}" for body in rest + bodies if json.loads(body)["account_id"] not in charged
    ]
    return Played(faults, {name: account.balance for name, account in books.accounts.items()}, wrong)


@pytest.mark.parametrize("between", ["posted at the end", "posted before it is run again"])
def test_every_fault_at_every_call_leaves_what_no_fault_leaves(
    ministack: Endpoint, dynamodb: Endpoint, between: str, capsys: pytest.CaptureFixture[str]
) -> None:
    balances: Any = strike_every_call(lambda fault, at: play(ministack, dynamodb, between, fault, at), capsys)
    thousandths = {name: -balance for name, balance in BALANCES.items() if balance < 0}
    assert {name: 1000 * (BALANCES[name] - balance) for name, balance in balances.items()} == {
        name: thousandths.get(name, 0) for name in BALANCES
    }
