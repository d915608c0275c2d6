"""The messages of the transactions queue, validated at the door: what gets past here can be posted or rejected.

An amount is a JSON string or number, read exactly. What is refused is refused with a sentence for a person: which
field, and what was expected.
"""

import json
import re
from datetime import UTC, datetime
from decimal import Decimal
from typing import Annotated, Any, ClassVar

import msgspec

from conditional_writes import EXACT

MAXIMUM_BODY_BYTES = 131_072
"""More than any valid message has, and little enough that what is hostile is cheap to refuse."""

Id = Annotated[str, msgspec.Meta(min_length=1, max_length=128)]
"""At most 512 bytes in UTF-8; DynamoDB takes 1,024 in a sort key."""
CURRENCY = r"^[A-Z]{3}\Z"
Currency = Annotated[str, msgspec.Meta(pattern=CURRENCY)]
Description = Annotated[str, msgspec.Meta(max_length=500)]
MetadataName = Annotated[str, msgspec.Meta(min_length=1, max_length=64)]
MetadataValue = Annotated[str, msgspec.Meta(max_length=256)]
Metadata = Annotated[dict[MetadataName, MetadataValue], msgspec.Meta(max_length=20)]
"""With the description at most 28 kB of UTF-8: 99 journal entries fit DynamoDB's 4 MB a transaction."""
Time = Annotated[datetime, msgspec.Meta(tz=True)]


class InvalidMessage(Exception):
    """The message can't be posted, now or ever: its text says which field is wrong, and what was expected.

    A few hundred characters at most, all of them printable: whatever the producer put into a name.
    """

    def __init__(self, reason: str) -> None:
        printable = "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in reason[:301])
        super().__init__(printable if len(printable) <= 300 else f"{printable[:300]}…")


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
        msgspec.structs.force_setattr(self, "amount", _exact("amount", self.amount))
        if self.amount == 0:
            raise ValueError("amount: expected a number other than zero")


class Transfer(Message, frozen=True, tag="transfer"):
    """Takes `amount` from one account and gives it to another: both, or neither."""

    account_fields = ("from_account_id", "to_account_id")

    from_account_id: Id
    to_account_id: Id
    amount: Decimal

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "amount", _exact("amount", self.amount))
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


class _Glance(msgspec.Struct):
    """A first look: which type it is, and its numbers as they are spelled."""

    type: str = "transaction"
    amount: msgspec.Raw = msgspec.Raw(b"0")
    overdraft_limit: msgspec.Raw = msgspec.Raw(b"0")


_MESSAGES: dict[str, type[Message]] = {
    "open_account": OpenAccount,
    "transaction": Transaction,
    "transfer": Transfer,
    "set_overdraft_limit": SetOverdraftLimit,
    "close_account": CloseAccount,
}
_glance_decoder = msgspec.json.Decoder(_Glance)
_decoders = {name: msgspec.json.Decoder(message) for name, message in _MESSAGES.items()}


def decode(body: str) -> Message:
    """The message in a queue message's body. Raises InvalidMessage."""
    size = len(body.encode(errors="surrogatepass"))
    if size > MAXIMUM_BODY_BYTES:
        raise InvalidMessage(f"body: {size:,} bytes, expected at most {MAXIMUM_BODY_BYTES:,}")
    try:
        glance = _glance_decoder.decode(body)
        if glance.type not in _decoders:
            raise InvalidMessage(f"type: got {glance.type[:40]!r}, expected one of {', '.join(_decoders)}")
        message = _decoders[glance.type].decode(body)
    except msgspec.ValidationError as error:
        raise InvalidMessage(_sentence(str(error))) from None
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
        raise InvalidMessage(_why_not_json(body, error)) from None
    _check_spelling("amount", glance.amount)
    _check_spelling("overdraft_limit", glance.overdraft_limit)
    _check_time(message.occurred_at)
    return message


def from_request(request: dict[str, Any]) -> Message:
    """The message whose `request()` this is."""
    return msgspec.convert(request, _MESSAGES[request["type"]])


_NUMBER = re.compile(rb"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?")


def _check_spelling(field: str, raw: msgspec.Raw) -> None:
    """As a JSON number or the same in a string: Python's Decimal would read `12_50`, and digits of any script."""
    if not _NUMBER.fullmatch(bytes(raw).strip(b'"')):
        raise InvalidMessage(f"{field}: {_EXPECTATIONS['Invalid decimal string']}")


def _check_time(time: datetime | None) -> None:
    try:
        if time is not None:
            time.astimezone(UTC)
    except OverflowError:
        raise InvalidMessage("occurred_at: expected a time between the years 1 and 9999 in UTC") from None


def _exact(field: str, number: Decimal) -> Decimal:
    """The number without trailing zeros, where DynamoDB can hold it. Raises ValueError."""
    if not number.is_finite():
        raise ValueError(f"{field}: expected a finite decimal number")
    significant = len("".join(map(str, number.as_tuple().digits)).strip("0"))
    if significant > EXACT.prec:
        raise ValueError(f"{field}: {significant} digits, expected at most {EXACT.prec}")
    out_of_range = ValueError(f"{field}: expected a number between 1E{EXACT.Emin} and 9.9E+{EXACT.Emax}")
    if number and not EXACT.Emin <= number.adjusted() <= EXACT.Emax:
        raise out_of_range
    exact = _normalized(number)
    if int(exact.as_tuple().exponent) < EXACT.Emin:
        raise out_of_range
    return exact


def _exact_limit(limit: Decimal) -> Decimal:
    exact = _exact("overdraft_limit", limit)
    if exact > 0:
        raise ValueError("overdraft_limit: expected zero or less: how far below zero the balance may go")
    return exact


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
    return format(_normalized(number), "f")


def _normalized(number: Decimal) -> Decimal:
    return EXACT.normalize(number) if number else Decimal(0)


_EXPECTATIONS = {
    "Invalid decimal string": 'expected a decimal number, such as "-12.50"',
    "Invalid RFC3339 encoded datetime": 'expected an ISO 8601 time with its offset, such as "2026-02-28T12:00:00Z"',
    f"Expected `str` matching regex {CURRENCY!r}": 'expected three capital letters, such as "EUR"',
}
"""For a person, what msgspec says for a programmer."""


def _sentence(error: str) -> str:
    """msgspec's "Expected `str`, got `int` - at `$.currency`" as "currency: expected `str`, got `int`"."""
    problem, _, path = error.partition(" - at `")
    problem = _EXPECTATIONS.get(problem, problem)
    field = path.removesuffix("`").removeprefix("$.").replace("key` in `$.", "a name in ")
    if field:
        return problem if problem.startswith(f"{field}: ") else f"{field}: {problem[0].lower()}{problem[1:]}"
    return f"body: {problem[0].lower()}{problem[1:]}" if problem.startswith(("Object", "Expected")) else problem


def _why_not_json(body: str, error: Exception) -> str:
    """JSON has no NaN and no Infinity, but producers write them: name the field that has one."""
    try:
        loose = json.loads(body, parse_constant=_NotANumber)
    except (ValueError, RecursionError):
        return f"body: expected JSON; {error}"
    fields = loose.items() if isinstance(loose, dict) else ()
    found = [
        f"{name}: expected a finite decimal number, got {value}"
        for name, value in fields
        if isinstance(value, _NotANumber)
    ]
    return "; ".join(found) or f"body: expected JSON; {error}"


class _NotANumber(str):
    """`NaN`, `Infinity` or `-Infinity`, bare in a body."""
