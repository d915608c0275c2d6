"""Unit tests use no AWS, no engine and no network. If a test opens a connection, it fails with that reason."""

import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import NoReturn

import pytest

from tests.support.clock import Clock
from tests.unit.stubs import Stubbed, all_taken_but


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object, **_: object) -> NoReturn:
        pytest.fail(f"a unit test used the network: {arguments[1:]}")

    for method in ("connect", "connect_ex", "sendto"):
        monkeypatch.setattr(socket.socket, method, refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Deadlines go by this clock."""
    clock = Clock()
    monkeypatch.setattr("conditional_writes.core.steps.time", SimpleNamespace(monotonic=clock, sleep=clock.sleep))
    return clock


@pytest.fixture
def one_call_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stub's answers are taken in their order."""
    monkeypatch.setattr("workers.parallel.ThreadPoolExecutor", lambda _: ThreadPoolExecutor(1))


@pytest.fixture
def dynamodb() -> Iterator[Stubbed]:
    with Stubbed("dynamodb") as stubbed:
        yield stubbed


@pytest.fixture
def empty_dynamodb(dynamodb: Stubbed) -> Stubbed:
    """Finds no items and takes all writes, unless something else is prepared."""
    dynamodb.always("batch_get_item", {"Responses": {}, "UnprocessedKeys": {}})
    dynamodb.always("batch_write_item", {"UnprocessedItems": {}})
    for each in ("update_item", "transact_write_items"):
        dynamodb.always(each, {})
    return dynamodb


@pytest.fixture
def sqs(one_call_at_a_time: None) -> Iterator[Stubbed]:
    """Takes all batches, unless something else is prepared."""
    with Stubbed("sqs") as stubbed:
        stubbed.always("send_message_batch", all_taken_but())
        for each in ("change_message_visibility_batch", "delete_message_batch"):
            stubbed.always(each, {"Successful": [], "Failed": []})
        yield stubbed


@pytest.fixture
def events(one_call_at_a_time: None) -> Iterator[Stubbed]:
    with Stubbed("events") as stubbed:
        yield stubbed
