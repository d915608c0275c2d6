"""Connections whose requests are awaited, in a fraction of aiohttp's CPU time.

They send a request in one piece, and read its answer by its length, as `conditional_writes.core.answers` says. A client
that has a proxy, a certificate of its own or no check of the server's keeps aiobotocore's own.
"""

import asyncio
import contextlib
import functools
import http.client
import importlib
import socket
import ssl
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, override
from urllib.parse import urlsplit

from botocore.exceptions import ConnectTimeoutError, EndpointConnectionError, SSLError
from botocore.httpsession import create_urllib3_context, get_cert_path

from conditional_writes.core.answers import DEFAULT_PORTS, Answer, bytes_of, no_answer, received
from conditional_writes.core.client import CONNECT_SECONDS, CONNECTIONS, READ_SECONDS


class QuickSession:
    """In place of aiobotocore's `session`."""

    def __init__(self, session: Any) -> None:
        self._session = session
        self._idle = defaultdict[str, list[_Connection]](list)
        self._turns = asyncio.Semaphore(CONNECTIONS)
        self._tls: ssl.SSLContext | None = None
        self._has_own_tls = not session._verify or bool(session._cert_file)
        self._proxy_of = functools.cache(session._proxy_config.proxy_url_for)

    async def send(self, request: Any) -> Any:
        """Raises botocore's errors, as aiobotocore does."""
        if self._has_own_tls or self._proxy_of(request.url) or not isinstance(request.body, bytes):
            return await self._session.send(request)
        async with self._turns:
            answer = await self._exchange(request)
        made = importlib.import_module("aiobotocore.awsrequest").AioAWSResponse
        return made(request.url, answer.status, answer.headers, _Raw(answer))

    async def _exchange(self, request: Any) -> Answer:
        idle = self._idle[request.url]
        while idle and not idle[-1].is_open:
            idle.pop()
        connection = idle.pop() if idle else await self._connect(request.url)
        try:
            return await connection.exchange(bytes_of(request, request.body))
        except (OSError, http.client.HTTPException) as error:
            raise no_answer(request, error) from error
        finally:
            idle.append(connection)

    async def _connect(self, address: str) -> "_Connection":
        """To the first of the host's addresses that takes it: a VPC endpoint has one a zone."""
        url = urlsplit(address)
        port, tls = url.port or DEFAULT_PORTS[url.scheme], dict[str, Any]()
        if url.scheme == "https":
            self._tls = self._tls or _tls_of(self._session)
            tls = {"ssl": self._tls, "server_hostname": url.hostname}
        try:
            found = await asyncio.get_running_loop().getaddrinfo(url.hostname, port, type=socket.SOCK_STREAM)
            *others, last = [place for *_, place in found]
            for place in others:
                with contextlib.suppress(OSError):
                    return await _connection_to(place, tls)
            return await _connection_to(last, tls)
        except TimeoutError as error:
            raise ConnectTimeoutError(endpoint_url=address, error=error) from error
        except ssl.SSLError as error:
            raise SSLError(endpoint_url=address, error=error) from error
        except OSError as error:
            raise EndpointConnectionError(endpoint_url=address, error=error) from error

    async def close(self) -> None:
        await self.__aexit__(None, None, None)

    async def __aexit__(self, *error: object) -> None:
        for connections in self._idle.values():
            for connection in connections:
                connection.close()
        await self._session.__aexit__(*error)


def _tls_of(session: Any) -> ssl.SSLContext:
    """As aiobotocore's. Python's own is stricter than botocore: it refuses the authorities of many companies."""
    context: ssl.SSLContext = create_urllib3_context()
    context.check_hostname = True
    context.load_verify_locations(get_cert_path(session._verify))
    return context


async def _connection_to(place: Sequence[Any], tls: dict[str, Any]) -> "_Connection":
    async with asyncio.timeout(CONNECT_SECONDS):
        _, connection = await asyncio.get_running_loop().create_connection(_Connection, *place[:2], **tls)
    return connection


class _Connection(asyncio.Protocol):
    """`is_open`: another request may be sent: a whole answer has come, and nothing that nobody asked for."""

    _answered: asyncio.Future[Answer]

    async def exchange(self, request: bytes) -> Answer:
        """Raises OSError and http.client's errors if no whole answer comes."""
        self.is_open = False
        self._receiving = received()
        next(self._receiving)
        self._answered = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        self._timer = self._piece_in_time()
        try:
            return await self._answered
        finally:
            if not self.is_open:
                self.close()

    def close(self) -> None:
        self.is_open = False
        self._transport.abort()

    def _piece_in_time(self) -> asyncio.TimerHandle:
        """A piece that came in time is taken, also if the loop was busy until later: asyncio.timeout wouldn't."""
        return asyncio.get_running_loop().call_later(READ_SECONDS, self._fail, TimeoutError())

    def _fail(self, error: Exception) -> None:
        if not self._answered.done():
            self._answered.set_exception(error)

    @override
    def connection_made(self, transport: Any) -> None:
        self._transport, self.is_open = transport, True
        self._answered = asyncio.get_running_loop().create_future()
        self._answered.cancel()

    @override
    def data_received(self, data: bytes) -> None:
        if self._answered.done():
            self.close()
            return
        try:
            self._timer.cancel()
            self._receiving.send(data)
            self._timer = self._piece_in_time()
        except StopIteration as end:
            self.is_open = end.value.is_kept
            self._answered.set_result(end.value)
        except http.client.HTTPException as error:
            self._fail(error)

    @override
    def eof_received(self) -> None:
        self.data_received(b"")

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self.is_open = False
        self._fail(exc or http.client.RemoteDisconnected("the connection was closed"))


class _Raw:
    """An answer as aiobotocore takes it from aiohttp."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self.raw_headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in answer.headers.items()]

    async def read(self) -> bytes:
        return self._answer.body
