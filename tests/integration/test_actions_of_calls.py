"""IAM's actions for each call, as docs/tables-and-permissions.md of the library has them: no more, no fewer."""

import itertools
import json
import os
import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from unittest import mock

import pytest
from botocore.exceptions import ClientError

from conditional_writes import (
    Check,
    Deadline,
    Delete,
    Plan,
    Put,
    Update,
    VersionedTable,
    dynamodb_client,
    exists,
    key,
    write,
)
from conditional_writes.exactly_once import Records, exactly_once
from conditional_writes.locks import Locks
from conditional_writes.upserts import MapEntry, erase, upsert
from tests.integration import test_actions
from tools.local_aws.server import PROJECT, Endpoint

PAGE = PROJECT / "layers" / "conditional_writes" / "docs" / "tables-and-permissions.md"
_numbers = itertools.count(1)


class Caller:
    """A user with the actions alone, on a table of the name `items` and on those of locks and records."""

    def __init__(self, endpoint: Endpoint, items: str, actions: list[str]) -> None:
        iam, user = endpoint.client("iam"), f"caller-of-{items}-{next(_numbers)}"
        iam.create_user(UserName=user)
        named = [f"dynamodb:{action}" for action in [*actions, "ListTables"]]  # a policy can't be empty
        allowed = {"Effect": "Allow", "Action": named, "Resource": "*"}
        policy = {"Version": "2012-10-17", "Statement": [allowed]}
        iam.put_user_policy(UserName=user, PolicyName="actions", PolicyDocument=json.dumps(policy))
        access = iam.create_access_key(UserName=user)["AccessKey"]
        keys = {"AWS_ACCESS_KEY_ID": access["AccessKeyId"], "AWS_SECRET_ACCESS_KEY": access["SecretAccessKey"]}
        with mock.patch.dict(os.environ, endpoint.environment | keys):
            self.client = dynamodb_client()
        self.name, self.table = items, VersionedTable(self.client, items, "id")
        self.locks, self.records = Locks(self.client, f"{items}-locks"), Records(self.client, f"{items}-records")
        self.there, self.missing = key(items, id="there"), key(items, id="missing")
        self.found = VersionedTable(endpoint.client("dynamodb"), items, "id").load("there") or {}

    def plan(self, *writes: Any) -> None:
        write(self.client, lambda _: Plan(None, list(writes)), {}, Deadline.after(5))

    def call_once(self, *, with_items: bool) -> None:
        items = (lambda _: [self.there]) if with_items else None
        once = exactly_once(self.records, key=lambda request: request, items=items, prefix="once")
        once(lambda _request, _observed: Plan("done", [Update(self.there, {"x": 1})]))("request-1")

        def refuse(_request: str, _observed: Any) -> Plan[str]:
            raise LookupError

        with pytest.raises(LookupError):
            once(refuse)("request-2")


CALLS: dict[str, tuple[str, Callable[[Caller], object]]] = {
    "upsert": ("UpdateItem", lambda caller: upsert(caller.client, caller.missing, [MapEntry(("a", "b"), 1)])),
    "erase": ("UpdateItem", lambda caller: erase(caller.client, caller.missing, datetime(2026, 1, 1, tzinfo=UTC))),
    "write a Put": ("PutItem", lambda caller: caller.plan(Put(caller.missing, {}))),
    "write an Update": ("UpdateItem", lambda caller: caller.plan(Update(caller.there, {"x": 1}))),
    "write a Delete": ("DeleteItem", lambda caller: caller.plan(Delete(caller.there))),
    "write a Check": ("ConditionCheckItem", lambda caller: caller.plan(Check(caller.there, exists("id")))),
    "a call of an exactly_once function": (
        "PutItem UpdateItem ConditionCheckItem",
        lambda caller: caller.call_once(with_items=False),
    ),
    "a call of an exactly_once function with items": (
        "BatchGetItem PutItem UpdateItem ConditionCheckItem",
        lambda caller: caller.call_once(with_items=True),
    ),
    "acquire": ("UpdateItem", lambda caller: caller.locks.acquire("job", lease_seconds=5, why="a test").release()),
}


OF_TABLES = {
    name.replace("create", "save"): sorted(actions)
    for name, (actions, _) in test_actions.CALLS.items()
    if not name.endswith("together")
}
WRITES = {"UpdateItem"}
"""Of a function: the page says that it needs what its writes need."""


@pytest.fixture
def items(ministack: Endpoint) -> str:
    client, name = ministack.client("dynamodb"), f"acted-on-{next(_numbers)}"
    for table, key_name in ((name, "id"), (f"{name}-locks", "lock_key"), (f"{name}-records", "id")):
        client.create_table(
            TableName=table,
            BillingMode="PAY_PER_REQUEST",
            AttributeDefinitions=[{"AttributeName": key_name, "AttributeType": "S"}],
            KeySchema=[{"AttributeName": key_name, "KeyType": "HASH"}],
        )
    VersionedTable(client, name, "id").save({"id": "there"})
    return name


@pytest.mark.parametrize("name", CALLS)
def test_a_call_needs_its_actions_and_no_others(name: str, ministack: Endpoint, items: str) -> None:
    needed, call = CALLS[name]
    actions = needed.split()
    for missing in actions:
        caller = Caller(ministack, items, [action for action in actions if action != missing])
        with pytest.raises(ClientError) as denied:
            call(caller)
        assert denied.value.response["Error"]["Code"] == "AccessDeniedException", missing
    call(Caller(ministack, items, actions))


def test_the_page_has_each_call_and_its_actions() -> None:
    rows = re.findall(r"^\| (.+) \| (.+) \|$", PAGE.read_text().split("## IAM")[1].split("\n## ")[0], re.MULTILINE)
    of_calls = {**{name: needed.split() for name, (needed, _) in CALLS.items()}, **OF_TABLES}
    for name, needed in of_calls.items():
        [word] = re.findall(r"^(?:a call of an )?(\w+)", name)
        actions = {action for called, said in rows if f"`{word}`" in called for action in re.findall(r"`(\w+)`", said)}
        assert {*needed} - WRITES <= actions, name
