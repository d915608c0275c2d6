"""Hypothesis strategies for valid messages."""

import contextlib
import functools
import unicodedata
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta, timezone
from decimal import Context, Decimal, localcontext
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin

import msgspec
from hypothesis import reject
from hypothesis import strategies as st
from msgspec.structs import replace

from conditional_writes import EXACT
from conditional_writes.upserts import REMOVED
from ledger.core.decoding import INVISIBLE, Id, Time
from ledger.core.holds import MOST_OPEN_HOLDS
from ledger.core.limits import Limit, Of, Per
from ledger.core.profile_messages import MAXIMUM_NAMES, RESERVED_PREFIX, ProfileUpdate
from ledger.core.transaction_types import TRANSACTION_TYPES, CloseAccount, ExpireHold, FreezeAccount, Hold, OpenAccount
from ledger.core.transaction_types.base import Currency, Description, Metadata, NumberRange, TransactionMessage
from ledger.core.transaction_types.import_account import History, ImportedHold, ImportedHolds, Reference
from ledger.core.transaction_types.legs import Leg, Legs, LegsOfPayees
from ledger.core.transaction_types.set_limits import AllLimits, SetLimits
from ledger.core.transaction_types.set_shards import SetShards
from tests.checkers.profile_oracle import EVERYTHING, Write
from tests.support.numbers import exact_numbers

TEXTS = st.text()
JSON = st.none() | st.booleans() | st.integers() | st.floats() | TEXTS
"""The elements of JSON's lists and objects."""


def nested(
    leaves: st.SearchStrategy[Any], names: st.SearchStrategy[Any] = TEXTS, most: int | None = None, max_leaves: int = 8
) -> st.SearchStrategy[Any]:
    """A leaf, or a list or a map, each of so many at most, of leaves, lists and maps."""
    return st.recursive(
        leaves,
        lambda inner: st.lists(inner, max_size=most) | st.dictionaries(names, inner, max_size=most),
        max_leaves=max_leaves,
    )


visible = st.characters(exclude_categories=["C", "Z"], exclude_characters=INVISIBLE, include_characters=" ")


def _of_one_alphabet(text: str) -> bool:
    words = {word for letter in filter(str.isalpha, text) for word in unicodedata.name(letter, "").split()}
    return len(words & {"LATIN", "GREEK", "CYRILLIC"}) < 2


ids = (
    st.text(visible, min_size=1, max_size=128)
    .map(lambda text: unicodedata.normalize("NFC", text)[:128].strip(" "))
    .filter(bool)
    .filter(_of_one_alphabet)
)
times = st.datetimes(
    min_value=datetime(1900, 1, 1),  # noqa: DTZ001 (Hypothesis adds the zone)
    max_value=datetime(2200, 1, 1),  # noqa: DTZ001
    timezones=st.builds(timezone, st.integers(-14 * 60, 14 * 60).map(lambda minutes: timedelta(minutes=minutes))),
)
descriptions = st.text(st.characters(codec="utf-8"), max_size=500)
metadata = st.dictionaries(
    st.text(st.characters(codec="utf-8"), min_size=1, max_size=64),
    st.text(st.characters(codec="utf-8"), max_size=256),
    max_size=20,
)
optional_fields = st.fixed_dictionaries(
    {}, optional={"occurred_at": times, "description": descriptions, "metadata": metadata}
)
currencies = st.sampled_from(["EUR", "EUR", "CHF"])


everyday_amounts = st.decimals(-1000, 1000, places=2).filter(bool)
everyday_limits = st.integers(-5, 0).map(lambda hundreds: Decimal(100 * hundreds))
everyday_rates = st.decimals("0.001", 1, places=3)


@st.composite
def exact_rates(draw: st.DrawFn) -> Decimal:
    """Any rate above 0 and below 1 that DynamoDB can store."""
    digits = draw(st.integers(1, EXACT.prec))
    coefficient = draw(st.integers(1, 10**digits - 1))
    exponent = draw(st.integers(EXACT.Emin, -len(str(coefficient))))
    return Decimal((0, tuple(map(int, str(coefficient))), exponent))


@st.composite
def messages_of(
    draw: st.DrawFn,
    account_ids: st.SearchStrategy[str],
    transaction_ids: st.SearchStrategy[str],
    amounts: st.SearchStrategy[Decimal] = everyday_amounts,
    limits: st.SearchStrategy[Decimal] = everyday_limits,
    rates: st.SearchStrategy[Decimal] = everyday_rates,
) -> TransactionMessage:
    """Messages of all types in the registry, with all fields of their types and the required shared fields. No account
    is a pool: pools have tests of their own.

    Most messages move money. Few open, freeze or close an account: most of a sequence is about those that are open.
    """
    types = [each for each in TRANSACTION_TYPES.values() for _ in range(_weight(each)) if each is not SetShards]
    for _ in range(MOST_TRIES):
        message_type = draw(st.sampled_from(types))
        with contextlib.suppress(ValueError):  # two of its fields don't go together
            return message_type(**_fields_of(draw, message_type, account_ids, transaction_ids, amounts, limits, rates))
    return reject()


