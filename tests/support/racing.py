"""Posts transactions with the function that does, by one worker or by many at once, and reads what became of them."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

from ledger.core.accounts import Account
from ledger.core.journal import Outcome
from tests.checkers.books import Books, read_books
from tools.local_aws.functions import Queue, process_transactions, record
from tools.local_aws.server import Endpoint
from tools.local_aws.tables import Tables

WORKERS = 8


class RacingBank:
    """Workers of one bank. `post` posts messages in their order; `race` lets each worker begin with its own at once."""

    def __init__(self, ministack: Endpoint, dynamodb: Endpoint, tables: Tables) -> None:
        self.dynamodb, self.tables = dynamodb, tables
        self.workers = [process_transactions(ministack, tables, dynamodb) for _ in range(WORKERS)]

    def open(self, *account_ids: str, limit: int = 0, currency: str = "EUR") -> None:
        fields = {"overdraft_limit": limit, "currency": currency}
        self.post(*(message("open_account", "open", account_id, **fields) for account_id in account_ids))

    def post(self, *messages: dict[str, Any], batch: int = 10) -> None:
        """Until none is left on the queue."""
        for start in range(0, len(messages), batch):
            Queue(list(map(record, messages[start : start + batch]))).deliver_until_quiet(self.workers[0])

    def race(self, messages: list[dict[str, Any]], batch: int = 1) -> None:
        """Each worker posts its share of the messages. All of them begin at once."""
        start = Barrier(WORKERS)

        def work(number: int) -> None:
            start.wait()
            mine = messages[number::WORKERS]
            for first in range(0, len(mine), batch):
                Queue(list(map(record, mine[first : first + batch]))).deliver_until_quiet(self.workers[number])

        with ThreadPoolExecutor(WORKERS) as pool:
            list(pool.map(work, range(WORKERS)))

    @property
    def books(self) -> Books:
        return read_books(self.dynamodb, self.tables)

    def account(self, account_id: str = "alice") -> Account:
        return self.books.accounts[account_id]

    def outcomes(self, account_id: str = "alice") -> dict[str, Outcome]:
        """The account's outcomes by transaction id, in their order."""
        return {entry.transaction_id: entry.outcome for entry in self.books.journal[account_id]}

    def results(self, *transaction_ids: str, account_id: str = "alice") -> list[str]:
        """Of each transaction: POSTED, or the reason of its rejection."""
        outcomes = self.outcomes(account_id)
        return [outcomes[each].reason or outcomes[each].status for each in transaction_ids]


def message(type_name: str, transaction_id: str, account_id: str = "alice", **fields: Any) -> dict[str, Any]:
    return {"type": type_name, "transaction_id": transaction_id, "account_id": account_id} | fields


def transfer(transaction_id: str, amount: object, payer: str = "alice", payee: str = "bob") -> dict[str, Any]:
    accounts = {"from_account_id": payer, "to_account_id": payee}
    return {"type": "transfer", "transaction_id": transaction_id, "amount": amount} | accounts
