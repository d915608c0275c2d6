"""The tries of a request's failed entries, until the deadline."""

import random
from collections.abc import Sequence

import pytest

from conditional_writes import Deadline
from conditional_writes.testing import Clock
from workers.failed_entries import until_deadline


def test_what_failed_is_tried_again_after_doubling_pauses_until_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(random, "uniform", lambda least, most: least + most)
    tried: list[tuple[float, list[int]]] = []
    with Clock(0).simulated_time() as clock:

        def try_once(items: Sequence[int]) -> list[str | None]:
            tried.append((round(clock.time(), 1), [*items]))
            failures = {1: None, 2: "later" if len(tried) < 3 else None, 3: "never", 4: "final"}
            return [failures[item] for item in items]

        left = until_deadline(try_once, [1, 2, 3, 4], Deadline.after(16), lambda failure: failure == "final")
    assert left == [None, None, "never", "final"]
    times = [0, 0.1, 0.3, 0.7, 1.5, 3.1, 6.3, 11.3]  # the next pause may end after the deadline
    assert tried == list(zip(times, [[1, 2, 3, 4], [2, 3], [2, 3], *[[3]] * 5], strict=True))
