"""Requests to post transactions and to answer with their outcomes: each transaction as the text of its message."""

import json
import math
from typing import Annotated, Any, NamedTuple

import msgspec

from ledger.core.decoding import check_names, decode_json
from ledger.core.reason_codes import InvalidMessage

MOST_TRANSACTIONS = 100
"""Of one request."""
MAXIMUM_REQUEST_BYTES = 6_291_456
"""Lambda takes no more."""
EXACT_FLOAT_DIGITS = 15
"""A number of up to so many digits comes out of a floating-point number as it went in."""
LARGEST_FLOAT = 10**11
"""Below it, a number of up to four decimals, as currencies have, has no more than those digits. Above it the decimals
may be gone, and nothing shows that they were there: 1000000000000000.01 is 1000000000000000.0."""


class PostRequest(NamedTuple):
    """`bodies` are the transactions' messages, as they would be on the queue."""

    bodies: list[str]
    dry_run: bool


class _Request(msgspec.Struct, forbid_unknown_fields=True):
    transactions: Annotated[list[msgspec.Raw], msgspec.Meta(min_length=1, max_length=MOST_TRANSACTIONS)]
    dry_run: bool = False


_decoder = msgspec.json.Decoder(_Request)


def decode_text(body: str) -> PostRequest:
    """The request in a text. Its transactions' numbers have all their digits. Raises InvalidMessage."""
    request = decode_json(body, _decoder, most_bytes=MAXIMUM_REQUEST_BYTES)
    check_names(body)
    return PostRequest([bytes(each).decode() for each in request.transactions], request.dry_run)


def decode_event(event: Any) -> PostRequest:
    """The request in an event. Lambda has made floats of numbers with a point or an exponent. Raises InvalidMessage.

    A number that may have lost one of its first four decimals by that is refused.
    """
    try:
        if isinstance(event, dict):
            _check_floats("transactions", event.get("transactions"))
        body = json.dumps(event)
    except RecursionError:
        raise InvalidMessage("body: expected JSON; it is nested too deeply") from None
    return decode_text(body)


def _check_floats(field: str, value: Any) -> None:
    match value:
        case float() if _may_be_rounded(value):
            raise InvalidMessage(
                f"{field}: expected a text, because Lambda may round a number with a point or an exponent if it has"
                f" more than {EXACT_FLOAT_DIGITS} digits, or from {LARGEST_FLOAT:,} on"
            )
        case dict():
            for name, each in value.items():
                _check_floats(f"{field}.{name[:40]}", each)
        case list():
            for number, each in enumerate(value):
                _check_floats(f"{field}[{number}]", each)


def _may_be_rounded(number: float) -> bool:
    digits = repr(number).partition("e")[0].strip("-0.").replace(".", "")
    return math.isfinite(number) and (abs(number) >= LARGEST_FLOAT or len(digits) > EXACT_FLOAT_DIGITS)