MOST_TRIES = 20


def _fields_of(
    draw: st.DrawFn,
    message_type: type[TransactionMessage],
    account_ids: st.SearchStrategy[str],
    transaction_ids: st.SearchStrategy[str],
    amounts: st.SearchStrategy[Decimal],
    limits: st.SearchStrategy[Decimal],
    rates: st.SearchStrategy[Decimal],
) -> dict[str, Any]:
    numbers = {
        NumberRange.ANY: amounts | st.just(Decimal(0)),
        NumberRange.NOT_ZERO: amounts,
        NumberRange.ABOVE_ZERO: amounts.map(Decimal.copy_abs),
        NumberRange.ZERO_OR_LESS: limits,
        NumberRange.RATE: rates,
    }
    optional = {field.name for field in msgspec.structs.fields(message_type) if field.default is None}
    number = len(message_type.account_fields)
    accounts = draw(st.lists(account_ids, min_size=number, max_size=number, unique=True))
    fields: dict[str, Any] = dict(zip(message_type.account_fields, accounts, strict=True))
    fields |= {field: draw(numbers[expected]) for field, expected in message_type.numbers if expected in numbers}
    fields |= {name: draw(st.sampled_from([value, None])) for name, value in fields.items() if name in optional}
    for field in msgspec.structs.fields(message_type):
        if field.name not in {*fields, "shards"} and (field.required or field.name not in _SHARED):
            named = account_ids if field.name in ("of_account_id", "legs") else transaction_ids
            fields[field.name] = draw(_values_of(field.type, named, amounts))
    if "forced" in fields:
        fields["forced"] = draw(st.integers(0, 15)) == 0
    return fields


def _weight(message_type: type[TransactionMessage]) -> int:
    if issubclass(message_type, (OpenAccount, SetLimits, FreezeAccount, CloseAccount)):
        return 1
    amounts = {NumberRange.NOT_ZERO, NumberRange.ABOVE_ZERO} & {expected for _, expected in message_type.numbers}
    return 4 if amounts else 2


ZONES = ["Europe/Paris", "America/St_Johns", "Pacific/Kiritimati", "UTC"]


@st.composite
def limits_of(draw: st.DrawFn, amounts: st.SearchStrategy[Decimal]) -> Limit:
    """Limits of few names, most of which something exceeds sooner or later."""
    of, per = draw(st.sampled_from(Of)), draw(st.sampled_from(Per))
    fields: dict[str, Any] = {"name": draw(st.sampled_from(["a", "b", "c", "d", "e", "f"])), "of": of}
    if of is not Of.BALANCE:
        fields["per"] = per
        if per is not Per.TRANSACTION:
            fields["time_zone"] = draw(st.sampled_from(ZONES))
            if draw(st.booleans()):
                return Limit(**fields, number=Decimal(draw(st.integers(0, 6))))
    return Limit(**fields, amount=draw(amounts.map(Decimal.copy_abs)) * draw(st.sampled_from([1, 2, 5])))


_SHARED = {field.name for field in msgspec.structs.fields(TransactionMessage)}


def _values_of(
    kind: Any, transaction_ids: st.SearchStrategy[str], amounts: st.SearchStrategy[Decimal]
) -> st.SearchStrategy[Any]:
    """The values of a field that is neither an account nor a number. Raises LookupError for an unknown field type."""
    if get_origin(kind) in (Union, UnionType):
        return st.one_of(*(_values_of(each, transaction_ids, amounts) for each in get_args(kind)))
    imported_holds = st.builds(ImportedHold, amount=amounts.map(Decimal.copy_abs), expires_at=st.none() | times)
    known: list[tuple[Any, st.SearchStrategy[Any]]] = [
        (NoneType, st.none()),
        (bool, st.booleans()),
        (Id, transaction_ids),  # The id of another transaction.
        (Currency, currencies),
        (Time, times),
        (Description, descriptions),
        (Metadata, metadata),
        (Reference, st.text(st.characters(codec="utf-8"), min_size=1, max_size=256)),
        (Legs, _legs(transaction_ids, amounts)),
        (LegsOfPayees, _legs(transaction_ids, amounts.map(Decimal.copy_abs)).map(lambda legs: legs[1:])),
        (AllLimits, st.lists(limits_of(amounts), max_size=5, unique_by=lambda limit: limit.name).map(tuple)),
        (History, st.nothing()),  # Its entries aren't made by messages.
        (ImportedHolds, st.dictionaries(transaction_ids, imported_holds, max_size=MOST_OPEN_HOLDS)),
    ]
    for each, values in known:
        if kind == each:
            return values
    raise LookupError(f"no strategy for a field of the type {kind}")


