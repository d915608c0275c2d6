"""Whether one of the SDK's tries of a request got no answer, so that the request may have taken effect."""

import threading
import zlib
from typing import Any


class _Tries(threading.local):
    """Of this thread's latest request."""

    unanswered = False


tries = _Tries()


def note_try(response: tuple[Any, Any] | None, **_: object) -> None:
    """A handler of botocore's event `needs-retry`: the try got no answer, or none that says what became of the write.

    The number of tries wouldn't do: a throttled try had no effect.
    """
    if response is None or response[0].status_code >= 500 or _is_damaged(response[0]):
        tries.unanswered = True


def _is_damaged(response: Any) -> bool:
    """Whether a success has a body that isn't its checksum's: then the SDK tries again, as after no answer."""
    if response.status_code != 200:
        return False
    checksum = response.headers.get("x-amz-crc32")
    return checksum is not None and int(checksum) != zlib.crc32(response.content)
