"""Sample accounts and messages, so that a test spells out only the fields that matter to it."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from typing import Any

import msgspec
from msgspec.structs import replace

from ledger.core.accounts import Account, AccountStatus
from ledger.core.holds import OpenHold, total
from ledger.core.journal import JournalEntry, Outcome, Sender, Sent, seal_of
from ledger.core.rules import RULES
from ledger.core.transaction_types import (
    ChargeInterest,
    CloseAccount,
    Compound,
    ExpireHold,
    FreezeAccount,
    Hold,
    ImportAccount,
    OpenAccount,
    PostHold,
    Reverse,
    SetInterest,
    SetLimits,
    SetOverdraftLimit,
    Transaction,
    Transfer,
    VoidHold,
)
from ledger.core.transaction_types.base import TransactionMessage
from ledger.core.transaction_types.legs import Leg

NOW = "2026-01-31T12:00:00.000+00:00"
SENDER = Sender(Sent("AROA4EXAMPLE7PAYMENTS:payments-api", "m-1", NOW))


def entry_of(
    message: TransactionMessage, outcome: Outcome, account_id: str | None = None, before: str = ""
) -> JournalEntry:
    """The transaction's entry on its home, or on this account. `before` is the seal of the entry before."""
    home_id, request = message.home_entry_id, message.canonical_payload()
    entry = JournalEntry(account_id or home_id.account_id, *home_id, request, outcome, SENDER, RULES)
    return replace(entry, seal=seal_of(before, entry))


def changed(account: Account, **fields: Any) -> Account:
    """The account with these fields. A number may be a text; of a hold its amount is enough. `held` is their sum."""
    numbers = {name: Decimal(fields[name]) for name in ("balance", "overdraft_limit") if name in fields}
    if "holds" in fields:
        holds = {
            name: each if isinstance(each, OpenHold) else OpenHold(Decimal(each))
            for name, each in fields["holds"].items()
        }
        fields |= {"held": total(holds), "holds": holds}
    return replace(account, **fields | numbers)


_EMPTY = Account("alice", Decimal(0), Decimal(0), "EUR", AccountStatus.OPEN, 7)
alice = partial(changed, changed(_EMPTY, balance=100, overdraft_limit=-50))
bob = partial(changed, replace(_EMPTY, account_id="bob", balance=Decimal(5), version=3))
ALICE, BOB = alice(), bob()
CLOSED = alice(balance=0, status=AccountStatus.CLOSED)


def _builder[Message: TransactionMessage](message_type: type[Message], **defaults: Any) -> Callable[..., Message]:
    """Its arguments are in the order of the defaults, or given by name. A number may be a text."""

    def build(*arguments: Any, **fields: Any) -> Message:
        return msgspec.convert(defaults | dict(zip(defaults, arguments, strict=False)) | fields, message_type)

    return build


opening = _builder(OpenAccount, overdraft_limit=0, currency="EUR", transaction_id="open", account_id="alice")
importing = _builder(
    ImportAccount,
    balance=0,
    overdraft_limit=0,
    currency="EUR",
    transaction_id="import",
    account_id="alice",
    source_reference="core/1",
    as_of=NOW,
)
payment = _builder(Transaction, amount=1, currency=None, transaction_id="t-1", account_id="alice")
transfer = _builder(Transfer, amount=1, transaction_id="t-1", from_account_id="alice", to_account_id="bob")


def compound(*legs: tuple[str, object], transaction_id: str = "t-1") -> Compound:
    """Of legs of an account id and an amount each."""
    return Compound(transaction_id=transaction_id, legs=legs_of(*legs))


def legs_of(*legs: tuple[str, object]) -> tuple[Leg, ...]:
    return tuple(Leg(account_id, Decimal(str(amount))) for account_id, amount in legs)


limit = _builder(SetOverdraftLimit, overdraft_limit=0, transaction_id="t-1", account_id="alice")
limits = _builder(SetLimits, limits=[], transaction_id="l-1", account_id="alice")
freeze = _builder(FreezeAccount, debits=True, credits=True, transaction_id="f-1", account_id="alice")
closing = _builder(CloseAccount, transaction_id="t-1", account_id="alice")
rate = _builder(SetInterest, annual_rate="0.12", transaction_id="t-1", account_id="alice")
interest = _builder(ChargeInterest, until=NOW, transaction_id="t-1", account_id="alice")
hold = _builder(Hold, amount=1, transaction_id="h-1", account_id="alice", expires_at=None)
posting = _builder(PostHold, amount=None, transaction_id="p-1", hold_id="h-1", account_id="alice")
voiding = _builder(VoidHold, transaction_id="v-1", hold_id="h-1", account_id="alice")
expiring = _builder(ExpireHold, as_of=NOW, transaction_id="x-1", hold_id="h-1", account_id="alice")
reversing = _builder(
    Reverse, of_transaction_id="t-1", amount=None, transaction_id="r-1", account_id="alice", of_account_id=None
)


