"""The start of a function with stock Powertools, with all utilities that are needed for Teller's job."""

from decimal import Decimal

import boto3
from aws_lambda_powertools import Logger, Metrics, Tracer
from aws_lambda_powertools.utilities.batch import BatchProcessor, EventType, process_partial_response
from aws_lambda_powertools.utilities.idempotency import (
    DynamoDBPersistenceLayer,
    IdempotencyConfig,
    idempotent_function,
)
from aws_lambda_powertools.utilities.parser import BaseModel, parse

__all__ = ["idempotent_function", "parse", "process_partial_response"]


class Transaction(BaseModel):
    transaction_id: str
    account_id: str
    amount: Decimal


logger = Logger()
metrics = Metrics()
tracer = Tracer()
processor = BatchProcessor(event_type=EventType.SQS)
idempotency = IdempotencyConfig(event_key_jmespath="[account_id, transaction_id]", payload_validation_jmespath="amount")
store = DynamoDBPersistenceLayer(table_name="idempotency")
accounts = boto3.resource("dynamodb").Table("accounts")
