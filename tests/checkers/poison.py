"""Poison: messages that no delivery can post, which alone belong in a dead-letter queue."""

from collections.abc import Callable

from ledger.decoding import InvalidMessage


def is_invalid(decode: Callable[[str], object], body: str) -> bool:
    """`decode` is `ledger.messages.decode`, or `ledger.profiles.decode`."""
    try:
        decode(body)
    except InvalidMessage:
        return True
    return False
