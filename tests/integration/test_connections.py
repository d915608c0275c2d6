"""Requests over connections that are kept: the same bytes as botocore's, and the same outcomes. They need sockets."""

import asyncio
import contextlib
import io
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSHTTPConnection, AWSHTTPConnectionPool, AWSPreparedRequest, AWSRequest, HeadersDict
from botocore.credentials import Credentials
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectionClosedError,
    ConnectTimeoutError,
    EndpointConnectionError,
)
from botocore.httpsession import URLLib3Session

from conditional_writes import dynamodb_client
from conditional_writes.asyncio import connections
from conditional_writes.core import answers
from conditional_writes.core.client import new_client

OK = b"HTTP/1.1 200 OK\r\n"
BODY = b'{"TableNames": ["a"]}'
PLAIN = OK + b"Content-Length: 21\r\n\r\n" + BODY
NEXT = OK + b'content-length:21\r\nConnection: Keep-Alive\r\n\r\n{"TableNames": ["b"]}'
CLOSE = b""
"""In place of a piece of an answer: the connection is closed."""
SLOW = "a part, and no more until the time-out"

ANSWERS: dict[str, list[bytes]] = {
    "plain": [PLAIN],
    "in pieces": [PLAIN[:1], PLAIN[1:18], PLAIN[18:38], PLAIN[38:40], PLAIN[40:45], PLAIN[45:-1], PLAIN[-1:]],
    "of a megabyte": [OK + b"Content-Length: 1000021\r\n\r\n" + b" " * 1_000_000 + BODY],
    "a refusal": [b'HTTP/1.1 400 Bad Request\r\nContent-Length: 34\r\n\r\n{"__type": "ValidationException" }'],
    "a failure": [b"HTTP/1.1 503 \r\nContent-Length: 0\r\n\r\n"],
    "moved": [b"HTTP/1.1 301 Moved\r\nContent-Length: 0\r\nLocation: /elsewhere\r\n\r\n"],
    "without a body": [b"HTTP/1.1 204 No Content\r\n\r\n"],
    "in chunks": [OK + b"Transfer-Encoding: chunked\r\n\r\n15\r\n" + BODY + b"\r\n0\r\n\r\n"],
    "in chunks and with a length": [
        OK + b"Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n15\r\n" + BODY + b"\r\n0\r\n\r\n"
    ],
    "the last": [OK + b"Content-Length: 21\r\nConnection: close\r\n\r\n" + BODY, CLOSE],
    "until the connection closes": [OK + b"Date: today\r\n\r\n" + BODY, CLOSE],
    "of HTTP 1.0": [b"HTTP/1.0 200 OK\r\nContent-Length: 21\r\n\r\n" + BODY, CLOSE],
    "after an interim one": [b"HTTP/1.1 100 Continue\r\n\r\n" + PLAIN],
    "with one length twice": [OK + b"Content-Length: 21\r\nContent-Length: 21\r\n\r\n" + BODY],
    "with a folded header": [OK + b"X-Long: a\r\n b\r\nContent-Length: 21\r\n\r\n" + BODY],
    "with a header of 70 KB": [OK + b"X-Long: " + b"a" * 70_000 + b"\r\nContent-Length: 21\r\n\r\n" + BODY],
    "with more than its length": [PLAIN + PLAIN],
    "no HTTP": [b"hello\r\n\r\n", CLOSE],
    "none": [CLOSE],
    SLOW: [PLAIN[:-5]],
}


