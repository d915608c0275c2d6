"""The steps of a call: the requests and pauses that a driver takes one after another, until the call's deadline.

A call's work is written once. A function of steps is a generator: it yields a step, and gets its answer or its
error. `blocking` makes a function of it that takes the steps in its thread. `conditional_writes.asyncio` makes one that
awaits them.

A request's handlers of botocore's events note whether a try got no answer, so that a write may have taken effect. They
take the items out of the answers to reads, and the large ones that refused writes hand back: of these few threads have
one at a time (docs/decisions/memory-of-a-batch.md). There is no public way around botocore's own parser. If botocore
changes an event that is used for this, it reads all items itself: slowly, and with more memory, but as correctly.
"""

import contextlib
import functools
import json
import math
import os
import random
import threading
import time
import weakref
from collections.abc import Callable, Generator, Iterator, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from botocore.exceptions import ConnectTimeoutError, EndpointConnectionError

from conditional_writes.core.answers import READS, found_and_rest, read_body
from conditional_writes.core.client import check_awaited, check_plain
from conditional_writes.core.items import Item, from_dynamodb

if TYPE_CHECKING:
    from types_boto3_dynamodb import DynamoDBClient

SHORTEST_SECONDS, LONGEST_SECONDS = 0.05, 1.0
"""The bounds of the first of the growing pauses, and of the later ones."""
DEFAULT_SECONDS = 10
"""Of a call without a deadline."""


class DeadlinePassed(Exception):
    """No time is left for another request. Nothing of the plan was written, so it can be tried again later."""


class Deadline(NamedTuple):
    """A point in time on the monotonic clock, in seconds. No request is sent after it."""

    at: float

    @classmethod
    def after(cls, seconds: float) -> "Deadline":
        if math.isnan(seconds):
            raise ValueError("a deadline after nan seconds, which would never pass")
        return cls(time.monotonic() + seconds)

    @classmethod
    def of_invocation(cls, context: Any, reserved_seconds: float) -> "Deadline":
        """So many seconds before a Lambda invocation times out. `context` is the second argument of its handler."""
        return cls.after(context.get_remaining_time_in_millis() / 1000 - reserved_seconds)

    @property
    def remaining_seconds(self) -> float:
        return self.at - time.monotonic()

    def earlier_by(self, seconds: float) -> "Deadline":
        return Deadline(self.at - seconds)

    def check(self, doing: str) -> None:
        """Raises DeadlinePassed if the deadline has passed. `doing` names the work, for the error's text."""
        if self.remaining_seconds <= 0:
            raise DeadlinePassed(f"no time is left: {doing}")


def deadline_or_default(deadline: Deadline | None) -> Deadline:
    """The given deadline; None: ten seconds from now. Raises TypeError for what is none, as a number of seconds."""
    if deadline is None:
        return Deadline.after(DEFAULT_SECONDS)
    if not hasattr(deadline, "remaining_seconds"):
        raise TypeError(f"deadline: {deadline!r} is no deadline: use Deadline.after, with the seconds from now")
    return deadline


class Step(Protocol):
    """A `Request` or a `Pause`."""

    def take(self) -> Any:
        """The answer to it, in the caller's thread."""


class Pause(NamedTuple):
    """The call goes on after so many seconds."""

    seconds: float

    def take(self) -> None:
        time.sleep(self.seconds)


type Steps[Result] = Generator[Step, Any, Result]


def blocking[**Parameters, Result](function: Callable[Parameters, Steps[Result]]) -> Callable[Parameters, Result]:
    """The function of these steps that takes them in the caller's thread."""

    @functools.wraps(function)
    def call(*arguments: Parameters.args, **named: Parameters.kwargs) -> Result:
        steps = function(*arguments, **named)
        try:
            step = next(steps)
            while True:
                try:
                    answer = step.take()
                except BaseException as error:  # noqa: BLE001 (the steps raise it, unless it is an answer to them)
                    step = steps.throw(error)
                else:
                    step = steps.send(answer)
        except StopIteration as end:
            result: Result = end.value
            return result

    return call


def steps[**Parameters, Result](function: Callable[Parameters, Result]) -> Callable[Parameters, Steps[Result]]:
    """The steps of a `blocking` function, for other steps: `yield from steps(read)(client, keys, deadline)`."""
    of_function: Callable[Parameters, Steps[Result]] = vars(function)["__wrapped__"]
    return of_function


def growing_pauses() -> Iterator[float]:
    """Random pauses in seconds between the tries of a request that DynamoDB throttled, without end.

    The bound of each is twice that of the one before, at most a second.
    """
    longest_seconds = SHORTEST_SECONDS
    while True:
        yield random.uniform(0, longest_seconds)
        longest_seconds = min(2 * longest_seconds, LONGEST_SECONDS)


