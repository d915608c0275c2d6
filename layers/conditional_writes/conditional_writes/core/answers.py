"""Requests over connections that are kept, and the items of their answers, each in one pass.

botocore connects, with TLS, proxies and certificates as it is told, and keeps the connection. On one that is kept, a
request takes urllib3 and http.client half of its CPU time: they copy its headers three times, send headers and body one
after another, and read headers with a parser of e-mails. Here it is one piece, and its answer is read by its length.

Of a body's JSON botocore makes DynamoDB's types by its model, and boto3 Python's types of these, in many times the CPU
time that one pass takes. Of an item of 400 KB botocore makes structures of up to 150 MB. A body that DynamoDB doesn't
send is an error here, and botocore's parser says what is wrong with it, or takes it.
"""

import base64
import contextlib
import functools
import http.client
import io
import json
import queue
import re
from collections.abc import Callable, Generator, Iterator
from decimal import Decimal
from typing import Any, NamedTuple, NoReturn, override
from urllib.parse import quote, urlsplit

from botocore.auth import AUTH_TYPE_MAPS, SIGNED_HEADERS_BLACKLIST, SigV4Auth
from botocore.awsrequest import AWSPreparedRequest, AWSResponse
from botocore.exceptions import ConnectionClosedError, ReadTimeoutError

from conditional_writes.core.items import to_dynamodb

READS = {"get_item": "Item", "query": "Items", "scan": "Items", "batch_get_item": "Responses"}
"""The methods that read, and the field of their answers that has items."""

PLAIN_HEAD = re.compile(rb"HTTP/1\.1 ((?:2|4|5)\d\d)[^\r\n]*\r\n((?:[\w-]+:[^\r\n]*\r\n)*)\r\n")
MAXIMUM_HEAD_BYTES = 65_536
DEFAULT_PORTS = {"http": 80, "https": 443}
UNQUOTED = "!$%&'()*+,-./:;=?@_~"
"""Of an address: what urllib3 sends as it is."""
RECEIVED_BYTES = 65_536
"""The most that is taken from a socket at once."""


def send_quickly(client: Any) -> None:
    """For a new client. There is no public way to its session: if botocore changes, that sends all requests."""
    with contextlib.suppress(AttributeError):
        client._endpoint.http_session = QuickSession(client._endpoint.http_session)


class QuickSession:
    """In place of botocore's `session`, which sends each request for which no open connection is idle."""

    def __init__(self, session: Any) -> None:
        self._session = session
        self._pools: dict[str, Any] = {}

    def send(self, request: AWSPreparedRequest) -> AWSResponse:
        """Raises ReadTimeoutError and ConnectionClosedError, as botocore does, and its other errors."""
        pool: Any = self._pools.get(request.url)
        body = request.body
        if not isinstance(body, bytes) or (connection := _idle_connection(pool)) is None:
            return self._send_by_botocore(request)
        is_kept = False
        try:
            answer = _exchange(connection.sock, bytes_of(request, body))
            is_kept = answer.is_kept
        except (OSError, http.client.HTTPException) as error:
            raise no_answer(request, error) from error
        finally:
            if not is_kept:
                connection.close()
            pool._put_conn(connection)
        return AWSResponse(request.url, answer.status, answer.headers, answer)  # type: ignore[arg-type]

    def close(self) -> None:
        self._pools.clear()
        self._session.close()

    def _send_by_botocore(self, request: AWSPreparedRequest) -> AWSResponse:
        response: AWSResponse = self._session.send(request)
        # Connections through a proxy are in another manager.
        self._pools[request.url] = self._session._manager.connection_from_url(request.url)
        return response


def _idle_connection(pool: Any) -> Any:
    """One of the pool's that is open; None if there is none, and for no pool."""
    try:
        connection = pool.pool.get(block=False)
    except (AttributeError, queue.Empty):  # there is no pool, or all its connections are in use
        return None
    is_botocores = type(connection).__module__ == "botocore.awsrequest"  # and no stand-in, as vcrpy's
    if is_botocores and getattr(connection, "is_connected", False):  # with urllib3 1.26 none says so
        return connection
    pool._put_conn(connection)
    return None


def _exchange(sock: Any, request: bytes) -> "Answer":
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # an answer may have come before
        sock.sendall(request)
    receiving = received()
    next(receiving)
    try:
        while True:
            receiving.send(sock.recv(RECEIVED_BYTES))
    except StopIteration as end:
        answer: Answer = end.value
        return answer


def no_answer(request: AWSPreparedRequest, error: Exception) -> ReadTimeoutError | ConnectionClosedError:
    """botocore's error of a request that was sent, and got no answer."""
    if isinstance(error, TimeoutError):
        return ReadTimeoutError(endpoint_url=request.url, error=error)
    return ConnectionClosedError(endpoint_url=request.url, request=request, error=error)


