"""The messages of the transactions queue, validated at the door: what gets past here can be posted or rejected.

An amount is a JSON string or number, read exactly.
"""

import re
from datetime import UTC, datetime
from decimal import Decimal
from typing import Annotated, Any, ClassVar

import msgspec

from ledger.decoding import Id, InvalidMessage, Time, check_time, decoded, exact, normalized

CURRENCY = r"^[A-Z]{3}\Z"
Currency = Annotated[str, msgspec.Meta(pattern=CURRENCY)]
Description = Annotated[str, msgspec.Meta(max_length=500)]
MetadataName = Annotated[str, msgspec.Meta(min_length=1, max_length=64)]
MetadataValue = Annotated[str, msgspec.Meta(max_length=256)]
Metadata = Annotated[dict[MetadataName, MetadataValue], msgspec.Meta(max_length=20)]
"""With the description at most 28 kB of UTF-8: 99 journal entries fit DynamoDB's 4 MB a transaction."""


class Message(
    msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True, omit_defaults=True, tag_field="type"
):
    """What all messages have. A `transaction_id` is unique per account: it makes a repetition harmless.

    `account_fields` names the fields with the accounts that the message is about.
    """

    account_fields: ClassVar[tuple[str, ...]]

    transaction_id: Id
    occurred_at: Time | None = None
    description: Description | None = None
    metadata: Metadata | None = None

    @property
    def account_ids(self) -> tuple[str, ...]:
        """The accounts that are read, decided on and changed together."""
        return tuple(getattr(self, field) for field in self.account_fields)

    def request(self) -> dict[str, Any]:
        """The message in one spelling, whatever its producer's. A repetition must match it; the journal keeps it."""
        request: dict[str, Any] = msgspec.to_builtins(self, builtin_types=(Decimal, datetime))
        return {name: _one_spelling(value) for name, value in request.items()}


class AccountMessage(Message, frozen=True):
    """What all messages about one account have."""

    account_fields = ("account_id",)

    account_id: Id


class OpenAccount(AccountMessage, frozen=True, tag="open_account"):
    currency: Currency
    overdraft_limit: Decimal = Decimal(0)

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "overdraft_limit", _exact_limit(self.overdraft_limit))


class Transaction(AccountMessage, frozen=True, tag="transaction"):
    """`amount` < 0 debits, > 0 credits. Where `currency` is given, it must be the account's."""

    amount: Decimal
    currency: Currency | None = None

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "amount", exact("amount", self.amount))
        if self.amount == 0:
            raise ValueError("amount: expected a number other than zero")


class Transfer(Message, frozen=True, tag="transfer"):
    """Takes `amount` from one account and gives it to another: both, or neither."""

    account_fields = ("from_account_id", "to_account_id")

    from_account_id: Id
    to_account_id: Id
    amount: Decimal

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "amount", exact("amount", self.amount))
        if self.amount <= 0:
            raise ValueError("amount: expected a number greater than zero")
        if self.to_account_id == self.from_account_id:
            raise ValueError("to_account_id: expected another account than from_account_id")


class SetOverdraftLimit(AccountMessage, frozen=True, tag="set_overdraft_limit"):
    overdraft_limit: Decimal

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "overdraft_limit", _exact_limit(self.overdraft_limit))


class CloseAccount(AccountMessage, frozen=True, tag="close_account"):
    pass


class ChargeInterest(AccountMessage, frozen=True, tag="charge_interest"):
    """Debits a day's overdraft interest, where the balance is below zero when this is decided.

    With the rate and no amount: sent again after the balance has moved, it still is the same message.
    """

    annual_rate: Decimal

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "annual_rate", exact("annual_rate", self.annual_rate))
        if not 0 < self.annual_rate <= 1:
            raise ValueError('annual_rate: expected a number above zero and at most 1, such as "0.12" for 12 %')


class _Glance(msgspec.Struct):
    """A first look: which type it is, and its numbers as they are spelled. It has every field that is a number."""

    type: str = "transaction"
    amount: msgspec.Raw = msgspec.Raw(b"0")
    overdraft_limit: msgspec.Raw = msgspec.Raw(b"0")
    annual_rate: msgspec.Raw = msgspec.Raw(b"0")


_NUMBERS = [field for field in _Glance.__struct_fields__ if field != "type"]
_MESSAGES: dict[str, type[Message]] = {
    "open_account": OpenAccount,
    "transaction": Transaction,
    "transfer": Transfer,
    "set_overdraft_limit": SetOverdraftLimit,
    "close_account": CloseAccount,
    "charge_interest": ChargeInterest,
}
_glance_decoder = msgspec.json.Decoder(_Glance)
_decoders = {name: msgspec.json.Decoder(message) for name, message in _MESSAGES.items()}


def decode(body: str) -> Message:
    """The message in a queue message's body. Raises InvalidMessage."""
    glance = decoded(body, _glance_decoder)
    if glance.type not in _decoders:
        raise InvalidMessage(f"type: got {glance.type[:40]!r}, expected one of {', '.join(_decoders)}")
    message = decoded(body, _decoders[glance.type], _EXPECTATIONS)
    for field in _NUMBERS:
        _check_spelling(field, getattr(glance, field))
    check_time("occurred_at", message.occurred_at)
    return message


def from_request(request: dict[str, Any]) -> Message:
    """The message whose `request()` this is."""
    return msgspec.convert(request, _MESSAGES[request["type"]])


_NUMBER = re.compile(rb"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?")


def _check_spelling(field: str, raw: msgspec.Raw) -> None:
    """As a JSON number or the same in a string: Python's Decimal would read `12_50`, and digits of any script."""
    if not _NUMBER.fullmatch(bytes(raw).strip(b'"')):
        raise InvalidMessage(f"{field}: {_DECIMAL}")


def _exact_limit(limit: Decimal) -> Decimal:
    shortest = exact("overdraft_limit", limit)
    if shortest > 0:
        raise ValueError("overdraft_limit: expected zero or less: how far below zero the balance may go")
    return shortest


def _one_spelling(value: Any) -> Any:
    match value:
        case Decimal():
            return plain(value)
        case datetime():
            return value.astimezone(UTC).isoformat()
        case _:
            return value


def plain(number: Decimal) -> str:
    """`100.00`, `1E+2` and `100` as `100`; `-0` as `0`."""
    return format(normalized(number), "f")


_DECIMAL = 'expected a decimal number, such as "-12.50"'
_EXPECTATIONS = {
    "Invalid decimal string": _DECIMAL,
    f"Expected `str` matching regex {CURRENCY!r}": 'expected three capital letters, such as "EUR"',
}
