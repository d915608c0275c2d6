"""The functions' roles on a local AWS that enforces IAM: each allows the function's own actions and no others."""

from collections.abc import Callable, Iterator
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

from ledger.tables import JOURNAL_INDEX
from tests.support.deployed import Bank, FunctionQueue
from tests.support.template import FOLDERS, deployed, event_sources
from tools.local_aws import stack
from tools.local_aws.server import REGION

KEY = {"account_id": {"S": "somebody"}}
ATTEMPT_KEY = {"message_id": {"S": "somebody's"}}
TICKET_KEY = {"lock_key": {"S": "line somebody"}}
ENTRY_KEY = KEY | {"transaction_id": {"S": "t"}}


class AsTheFunction:
    """Clients with the credentials of a function's role, and the resources for its attempts."""

    def __init__(self, bank: Bank, folder: str, queue: FunctionQueue) -> None:
        """`queue` is the function's own. For a job it is any queue, to be used as far as the role allows."""
        function_name = bank.stack[f"{FOLDERS[folder]}Name"]
        # Each function may write its own records alone. ministack doesn't know dynamodb:LeadingKeys, so nothing here
        # tries another's.
        self.lock_key = {"lock_key": {"S": f"{folder} of a test"}}
        self.function_queue, self.function_name, self.stack = queue, function_name, bank.stack
        configuration = bank.stack.endpoint.client("lambda").get_function_configuration(FunctionName=function_name)
        sts = bank.stack.endpoint.client("sts")
        credentials = sts.assume_role(RoleArn=configuration["Role"], RoleSessionName="test")["Credentials"]
        session = boto3.Session(
            credentials["AccessKeyId"], credentials["SecretAccessKey"], credentials["SessionToken"], REGION
        )
        url = bank.stack.endpoint.url
        self.dynamodb: Any = session.client("dynamodb", endpoint_url=url)
        self.sqs: Any = session.client("sqs", endpoint_url=url)
        self.events: Any = session.client("events", endpoint_url=url)
        self.lambda_: Any = session.client("lambda", endpoint_url=url)
        self.accounts = bank.stack["AccountsTableName"]
        self.journal = bank.stack["JournalTableName"]
        self.reversals = bank.stack["ReversalsTableName"]
        self.refusals = bank.stack["RefusalsTableName"]
        self.profiles = bank.stack["ProfilesTableName"]
        self.checkpoints = bank.stack["CheckpointsTableName"]
        self.locks = bank.stack["LocksTableName"]
        self.attempts = bank.stack["AttemptsTableName"]
        self.bus = bank.stack["OutcomesBusName"]
        self.queue, self.dead = queue.queue_url, queue.dead_letter_queue_url


def put_refusal(me: AsTheFunction) -> object:
    return me.dynamodb.batch_write_item(RequestItems={me.refusals: [{"PutRequest": {"Item": ENTRY_KEY}}]})


type Attempt = Callable[[AsTheFunction], object]

