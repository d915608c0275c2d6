"""The functions' roles on a local AWS that enforces IAM: what no function may do is refused.

tests/unit/test_template.py has the actions of each role, exactly. That they suffice is shown by the functions' work.
"""

import json
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

from tests.support.deployed import Bank
from tests.support.template import FOLDERS, deployed, resources
from tools.local_aws import stack
from tools.local_aws.server import REGION

ACCOUNT = {"account_id": {"S": "somebody"}}
ENTRY = ACCOUNT | {"transaction_id": {"S": "t"}}


def session_of(bank: Bank, role: str) -> boto3.Session:
    """With credentials of the role."""
    sts = bank.stack.endpoint.client("sts")
    credentials = sts.assume_role(RoleArn=role, RoleSessionName="test")["Credentials"]
    return boto3.Session(
        credentials["AccessKeyId"], credentials["SecretAccessKey"], credentials["SessionToken"], REGION
    )


class AsTheFunction:
    """Clients with the credentials of a function's role, and the names of resources."""

    def __init__(self, bank: Bank, folder: str) -> None:
        """A function without a queue of its own tries that of the transactions."""
        self.stack, self.function_name = bank.stack, bank.stack[f"{FOLDERS[folder]}Name"]
        configuration = bank.stack.endpoint.client("lambda").get_function_configuration(FunctionName=self.function_name)
        session = session_of(bank, configuration["Role"])
        services = ("dynamodb", "sqs", "events", "lambda")
        clients: list[Any] = [session.client(service, endpoint_url=bank.stack.endpoint.url) for service in services]
        self.dynamodb, self.sqs, self.events, self.lambda_ = clients
        self.queue = bank.profiles if folder == "upsert_profiles" else bank.transactions

    def on(self, table: str) -> dict[str, str]:
        return {"TableName": self.stack[f"{table}TableName"]}


type Attempt = Callable[[AsTheFunction], object]

EACH: dict[str, Attempt] = {
    "putting into another table": lambda me: me.dynamodb.put_item(TableName="others", Item=ACCOUNT),
    "putting an account alone": lambda me: me.dynamodb.put_item(**me.on("Accounts"), Item=ACCOUNT),
    "deleting an account": lambda me: me.dynamodb.delete_item(**me.on("Accounts"), Key=ACCOUNT),
    "putting an entry alone": lambda me: me.dynamodb.put_item(**me.on("Journal"), Item=ENTRY),
    "changing an entry": lambda me: me.dynamodb.update_item(**me.on("Journal"), Key=ENTRY),
    "deleting an entry": lambda me: me.dynamodb.delete_item(**me.on("Journal"), Key=ENTRY),
    "scanning the journal": lambda me: me.dynamodb.scan(**me.on("Journal")),
    "counting a reversal alone": lambda me: me.dynamodb.update_item(**me.on("Reversals"), Key=ENTRY),
    "deleting a refusal": lambda me: me.dynamodb.delete_item(**me.on("Refusals"), Key=ENTRY),
    "reading a profile": lambda me: me.dynamodb.get_item(**me.on("Profiles"), Key=ACCOUNT),
    "deleting a table": lambda me: me.dynamodb.delete_table(**me.on("Profiles")),
    "emptying its queue": lambda me: me.sqs.purge_queue(QueueUrl=me.queue.queue_url),
    "reading the dead letters": lambda me: me.sqs.receive_message(QueueUrl=me.queue.dead_letter_queue_url),
    "publishing on another bus": lambda me: me.events.put_events(
        Entries=[{"EventBusName": "default", "Source": "test", "DetailType": "OfATest", "Detail": "{}"}]
    ),
    "making a rule on the bus": lambda me: me.events.put_rule(
        Name="another", EventBusName=me.stack["OutcomesBusName"], EventPattern='{"source": ["teller"]}'
    ),
    "invoking another function": lambda me: me.lambda_.invoke(
        FunctionName=me.stack[
            "ReconcileAccountsFunctionName"
            if me.function_name == me.stack["ProcessTransactionsFunctionName"]
            else "ProcessTransactionsFunctionName"
        ]
    ),
}
READER: dict[str, Attempt] = {
    "changing an account by a statement of PartiQL": lambda me: me.dynamodb.execute_statement(
        Statement=f"UPDATE \"{me.stack['AccountsTableName']}\" SET balance=1 WHERE account_id='somebody'"
    ),
    "putting an entry in a transaction": lambda me: me.dynamodb.transact_write_items(
        TransactItems=[{"Put": {**me.on("Journal"), "Item": ENTRY}}]
    ),
    "scanning the accounts": lambda me: me.dynamodb.scan(**me.on("Accounts")),
    "sending a transaction": lambda me: me.sqs.send_message(QueueUrl=me.queue.queue_url, MessageBody="{}"),
    "invoking itself": lambda me: me.lambda_.invoke(FunctionName=me.function_name),
}
ATTEMPTS = [(folder, name, attempt) for folder in FOLDERS for name, attempt in EACH.items()]
ATTEMPTS += [("read_accounts", name, attempt) for name, attempt in READER.items()]


