"""Requests to read and to publish again: a valid one is decoded, and a sentence says where another is wrong."""

import contextlib
import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.core import republish_requests
from ledger.core.read_requests import ReadStatement, decode_request
from ledger.core.reason_codes import InvalidMessage
from ledger.core.republish_requests import RepublishAccount, decode_republish_request, republish_event
from tests.support.strategies import JSON, nested

STATEMENT = {"read": "statement", "account_id": "alice"}
ALICE = {"account_id": "alice"}
SINCE = {"from": "2026-03-01T00:00:00Z"}


def test_times_are_in_utc() -> None:
    request = decode_request(STATEMENT | {"from": "2026-03-01T00:30:00+01:00"})
    assert isinstance(request, ReadStatement)
    assert request.from_time == datetime(2026, 2, 28, 23, 30, tzinfo=UTC)


REFUSED: list[tuple[Any, str]] = [
    ([], "body: expected `object`, got `array`"),
    ({}, "body: object missing required field `read`"),
    ({"read": 1, "account_id": "alice"}, "read: expected `str`, got `int`"),
    ({"read": "all", "account_id": "alice"}, "read: got 'all', expected one of account, statement, balance, tr"),
    ({"read": "account"}, "body: object missing required field `account_id`"),
    ({"read": "account", "account_id": ""}, "account_id: expected `str` of length >= 1"),
    ({"read": "account", "account_id": "\ud800"}, "body: expected JSON"),
    ({"read": "account", "account_id": "alice", "last": 1}, "body: object contains unknown field `last`"),
    (STATEMENT, "body: expected one of last, from_version and from, got none"),
    (STATEMENT | {"last": 1, "from_version": 1}, "body: expected one of last, from_version and from, got last and fr"),
    (STATEMENT | {"last": 0}, "last: expected `int` >= 1"),
    (STATEMENT | {"last": 1001}, "last: expected `int` <= 1000"),
    (STATEMENT | {"last": True}, "last: expected `int | null`, got `bool`"),
    (STATEMENT | {"last": float("nan")}, "last: expected a finite decimal number, got NaN"),
    (STATEMENT | {"last": 10, "limit": 5}, "limit: expected it with from_version or from or versions, got it with las"),
    (STATEMENT | {"versions": {"pool": [1, 2]}, "from_version": 1}, "body: expected one of last, from_version and fro"),
    (STATEMENT | {"versions": {"pool": [1]}}, "versions[...]: expected `array` of length 2"),
    (STATEMENT | {"from_version": 0}, "from_version: expected `int` >= 1"),
    (STATEMENT | {"from_version": 10**16}, "from_version: expected `int` <= 1000000000000000"),
    (STATEMENT | {"from_version": 8, "to_version": 7}, "to_version: expected 8 or more, which is from_version"),
    (STATEMENT | {"last": 8, "to_version": 9}, "to_version: expected it with from_version, got it with last"),
    (STATEMENT | {"from": "2026-03-01"}, "from: expected an ISO 8601 time with its offset"),
    (STATEMENT | {"from": "0001-01-01T00:00:00+14:00"}, "from: expected a time between the years 1 and 9999 in UTC"),
    (STATEMENT | {"from_version": 1, "to": "2026-03-01T00:00:00Z"}, "to: expected it with from, got it with from_ver"),
    (STATEMENT | dict.fromkeys(["from", "to"], "2026-03-01T00:00:00Z"), "to: expected a time after from"),
    ({"read": "balance", "account_id": "alice"}, "body: object missing required field `at`"),
    ({"read": "transaction", "account_id": "alice"}, "body: object missing required field `transaction_id`"),
]


@pytest.mark.parametrize(("event", "beginning"), REFUSED, ids=[beginning for _, beginning in REFUSED])
def test_another_is_refused_with_a_sentence(event: Any, beginning: str) -> None:
    with pytest.raises(InvalidMessage) as caught:
        decode_request(event)
    assert str(caught.value).startswith(beginning)


json_values = nested(JSON, most=4)
fields = st.sampled_from(["account_id", "last", "from_version", "to_version", "from", "to", "limit", "at"])
kinds = st.sampled_from(["account", "statement", "balance", "transaction"])
almost_requests = st.builds(
    lambda kind, rest: {"read": kind, "account_id": "alice"} | rest, kinds, st.dictionaries(fields, json_values)
)


@given(json_values | almost_requests)
def test_any_json_is_a_request_or_is_refused(event: Any) -> None:
    with contextlib.suppress(InvalidMessage):
        decode_request(json.loads(json.dumps(event)))


@pytest.mark.parametrize(
    "fields",
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
def test_a_request_is_decoded_and_encoded_as_it_was(fields: dict[str, Any]) -> None:
    request = decode_republish_request({"republish": fields})
    assert isinstance(request, RepublishAccount if "account_id" in fields else republish_requests.RepublishAccounts)
    assert decode_republish_request(republish_event(request)) == request
    assert republish_event(request)["republish"].keys() == fields.keys()


def test_times_to_publish_from_are_in_utc() -> None:
    request = decode_republish_request({"republish": {"from": "2026-03-01T00:30:00+01:00"}})
    assert request.from_time == datetime(2026, 2, 28, 23, 30, tzinfo=UTC)
    assert republish_event(request) == {"republish": {"from": "2026-02-28T23:30:00Z"}}


UNPUBLISHED: list[tuple[Any, str]] = [
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


@pytest.mark.parametrize(("fields", "beginning"), UNPUBLISHED, ids=[beginning for _, beginning in UNPUBLISHED])
def test_another_to_publish_again_is_refused_with_a_sentence(fields: Any, beginning: str) -> None:
    with pytest.raises(InvalidMessage) as caught:
        decode_republish_request({"republish": fields})
    assert str(caught.value).startswith(beginning)


def test_an_event_has_nothing_beside_the_request() -> None:
    with pytest.raises(InvalidMessage, match="body: object contains unknown field `Records`"):
        decode_republish_request({"republish": ALICE, "Records": []})
