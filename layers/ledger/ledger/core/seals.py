"""Seals: each journal entry's hash over the account's seal before and the entry's canonical form.

So an entry can't be changed, removed, swapped or put elsewhere without a change of all seals after it, and of the
account, which has the newest one. docs/seals.md defines the canonical form, with test vectors.
"""

import base64
import hashlib

import msgspec
from msgspec.structs import replace

from ledger.core.journal import JournalEntry, sealed_fields


def canonical_form(entry: JournalEntry) -> bytes:
    """The entry as it is sealed: as readers get it, without its seal, in one spelling of JSON.

    Raises TypeError or ValueError for a request of values that no message has.
    """
    return _encoder.encode(sealed_fields(entry))


def seal_of(before: str, entry: JournalEntry) -> str:
    """The entry's seal, 43 characters. `before` is the account's until then, empty before its first entry.

    Raises as `canonical_form`.
    """
    digest = hashlib.sha256(before.encode() + canonical_form(entry)).digest()
    return base64.urlsafe_b64encode(digest)[:43].decode()


def sealed(before: str, entry: JournalEntry) -> JournalEntry:
    """The entry with its seal. `before` is the account's until then."""
    return replace(entry, seal=seal_of(before, entry))


_encoder = msgspec.json.Encoder(order="sorted")
"""Names in the order of their code points, no blanks, UTF-8: as Python's own `json` with `sort_keys`."""
