"""Requests to publish outcomes again: of the entries of an account, or of all accounts since a time."""

import json
from typing import Annotated, Any

import msgspec

from ledger.core.decoding import Id, Time, decode_json
from ledger.core.ranges import Version, change_times_to_utc, check_times, check_versions
from ledger.core.reason_codes import InvalidMessage


class RepublishAccount(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The account's entries of the versions from `from_version` to `to_version`, or those posted at or after
    `from_time` and before `to_time`. Without a range, all entries."""

    account_id: Id
    from_version: Version | None = None
    to_version: Version | None = None
    from_time: Time | None = msgspec.field(default=None, name="from")
    to_time: Time | None = msgspec.field(default=None, name="to")

    def __post_init__(self) -> None:
        versions = {"from_version": self.from_version, "to_version": self.to_version}
        times = {"from": self.from_time, "to": self.to_time}
        given = [[name for name, value in fields.items() if value is not None] for fields in (versions, times)]
        if all(given):
            raise ValueError(f"body: expected versions or times, got {given[0][0]} and {given[1][0]}")
        if self.to_time and not self.from_time:
            raise ValueError("to: expected it with from")
        check_versions(self.from_version, self.to_version)
        check_times(self.from_time, self.to_time)


class RepublishAccounts(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The entries of all accounts posted at or after `from_time` and before `to_time`.

    If `after` is an account's id, only of the accounts that come after it in the table's order.
    """

    from_time: Time = msgspec.field(name="from")
    to_time: Time | None = msgspec.field(default=None, name="to")
    after: Annotated[str, msgspec.Meta(min_length=1, max_length=2048)] | None = None

    def __post_init__(self) -> None:
        check_times(self.from_time, self.to_time)


type RepublishRequest = RepublishAccount | RepublishAccounts


def decode_republish_request(event: Any) -> RepublishRequest:
    """The request in an event of Lambda's, which has it in the field `republish`. Raises InvalidMessage."""
    body = bytes(decode_json(json.dumps(event), _event_decoder).republish).decode()
    fields = decode_json(body, _fields_decoder)
    if "account_id" not in fields and "from" not in fields:
        raise InvalidMessage("body: expected account_id or from, got neither")
    is_of_one = "account_id" in fields
    request = decode_json(body, _account_decoder) if is_of_one else decode_json(body, _accounts_decoder)
    change_times_to_utc(request)
    return request


def republish_event(request: RepublishRequest) -> dict[str, Any]:
    """The event of Lambda's that has the request."""
    return {"republish": msgspec.to_builtins(request)}


class _Event(msgspec.Struct, forbid_unknown_fields=True):
    republish: msgspec.Raw


_event_decoder = msgspec.json.Decoder(_Event)
_fields_decoder = msgspec.json.Decoder(dict[str, Any])
_account_decoder = msgspec.json.Decoder(RepublishAccount)
_accounts_decoder = msgspec.json.Decoder(RepublishAccounts)
