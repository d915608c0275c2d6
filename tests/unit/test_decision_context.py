"""A transaction that is decided from an earlier journal entry: a reversal, and the resolution of a hold."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import pytest

from conditional_writes import Check, Condition, Deadline, Key, Put, Update, absent, key, version_is
from conditional_writes.core.items import to_dynamodb
from ledger.batch_poster import BatchPoster
from ledger.core.journal import EntryId, JournalEntry, Outcome, entry_item
from ledger.core.reason_codes import ReasonCode
from ledger.core.transaction_types.base import TransactionMessage
from ledger.fold import QueuedTransaction
from ledger.lines import Lines
from tests.support import samples
from tests.support.folding import (
    ALICE_AND_BOB,
    TABLES,
    fold,
    folded_in_batches,
    items_of,
    message_of,
    outcome_of,
)
from tests.support.samples import ALICE, NOW, payment, reversing, transfer, voiding
from tests.unit.stubs import Stubbed
from workers.queue_messages import Waiting


def entry_of(transaction: TransactionMessage, amount: str = "-30") -> JournalEntry:
    outcome = Outcome("POSTED", None, Decimal(amount), Decimal(70), 8, NOW, "EUR")
    return samples.entry_of(transaction, outcome)


ALICES = items_of(ALICE)
PAID_KEY = TABLES.entry_key(EntryId("alice", "t-1"))
PAID = {PAID_KEY: entry_item(entry_of(payment(-30)))}


COUNT = key("reversals", account_id="alice", transaction_id="t-1")


def after(items: Mapping[Key, Any], *transactions: TransactionMessage) -> dict[Key, Any]:
    """The items after a commit of these transactions."""
    [items, [_]] = folded_in_batches(transactions, items)
    return items


TRANSFERRED = after(ALICE_AND_BOB, transfer(5))


def of_reversals(items: Mapping[Key, Any], *transactions: TransactionMessage) -> list[tuple[type, Key, Condition]]:
    """The commit's writes to the Reversals table."""
    writes = fold(transactions, items).writes
    return [(type(each), each.key, each.condition) for each in writes if each.key.table == "reversals"]


@pytest.mark.parametrize("account_id", ["alice", "bob"])
def test_what_was_reversed_is_counted_on_the_home_by_its_version(account_id: str) -> None:
    first, second = (
        reversing(amount=2, transaction_id=name, account_id=account_id, of_account_id="alice")
        for name in ("r-1", "r-2")
    )
    assert of_reversals(TRANSFERRED, first) == [(Put, COUNT, absent("account_id"))]
    items = after(TRANSFERRED, first)
    counted = {"amount": 2, "version": 1, "reversed_by": "r-1", "account_version": 9}
    assert items[COUNT] == {"account_id": "alice", "transaction_id": "t-1"} | counted
    assert of_reversals(items, second) == [(Update, COUNT, version_is(1))]
    items = after(items, second)
    assert (items[COUNT]["amount"], items[COUNT]["version"], items[COUNT]["reversed_by"]) == (4, 2, "r-2")


def test_a_rejected_reversal_asserts_what_was_reversed_and_changes_nothing_of_it() -> None:
    assert of_reversals(TRANSFERRED, reversing(amount=6)) == [(Check, COUNT, absent("account_id"))]
    items = after(TRANSFERRED, reversing(amount=2))
    too_much = reversing(amount=4, transaction_id="r-2")
    assert of_reversals(items, too_much) == [(Check, COUNT, version_is(1))]
    assert after(items, too_much)[COUNT] == items[COUNT]


def test_reversals_of_one_transaction_in_one_commit_are_one_write_and_a_rejected_one_needs_no_check() -> None:
    parts = [reversing(amount=2, transaction_id=f"r-{number}") for number in range(3)]
    assert of_reversals(TRANSFERRED, *parts) == [(Put, COUNT, absent("account_id"))]
    counted = after(TRANSFERRED, *parts)[COUNT]
    assert (counted["amount"], counted["version"], counted["reversed_by"]) == (4, 2, "r-1")


def posted(dynamodb: Stubbed, *transactions: TransactionMessage) -> list[QueuedTransaction]:
    messages = list(map(message_of, transactions))
    BatchPoster(dynamodb.client, TABLES, Lines(dynamodb.client, "locks")).post(messages, Deadline.after(60))
    return messages


def entries_asked_for(dynamodb: Stubbed, request: int, table: str = "journal") -> list[dict[str, Any]]:
    keys: list[dict[str, Any]] = dynamodb.parameters[request]["RequestItems"][table]["Keys"]
    return keys


def test_the_second_account_of_a_reversal_is_in_its_group_and_read_before_the_fold(empty_dynamodb: Stubbed) -> None:
    own_entry = TABLES.entry_key(EntryId("alice", "t-1"))
    empty_dynamodb.finds({key: item for key, item in TRANSFERRED.items() if key != own_entry})
    of_payees_side = reversing(account_id="bob", of_account_id="alice")
    messages = posted(empty_dynamodb, of_payees_side, payment(transaction_id="t-2"))
    assert empty_dynamodb.operations == ["BatchGetItem", "TransactWriteItems"]
    asked = entries_asked_for(empty_dynamodb, 0, "reversals")
    assert asked == [to_dynamodb({"account_id": "alice", "transaction_id": "t-1"})]
    assert [outcome_of(message.disposition).status for message in messages] == ["POSTED", "POSTED"]


def test_a_hold_that_isnt_open_is_looked_up_only_then(empty_dynamodb: Stubbed) -> None:
    empty_dynamodb.finds(ALICES)
    [message] = posted(empty_dynamodb, voiding())
    assert entries_asked_for(empty_dynamodb, 1) == [to_dynamodb({"account_id": "alice", "transaction_id": "h-1"})]
    assert message.disposition == Waiting(ReasonCode.UNKNOWN_HOLD, "hold_id: account 'alice' has no transaction 'h-1'")


def test_the_entry_is_read_with_the_accounts_at_the_first_delivery(empty_dynamodb: Stubbed) -> None:
    empty_dynamodb.finds(ALICES | PAID)
    [message] = posted(empty_dynamodb, reversing())
    for table in ("journal", "reversals"):
        assert [key["transaction_id"]["S"] for key in entries_asked_for(empty_dynamodb, 0, table)] == ["t-1"]
    assert outcome_of(message.disposition).balance_after == 130
