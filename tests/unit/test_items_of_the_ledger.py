"""Accounts and journal entries survive the conversion to items and back."""

import re
from decimal import Decimal

import pytest
from msgspec.structs import FieldInfo, fields, replace

from conditional_writes import key
from conditional_writes.core.items import from_dynamodb, to_dynamodb
from ledger.core.accounts import Account, AccountStatus, Frozen, account_from_item, account_item
from ledger.core.holds import OpenHold
from ledger.core.interest import Interest
from ledger.core.journal import ACCOUNT_FIELDS, FORMAT, EntryId, Outcome, Sender, Sent, entry_from_item, entry_item
from ledger.core.limits import AccountLimit, Limit, Of
from ledger.core.pools import Pool
from ledger.core.reversals import Reversal, Reversed, reversed_from_item, reversed_item
from ledger.core.rules import Decision, RejectionReason
from ledger.core.transaction_types import TRANSACTION_TYPES
from ledger.core.transaction_types.base import TransactionMessage, outcome_of
from ledger.tables import LedgerTables
from tests.support.samples import ALICE, CLOSED, NOW, SENDER, entry_of, payment, posting, reversing, transfer

AFTER = replace(ALICE, version=8, posted_at=NOW)
POSTED = outcome_of(Decision(Decimal("-12.5"), Decimal("87.5")), AFTER)
REJECTED = outcome_of(Decision(Decimal(0), Decimal("1E+2"), RejectionReason.OVERDRAFT_LIMIT), AFTER)
HOLDS = {"h-1": OpenHold(Decimal(7)), "\U0001f3e6": OpenHold(Decimal("0.5"), "2026-03-01T12:00:00+00:00")}
HELD = replace(ALICE, held=Decimal("7.5"), holds=HOLDS, decimal_places=2)
ACCOUNTS = {
    "of an earlier release": ALICE,
    "closed": CLOSED,
    "without holds, after it had some": replace(HELD, held=Decimal(0), holds={}),
    "of a currency without decimals": replace(ALICE, decimal_places=0),
}
OF_EVERYTHING = Account(
    account_id="alice",
    balance=Decimal("12.5"),
    overdraft_limit=Decimal(-50),
    currency="EUR",
    status=AccountStatus.OPEN,
    version=7,
    posted_at=NOW,
    held=Decimal("7.5"),
    holds=HOLDS,
    decimal_places=2,
    seal="seal",
    frozen=Frozen(credits=True),
    interest=Interest(Decimal("0.12"), Decimal(3)),
    limits=(AccountLimit(Limit(name="most", of=Of.BALANCE, amount=Decimal(100))),),
    pool=Pool(4, 4),
)
REVERSED = Reversed("alice", "t-1", Decimal("12.5"), 2, "r-2", 9)
REDRIVEN = Sender(SENDER.sent, Sent("AROAEXAMPLE:shop", "m-0", "2026-01-30T12:00:00.000+00:00"))


@pytest.mark.parametrize("account", ACCOUNTS.values(), ids=ACCOUNTS)
def test_an_item_gives_its_account_back(account: Account) -> None:
    assert account_from_item(from_dynamodb(to_dynamodb(account_item(account)))) == account
    assert account_item(account).get("posted_at") == account.posted_at


@pytest.mark.parametrize("field", fields(Account), ids=lambda field: field.name)
def test_an_item_gives_each_field_of_an_account_back(field: FieldInfo) -> None:
    name, expected = field.name, getattr(OF_EVERYTHING, field.name)
    assert expected != field.default, f"{name} isn't in OF_EVERYTHING"
    found = account_from_item(from_dynamodb(to_dynamodb(account_item(OF_EVERYTHING))))
    assert getattr(found, name) == expected, f"account_item or account_from_item lacks {name}"


def test_an_account_that_never_had_a_hold_has_no_attributes_of_them() -> None:
    assert not {"held", "holds", "decimal_places"} & account_item(ALICE).keys()
    emptied = account_item(replace(HELD, held=Decimal(0), holds={}))
    assert (emptied["held"], emptied["holds"]) == (0, {})


NO_TIME = "holds: expires_at: expected a time with its offset, got '2026-03-01T12:00:00'"
NO_HOLDS: list[tuple[object, str]] = [
    ([], "holds: expected dict, got list"),
    ({"h": {}}, "'remaining'"),
    ({"h": Decimal(1)}, "holds: expected a map for each hold, got Decimal"),
    ({"h": {"remaining": Decimal(0)}}, "holds: remaining: expected a number greater than zero, got 0"),
    ({"h": {"remaining": Decimal(-5)}}, "holds: remaining: expected a number greater than zero, got -5"),
    ({"h": {"remaining": "5"}}, "remaining: expected Decimal, got str"),
    ({"h": {"remaining": Decimal(5), "expires_at": "2026-03-01T12:00:00"}}, NO_TIME),
]


@pytest.mark.parametrize(("holds", "sentence"), NO_HOLDS)
def test_a_damaged_hold_is_refused_with_a_sentence(holds: object, sentence: str) -> None:
    with pytest.raises((KeyError, TypeError, ValueError), match=re.escape(sentence)):
        account_from_item(account_item(HELD) | {"holds": holds})


