"""Versioned items of any table, and queries and scans of them."""

from conditional_writes.versioned.table import NoSuchItem, VersionedTable

__all__ = ["NoSuchItem", "VersionedTable"]
