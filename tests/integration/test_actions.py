"""The IAM actions that each call needs: with them it works, without any of them it is refused."""

import itertools
import json
from collections.abc import Callable
from typing import Any, NamedTuple

import boto3
import pytest
from botocore.exceptions import ClientError

from conditional_writes import (
    Deadline,
    Delete,
    Put,
    VersionedItem,
    VersionedTable,
    equals,
    exists,
    read,
    write_together,
)
from conditional_writes.requests import Check
from conditional_writes.upserts import MapEntry
from tools.local_aws.server import REGION, Endpoint

_names = map("caller-{}".format, itertools.count(1))


class Caller(NamedTuple):
    """A client that may do no more than some actions, and a table of orders, of which the first one exists."""

    client: Any
    orders: VersionedTable

    @property
    def order(self) -> VersionedItem:
        return VersionedItem({"order_id": "o-1", "status": "NEW", "version": 1})

    @property
    def new(self) -> dict[str, Any]:
        return {"order_id": "o-2"}


CALLS: dict[str, tuple[set[str], Callable[[Caller], object]]] = {
    "load": ({"GetItem"}, lambda me: me.orders.load("o-1")),
    "get": ({"GetItem"}, lambda me: me.orders.get("o-1")),
    "read": ({"BatchGetItem"}, lambda me: read(me.client, [me.orders.key("o-1")], Deadline.after(5))),
    "query": ({"Query"}, lambda me: list(me.orders.query(equals("order_id", "o-1")))),
    "query of an index": ({"Query"}, lambda me: list(me.orders.query(equals("status", "NEW"), index="by_status"))),
    "scan": ({"Scan"}, lambda me: list(me.orders.scan())),
    "scan of an index": ({"Scan"}, lambda me: list(me.orders.scan(index="by_status"))),
    "create": ({"PutItem"}, lambda me: me.orders.save(me.new)),
    "create unchecked": ({"UpdateItem"}, lambda me: me.orders.save(me.new, checked=False)),
    "save": ({"UpdateItem"}, lambda me: me.orders.save(me.order | {"note": "x"})),
    "update": ({"UpdateItem"}, lambda me: me.orders.update("o-1", version=1, values={"note": "x"})),
    "upsert": ({"UpdateItem"}, lambda me: me.orders.upsert("o-2", entries=[MapEntry(("lines", "a"), 1)])),
    "delete": ({"DeleteItem"}, lambda me: me.orders.delete(me.order)),
    "modify": ({"GetItem", "UpdateItem"}, lambda me: me.orders.modify("o-1", change=lambda item: {**item, "a": 1})),
    "modify a new one": ({"GetItem", "PutItem"}, lambda me: me.orders.modify("o-2", change=lambda item: {"a": 1})),
    "write together": (
        {"PutItem", "UpdateItem"},
        lambda me: write_together(me.client, [me.orders.saving(me.order | {"note": "x"}), me.orders.saving(me.new)]),
    ),
    "check together": (
        {"ConditionCheckItem", "PutItem"},
        lambda me: write_together(me.client, [me.orders.checking(me.order), Put(me.orders.key("o-2"), {})]),
    ),
    "delete together": (
        {"ConditionCheckItem", "DeleteItem"},
        lambda me: write_together(
            me.client,
            [Delete(me.orders.key("o-2")), Check(me.orders.key("o-1"), exists("order_id"))],
        ),
    ),
}


@pytest.fixture
def caller(ministack: Endpoint) -> Callable[[set[str]], Caller]:
    iam, dynamodb = ministack.client("iam"), ministack.client("dynamodb")

    def may(actions: set[str]) -> Caller:
        name = next(_names)
        dynamodb.create_table(
            TableName=name,
            BillingMode="PAY_PER_REQUEST",
            AttributeDefinitions=[
                {"AttributeName": "order_id", "AttributeType": "S"},
                {"AttributeName": "status", "AttributeType": "S"},
            ],
            KeySchema=[{"AttributeName": "order_id", "KeyType": "HASH"}],
            GlobalSecondaryIndexes=[
                {
                    "IndexName": "by_status",
                    "KeySchema": [{"AttributeName": "status", "KeyType": "HASH"}],
                    "Projection": {"ProjectionType": "ALL"},
                }
            ],
        )
        VersionedTable(dynamodb, name, "order_id").save({"order_id": "o-1", "status": "NEW"})
        arn = f"arn:aws:dynamodb:{REGION}:*:table/{name}"
        statement = {
            "Effect": "Allow",
            "Action": sorted(f"dynamodb:{action}" for action in actions) or "dynamodb:DescribeTable",
            "Resource": [arn, f"{arn}/index/*"],
        }
        policy = {"Version": "2012-10-17", "Statement": [statement]}
        iam.create_user(UserName=name)
        iam.put_user_policy(UserName=name, PolicyName="actions", PolicyDocument=json.dumps(policy))
        key = iam.create_access_key(UserName=name)["AccessKey"]
        session = boto3.Session(key["AccessKeyId"], key["SecretAccessKey"], region_name=REGION)
        client: Any = session.client("dynamodb", endpoint_url=ministack.url)
        return Caller(client, VersionedTable(client, name, "order_id"))

    return may


@pytest.mark.parametrize("call", CALLS)
def test_a_call_needs_these_actions_and_no_others(caller: Callable[[set[str]], Caller], call: str) -> None:
    actions, make = CALLS[call]
    make(caller(actions))
    for missing in actions:
        with pytest.raises(ClientError, match="AccessDenied"):
            make(caller(actions - {missing}))
