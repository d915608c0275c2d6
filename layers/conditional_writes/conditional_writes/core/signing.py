"""botocore's signature of a request, version 4: the same text, for a quarter of the CPU time.

botocore makes the headers to sign twice, and a whole request to ask for its body. Of DynamoDB's requests all but a few
headers are alike, so here each is looked at once, and a day's key is made once. What isn't such a request is left to
botocore. There is no public way to sign otherwise: if botocore changes, it signs by itself.
"""

import functools
import hmac
import re
from hashlib import sha256
from typing import Any, override
from urllib.parse import urlsplit

from botocore.auth import SIGNED_HEADERS_BLACKLIST, SigV4Auth


def sign_quickly(client: Any) -> None:
    """Lets the client sign by `QuickSignature` wherever it would sign by botocore's class."""
    try:
        signer = client._request_signer
        signature_by_botocore = signer.get_auth_instance
    except AttributeError:
        return

    def signature(*arguments: Any, **named: Any) -> Any:
        by_botocore = signature_by_botocore(*arguments, **named)
        match named:
            case {"signing_name": service, "region_name": region} if type(by_botocore) is SigV4Auth:
                return QuickSignature(by_botocore.credentials, service, region)
        return by_botocore

    signer.get_auth_instance = signature


class QuickSignature(SigV4Auth):
    """Signs one request. `_names` are those of the headers that it signs; None: the request is left to botocore."""

    _names: str | None = None
    _region_name: str
    _service_name: str

    @override
    def canonical_request(self, request: Any) -> str:
        self._names = None
        headers = _headers_to_sign(request)
        if headers is None:
            return super().canonical_request(request)
        self._names = ";".join(sorted(headers))
        lines = "\n".join([f"{name}:{headers[name]}" for name in sorted(headers)])
        return f"POST\n/\n\n{lines}\n\n{self._names}\n{sha256(request.data).hexdigest()}"

    @override
    def signature(self, string_to_sign: str, request: Any) -> str:
        day = request.context["timestamp"][:8]
        key = _key_of(self.credentials.secret_key, day, self._region_name, self._service_name)
        return hmac.digest(key, string_to_sign.encode(), "sha256").hex()

    def _inject_signature_to_request(self, request: Any, signature: str) -> Any:
        if self._names is None:
            return SigV4Auth._inject_signature_to_request(self, request, signature)  # type: ignore[attr-defined]
        parts = f"Credential={self.scope(request)}, SignedHeaders={self._names}, Signature={signature}"
        request.headers["Authorization"] = f"AWS4-HMAC-SHA256 {parts}"
        return request


def _headers_to_sign(request: Any) -> dict[str, str] | None:
    """The headers by their names in lower case. None, unless it is a POST of bytes to a host, as DynamoDB's are."""
    host = _host_of(request.url)
    is_plain = request.method == "POST" and type(request.data) is bytes and not request.params
    if host is None or not is_plain or not request.data or not request.context.keys().isdisjoint(_OF_OTHERS):
        return None
    headers: dict[str, str] = {}
    for each, value in request.headers.items():
        name = each.lower()
        if name in headers or name == "x-amz-content-sha256" or type(value) is not str:
            return None
        if name not in SIGNED_HEADERS_BLACKLIST:
            headers[name] = " ".join(value.split())
    headers.setdefault("host", host)
    return headers


_OF_OTHERS = {"checksum", "payload_signing_enabled"}
"""In the context of requests whose body is signed in another way."""


@functools.lru_cache(16)
def _host_of(url: str) -> str | None:
    """The host as its header has it. None for a URL with a path, a query, a user, or an address of IPv6."""
    parts = urlsplit(url)
    if parts.path not in {"", "/"} or parts.query or not re.fullmatch(r"[\w.-]+(:\d+)?", parts.netloc):
        return None
    return parts.netloc.lower().removesuffix(":443" if parts.scheme == "https" else ":80")


@functools.lru_cache(4)
def _key_of(secret: str, day: str, region: str, service: str) -> bytes:
    """The key of a day's signatures."""
    return functools.reduce(
        lambda key, part: hmac.digest(key, part.encode(), "sha256"),
        (day, region, service, "aws4_request"),
        f"AWS4{secret}".encode(),
    )
