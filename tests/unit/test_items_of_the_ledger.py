"""Accounts and journal entries survive the conversion to items and back."""

import re
from decimal import Decimal

import pytest
from msgspec.structs import replace

from conditional_writes import key
from conditional_writes.items import from_dynamodb, to_dynamodb
from ledger.core.accounts import Account, account_from_item, account_item
from ledger.core.journal import FORMAT, JournalEntry, Outcome, entry_from_item, entry_item, outcome_of
from ledger.core.rules import Decision, RejectionReason, Status
from ledger.core.transaction_types.base import EntryId
from ledger.tables import LedgerTables
from tests.support.samples import ALICE, CLOSED, NOW, payment

POSTED = outcome_of(Decision(Decimal("-12.5"), Decimal("87.5")), replace(ALICE, version=8), NOW)
REJECTED = outcome_of(
    Decision(Decimal(0), Decimal("1E+2"), RejectionReason.OVERDRAFT_LIMIT), replace(ALICE, version=8), NOW
)


@pytest.mark.parametrize(
    "account", [ALICE, CLOSED, replace(ALICE, posted_at=NOW)], ids=["of an earlier release", "closed", "posted"]
)
def test_an_item_gives_its_account_back(account: Account) -> None:
    assert account_from_item(account_item(account)) == account
    assert account_from_item(from_dynamodb(to_dynamodb(account_item(account)))) == account
    assert account_item(account).get("posted_at") == account.posted_at


@pytest.mark.parametrize("outcome", [POSTED, REJECTED], ids=["posted", "rejected"])
def test_an_item_gives_its_journal_entry_back(outcome: Outcome) -> None:
    entry = JournalEntry("alice", "t-1", payment("-12.5").canonical_payload(), "hash", outcome)
    assert entry_from_item(entry_item(entry)) == entry
    assert entry_from_item(from_dynamodb(to_dynamodb(entry_item(entry)))) == entry


ENTRY = JournalEntry("alice", "t-1", payment("-12.5").canonical_payload(), "hash", POSTED)


def test_a_new_entry_has_a_format_and_an_entry_of_an_earlier_release_has_none() -> None:
    item = entry_item(ENTRY)
    assert item.pop("format") == FORMAT == 1
    assert entry_from_item(item) == ENTRY


@pytest.mark.parametrize(
    ("found", "sentence"),
    [
        (Decimal(2), "format: expected 1, got 2: a later release of Teller may have written it"),
        (Decimal(0), "format: expected 1, got 0: "),
        (Decimal("1.5"), "format: expected a whole number, got 1.5"),
        ("1", "format: expected Decimal, got str"),
    ],
)
def test_an_entry_of_an_unknown_format_is_refused_with_a_sentence(found: object, sentence: str) -> None:
    with pytest.raises((TypeError, ValueError), match=f"^{re.escape(sentence)}"):
        entry_from_item(entry_item(ENTRY) | {"format": found})


def test_only_a_rejections_entry_has_a_reason() -> None:
    posted, rejected = (entry_item(JournalEntry("alice", "t-1", {}, "hash", each)) for each in (POSTED, REJECTED))
    assert (posted["status"], "reason" in posted) == (Status.POSTED, False)
    assert (rejected["status"], rejected["reason"]) == (Status.REJECTED, "OVERDRAFT_LIMIT")


def test_an_entrys_key_is_its_account_and_its_transaction() -> None:
    tables = LedgerTables("accounts", "journal")
    assert tables.account_key("alice") == key("accounts", account_id="alice")
    assert tables.entry_key(EntryId("alice", "t-1")) == key("journal", account_id="alice", transaction_id="t-1")
