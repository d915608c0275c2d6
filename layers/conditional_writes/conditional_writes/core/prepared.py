"""A client's requests and answers as the library needs them: its handlers of botocore's events.

They note whether a try got no answer, so that a write may have taken effect. They read the items that reads find, and
the large ones that refused writes hand back, in one pass over the JSON to Python's types: botocore makes DynamoDB's
types of the JSON, by its model, and boto3 Python's types of these, in many times the CPU time. Of an item of 400 KB
botocore makes structures of up to 150 MB in each thread that is refused at the same time, so few threads read one
(docs/decisions/memory-of-a-batch.md). There is no public way around it. If botocore changes an event that is used for
this, it reads all items itself: slowly, and with more memory, but as correctly. A body that DynamoDB doesn't send is an
error here, and botocore's parser says what is wrong with it, or takes it.
"""

import base64
import contextlib
import functools
import json
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NoReturn

from botocore.exceptions import ConnectTimeoutError, EndpointConnectionError

from conditional_writes.core.client import check_awaited, check_plain
from conditional_writes.core.items import Item, from_dynamodb, to_dynamodb
from conditional_writes.core.steps import Deadline

if TYPE_CHECKING:
    from types_boto3_dynamodb import DynamoDBClient

LARGE_BYTES = 16_384
"""Of an error's body. botocore reads the smaller ones."""
MAXIMUM_THREADS = 2
"""The threads of a process that may have a large item."""

READS = {"get_item": "Item", "query": "Items", "scan": "Items", "batch_get_item": "Responses"}
"""The methods that read, and the field of their answers that has items."""
ITEMS = "conditional_writes.items"
"""In botocore's answer: the items that were taken out of the body."""
FOUND = "conditional_writes.found"
"""In botocore's answer to a read: what was taken out of the body."""
_BODY = "conditional_writes.body"
"""In botocore's answer, until it was looked at: the body of an answer 200."""
_WAS_200 = "conditional_writes.was_200"
"""In botocore's context of a request: its latest try had this status."""
_NEVER_SENT = (ConnectTimeoutError, EndpointConnectionError)
"""There was no connection. ProxyConnectionError says less: it is raised for an answer that a proxy dropped, too."""


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


def prepare(client: "DynamoDBClient", *, is_awaited: bool) -> None:
    """Called before each request, because a client may be the user's own.

    Raises TypeError for the client of a resource, and for one whose calls are awaited, or aren't, although they should.
    """
    if client in _prepared[is_awaited]:
        return
    check_plain(client)
    check_awaited(client, is_awaited=is_awaited)
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
    if customized_response_dict is None:
        return
    if response_dict["status_code"] == 200:
        customized_response_dict[_BODY] = response_dict["body"]
    elif response_dict["status_code"] == 400 and len(body) > LARGE_BYTES:
        _take_refused_items(response_dict, customized_response_dict)


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
        unanswered |= not isinstance(caught_exception, _NEVER_SENT)
    else:
        http, parsed = response
        body = parsed.pop(_BODY, b"{}")
        if http.status_code == 200 and operation.output_shape is not None and not _is_object(body, parsed):
            http.status_code = 502
            parsed["Error"] = {"Code": "502", "Message": "the answer's body is no JSON object, so it isn't DynamoDB's"}
        if http.status_code == 200:
            context[_WAS_200] = True
        elif http.status_code != 400 or parsed.get("Error", {}).get("Code", "").isdigit():
            unanswered = True  # DynamoDB's errors have names: else botocore takes the status for the code
    request = current.get()
    if request is not None:
        request.unanswered |= unanswered


def _is_object(body: bytes, parsed: dict[str, Any]) -> bool:
    """Whether the body of an answer is a JSON object. botocore takes any other body for an empty object."""
    if body == b"{}" or parsed.keys() > {"ResponseMetadata"}:
        return True
    try:
        return isinstance(json.loads(body), dict)
    except ValueError:
        return False


class Structure(dict[str, Any]):
    """An object of the body that is no item, map or value: the whole answer, or a transaction's reason."""


def read_body(body: bytes) -> Any:
    """A body of items: each is a plain dict. Raises errors of any kind for what DynamoDB doesn't send."""
    return _decode(body.decode())


