"""Accounts and journal entries as items of their tables, and their keys."""

from typing import NamedTuple

from conditional_writes import Item, Key, key
from ledger.core.accounts import Account, AccountStatus
from ledger.core.journal import EntryId, JournalEntry, Outcome


class LedgerTables(NamedTuple):
    """The names of the two tables."""

    accounts: str
    journal: str

    def account_key(self, account_id: str) -> Key:
        return key(self.accounts, account_id=account_id)

    def entry_key(self, entry_id: EntryId) -> Key:
        return key(self.journal, account_id=entry_id.account_id, transaction_id=entry_id.transaction_id)


def account_item(account: Account) -> Item:
    return {
        "account_id": account.account_id,
        "balance": account.balance,
        "overdraft_limit": account.overdraft_limit,
        "currency": account.currency,
        "status": str(account.status),
        "version": account.version,
    }


def account_from_item(item: Item) -> Account:
    return Account(
        account_id=item["account_id"],
        balance=item["balance"],
        overdraft_limit=item["overdraft_limit"],
        currency=item["currency"],
        status=AccountStatus(item["status"]),
        version=int(item["version"]),
    )


def entry_item(entry: JournalEntry) -> Item:
    outcome = entry.outcome
    item = {
        "account_id": entry.account_id,
        "transaction_id": entry.transaction_id,
        "request": entry.request,
        "payload_hash": entry.payload_hash,
        "status": outcome.status,
        "amount": outcome.amount,
        "balance_after": outcome.balance_after,
        "account_version": outcome.account_version,
        "posted_at": outcome.posted_at,
    }
    return item | ({"reason": outcome.reason} if outcome.reason else {})


def entry_from_item(item: Item) -> JournalEntry:
    return JournalEntry(
        account_id=item["account_id"],
        transaction_id=item["transaction_id"],
        request=item["request"],
        payload_hash=item["payload_hash"],
        outcome=Outcome(
            status=item["status"],
            reason=item.get("reason"),
            amount=item["amount"],
            balance_after=item["balance_after"],
            account_version=int(item["account_version"]),
            posted_at=item["posted_at"],
        ),
    )