LARGE_BYTES = 16_384
"""Of an error's body. botocore reads the smaller ones."""
MAXIMUM_THREADS = 2
"""The threads of a process that may have a large item."""

ITEMS = "conditional_writes.items"
"""In botocore's answer: the items that were taken out of the body."""
FOUND = "conditional_writes.found"
"""In botocore's answer to a read: what was taken out of the body."""
_BODY = "conditional_writes.body"
"""In botocore's answer, until it was looked at: the body of an answer 2xx."""
_WAS_200 = "conditional_writes.was_200"
"""In botocore's context of a request: its latest try had this status."""


class NoTurn(Exception):
    """A write was refused, and until its deadline too many other threads had large items: nobody read its own."""


class Request:
    """A request to DynamoDB: a client's method, as "put_item", and its parameters.

    `deadline` is that of a write: a thread that is handed back a large item waits for its turn until then. A read has
    none. `is_awaited`: it isn't a thread's, and doesn't wait. `unanswered`: a try of the request got no answer.
    """

    __slots__ = ("client", "deadline", "is_awaited", "method", "parameters", "unanswered")

    def __init__(
        self, client: "DynamoDBClient", method: str, parameters: dict[str, Any], deadline: Deadline | None = None
    ) -> None:
        self.client, self.method, self.parameters, self.deadline = client, method, parameters, deadline
        self.is_awaited = self.unanswered = False

    def take(self) -> Any:
        """DynamoDB's answer. Raises botocore's errors, NoTurn, and TypeError for the client of a resource."""
        prepare(self.client, is_awaited=False)
        before = current.set(self)
        try:
            return getattr(self.client, self.method)(**self.parameters)
        finally:
            current.reset(before)


current: ContextVar[Request | None] = ContextVar("current", default=None)
"""The library's request that is being made. A caller's own, as in a plan, is none."""


class _Thread(threading.local):
    """`has_turn`: the thread may have large items."""

    has_turn = False


_thread = _Thread()
_turns = threading.Semaphore(MAXIMUM_THREADS)
_prepared: "tuple[weakref.WeakSet[DynamoDBClient], weakref.WeakSet[DynamoDBClient]]" = (
    weakref.WeakSet(),
    weakref.WeakSet(),
)
"""The clients whose calls block, and those whose calls are awaited."""
_PROCESS = os.getpid()
"""The process that has imported the library. One that it forks has its connections, and would read its answers."""


def _forget_prepared() -> None:
    for clients in _prepared:
        clients.clear()


if hasattr(os, "register_at_fork"):  # Windows has none
    os.register_at_fork(after_in_child=_forget_prepared)


def prepare(client: "DynamoDBClient", *, is_awaited: bool) -> None:
    """Called before each request, because a client may be the user's own.

    Raises TypeError for the client of a resource, and for one whose calls are awaited, or aren't, although they should.
    """
    if client in _prepared[is_awaited]:
        return
    check_plain(client)
    check_awaited(client, is_awaited=is_awaited)
    if os.getpid() != _PROCESS and not is_awaited:
        client.close()
    events = client.meta.events
    # A handler with an id is registered once, be it by two objects that share the events.
    for operation in ("GetItem", "Query", "Scan", "BatchGetItem"):
        events.register(f"before-parse.dynamodb.{operation}", take_found, unique_id=f"{FOUND} {operation}")
    events.register_first("before-parse.dynamodb", take_from_body, unique_id=ITEMS)
    events.register_first("needs-retry.dynamodb", note_try, unique_id=_WAS_200)
    _prepared[is_awaited].add(client)


@contextlib.contextmanager
def in_turn() -> Iterator[None]:
    """The turn that the thread gets in the block, because it is handed back a large item, ends with the block."""
    had_turn = _thread.has_turn
    try:
        yield
    finally:
        if _thread.has_turn and not had_turn:
            _turns.release()
        _thread.has_turn = had_turn


def items_of(response: dict[str, Any], reasons: Sequence[dict[str, Any]]) -> list[Item | None]:
    """The item of each of the error's reasons, None if a reason has none. Takes large items out of the response."""
    large: list[Item | None] | None = response.pop(ITEMS, None)
    return large or [from_dynamodb(reason["Item"]) if reason.get("Item") else None for reason in reasons]


