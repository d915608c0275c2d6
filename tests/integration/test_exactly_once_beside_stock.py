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
from aws_lambda_powertools.utilities.idempotency.exceptions import IdempotencyAlreadyInProgressError

from conditional_writes.items import to_dynamodb
from tests.support.faults import Fault, Faults, Killed, unlimited_retries
from tests.support.paying import Tables, Way, Worker, account, payment
from tools.local_aws.server import Endpoint

KILLS = (Fault.KILLED_BEFORE, Fault.KILLED_AFTER)
STOCK_CALLS = ["PutItem", "UpdateItem", "PutItem", "UpdateItem"]
"""The record in progress, the debit, the payment, the completed record."""
OUR_CALLS = ["BatchGetItem", "TransactWriteItems"]
DELIVERIES = 3


class Context:
    """Lambda's, of an invocation that has no time left: its record in progress is over in the next millisecond."""

    def get_remaining_time_in_millis(self) -> int:
        return 0


class Stock(Worker):
    """Debits and makes the payment's item inside stock Powertools' idempotent function."""

    def __init__(self, tables: Tables, *, registered: bool = True) -> None:
        super().__init__(tables)
        config = IdempotencyConfig(event_key_jmespath="payment_id", payload_validation_jmespath="amount")
        if registered:
            config.register_lambda_context(Context())  # type: ignore[arg-type]
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


def debits(dynamodb: Endpoint, make: Callable[[Tables], Worker], fault: Fault, at: int) -> tuple[int, list[str]]:
    """The number of times that the account was debited, and the payments, after the fault and its redeliveries."""
    tables = Tables(dynamodb)
    dynamodb.client("dynamodb").put_item(TableName=tables.accounts, Item=to_dynamodb(account(300)))
    worker = make(tables)
    with Faults(fault, at).on(worker.client) as faults, unlimited_retries():
        for _ in range(DELIVERIES):
            faults.revive()
            try:
                assert worker.pay(payment())["paid"] == 30
            except Killed:
                time.sleep(0.01)
    assert faults.injected[fault] == 1
    [alice] = tables.balances().values()
    return int((300 - alice) / 30), tables.paid()


@pytest.mark.parametrize("fault", KILLS, ids=lambda fault: fault.name)
@pytest.mark.parametrize("at", [1, 2, 3, 4])
def test_stock_powertools_debits_twice_if_the_process_dies_between_the_debit_and_the_completed_record(
    ministack: Endpoint, fault: Fault, at: int
) -> None:
    debited = at + (fault is Fault.KILLED_AFTER) > 2
    completed = (at, fault) == (4, Fault.KILLED_AFTER)
    assert debits(ministack, Stock, fault, at) == (2 if debited and not completed else 1, ["p-1"])


def test_stock_powertools_debits_twice_if_the_answer_to_the_debit_is_lost(ministack: Endpoint) -> None:
    assert debits(ministack, Stock, Fault.RESPONSE_LOST, at=2) == (2, ["p-1"])


@pytest.mark.parametrize("make", [plain, by_powertools])
@pytest.mark.parametrize("fault", [*KILLS, Fault.RESPONSE_LOST], ids=lambda fault: fault.name)
@pytest.mark.parametrize("at", [1, 2])
def test_ours_debits_once_wherever_the_process_dies(
    dynamodb: Endpoint, make: Callable[[Tables], Worker], fault: Fault, at: int
) -> None:
    assert debits(dynamodb, make, fault, at) == (1, ["p-1"])


@pytest.mark.filterwarnings("ignore:Couldn't determine the remaining time left")
def test_stock_powertools_without_lambdas_context_refuses_for_an_hour_what_died_before_its_effect(
    ministack: Endpoint,
) -> None:
    tables = Tables(ministack)
    ministack.client("dynamodb").put_item(TableName=tables.accounts, Item=to_dynamodb(account()))
    worker = Stock(tables, registered=False)
    with Faults(Fault.KILLED_AFTER, at=1).on(worker.client), pytest.raises(Killed):
        worker.pay(payment())
    for _ in range(DELIVERIES):
        with pytest.raises(IdempotencyAlreadyInProgressError):
            worker.pay(payment())
    [record] = tables.items(tables.records)
    assert record["expiration"] > time.time() + 3500
    assert tables.balances() == {"alice": 100}


def test_the_calls_are_those_of_the_table(ministack: Endpoint) -> None:
    for make, calls in ((Stock, STOCK_CALLS), (plain, OUR_CALLS), (by_powertools, OUR_CALLS)):
        tables = Tables(ministack)
        ministack.client("dynamodb").put_item(TableName=tables.accounts, Item=to_dynamodb(account()))
        worker = make(tables)
        worker.pay(payment())
        assert worker.calls == calls
