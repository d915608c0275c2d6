"""The function read_accounts on both engines: its answers about accounts whose transactions were just posted."""

import random
from datetime import UTC, datetime, timedelta
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conditional_writes.items import from_dynamodb, to_dynamodb
from ledger import journal_versions, statements
from ledger.core.posting_time import CLOCK_SKEW
from ledger.core.transaction_types.base import TransactionMessage
from tests.checkers.books import read_books, violations
from tests.checkers.statement_oracle import Journal, journals
from tests.support.late_index import AWAY, THROTTLED, LateIndex
from tests.support.strategies import messages_of
from tools.local_aws.functions import Context, Queue, invoke, process_transactions, read_accounts, record
from tools.local_aws.meter import Meter
from tools.local_aws.server import Endpoint
from tools.local_aws.tables import Tables, refill, scan

YEAR_2020 = datetime(2020, 1, 1, tzinfo=UTC)
MILLISECOND = timedelta(milliseconds=1)


class Bank:
    """The functions that post and read. `index` is the index as the latter sees it."""

    def __init__(self, ministack: Endpoint, dynamodb: Endpoint, tables: Tables) -> None:
        self.dynamodb, self.tables, self.client = dynamodb, tables, dynamodb.client("dynamodb")
        self.teller, self.other_teller = (process_transactions(ministack, tables, dynamodb) for _ in range(2))
        self.function: ModuleType = read_accounts(dynamodb, tables)
        self.meter = Meter(self.function.reader.client)
        self.index = LateIndex(self.function.reader.client)

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

    def read(self, kind: str, account_id: str = "alice", **fields: Any) -> dict[str, Any]:
        return self.invoke({"read": kind, "account_id": account_id} | fields)

    def invoke(self, event: Any) -> dict[str, Any]:
        answer: dict[str, Any] = self.function.lambda_handler(event, Context(60))
        return answer


@pytest.fixture
def bank(ministack: Endpoint, dynamodb: Endpoint, tables: Tables, monkeypatch: pytest.MonkeyPatch) -> Bank:
    monkeypatch.setattr(journal_versions, "PAUSES_SECONDS", (0.001, 0.001))
    return Bank(ministack, dynamodb, tables)


def opening(account_id: str = "alice", limit: int = -200) -> dict[str, Any]:
    fields = {"account_id": account_id, "currency": "EUR", "overdraft_limit": limit}
    return {"type": "open_account", "transaction_id": "open"} | fields


def payment(number: int, amount: object = 1, account_id: str = "alice") -> dict[str, Any]:
    return {"transaction_id": f"t-{number}", "account_id": account_id, "amount": amount}


def test_a_statement_has_the_last_entries_in_the_order_of_their_versions(bank: Bank) -> None:
    bank.post(opening(), payment(1, 100), payment(2, "-250.50"), payment(3, -100))
    answer = bank.read("statement", last=3)
    posted_at = [entry.pop("posted_at") for entry in answer["entries"]]
    assert posted_at == sorted(posted_at)
    assert answer == {
        "account_id": "alice",
        "account_version": 4,
        "entries": [
            {
                "transaction_id": "t-1",
                "account_version": 2,
                "status": "POSTED",
                "amount": "100",
                "balance_after": "100",
                "request": {"type": "transaction", "transaction_id": "t-1", "account_id": "alice", "amount": "100"},
            },
            {
                "transaction_id": "t-2",
                "account_version": 3,
                "status": "POSTED",
                "amount": "-250.5",
                "balance_after": "-150.5",
                "request": {"type": "transaction", "transaction_id": "t-2", "account_id": "alice", "amount": "-250.5"},
            },
            {
                "transaction_id": "t-3",
                "account_version": 4,
                "status": "REJECTED",
                "reason": "OVERDRAFT_LIMIT",
                "amount": "0",
                "balance_after": "-150.5",
                "request": {"type": "transaction", "transaction_id": "t-3", "account_id": "alice", "amount": "-100"},
            },
        ],
        "complete": True,
        "missing_versions": [],
        "next": None,
    }


# --- any history, by the oracle -----------------------------------------------------------------------------

type Step = tuple[timedelta, list[TransactionMessage], list[TransactionMessage] | None]
"""How much later the clock is, a batch, and what another worker posts before the batch commits."""

