"""Ids for new items."""

import secrets
import time
import uuid


def new_id() -> str:
    """A new id, as RFC 9562 makes its UUIDs of version 7: it sorts, as a text, behind those of earlier milliseconds.

    It is another one at each call, so it is made before a call of the library: not in a plan or a `change`, which may
    be called again.
    """
    milliseconds, random_bits = time.time_ns() // 1_000_000, secrets.randbits(74)
    high = milliseconds << 16 | 0x7000 | random_bits >> 62
    return str(uuid.UUID(int=high << 64 | 0b10 << 62 | random_bits & (1 << 62) - 1))
