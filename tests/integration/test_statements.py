"""The function read_accounts on both engines: its answers about accounts whose transactions were just posted."""

from types import ModuleType
from typing import Any

import pytest

from tools.local_aws.functions import Context, Queue, process_transactions, read_accounts, record
from tools.local_aws.server import Endpoint
from tools.local_aws.tables import Tables


class Bank:
    """The functions that post and read."""

    def __init__(self, ministack: Endpoint, dynamodb: Endpoint, tables: Tables) -> None:
        self.dynamodb, self.tables, self.client = dynamodb, tables, dynamodb.client("dynamodb")
        self.teller: ModuleType = process_transactions(ministack, tables, dynamodb)
        self.function: ModuleType = read_accounts(dynamodb, tables)

    def post(self, *messages: dict[str, Any]) -> None:
        Queue([record(message) for message in messages]).deliver_until_quiet(self.teller)

    def read(self, kind: str, account_id: str = "alice", **fields: Any) -> dict[str, Any]:
        return self.invoke({"read": kind, "account_id": account_id} | fields)

    def invoke(self, event: Any) -> dict[str, Any]:
        answer: dict[str, Any] = self.function.lambda_handler(event, Context(60))
        return answer


@pytest.fixture
def bank(ministack: Endpoint, dynamodb: Endpoint, tables: Tables) -> Bank:
    return Bank(ministack, dynamodb, tables)


def opening(account_id: str = "alice", limit: int = -200) -> dict[str, Any]:
    fields = {"account_id": account_id, "currency": "EUR", "overdraft_limit": limit}
    return {"type": "open_account", "transaction_id": "open"} | fields


def payment(number: int, amount: object = 1, account_id: str = "alice") -> dict[str, Any]:
    return {"transaction_id": f"t-{number}", "account_id": account_id, "amount": amount}


def test_a_statement_has_the_last_entries_in_the_order_of_their_versions(bank: Bank) -> None:
    bank.post(opening(), payment(1, 100), payment(2, "-250.50"), payment(3, -100))
    answer = bank.read("statement", last=3)
    posted_at = [entry.pop("posted_at") for entry in answer["entries"]]
    assert posted_at == sorted(posted_at)
    assert answer == {
        "account_id": "alice",
        "account_version": 4,
        "entries": [
            {
                "transaction_id": "t-1",
                "account_version": 2,
                "status": "POSTED",
                "amount": "100",
                "balance_after": "100",
                "request": {"type": "transaction", "transaction_id": "t-1", "account_id": "alice", "amount": "100"},
            },
            {
                "transaction_id": "t-2",
                "account_version": 3,
                "status": "POSTED",
                "amount": "-250.5",
                "balance_after": "-150.5",
                "request": {"type": "transaction", "transaction_id": "t-2", "account_id": "alice", "amount": "-250.5"},
            },
            {
                "transaction_id": "t-3",
                "account_version": 4,
                "status": "REJECTED",
                "reason": "OVERDRAFT_LIMIT",
                "amount": "0",
                "balance_after": "-150.5",
                "request": {"type": "transaction", "transaction_id": "t-3", "account_id": "alice", "amount": "-100"},
            },
        ],
        "complete": True,
        "missing_versions": [],
        "next": None,
    }