@pytest.fixture(scope="module")
def functions(bank: Bank) -> dict[str, AsTheFunction]:
    return {folder: AsTheFunction(bank, folder) for folder in FOLDERS}


@pytest.mark.parametrize(
    ("function", "attempt"),
    [pytest.param(folder, attempt, id=f"{folder}: {name}") for folder, name, attempt in ATTEMPTS],
)
def test_what_it_has_no_business_with_is_refused(
    functions: dict[str, AsTheFunction], function: str, attempt: Attempt
) -> None:
    with pytest.raises(ClientError, match=r"not authorized|AccessDenied"):
        attempt(functions[function])


@pytest.mark.parametrize(
    ("state", "expected"),
    [("off", nullcontext()), ("on", pytest.raises(ClientError, match="AccessDenied"))],
    ids=["without a URL", "with one"],
)
def test_a_caller_by_the_policy_invokes_post_transactions_directly_only_while_it_has_no_url(
    bank: Bank, state: str, expected: AbstractContextManager[object]
) -> None:
    """On AWS the policy with a URL allows calls by it: tests/assumptions/test_lambda.py."""
    policy = resources("AWS::IAM::ManagedPolicy", PostTransactionsUrlState=state)["PostTransactionsCallerPolicy"]
    function = bank.stack["PostTransactionsFunctionName"]
    arn = f"arn:aws:lambda:{REGION}:000000000000:function:{function}"
    sub = {"Sub": "${PostTransactionsFunction.Arn}:live"}
    document = json.dumps(policy["PolicyDocument"]).replace(json.dumps(sub), json.dumps(arn))
    iam, name = bank.stack.endpoint.client("iam"), f"caller-{state}"
    trust = {"Effect": "Allow", "Principal": {"AWS": "*"}, "Action": "sts:AssumeRole"}
    role = iam.create_role(
        RoleName=name, AssumeRolePolicyDocument=json.dumps({"Version": "2012-10-17", "Statement": [trust]})
    )["Role"]["Arn"]
    iam.put_role_policy(RoleName=name, PolicyName="caller", PolicyDocument=document)
    client = session_of(bank, role).client("lambda", endpoint_url=bank.stack.endpoint.url)
    with expected:
        assert "error" in json.load(client.invoke(FunctionName=function, Payload="{}")["Payload"])


def test_the_stack_has_the_resources_that_tests_read_from_the_template(bank: Bank) -> None:
    described = bank.stack.endpoint.client("cloudformation").describe_stack_resources(StackName=stack.NAME)
    found = {resource["LogicalResourceId"]: resource["ResourceType"] for resource in described["StackResources"]}
    expected = {
        name: resource["Type"].replace("AWS::Serverless::", "AWS::Lambda::")
        for name, resource in deployed(AwsEndpointUrl=bank.stack.endpoint.url).items()
        if resource["Type"] != "AWS::Serverless::LayerVersion"
    }
    assert found.items() >= expected.items()
