"""Teller's side of `contention`: the tables of a run, the functions of its workers, and the check of the books."""

import contextlib
import io
from collections.abc import Sequence
from typing import NamedTuple

from benchmarks.deliveries import Loaded
from tests.checkers.books import read_books, violations
from tools.local_aws.functions import invoke, process_transactions, record
from tools.local_aws.server import Endpoint
from tools.local_aws.tables import Tables, create_attempts_table, create_locks_table, create_tables


class Ledger(NamedTuple):
    """The tables that the workers of a run share. `prefix` begins the names of all that a run creates."""

    endpoint: Endpoint
    prefix: str
    tables: Tables
    locks_table: str


def create_ledger(endpoint: Endpoint, prefix: str, account_ids: Sequence[str]) -> Ledger:
    """Creates the tables, and opens the accounts."""
    ledger = Ledger(endpoint, prefix, create_tables(endpoint, prefix), create_locks_table(endpoint, prefix))
    open_accounts(ledger, account_ids)
    return ledger


def open_accounts(ledger: Ledger, account_ids: Sequence[str]) -> None:
    """Opens the accounts. They may be overdrawn."""
    opening = {"type": "open_account", "transaction_id": "open", "currency": "EUR", "overdraft_limit": "-1000000"}
    function = load(ledger, "opening").function
    with contextlib.redirect_stdout(io.StringIO()):
        returned = invoke(function, [record(opening | {"account_id": account_id}) for account_id in account_ids])
    assert not returned, f"{len(returned)} of {len(account_ids)} accounts couldn't be opened"


def load(ledger: Ledger, worker: int | str) -> Loaded:
    """A worker's function. It has queues and an attempts table of its own."""
    endpoint, name = ledger.endpoint, f"{ledger.prefix}-{worker}"
    sqs = endpoint.client("sqs")
    function = process_transactions(
        endpoint,
        ledger.tables,
        QUEUE_URL=sqs.create_queue(QueueName=f"{name}-alive")["QueueUrl"],
        DEAD_LETTER_QUEUE_URL=sqs.create_queue(QueueName=f"{name}-dead")["QueueUrl"],
        ATTEMPTS_TABLE=create_attempts_table(endpoint, name),
        LOCKS_TABLE=ledger.locks_table,
        POWERTOOLS_LOG_LEVEL="CRITICAL",
    )
    function.poster.client.describe_table(TableName=ledger.tables.accounts)  # Connects.
    return Loaded(function, (function.poster.client, function.worker.queue.client))


def check(ledger: Ledger, transactions: int, credited: int) -> None:
    """Raises AssertionError if one of the transactions is lost, rejected or posted twice. All credits are of 1."""
    books = read_books(ledger.endpoint, ledger.tables)
    found = violations(books)
    assert not found, found
    expected = {"POSTED": len(books.accounts) + transactions}
    assert books.counts() == expected, f"the journal has {books.counts()}, expected {expected}"
    balance = sum(account.balance for account in books.accounts.values())
    assert balance == credited, f"after {credited} credits of 1 the balance is {balance}"
