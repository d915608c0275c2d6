"""Merkle trees of seals and of accounts: whoever knows a tree's top can be shown that a leaf is in it, by few hashes.

A tree is that of RFC 6962: the left side is the largest full one. It grows in constant memory, by its peaks. A hash is
43 characters, as a seal's. docs/seals.md defines what is hashed.
"""

import base64
import functools
import hashlib
import json
from collections.abc import Iterable
from typing import Any, NamedTuple

CHARACTERS = "-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz"
"""Those of hashes, in the order in which texts are sorted."""


def hash_of(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest())[:43].decode()


def hash_of_values(*values: Any) -> str:
    """The hash of a list of texts and integers, as JSON."""
    return hash_of(json.dumps(values, ensure_ascii=False, separators=(",", ":")))


def node(left: str, right: str) -> str:
    """The hash above two others. A comma after the 43 characters is in no text that a leaf is the hash of."""
    return hash_of(f"{left},{right}")


class HashTree(NamedTuple):
    """A tree of so many leaves, as its peaks: the tops of the full trees that it is made of, the largest first."""

    size: int = 0
    peaks: tuple[str, ...] = ()

    def with_leaves(self, leaves: Iterable[str]) -> "HashTree":
        """The tree with more leaves, each a hash."""
        size, peaks = self.size, list(self.peaks)
        for leaf in leaves:
            top, full = leaf, size
            while full & 1:
                top, full = node(peaks.pop(), top), full >> 1
            peaks.append(top)
            size += 1
        return HashTree(size, tuple(peaks))

    @property
    def top(self) -> str:
        """The hash above all leaves; empty without any."""
        return functools.reduce(lambda right, left: node(left, right), self.peaks[::-1]) if self.peaks else ""
