"""Tries the failed entries of a request again and again, until a deadline: of a batch of messages, or of events."""

import random
import time
from collections.abc import Callable, Sequence

from conditional_writes import Deadline

FIRST_PAUSE_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 5.0
"""The longest possible pause doubles from one to the next, up to this one."""


def until_deadline[Item, Failure](
    try_once: Callable[[Sequence[Item]], Sequence[Failure | None]],
    items: Sequence[Item],
    deadline: Deadline,
    is_final: Callable[[Failure], bool] = lambda _: False,
) -> list[Failure | None]:
    """The result of each item's last try: None if it was done, or else its failure.

    `try_once` returns the same for the items that it is given. All of them are tried once, whatever the deadline is.
    """
    failures, pause_seconds = list(try_once(items)), FIRST_PAUSE_SECONDS
    while left := [index for index, failure in enumerate(failures) if failure is not None and not is_final(failure)]:
        if pause_seconds >= deadline.remaining_seconds:
            break
        time.sleep(random.uniform(0, pause_seconds))
        pause_seconds = min(2 * pause_seconds, LONGEST_PAUSE_SECONDS)
        again = try_once([items[index] for index in left])
        for index, failure in zip(left, again, strict=True):
            failures[index] = failure
    return failures
