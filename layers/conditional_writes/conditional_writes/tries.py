"""Whether one of the SDK's tries of a request got no answer, so that the request may have taken effect."""

import threading
from typing import Any


class _Tries(threading.local):
    """Of this thread's latest request."""

    unanswered = False


tries = _Tries()


def note_try(response: tuple[Any, Any] | None, **_: object) -> None:
    """A handler of botocore's event `needs-retry`: the try got no answer, or none that says what became of the write.

    The number of tries wouldn't do: a throttled try had no effect. The SDK tries again after a success, too, if the
    answer is damaged: after one that isn't, nobody asks.
    """
    if response is None or not 400 <= response[0].status_code < 500:
        tries.unanswered = True
