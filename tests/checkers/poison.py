"""Poison: messages that no delivery can post, which alone belong in a dead-letter queue."""

from collections.abc import Callable

from ledger.core.reason_codes import InvalidMessage


def is_invalid(decode: Callable[[str], object], body: str) -> bool:
    """`decode` is that of the transactions, or of the profiles."""
    try:
        decode(body)
    except InvalidMessage:
        return True
    return False
