"""Whether one of the SDK's tries of a request got no answer, so that the request may have taken effect."""

import contextlib
import json
import threading
from typing import Any

from botocore.exceptions import ConnectTimeoutError, EndpointConnectionError


class _Tries(threading.local):
    """Of this thread's latest request."""

    unanswered = False


tries = _Tries()

_NEVER_SENT = (ConnectTimeoutError, EndpointConnectionError)
"""There was no connection. ProxyConnectionError says less: it is raised for an answer that a proxy dropped, too."""


_WAS_200 = "conditional_writes.was_200"
"""In botocore's context of a request: its latest try had this status."""


def note_try(
    response: tuple[Any, dict[str, Any]] | None = None,
    caught_exception: Exception | None = None,
    operation: Any = None,
    request_dict: dict[str, Any] | None = None,
    **_: object,
) -> None:
    """A handler of botocore's event `needs-retry`: the try got no answer, or none that says what became of the write.

    Only a status 400 says that nothing was written. After a 200 the SDK tries again if the answer is damaged. This
    handler comes before the SDK's own, which tries again after a 502.
    """
    context = {} if request_dict is None else request_dict["context"]
    if context.pop(_WAS_200, False):
        tries.unanswered = True
    if response is None:
        tries.unanswered |= not isinstance(caught_exception, _NEVER_SENT)
        return
    http, parsed = response
    if http.status_code == 200 and operation.output_shape is not None and not _is_object(http.content, parsed):
        http.status_code = 502
        parsed["Error"] = {"Code": "502", "Message": "the answer's body is no JSON object, so it isn't DynamoDB's"}
    if http.status_code == 200:
        context[_WAS_200] = True
    elif http.status_code != 400:
        tries.unanswered = True


def take_no_other_json(response_dict: dict[str, Any] | None = None, **_: object) -> None:
    """A handler of botocore's event `before-parse`: empties a body that is JSON and no object, for `note_try`.

    botocore's parser would fail on it with an AttributeError, and nobody would learn that the write may have been made.
    """
    if response_dict is None or response_dict["body"].startswith(b"{"):
        return
    with contextlib.suppress(ValueError):
        if not isinstance(json.loads(response_dict["body"]), dict):
            response_dict["body"] = b""


def _is_object(body: bytes, parsed: dict[str, Any]) -> bool:
    """Whether the body of an answer is a JSON object. botocore takes any other body for an empty object."""
    if body == b"{}" or parsed.keys() > {"ResponseMetadata"}:
        return True
    try:
        return isinstance(json.loads(body), dict)
    except ValueError:
        return False
