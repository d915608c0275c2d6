"""A payment function that runs exactly once, with its tables: with plain functions and with Powertools' configuration.

A payment debits an account and makes an item of its own. `items` says whether the function is given the account.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from enum import Enum
from typing import Any

import boto3
from aws_lambda_powertools.utilities.idempotency import IdempotencyConfig

from conditional_writes import Item, Observed, Plan, Put, Update, VersionedItem, VersionedTable, absent, at_least
from conditional_writes.core.client import CONFIG
from conditional_writes.core.items import from_dynamodb, to_dynamodb
from conditional_writes.exactly_once import ExactlyOnce, Records, exactly_once
from tests.support.new_tables import calls_of, new_table
from tools.local_aws.server import REGION, Endpoint
from tools.local_aws.tables import scan


class Way(Enum):
    """How a function's calls are known again."""

    PLAIN = "by plain functions"
    POWERTOOLS = "by Powertools' configuration"


class Unfunded(Exception):
    """The account has less than the payment's amount, or doesn't exist."""


class Tables:
    """The names of new, empty tables, and what is in them."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint, client = endpoint, endpoint.client("dynamodb")
        keys = ("account_id", "payment_id", "id")
        self.accounts, self.payments, self.records = (new_table(client, {each: "S"}) for each in keys)

    def open_account(self, balance: int = 100) -> None:
        """Makes the account of the payments."""
        self.endpoint.client("dynamodb").put_item(TableName=self.accounts, Item=to_dynamodb(account(balance)))

    def items(self, table: str) -> list[Item]:
        return [from_dynamodb(item) for item in scan(self.endpoint, table)]

    def record(self) -> Item:
        """The only record."""
        [record] = self.items(self.records)
        return record

    def balances(self) -> dict[str, Any]:
        return {item["account_id"]: item["balance"] for item in self.items(self.accounts)}

    def paid(self) -> list[str]:
        return sorted(item["payment_id"] for item in self.items(self.payments))


class Worker:
    """A process that pays. `calls` has its AWS calls."""

    def __init__(self, tables: Tables, way: Way = Way.PLAIN, *, items: bool = True) -> None:
        self.tables, self.way = tables, way
        self.client: Any = boto3.client(
            "dynamodb",
            endpoint_url=tables.endpoint.url,
            region_name=REGION,
            aws_access_key_id="test",
            aws_secret_access_key="test",
            config=CONFIG,
        )
        self.accounts = VersionedTable(self.client, tables.accounts, "account_id")
        self.payments = VersionedTable(self.client, tables.payments, "payment_id")
        self.records = Records(self.client, tables.records)
        self.pay = self.once(way, self._pay_from_account if items else self._pay_unseen, items=items)
        self.calls = calls_of(self.client)
        self._others: list[Any] = []

    def once(self, way: Way, function: Any, *, items: bool) -> ExactlyOnce[dict[str, Any], Any]:
        named = (lambda payment: [self.accounts.key(payment["account_id"])]) if items else None
        if way is Way.PLAIN:
            return exactly_once(
                self.records, key=lambda payment: payment["payment_id"], items=named, prefix=function.__name__
            )(function)
        config = IdempotencyConfig(
            event_key_jmespath="payment_id", payload_validation_jmespath="[account_id, amount]", hash_function="sha256"
        )
        return exactly_once(self.records, config=config, items=named, prefix=function.__name__)(function)

    def plant(self, record: Item) -> None:
        """Writes a record as it couldn't be."""
        self.client.put_item(TableName=self.tables.records, Item=to_dynamodb(record))

    @contextmanager
    def before_writing(self, *others: Any) -> Iterator[None]:
        """Each other is called by one of the next plans, after its reads and before its writes."""
        self._others = list(others)
        yield
        assert not self._others, "another worker's work wasn't done"

    def _pay_from_account(self, payment: dict[str, Any], observed: Observed) -> Plan[Any]:
        self._let_others()
        found = observed[self.accounts.key(payment["account_id"])]
        if found is None or found["balance"] < payment["amount"]:
            raise Unfunded(payment["payment_id"])
        account = VersionedItem(found)
        balance = account["balance"] - payment["amount"]
        result = {"balance": str(balance), "paid": int(payment["amount"])}
        if not payment["amount"]:
            return Plan(result)
        new = {"payment_id": payment["payment_id"], "amount": payment["amount"]}
        return Plan(result, [self.accounts.saving(account | {"balance": balance}), self.payments.saving(new)])

    def _pay_unseen(self, payment: dict[str, Any], observed: Observed) -> Plan[Any]:
        """Knows nothing of the account, and asserts that it has enough."""
        self._let_others()
        amount = payment["amount"]
        account, new = self.accounts.key(payment["account_id"]), self.payments.key(payment["payment_id"])
        if not amount:
            return Plan({"paid": 0})
        debit = Update(account, {}, at_least("balance", amount), added={"balance": -amount})
        return Plan({"paid": int(amount)}, [debit, Put(new, {"amount": amount}, absent("payment_id"))])

    def _let_others(self) -> None:
        if self._others:
            self._others.pop(0)()


def payment(number: int = 1, amount: int = 30, **fields: Any) -> dict[str, Any]:
    return {"payment_id": f"p-{number}", "account_id": "alice", "amount": amount} | fields


def account(balance: int = 100) -> Item:
    return {"account_id": "alice", "balance": Decimal(balance), "version": Decimal(1)}
