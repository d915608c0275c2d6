"""Journals of any history: posted by the function that does, at any time, with workers that outrun one another.

The index that others read them by may be in any state.
"""

import random
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any
from unittest import mock

from hypothesis import settings
from hypothesis import strategies as st

from conditional_writes.items import from_dynamodb, to_dynamodb
from ledger.core.posting_time import CLOCK_SKEW
from ledger.core.transaction_types.base import TransactionMessage
from tests.checkers.books import read_books, violations
from tests.checkers.statement_oracle import Journal, journals
from tests.support.late_index import AWAY, THROTTLED, LateIndex
from tests.support.strategies import messages_of, that_refer
from tools.local_aws.functions import Queue, invoke, process_transactions, record
from tools.local_aws.server import Endpoint
from tools.local_aws.tables import Tables, refill, scan

YEAR_2020 = datetime(2020, 1, 1, tzinfo=UTC)
MILLISECOND = timedelta(milliseconds=1)


class PostingBank:
    """Posts transactions with the function that does, at any time, and changes what was posted."""

    def __init__(self, ministack: Endpoint, dynamodb: Endpoint, tables: Tables) -> None:
        self.dynamodb, self.tables, self.client = dynamodb, tables, dynamodb.client("dynamodb")
        self.teller, self.other_teller = (process_transactions(ministack, tables, dynamodb) for _ in range(2))

    def post(self, *messages: dict[str, Any]) -> None:
        Queue([record(message) for message in messages]).deliver_until_quiet(self.teller)

    def post_at(self, time: datetime, *messages: dict[str, Any], meanwhile: list[dict[str, Any]] | None = None) -> None:
        """Posts as of a time. Another worker posts `meanwhile` just before the first commit, which thus loses."""
        clock = SimpleNamespace(now=time.astimezone)
        waiting = [meanwhile] if meanwhile else []

        def before_commit(**_: Any) -> None:
            if waiting:
                invoke(self.other_teller, list(map(record, waiting.pop())))

        events = self.teller.poster.client.meta.events
        events.register("before-call.dynamodb.TransactWriteItems", before_commit)
        with mock.patch("ledger.batch_poster.datetime", clock):
            invoke(self.teller, list(map(record, messages)))
        events.unregister("before-call.dynamodb.TransactWriteItems", before_commit)

    def post_hourly(self, *messages: dict[str, Any]) -> None:
        for hours, message in enumerate(messages):
            self.post_at(YEAR_2020 + timedelta(hours=hours), message)

    def journals(self) -> dict[str, Journal]:
        accounts, entries = (
            [from_dynamodb(item) for item in scan(self.dynamodb, table)]
            for table in (self.tables.accounts, self.tables.journal)
        )
        return journals(accounts, entries)

    def change(self, table: str, key: dict[str, str], **changes: Any) -> None:
        """Puts the item with these attributes changed; those that are None are removed."""
        item = from_dynamodb(self.client.get_item(TableName=table, Key=to_dynamodb(dict(key)))["Item"]) | changes
        present = {name: value for name, value in item.items() if value is not None}
        self.client.put_item(TableName=table, Item=to_dynamodb(present))

    def change_account(self, **changes: Any) -> None:
        self.change(self.tables.accounts, {"account_id": "alice"}, **changes)

    def change_entry(self, transaction_id: str, **changes: Any) -> None:
        self.change(self.tables.journal, {"account_id": "alice", "transaction_id": transaction_id}, **changes)


def opening(account_id: str = "alice", limit: int = -200) -> dict[str, Any]:
    fields = {"account_id": account_id, "currency": "EUR", "overdraft_limit": limit}
    return {"type": "open_account", "transaction_id": "open"} | fields


def payment(number: int, amount: object = 1, account_id: str = "alice") -> dict[str, Any]:
    return {"transaction_id": f"t-{number}", "account_id": account_id, "amount": amount}


type Step = tuple[timedelta, list[TransactionMessage], list[TransactionMessage] | None]
"""How much later the clock is, a batch, and what another worker posts before the batch commits."""

NAMES = ["alice", "bob", "carol"]
in_fewer_examples = settings(max_examples=max(1, settings().max_examples // 3), deadline=None)
messages = messages_of(st.sampled_from(NAMES), st.integers(1, 99).map(lambda number: f"t-{number:02}"))
MOST_STEPS = 5
steps = st.tuples(
    st.timedeltas(-CLOCK_SKEW / MOST_STEPS, timedelta(hours=1)),  # all of them together are no wrong clock
    that_refer(st.lists(messages, min_size=1, max_size=8)),
    st.none() | st.lists(messages, min_size=1, max_size=3),
)
histories = st.lists(steps, min_size=1, max_size=MOST_STEPS)


def post_history(bank: PostingBank, history: list[Step]) -> None:
    """Posts the steps with a clock that goes back now and then. In some of them another worker is first."""
    for table in (bank.tables.accounts, bank.tables.journal, bank.tables.reversals):
        refill(bank.dynamodb, table)
    time = YEAR_2020
    bank.post_at(time, *(opening(name) for name in NAMES))
    for later, batch, meanwhile in history:
        time += later
        bank.post_at(time, *map(body, batch), meanwhile=[body(one) for one in meanwhile] if meanwhile else None)
    assert violations(read_books(bank.dynamodb, bank.tables)) == []


def body(message: TransactionMessage) -> dict[str, Any]:
    return message.canonical_payload()


def times_of(journal: Journal, choose: random.Random) -> list[datetime]:
    """Some times of entries, and those a millisecond before and after."""
    posted = {datetime.fromisoformat(entry["posted_at"]) for entry in journal.entries}
    chosen = choose.sample(sorted(posted), min(3, len(posted)))
    return [*(time + MILLISECOND * off for time in chosen for off in (-1, 0, 1)), datetime(2100, 1, 1, tzinfo=UTC)]


INDEXES = ["in time", "late", "late for ever", "with holes", "away", "throttled"]


def spoil(index: LateIndex, state: str, choose: random.Random) -> None:
    index.error = {"away": AWAY, "throttled": THROTTLED}.get(state)
    index.reads = choose.randint(1, 6) if state == "late" else None
    index.hidden = set()
    if state.startswith("late"):
        index.hidden = set(range(choose.randint(1, 12), 200))
    elif state == "with holes":
        index.hidden = set(choose.sample(range(1, 30), 12))
