"""Requests to publish again: a valid one is decoded, and the sentence for another says where and what was expected."""

from datetime import UTC, datetime
from typing import Any

import pytest

from ledger.core.reason_codes import InvalidMessage
from ledger.core.republish_requests import RepublishAccount, RepublishAccounts, republish_event
from ledger.core.republish_requests import decode_republish_request as decode_request

ALICE = {"account_id": "alice"}
SINCE = {"from": "2026-03-01T00:00:00Z"}


@pytest.mark.parametrize(
    "request_fields",
    [
        ALICE,
        ALICE | {"from_version": 7},
        ALICE | {"to_version": 7},
        ALICE | {"from_version": 7, "to_version": 7},
        ALICE | SINCE,
        ALICE | SINCE | {"to": "2026-03-01T00:00:00.001Z"},
        SINCE,
        SINCE | {"to": "2026-03-02T00:00:00Z", "after": "x" * 2048},
    ],
)
def test_a_request_is_decoded_and_encoded_as_it_was(request_fields: dict[str, Any]) -> None:
    event = {"republish": request_fields}
    request = decode_request(event)
    assert isinstance(request, RepublishAccount if "account_id" in request_fields else RepublishAccounts)
    assert decode_request(republish_event(request)) == request
    assert republish_event(request)["republish"].keys() == request_fields.keys()


def test_times_are_in_utc() -> None:
    request = decode_request({"republish": {"from": "2026-03-01T00:30:00+01:00"}})
    assert request.from_time == datetime(2026, 2, 28, 23, 30, tzinfo=UTC)
    assert republish_event(request) == {"republish": {"from": "2026-02-28T23:30:00Z"}}


REFUSED: list[tuple[Any, str]] = [
    ([], "body: expected `object`, got `array`"),
    ({}, "body: expected account_id or from, got neither"),
    ({"account_id": 1}, "account_id: expected `str`, got `int`"),
    ({"account_id": "\ud800"}, "body: expected JSON"),
    (ALICE | {"versions": [1]}, "body: object contains unknown field `versions`"),
    (ALICE | {"from_version": 0}, "from_version: expected `int` >= 1"),
    (ALICE | {"from_version": 10**16}, "from_version: expected `int` <= 1000000000000000"),
    (ALICE | {"to_version": float("nan")}, "republish.to_version: expected a finite decimal number, got NaN"),
    (ALICE | {"from_version": 8, "to_version": 7}, "to_version: expected 8 or more, which is from_version"),
    (ALICE | {"from_version": 8} | SINCE, "body: expected versions or times, got from_version and from"),
    (ALICE | {"to_version": 8, "to": SINCE["from"]}, "body: expected versions or times, got to_version and to"),
    (ALICE | {"to": "2026-03-01T00:00:00Z"}, "to: expected it with from"),
    (ALICE | {"after": "bob"} | SINCE, "body: object contains unknown field `after`"),
    (ALICE | {"from": "2026-03-01"}, "from: expected an ISO 8601 time with its offset"),
    (ALICE | {"from": "0001-01-01T00:00:00+14:00"}, "from: expected a time between the years 1 and 9999 in UTC"),
    (SINCE | {"to": SINCE["from"]}, "to: expected a time after from"),
    (SINCE | {"to_version": 8}, "body: object contains unknown field `to_version`"),
    ({"from_version": 8}, "body: expected account_id or from, got neither"),
]


@pytest.mark.parametrize(("fields", "beginning"), REFUSED, ids=[beginning for _, beginning in REFUSED])
def test_another_is_refused_with_a_sentence(fields: Any, beginning: str) -> None:
    with pytest.raises(InvalidMessage) as caught:
        decode_request({"republish": fields})
    assert str(caught.value).startswith(beginning)


def test_an_event_has_nothing_beside_the_request() -> None:
    with pytest.raises(InvalidMessage, match="body: object contains unknown field `Records`"):
        decode_request({"republish": ALICE, "Records": []})
