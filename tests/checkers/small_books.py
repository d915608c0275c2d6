"""Books in memory: of two accounts and a few messages, for the checkers' tests, and of any messages."""

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from msgspec.structs import replace

from ledger.core.accounts import Account, timestamp
from ledger.core.reversals import Reversed
from ledger.core.rules import Decision
from ledger.core.transaction_types import Reverse, decode
from ledger.core.transaction_types.base import Context, TransactionMessage, outcome_of
from tests.checkers.books import Books
from tests.support.samples import entry_of

NOW = datetime(2026, 3, 1, tzinfo=UTC)
OPEN_A = '{"type": "open_account", "transaction_id": "open", "account_id": "a", "currency": "EUR"}'
OPEN_B = '{"type": "open_account", "transaction_id": "open", "account_id": "b", "currency": "EUR"}'
PAY = '{"transaction_id": "1", "account_id": "a", "amount": 50}'
SPEND = '{"transaction_id": "2", "account_id": "a", "amount": -80}'
TRANSFER = '{"type": "transfer", "transaction_id": "3", "from_account_id": "a", "to_account_id": "b", "amount": 20}'
JUNK = "not JSON"
HOLD = '{"type": "hold", "transaction_id": "hold", "account_id": "a", "amount": 30}'
OF_HOLD = '"account_id": "a", "hold_id": "hold"'
POST_PART = f"""{{"type": "post_hold", "transaction_id": "posting", {OF_HOLD}, "amount": 10, "final": false,
 "to_account_id": "b"}}"""
VOID = f'{{"type": "void_hold", "transaction_id": "void", {OF_HOLD}}}'
BACK = """{"type": "reverse", "transaction_id": "back", "account_id": "b", "of_account_id": "a",
 "of_transaction_id": "3", "amount": 5}"""
EXPIRE = f'{{"type": "expire_hold", "transaction_id": "expiry", {OF_HOLD}, "as_of": "2026-03-01T00:00:00Z"}}'
type Rules = Callable[[TransactionMessage, Sequence[Account | None], Context], Sequence[Decision]]


def by_the_product(message: TransactionMessage, accounts: Sequence[Account | None], context: Context) -> Any:
    return message.decide(accounts, context)


def post(books: Books, *bodies: str, rules: Rules = by_the_product) -> Books:
    """The books after these bodies are posted, by the product's rules or by `rules`."""
    return post_messages(books, map(decode, bodies), rules)


def next_time(accounts: Iterable[Account]) -> str:
    """Nine days and some milliseconds after the last entry. So interest accrues, and months end."""
    last = max((account.posted_at for account in accounts if account.posted_at), default=timestamp(NOW))
    return timestamp(datetime.fromisoformat(last) + timedelta(days=9, milliseconds=8_765_432))


def post_messages(
    books: Books,
    messages: Iterable[TransactionMessage],
    rules: Rules = by_the_product,
    posted_at: str | None = None,
    **facts: Any,
) -> Books:
    """The books after these messages are posted, all at that time, or one after another at times of their own.

    `facts` are of their context. Raises NotYet and InvalidMessage, as a decision does.
    """
    accounts, reversals = dict(books.accounts), dict(books.reversals or {})
    journal = {name: list(entries) for name, entries in books.journal.items()}
    entries = {entry.entry_id: entry for entry in books.entries}
    known = Context(entries.get, lambda entry_id: reversals.get(entry_id, Reversed(*entry_id)), **facts)
    for message in messages:
        context = known._replace(posted_at=next_time(accounts.values()) if posted_at is None else posted_at)
        account_ids = message.all_account_ids(context)
        before = [account and account.at(context.posted_at) for account in map(accounts.get, account_ids)]
        for was, decision in zip(before, rules(message, before, context), strict=True):
            account = message.next_account(was, decision, context)
            assert account
            outcome = outcome_of(decision, account)
            entry = entry_of(message, outcome, account.account_id, account.seal)
            accounts[account.account_id] = replace(account, seal=entry.seal)
            journal.setdefault(account.account_id, []).append(entry)
            entries[entry.entry_id] = entry
            if isinstance(message, Reverse) and outcome.reversal and not outcome.reason:
                [reversed_id] = message.reversed_ids
                if reversed_id.account_id == account.account_id:
                    before_it = context.find_reversed(reversed_id)
                    after = before_it.after(outcome.reversal, message.transaction_id, account.version)
                    reversals[reversed_id] = after
    return Books(accounts, journal, reversals)