def bytes_of(request: AWSPreparedRequest, body: bytes) -> bytes:
    """The whole request. Raises ValueError for a header that would be two."""
    line, host = _line_and_host(request.method, request.url)
    lines = [line]
    lines += [] if "Host" in request.headers else [f"Host: {host}"]  # awscrt, which signs if it is installed, sets it
    lines += [] if "Accept-Encoding" in request.headers else ["Accept-Encoding: identity"]
    for name, value in request.headers.items():
        lines.append(f"{name}: {value.decode('latin-1') if isinstance(value, bytes) else value}")
    head = "\r\n".join([*lines, "", ""])
    if not head.count("\r") == head.count("\n") == len(lines) + 1:
        raise ValueError("a header of the request has a line break")
    return head.encode("latin-1") + body


@functools.lru_cache(64)
def _line_and_host(method: str, address: str) -> tuple[str, str]:
    """A request's first line and its host, as botocore spells them."""
    url = urlsplit(address)
    host = url.netloc.rpartition("@")[2].lower().removesuffix(f":{DEFAULT_PORTS[url.scheme]}")
    target = quote(url.path + (f"?{url.query}" if url.query else ""), safe=UNQUOTED)
    return f"{method} {target} HTTP/1.1", host


class _Headers(dict[str, str]):
    def get_all(self, name: str) -> list[str]:
        return [self[name]]


class QuickAuth(SigV4Auth):
    """botocore's signature. botocore collects the headers, twice, in an object for e-mails."""

    @override
    def headers_to_sign(self, request: Any) -> Any:
        lower = ((name.lower(), value) for name, value in request.headers.items())
        headers = _Headers({name: value for name, value in lower if name not in SIGNED_HEADERS_BLACKLIST})
        headers.setdefault("host", _line_and_host(request.method, request.url)[1])
        return headers


SIGNATURE_VERSION = "conditional-writes-v4" if AUTH_TYPE_MAPS["v4"] is SigV4Auth else "v4"
"""The setting of a client that signs so. If awscrt is installed, it signs."""
AUTH_TYPE_MAPS.setdefault(SIGNATURE_VERSION, QuickAuth)


class Answer(NamedTuple):
    """`is_kept`: the connection's next answer can follow."""

    status: int
    headers: dict[str, str]
    body: bytes
    is_kept: bool

    def stream(self) -> Iterator[bytes]:
        """The body, as botocore asks for it."""
        yield self.body


def received() -> Generator[None, bytes, Answer]:
    """Takes the pieces of an answer as they arrive, after the last one an empty one. The first `next` takes none.

    Raises http.client's errors for what is no whole answer.
    """
    begun = b""
    while b"\r\n\r\n" not in begun and len(begun) < MAXIMUM_HEAD_BYTES and (piece := (yield)):
        begun += piece
    if b"\r\n\r\n" not in begun and len(begun) < MAXIMUM_HEAD_BYTES:
        raise http.client.RemoteDisconnected("the connection was closed before the end of an answer's headers")
    head = PLAIN_HEAD.match(begun, 0, MAXIMUM_HEAD_BYTES)  # however it came in pieces
    fields = [line.partition(":") for line in head[2].decode("latin-1").split("\r\n")[:-1]] if head else []
    headers = {name.lower(): value.strip() for name, _, value in fields}
    is_plain = (
        headers.get("content-length", "").isdecimal()
        and headers.get("connection", "keep-alive").lower() == "keep-alive"
        and "transfer-encoding" not in headers
        and len(headers) == len(fields)
    )
    if not head or not is_plain:
        return (yield from _unusual(begun))
    length = int(headers["content-length"])
    pieces = [begun[head.end() :]]
    missing = length - len(pieces[0])
    while missing > 0:
        piece = yield
        if not piece:
            raise http.client.IncompleteRead(b"".join(pieces), missing)
        pieces.append(piece)
        missing -= len(piece)
    return Answer(int(head[1]), headers, b"".join(pieces)[:length], is_kept=missing == 0)


def _unusual(begun: bytes) -> Generator[None, bytes, Answer]:
    """An answer that http.client reads, whenever more of it has come. Each is its connection's last one."""
    is_over = False
    while True:
        with contextlib.suppress(*(() if is_over else (http.client.IncompleteRead, http.client.RemoteDisconnected))):
            with http.client.HTTPResponse(_Received(begun)) as response:  # type: ignore[arg-type]
                response.begin()
                has_end = response.chunked or response.length is not None
                answer = Answer(response.status, dict(response.headers.items()), response.read(), is_kept=False)
            if has_end or is_over:
                return answer
        piece = yield
        begun += piece
        is_over = not piece


class _Received(io.BytesIO):
    """In place of a socket, for http.client."""

    def makefile(self, _: str) -> io.BytesIO:
        return self


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
