"""Poison: messages that no delivery can post. Only these belong in a dead-letter queue."""

from collections.abc import Callable

from ledger.core.reason_codes import InvalidMessage


def is_invalid(decode: Callable[[str], object], body: str) -> bool:
    """`decode` is the decoder of transactions or of profile updates."""
    try:
        decode(body)
    except InvalidMessage:
        return True
    return False
