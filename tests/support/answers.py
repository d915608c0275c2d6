"""Answers to a client's requests that no server gives: a handler of `before-send` returns them."""

import base64
import json
from collections.abc import Iterator, Mapping
from typing import Any

from botocore.awsrequest import AWSPreparedRequest, AWSResponse


def answer(
    request: AWSPreparedRequest, status: int, body: dict[str, Any] | bytes, headers: Mapping[str, str] = {}
) -> AWSResponse:
    """An answer whose body is this, or this JSON object, with bytes in base64, as DynamoDB has them."""
    content = body if isinstance(body, bytes) else json.dumps(body, default=_in_base64).encode()
    return AWSResponse(request.url, status, headers, _Body(content))


class _Body:
    """A response body with urllib3's interface."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    def stream(self, **_: Any) -> Iterator[bytes]:
        yield self._body


def _in_base64(binary: bytes) -> str:
    return base64.b64encode(binary).decode()