def take_found(response_dict: Any = None, customized_response_dict: Any = None, **_: object) -> None:
    """A handler of botocore's event `before-parse`: takes items out of the body, and leaves the rest to botocore.

    It leaves a body that it can't read as it is: botocore reads it, or says what is wrong with it.
    """
    request = current.get()
    if request is None or request.method not in READS or not response_dict or customized_response_dict is None:
        return
    if response_dict["status_code"] == 200:
        with contextlib.suppress(Exception):
            found, rest = found_and_rest(response_dict["body"], request.method)
            customized_response_dict[FOUND], response_dict["body"] = found, rest


def take_from_body(response_dict: Any = None, customized_response_dict: Any = None, **_: object) -> None:
    """A handler of botocore's event `before-parse`, which leaves botocore the rest of the body. Raises NoTurn.

    A body that botocore's parser would fail on is emptied, for `note_try`: nobody would learn that the write may have
    been made.
    """
    if response_dict is None:
        return
    body = response_dict["body"]
    if _breaks_parser(body):
        response_dict["body"] = b""
    if customized_response_dict is None:
        return
    if response_dict["status_code"] < 300:
        customized_response_dict[_BODY] = response_dict["body"]
    elif response_dict["status_code"] == 400 and len(body) > LARGE_BYTES:
        _take_refused_items(response_dict, customized_response_dict)


def _breaks_parser(body: bytes) -> bool:
    """JSON that is no object, and what isn't UTF-8, as a compressed page: botocore raises an error that is no SDK's."""
    try:
        text = body.decode()
        return not text.startswith("{") and not isinstance(json.loads(text), dict)
    except UnicodeDecodeError:
        return True
    except ValueError:
        return False


def _take_refused_items(response_dict: Any, customized_response_dict: Any) -> None:
    """Takes the items out of the body of an answer to a write of the library's."""
    request = current.get()
    if request is None or request.deadline is None:
        return
    if not request.is_awaited and not _thread.has_turn:
        seconds = min(max(0.0, request.deadline.remaining_seconds), threading.TIMEOUT_MAX)
        if not _turns.acquire(timeout=seconds):
            raise NoTurn
        _thread.has_turn = True
    try:
        error = read_body(response_dict["body"])
        items = [reason.pop("Item", None) for reason in error.get("CancellationReasons", [error])]
    except Exception:  # noqa: BLE001 (botocore says what is wrong with it)
        return
    customized_response_dict[ITEMS] = items
    response_dict["body"] = json.dumps(error).encode()


def note_try(
    response: tuple[Any, dict[str, Any]] | None = None,
    caught_exception: Exception | None = None,
    operation: Any = None,
    request_dict: dict[str, Any] | None = None,
    **_: object,
) -> None:
    """A handler of botocore's event `needs-retry`: the try got no answer, or none that says what became of the write.

    Only an error of DynamoDB's with the status 400 says that nothing was written. After a 200 the SDK tries again if
    the answer is damaged. This handler comes before the SDK's own, which tries again after a 502.
    """
    context = {} if request_dict is None else request_dict["context"]
    unanswered = context.pop(_WAS_200, False)
    if response is None:
        unanswered |= not _was_never_sent(caught_exception)
    else:
        http, parsed = response
        body = parsed.pop(_BODY, b"{}")
        if http.status_code < 300 and operation.output_shape is not None and not _is_object(body, parsed):
            http.status_code = 502
            parsed["Error"] = {"Code": "502", "Message": "the answer's body is no JSON object, so it isn't DynamoDB's"}
        if http.status_code == 200:
            context[_WAS_200] = True
        elif http.status_code != 400 or parsed.get("Error", {}).get("Code", "").isdigit():
            unanswered = True  # DynamoDB's errors have names: else botocore takes the status for the code
    request = current.get()
    if request is not None:
        request.unanswered |= unanswered


def _was_never_sent(error: Exception | None) -> bool:
    """There was no connection. ProxyConnectionError says less: it is raised for an answer that a proxy dropped, too.

    So is aiobotocore's EndpointConnectionError for a connection that was reset, unless aiohttp couldn't connect.
    """
    if isinstance(error, EndpointConnectionError):
        causes = {kind.__name__ for kind in type(error.kwargs.get("error")).__mro__}
        return "ClientConnectionError" not in causes or "ClientConnectorError" in causes
    return isinstance(error, ConnectTimeoutError)


def _is_object(body: bytes, parsed: dict[str, Any]) -> bool:
    """Whether the body of an answer is a JSON object. botocore takes any other body for an empty object."""
    if body == b"{}" or parsed.keys() > {"ResponseMetadata"}:
        return True
    try:
        return isinstance(json.loads(body), dict)
    except ValueError:
        return False
