"""The library's quick signature is botocore's, for every request; and a client of another botocore signs by itself."""

from typing import Any
from unittest import mock

import botocore.auth
import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from hypothesis import given
from hypothesis import strategies as st

from conditional_writes import dynamodb_client
from conditional_writes.core import signing
from conditional_writes.core.signing import QuickSignature, sign_quickly

PLAIN_URLS = [
    "https://dynamodb.eu-west-1.amazonaws.com/",
    "https://DynamoDB.eu-west-1.amazonaws.com:443",
    "http://localhost:8000/",
    "http://localhost:80/",
    "http://dynamodb_local:443/",
]
OTHER_URLS = ["http://[::1]:8000/", "https://a.example/stage", "https://user@a.example/", "https://a.example/?b=c&a="]
NAMES = st.from_regex(r"[A-Za-z][A-Za-z0-9-]{0,12}", fullmatch=True)
VALUES = st.text(st.characters(codec="latin-1", exclude_categories=["C"]), max_size=20)
HEADERS = st.dictionaries(
    NAMES | st.sampled_from(["Host", "User-Agent", "Date", "Expect", "X-Amz-Date", "X-Amz-Content-SHA256"]),
    VALUES,
    max_size=6,
)


def signed(kind: Any, token: str | None, url: str, headers: dict[str, str], **rest: Any) -> dict[str, str]:
    """The headers of a request that was signed."""
    request = AWSRequest(**{"method": "POST", "url": url, "data": b"{}", "headers": headers} | rest)
    credentials = Credentials("AKID", "secret", token).get_frozen_credentials()
    kind(credentials, "dynamodb", "eu-west-1").add_auth(request)
    return dict(request.headers.items())


def assert_same(token: str | None, url: str, headers: dict[str, str], **rest: Any) -> None:
    while True:  # until both are of one second
        by_botocore, ours = (signed(kind, token, url, headers, **rest) for kind in (SigV4Auth, QuickSignature))
        if by_botocore.get("X-Amz-Date") == ours.get("X-Amz-Date") and by_botocore.get("Date") == ours.get("Date"):
            break
    assert ours == by_botocore


@given(st.none() | st.just("token"), st.sampled_from(PLAIN_URLS + OTHER_URLS), HEADERS, st.binary(max_size=50))
def test_the_signature_is_botocores(token: str | None, url: str, headers: dict[str, str], data: bytes) -> None:
    assert_same(token, url, headers, data=data)


@pytest.mark.parametrize(
    "rest", [{"method": "GET"}, {"params": {"b": "c", "a": "ä"}}, {"data": None}, {"data": {"a": "b"}}], ids=str
)
def test_what_is_no_request_of_dynamodbs_is_left_to_botocore(rest: dict[str, Any]) -> None:
    with mock.patch.object(signing, "hmac", wraps=signing.hmac):
        assert_same(None, PLAIN_URLS[0], {"X-Amz-Target": "DynamoDB_20120810.GetItem"}, **rest)


@pytest.mark.parametrize("url", PLAIN_URLS)
def test_a_plain_request_is_signed_without_botocores_texts(url: str) -> None:
    with mock.patch.object(SigV4Auth, "canonical_headers", side_effect=AssertionError):
        signed(QuickSignature, "token", url, {"X-Amz-Target": "DynamoDB_20120810.GetItem"})


def test_each_day_region_and_secret_has_its_key() -> None:
    keys = {
        signing._key_of(*each, "dynamodb")
        for each in (("a", "20260301", "r"), ("a", "20260302", "r"), ("a", "20260301", "s"), ("b", "20260301", "r"))
    }
    assert len(keys) == 4


class Sent(Exception):
    """A request was signed, and isn't sent."""


def signed_by(client: Any) -> str:
    """The class of the signature of a client's request."""
    classes = []

    def note(auth: Any, request: Any) -> None:
        classes.append(type(auth).__name__)
        raise Sent

    with mock.patch.object(SigV4Auth, "add_auth", note), pytest.raises(Sent):
        client.get_item(TableName="Orders", Key={"order_id": {"S": "o-1"}})
    return classes[0]


def test_a_client_signs_quickly_unless_its_botocore_signs_in_another_way(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    assert signed_by(dynamodb_client()) == "QuickSignature"

    class AnotherSignature(SigV4Auth):
        """Of another botocore, or a program's own."""

    with monkeypatch.context() as patched:
        patched.setitem(botocore.auth.AUTH_TYPE_MAPS, "v4", AnotherSignature)
        assert signed_by(dynamodb_client()) == "AnotherSignature"
    client: Any = dynamodb_client()
    del client._request_signer.get_auth_instance
    monkeypatch.delattr(type(client._request_signer), "get_auth_instance")
    sign_quickly(client)
