"""Faults at one AWS call of a function, injected with botocore's event hooks: the code under test is as deployed."""

import contextlib
import io
import json
import threading
import types
from collections.abc import Iterator
from enum import Enum
from typing import Any
from unittest import mock

from botocore.awsrequest import AWSPreparedRequest, AWSResponse
from botocore.exceptions import ReadTimeoutError


class Killed(BaseException):
    """The function's process is gone: what catches Exception doesn't catch this."""


class Fault(Enum):
    KILLED_BEFORE = "killed before the call"
    KILLED_AFTER = "killed after the call took effect"
    RESPONSE_LOST = "response lost, and the SDK sends again"
    ALL_RESPONSES_LOST = "each response lost, until the SDK gives up"
    THROTTLED = "throttled, and the SDK sends again"
    ALL_THROTTLED = "throttled, until the SDK gives up"
    SERVER_ERROR = "an internal error, and the SDK sends again"
    CANCELLED_BY_CONFLICT = "cancelled: another transaction is on the item"
    CANCELLED_BY_THROTTLE = "cancelled: the table is throttled"


FOR_TRANSACTIONS = {Fault.CANCELLED_BY_CONFLICT, Fault.CANCELLED_BY_THROTTLE}
EVERY_ATTEMPT = {Fault.ALL_RESPONSES_LOST, Fault.ALL_THROTTLED}


class Faults:
    """Counts the AWS calls that its fault can happen to, and does it to the one with number `at`, once."""

    def __init__(self, fault: Fault | None = None, at: int = 0) -> None:
        self.fault, self.at = fault, at
        self.calls: list[str] = []
        self.struck = False
        self._dead = False
        self._lock = threading.Lock()
        self._call = threading.local()

    @contextlib.contextmanager
    def on(self, *clients: Any) -> Iterator["Faults"]:
        # Without botocore's unique_id: a second handler with the same one is silently left out.
        handlers = [(client.meta.events, self._sender(client)) for client in clients]
        for events, before_send in handlers:
            events.register("before-call", self._before_call)
            events.register_first("before-send", before_send)
        # The SDK's back-off between its own attempts takes up to seconds; nothing here depends on it.
        with mock.patch("botocore.endpoint.time", types.SimpleNamespace(sleep=lambda seconds: None)):
            try:
                yield self
            finally:
                for events, before_send in handlers:
                    events.unregister("before-call", self._before_call)
                    events.unregister("before-send", before_send)

    def revive(self) -> None:
        """The next invocation, in a new process."""
        self._dead = False

    def _before_call(self, model: Any, **_: Any) -> None:
        with self._lock:
            self._check_alive()
            self._call.struck = False
            if self.fault in FOR_TRANSACTIONS and model.name != "TransactWriteItems":
                return
            self.calls.append(model.name)
            self._call.struck = self.fault is not None and len(self.calls) == self.at

    def _sender(self, client: Any) -> Any:
        send = client._endpoint.http_session.send

        def before_send(request: AWSPreparedRequest, **_: Any) -> AWSResponse | None:
            with self._lock:
                self._check_alive()
            if not self._call.struck:
                return None
            self._call.struck = self.fault in EVERY_ATTEMPT
            self.struck = True
            return self._strike(request, send)

        return before_send

    def _strike(self, request: AWSPreparedRequest, send: Any) -> AWSResponse:
        match self.fault:
            case Fault.KILLED_BEFORE:
                self._die()
            case Fault.KILLED_AFTER:
                send(request)
                self._die()
            case Fault.RESPONSE_LOST | Fault.ALL_RESPONSES_LOST:
                send(request)
                raise ReadTimeoutError(endpoint_url=request.url)
            case Fault.THROTTLED | Fault.ALL_THROTTLED:
                return _answer(request, 400, {"__type": "ThrottlingException", "message": "injected"})
            case Fault.SERVER_ERROR:
                return _answer(request, 500, {"__type": "InternalServerError", "message": "injected"})
            case Fault.CANCELLED_BY_CONFLICT:
                return _cancelled(request, "TransactionConflict")
            case Fault.CANCELLED_BY_THROTTLE:
                return _cancelled(request, "ThrottlingError")
        raise AssertionError(self.fault)

    def _check_alive(self) -> None:
        if self._dead:  # another thread of the same process was killed
            raise Killed

    def _die(self) -> None:
        with self._lock:
            self._dead = True
        raise Killed


def _cancelled(request: AWSPreparedRequest, code: str) -> AWSResponse:
    items = json.loads(request.body)["TransactItems"]
    reasons = [{"Code": code, "Message": "injected"}] + [{"Code": "None"}] * (len(items) - 1)
    error = {"__type": "com.amazonaws.dynamodb.v20120810#TransactionCanceledException", "message": "injected"}
    return _answer(request, 400, error | {"CancellationReasons": reasons})


def _answer(request: AWSPreparedRequest, status: int, body: dict[str, Any]) -> AWSResponse:
    return AWSResponse(request.url, status, {}, _Raw(json.dumps(body).encode()))


class _Raw(io.BytesIO):
    """A response's body, as urllib3 gives it."""

    def stream(self, **_: Any) -> Iterator[bytes]:
        yield self.read()
