"""Rules of template.yaml that matter enough to be kept by a test."""

from typing import Any

import pytest
import yaml

from tests.local_aws.server import PROJECT


class _Loader(yaml.SafeLoader):
    """Reads CloudFormation's short tags: `!Ref X` as {"Ref": "X"}."""


def _tag(loader: Any, tag: str, node: yaml.Node) -> dict[str, Any]:
    if isinstance(node, yaml.ScalarNode):
        return {tag: loader.construct_scalar(node)}
    if isinstance(node, yaml.SequenceNode):
        return {tag: loader.construct_sequence(node, deep=True)}
    return {tag: loader.construct_mapping(node, deep=True)}


_Loader.add_multi_constructor("!", _tag)
TEMPLATE: dict[str, Any] = yaml.load((PROJECT / "template.yaml").read_text(), _Loader)


def resources(kind: str) -> dict[str, Any]:
    return {
        name: resource["Properties"] for name, resource in TEMPLATE["Resources"].items() if resource["Type"] == kind
    }


FUNCTIONS = resources("AWS::Serverless::Function")
QUEUES = resources("AWS::SQS::Queue")
TABLES = resources("AWS::DynamoDB::Table")
STATEMENTS = [
    (name, statement)
    for name, role in resources("AWS::IAM::Role").items()
    for policy in role["Policies"]
    for statement in policy["PolicyDocument"]["Statement"]
]


def test_a_message_stays_invisible_for_six_timeouts_and_the_largest_window() -> None:
    timeout = TEMPLATE["Globals"]["Function"]["Timeout"]
    window = TEMPLATE["Parameters"]["BatchWindowSeconds"]["MaxValue"]
    assert QUEUES["TransactionsQueue"]["VisibilityTimeout"] >= 6 * timeout + window


def test_a_dead_letter_stays_two_weeks_and_fits_with_its_reason() -> None:
    dead, alive = QUEUES["TransactionsDeadLetterQueue"], QUEUES["TransactionsQueue"]
    assert dead["MessageRetentionPeriod"] == 14 * 24 * 3600
    assert dead["MaximumMessageSize"] > alive["MaximumMessageSize"]
    assert alive["RedrivePolicy"]["maxReceiveCount"] == {"Ref": "MaxReceiveCount"}


@pytest.mark.parametrize("name", QUEUES)
def test_queues_are_encrypted_and_take_tls_only(name: str) -> None:
    assert QUEUES[name]["SqsManagedSseEnabled"] is True
    policies = resources("AWS::SQS::QueuePolicy").values()
    denied = [policy for policy in policies if {"Ref": name} in policy["Queues"]]
    assert denied
    statement = denied[0]["PolicyDocument"]["Statement"][0]
    assert statement["Effect"] == "Deny"
    assert statement["Condition"] == {"Bool": {"aws:SecureTransport": False}}


@pytest.mark.parametrize("name", TABLES)
def test_tables_are_on_demand_encrypted_recoverable_and_kept_in_production(name: str) -> None:
    table, resource = TABLES[name], TEMPLATE["Resources"][name]
    assert table["BillingMode"] == "PAY_PER_REQUEST"
    assert table["SSESpecification"] == {"SSEEnabled": True}
    assert table["PointInTimeRecoverySpecification"] == {"PointInTimeRecoveryEnabled": True}
    assert resource["DeletionPolicy"] == resource["UpdateReplacePolicy"] == {"If": ["IsProd", "Retain", "Delete"]}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_has_a_role_a_log_group_and_partial_responses_of_its_own(name: str) -> None:
    function = FUNCTIONS[name]
    assert function["Role"] == {"GetAtt": f"{name.removesuffix('Function')}Role.Arn"}
    assert function["LoggingConfig"]["LogGroup"] == {"Ref": f"{name.removesuffix('Function')}LogGroup"}
    for event in function["Events"].values():
        assert event["Properties"]["FunctionResponseTypes"] == ["ReportBatchItemFailures"]


@pytest.mark.parametrize(("role", "statement"), STATEMENTS, ids=lambda value: value if isinstance(value, str) else "")
def test_a_role_names_its_resources_and_its_actions(role: str, statement: dict[str, Any]) -> None:
    actions = statement["Action"] if isinstance(statement["Action"], list) else [statement["Action"]]
    wildcards = {action for action in actions if "*" in action}
    assert wildcards <= {"sqs:SendMessage*", "sqs:ChangeMessageVisibility*"}
    assert statement["Resource"] != "*" or all(action.startswith("xray:Put") for action in actions)


def test_the_outputs_that_others_rely_on_are_there() -> None:
    assert TEMPLATE["Outputs"].keys() >= {
        "TransactionsQueueUrl",
        "TransactionsDeadLetterQueueUrl",
        "AccountsTableName",
        "JournalTableName",
        "ProcessTransactionsFunctionName",
    }
