"""Large items that refused writes hand back: read in one pass, and by few threads at a time.

Of an item of 400 KB botocore makes structures of up to 150 MB, in each thread that is refused at the same time:
docs/decisions/memory-of-a-batch.md. There is no public way around it. If botocore changes the event that is used here,
it reads large items as it reads small ones: slowly, and with more memory, but as correctly.
"""

import contextlib
import json
import threading
from collections.abc import Iterator, Sequence
from typing import Any

from conditional_writes.bodies import read_body
from conditional_writes.deadline import Deadline
from conditional_writes.items import Item, from_dynamodb

LARGE_BYTES = 16_384
"""Of an error's body. botocore reads the smaller ones."""
MAXIMUM_THREADS = 2
"""The threads of a process that may have a large item."""

ITEMS = "conditional_writes.items"
"""In botocore's answer: the items that were taken out of the body."""


class NoTurn(Exception):
    """A write was refused, and until its deadline too many other threads had large items: nobody read its own."""


class _Turn(threading.local):
    """Whether this thread may have large items, and until when it waits for that; None if it isn't writing.

    `is_sending`: the request is the library's own, and not one that a plan makes.
    """

    deadline: Deadline | None = None
    is_taken = False
    is_sending = False


_turn = _Turn()
_turns = threading.Semaphore(MAXIMUM_THREADS)


@contextlib.contextmanager
def in_turn(deadline: Deadline) -> Iterator[None]:
    """The thread waits for its turn if it is handed back a large item, and its turn ends at the end of the block."""
    outer = _turn.deadline, _turn.is_taken
    _turn.deadline = deadline
    try:
        yield
    finally:
        if _turn.is_taken and not outer[1]:
            _turns.release()
        _turn.deadline, _turn.is_taken = outer


@contextlib.contextmanager
def sending() -> Iterator[None]:
    """The requests in the block are the library's. Answers to a caller's own, as in a plan, stay as they are."""
    _turn.is_sending = True
    try:
        yield
    finally:
        _turn.is_sending = False


def items_of(response: dict[str, Any], reasons: Sequence[dict[str, Any]]) -> list[Item | None]:
    """The item of each of the error's reasons, None if a reason has none. Takes large items out of the response."""
    large: list[Item | None] | None = response.pop(ITEMS, None)
    return large or [from_dynamodb(reason["Item"]) if reason.get("Item") else None for reason in reasons]


def take_refused_items(response_dict: Any = None, customized_response_dict: Any = None, **_: object) -> None:
    """A handler of botocore's event `before-parse`: takes the items out of a large body, and leaves it the rest.

    Only if the thread is inside of `in_turn` and `sending`. Raises NoTurn.
    """
    if not _turn.is_sending or _turn.deadline is None or response_dict is None or customized_response_dict is None:
        return
    body = response_dict["body"]
    if response_dict["status_code"] != 400 or len(body) <= LARGE_BYTES:
        return
    if not _turn.is_taken:
        seconds = min(max(0.0, _turn.deadline.remaining_seconds), threading.TIMEOUT_MAX)
        if not _turns.acquire(timeout=seconds):
            raise NoTurn
    _turn.is_taken = True
    try:
        error = read_body(body)
        items = [reason.pop("Item", None) for reason in error.get("CancellationReasons", [error])]
    except Exception:  # noqa: BLE001 (botocore says what is wrong with it)
        return
    customized_response_dict[ITEMS] = items
    response_dict["body"] = json.dumps(error).encode()
