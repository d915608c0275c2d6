"""A transaction that is decided from an earlier journal entry: a reversal, and the resolution of a hold."""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conditional_writes import Check, Deadline, Key, Put
from conditional_writes.items import to_dynamodb
from ledger import batch_poster
from ledger.batch_poster import BatchPoster, QueuedTransaction
from ledger.core import transaction_types
from ledger.core.accounts import Account, account_from_item, account_item
from ledger.core.journal import JournalEntry, Outcome, entry_from_item, entry_item
from ledger.core.reason_codes import ReasonCode, UnknownTransaction
from ledger.core.replay import OtherSide, Replay
from ledger.core.reversals import Reversal
from ledger.core.rules import Decision
from ledger.core.transaction_types.base import Context, EntryId, TransactionMessage
from ledger.lines import Lines
from ledger.tables import LedgerTables
from tests.support.replaying import Known
from tests.support.samples import ALICE, NOW, opening, payment, reversing
from tests.support.strategies import messages_of
from tests.unit.stubs import Stubbed
from workers.queue_messages import Disposition, Done, QueueMessage, Waiting

TABLES = LedgerTables("accounts", "journal", "reversals")
NOBODY: Any = None
POSTER = BatchPoster(NOBODY, TABLES, Lines(NOBODY, "locks"))


def entry_of(transaction: TransactionMessage, amount: str = "-30") -> JournalEntry:
    outcome = Outcome("POSTED", None, Decimal(amount), Decimal(70), 8, NOW)
    return JournalEntry("alice", transaction.transaction_id, transaction.canonical_payload(), "hash", outcome)


def test_it_is_decided_from_the_entry_in_its_context() -> None:
    entry = entry_of(payment(-30))
    context = Context({EntryId("alice", "t-1"): entry}.get)
    reversal = Reversal(1, Decimal(30))
    assert reversing().decide([ALICE], context) == (Decision(Decimal(30), Decimal(130), reversal=reversal),)


def test_it_is_not_decided_while_the_entry_is_absent() -> None:
    with pytest.raises(UnknownTransaction, match=r"^of_transaction_id: account 'alice' has no transaction 't-1'$"):
        reversing().decide([ALICE], Context())


def test_a_type_that_refers_to_nothing_has_no_context() -> None:
    assert payment().referred_entries == ()


def message_of(transaction: TransactionMessage, receive_count: int = 1) -> QueuedTransaction:
    sent_at = datetime(2026, 1, 31, tzinfo=UTC)
    return QueueMessage("m-1", "receipt-1", "{}", receive_count, sent_at, {}, content=transaction)


def planned(messages: Sequence[QueuedTransaction], items: Mapping[Key, Any]) -> Any:
    """The plan from all items that these messages need. A decision that needs more of them gets more."""
    keys = POSTER.keys_of(messages, items)
    while True:
        plan = POSTER.plan(messages, {key: items.get(key) for key in keys}, {}, datetime.fromisoformat(NOW))
        if not isinstance(plan.result, batch_poster._ToRead):
            return plan
        assert not plan.writes
        keys += plan.result.keys


def dispositions(transactions: Iterable[TransactionMessage], items: Mapping[Key, Any]) -> list[Disposition]:
    plan = planned(list(map(message_of, transactions)), items)
    return list(plan.result.dispositions.values())


def outcome_of(disposition: Disposition | None) -> Outcome:
    assert isinstance(disposition, Done)
    assert isinstance(disposition.outcome, Outcome)
    return disposition.outcome


ALICES = {TABLES.account_key("alice"): account_item(ALICE)}
PAID = {TABLES.entry_key(EntryId("alice", "t-1")): entry_item(entry_of(payment(-30)))}


def test_a_plan_decides_it_from_the_entry_in_the_table() -> None:
    [reversed_] = dispositions([reversing()], ALICES | PAID)
    assert (outcome_of(reversed_).amount, outcome_of(reversed_).balance_after) == (30, 130)


def test_a_plan_decides_it_from_an_entry_of_the_same_batch() -> None:
    paid, reversed_ = dispositions([payment(-30), reversing()], ALICES)
    assert (outcome_of(paid).balance_after, outcome_of(reversed_).balance_after) == (70, 100)


def test_it_goes_back_to_the_queue_while_the_entry_is_absent_and_holds_up_no_other() -> None:
    early, paid = dispositions([reversing(), payment(-30)], ALICES)
    assert early == Waiting(
        ReasonCode.UNKNOWN_TRANSACTION, "of_transaction_id: account 'alice' has no transaction 't-1'"
    )
    assert outcome_of(paid).balance_after == 70
    plan = planned([message_of(reversing())], ALICES)
    assert not plan.writes


