"""The functions' roles on a local AWS that enforces IAM: what each needs is allowed, and nothing else."""

from collections.abc import Callable
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

from tests.e2e.bank import Bank, Line
from tests.local_aws.server import REGION

KEY = {"account_id": {"S": "somebody"}}
ENTRY_KEY = KEY | {"transaction_id": {"S": "t"}}


class AsTheFunction:
    """Clients with the credentials of a function's role."""

    def __init__(self, bank: Bank, line: Line) -> None:
        self.line = line
        sts = bank.stack.endpoint.client("sts")
        credentials = sts.assume_role(RoleArn=line.function["Role"], RoleSessionName="test")["Credentials"]
        session = boto3.Session(
            credentials["AccessKeyId"], credentials["SecretAccessKey"], credentials["SessionToken"], REGION
        )
        url = bank.stack.endpoint.url
        self.dynamodb: Any = session.client("dynamodb", endpoint_url=url)
        self.sqs: Any = session.client("sqs", endpoint_url=url)
        self.lambda_: Any = session.client("lambda", endpoint_url=url)
        self.accounts = bank.stack["AccountsTableName"]
        self.journal = bank.stack["JournalTableName"]
        self.profiles = bank.stack["ProfilesTableName"]
        self.queue, self.dead = line.queue_url, line.dead_letter_queue_url


type Attempt = Callable[[AsTheFunction], object]

REFUSED: dict[str, dict[str, Attempt]] = {
    "either": {
        "another table": lambda me: me.dynamodb.put_item(TableName="others", Item=KEY),
        "deleting an account": lambda me: me.dynamodb.delete_item(TableName=me.accounts, Key=KEY),
        "scanning the accounts": lambda me: me.dynamodb.scan(TableName=me.accounts),
        "changing an entry": lambda me: me.dynamodb.update_item(TableName=me.journal, Key=ENTRY_KEY),
        "deleting a profile": lambda me: me.dynamodb.delete_item(TableName=me.profiles, Key=KEY),
        "reading a profile": lambda me: me.dynamodb.get_item(TableName=me.profiles, Key=KEY),
        "deleting a table": lambda me: me.dynamodb.delete_table(TableName=me.profiles),
        "sending to its own queue": lambda me: me.sqs.send_message(QueueUrl=me.queue, MessageBody="{}"),
        "emptying its queue": lambda me: me.sqs.purge_queue(QueueUrl=me.queue),
        "reading the dead letters": lambda me: me.sqs.receive_message(QueueUrl=me.dead),
        "deleting a queue": lambda me: me.sqs.delete_queue(QueueUrl=me.dead),
        "invoking a function": lambda me: me.lambda_.invoke(FunctionName=me.line.function_name),
    },
    "process_transactions": {
        "deleting an entry": lambda me: me.dynamodb.delete_item(TableName=me.journal, Key=ENTRY_KEY),
        "scanning the journal": lambda me: me.dynamodb.scan(TableName=me.journal),
        "changing a profile": lambda me: me.dynamodb.update_item(TableName=me.profiles, Key=KEY),
    },
    "upsert_profiles": {
        "replacing a profile": lambda me: me.dynamodb.put_item(TableName=me.profiles, Item=KEY),
        "scanning the profiles": lambda me: me.dynamodb.scan(TableName=me.profiles),
        "changing an account": lambda me: me.dynamodb.update_item(TableName=me.accounts, Key=KEY),
    },
}
ALLOWED: dict[str, dict[str, Attempt]] = {
    "either": {
        "sending a dead letter": lambda me: me.sqs.send_message_batch(
            QueueUrl=me.dead, Entries=[{"Id": "1", "MessageBody": "from the test of permissions"}]
        ),
        "reading its queue": lambda me: me.sqs.receive_message(QueueUrl=me.queue),
    },
    "process_transactions": {
        "reading accounts and entries": lambda me: me.dynamodb.batch_get_item(
            RequestItems={me.accounts: {"Keys": [KEY]}, me.journal: {"Keys": [ENTRY_KEY]}}
        ),
    },
    "upsert_profiles": {
        "changing a profile": lambda me: me.dynamodb.update_item(TableName=me.profiles, Key=KEY),
    },
}


def of_each_function(attempts: dict[str, dict[str, Attempt]]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(
        ("function", "attempt"),
        [
            pytest.param(function, attempt, id=f"{function}: {name}")
            for function in ("process_transactions", "upsert_profiles")
            for name, attempt in (attempts["either"] | attempts[function]).items()
        ],
    )


@pytest.fixture(scope="module")
def functions(bank: Bank) -> dict[str, AsTheFunction]:
    return {
        "process_transactions": AsTheFunction(bank, bank.transactions),
        "upsert_profiles": AsTheFunction(bank, bank.profiles),
    }


@of_each_function(REFUSED)
def test_what_it_has_no_business_with_is_refused(
    functions: dict[str, AsTheFunction], function: str, attempt: Attempt
) -> None:
    with pytest.raises(ClientError, match=r"not authorized|AccessDenied"):
        attempt(functions[function])


@of_each_function(ALLOWED)
def test_what_it_needs_is_allowed(functions: dict[str, AsTheFunction], function: str, attempt: Attempt) -> None:
    attempt(functions[function])
    functions[function].line.take_dead_letters()