def found_and_rest(body: bytes, method: str) -> tuple[Any, bytes]:
    """The method's finds, which are an item, a list of items, or lists by table; and the body without them.

    Raises errors of any kind for what DynamoDB doesn't send, and for a body without items.
    """
    answer = read_body(body)
    found = answer.pop(READS[method])
    match method:
        case "get_item":
            _check_item(found)
        case "batch_get_item":
            _check_tables(found)
            for table in answer.get("UnprocessedKeys", {}).values():
                table["Keys"] = [*map(_in_dynamodbs_types, table["Keys"])]
        case _:
            _check_items(found)
            if "LastEvaluatedKey" in answer:
                answer["LastEvaluatedKey"] = _in_dynamodbs_types(answer["LastEvaluatedKey"])
    return found, _encode(answer).encode() if answer else b"{}"


def _check_item(found: Any) -> None:
    if type(found) is not dict:
        _refuse(found)


def _check_items(found: Any) -> None:
    if type(found) is not list or not set(map(type, found)) <= {dict}:
        _refuse(found)


def _check_tables(found: Any) -> None:
    if found and type(found) is not Structure:
        _refuse(found)
    for items in found.values():
        _check_items(items)


def _in_dynamodbs_types(key: Any) -> dict[str, Any]:
    _check_item(key)
    return to_dynamodb(key)


def _value_of(read: dict[str, Any]) -> Any:
    """The value of an object in DynamoDB's JSON whose own values were read before.

    The value of `{"N": "1"}` is returned in a tuple, as no JSON is: `{"S": …}` may also be a map with the name `S`.
    This is called for each value of each item: what most values are comes first, and a map is changed in place.
    """
    if len(read) == 1:
        name, value = read.popitem()
        if type(value) is str and name in ("S", "N"):
            return (value,) if name == "S" else _number_of(value)
        if type(value) is tuple:
            return {name: value[0]}
        return _READERS[name](value) if name in _READERS else Structure({name: value})
    for name, value in read.items():
        if type(value) is not tuple:
            return _structure(read, name)
        read[name] = value[0]
    return read


def _structure(read: dict[str, Any], name: str) -> Structure:
    """The object whose first value that is none of an item's has this name: so has none of the others."""
    if name != next(iter(read)) or tuple in map(type, read.values()):
        _refuse(read)
    return Structure(read)


def _refuse(read: object) -> NoReturn:
    raise TypeError(f"{type(read)}: DynamoDB sends no such value here")


def _text(read: Any) -> tuple[str]:
    return (read,) if type(read) is str else _refuse(read)


@functools.lru_cache(1024)
def _number_of(digits: str) -> tuple[Decimal]:
    return (Decimal(digits),)


def _number(read: Any) -> tuple[Decimal]:
    return _number_of(read) if type(read) is str else _refuse(read)


def _map(read: Any) -> tuple[dict[str, Any]]:
    return (read,) if type(read) is dict else _refuse(read)


def _list(read: Any) -> tuple[list[Any]]:
    if type(read) is not list or not set(map(type, read)) <= {tuple}:
        _refuse(read)
    return ([value for (value,) in read],)


def _bool(read: Any) -> tuple[bool]:
    return (read,) if type(read) is bool else _refuse(read)


def _null(read: Any) -> tuple[None]:
    return (None,) if read is True else _refuse(read)


def _binary(read: Any) -> tuple[bytes]:
    return (base64.b64decode(read),) if type(read) is str else _refuse(read)


def _set_of(read_element: Callable[[Any], tuple[Any]]) -> Callable[[Any], tuple[set[Any]]]:
    return lambda read: ({read_element(each)[0] for each in read},) if type(read) is list else _refuse(read)


_READERS: dict[str, Callable[[Any], tuple[Any]]] = {
    "S": _text,
    "N": _number,
    "B": _binary,
    "BOOL": _bool,
    "NULL": _null,
    "M": _map,
    "L": _list,
    "SS": _set_of(_text),
    "NS": _set_of(_number),
    "BS": _set_of(_binary),
}

_decode = json.JSONDecoder(object_hook=_value_of).decode
_encode = json.JSONEncoder(default=lambda binary: base64.b64encode(binary).decode()).encode
"""Made once: `json.loads` and `json.dumps` would make a decoder and an encoder for each body."""