LARGEST: dict[str, Any] = {
    "amount": Decimal(f"{'1' * 38}e-130"),
    "occurred_at": datetime(2026, 2, 28, 12, 0, 0, 1, tzinfo=UTC),
    "description": "\U0001f3e6" * 500,
    "metadata": {chr(0x1F300 + name) * 64: "\U0001f3e6" * 256 for name in range(20)},
}
"""Each field with its maximum length, in characters of four bytes."""
_BANK, _OTHER_BANK = "\U0001f3e6" * 128, "\U0001f3e7" * 128


def largest_transaction(number: int = 0) -> Transaction:
    """Each number gives another transaction id."""
    return Transaction(transaction_id=chr(0x20000 + number) * 128, account_id=_BANK, currency="EUR", **LARGEST)


def largest_transfer(number: int = 0) -> Transfer:
    """Each number gives another transaction id."""
    return Transfer(
        transaction_id=chr(0x20000 + number) * 128, from_account_id=_BANK, to_account_id=_OTHER_BANK, **LARGEST
    )


def _body(**fields: str | None) -> str:
    """A body of these fields. They are given in JSON, or as None to leave one out."""
    return "{" + ", ".join(f'"{name}": {value}' for name, value in fields.items() if value is not None) + "}"


transaction_body = partial(_body, transaction_id='"t-1"', account_id='"alice"', amount="1")
transfer_body = partial(
    _body, type='"transfer"', transaction_id='"t-1"', from_account_id='"alice"', to_account_id='"bob"', amount="1"
)
_typed = partial(_body, type=None, transaction_id='"t-1"', account_id='"alice"')
opening_body = partial(_typed, type='"open_account"', currency='"EUR"')
interest_body = partial(_typed, type='"charge_interest"', until='"2026-03-01T00:00:00Z"')
rate_body = partial(_typed, type='"set_interest"', annual_rate="0.12")
hold_body = partial(_typed, type='"hold"', amount="1")
posting_body = partial(_typed, type='"post_hold"', hold_id='"h-1"')
expiry_body = partial(_typed, type='"expire_hold"', hold_id='"h-1"', as_of='"2026-03-01T12:00:00Z"')
reversal_body = partial(_typed, type='"reverse"', of_transaction_id='"t-0"')
profile_body = partial(_body, account_id='"alice"', path='["preferences"]', entries='{"theme": "dark"}')
erasure_body = partial(_body, type='"erase_profile"', account_id='"alice"')


def in_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


IMPORTED: dict[str, Any] = {
    "currency": "EUR",
    "balance": -30,
    "overdraft_limit": -10,
    "holds": {"hotel": {"amount": "5.50", "expires_at": "2026-01-31T00:00:00Z"}, "fuel": {"amount": 2}},
    "source_reference": "core/00417",
    "as_of": "2026-01-30T23:00:00Z",
}
"""An account below its limit, which another system left so."""


def life_of(account_id: str) -> list[dict[str, Any]]:
    """The messages of an account from its opening to its closing, of all types with one account: all are posted.

    The import is of another account, and so are the shards.

    A message has the number of its step as its id, unless the step gives another.
    """
    steps: list[dict[str, Any]] = [
        {"type": "open_account", "currency": "EUR"},
        {"type": "set_overdraft_limit", "overdraft_limit": -1},
        {"type": "transaction", "amount": 50},
        {"type": "hold", "amount": 10, "expires_at": "2026-01-31T00:00:00Z"},
        {"type": "expire_hold", "hold_id": "3", "as_of": "2026-01-31T00:00:00Z"},
        {"type": "hold", "amount": 10},
        {"type": "void_hold", "hold_id": "5"},
        {"type": "hold", "amount": 10},
        {"type": "post_hold", "hold_id": "7"},
        {"type": "reverse", "of_transaction_id": "8"},
        {"type": "set_interest", "annual_rate": "0.12"},
        {"type": "charge_interest", "until": "2026-01-31T00:00:00Z"},
        {"type": "transaction", "amount": -50},
        {"type": "set_limits", "limits": [{"name": "day", "of": "debits", "per": "transaction", "amount": 0}]},
        {"type": "freeze_account", "debits": True, "credits": True},
        {"type": "close_account"},
        {"type": "import_account", "account_id": f"{account_id}'s twin"} | IMPORTED,
        {"type": "open_account", "account_id": f"{account_id}'s pool", "currency": "EUR", "shards": 2},
        {"type": "set_shards", "account_id": f"{account_id}'s pool", "shards": 4},
    ]
    return [{"account_id": account_id, "transaction_id": str(number)} | step for number, step in enumerate(steps)]