REFUSED: dict[str, dict[str, Attempt]] = {
    "each": {
        "another table": lambda me: me.dynamodb.put_item(TableName="others", Item=KEY),
        "deleting an account": lambda me: me.dynamodb.delete_item(TableName=me.accounts, Key=KEY),
        "changing an entry": lambda me: me.dynamodb.update_item(TableName=me.journal, Key=ENTRY_KEY),
        "deleting a count of reversals": lambda me: me.dynamodb.delete_item(TableName=me.reversals, Key=ENTRY_KEY),
        "scanning the counts of reversals": lambda me: me.dynamodb.scan(TableName=me.reversals),
        "deleting a refusal": lambda me: me.dynamodb.delete_item(TableName=me.refusals, Key=ENTRY_KEY),
        "scanning the refusals": lambda me: me.dynamodb.scan(TableName=me.refusals),
        "deleting a profile": lambda me: me.dynamodb.delete_item(TableName=me.profiles, Key=KEY),
        "reading a profile": lambda me: me.dynamodb.get_item(TableName=me.profiles, Key=KEY),
        "deleting a table": lambda me: me.dynamodb.delete_table(TableName=me.profiles),
        "emptying its queue": lambda me: me.sqs.purge_queue(QueueUrl=me.queue),
        "reading the dead letters": lambda me: me.sqs.receive_message(QueueUrl=me.dead),
        "deleting a queue": lambda me: me.sqs.delete_queue(QueueUrl=me.dead),
        "deleting an attempt": lambda me: me.dynamodb.delete_item(TableName=me.attempts, Key=ATTEMPT_KEY),
        "scanning the checkpoints": lambda me: me.dynamodb.scan(TableName=me.checkpoints),
        "deleting a lock": lambda me: me.dynamodb.delete_item(TableName=me.locks, Key=me.lock_key),
        "publishing on another bus": lambda me: put_event(me, "default"),
        "making a rule on the bus": lambda me: me.events.put_rule(
            Name="another", EventBusName=me.bus, EventPattern='{"source": ["teller"]}'
        ),
        "reading the dead letters of outcomes": lambda me: me.sqs.receive_message(
            QueueUrl=me.stack["OutcomesDeadLetterQueueUrl"]
        ),
        "invoking another function": lambda me: me.lambda_.invoke(FunctionName=another_function(me)),
    },
    "either queue's": {
        "scanning the accounts": lambda me: me.dynamodb.scan(TableName=me.accounts),
        "sending to its own queue": lambda me: me.sqs.send_message(QueueUrl=me.queue, MessageBody="{}"),
        "invoking itself": lambda me: me.lambda_.invoke(FunctionName=me.function_name),
    },
    "either job's": {
        "publishing an event": lambda me: put_event(me, me.bus),
        "changing an account": lambda me: me.dynamodb.update_item(TableName=me.accounts, Key=KEY),
        "putting an account": lambda me: me.dynamodb.put_item(TableName=me.accounts, Item=KEY),
        "putting an entry": lambda me: me.dynamodb.put_item(TableName=me.journal, Item=ENTRY_KEY),
        "putting a count of reversals": lambda me: me.dynamodb.put_item(TableName=me.reversals, Item=ENTRY_KEY),
        "reading a queue": lambda me: me.sqs.receive_message(QueueUrl=me.queue),
        "scanning the locks": lambda me: me.dynamodb.scan(TableName=me.locks),
        "sending to the profiles": lambda me: me.sqs.send_message(
            QueueUrl=me.stack["ProfilesQueueUrl"], MessageBody="{}"
        ),
    },
    "reconcile_accounts": {
        "sending a transaction": lambda me: me.sqs.send_message(QueueUrl=me.queue, MessageBody="{}"),
    },
    "charge_overdraft_interest": {
        "reading the journal": lambda me: query(me, me.journal),
        "reading an account": lambda me: me.dynamodb.get_item(TableName=me.accounts, Key=KEY),
    },
    "expire_holds": {
        "reading the journal": lambda me: query(me, me.journal),
        "reading an account": lambda me: me.dynamodb.get_item(TableName=me.accounts, Key=KEY),
        "reading counts of reversals": lambda me: query(me, me.reversals),
    },
    "process_transactions": {
        "putting an entry alone": lambda me: me.dynamodb.put_item(TableName=me.journal, Item=ENTRY_KEY),
        "putting an account alone": lambda me: me.dynamodb.put_item(TableName=me.accounts, Item=KEY),
        "counting a reversal alone": lambda me: me.dynamodb.update_item(TableName=me.reversals, Key=ENTRY_KEY),
        "deleting an entry": lambda me: me.dynamodb.delete_item(TableName=me.journal, Key=ENTRY_KEY),
        "scanning the journal": lambda me: me.dynamodb.scan(TableName=me.journal),
        "reading the counts of an account's reversals": lambda me: query(me, me.reversals),
        "changing a profile": lambda me: me.dynamodb.update_item(TableName=me.profiles, Key=KEY),
    },
    "read_accounts": {
        "recording a refusal": put_refusal,
        "publishing an event": lambda me: put_event(me, me.bus),
        "putting an account": lambda me: me.dynamodb.put_item(TableName=me.accounts, Item=KEY),
        "changing an account": lambda me: me.dynamodb.update_item(TableName=me.accounts, Key=KEY),
        "putting an entry": lambda me: me.dynamodb.put_item(TableName=me.journal, Item=ENTRY_KEY),
        "deleting an entry": lambda me: me.dynamodb.delete_item(TableName=me.journal, Key=ENTRY_KEY),
        "putting a count of reversals": lambda me: me.dynamodb.put_item(TableName=me.reversals, Item=ENTRY_KEY),
        "putting accounts in a batch": lambda me: me.dynamodb.batch_write_item(
            RequestItems={me.accounts: [{"PutRequest": {"Item": KEY}}]}
        ),
        "putting an entry in a transaction": lambda me: me.dynamodb.transact_write_items(
            TransactItems=[{"Put": {"TableName": me.journal, "Item": ENTRY_KEY}}]
        ),
        "changing an account by a statement of PartiQL": lambda me: me.dynamodb.execute_statement(
            Statement=f"UPDATE \"{me.accounts}\" SET balance=1 WHERE account_id='somebody'"
        ),
        "putting a profile": lambda me: me.dynamodb.put_item(TableName=me.profiles, Item=KEY),
        "taking a lock": lambda me: me.dynamodb.update_item(TableName=me.locks, Key=me.lock_key),
        "putting a report": lambda me: me.dynamodb.put_item(TableName=me.locks, Item=me.lock_key),
        "beginning an attempt": lambda me: me.dynamodb.put_item(TableName=me.attempts, Item=ATTEMPT_KEY),
        "reading attempts": lambda me: me.dynamodb.get_item(TableName=me.attempts, Key=ATTEMPT_KEY),
        "scanning the accounts": lambda me: me.dynamodb.scan(TableName=me.accounts),
        "scanning the journal": lambda me: me.dynamodb.scan(TableName=me.journal),
        "reading accounts in a batch": lambda me: me.dynamodb.batch_get_item(
            RequestItems={me.accounts: {"Keys": [KEY]}, me.journal: {"Keys": [ENTRY_KEY]}}
        ),
        "reading the counts of an account's reversals": lambda me: query(me, me.reversals),
        "sending a transaction": lambda me: me.sqs.send_message(QueueUrl=me.queue, MessageBody="{}"),
        "sending a dead letter": lambda me: me.sqs.send_message(QueueUrl=me.dead, MessageBody="{}"),
        "reading a queue": lambda me: me.sqs.receive_message(QueueUrl=me.queue),
        "invoking itself": lambda me: me.lambda_.invoke(FunctionName=me.function_name),
    },
    "publish_outcomes": {
        "recording a refusal": put_refusal,
        "reading an account": lambda me: me.dynamodb.get_item(TableName=me.accounts, Key=KEY),
        "reading a journal": lambda me: query(me, me.journal),
        "putting an account": lambda me: me.dynamodb.put_item(TableName=me.accounts, Item=KEY),
        "changing an account": lambda me: me.dynamodb.update_item(TableName=me.accounts, Key=KEY),
        "putting an entry": lambda me: me.dynamodb.put_item(TableName=me.journal, Item=ENTRY_KEY),
        "deleting an entry": lambda me: me.dynamodb.delete_item(TableName=me.journal, Key=ENTRY_KEY),
        "scanning the journal": lambda me: me.dynamodb.scan(TableName=me.journal),
        "taking a lock": lambda me: me.dynamodb.update_item(TableName=me.locks, Key=me.lock_key),
        "beginning an attempt": lambda me: me.dynamodb.put_item(TableName=me.attempts, Item=ATTEMPT_KEY),
        "sending a transaction": lambda me: me.sqs.send_message(QueueUrl=me.queue, MessageBody="{}"),
        "sending a dead letter of another's": lambda me: me.sqs.send_message(QueueUrl=me.dead, MessageBody="{}"),
        "invoking itself": lambda me: me.lambda_.invoke(FunctionName=me.function_name),
    },
    "republish_outcomes": {
        "recording a refusal": put_refusal,
        "putting an account": lambda me: me.dynamodb.put_item(TableName=me.accounts, Item=KEY),
        "changing an account": lambda me: me.dynamodb.update_item(TableName=me.accounts, Key=KEY),
        "putting an entry": lambda me: me.dynamodb.put_item(TableName=me.journal, Item=ENTRY_KEY),
        "deleting an entry": lambda me: me.dynamodb.delete_item(TableName=me.journal, Key=ENTRY_KEY),
        "scanning the journal": lambda me: me.dynamodb.scan(TableName=me.journal),
        "taking a lock": lambda me: me.dynamodb.update_item(TableName=me.locks, Key=me.lock_key),
        "beginning an attempt": lambda me: me.dynamodb.put_item(TableName=me.attempts, Item=ATTEMPT_KEY),
        "sending a transaction": lambda me: me.sqs.send_message(QueueUrl=me.queue, MessageBody="{}"),
        "sending a dead letter of another's": lambda me: me.sqs.send_message(QueueUrl=me.dead, MessageBody="{}"),
        "invoking itself": lambda me: me.lambda_.invoke(FunctionName=me.function_name),
    },
    "upsert_profiles": {
        "recording a refusal": put_refusal,
        "publishing an event": lambda me: put_event(me, me.bus),
        "replacing a profile": lambda me: me.dynamodb.put_item(TableName=me.profiles, Item=KEY),
        "scanning the profiles": lambda me: me.dynamodb.scan(TableName=me.profiles),
        "taking a lock": lambda me: me.dynamodb.update_item(TableName=me.locks, Key=me.lock_key),
        "changing an account": lambda me: me.dynamodb.update_item(TableName=me.accounts, Key=KEY),
    },
}
ALLOWED: dict[str, dict[str, Attempt]] = {
    "either queue's": {
        "beginning an attempt": lambda me: me.dynamodb.put_item(TableName=me.attempts, Item=ATTEMPT_KEY),
        "reading attempts": lambda me: me.dynamodb.batch_get_item(RequestItems={me.attempts: {"Keys": [ATTEMPT_KEY]}}),
        "sending a dead letter": lambda me: me.sqs.send_message_batch(
            QueueUrl=me.dead, Entries=[{"Id": "1", "MessageBody": "from the test of permissions"}]
        ),
        "reading its queue": lambda me: me.sqs.receive_message(QueueUrl=me.queue),
    },
    "either job's": {
        "scanning the accounts": lambda me: me.dynamodb.scan(TableName=me.accounts),
        "taking a lock": lambda me: me.dynamodb.update_item(TableName=me.locks, Key=me.lock_key),
        "putting a part of a report": lambda me: me.dynamodb.put_item(TableName=me.locks, Item=me.lock_key),
        "reading parts": lambda me: me.dynamodb.batch_get_item(RequestItems={me.locks: {"Keys": [me.lock_key]}}),
        "calling itself": lambda me: me.lambda_.invoke(
            FunctionName=me.function_name, InvocationType="DryRun", Payload=b"{}"
        ),
    },
    "reconcile_accounts": {
        "reading an account": lambda me: me.dynamodb.get_item(TableName=me.accounts, Key=KEY),
        "reading a journal": lambda me: query(me, me.journal),
        "reading a journal by versions": lambda me: query(me, me.journal, IndexName=JOURNAL_INDEX),
        "reading the counts of an account's reversals": lambda me: query(me, me.reversals),
        "reading checkpoints": lambda me: me.dynamodb.batch_get_item(RequestItems={me.checkpoints: {"Keys": [KEY]}}),
        "deleting checkpoints": lambda me: me.dynamodb.batch_write_item(
            RequestItems={me.checkpoints: [{"DeleteRequest": {"Key": KEY}}]}
        ),
        "reading the other sides": lambda me: me.dynamodb.batch_get_item(
            RequestItems={me.accounts: {"Keys": [KEY]}, me.journal: {"Keys": [ENTRY_KEY]}}
        ),
    },
    "charge_overdraft_interest": {
        "sending transactions": lambda me: me.sqs.send_message_batch(
            QueueUrl=me.queue, Entries=[{"Id": "1", "MessageBody": "from the test of permissions"}]
        ),
    },
    "expire_holds": {
        "sending transactions": lambda me: me.sqs.send_message_batch(
            QueueUrl=me.queue, Entries=[{"Id": "1", "MessageBody": "from the test of permissions"}]
        ),
    },
    "process_transactions": {
        "recording a refusal": put_refusal,
        "reading accounts, entries and counts of reversals": lambda me: me.dynamodb.batch_get_item(
            RequestItems={
                me.accounts: {"Keys": [KEY]},
                me.journal: {"Keys": [ENTRY_KEY]},
                me.reversals: {"Keys": [ENTRY_KEY]},
            }
        ),
        "counting the first reversal, and a later one": lambda me: [
            in_a_transaction(me, {"Put": {"TableName": me.reversals, "Item": ENTRY_KEY}}),
            in_a_transaction(me, later_count(me)),
        ],
        "checking a count of reversals": lambda me: in_a_transaction(
            me,
            {
                "ConditionCheck": {
                    "TableName": me.reversals,
                    "Key": ENTRY_KEY,
                    "ConditionExpression": "attribute_not_exists(version)",
                }
            },
        ),
        "reading an account": lambda me: me.dynamodb.get_item(TableName=me.accounts, Key=KEY),
        "taking a ticket": lambda me: me.dynamodb.update_item(TableName=me.locks, Key=TICKET_KEY),
        "publishing an event": lambda me: put_event(me, me.bus),
    },
    # Nothing here reads the stream: ministack asks for its actions on all resources. See test_template.py.
    "publish_outcomes": {
        "publishing an event": lambda me: put_event(me, me.bus),
        "sending a dead letter": lambda me: me.sqs.send_message_batch(
            QueueUrl=me.stack["OutcomesDeadLetterQueueUrl"],
            Entries=[{"Id": "1", "MessageBody": "from the test of permissions"}],
        ),
    },
    "republish_outcomes": {
        "publishing an event": lambda me: put_event(me, me.bus),
        "sending a dead letter": lambda me: me.sqs.send_message_batch(
            QueueUrl=me.stack["OutcomesDeadLetterQueueUrl"],
            Entries=[{"Id": "1", "MessageBody": "from the test of permissions"}],
        ),
        "reading an account": lambda me: me.dynamodb.get_item(TableName=me.accounts, Key=KEY),
        "scanning the accounts": lambda me: me.dynamodb.scan(TableName=me.accounts),
        "reading a journal": lambda me: query(me, me.journal),
        "reading a journal by versions": lambda me: query(me, me.journal, IndexName=JOURNAL_INDEX),
    },
    "read_accounts": {
        "reading a refusal": lambda me: me.dynamodb.get_item(TableName=me.refusals, Key=ENTRY_KEY),
        "reading an account": lambda me: me.dynamodb.get_item(TableName=me.accounts, Key=KEY),
        "reading an entry and a count of reversals": lambda me: me.dynamodb.batch_get_item(
            RequestItems={me.journal: {"Keys": [ENTRY_KEY]}, me.reversals: {"Keys": [ENTRY_KEY]}}
        ),
        "reading a journal": lambda me: query(me, me.journal),
        "reading a journal by versions": lambda me: query(me, me.journal, IndexName=JOURNAL_INDEX),
    },
    "upsert_profiles": {
        "changing a profile": lambda me: me.dynamodb.update_item(TableName=me.profiles, Key=KEY),
    },
}


