"""Connections of the library's clients over TLS: quick, and as careful as botocore's own. TLS needs sockets."""

import asyncio
import os
import ssl
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import trustme
from botocore.exceptions import SSLError
from botocore.httpsession import DEFAULT_CA_BUNDLE, URLLib3Session

from conditional_writes.asyncio import connections
from conditional_writes.core.answers import Answer, send_quickly
from conditional_writes.core.client import new_client
from tests.integration.test_connections import awaited_session, request_to
from tests.support.big_profiles import serving
from tools.local_aws.tls import TlsProxy


@pytest.fixture
def proxy(monkeypatch: pytest.MonkeyPatch) -> Iterator[TlsProxy]:
    for variable in ("AWS_CA_BUNDLE", "REQUESTS_CA_BUNDLE"):
        monkeypatch.delenv(variable, raising=False)
    with serving("maps of one name") as (server, _):
        proxy = TlsProxy(server)
        with proxy.running() as endpoint:
            for name, value in endpoint.environment.items():
                monkeypatch.setenv(name, value)
            yield proxy


@pytest.fixture
def bundle(proxy: TlsProxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A bundle with the proxy's authority, which clients are told to use."""
    path = tmp_path / "bundle.pem"
    monkeypatch.setenv("AWS_CA_BUNDLE", proxy.write_bundle(path))
    return path


@pytest.fixture
def loads(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    counted: Counter[str] = Counter()
    load = ssl.SSLContext.load_verify_locations

    def counting(context: ssl.SSLContext, cafile: Any = None, *others: Any) -> None:
        counted[cafile] += 1
        load(context, cafile, *others)

    monkeypatch.setattr(ssl.SSLContext, "load_verify_locations", counting)
    return counted


def client() -> Any:
    made = new_client("dynamodb", retries={"total_max_attempts": 1})
    send_quickly(made)
    return made


@pytest.mark.usefixtures("bundle")
def test_requests_one_after_another_share_a_connection(proxy: TlsProxy) -> None:
    dynamodb = client()
    assert {dynamodb.list_tables()["ResponseMetadata"]["HTTPStatusCode"] for _ in range(3)} == {200}
    assert proxy.connections == 1


def test_authorities_are_loaded_once_for_all_connections(proxy: TlsProxy, bundle: Path, loads: Counter[str]) -> None:
    """If this fails after an update of botocore: connections are safe, but slow. Mend `_load_authorities_once`."""
    dynamodb = client()
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: dynamodb.list_tables(), range(50)))
    dynamodb.close()
    dynamodb.list_tables()
    assert proxy.connections > 1
    assert loads == {str(bundle): 1}


def test_awaited_requests_are_as_careful(proxy: TlsProxy, bundle: Path, loads: Counter[str]) -> None:
    request = request_to(os.environ["AWS_ENDPOINT_URL"])

    async def ask(verify: str | bool) -> Answer:
        async with awaited_session(verify) as session:
            return (await asyncio.gather(*(session._exchange(request) for _ in range(2))))[0]

    assert asyncio.run(ask(str(bundle))).headers["content-length"]
    with pytest.raises(SSLError, match="CERTIFICATE_VERIFY_FAILED"):
        asyncio.run(ask(DEFAULT_CA_BUNDLE))
    assert loads == {str(bundle): 1, DEFAULT_CA_BUNDLE: 1}


def test_awaited_requests_take_the_authorities_that_botocore_takes() -> None:
    """Python's default context refuses what lacks an extension, as authorities of companies do."""
    taken = URLLib3Session()._get_ssl_context()
    ours = connections._tls_of(URLLib3Session())
    assert (ours.verify_flags, ours.verify_mode, ours.options) == (taken.verify_flags, taken.verify_mode, taken.options)
    assert ours.check_hostname


def test_authorities_are_loaded_again_when_their_file_changes(
    proxy: TlsProxy, bundle: Path, loads: Counter[str]
) -> None:
    bundle.write_bytes(Path(DEFAULT_CA_BUNDLE).read_bytes())
    dynamodb = client()
    with pytest.raises(SSLError, match="CERTIFICATE_VERIFY_FAILED"):
        dynamodb.list_tables()
    proxy.write_bundle(bundle)
    os.utime(bundle, ns=(1, 1))
    dynamodb.list_tables()
    assert loads == {str(bundle): 2}


def test_an_unknown_authority_is_refused_after_a_known_one(proxy: TlsProxy, bundle: Path) -> None:
    dynamodb = client()
    dynamodb.list_tables()
    proxy.show_certificate(trustme.CA())
    dynamodb.close()
    with pytest.raises(SSLError, match="CERTIFICATE_VERIFY_FAILED"):
        dynamodb.list_tables()


def test_a_certificate_for_another_host_is_refused(proxy: TlsProxy, bundle: Path) -> None:
    dynamodb = client()
    dynamodb.list_tables()
    proxy.show_certificate(proxy.authority, "dynamodb.us-east-1.amazonaws.com")
    dynamodb.close()
    with pytest.raises(SSLError, match="hostname 'localhost' doesn't match"):
        dynamodb.list_tables()
