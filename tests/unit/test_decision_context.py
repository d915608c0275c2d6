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

from conditional_writes import Check, Condition, Deadline, Key, Put, Update, Write, absent, key, version_is
from conditional_writes.items import to_dynamodb
from ledger import batch_poster
from ledger.batch_poster import BatchPoster, QueuedTransaction
from ledger.core import transaction_types
from ledger.core.accounts import Account, account_from_item, account_item
from ledger.core.journal import JournalEntry, Outcome, entry_from_item, entry_item, payload_hash_of
from ledger.core.reason_codes import ReasonCode, UnknownTransaction
from ledger.core.replay import OtherSide, Replay
from ledger.core.reversals import Reversal, reversed_from_item
from ledger.core.rules import Decision
from ledger.core.transaction_types.base import Context, EntryId, TransactionMessage
from ledger.lines import Lines
from ledger.tables import LedgerTables
from tests.support.replaying import Known
from tests.support.samples import ALICE, BOB, NOW, opening, payment, reversing, transfer, voiding
from tests.support.strategies import messages_of
from tests.unit.stubs import Stubbed
from workers.queue_messages import Again, Disposition, Done, QueueMessage, Waiting

TABLES = LedgerTables("accounts", "journal", "reversals")
NOBODY: Any = None
POSTER = BatchPoster(NOBODY, TABLES, Lines(NOBODY, "locks"))


def entry_of(transaction: TransactionMessage, amount: str = "-30") -> JournalEntry:
    outcome = Outcome("POSTED", None, Decimal(amount), Decimal(70), 8, NOW, "EUR")
    request = transaction.canonical_payload()
    return JournalEntry("alice", transaction.transaction_id, request, payload_hash_of(request), outcome)


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


def test_an_entry_whose_request_was_changed_decides_nothing_and_the_message_comes_again() -> None:
    """By its request's accounts and its amount a reversal would give back what never was paid."""
    [(key, item)] = PAID.items()
    changed = {key: item | {"request": item["request"] | {"amount": "-3000"}}}
    [again] = dispositions([reversing()], ALICES | changed)
    assert isinstance(again, Again)
    assert "'t-1'): its payload_hash isn't that of its request" in again.reason


def test_a_repetition_is_replayed() -> None:
    first, repeated = dispositions([reversing(), reversing()], ALICES | PAID)
    assert [outcome_of(first).replayed, outcome_of(repeated).replayed] == [False, True]


BOTH_ACCOUNTS = ALICES | {TABLES.account_key("bob"): account_item(BOB)}
COUNT = key("reversals", account_id="alice", transaction_id="t-1")


def after(items: Mapping[Key, Any], *transactions: TransactionMessage) -> dict[Key, Any]:
    """The items after a commit of these transactions."""
    return as_written(planned(list(map(message_of, transactions)), items).writes, items)


def of_reversals(items: Mapping[Key, Any], *transactions: TransactionMessage) -> list[tuple[type, Key, Condition]]:
    """The commit's writes to the Reversals table."""
    writes = planned(list(map(message_of, transactions)), items).writes
    return [(type(each), each.key, each.condition) for each in writes if each.key.table == "reversals"]


@pytest.mark.parametrize("account_id", ["alice", "bob"])
def test_what_was_reversed_is_counted_under_the_first_account_by_its_version(account_id: str) -> None:
    items = after(BOTH_ACCOUNTS, transfer(5))
    first, second = (
        reversing(amount=2, transaction_id=transaction_id, account_id=account_id) for transaction_id in ("r-1", "r-2")
    )
    assert of_reversals(items, first) == [(Put, COUNT, absent("account_id"))]
    items = after(items, first)
    assert items[COUNT] == {
        "account_id": "alice",
        "transaction_id": "t-1",
        "amount": 2,
        "version": 1,
        "reversed_by": "r-1",
        "account_version": 9,
    }
    assert of_reversals(items, second) == [(Update, COUNT, version_is(1))]
    items = after(items, second)
    assert (items[COUNT]["amount"], items[COUNT]["version"], items[COUNT]["reversed_by"]) == (4, 2, "r-2")


def test_a_rejected_reversal_asserts_what_was_reversed_and_changes_nothing_of_it() -> None:
    items = after(BOTH_ACCOUNTS, transfer(5))
    assert of_reversals(items, reversing(amount=6)) == [(Check, COUNT, absent("account_id"))]
    items = after(items, reversing(amount=2))
    too_much = reversing(amount=4, transaction_id="r-2")
    assert of_reversals(items, too_much) == [(Check, COUNT, version_is(1))]
    assert after(items, too_much)[COUNT] == items[COUNT]