def test_an_item_gives_back_what_was_reversed() -> None:
    assert reversed_from_item(from_dynamodb(to_dynamodb(reversed_item(REVERSED)))) == REVERSED


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        ({"amount": Decimal("-0.01")}, "amount, version: expected what was reversed, and how often, got -0.01, 2"),
        ({"amount": Decimal(0)}, "amount, version: expected what was reversed, and how often, got 0, 2"),
        ({"version": Decimal(0)}, "amount, version: expected what was reversed, and how often, got 12.5, 0"),
        ({"amount": "1"}, "amount: expected Decimal, got str"),
        ({"version": Decimal("1.5")}, "version: expected a whole number, got 1.5"),
    ],
)
def test_a_damaged_count_of_what_was_reversed_is_refused(damage: dict[str, object], sentence: str) -> None:
    with pytest.raises((TypeError, ValueError), match=re.escape(sentence)):
        reversed_from_item(reversed_item(REVERSED) | damage)


ENTRY = entry_of(payment("-12.5"), POSTED)
OUTCOMES = {
    "posted": POSTED,
    "rejected": REJECTED,
    "with money held": replace(POSTED, held_after=Decimal("7.5")),
    "an opening": replace(POSTED, decimal_places=0),
    "a reversal": replace(POSTED, reversal=Reversal(2, Decimal("12.5"))),
    "a reversal of three accounts": replace(REJECTED, reversal=Reversal(0, Decimal(0), ("bob", "carol"))),
}


def test_an_entry_has_no_attribute_of_what_there_is_not() -> None:
    optional = {"home_account_id", "first_sent", "reason", "held_after", "decimal_places", "reversal"}
    assert not optional & entry_item(ENTRY).keys()


ACCOUNTS_OF = {
    "of one": (payment(), "alice", (), ("alice",)),
    "of a transfer, on the payee": (transfer(), "bob", (), ("alice", "bob")),
    "of a posting to another": (posting(to_account_id="bob"), "bob", (), ("alice", "bob")),
    "of a reversal, on the account that it names": (reversing(account_id="bob"), "bob", ("alice",), ("bob", "alice")),
    "of a reversal, on the other one": (reversing(account_id="bob"), "alice", ("bob",), ("bob", "alice")),
}


@pytest.mark.parametrize(("message", "account_id", "others", "expected"), ACCOUNTS_OF.values(), ids=ACCOUNTS_OF)
def test_each_entry_of_a_transaction_names_the_same_accounts_in_the_same_order(
    message: TransactionMessage, account_id: str, others: tuple[str, ...], expected: tuple[str, ...]
) -> None:
    outcome = replace(POSTED, reversal=Reversal(1, Decimal(1), others) if others else None)
    entry = entry_of(message, outcome, account_id)
    assert entry.account_ids == expected
    assert entry.home_entry_id == EntryId(expected[0], message.transaction_id)


@pytest.mark.parametrize("outcome", OUTCOMES.values(), ids=OUTCOMES)
def test_an_item_gives_its_journal_entry_back(outcome: Outcome) -> None:
    for entry in (ENTRY, entry_of(transfer(), POSTED, "bob"), replace(ENTRY, sender=REDRIVEN)):
        with_it = replace(entry, outcome=outcome)
        assert entry_from_item(from_dynamodb(to_dynamodb(entry_item(with_it)))) == with_it


def test_an_entry_under_anothers_key_is_refused_with_a_sentence() -> None:
    item = entry_item(entry_of(transfer(), POSTED, "bob"))
    sentence = "transaction_id: expected the key that is made of home_account_id and request.transaction_id"
    for damage in ({"transaction_id": "t-1"}, {"home_account_id": "carol"}):
        with pytest.raises(ValueError, match=f"^{sentence}$"):
            entry_from_item(item | damage)


def test_an_entry_has_a_format() -> None:
    assert entry_item(ENTRY)["format"] == FORMAT == 2


FORMATS = {
    Decimal(3): "format: expected 2, got 3: a later release of Teller may have written it",
    Decimal(0): "format: expected 2, got 0: ",
    Decimal("1.5"): "format: expected a whole number, got 1.5",
    "1": "format: expected Decimal, got str",
}


@pytest.mark.parametrize(("found", "sentence"), FORMATS.items())
def test_an_entry_of_an_unknown_format_is_refused_with_a_sentence(found: object, sentence: str) -> None:
    with pytest.raises((TypeError, ValueError), match=f"^{re.escape(sentence)}"):
        entry_from_item(entry_item(ENTRY) | {"format": found})


def test_an_entrys_key_is_its_account_and_its_transaction() -> None:
    tables = LedgerTables("accounts", "journal", "reversals")
    assert tables.account_key("alice") == key("accounts", account_id="alice")
    assert tables.entry_key(EntryId("alice", "t-1")) == key("journal", account_id="alice", transaction_id="t-1")
    assert tables.reversed_key(EntryId("alice", "t-1")) == key("reversals", account_id="alice", transaction_id="t-1")


def test_an_entry_knows_the_fields_of_all_types_that_hold_account_ids() -> None:
    fields = {field for message_type in TRANSACTION_TYPES.values() for field in message_type.account_fields}
    assert fields == set(ACCOUNT_FIELDS)
