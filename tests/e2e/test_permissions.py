"""The function's role on a local AWS that enforces IAM: what it needs is allowed, and nothing else."""

from collections.abc import Callable
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

from tests.e2e.bank import Bank
from tests.local_aws.server import REGION

KEY = {"account_id": {"S": "somebody"}}
ENTRY_KEY = KEY | {"transaction_id": {"S": "t"}}


class AsTheFunction:
    """Clients with the credentials of the function's role."""

    def __init__(self, bank: Bank) -> None:
        self.bank = bank
        sts = bank.stack.endpoint.client("sts")
        credentials = sts.assume_role(RoleArn=bank.function["Role"], RoleSessionName="test")["Credentials"]
        session = boto3.Session(
            credentials["AccessKeyId"], credentials["SecretAccessKey"], credentials["SessionToken"], REGION
        )
        url = bank.stack.endpoint.url
        self.dynamodb: Any = session.client("dynamodb", endpoint_url=url)
        self.sqs: Any = session.client("sqs", endpoint_url=url)
        self.lambda_: Any = session.client("lambda", endpoint_url=url)
        self.accounts = bank.stack["AccountsTableName"]
        self.journal = bank.stack["JournalTableName"]
        self.queue = bank.stack["TransactionsQueueUrl"]
        self.dead = bank.stack["TransactionsDeadLetterQueueUrl"]


@pytest.fixture(scope="module")
def function(bank: Bank) -> AsTheFunction:
    return AsTheFunction(bank)


REFUSED: dict[str, Callable[[AsTheFunction], object]] = {
    "changing an entry": lambda me: me.dynamodb.update_item(TableName=me.journal, Key=ENTRY_KEY),
    "deleting an entry": lambda me: me.dynamodb.delete_item(TableName=me.journal, Key=ENTRY_KEY),
    "scanning the journal": lambda me: me.dynamodb.scan(TableName=me.journal),
    "deleting an account": lambda me: me.dynamodb.delete_item(TableName=me.accounts, Key=KEY),
    "scanning the accounts": lambda me: me.dynamodb.scan(TableName=me.accounts),
    "deleting a table": lambda me: me.dynamodb.delete_table(TableName=me.accounts),
    "another table": lambda me: me.dynamodb.put_item(TableName="others", Item=KEY),
    "sending to its own queue": lambda me: me.sqs.send_message(QueueUrl=me.queue, MessageBody="{}"),
    "emptying its queue": lambda me: me.sqs.purge_queue(QueueUrl=me.queue),
    "reading the dead letters": lambda me: me.sqs.receive_message(QueueUrl=me.dead),
    "deleting a queue": lambda me: me.sqs.delete_queue(QueueUrl=me.dead),
    "invoking a function": lambda me: me.lambda_.invoke(FunctionName=me.bank.function["FunctionName"]),
}


@pytest.mark.parametrize("attempt", REFUSED.values(), ids=REFUSED)
def test_what_it_has_no_business_with_is_refused(
    function: AsTheFunction, attempt: Callable[[AsTheFunction], object]
) -> None:
    with pytest.raises(ClientError, match=r"not authorized|AccessDenied"):
        attempt(function)


ALLOWED: dict[str, Callable[[AsTheFunction], object]] = {
    "reading accounts and entries": lambda me: me.dynamodb.batch_get_item(
        RequestItems={me.accounts: {"Keys": [KEY]}, me.journal: {"Keys": [ENTRY_KEY]}}
    ),
    "sending a dead letter": lambda me: me.sqs.send_message_batch(
        QueueUrl=me.dead, Entries=[{"Id": "1", "MessageBody": "from the test of permissions"}]
    ),
    "reading its queue": lambda me: me.sqs.receive_message(QueueUrl=me.queue),
}


@pytest.mark.parametrize("attempt", ALLOWED.values(), ids=ALLOWED)
def test_what_it_needs_is_allowed(function: AsTheFunction, attempt: Callable[[AsTheFunction], object]) -> None:
    attempt(function)
    function.bank.take_dead_letters()