NAMES = ["alice", "bob", "carol"]
in_fewer_examples = settings(max_examples=max(1, settings().max_examples // 3), deadline=None)
messages = messages_of(st.sampled_from(NAMES), st.integers(1, 99).map(lambda number: f"t-{number:02}"))
steps = st.tuples(
    st.timedeltas(-CLOCK_SKEW / 3, timedelta(hours=1)),
    st.lists(messages, min_size=1, max_size=8),
    st.none() | st.lists(messages, min_size=1, max_size=3),
)
histories = st.lists(steps, min_size=1, max_size=5)


def post_history(bank: Bank, history: list[Step]) -> None:
    """Posts the steps with a clock that goes back now and then. In some of them another worker is first."""
    for table in (bank.tables.accounts, bank.tables.journal):
        refill(bank.dynamodb, table)
    time = YEAR_2020
    bank.post_at(time, *(opening(name) for name in NAMES))
    for later, batch, meanwhile in history:
        time += later
        bank.post_at(time, *map(body, batch), meanwhile=[body(one) for one in meanwhile] if meanwhile else None)
    assert not violations(read_books(bank.dynamodb, bank.tables))


def body(message: TransactionMessage) -> dict[str, Any]:
    return message.canonical_payload()


def times_of(journal: Journal, choose: random.Random) -> list[datetime]:
    """Some times of entries, and those a millisecond before and after."""
    posted = {datetime.fromisoformat(entry["posted_at"]) for entry in journal.entries}
    chosen = choose.sample(sorted(posted), min(3, len(posted)))
    return [*(time + MILLISECOND * off for time in chosen for off in (-1, 0, 1)), datetime(2100, 1, 1, tzinfo=UTC)]


def without_final(answer: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in answer.items() if name not in ("final", "at")}


INDEXES = ["in time", "late", "late for ever", "with holes", "away", "throttled"]


def spoil(index: LateIndex, state: str, choose: random.Random) -> None:
    index.error = {"away": AWAY, "throttled": THROTTLED}.get(state)
    index.reads = choose.randint(1, 6) if state == "late" else None
    index.hidden = set()
    if state.startswith("late"):
        index.hidden = set(range(choose.randint(1, 12), 200))
    elif state == "with holes":
        index.hidden = set(choose.sample(range(1, 30), 12))


def test_the_answers_about_any_history_are_the_oracles_in_any_state_of_the_index(bank: Bank) -> None:
    @in_fewer_examples
    @given(histories, st.randoms(use_true_random=False))
    def try_history(history: list[Step], choose: random.Random) -> None:
        post_history(bank, history)
        for name, journal in bank.journals().items():
            spoil(bank.index, choose.choice(INDEXES), choose)
            bank.index.limits = {"index": choose.randint(2, 40), "table": choose.randint(1, 40)}
            check_answers(bank, name, journal, choose)

    try_history()


def check_answers(bank: Bank, name: str, journal: Journal, choose: random.Random) -> None:
    assert bank.read("account", name) == journal.account_answer()
    last = choose.randint(1, 20)
    assert bank.read("statement", name, last=last) == journal.statement(journal.last(last), last)
    first, limit = choose.randint(1, len(journal.entries) + 1), choose.randint(1, 10)
    wanted = range(first, choose.randint(first, len(journal.entries) + 2) + 1)
    check_pages(bank, name, journal, list(wanted), limit, from_version=first, to_version=wanted[-1])
    times = times_of(journal, choose)
    for time in times:
        answer = bank.read("balance", name, at=time.isoformat())
        assert without_final(answer) == journal.balance(time)
        assert answer["final"] == (time.year < 2100)
    begin, end = sorted(choose.sample(times, 2))
    if begin < end:
        versions = journal.between(begin, end)
        check_pages(bank, name, journal, versions, limit, **{"from": begin.isoformat(), "to": end.isoformat()})
    check_pages(bank, name, journal, journal.between(begin, None), limit, **{"from": begin.isoformat()})
    for transaction_id in choose.sample([entry["transaction_id"] for entry in journal.entries] + ["t-none"], 1):
        answer = bank.read("transaction", name, transaction_id=transaction_id)
        assert answer == journal.transaction(transaction_id)


def check_pages(bank: Bank, name: str, journal: Journal, versions: list[int], limit: int, **fields: Any) -> None:
    """The statement is the oracle's, page after page."""
    while True:
        answer = bank.read("statement", name, limit=limit, **fields)
        assert without_final(answer) == journal.statement(versions, limit)
        versions, fields = versions[limit:], answer["next"]
        if fields is None:
            return


def test_answers_without_what_neither_the_index_nor_a_long_table_can_tell_say_so(
    bank: Bank, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(statements, "MOST_TABLE_PAGES", 1)

    @in_fewer_examples
    @given(histories, st.randoms(use_true_random=False))
    def try_history(history: list[Step], choose: random.Random) -> None:
        post_history(bank, history)
        for name, journal in bank.journals().items():
            spoil(bank.index, choose.choice(["late for ever", "with holes"]), choose)
            searched = choose.randint(1, 5)
            bank.index.limits = {"table": searched}
            by_id = sorted(journal.entries, key=lambda entry: str(entry["transaction_id"]).encode())
            unknown = bank.index.hidden - {int(entry["account_version"]) for entry in by_id[:searched]}
            check_incomplete(bank, name, journal, unknown, choose)

    try_history()


def check_incomplete(bank: Bank, name: str, journal: Journal, unknown: set[int], choose: random.Random) -> None:
    """A statement of versions names exactly those that are unknown. An answer about times is right, or not complete."""
    last = choose.randint(1, 20)
    assert bank.read("statement", name, last=last) == journal.statement(journal.last(last), last, unknown)
    times = times_of(journal, choose)
    for time in times:
        answer = without_final(bank.read("balance", name, at=time.isoformat()))
        if answer["complete"]:
            assert answer == journal.balance(time)
        else:
            assert unknown
            assert (answer["balance"], answer["account_version"], answer["posted_at"]) == (None, None, None)
    begin, end = sorted(choose.sample(times, 2))
    if begin == end:
        return
    fields = {"from": begin.isoformat(), "to": end.isoformat()}
    answer = bank.read("statement", name, limit=1000, **fields)
    whole = journal.statement(journal.between(begin, end), 1000)
    if answer["complete"]:
        assert without_final(answer) == whole
    else:
        assert set(answer["missing_versions"]) <= unknown
        assert all(entry in whole["entries"] for entry in answer["entries"])
        found = {entry["account_version"] for entry in answer["entries"]}
        assert {entry["account_version"] for entry in whole["entries"]} - found <= set(answer["missing_versions"])