def kind_of(name: str) -> str:
    """The attempts that the function has in common with others: those of a queue's function, of a job, or none."""
    if event_sources(name, "SQS"):
        return "either queue's"
    return "either job's" if event_sources(name, "ScheduleV2") else "none"


KINDS = {folder: kind_of(name) for folder, name in FOLDERS.items()}


def test_every_function_of_the_template_is_tried() -> None:
    for folder in FOLDERS:
        for name, attempts in (("REFUSED", REFUSED), ("ALLOWED", ALLOWED)):
            assert folder in attempts, f"functions/{folder} is missing in {name}: add its attempts"


def test_the_stack_has_the_resources_that_tests_read_from_the_template(bank: Bank) -> None:
    described = bank.stack.endpoint.client("cloudformation").describe_stack_resources(StackName=stack.NAME)
    found = {resource["LogicalResourceId"]: resource["ResourceType"] for resource in described["StackResources"]}
    expected = {
        name: resource["Type"].replace("AWS::Serverless::", "AWS::Lambda::")
        for name, resource in deployed(AwsEndpointUrl=bank.stack.endpoint.url).items()
        if resource["Type"] != "AWS::Serverless::LayerVersion"
    }
    assert found.items() >= expected.items()


def another_function(me: AsTheFunction) -> str:
    names = [me.stack["ProcessTransactionsFunctionName"], me.stack["ReconcileAccountsFunctionName"]]
    return next(name for name in names if name != me.function_name)


