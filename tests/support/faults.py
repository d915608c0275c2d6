"""Injects faults into AWS calls with botocore's event hooks, so that the code under test is the deployed code."""

import contextlib
import importlib.util
import json
import logging
import threading
import time
import types
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from typing import Any, NamedTuple
from unittest import mock

from botocore.awsrequest import AWSPreparedRequest, AWSResponse
from botocore.exceptions import EndpointConnectionError, ReadTimeoutError

from conditional_writes.core import steps
from conditional_writes.core.client import READ_SECONDS
from tests.support.answers import answer


class Killed(BaseException):
    """The function's process was killed. A BaseException, so that `except Exception` doesn't catch it."""


class Fault(Enum):
    KILLED_BEFORE = "killed before the call"
    KILLED_AFTER = "killed after the call took effect"
    RESPONSE_LOST = "response lost, and the SDK sends again"
    ALL_RESPONSES_LOST = "each response lost, until the SDK's retries are exhausted"
    THROTTLED = "throttled, and the SDK sends again"
    ALL_THROTTLED = "throttled, until the SDK's retries are exhausted"
    SERVER_ERROR = "an internal error, and the SDK sends again"
    SERVER_ERROR_AFTER = "an internal error after the call took effect, and the SDK sends again"
    ALL_SERVER_ERRORS_AFTER = "an internal error each time, after the call took effect, until the SDK gives up"
    CANCELLED_BY_CONFLICT = "cancelled: another transaction is on the item"
    CANCELLED_BY_THROTTLE = "cancelled: the table is throttled"
    IN_PROGRESS = "the transaction is still in progress, and the SDK sends again"
    ALL_IN_PROGRESS = "the transaction is still in progress, until the SDK's retries are exhausted"
    OUTAGE_REFUSED = "an outage: no connection"
    OUTAGE_SERVER_ERROR = "an outage: internal errors without an effect"
    OUTAGE_ACCESS_DENIED = "an outage: the function's rights are gone"
    OUTAGE_HANGING = "an outage: no answers"


FOR_TRANSACTIONS = {Fault.CANCELLED_BY_CONFLICT, Fault.CANCELLED_BY_THROTTLE, Fault.IN_PROGRESS, Fault.ALL_IN_PROGRESS}
OUTAGES = {Fault.OUTAGE_REFUSED, Fault.OUTAGE_SERVER_ERROR, Fault.OUTAGE_ACCESS_DENIED, Fault.OUTAGE_HANGING}
"""From the call on every call fails, in this invocation and maybe in those after it: see `Outage`."""
EVERY_ATTEMPT = {Fault.ALL_RESPONSES_LOST, Fault.ALL_THROTTLED, Fault.ALL_SERVER_ERRORS_AFTER, Fault.ALL_IN_PROGRESS}


def applies(fault: Fault, operation: str) -> bool:
    """Whether the fault can be injected into a call of this operation."""
    return operation == "TransactWriteItems" or fault not in FOR_TRANSACTIONS


class Outage(NamedTuple):
    """An outage lasts so many invocations, and is of these services."""

    invocations: int = 1
    services: Sequence[str] = ("dynamodb", "sqs", "events")

    def __str__(self) -> str:
        return f"{self.invocations} invocations without {' and '.join(self.services)}"


THIS_INVOCATION = Outage()


