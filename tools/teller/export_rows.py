"""What is exported: rows of accounts, of open holds, of journal entries and of their metadata.

They are made of the JSON in DynamoDB's answers. That of an entry is read by its type, in a fifth of the time.

An amount is exact as a text. Beside it is a decimal number, by which SQL computes: of 38 digits, 10 of them decimals,
or nothing if the amount doesn't fit exactly.
"""

from decimal import Decimal
from typing import Annotated, Any, NamedTuple

import msgspec

from conditional_writes.core.answers import read_body
from ledger.core.accounts import account_from_item
from ledger.core.journal import FORMAT
from ledger.core.pools import LOWEST_LIMIT
from ledger.core.transaction_types import HISTORIC
from ledger.core.values import format_decimal

DECIMAL_PLACES = 10
WHOLE_DIGITS = 38 - DECIMAL_PLACES
LARGEST_COUNT = 2**63 - 1
"""Of SQL's BIGINT."""

_AMOUNT, _TEXT, _COUNT = "DECIMAL", "VARCHAR", "BIGINT"
COLUMNS: dict[str, dict[str, str]] = {
    "accounts": {
        **dict.fromkeys(("account_id", "currency", "status"), _TEXT),
        "version": _COUNT,
        "posted_at": _TEXT,
        **dict.fromkeys(("balance", "held", "overdraft_limit"), _AMOUNT),
        "decimal_places": _COUNT,
        "seal": _TEXT,
    },
    "holds": {"account_id": _TEXT, "hold_id": _TEXT, "remaining": _AMOUNT, "expires_at": _TEXT},
    "journal": {
        "day": _TEXT,
        "account_id": _TEXT,
        "account_version": _COUNT,
        **dict.fromkeys(("posted_at", "transaction_id", "home_account_id", "type", "status", "reason"), _TEXT),
        "rejecting_account_id": _TEXT,
        "currency": _TEXT,
        **dict.fromkeys(("amount", "balance_after", "held_after"), _AMOUNT),
        **dict.fromkeys(("occurred_at", "description", "source_reference", "request"), _TEXT),
        **dict.fromkeys(("sent_by", "sent_at", "seal"), _TEXT),
        "rules": _COUNT,
    },
    "metadata": {"day": _TEXT, "account_id": _TEXT, "account_version": _COUNT, "name": _TEXT, "value": _TEXT},
}
"""By table: its columns and their types. Beside an amount there is a column more, `amount_decimal` of `amount`."""


def types_of(table: str) -> dict[str, str]:
    """The types of the columns in SQL."""
    types: dict[str, str] = {}
    for name, kind in COLUMNS[table].items():
        types[name] = _TEXT if kind == _AMOUNT else kind
        if kind == _AMOUNT:
            types[f"{name}_decimal"] = f"DECIMAL(38, {DECIMAL_PLACES})"
    return types


type Row = dict[str, Any] | msgspec.Struct
"""The values by column."""


class Rows(NamedTuple):
    """The rows of an item by table. The first is about the item itself.

    `amount` is what it adds to the sum of its currency: nothing, for a historic entry.
    """

    rows: list[tuple[str, Row]]
    currency: str
    amount: Decimal


def account_rows(item: bytes) -> Rows:
    """The rows of an account: a pool has no overdraft limit. Raises KeyError, TypeError or ValueError for an item that
    is none.
    """
    account = account_from_item(read_body(item))
    if max(account.version, account.decimal_places or 0) > LARGEST_COUNT:
        raise ValueError(f"version, decimal_places: expected at most {LARGEST_COUNT}")
    row = {
        "account_id": account.account_id,
        "currency": account.currency,
        "status": str(account.status),
        "version": account.version,
        "posted_at": account.posted_at,
        **_both("balance", account.balance),
        **_both("held", account.held),
        **({} if account.overdraft_limit == LOWEST_LIMIT else _both("overdraft_limit", account.overdraft_limit)),
        "decimal_places": account.decimal_places,
        "seal": account.seal,
    }
    rows: list[tuple[str, Row]] = [("accounts", row)]
    for hold_id, hold in account.open_holds.items():
        named = {"account_id": account.account_id, "hold_id": hold_id, **_both("remaining", hold.remaining)}
        rows.append(("holds", named | {"expires_at": hold.expires_at}))
    return Rows(rows, account.currency, account.balance)


