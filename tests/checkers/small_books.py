"""Books of two accounts and a few messages, for the checkers' tests."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from ledger.core.journal import JournalEntry, Outcome
from ledger.core.transaction_types import decode
from tests.checkers.books import Books
from tests.support.rules import Decided, decide

NOW = datetime(2026, 3, 1, tzinfo=UTC)
OPEN_A = '{"type": "open_account", "transaction_id": "open", "account_id": "a", "currency": "EUR"}'
OPEN_B = '{"type": "open_account", "transaction_id": "open", "account_id": "b", "currency": "EUR"}'
PAY = '{"transaction_id": "1", "account_id": "a", "amount": 50}'
SPEND = '{"transaction_id": "2", "account_id": "a", "amount": -80}'
TRANSFER = '{"type": "transfer", "transaction_id": "3", "from_account_id": "a", "to_account_id": "b", "amount": 20}'
JUNK = "not JSON"


type Rules = Callable[..., Sequence[Decided]]


def post(books: Books, *bodies: str, rules: Rules = decide) -> Books:
    """The books after these bodies are posted, by the product's rules or by `rules`."""
    accounts = dict(books.accounts)
    journal = {name: list(entries) for name, entries in books.journal.items()}
    for body in bodies:
        message = decode(body)
        for decision in rules(message, *map(accounts.get, message.account_ids)):
            account = accounts[decision.account.account_id] = decision.account
            status, reason = str(decision.status), decision.reason
            outcome = Outcome(status, reason, decision.amount, account.balance, account.version, str(NOW))
            entry = JournalEntry(account.account_id, message.transaction_id, message.canonical_payload(), "", outcome)
            journal.setdefault(account.account_id, []).append(entry)
    return Books(accounts, journal)
