"""Requests to read: an account, its statement, its balance at a time, and the entry of a transaction."""

import json
from typing import Annotated, Any

import msgspec

from ledger.core.decoding import Id, Time, decode_json
from ledger.core.ranges import Version, change_times_to_utc, check_times, check_versions
from ledger.core.reason_codes import InvalidMessage

MOST_ENTRIES = 1000
"""Of one answer."""
DEFAULT_ENTRIES = 100

Entries = Annotated[int, msgspec.Meta(ge=1, le=MOST_ENTRIES)]


class ReadRequest(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True, tag_field="read"):
    """A request for one account. Its field `read` says what is read."""

    account_id: Id


class ReadAccount(ReadRequest, frozen=True, tag="account"):
    """The account as it is now."""


class ReadStatement(ReadRequest, frozen=True, tag="statement"):
    """The `last` entries, those of the versions from `from_version` to `to_version`, or those posted at or after
    `from_time` and before `to_time`: in the order of their versions. `versions` are those of a pool's next page: the
    first and the last of each account.
    """

    last: Entries | None = None
    from_version: Version | None = None
    to_version: Version | None = None
    from_time: Time | None = msgspec.field(default=None, name="from")
    to_time: Time | None = msgspec.field(default=None, name="to")
    versions: dict[str, tuple[Version, Version]] | None = None
    limit: Entries | None = None

    def __post_init__(self) -> None:
        begins: dict[str, object] = {"last": self.last, "from_version": self.from_version, "from": self.from_time}
        begins["versions"] = self.versions
        given = [name for name, value in begins.items() if value is not None]
        if len(given) != 1:
            raise ValueError(f"body: expected one of last, from_version and from, got {' and '.join(given) or 'none'}")
        [begin] = given
        belongs = {"to_version": (self.to_version, ["from_version"]), "to": (self.to_time, ["from"])}
        belongs["limit"] = self.limit, ["from_version", "from", "versions"]
        for name, (value, possible) in belongs.items():
            if value is not None and begin not in possible:
                raise ValueError(f"{name}: expected it with {' or '.join(possible)}, got it with {begin}")
        check_versions(self.from_version, self.to_version)
        check_times(self.from_time, self.to_time)


class ReadBalance(ReadRequest, frozen=True, tag="balance"):
    """The balance after all entries that were posted before the time `at`."""

    at: Time


class ReadTransaction(ReadRequest, frozen=True, tag="transaction"):
    """A transaction's journal entry on the account, and how much of it was reversed; or its refusal.

    `home_account_id` is the transaction's home, if that is another account.
    """

    transaction_id: Id
    home_account_id: Id | None = None


def decode_request(event: Any) -> ReadRequest:
    """The request in an event of Lambda's. Raises InvalidMessage."""
    body = json.dumps(event)
    kind = decode_json(body, _envelope_decoder).read
    if kind not in _decoders:
        raise InvalidMessage(f"read: got {kind[:40]!r}, expected one of {', '.join(_decoders)}")
    request: ReadRequest = decode_json(body, _decoders[kind])
    change_times_to_utc(request)
    return request


class _Envelope(msgspec.Struct):
    read: str


_envelope_decoder = msgspec.json.Decoder(_Envelope)
_decoders: dict[str, "msgspec.json.Decoder[Any]"] = {
    str(kind.__struct_config__.tag): msgspec.json.Decoder(kind)
    for kind in (ReadAccount, ReadStatement, ReadBalance, ReadTransaction)
}
