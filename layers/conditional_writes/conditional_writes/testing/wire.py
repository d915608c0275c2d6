"""How a client's requests come to the engine: in place of the connections that the client would open.

All else of botocore is as ever: its validation, its serializing, its retries, its checksums, its parsing.
"""

import importlib
import inspect
import json
import zlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import botocore
from botocore.awsrequest import AWSResponse

type Handle = Callable[["Call"], AWSResponse]


class Call(NamedTuple):
    """A client's request. `operation` is as in "DynamoDB_20120810.GetItem"."""

    operation: str
    request: dict[str, Any]
    url: str
    read_timeout_seconds: float = 60

    @property
    def service(self) -> str:
        """As it calls itself: "DynamoDB_20120810"."""
        return self.operation.partition(".")[0]

    @property
    def name(self) -> str:
        return self.operation.partition(".")[2]


class Connection:
    """In place of botocore's HTTP session: a request becomes a call."""

    def __init__(self, handle: Handle, read_timeout_seconds: float = 60) -> None:
        self._handle, self._read_timeout_seconds = handle, read_timeout_seconds

    def send(self, request: Any) -> AWSResponse:
        target = request.headers.get("X-Amz-Target")
        if target is None:
            raise NotImplementedError(
                f"{request.url}: the engine answers services that are called in JSON, as SQS and EventBridge, and no"
                " other, as SNS: give a mock in place of its client"
            )
        operation = target.decode() if isinstance(target, bytes) else target
        return self._handle(Call(operation, json.loads(request.body), request.url, self._read_timeout_seconds))

    def close(self) -> None:
        pass


class AwaitedConnection(Connection):
    """In place of aiobotocore's HTTP session `before`, which ends with the client."""

    def __init__(self, handle: Handle, read_timeout_seconds: float, before: Any) -> None:
        super().__init__(handle, read_timeout_seconds)
        self.__aexit__ = before.__aexit__

    async def send(self, request: Any) -> Any:  # type: ignore[override]
        answer = importlib.import_module("aiobotocore.awsrequest").AioAWSResponse  # who has such a client has it
        given = super().send(request)
        given.raw.raw_headers = [(name.encode(), value.encode()) for name, value in given.headers.items()]
        return answer(given.url, given.status_code, given.headers, given.raw)


class Events:
    """A client's events, without `before-send`: there moto's mock would answer, before the connection is asked."""

    def __init__(self, before: Any, *, is_awaited: bool) -> None:
        self._before, self._is_awaited = before, is_awaited

    def emit(self, event_name: str, **given: Any) -> Any:
        if event_name.startswith("before-send."):
            return _nobody() if self._is_awaited else []
        return self._before.emit(event_name, **given)


async def _nobody() -> list[Any]:
    return []


class Attached(NamedTuple):
    """A client whose requests come to the engine, and the connections and events that it had before."""

    client: Any
    connections: Any
    events: Any

    @classmethod
    def to(cls, client: Any, handle: Handle) -> "Attached":
        client = getattr(getattr(client, "meta", None), "client", client)  # of a resource
        endpoint = client._endpoint
        attached = cls(client, endpoint.http_session, endpoint._event_emitter)
        before, read_timeout_seconds = attached.connections, client.meta.config.read_timeout
        is_awaited = inspect.iscoroutinefunction(before.send)
        endpoint._event_emitter = Events(attached.events, is_awaited=is_awaited)
        endpoint.http_session = (
            AwaitedConnection(handle, read_timeout_seconds, before)
            if is_awaited
            else Connection(handle, read_timeout_seconds)
        )
        # Nobody checks a signature here, and so the client needs no credentials.
        client.meta.events.register_first("choose-signer", _unsigned)
        return attached

    def detach(self) -> None:
        self.client._endpoint.http_session = self.connections
        self.client._endpoint._event_emitter = self.events
        self.client.meta.events.unregister("choose-signer", _unsigned)


def _unsigned(**_: object) -> Any:
    return botocore.UNSIGNED


def answer(call: Call, status: int, body: dict[str, Any]) -> AWSResponse:
    """The answer as the service sends it, with its checksum."""
    content = json.dumps(body).encode()
    return _response(call, status, content, zlib.crc32(content))


def damaged(call: Call, response: AWSResponse) -> AWSResponse:
    """The answer with a body that its checksum doesn't fit."""
    content = response.content
    return _response(call, response.status_code, content + b" ", zlib.crc32(content))


def _response(call: Call, status: int, content: bytes, checksum: int) -> AWSResponse:
    headers: Any = {"x-amzn-requestid": "engine", "x-amz-crc32": str(checksum), "server": "engine"}
    return AWSResponse(call.url, status, headers, _Content(content))


class _Content:
    """An answer's body with urllib3's interface."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def stream(self, *_: object, **__: object) -> Iterator[bytes]:
        yield self._content

    async def read(self) -> bytes:
        return self._content