class Server:
    """Answers each request with the next of `answers`, whatever connection it comes on."""

    def __init__(self, answers: list[list[bytes]]) -> None:
        self.requests: list[bytes] = []
        self.connections = self.ended = 0
        self._answers = iter(answers)
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"

    @contextlib.contextmanager
    def running(self) -> Iterator["Server"]:
        threading.Thread(target=self._accept, daemon=True).start()
        with self._socket:
            yield self
            self._socket.shutdown(socket.SHUT_RDWR)

    def answer_to(self, request: bytes) -> list[bytes]:
        return next(self._answers)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            self.connections += 1
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=self._serve, args=[connection], daemon=True).start()

    async def all_ended(self) -> None:
        while self.ended < self.connections:
            await asyncio.sleep(0.001)

    def _serve(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError):
            self._answer(connection)
        self.ended += 1

    def _answer(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as arriving:
            while line := arriving.readline():
                lines = [line, *iter(arriving.readline, b"\r\n")]
                length = next(int(line.split()[1]) for line in lines if line.lower().startswith(b"content-length:"))
                request = b"".join([*lines, b"\r\n", arriving.read(length)])
                self.requests.append(request)
                for piece in self.answer_to(request):
                    if piece == CLOSE:
                        return
                    connection.sendall(piece)
                    time.sleep(0.001)  # so that the next piece is received by itself


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")
    for name in ("HTTP_PROXY", "http_proxy"):
        monkeypatch.delenv(name, raising=False)


type ClientOf = Callable[..., Any]


@pytest.fixture
def client_of(monkeypatch: pytest.MonkeyPatch) -> Iterator[ClientOf]:
    """Makes clients of a URL, which are closed at the end."""
    with contextlib.ExitStack() as made:

        def make(url: str, *, is_quick: bool = True, read_timeout: int = 30) -> Any:
            monkeypatch.setenv("AWS_ENDPOINT_URL", url)
            client = new_client("dynamodb", retries={"total_max_attempts": 1}, read_timeout=read_timeout)
            if is_quick:
                answers.send_quickly(client)
            return made.enter_context(contextlib.closing(client))

        yield make


def outcome(client: Any) -> object:
    """The names of the tables, or the error's type and its code."""
    try:
        return client.list_tables().get("TableNames")
    except ClientError as error:
        return error.response["Error"]["Code"]
    except BotoCoreError as error:
        return type(error)


@pytest.mark.parametrize("answer", ANSWERS)
def test_an_answer_says_what_it_says_by_botocore(answer: str, client_of: ClientOf) -> None:
    """After a first one, for which botocore connects. The next answer isn't taken for it, nor it for the next one."""
    outcomes = []
    for is_quick in (False, True):
        with Server([[PLAIN], ANSWERS[answer], [NEXT]]).running() as server:
            client = client_of(server.url, is_quick=is_quick, read_timeout=1 if answer == SLOW else 30)
            outcomes.append([outcome(client), outcome(client), outcome(client)])
    by_botocore, ours = outcomes
    assert ours == by_botocore
    assert ours[::2] == [["a"], ["b"]]


def request_to(url: str) -> Any:
    headers: Any = HeadersDict({"Content-Length": "2"})
    return AWSPreparedRequest("POST", f"{url}/", headers, b"{}", False)


@contextlib.asynccontextmanager
async def awaited_session(verify: str | bool = True) -> AsyncIterator[connections.QuickSession]:
    """As that of a client of aiobotocore's, which isn't needed for these requests."""
    before, unhandled = mock.AsyncMock(_verify=verify, _cert_file=None), mock.Mock()
    before._proxy_config = mock.Mock(**{"proxy_url_for.return_value": None})
    asyncio.get_running_loop().set_exception_handler(unhandled)
    session = connections.QuickSession(before)
    try:
        yield session
    finally:
        await session.close()
        before.__aexit__.assert_awaited_once_with(None, None, None)
        await asyncio.sleep(0.05)  # the loop closes the sockets
        unhandled.assert_not_called()


@pytest.mark.parametrize("answer", ANSWERS)
def test_an_awaited_answer_is_the_same(answer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    read_seconds = 1 if answer == SLOW else 30
    monkeypatch.setattr(connections, "READ_SECONDS", read_seconds)
    answers_of_server = [[PLAIN], ANSWERS[answer], [NEXT]]

    def blocking(url: str) -> Iterator[object]:
        with contextlib.closing(answers.QuickSession(URLLib3Session(timeout=read_seconds))) as session:
            for _ in answers_of_server:
                try:
                    response = session.send(request_to(url))
                    yield response.status_code, response.content
                except BotoCoreError as error:
                    yield type(error)

    async def awaited(server: Server) -> list[object]:
        outcomes = list[object]()
        async with awaited_session() as session:
            for _ in answers_of_server:
                try:
                    found = await session._exchange(request_to(server.url))
                    outcomes.append((found.status, found.body))
                except BotoCoreError as error:
                    outcomes.append(type(error))
        await server.all_ended()
        return outcomes

    with Server(answers_of_server).running() as one, Server(answers_of_server).running() as other:
        assert asyncio.run(awaited(other)) == [*blocking(one.url)]


@pytest.mark.parametrize("later", [CLOSE, b"unasked"])
def test_an_awaited_connection_on_which_something_came_later_isnt_used(later: bytes) -> None:
    async def ask(url: str) -> list[bytes]:
        async with awaited_session() as session:
            bodies = [(await session._exchange(request_to(url))).body for _ in range(2)]
            [idle] = session._idle[f"{url}/"]
            while idle.is_open:
                await asyncio.sleep(0.001)
            return [*bodies, (await session._exchange(request_to(url))).body]

    with Server([[PLAIN], [PLAIN, later], [NEXT]]).running() as server:
        assert asyncio.run(ask(server.url)) == [BODY, BODY, NEXT[-21:]]
        assert server.connections == 2


def test_a_connection_that_ends_before_its_first_request_does_so_in_silence() -> None:
    async def end() -> None:
        connection = connections._Connection()
        connection.connection_made(transport := mock.Mock())
        connection.eof_received()
        connection.connection_lost(None)
        transport.abort.assert_called_once()
        assert not connection.is_open

    asyncio.run(end())


@pytest.mark.parametrize(
    ("lost_by", "text"), [(None, r"^the connection was closed$"), (ConnectionResetError("reset"), r"^reset$")]
)
def test_a_connection_that_is_lost_isnt_waited_for(lost_by: Exception | None, text: str) -> None:
    async def lose() -> None:
        connection = connections._Connection()
        connection.connection_made(mock.Mock())
        task = asyncio.create_task(connection.exchange(b""))
        await asyncio.sleep(0)
        connection.connection_lost(lost_by)
        with pytest.raises(ConnectionError, match=text):
            await task

    asyncio.run(lose())


@pytest.mark.parametrize(
    "not_plain", [{}, {"verify": False}, {"certificate": "a.pem"}, {"proxy": "http://a"}, {"body": io.BytesIO()}]
)
def test_awaited_requests_share_connections_and_others_are_aiobotocores(
    not_plain: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    made_of = SimpleNamespace(AioAWSResponse=lambda *made: made)
    monkeypatch.setitem(sys.modules, "aiobotocore.awsrequest", made_of)
    monkeypatch.setattr(connections, "CONNECTIONS", 2)

    async def ask(url: str) -> None:
        before = mock.AsyncMock(_verify=not_plain.get("verify", True), _cert_file=not_plain.get("certificate"))
        before._proxy_config = mock.Mock(**{"proxy_url_for.return_value": not_plain.get("proxy")})
        session, request = connections.QuickSession(before), request_to(url)
        request.body = not_plain.get("body", request.body)
        found = await asyncio.gather(*(session.send(request) for _ in range(6)))
        await session.close()
        if not_plain:
            assert found == [before.send.return_value] * 6
            return
        for address, status, headers, raw in found:
            assert (address, status, headers) == (request.url, 200, {"content-length": "21"})
            assert raw.raw_headers == [(b"content-length", b"21")]
            assert await raw.read() == BODY

    with Server([[PLAIN]] * 6).running() as server:
        asyncio.run(ask(server.url))
        assert server.connections == (0 if not_plain else 2)


def test_a_cancelled_task_leaves_no_answer_for_the_next_one() -> None:
    async def cancel_second(url: str) -> list[bytes]:
        async with awaited_session() as session:
            bodies = [(await session._exchange(request_to(url))).body]
            task = asyncio.create_task(session._exchange(request_to(url)))
            await asyncio.sleep(0.05)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            return [*bodies, (await session._exchange(request_to(url))).body]

    with Server([[PLAIN], [PLAIN[:50]], [NEXT]]).running() as server:
        assert asyncio.run(cancel_second(server.url)) == [BODY, NEXT[-21:]]
        assert server.connections == 2


def test_no_connection_is_said_so() -> None:
    async def connect(url: str) -> None:
        async with awaited_session() as session:
            with pytest.raises(EndpointConnectionError):
                await session._exchange(request_to(url))

    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    asyncio.run(connect(f"http://127.0.0.1:{port}"))


@pytest.mark.parametrize("answering", [0, 1])
def test_the_next_address_is_tried_if_one_doesnt_answer(answering: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """As by calls that block: of a VPC endpoint's addresses that of one zone may be down."""
    monkeypatch.setattr(connections, "CONNECT_SECONDS", 0.5)

    async def ask() -> bytes:
        async with awaited_session() as session:
            return (await session._exchange(request_to("http://of.two.zones"))).body

    with Server([[PLAIN]]).running() as server, contextlib.ExitStack() as closed:
        full = closed.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        closed.enter_context(socket.create_connection(full.getsockname()))
        as_of_ipv6 = ("127.0.0.1", int(server.url.rpartition(":")[2]), 0, 0)

        def addresses(host: str, port: int, family: int, kind: int, *_: int) -> list[Any]:
            assert (host, port, kind) == ("of.two.zones", 80, socket.SOCK_STREAM)
            places = [full.getsockname(), *[as_of_ipv6] * answering]
            return [(socket.AF_INET, kind, 6, "", place) for place in places]

        monkeypatch.setattr(socket, "getaddrinfo", addresses)
        if answering:
            assert asyncio.run(ask()) == BODY
        else:
            with pytest.raises(ConnectTimeoutError):
                asyncio.run(ask())


@pytest.mark.parametrize("pieces", [[PLAIN], [PLAIN[:30], PLAIN[30:45], PLAIN[45:]]])
def test_pieces_have_their_time_and_are_taken_after_it_if_the_loop_was_busy(
    pieces: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def exchange() -> bytes:
        loop = asyncio.get_running_loop()
        now = loop.time()
        monkeypatch.setattr(loop, "time", lambda: now)
        connection, request = connections._Connection(), request_to("http://localhost")
        connection.connection_made(mock.Mock())
        session = connections.QuickSession(mock.AsyncMock())
        session._idle[request.url].append(connection)
        task = loop.create_task(session._exchange(request))
        for piece in pieces:
            await asyncio.sleep(0)
            now += 2 * connections.READ_SECONDS
            loop.call_soon(connection.data_received, piece)
        return (await task).body

    assert asyncio.run(exchange()) == BODY


@pytest.mark.parametrize("part", [PLAIN[:30], PLAIN[:-5]])
def test_a_part_of_an_answer_is_none(part: bytes, client_of: ClientOf) -> None:
    """botocore parses what has come."""
    with Server([[PLAIN], [part, CLOSE], [NEXT]]).running() as server:
        client = client_of(server.url)
        assert [outcome(client) for _ in range(3)] == [["a"], ConnectionClosedError, ["b"]]


@pytest.mark.parametrize("headers", [{}, {"host": "as.signed"}, {"HOST": "as.signed", "accept-encoding": "gzip"}])
@pytest.mark.parametrize(
    "place",
    [
        "http://127.0.0.1:{}",
        "http://LOCALHOST:{}/a/b",
        "http://user@localhost:{}/",
        "http://127.0.0.1:{}//a b/?c=d e#f",
    ],
)
def test_a_request_has_the_lines_and_the_body_that_botocore_sends(
    place: str, headers: dict[str, str], client_of: ClientOf
) -> None:
    """But for what changes with each request, and the order: the first one is botocore's."""
    changing = (b"authorization:", b"x-amz-date:", b"amz-sdk-invocation-id:")
    with Server([[PLAIN]] * 3).running() as server:
        client = client_of(place.format(server.url.rpartition(":")[2]))
        client.meta.events.register("before-send.dynamodb", lambda request, **_: request.headers.update(headers))
        for _ in range(3):
            client.list_tables(ExclusiveStartTableName="caf\u00e9", Limit=5)
    assert server.connections == 1
    heads = [request.partition(b"\r\n\r\n") for request in server.requests]
    first, *others = [
        (lines[0], sorted(line for line in lines[1:] if not line.lower().startswith(changing)), body)
        for lines, body in ((head.split(b"\r\n"), body) for head, _, body in heads)
    ]
    assert others == [first] * 2


@pytest.mark.parametrize("by_server", [True, False])
def test_a_connection_that_the_server_or_the_client_has_closed_isnt_used(
    client_of: ClientOf, *, by_server: bool
) -> None:
    with Server([[PLAIN], [PLAIN, CLOSE] if by_server else [PLAIN], [NEXT]]).running() as server:
        client = client_of(server.url)
        assert outcome(client) == outcome(client) == ["a"]
        time.sleep(0.05) if by_server else client.close()
        assert outcome(client) == ["b"]
        assert server.connections == 2


def test_a_forked_process_doesnt_read_the_answers_to_its_parent() -> None:
    program = """
import os, sys
from conditional_writes import VersionedTable, dynamodb_client

accounts = VersionedTable(dynamodb_client(), "Accounts", "id")
accounts.load("a")
if not os.fork():
    accounts.load("a")
    os._exit(0)
os.wait()
accounts.load("a")
"""
    with Server([[OK + b"Content-Length: 2\r\n\r\n{}"]] * 3).running() as server:
        environment = os.environ | {"AWS_ENDPOINT_URL": server.url, "PYTHONPATH": os.pathsep.join(sys.path)}
        subprocess.run([sys.executable, "-c", program], env=environment, check=True, timeout=60)
    assert (len(server.requests), server.connections) == (3, 2)


def test_an_interrupted_request_leaves_no_answer_for_the_next_one(
    client_of: ClientOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    received = answers.received

    def interrupted() -> Generator[None, bytes]:
        monkeypatch.setattr(answers, "received", received)
        yield
        raise KeyboardInterrupt

    with Server([[PLAIN], [PLAIN[:50], PLAIN[50:]], [NEXT]]).running() as server:
        client = client_of(server.url)
        client.list_tables()
        monkeypatch.setattr(answers, "received", interrupted)
        with pytest.raises(KeyboardInterrupt):
            client.list_tables()
        assert outcome(client) == ["b"]


def test_a_header_with_a_line_break_isnt_sent(client_of: ClientOf) -> None:
    def smuggle(request: Any, **_: object) -> None:
        request.headers["X-User"] = "a\r\nX-Other: b"

    with Server([[PLAIN]] * 2).running() as server:
        client = client_of(server.url)
        client.list_tables()
        client.meta.events.register("before-send.dynamodb", smuggle)
        with pytest.raises(ValueError, match="line break"):
            client.list_tables()
    assert len(server.requests) == 1


def test_a_body_that_is_no_bytes_is_botocores(client_of: ClientOf) -> None:
    def as_file(request: Any, **_: object) -> None:
        request.body = io.BytesIO(request.body)

    with Server([[PLAIN]] * 2).running() as server:
        client = client_of(server.url)
        client.meta.events.register("before-send.dynamodb", as_file)
        assert outcome(client) == outcome(client) == ["a"]
        assert server.connections == 1


def test_a_stand_in_for_connections_gets_each_request(client_of: ClientOf, monkeypatch: pytest.MonkeyPatch) -> None:
    """As vcrpy's, which records them."""
    recorded = []

    class StandIn(AWSHTTPConnection):
        def request(self, *arguments: Any, **named: Any) -> None:
            recorded.append(arguments)
            super().request(*arguments, **named)

    monkeypatch.setattr(AWSHTTPConnectionPool, "ConnectionCls", StandIn)
    with Server([[PLAIN]] * 3).running() as server:
        client = client_of(server.url)
        for _ in range(3):
            client.list_tables()
        assert len(recorded) == 3


def test_requests_through_a_proxy_are_botocores(client_of: ClientOf, monkeypatch: pytest.MonkeyPatch) -> None:
    with Server([[PLAIN]] * 2).running() as server:
        monkeypatch.setenv("HTTP_PROXY", server.url)
        client = client_of("http://dynamodb.example")
        assert outcome(client) == outcome(client) == ["a"]
    assert all(request.startswith(b"POST http://dynamodb.example/ HTTP/1.1\r\n") for request in server.requests)


def test_threads_have_their_own_answers(client_of: ClientOf) -> None:
    """More of them than the client has connections."""

    class Echo(Server):
        def answer_to(self, request: bytes) -> list[bytes]:
            asked = json.loads(request.partition(b"\r\n\r\n")[2])
            body = json.dumps({"TableNames": [asked["ExclusiveStartTableName"]]}).encode()
            return [OK, b"Content-Length: %d\r\n\r\n" % len(body), body]

    names = [f"table-{number}" for number in range(240)]
    with Echo([]).running() as server, ThreadPoolExecutor(24) as pool:
        client = client_of(server.url)
        answers = pool.map(lambda name: client.list_tables(ExclusiveStartTableName=name)["TableNames"], names)
        assert [*answers] == [[name] for name in names]


@pytest.mark.parametrize("token", [None, "a-session-token"])
@pytest.mark.parametrize(
    "url", ["http://localhost:8000/", "https://dynamodb.eu-central-1.amazonaws.com/", "https://X.Y:443/"]
)
def test_a_request_is_signed_as_botocore_signs_it(url: str, token: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("botocore.auth.get_current_datetime", lambda: datetime(2026, 1, 2, tzinfo=UTC))
    signed = []
    for auth in (SigV4Auth, answers.QuickAuth):
        headers = {
            "X-Amz-Target": "DynamoDB_20120810.GetItem",
            "X-Amzn-Trace-Id": "a",
            "User-Agent": "a  b",
            "X-A": " b  c ",
        }
        request = AWSRequest("POST", url, headers, '{"a":"\u00e9"}'.encode(), auth_path="/")
        auth(Credentials("key", "secret", token), "dynamodb", "eu-central-1").add_auth(request)
        signed.append(sorted((name, str(value)) for name, value in request.headers.items()))
    assert signed[0] == signed[1]


def test_the_librarys_clients_sign_so() -> None:
    """A client that awscrt would sign for keeps it."""
    assert dynamodb_client().meta.config.signature_version == answers.SIGNATURE_VERSION == "conditional-writes-v4"
