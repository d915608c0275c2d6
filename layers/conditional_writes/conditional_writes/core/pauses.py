"""Pauses between the requests of a read that DynamoDB throttled, each for longer than the one before."""

import random
from collections.abc import Iterator

SHORTEST_SECONDS, LONGEST_SECONDS = 0.05, 1.0
"""The bounds of the first pause, and of the later ones."""


def growing_pauses() -> Iterator[float]:
    """Random pauses in seconds, without end. The bound of each is twice that of the one before, at most a second."""
    longest_seconds = SHORTEST_SECONDS
    while True:
        yield random.uniform(0, longest_seconds)
        longest_seconds = min(2 * longest_seconds, LONGEST_SECONDS)
