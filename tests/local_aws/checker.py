"""What always holds, recomputed from the tables alone: nobody's word is taken for it."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal

from conditional_writes.items import from_dynamodb
from ledger.accounts import Account, account_from_item
from ledger.journal import Entry, entry_from_item
from ledger.messages import from_request
from ledger.rules import decide
from tests.local_aws.server import Endpoint
from tests.local_aws.tables import Tables, scan


@dataclass(frozen=True)
class Books:
    """The accounts, and each account's journal in version order."""

    accounts: dict[str, Account]
    journal: dict[str, list[Entry]]

    @property
    def entries(self) -> list[Entry]:
        return [entry for entries in self.journal.values() for entry in entries]

    def counts(self) -> Counter[str]:
        """Entries by status, the rejected ones by reason."""
        return Counter(entry.outcome.reason or entry.outcome.status for entry in self.entries)


def read_books(endpoint: Endpoint, tables: Tables) -> Books:
    accounts = [account_from_item(from_dynamodb(item)) for item in scan(endpoint, tables.accounts)]
    journal: dict[str, list[Entry]] = defaultdict(list)
    for item in scan(endpoint, tables.journal):
        entry = entry_from_item(from_dynamodb(item))
        journal[entry.account_id].append(entry)
    for entries in journal.values():
        entries.sort(key=lambda entry: entry.outcome.account_version)
    return Books({account.account_id: account for account in accounts}, dict(journal))


CLAIMS = (
    "every account's versions are 1…n, each once",
    "replaying each journal gives every decision again",
    "and every balance",
    "no account was below its limit at any version",
    "the balances' sum is that of the posted amounts",
)


def violations(books: Books) -> list[str]:
    """A sentence for each thing that should hold, and doesn't."""
    return [*_unknown_accounts(books), *_conservation(books), *_each_account(books)]


def _unknown_accounts(books: Books) -> Iterator[str]:
    for account_id in books.journal.keys() - books.accounts.keys():
        yield f"{account_id}: {len(books.journal[account_id])} journal entries, and no account"


def _conservation(books: Books) -> Iterator[str]:
    balances = sum((account.balance for account in books.accounts.values()), Decimal(0))
    amounts = sum((entry.outcome.amount for entry in books.entries), Decimal(0))
    if balances != amounts:
        yield f"the balances' sum is {balances}, that of the posted amounts {amounts}"


def _each_account(books: Books) -> Iterator[str]:
    for account_id, account in books.accounts.items():
        entries = books.journal.get(account_id, [])
        versions = [entry.outcome.account_version for entry in entries]
        if versions != list(range(1, account.version + 1)):
            yield f"{account_id}: at version {account.version}, but its journal has {versions}"
        else:
            yield from _replay(account, entries)


def _replay(account: Account, entries: list[Entry]) -> Iterator[str]:
    replayed: Account | None = None
    for entry in entries:
        decision = decide(from_request(entry.request), replayed)
        replayed = decision.account
        found = entry.outcome
        expected = (str(decision.status), decision.reason, decision.amount, replayed.balance)
        if (found.status, found.reason, found.amount, found.balance_after) != expected:
            yield f"{account.account_id}: version {replayed.version} should be {expected}, and is {found}"
        if found.balance_after < replayed.overdraft_limit:
            yield f"{account.account_id}: version {replayed.version} is below its limit {replayed.overdraft_limit}"
    if replayed != account:
        yield f"{account.account_id}: its journal gives {replayed}, the account is {account}"