def in_a_transaction(me: AsTheFunction, write: dict[str, Any]) -> object:
    return me.dynamodb.transact_write_items(TransactItems=[write])


def later_count(me: AsTheFunction) -> dict[str, Any]:
    update = {"UpdateExpression": "SET note = :note", "ExpressionAttributeValues": {":note": {"S": "of a test"}}}
    return {"Update": {"TableName": me.reversals, "Key": ENTRY_KEY} | update}


def query(me: AsTheFunction, table: str, **parameters: str) -> object:
    return me.dynamodb.query(
        **parameters,
        TableName=table,
        KeyConditionExpression="account_id = :id",
        ExpressionAttributeValues={":id": KEY["account_id"]},
    )


def put_event(me: AsTheFunction, bus: str) -> object:
    entry = {"EventBusName": bus, "Source": "test", "DetailType": "OfATest", "Detail": "{}"}
    return me.events.put_events(Entries=[entry])


def of_each_function(attempts: dict[str, dict[str, Attempt]]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(
        ("function", "attempt"),
        [
            pytest.param(function, attempt, id=f"{function}: {name}")
            for function, kind in KINDS.items()
            for of in ("each", kind, function)
            for name, attempt in attempts.get(of, {}).items()
        ],
    )


@pytest.fixture(scope="module")
def functions(bank: Bank) -> Iterator[dict[str, AsTheFunction]]:
    lines = {"TransactionsQueue.Arn": bank.transactions, "ProfilesQueue.Arn": bank.profiles}
    own = {
        folder: lines[source["Queue"]["GetAtt"]]
        for folder, name in FOLDERS.items()
        for source in event_sources(name, "SQS")
    }
    yield {folder: AsTheFunction(bank, folder, own.get(folder, bank.transactions)) for folder in FOLDERS}
    dynamodb = bank.stack.endpoint.client("dynamodb")
    for table in ("Reversals", "Refusals"):
        dynamodb.delete_item(TableName=bank.stack[f"{table}TableName"], Key=ENTRY_KEY)


@of_each_function(REFUSED)
def test_what_it_has_no_business_with_is_refused(
    functions: dict[str, AsTheFunction], function: str, attempt: Attempt
) -> None:
    with pytest.raises(ClientError, match=r"not authorized|AccessDenied"):
        attempt(functions[function])


@of_each_function(ALLOWED)
def test_what_it_needs_is_allowed(functions: dict[str, AsTheFunction], function: str, attempt: Attempt) -> None:
    attempt(functions[function])
    queue = functions[function].function_queue
    queue.wait_until_drained()
    queue.take_dead_letters()
