"""A change that may have been made isn't made twice, however its answer was damaged, in each of the SDK's modes."""

import gzip
import json
import zlib
from types import SimpleNamespace
from typing import Any

import pytest
from botocore import exceptions
from botocore.config import Config
from botocore.exceptions import ClientError, ConnectionClosedError, ConnectTimeoutError, EndpointConnectionError

from conditional_writes import OutcomeUnknown, VersionedTable, key, write
from conditional_writes.core.items import to_dynamodb
from conditional_writes.core.unconditional import read_one
from tests.support.clock import plenty
from tests.unit.stubs import Answering
from tests.unit.test_loop import COUNTER, at, count_up_once

NO_JSON = b"<html>Sign in to the hotel's network</html>"
FOUND = json.dumps({"Item": to_dynamodb(at(7))}).encode()
REFUSAL = json.dumps(
    {"__type": "com.amazonaws.dynamodb.v20120810#ConditionalCheckFailedException", "Item": to_dynamodb(at(9))}
).encode()


def crc32_of(body: bytes) -> dict[str, str]:
    return {"x-amz-crc32": str(zlib.crc32(body))}


class ClientConnectionError(Exception):
    """aiohttp's names."""


class ClientOSError(ClientConnectionError):
    """A connection was reset."""


class ClientConnectorError(ClientOSError):
    """There was no connection."""


DAMAGED: dict[str, Any] = {
    "a wrong checksum": (200, b"{}", crc32_of(b"{ }")),
    "half a body": (200, FOUND[:20], crc32_of(FOUND)),
    "half a body, and no checksum": (200, FOUND[:20], {}),
    "no body": (200, b"", {}),
    "no JSON": (200, NO_JSON, {}),
    "no JSON, by a proxy that says so": (203, NO_JSON, {}),
    "no content": (204, b"", {}),
    "JSON that is no object": (200, b"null", {}),
    "a compressed page": (200, gzip.compress(NO_JSON), {}),
    "an object that is no UTF-8": (200, b'{"Attributes": "caf\xe9"}', {}),
    "an internal error that is no UTF-8": (500, b"\xff", {}),
    "an internal error that is no object": (500, b"[]", {}),
    "an internal error": (500, b"{}", {}),
    "too many requests": (429, b"{}", {}),
    "a refusal with the status of an internal error": (500, REFUSAL, {}),
    "a lost connection": ConnectionClosedError(endpoint_url="https://dynamodb"),
    "a connection that was reset, by aiobotocore": EndpointConnectionError(endpoint_url="x", error=ClientOSError()),
    "a proxy that dropped the answer": exceptions.ProxyConnectionError(proxy_url="http://proxy"),
}
NEVER_SENT: dict[str, Any] = {
    "no connection": EndpointConnectionError(endpoint_url="https://dynamodb"),
    "no connection, by aiobotocore": EndpointConnectionError(endpoint_url="x", error=ClientConnectorError()),
    "no connection in time": ConnectTimeoutError(endpoint_url="https://dynamodb"),
}
MODES = pytest.mark.parametrize("mode", ["legacy", "standard", "adaptive"])


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("botocore.endpoint.time", SimpleNamespace(sleep=lambda _: None))


def client_of(mode: Any, *answers: Any) -> Any:
    """A client whose tries have these answers, one after the other; the last one for ever."""
    return Answering(*answers, config=Config(retries={"mode": mode, "total_max_attempts": 3})).client


@MODES
@pytest.mark.parametrize("damaged", DAMAGED)
def test_a_write_whose_answer_was_damaged_may_have_been_made(mode: str, damaged: str) -> None:
    client = client_of(mode, DAMAGED[damaged], (400, REFUSAL))
    with pytest.raises(OutcomeUnknown, match="others have written since"):
        write(client, count_up_once, {COUNTER: at(7)}, plenty())


@MODES
def test_a_refusal_that_is_not_dynamodbs_says_nothing_of_the_write(mode: str) -> None:
    with pytest.raises(OutcomeUnknown, match="another ended in"):
        write(client_of(mode, (400, NO_JSON)), count_up_once, {COUNTER: at(7)}, plenty())


@MODES
@pytest.mark.parametrize("error", NEVER_SENT)
def test_a_try_that_was_never_sent_leaves_nothing_unknown(mode: str, error: str) -> None:
    client = client_of(mode, NEVER_SENT[error], (400, REFUSAL), (200, b"{}"))
    assert write(client, count_up_once, {COUNTER: at(7)}, plenty())[:2] == (10, 1)


@MODES
def test_an_answer_that_is_no_json_is_neither_a_write_nor_a_missing_item(mode: str) -> None:
    client = client_of(mode, (200, NO_JSON))
    for call in (
        lambda: VersionedTable(client, "Counters", "counter_id").save({"counter_id": "c-1"}),
        lambda: read_one(client, key("Counters", counter_id="c-1"), plenty()),
        lambda: list(VersionedTable(client, "Counters", "counter_id").scan()),
    ):
        with pytest.raises(ClientError, match=r"502.*the answer's body is no JSON object"):
            call()
    client = client_of(mode, (200, NO_JSON), (200, FOUND))
    assert read_one(client, key("Counters", counter_id="c-1"), plenty()) == at(7)


def test_an_operation_that_answers_nothing_is_left_alone() -> None:
    client = client_of("standard", (200, b""))
    with pytest.raises(ClientError):
        read_one(client, COUNTER, plenty())
    client.tag_resource(ResourceArn="arn:aws:dynamodb:us-east-1:123456789012:table/Counters", Tags=[])