def test_reversals_of_one_transaction_in_one_commit_are_one_write_and_a_rejected_one_needs_no_check() -> None:
    items = after(BOTH_ACCOUNTS, transfer(5))
    parts = [reversing(amount=2, transaction_id=f"r-{number}") for number in range(3)]
    assert of_reversals(items, *parts) == [(Put, COUNT, absent("account_id"))]
    items = after(items, *parts)
    assert (items[COUNT]["amount"], items[COUNT]["version"], items[COUNT]["reversed_by"]) == (4, 2, "r-1")


@pytest.mark.parametrize("account_id", ["alice", "bob"])
def test_a_reversal_that_was_posted_is_replayed_and_counted_once(account_id: str) -> None:
    """On a first delivery its own entries aren't read: the refused commit hands them back."""
    reversal = reversing(amount=2, account_id=account_id)
    items = after(BOTH_ACCOUNTS, transfer(5), reversal)
    for receive_count in (1, 2):
        message = message_of(reversal, receive_count)
        observed = {each: items.get(each) for each in POSTER.keys_of([message], items)}
        plan = POSTER.plan([message], observed, {}, datetime.fromisoformat(NOW))
        if receive_count == 1:
            assert plan.writes
            handed_back = {each.key: items[each.key] for each in plan.writes if each.key.table == "journal"}
            plan = POSTER.plan([message], observed | handed_back, {}, datetime.fromisoformat(NOW))
        assert not plan.writes
        assert outcome_of(plan.result.dispositions[message]).replayed


def test_the_second_account_of_a_reversal_is_in_its_group_and_read_before_the_fold(stubbed_dynamodb: Stubbed) -> None:
    items = after(BOTH_ACCOUNTS, transfer(5))

    def found(*keys: Key) -> None:
        responses: dict[str, list[Any]] = {}
        for each in keys:
            responses.setdefault(each.table, []).append(to_dynamodb(items[each]))
        stubbed_dynamodb.answers("batch_get_item", {"Responses": responses, "UnprocessedKeys": {}})

    alice, bob = (TABLES.account_key(name) for name in ("alice", "bob"))
    found(bob, alice, TABLES.entry_key(EntryId("bob", "t-1")))
    stubbed_dynamodb.answers("batch_get_item", {"Responses": {}, "UnprocessedKeys": {}})
    stubbed_dynamodb.answers("transact_write_items")
    messages = list(map(message_of, [reversing(account_id="bob"), payment(transaction_id="t-2")]))
    BatchPoster(stubbed_dynamodb.client, TABLES, Lines(stubbed_dynamodb.client, "locks")).post(
        messages, Deadline.after(60)
    )
    assert stubbed_dynamodb.operations == ["BatchGetItem", "BatchGetItem", "TransactWriteItems"]
    [asked] = stubbed_dynamodb.parameters[1]["RequestItems"].values()
    assert asked["Keys"] == [to_dynamodb({"account_id": "alice", "transaction_id": "t-1"})]
    assert [outcome_of(message.disposition).status for message in messages] == ["POSTED", "POSTED"]


def test_a_hold_that_isnt_open_is_looked_up_only_then(stubbed_dynamodb: Stubbed) -> None:
    found = {"accounts": [to_dynamodb(account_item(ALICE))]}
    stubbed_dynamodb.answers("batch_get_item", {"Responses": found, "UnprocessedKeys": {}})
    stubbed_dynamodb.answers("batch_get_item", {"Responses": {}, "UnprocessedKeys": {}})
    message = message_of(voiding())
    post(stubbed_dynamodb, message)
    assert stubbed_dynamodb.parameters[1]["RequestItems"]["journal"]["Keys"] == [
        to_dynamodb({"account_id": "alice", "transaction_id": "h-1"})
    ]
    assert message.disposition == Waiting(ReasonCode.UNKNOWN_HOLD, "hold_id: account 'alice' has no transaction 'h-1'")


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
        items = as_written(planned([message_of(transaction, receive_count=2)], items).writes, items)
    return items


def as_written(writes: Iterable[Write], before: Mapping[Key, Any]) -> dict[Key, Any]:
    """The items after the writes."""
    items = dict(before)
    for each in writes:
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
    all_entries = [*journal_of(items, "alice"), *journal_of(items, "bob")]
    reversals = [reversed_from_item(item) for key, item in items.items() if item and key.table == "reversals"]
    around = Known(
        other_sides,
        {entry.entry_id: entry for entry in all_entries},
        {EntryId(each.account_id, each.transaction_id): each for each in reversals},
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
