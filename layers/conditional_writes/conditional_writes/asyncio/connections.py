"""Connections whose requests are awaited, in a fraction of aiohttp's CPU time.

They send a request in one piece, and read its answer by its length, as `conditional_writes.core.answers` says. A client
that has a proxy, a certificate of its own or no check of the server's keeps aiobotocore's own.
"""

import asyncio
import functools
import http.client
import importlib
import ssl
from collections import defaultdict
from typing import Any, override
from urllib.parse import urlsplit

from botocore.exceptions import ConnectTimeoutError, EndpointConnectionError, SSLError
from botocore.httpsession import get_cert_path

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
            async with asyncio.timeout(READ_SECONDS):
                answer = await connection.exchange(bytes_of(request, request.body))
        except (OSError, http.client.HTTPException) as error:
            raise no_answer(request, error) from error
        finally:
            if connection.is_open:
                idle.append(connection)
        return answer

    async def _connect(self, address: str) -> "_Connection":
        url = urlsplit(address)
        is_secure = url.scheme == "https"
        if is_secure and self._tls is None:
            self._tls = ssl.create_default_context(cafile=get_cert_path(self._session._verify))
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                _, connection = await asyncio.get_running_loop().create_connection(
                    _Connection,
                    url.hostname or "",
                    url.port or DEFAULT_PORTS[url.scheme],
                    ssl=self._tls if is_secure else None,
                )
        except TimeoutError as error:
            raise ConnectTimeoutError(endpoint_url=address, error=error) from error
        except ssl.SSLError as error:
            raise SSLError(endpoint_url=address, error=error) from error
        except OSError as error:
            raise EndpointConnectionError(endpoint_url=address, error=error) from error
        return connection

    async def close(self) -> None:
        await self.__aexit__()

    async def __aexit__(self, *error: object) -> None:
        for connections in self._idle.values():
            for connection in connections:
                connection.close()
        self._idle.clear()
        await self._session.__aexit__(*(error or (None, None, None)))


class _Connection(asyncio.Protocol):
    """`is_open`: another request may be sent: a whole answer has come, and nothing that nobody asked for."""

    def __init__(self) -> None:
        self.is_open = False
        self._answered: asyncio.Future[Answer] | None = None

    async def exchange(self, request: bytes) -> Answer:
        """Raises OSError and http.client's errors if no whole answer comes."""
        self.is_open = False
        self._receiving = received()
        next(self._receiving)
        self._answered = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        try:
            return await self._answered
        finally:
            if not self.is_open:
                self.close()

    def close(self) -> None:
        self._transport.abort()

    @override
    def connection_made(self, transport: Any) -> None:
        self._transport, self.is_open = transport, True

    @override
    def data_received(self, data: bytes) -> None:
        if self._answered is None or self._answered.done():
            self.is_open = False
            self.close()
            return
        try:
            self._receiving.send(data)
        except StopIteration as end:
            self.is_open = end.value.is_kept
            self._answered.set_result(end.value)
        except http.client.HTTPException as error:
            self._answered.set_exception(error)

    @override
    def eof_received(self) -> None:
        self.data_received(b"")

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self.is_open = False
        if self._answered is not None and not self._answered.done():
            self._answered.set_exception(exc or http.client.RemoteDisconnected("the connection was closed"))


class _Raw:
    """An answer as aiobotocore takes it from aiohttp."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self.raw_headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in answer.headers.items()]

    async def read(self) -> bytes:
        return self._answer.body
