"""Versioned items of any table, and queries and scans of them."""

from conditional_writes.versioned.ids import new_id
from conditional_writes.versioned.queries import Page, Pages
from conditional_writes.versioned.table import VersionedTable
from conditional_writes.versioned.writes import NoSuchItem

__all__ = ["NoSuchItem", "Page", "Pages", "VersionedTable", "new_id"]
