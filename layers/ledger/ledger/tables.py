"""The ledger's tables: their names, the keys of their items, and the attributes of an account's item."""

import contextlib
import time
from decimal import Decimal
from typing import NamedTuple, Self

from conditional_writes import Item, Key, Observed
from conditional_writes.core.own_attributes import VERSION_ID
from ledger.core.accounts import Account, account_from_item
from ledger.core.journal import EntryId
from ledger.core.pools import Pool

CONTENDED_SECONDS = 10
"""How long an account is contended after a group of messages lost it twice, or had to wait in its line."""
JOURNAL_INDEX = "by_version"
"""The journal's index: an account's entries by `account_version`, with all attributes. It follows the table."""
LARGEST = 10**15
"""No count of tickets, no time in milliseconds and no version of an account comes near it."""


class Line(NamedTuple):
    """The attributes of an account's item that are about its line: `lines.py`.

    `ticket_served` is the number of the ticket that was served last. `contended_until` is in milliseconds since 1970.
    """

    ticket_served: int = 0
    contended_until: int = 0

    @classmethod
    def of(cls, account: Item | None) -> Self:
        """The account's line. If the attributes can't be counts or times, the line is that of a quiet account."""
        values = [(account or {}).get(name, 0) for name in cls._fields]
        possible = all(isinstance(value, int | Decimal) and 0 <= value < LARGEST for value in values)
        return cls(*map(int, values)) if possible else cls()

    @property
    def is_contended(self) -> bool:
        """Whether commits need a ticket. A time that is too far ahead is the mistake of another worker's clock."""
        return 0 < self.contended_until / 1000 - time.time() < 2 * CONTENDED_SECONDS


ACCOUNT_ATTRIBUTES = (*Account.__struct_fields__, *Line._fields, VERSION_ID)
"""The attributes of an account's item that Teller reads. Attributes of others could fill the item."""


class LedgerTables(NamedTuple):
    """The names of the tables. A function that needs no reversals or refusals needs no name of theirs."""

    accounts: str
    journal: str
    reversals: str = ""
    refusals: str = ""

    def pools_in(self, items: Observed) -> dict[str, Pool]:
        """Those of the accounts that are pools. One that can't be read is none: the decisions on it say why."""
        pools: dict[str, Pool] = {}
        for key, item in items.items():
            if item and "pool" in item and key.table == self.accounts:
                with contextlib.suppress(KeyError, TypeError, ValueError):
                    account = account_from_item(item)
                    pools |= {account.account_id: account.pool} if account.pool else {}
        return pools

    def account_key(self, account_id: str) -> Key:
        return Key(self.accounts, (("account_id", account_id),))

    def entry_key(self, entry_id: EntryId) -> Key:
        return _entry_key(self.journal, entry_id)

    def reversed_key(self, entry_id: EntryId) -> Key:
        """The key of what was reversed of a transaction. The entry is that on its home."""
        return _entry_key(self.reversals, entry_id)

    def refusal_key(self, entry_id: EntryId) -> Key:
        """The key of the last refusal of a message that would have made this entry."""
        return _entry_key(self.refusals, entry_id)


def _entry_key(table: str, entry_id: EntryId) -> Key:
    return Key(table, (("account_id", entry_id.account_id), ("transaction_id", entry_id.transaction_id)))
