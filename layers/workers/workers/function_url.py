"""Requests that come by a function's URL, and their responses. Lambda's format 2.0:
https://docs.aws.amazon.com/lambda/latest/dg/urls-invocation.html#urls-payloads
"""

import base64
import json
from http import HTTPStatus
from typing import Any

from workers.queue_messages import AWS_ID


def is_http(event: Any) -> bool:
    """Whether the function was invoked by its URL."""
    match event:
        case {"requestContext": {"http": {}}}:
            return True
    return False


def caller_of(event: dict[str, Any]) -> str | None:
    """The id of the principal that signed the request, as IAM has told Lambda. None if the event has no such id.

    Lambda writes it, unless somebody invoked the function directly: then the event is whatever they wrote.
    """
    match event:
        case {"requestContext": {"authorizer": {"iam": {"userId": str(caller)}}}} if AWS_ID.fullmatch(caller):
            return caller
    return None


def body_of(event: dict[str, Any]) -> str:
    """The request's body. Bytes that are no UTF-8 become lone surrogates, which no JSON decoder takes: if each were
    replaced by the same character, two ids could become one. Empty, if somebody wrote an event with a body that is no
    text, or no base64: Lambda writes none.
    """
    match event.get("body"):
        case str(body) if event.get("isBase64Encoded"):
            try:
                return base64.b64decode(body).decode(errors="surrogateescape")
            except ValueError:
                return ""
        case str(body):
            return body
    return ""


def http_response(answer: dict[str, Any], *, is_well: bool) -> dict[str, Any]:
    """The answer as JSON, with the status 200 or 400."""
    status = HTTPStatus.OK if is_well else HTTPStatus.BAD_REQUEST
    headers = {"Content-Type": "application/json", "Cache-Control": "no-store"}
    return {"statusCode": status, "headers": headers, "body": json.dumps(answer)}