@st.composite
def _legs(draw: st.DrawFn, account_ids: st.SearchStrategy[str], amounts: st.SearchStrategy[Decimal]) -> tuple[Leg, ...]:
    """Most of them sum to zero."""
    names = draw(st.lists(account_ids, min_size=2, max_size=4, unique=True))
    given = [draw(amounts) for _ in names[1:]]
    with localcontext(Context(prec=600)):
        return tuple(map(Leg, names, [*given, -sum(given)]))


def numbered(messages: Iterable[TransactionMessage]) -> list[TransactionMessage]:
    """The messages under ids of their own, t-0, t-1 and so on, without those that would then be invalid."""
    valid = []
    for number, message in enumerate(messages):
        with contextlib.suppress(ValueError):  # it refers to itself
            valid.append(replace(message, transaction_id=f"t-{number}"))
    return valid


@st.composite
def that_refer(draw: st.DrawFn, batches: st.SearchStrategy[list[TransactionMessage]]) -> list[TransactionMessage]:
    """These messages, most of whose references are to an earlier one of them: to a hold, or to what can be reversed."""
    messages: list[TransactionMessage] = []
    for drawn in draw(batches):
        message = drawn
        field = _referring_field(type(message))
        kinds = Hold if field == "hold_id" else tuple(set(TRANSACTION_TYPES.values()) - {OpenAccount, CloseAccount})
        earlier = [each for each in messages if isinstance(each, kinds)]
        if field and earlier and draw(st.integers(0, 7)):
            referred = draw(st.sampled_from(earlier))
            account_id = draw(st.sampled_from(referred.account_ids))
            named: dict[str, Any] = {"account_id": account_id, field: referred.transaction_id}
            if field == "of_transaction_id":
                named["of_account_id"] = referred.account_ids[0]
            if getattr(message, "to_account_id", None) == account_id:
                named["to_account_id"] = message.account_ids[0]
            if isinstance(message, ExpireHold) and referred.expires_at and draw(st.booleans()):
                named["as_of"] = referred.expires_at
            with contextlib.suppress(ValueError):  # the two don't go together
                message = replace(message, **named)
        messages.append(message)
    return messages


@functools.cache
def _referring_field(message_type: type[TransactionMessage]) -> str | None:
    """The type's field with the id of an earlier transaction on its account."""
    names = (field.name for field in msgspec.structs.fields(message_type) if field.type == Id)
    return next((name for name in names if name not in ("transaction_id", *message_type.account_fields)), None)


@st.composite
def any_message(draw: st.DrawFn) -> TransactionMessage:
    """Messages with any of the fields that they may have."""
    limits = exact_numbers().map(lambda number: -abs(number)) | st.just(Decimal(0))
    message = draw(messages_of(ids, ids, exact_numbers(), limits, exact_rates() | st.just(Decimal(1))))
    return replace(message, **draw(optional_fields))


names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=255)
OF_THE_TABLE = ("account_id", RESERVED_PREFIX)
attributes = names.filter(lambda name: not name.startswith(OF_THE_TABLE))
"""Attribute names that aren't reserved. Hypothesis also tries strings from the code, such as the reserved names."""
scalars = st.none() | st.booleans() | exact_numbers() | st.just(Decimal(0)) | st.text(st.characters(codec="utf-8"))
json_values = nested(scalars, names, 5, max_leaves=12)


@st.composite
def profile_updates(draw: st.DrawFn) -> ProfileUpdate:
    entries = draw(st.dictionaries(names, json_values, max_size=MAXIMUM_NAMES))
    removed = draw(st.lists(names.filter(lambda name: name not in entries), max_size=MAXIMUM_NAMES - len(entries)))
    return ProfileUpdate(
        account_id=draw(ids),
        path=(draw(attributes), *draw(st.lists(names, max_size=9))),
        entries=entries if entries or removed else {"theme": draw(json_values)},
        removed=tuple(removed),
        as_of=draw(st.none() | times),
    )


CLASHING_PATHS = [
    *[("p", "x")] * 3,
    *[("p", "x", "y")] * 3,
    *[("p", "x", "z"), ("p", "x", "y", "y"), ("p", "x", "y", "z"), ("p", "z"), ("o", "x"), ("o", "x", "y")],
]
"""Few, and most of them inside of others, so that an entry, its removal and a map often clash."""


few_times = st.integers(0, 4).map(lambda seconds: datetime(2026, 3, 1, 12, 0, seconds, tzinfo=UTC))


@st.composite
def profile_writes(draw: st.DrawFn, times: st.SearchStrategy[datetime] = few_times, removals: int = 5) -> Write:
    """Entries and removals of few names at few times, so that clashes and ties are common, and a few erasures.

    To nine values there are so many `removals`.
    """
    values = st.sampled_from([1, 2, "a", True, None, [1], {}, {"y": 1}, {"y": 2}, *[REMOVED] * removals])
    path = draw(st.sampled_from([*CLASHING_PATHS, EVERYTHING]))
    return Write(path, REMOVED if path == EVERYTHING else draw(values), draw(times))
