"""The ledger's two tables: their names, and the keys of their items."""

from typing import NamedTuple

from conditional_writes import Key, key
from ledger.core.journal import EntryId


class LedgerTables(NamedTuple):
    """The names of the two tables."""

    accounts: str
    journal: str

    def account_key(self, account_id: str) -> Key:
        return key(self.accounts, account_id=account_id)

    def entry_key(self, entry_id: EntryId) -> Key:
        return key(self.journal, account_id=entry_id.account_id, transaction_id=entry_id.transaction_id)
