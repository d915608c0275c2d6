"""Exactly-once functions on both engines."""

import itertools
from decimal import Decimal
from typing import Any

import pytest

from conditional_writes import Observed, Plan, VersionedItem, VersionedTable
from conditional_writes.exactly_once import PayloadChanged, Ran, Records, exactly_once
from tools.local_aws.server import Endpoint

_numbers = itertools.count(1)


class Shop:
    """Accounts, payments and records, and a payment function."""

    def __init__(self, dynamodb: Endpoint) -> None:
        self.client = dynamodb.client("dynamodb")
        prefix = f"shop-{next(_numbers)}"
        names = {"Accounts": "account_id", "Payments": "payment_id", "Records": "id"}
        for table, key in names.items():
            self.client.create_table(
                TableName=f"{prefix}-{table}",
                BillingMode="PAY_PER_REQUEST",
                AttributeDefinitions=[{"AttributeName": key, "AttributeType": "S"}],
                KeySchema=[{"AttributeName": key, "KeyType": "HASH"}],
            )
        self.accounts = VersionedTable(self.client, f"{prefix}-Accounts", "account_id")
        self.payments = VersionedTable(self.client, f"{prefix}-Payments", "payment_id")
        self.records = Records(self.client, f"{prefix}-Records")
        self.pay = exactly_once(
            self.records,
            key=lambda payment: payment["payment_id"],
            items=lambda payment: [self.accounts.key(payment["account_id"])],
        )(self._pay)
        self.calls: list[str] = []
        self.client.meta.events.register("before-call", lambda model, **_: self.calls.append(model.name))

    def _pay(self, payment: dict[str, Any], observed: Observed) -> Plan[dict[str, Any]]:
        found = observed[self.accounts.key(payment["account_id"])]
        if found is None:
            raise LookupError(payment["account_id"])
        account = VersionedItem(found)
        balance = account["balance"] - payment["amount"]
        return Plan({"balance": balance}, [self.accounts.saving(account | {"balance": balance})])

    def balance(self) -> Decimal | None:
        account = self.accounts.load("alice")
        return account and account["balance"]


PAYMENT: dict[str, Any] = {"payment_id": "p-1", "account_id": "alice", "amount": 30}


@pytest.fixture
def shop(dynamodb: Endpoint) -> Shop:
    shop = Shop(dynamodb)
    shop.accounts.save({"account_id": "alice", "balance": 100})
    shop.calls.clear()
    return shop


def test_a_second_call_has_the_first_ones_result_and_writes_nothing(shop: Shop) -> None:
    assert shop.pay.run(PAYMENT) == Ran({"balance": Decimal(70)}, replayed=False)
    assert shop.calls == ["BatchGetItem", "TransactWriteItems"]
    assert shop.pay.run(PAYMENT) == Ran({"balance": Decimal(70)}, replayed=True)
    assert shop.calls == ["BatchGetItem", "TransactWriteItems", "BatchGetItem"]
    assert shop.pay(PAYMENT | {"payment_id": "p-2"}) == {"balance": Decimal(40)}
    assert shop.balance() == 40


def test_the_key_with_another_payload_is_refused_and_the_fields_are_named(shop: Shop) -> None:
    shop.pay(PAYMENT)
    with pytest.raises(PayloadChanged, match="p-1': was used before, with another amount, note") as caught:
        shop.pay(PAYMENT | {"amount": 31, "note": "rent"})
    assert caught.value.fields == ("amount", "note")
    assert shop.balance() == 70