def test_a_repetition_is_replayed() -> None:
    first, repeated = dispositions([reversing(), reversing()], ALICES | PAID)
    assert [outcome_of(first).replayed, outcome_of(repeated).replayed] == [False, True]


def post(dynamodb: Stubbed, message: QueuedTransaction) -> None:
    BatchPoster(dynamodb.client, TABLES, Lines(dynamodb.client, "locks")).post([message], Deadline.after(60))


def test_the_entry_is_read_with_the_accounts_at_the_first_delivery(stubbed_dynamodb: Stubbed) -> None:
    found = {key.table: [to_dynamodb(item)] for key, item in (ALICES | PAID).items()}
    stubbed_dynamodb.answers("batch_get_item", {"Responses": found, "UnprocessedKeys": {}})
    stubbed_dynamodb.answers("transact_write_items")
    message = message_of(reversing())
    post(stubbed_dynamodb, message)
    asked = stubbed_dynamodb.parameters[0]["RequestItems"]
    for table in ("journal", "reversals"):
        assert [key["transaction_id"]["S"] for key in asked[table]["Keys"]] == ["t-1"]
    assert outcome_of(message.disposition).balance_after == 130


def written(transactions: Sequence[TransactionMessage]) -> dict[Key, Any]:
    """The items after these transactions, each in a commit of its own whose entries were read."""
    items: dict[Key, Any] = {}
    for transaction in transactions:
        for each in planned([message_of(transaction, receive_count=2)], items).writes:
            if not isinstance(each, Check):
                items[each.key] = each.item if isinstance(each, Put) else (items[each.key] or {}) | each.values
    return items


def journal_of(items: Mapping[Key, Any], account_id: str = "alice") -> list[JournalEntry]:
    entries = [entry_from_item(item) for key, item in items.items() if item and key.table == "journal"]
    return [entry for entry in entries if entry.account_id == account_id]


def account_of(items: Mapping[Key, Any], account_id: str = "alice") -> Account:
    return account_from_item(items[TABLES.account_key(account_id)])


def found_by_replay(items: Mapping[Key, Any], entries: Sequence[JournalEntry], account_id: str = "alice") -> list[str]:
    other_sides = {
        entry.transaction_id: OtherSide(account_of(items, entry.account_id), entry)
        for other in {"alice", "bob"} - {account_id}
        for entry in journal_of(items, other)
    }
    replay, in_order = Replay(account_of(items, account_id)), sorted(entries, key=version_of)
    around = Known(
        other_sides, {entry.entry_id: entry for entry in [*journal_of(items, "alice"), *journal_of(items, "bob")]}
    )
    now = datetime.fromisoformat(NOW)
    found = itertools.chain(replay.mismatches(in_order, around, now), replay.last_mismatches())
    return [mismatch.what for mismatch in found]


def version_of(entry: JournalEntry) -> int:
    return entry.outcome.account_version


REVERSED = [opening("-100"), payment(-30), reversing(), reversing("r-1", transaction_id="r-2")]


def test_the_journal_replay_finds_nothing_wrong() -> None:
    items = written(REVERSED)
    assert account_of(items).version == 4
    assert found_by_replay(items, journal_of(items)) == []


@pytest.mark.parametrize("transaction_id", ["t-1", "r-1"])
def test_the_journal_replay_finds_an_entry_that_was_changed(transaction_id: str) -> None:
    items = written(REVERSED)
    entries = [
        msgspec.structs.replace(entry, outcome=msgspec.structs.replace(entry.outcome, amount=Decimal(7)))
        if entry.transaction_id == transaction_id
        else entry
        for entry in journal_of(items)
    ]
    assert set(found_by_replay(items, entries)) == {"wrong decision"}


BOTH = st.sampled_from(["alice", "bob"])
TRANSACTIONS = st.lists(messages_of(BOTH, st.sampled_from([f"t-{number}" for number in range(8)])), max_size=20).map(
    lambda transactions: [*(opening("-1000", account_id=name) for name in ("alice", "bob")), *transactions]
)


@given(TRANSACTIONS)
def test_whatever_it_refers_to_the_journal_replay_decides_alike(transactions: list[TransactionMessage]) -> None:
    items = written(transactions)
    for name in ("alice", "bob"):
        assert found_by_replay(items, journal_of(items, name), name) == []


def test_every_registered_type_is_among_the_messages_that_properties_are_tried_with() -> None:
    types: set[str] = set()

    @settings(max_examples=500)
    @given(messages_of(st.sampled_from(["alice", "bob"]), st.sampled_from(["t-1", "t-2"])))
    def collect(transaction: TransactionMessage) -> None:
        types.add(type(transaction).__name__)

    collect()
    assert types == {each.__name__ for each in transaction_types.TRANSACTION_TYPES.values()}
