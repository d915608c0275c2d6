"""A local AWS over TLS: a proxy in front of an engine, with a certificate of an authority of its own."""

import asyncio
import contextlib
import ssl
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from urllib.parse import urlsplit

import trustme
from botocore.httpsession import DEFAULT_CA_BUNDLE

from tools.local_aws.server import Endpoint

type Reader = asyncio.StreamReader
type Writer = asyncio.StreamWriter


class TlsProxy:
    """Decrypts what arrives on https://localhost, and passes it on to an engine."""

    def __init__(self, engine: Endpoint) -> None:
        self.engine = engine
        self.connections = 0
        """The connections whose handshake succeeded."""
        self.authority = trustme.CA()
        self.context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self.show_certificate(self.authority)

    def show_certificate(self, authority: trustme.CA, host: str = "localhost") -> None:
        """Shows a certificate of this authority for this host, from the next connection on."""
        authority.issue_cert(host).configure_cert(self.context)

    def write_bundle(self, path: Path) -> str:
        """Writes botocore's authorities and the proxy's own: a file that takes as long to load as botocore's."""
        path.write_bytes(Path(DEFAULT_CA_BUNDLE).read_bytes() + self.authority.cert_pem.bytes())
        return str(path)

    @contextlib.contextmanager
    def running(self) -> Iterator[Endpoint]:
        """Runs the proxy in a thread. Yields its endpoint."""
        started: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event, int]] = Future()

        async def serve() -> None:
            server = await asyncio.start_server(self._forward, "127.0.0.1", 0, ssl=self.context)
            ended = asyncio.Event()
            started.set_result((asyncio.get_running_loop(), ended, server.sockets[0].getsockname()[1]))
            await ended.wait()
            server.close()
            server.close_clients()

        thread = threading.Thread(target=asyncio.run, args=(serve(),), daemon=True)
        thread.start()
        loop, ended, port = started.result(timeout=10)
        try:
            yield Endpoint(f"https://localhost:{port}")
        finally:
            loop.call_soon_threadsafe(ended.set)
            thread.join()

    async def _forward(self, reader: Reader, writer: Writer) -> None:
        self.connections += 1
        url = urlsplit(self.engine.url)
        answers, requests = await asyncio.open_connection(url.hostname, url.port)
        with contextlib.suppress(OSError):
            await asyncio.gather(_copy(reader, requests), _copy(answers, writer))


async def _copy(reader: Reader, writer: Writer) -> None:
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    finally:
        writer.close()