class Faults:
    """Injects a fault into one AWS call: number `at` of the calls that the fault applies to, counted from 1.

    `outage` says how long an outage lasts. `calls` has the operations without those that failed in the outage after
    its first call; `injected` counts an outage once.
    """

    def __init__(self, fault: Fault | None = None, at: int = 0, outage: Outage = THIS_INVOCATION) -> None:
        self.fault, self.at, self.outage = fault, at, outage
        self.calls: list[str] = []
        self.injected: Counter[Fault] = Counter()
        self._outage: Fault | None = None
        self._invocations_left = 0
        self._waited_seconds = 0.0
        self._dead = False
        self._lock = threading.Lock()
        self._call = threading.local()

    @contextlib.contextmanager
    def on(self, *clients: Any) -> Iterator["Faults"]:
        # No `unique_id` is given: botocore ignores a second handler with the same one.
        handlers = [(client.meta.events, self._sender(client)) for client in clients]
        for events, before_send in handlers:
            events.register("before-call", self._before_call)
            events.register_first("before-send", before_send)
        clock = types.SimpleNamespace(monotonic=lambda: time.monotonic() + self._waited_seconds, sleep=steps.time.sleep)
        with (
            # The SDK's own back-off is left out: it takes up to seconds, and no test depends on it.
            mock.patch("botocore.endpoint.time", types.SimpleNamespace(sleep=lambda seconds: None)),
            mock.patch("conditional_writes.core.steps.time", clock),
            self._pauses_of_workers(),
        ):
            try:
                yield self
            finally:
                for events, before_send in handlers:
                    events.unregister("before-call", self._before_call)
                    events.unregister("before-send", before_send)

    def _pauses_of_workers(self) -> contextlib.AbstractContextManager[object]:
        """Deadlines bound these pauses and no number of tries, so a deadline passes as if the time had."""
        if importlib.util.find_spec("workers") is None:  # tests of the library alone: test_package.py
            return contextlib.nullcontext()
        return mock.patch("workers.failed_entries.time", types.SimpleNamespace(sleep=self._wait))

    def revive(self) -> None:
        """Begins the next invocation, in a new process."""
        self._dead = False
        self._invocations_left -= 1
        if self._invocations_left <= 0:
            self._outage = None

    def _before_call(self, model: Any, **_: Any) -> None:
        with self._lock:
            self._check_alive()
            is_hit = model.service_model.service_name in self.outage.services
            if self._outage and is_hit:
                self._call.fault = self._outage
                return
            self._call.fault = self._choose(model.name)
            if self._call.fault in OUTAGES:
                self._outage, self._invocations_left = self._call.fault, self.outage.invocations
                self.injected[self._outage] += 1
                self._call.fault = self._outage if is_hit else None

    def _choose(self, operation: str) -> Fault | None:
        if self.fault and not applies(self.fault, operation):
            return None
        self.calls.append(operation)
        return self.fault if len(self.calls) == self.at else None

    def _sender(self, client: Any) -> Any:
        send = client._endpoint.http_session.send

        def before_send(request: AWSPreparedRequest, **_: Any) -> AWSResponse | None:
            with self._lock:
                self._check_alive()
                fault = self._call.fault
                if fault is None:
                    return None
                if fault in OUTAGES:
                    return self._fail(fault, request)
                self.injected[fault] += 1
            if fault not in EVERY_ATTEMPT:
                self._call.fault = None
            return self._inject(fault, request, send)

        return before_send

    def _inject(self, fault: Fault, request: AWSPreparedRequest, send: Any) -> AWSResponse:
        match fault:
            case Fault.KILLED_BEFORE:
                self._die()
            case Fault.KILLED_AFTER:
                send(request)
                self._die()
            case Fault.RESPONSE_LOST | Fault.ALL_RESPONSES_LOST:
                send(request)
                raise ReadTimeoutError(endpoint_url=request.url)
            case Fault.THROTTLED | Fault.ALL_THROTTLED:
                return answer(request, 400, {"__type": "ThrottlingException", "message": "injected"})
            case Fault.SERVER_ERROR:
                return internal_error(request)
            case Fault.SERVER_ERROR_AFTER | Fault.ALL_SERVER_ERRORS_AFTER:
                send(request)
                return internal_error(request)
            case Fault.IN_PROGRESS | Fault.ALL_IN_PROGRESS:
                # DynamoDB says so of a try whose predecessor got no answer, and finishes it meanwhile.
                send(request)
                error = {"__type": "com.amazonaws.dynamodb.v20120810#TransactionInProgressException"}
                return answer(request, 400, error | {"Message": "injected"})
            case Fault.CANCELLED_BY_CONFLICT | Fault.CANCELLED_BY_THROTTLE:
                return _cancelled(request, fault)
        raise AssertionError(fault)

    def _fail(self, outage: Fault, request: AWSPreparedRequest) -> AWSResponse:
        match outage:
            case Fault.OUTAGE_REFUSED:
                raise EndpointConnectionError(endpoint_url=request.url)
            case Fault.OUTAGE_SERVER_ERROR:
                return internal_error(request)
            case Fault.OUTAGE_ACCESS_DENIED:
                return answer(request, 400, {"__type": "AccessDeniedException", "message": "injected"})
        self._waited_seconds += READ_SECONDS  # A deadline passes as if the time had.
        raise ReadTimeoutError(endpoint_url=request.url)

    def _wait(self, seconds: float) -> None:
        self._waited_seconds += seconds

    def _check_alive(self) -> None:
        if self._dead:  # Another thread of the same process was killed.
            raise Killed

    def _die(self) -> None:
        with self._lock:
            self._dead = True
        raise Killed


@contextlib.contextmanager
def no_logs() -> Iterator[None]:
    """Without log lines. Faults make thousands, and pytest keeps each until the end of the test, with its traceback."""
    logging.disable()
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)


def unlimited_retries() -> contextlib.AbstractContextManager[object]:
    """Without the SDK's retry quota for a process, which dozens of faults use up: then it tries no call again."""
    return mock.patch("botocore.retries.quota.RetryQuota.acquire", return_value=True)


def _cancelled(request: AWSPreparedRequest, fault: Fault) -> AWSResponse:
    code = "TransactionConflict" if fault is Fault.CANCELLED_BY_CONFLICT else "ThrottlingError"
    items = json.loads(request.body)["TransactItems"]
    reasons = [{"Code": code, "Message": "injected"}] + [{"Code": "None"}] * (len(items) - 1)
    error = {"__type": "com.amazonaws.dynamodb.v20120810#TransactionCanceledException", "message": "injected"}
    return answer(request, 400, error | {"CancellationReasons": reasons})


def internal_error(request: AWSPreparedRequest) -> AWSResponse:
    return answer(request, 500, {"__type": "InternalServerError", "message": "injected"})


def between_tries(client: Any, do: Callable[[], object]) -> None:
    """Calls `do` once, between the first attempt of the client's next write and the SDK's second."""
    doing = iter([do])

    def between(**_: Any) -> None:
        for do_it in doing:
            do_it()

    for operation in ("UpdateItem", "DeleteItem", "PutItem", "TransactWriteItems"):
        client.meta.events.register_first(f"needs-retry.dynamodb.{operation}", between)
