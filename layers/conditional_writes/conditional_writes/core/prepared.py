"""A client's requests as the library needs them: its handlers of botocore's events.

They note whether a try got no answer, so that a write may have taken effect. They read large items that refused writes
hand back in one pass, and by few threads at a time: of an item of 400 KB botocore makes structures of up to 150 MB, in
each thread that is refused at the same time (docs/decisions/memory-of-a-batch.md). There is no public way around it. If
botocore changes an event that is used for this, it reads large items as it reads small ones: slowly, and with more
memory, but as correctly.
"""

import contextlib
import json
import threading
import weakref
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ConnectTimeoutError, EndpointConnectionError

from conditional_writes.core.bodies import read_body, take_read_item
from conditional_writes.core.deadline import Deadline
from conditional_writes.core.items import Item, from_dynamodb

if TYPE_CHECKING:
    from types_boto3_dynamodb import DynamoDBClient

LARGE_BYTES = 16_384
"""Of an error's body. botocore reads the smaller ones."""
MAXIMUM_THREADS = 2
"""The threads of a process that may have a large item."""

ITEMS = "conditional_writes.items"
"""In botocore's answer: the items that were taken out of the body."""

_WAS_200 = "conditional_writes.was_200"
"""In botocore's context of a request: its latest try had this status."""

_NEVER_SENT = (ConnectTimeoutError, EndpointConnectionError)
"""There was no connection. ProxyConnectionError says less: it is raised for an answer that a proxy dropped, too."""


class NoTurn(Exception):
    """A write was refused, and until its deadline too many other threads had large items: nobody read its own."""


class _Thread(threading.local):
    """This thread's writing. `is_sending`: the request is a write of the library's, and not one that a plan makes.

    `unanswered`: a try of the latest request got no answer. `is_taken`: the thread may have large items. It waits for
    that until the `deadline`, which is None if the thread isn't writing.
    """

    is_sending = False
    unanswered = False
    is_taken = False
    deadline: Deadline | None = None


this_thread = _Thread()
_turns = threading.Semaphore(MAXIMUM_THREADS)
_prepared: "weakref.WeakSet[DynamoDBClient]" = weakref.WeakSet()


def prepare(client: "DynamoDBClient") -> None:
    """Called before each request, because a client may be the user's own.

    Raises TypeError for the client of a resource.
    """
    if client in _prepared:
        return
    _check_plain(client)
    events = client.meta.events
    events.register("before-parse.dynamodb.GetItem", take_read_item)
    events.register_first("before-parse.dynamodb", take_from_body)
    events.register_first("needs-retry.dynamodb", note_try)
    _prepared.add(client)


@contextlib.contextmanager
def sending(client: "DynamoDBClient") -> Iterator[None]:
    """The request in the block is a write of the library's. Answers to a caller's own, as in a plan, stay as they are.

    Raises TypeError for the client of a resource.
    """
    prepare(client)
    this_thread.is_sending, this_thread.unanswered = True, False
    try:
        yield
    finally:
        this_thread.is_sending = False


@contextlib.contextmanager
def in_turn(deadline: Deadline) -> Iterator[None]:
    """The thread waits for its turn if it is handed back a large item, and its turn ends at the end of the block."""
    outer = this_thread.deadline, this_thread.is_taken
    this_thread.deadline = deadline
    try:
        yield
    finally:
        if this_thread.is_taken and not outer[1]:
            _turns.release()
        this_thread.deadline, this_thread.is_taken = outer


def items_of(response: dict[str, Any], reasons: Sequence[dict[str, Any]]) -> list[Item | None]:
    """The item of each of the error's reasons, None if a reason has none. Takes large items out of the response."""
    large: list[Item | None] | None = response.pop(ITEMS, None)
    return large or [from_dynamodb(reason["Item"]) if reason.get("Item") else None for reason in reasons]


def take_from_body(response_dict: Any = None, customized_response_dict: Any = None, **_: object) -> None:
    """A handler of botocore's event `before-parse`, which leaves botocore the rest of the body. Raises NoTurn.

    A body that is JSON and no object is emptied, for `note_try`: botocore's parser would fail on it with an
    AttributeError, and nobody would learn that the write may have been made.
    """
    if response_dict is None:
        return
    body = response_dict["body"]
    if not body.startswith(b"{"):
        with contextlib.suppress(ValueError):
            if not isinstance(json.loads(body), dict):
                response_dict["body"] = b""
    elif response_dict["status_code"] == 400 and len(body) > LARGE_BYTES and customized_response_dict is not None:
        _take_refused_items(response_dict, customized_response_dict)


def _take_refused_items(response_dict: Any, customized_response_dict: Any) -> None:
    """Takes the items out of the body. Only if the thread is inside of `in_turn` and `sending`."""
    if not this_thread.is_sending or this_thread.deadline is None:
        return
    if not this_thread.is_taken:
        seconds = min(max(0.0, this_thread.deadline.remaining_seconds), threading.TIMEOUT_MAX)
        if not _turns.acquire(timeout=seconds):
            raise NoTurn
    this_thread.is_taken = True
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

    Only a status 400 says that nothing was written. After a 200 the SDK tries again if the answer is damaged. This
    handler comes before the SDK's own, which tries again after a 502.
    """
    context = {} if request_dict is None else request_dict["context"]
    if context.pop(_WAS_200, False):
        this_thread.unanswered = True
    if response is None:
        this_thread.unanswered |= not isinstance(caught_exception, _NEVER_SENT)
        return
    http, parsed = response
    if http.status_code == 200 and operation.output_shape is not None and not _is_object(http.content, parsed):
        http.status_code = 502
        parsed["Error"] = {"Code": "502", "Message": "the answer's body is no JSON object, so it isn't DynamoDB's"}
    if http.status_code == 200:
        context[_WAS_200] = True
    elif http.status_code != 400:
        this_thread.unanswered = True


def _is_object(body: bytes, parsed: dict[str, Any]) -> bool:
    """Whether the body of an answer is a JSON object. botocore takes any other body for an empty object."""
    if body == b"{}" or parsed.keys() > {"ResponseMetadata"}:
        return True
    try:
        return isinstance(json.loads(body), dict)
    except ValueError:
        return False


def _check_plain(client: "DynamoDBClient") -> None:
    """Raises TypeError for the client of a resource: each value would be converted twice.

    There is no public way to ask for a client's event handlers. If botocore changes, such a client isn't recognised,
    and DynamoDB refuses its keys.
    """
    service = getattr(getattr(client, "meta", None), "service_model", None)
    if service is None or service.service_name != "dynamodb":
        raise TypeError(f"expected a client of DynamoDB, got {client!r}: make one with dynamodb_client()")
    events: Any = client.meta.events
    try:
        handlers = events._emitter._handlers.prefix_search("before-parameter-build.dynamodb.GetItem")
    except AttributeError:
        handlers = ()
    if any(type(getattr(handler, "__self__", None)).__module__ == "boto3.dynamodb.transform" for handler in handlers):
        raise TypeError(
            "this client belongs to boto3.resource('dynamodb'), which converts the values of each request and answer:"
            " give the library boto3.client('dynamodb'), or dynamodb_client(), and keep the resource beside it"
        )
