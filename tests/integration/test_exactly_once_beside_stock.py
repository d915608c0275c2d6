"""The table of powertools-lambda-python #801: a process dies at each call, with stock Powertools and with ours.

The request is delivered again after the dead invocation would have timed out.
"""

import time
from collections.abc import Callable
from typing import Any

import pytest
from aws_lambda_powertools.utilities.idempotency import (
    DynamoDBPersistenceLayer,
    IdempotencyConfig,
    idempotent_function,
)

from conditional_writes.core.items import to_dynamodb
from tests.support.faults import Fault, Faults, Killed, unlimited_retries
from tests.support.paying import Tables, Way, Worker, payment
from tools.local_aws.server import Endpoint

STOCK_CALLS = ["PutItem", "UpdateItem", "PutItem", "UpdateItem"]
"""The record in progress, the debit, the payment, the completed record."""
READ = "BatchGetItem"
OUR_CALLS = [READ, "TransactWriteItems"]


class Context:
    """Lambda's, of an invocation that has no time left: its record in progress is over in the next millisecond."""

    def __init__(self, milliseconds: int = 0) -> None:
        self.milliseconds = milliseconds

    def get_remaining_time_in_millis(self) -> int:
        return self.milliseconds


@pytest.fixture
def tables(dynamodb: Endpoint) -> Tables:
    tables = Tables(dynamodb)
    tables.open_account()
    return tables


class Stock(Worker):
    """Debits and makes the payment's item inside stock Powertools' idempotent function."""

    def __init__(self, tables: Tables, *, registered: bool = True, milliseconds: int = 0) -> None:
        super().__init__(tables)
        config = IdempotencyConfig(event_key_jmespath="payment_id", payload_validation_jmespath="amount")
        if registered:
            config.register_lambda_context(Context(milliseconds))  # type: ignore[arg-type]
        layer = DynamoDBPersistenceLayer(table_name=tables.records, boto3_client=self.client)
        once = idempotent_function(
            self._debit_and_pay, data_keyword_argument="request", persistence_store=layer, config=config
        )
        self.pay = lambda request: once(request=request)  # type: ignore[assignment]

    def _debit_and_pay(self, *, request: dict[str, Any]) -> dict[str, int]:
        self.client.update_item(
            TableName=self.tables.accounts,
            Key={"account_id": {"S": request["account_id"]}},
            UpdateExpression="ADD balance :amount",
            ExpressionAttributeValues={":amount": {"N": str(-request["amount"])}},
        )
        item = {"payment_id": request["payment_id"], "amount": request["amount"]}
        self.client.put_item(TableName=self.tables.payments, Item=to_dynamodb(item))
        return {"paid": request["amount"]}


def plain(tables: Tables) -> Worker:
    return Worker(tables, Way.PLAIN)


def by_powertools(tables: Tables) -> Worker:
    return Worker(tables, Way.POWERTOOLS)


OURS = (plain, by_powertools)


def debits(dynamodb: Endpoint, make: Callable[[Tables], Worker], fault: Fault, at: int) -> tuple[int, list[str]]:
    """The number of times that the account was debited, and the payments, after the fault and its redeliveries."""
    tables = Tables(dynamodb)
    tables.open_account(300)
    worker = make(tables)
    with Faults(fault, at).on(worker.client) as faults, unlimited_retries():
        for _ in range(3):
            faults.revive()
            try:
                assert worker.pay(payment())["paid"] == 30
            except Killed:
                time.sleep(0.01)  # Powertools' record in progress is over in the next millisecond
    assert faults.injected[fault] == 1
    [alice] = tables.balances().values()
    return int((300 - alice) / 30), tables.paid()


@pytest.mark.parametrize(
    ("fault", "at", "times"),
    [
        *((Fault.KILLED_BEFORE, at, 1 if at < 3 else 2) for at in (1, 2, 3, 4)),
        *((Fault.KILLED_AFTER, at, 2 if at in {2, 3} else 1) for at in (1, 2, 3, 4)),
        (Fault.RESPONSE_LOST, 2, 2),
    ],
)
def test_stock_powertools_debits_twice_if_the_process_dies_between_the_debit_and_the_completed_record(
    dynamodb: Endpoint, fault: Fault, at: int, times: int
) -> None:
    assert debits(dynamodb, Stock, fault, at) == (times, ["p-1"])


@pytest.mark.parametrize(
    ("make", "calls", "again"), [(Stock, STOCK_CALLS, "PutItem"), *((each, OUR_CALLS, READ) for each in OURS)]
)
def test_a_payment_and_a_repetition_make_the_calls_that_the_table_says(
    tables: Tables, make: Callable[[Tables], Worker], calls: list[str], again: str
) -> None:
    worker = make(tables)
    assert worker.pay(payment()) == worker.pay(payment())
    assert worker.calls == [*calls, again]
