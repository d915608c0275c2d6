"""A request to a function's URL, and the answer to it."""

import base64
import json
from typing import Any

import pytest

from workers.function_url import body_of, http_response


@pytest.mark.parametrize(
    ("event", "body"),
    [
        ({"body": "{}"}, "{}"),
        ({"body": base64.b64encode(b"caf\xc3\xa9 \xff").decode(), "isBase64Encoded": True}, "caf\xe9 \udcff"),
        ({"body": "x", "isBase64Encoded": True}, ""),
        ({"body": None, "isBase64Encoded": True}, ""),
        ({"body": {}}, ""),
        ({}, ""),
    ],
)
def test_a_body_is_a_text_and_what_is_none_is_empty(event: dict[str, Any], body: str) -> None:
    assert body_of(event) == body


@pytest.mark.parametrize(("is_well", "status"), [(True, 200), (False, 400)])
def test_an_answer_is_json_that_no_cache_keeps(is_well: bool, status: int) -> None:
    response = http_response({"a": 1}, is_well=is_well)
    assert json.loads(response.pop("body")) == {"a": 1}
    headers = {"Content-Type": "application/json", "Cache-Control": "no-store"}
    assert response == {"statusCode": status, "headers": headers}
