"""What the product assumes of IAM's condition keys. Each test is one assumption, and names the page that states it."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from tests.assumptions.conftest import rests_on
from tests.assumptions.places import Place

TABLE = "arn:aws:dynamodb:us-east-1:123456789012:table/Journal"
FUNCTION = "arn:aws:lambda:us-east-1:123456789012:function:post:live"
BUS = "arn:aws:events:us-east-1:123456789012:event-bus/outcomes"
KINDS = {"dynamodb:LeadingKeys": "stringList", "lambda:InvokedViaFunctionUrl": "boolean"}
"""Of the values of a request's keys that are no text."""


def decision(place: Place, action: str, resource: str, condition: Mapping[str, Any], given: Mapping[str, str]) -> str:
    """What IAM decides of a policy that allows the action on this condition, with these keys of a request."""
    statement = {"Effect": "Allow", "Action": action, "Resource": resource, "Condition": condition}
    answer = place.client("iam").simulate_custom_policy(
        PolicyInputList=[json.dumps({"Version": "2012-10-17", "Statement": [statement]})],
        ActionNames=[action],
        ResourceArns=[resource],
        ContextEntries=[
            {"ContextKeyName": name, "ContextKeyValues": [value], "ContextKeyType": KINDS.get(name, "string")}
            for name, value in given.items()
        ],
    )
    return str(answer["EvaluationResults"][0]["EvalDecision"])


@rests_on("https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/transaction-apis-iam.html")
@pytest.mark.parametrize(("operation", "decided"), [("TransactWriteItems", "allowed"), ("", "implicitDeny")])
def test_a_role_can_be_held_to_puts_within_transactions(place: Place, operation: str, decided: str) -> None:
    condition = {"ForAnyValue:StringEquals": {"dynamodb:EnclosingOperation": ["TransactWriteItems"]}}
    given = {"dynamodb:EnclosingOperation": operation} if operation else {}
    assert decision(place, "dynamodb:PutItem", TABLE, condition, given) == decided


@rests_on("https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/specifying-conditions.html")
@pytest.mark.parametrize(("key", "decided"), [("interest#2026-11-24", "allowed"), ("expiries#1", "implicitDeny")])
def test_a_role_can_be_held_to_partition_keys_with_a_prefix(place: Place, key: str, decided: str) -> None:
    condition = {"ForAllValues:StringLike": {"dynamodb:LeadingKeys": ["interest#*"]}}
    given = {"dynamodb:LeadingKeys": key}
    assert decision(place, "dynamodb:UpdateItem", TABLE, condition, given) == decided


@rests_on("https://docs.aws.amazon.com/service-authorization/latest/reference/list_amazoneventbridge.html")
@pytest.mark.parametrize(("detail_type", "decided"), [("TransactionRefused", "allowed"), ("Posted", "implicitDeny")])
def test_a_role_can_be_held_to_events_of_a_type(place: Place, detail_type: str, decided: str) -> None:
    condition = {"StringEquals": {"events:detail-type": "TransactionRefused"}}
    given = {"events:detail-type": detail_type}
    assert decision(place, "events:PutEvents", BUS, condition, given) == decided


@rests_on("https://docs.aws.amazon.com/lambda/latest/dg/urls-auth.html#urls-condition-keys")
@pytest.mark.parametrize(("by_url", "decided"), [("true", "allowed"), ("", "implicitDeny")])
def test_a_role_can_be_held_to_a_functions_url(place: Place, by_url: str, decided: str) -> None:
    condition = {"Bool": {"lambda:InvokedViaFunctionUrl": "true"}}
    given = {"lambda:InvokedViaFunctionUrl": by_url} if by_url else {}
    assert decision(place, "lambda:InvokeFunction", FUNCTION, condition, given) == decided
