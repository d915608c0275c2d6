"""Teller's job done with stock Powertools, as a good engineer would do it, for comparison.

`BatchProcessor` passes on one SQS record at a time. `idempotent_function` puts an idempotency record "in progress",
runs `post`, and updates the record to "completed". The account is read and put under its version, and read again after
a conflict. There is no journal. If a function dies between the put and the update, the next delivery posts the
transaction again. This design can't prevent it, for the effect and the record are two writes.
"""

import json
import random
import time
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import boto3
from aws_lambda_powertools.utilities.batch import BatchProcessor, EventType, process_partial_response
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord
from aws_lambda_powertools.utilities.idempotency import (
    DynamoDBPersistenceLayer,
    IdempotencyConfig,
    idempotent_function,
)
from boto3.dynamodb.conditions import Attr
from botocore.config import Config

from tools.local_aws.functions import Context
from tools.local_aws.server import REGION, Endpoint

ATTEMPTS = 10
CONFIG = Config(retries={"mode": "standard", "total_max_attempts": 3}, connect_timeout=1, read_timeout=2)


class UnknownAccountError(Exception):
    """The account hasn't been opened (yet). The record returns to the queue."""


class ContendedError(Exception):
    """Every attempt ended in a conflict. The record returns to the queue."""


@dataclass(frozen=True)
class Tables:
    accounts: str
    idempotency: str


def create_tables(endpoint: Endpoint, prefix: str) -> Tables:
    client = endpoint.client("dynamodb")
    tables = Tables(f"{prefix}-stock-accounts", f"{prefix}-stock-idempotency")
    for name, key in ((tables.accounts, "account_id"), (tables.idempotency, "id")):
        client.create_table(
            TableName=name,
            BillingMode="PAY_PER_REQUEST",
            AttributeDefinitions=[{"AttributeName": key, "AttributeType": "S"}],
            KeySchema=[{"AttributeName": key, "KeyType": "HASH"}],
        )
        client.get_waiter("table_exists").wait(TableName=name, WaiterConfig={"Delay": 1})
    return tables


class StockFunction:
    """The function after a cold start. Lambda calls `lambda_handler`."""

    def __init__(self, endpoint: Endpoint, tables: Tables) -> None:
        session = boto3.Session(aws_access_key_id="test", aws_secret_access_key="test", region_name=REGION)
        self.accounts = session.resource("dynamodb", endpoint_url=endpoint.url, config=CONFIG).Table(tables.accounts)
        store = DynamoDBPersistenceLayer(
            table_name=tables.idempotency,
            boto3_client=session.client("dynamodb", endpoint_url=endpoint.url, config=CONFIG),
        )
        self.clients = (self.accounts.meta.client, store.client)
        self.idempotency = IdempotencyConfig(
            event_key_jmespath="[account_id, transaction_id]",
            payload_validation_jmespath="amount",
            raise_on_no_idempotency_key=True,
            expires_after_seconds=14 * 24 * 3600,  # The retention period of the queue.
        )
        self.processor = BatchProcessor(event_type=EventType.SQS, raise_on_entire_batch_failure=False)
        self.post_once = idempotent_function(
            self.post,
            data_keyword_argument="transaction",
            persistence_store=store,
            config=self.idempotency,
            key_prefix="transactions",
        )

    def lambda_handler(self, event: dict[str, Any], context: Context) -> Any:
        self.idempotency.register_lambda_context(context)
        return process_partial_response(
            event=event, record_handler=self.record_handler, processor=self.processor, context=context
        )

    def record_handler(self, record: SQSRecord) -> dict[str, Any]:
        return self.post_once(transaction=json.loads(record.body, parse_float=Decimal))

    def post(self, *, transaction: dict[str, Any]) -> dict[str, Any]:
        """Changes the balance, or rejects a transaction that would take it below the overdraft limit."""
        amount = Decimal(transaction["amount"])
        for attempt in range(ATTEMPTS):
            account = self._read(transaction["account_id"])
            balance = account["balance"] + amount
            if amount < 0 and balance < account["overdraft_limit"]:
                return {"status": "REJECTED", "reason": "OVERDRAFT_LIMIT"}
            if self._replace(account, account | {"balance": balance, "version": account["version"] + 1}):
                return {"status": "POSTED", "balance_after": str(balance)}
            time.sleep(random.uniform(0, min(1, 0.01 * 2**attempt)))
        raise ContendedError(f"account {transaction['account_id']}: {ATTEMPTS} conflicts")

    def _read(self, account_id: str) -> dict[str, Any]:
        account = self.accounts.get_item(Key={"account_id": account_id}, ConsistentRead=True).get("Item")
        if account is None:
            raise UnknownAccountError(f"no account {account_id} has been opened")
        return account

    def _replace(self, before: dict[str, Any], after: dict[str, Any]) -> bool:
        """Puts the account. Returns False if it has another version by now."""
        try:
            self.accounts.put_item(Item=after, ConditionExpression=Attr("version").eq(before["version"]))
        except self.accounts.meta.client.exceptions.ConditionalCheckFailedException:
            return False
        return True
