"""Divides entries among requests, each of which takes a limited number of entries, and of bytes."""

from collections.abc import Callable, Iterable, Iterator


def packed[Entry](
    entries: Iterable[Entry], bytes_of: Callable[[Entry], int], most_entries: int, most_bytes: int
) -> Iterator[list[Entry]]:
    """The entries of each request, in their order. An entry that is too large is alone in its request."""
    request: list[Entry] = []
    bytes_taken = 0
    for entry in entries:
        bytes_needed = bytes_of(entry)
        if request and (len(request) == most_entries or bytes_taken + bytes_needed > most_bytes):
            yield request
            request, bytes_taken = [], 0
        request.append(entry)
        bytes_taken += bytes_needed
    if request:
        yield request