class _Text(msgspec.Struct, gc=False):
    S: str


class _Number(msgspec.Struct, gc=False):
    N: Decimal


class _Whole(msgspec.Struct, gc=False):
    N: Annotated[int, msgspec.Meta(le=LARGEST_COUNT)]


class _Map(msgspec.Struct, gc=False):
    M: dict[str, dict[str, Any]]


class _Sent(msgspec.Struct, gc=False):
    sent_by: _Text
    sent_at: _Text


class _SentMap(msgspec.Struct, gc=False):
    M: _Sent


class _Entry(msgspec.Struct, gc=False):
    """What is exported of an entry, in DynamoDB's JSON."""

    account_id: _Text
    transaction_id: _Text
    format: _Whole
    rules: _Whole
    request: _Map
    sent: _SentMap
    seal: _Text
    status: _Text
    amount: _Number
    balance_after: _Number
    currency: _Text
    account_version: _Whole
    posted_at: _Text
    home_account_id: _Text | None = None
    reason: _Text | None = None
    rejecting_account_id: _Text | None = None
    held_after: _Number | None = None


_entries = msgspec.json.Decoder(_Entry, strict=False)
"""Not strict: DynamoDB's numbers are texts."""
_encode = msgspec.json.Encoder().encode
_NOTHING = ("0", "0")
_JournalRow, _MetadataRow = (
    msgspec.defstruct("_Row", list(types_of(table)), gc=False) for table in ("journal", "metadata")
)


def entry_rows(item: bytes) -> Rows:
    """As `account_rows`, of a journal entry."""
    entry = _entries.decode(item)
    if entry.format.N != FORMAT:
        raise ValueError(f"format: expected {FORMAT}, got {entry.format.N}")
    request = _plain(entry.request.M)
    named, home = request.get, entry.home_account_id
    account_id, version, posted_at = entry.account_id.S, entry.account_version.N, entry.posted_at.S
    kind, day = named("type"), posted_at[:10]
    row = _JournalRow(
        day,
        account_id,
        version,
        posted_at,
        request["transaction_id"] if home else entry.transaction_id.S,
        home.S if home else account_id,
        kind,
        entry.status.S,
        entry.reason.S if entry.reason else None,
        entry.rejecting_account_id.S if entry.rejecting_account_id else None,
        entry.currency.S,
        *_spelled(entry.amount.N),
        *_spelled(entry.balance_after.N),
        *(_spelled(entry.held_after.N) if entry.held_after else _NOTHING),
        named("occurred_at"),
        named("description"),
        named("source_reference"),
        _encode(request).decode(),
        entry.sent.M.sent_by.S,
        entry.sent.M.sent_at.S,
        entry.seal.S,
        entry.rules.N,
    )
    rows: list[tuple[str, Row]] = [("journal", row)]
    if metadata := named("metadata"):
        if not isinstance(metadata, dict):
            raise TypeError(f"metadata: expected a map, got {type(metadata).__name__}")
        rows += [("metadata", _MetadataRow(day, account_id, version, *item)) for item in metadata.items()]
    return Rows(rows, entry.currency.S, Decimal(0) if kind == HISTORIC else entry.amount.N)


def _plain(values: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """A map's values in Python's types. Most are texts."""
    return {name: value["S"] if "S" in value else _value(value) for name, value in values.items()}


def _value(value: dict[str, Any]) -> Any:
    return _plain(value["M"]) if "M" in value else read_body(msgspec.json.encode({"value": value}))["value"]


def _spelled(amount: Decimal) -> tuple[str, str | None]:
    """The amount as a text, and the same as a decimal number if it fits."""
    text = format_decimal(amount)
    return text, text if len(text) <= DECIMAL_PLACES or fits(amount) else None


def _both(name: str, amount: Decimal) -> dict[str, str | None]:
    return dict(zip((name, f"{name}_decimal"), _spelled(amount), strict=True))


def fits(amount: Decimal) -> bool:
    exponent = amount.normalize().as_tuple().exponent if amount else 0
    return int(exponent) >= -DECIMAL_PLACES and amount.adjusted() < WHOLE_DIGITS
