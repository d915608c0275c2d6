"""The IAM actions that each call of the library needs, no more and no fewer, as docs/tables-and-permissions.md says.

On a server, ministack, for the engine in the process knows no rights.
"""

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
    VersionedItem,
    VersionedTable,
    dynamodb_client,
    equals,
    exists,
    key,
    read,
    write,
    write_together,
)
from conditional_writes.exactly_once import Records, exactly_once
from conditional_writes.locks import Locks
from conditional_writes.upserts import MapEntry, erase, upsert
from tests.support.new_tables import definition, index
from tools.local_aws.server import PROJECT, Endpoint

PAGE = PROJECT / "layers" / "conditional_writes" / "docs" / "tables-and-permissions.md"
ENTRY = MapEntry(("lines", "a"), 1)
LONG_AGO = datetime(2026, 1, 1, tzinfo=UTC)
_numbers = itertools.count(1)


class Caller:
    """A user who may do no more than some actions, with a table that has one order, and those of locks and records."""

    def __init__(self, endpoint: Endpoint, name: str, actions: set[str]) -> None:
        iam, user = endpoint.client("iam"), f"caller-{next(_numbers)}"
        iam.create_user(UserName=user)
        named = [f"dynamodb:{action}" for action in [*sorted(actions), "ListTables"]]  # a policy can't be empty
        allowed = {"Effect": "Allow", "Action": named, "Resource": "*"}
        policy = {"Version": "2012-10-17", "Statement": [allowed]}
        iam.put_user_policy(UserName=user, PolicyName="actions", PolicyDocument=json.dumps(policy))
        access = iam.create_access_key(UserName=user)["AccessKey"]
        keys = {"AWS_ACCESS_KEY_ID": access["AccessKeyId"], "AWS_SECRET_ACCESS_KEY": access["SecretAccessKey"]}
        with mock.patch.dict(os.environ, endpoint.environment | keys):
            self.client = dynamodb_client()
        self.orders = VersionedTable(self.client, name, "id")
        self.locks, self.records = Locks(self.client, f"{name}-locks"), Records(self.client, f"{name}-records")
        self.there, self.missing = key(name, id="there"), key(name, id="missing")
        self.order, self.new = VersionedItem({"id": "there", "status": "NEW", "version": 1}), {"id": "missing"}

    def write(self, *writes: Any) -> None:
        write(self.client, lambda _: Plan(None, list(writes)), {}, Deadline.after(5))

    def write_together(self, *writes: Any) -> None:
        write_together(self.client, list(writes))

    def call_once(self, *, with_items: bool) -> None:
        items = (lambda _: [self.there]) if with_items else None
        once = exactly_once(self.records, key=lambda request: request, items=items, prefix="once")
        once(lambda _request, _observed: Plan("done", [Update(self.there, {"x": 1})]))("request-1")

        def refuse(_request: str, _observed: Any) -> Plan[str]:
            raise LookupError

        with pytest.raises(LookupError):
            once(refuse)("request-2")


CALLS: dict[str, tuple[str, Callable[[Caller], object]]] = {
    "load": ("GetItem", lambda me: me.orders.load("there")),
    "get": ("GetItem", lambda me: me.orders.get("there")),
    "read": ("BatchGetItem", lambda me: read(me.client, [me.there], Deadline.after(5))),
    "load_many": ("BatchGetItem", lambda me: me.orders.load_many([me.there, me.missing])),
    "put_many": ("PutItem", lambda me: me.orders.put_many([{"id": "there"}, me.new, {"id": "missing too"}])),
    "add": ("UpdateItem", lambda me: me.orders.add("there", numbers={"n": 1})),
    "query": ("Query", lambda me: list(me.orders.query(equals("id", "there")))),
    "query of an index": ("Query", lambda me: list(me.orders.query(equals("status", "NEW"), index="by_status"))),
    "scan": ("Scan", lambda me: list(me.orders.scan())),
    "scan of an index": ("Scan", lambda me: list(me.orders.scan(index="by_status"))),
    "save a new one": ("PutItem", lambda me: me.orders.save(me.new)),
    "save unchecked": ("UpdateItem", lambda me: me.orders.save(me.new, checked=False)),
    "save": ("UpdateItem", lambda me: me.orders.save(me.order | {"note": "x"})),
    "update": ("UpdateItem", lambda me: me.orders.update("there", version=1, values={"note": "x"})),
    "upsert": ("UpdateItem", lambda me: me.orders.upsert("missing", entries=[ENTRY])),
    "upsert alone": ("UpdateItem", lambda me: upsert(me.client, me.missing, [ENTRY])),
    "erase": ("UpdateItem", lambda me: erase(me.client, me.missing, LONG_AGO)),
    "delete": ("DeleteItem", lambda me: me.orders.delete(me.order)),
    "modify": ("GetItem UpdateItem", lambda me: me.orders.modify("there", change=lambda item: {**item, "a": 1})),
    "modify a new one": ("GetItem PutItem", lambda me: me.orders.modify("missing", change=lambda item: {"a": 1})),
    "write a Put": ("PutItem", lambda me: me.write(Put(me.missing, {}))),
    "write an Update": ("UpdateItem", lambda me: me.write(Update(me.there, {"x": 1}))),
    "write a Delete": ("DeleteItem", lambda me: me.write(Delete(me.there))),
    "write a Check": ("ConditionCheckItem", lambda me: me.write(Check(me.there, exists("id")))),
    "write_together": (
        "PutItem UpdateItem",
        lambda me: me.write_together(me.orders.saving(me.order | {"note": "x"}), me.orders.saving(me.new)),
    ),
    "checking": (
        "ConditionCheckItem PutItem",
        lambda me: me.write_together(me.orders.checking(me.order), Put(me.missing, {})),
    ),
    "write_together with a Delete": (
        "ConditionCheckItem DeleteItem",
        lambda me: me.write_together(Delete(me.missing), Check(me.there, exists("id"))),
    ),
    "exactly_once": ("PutItem UpdateItem ConditionCheckItem", lambda me: me.call_once(with_items=False)),
    "exactly_once with items": (
        "BatchGetItem PutItem UpdateItem ConditionCheckItem",
        lambda me: me.call_once(with_items=True),
    ),
    "acquire": ("UpdateItem", lambda me: me.locks.acquire("job", lease_seconds=5, why="a test").release()),
}
BY_THE_WRITES = {"checking": {"PutItem"}, "exactly_once": {"UpdateItem"}}
"""What a call needs for the writes beside it: the page says so in words."""


@pytest.fixture
def table(ministack: Endpoint) -> str:
    client, name = ministack.client("dynamodb"), f"acted-on-{next(_numbers)}"
    by_status = index("by_status", "status")
    client.create_table(**definition(name, {"id": "S"}, {"status": "S"}, GlobalSecondaryIndexes=[by_status]))
    client.create_table(**definition(f"{name}-locks", {"lock_key": "S"}))
    client.create_table(**definition(f"{name}-records", {"id": "S"}))
    VersionedTable(client, name, "id").save({"id": "there", "status": "NEW"})
    return name


@pytest.mark.parametrize(("needed", "call"), CALLS.values(), ids=CALLS)
def test_a_call_needs_its_actions_and_no_others(
    ministack: Endpoint, table: str, needed: str, call: Callable[[Caller], object]
) -> None:
    actions = {*needed.split()}
    for missing in needed.split():
        with pytest.raises(ClientError) as denied:
            call(Caller(ministack, table, actions - {missing}))
        assert denied.value.response["Error"]["Code"] == "AccessDeniedException", missing
    call(Caller(ministack, table, actions))


def test_the_page_has_each_call_and_its_actions() -> None:
    rows = re.findall(r"^\| (.+) \| (.+) \|$", PAGE.read_text().split("## IAM")[1].split("\n## ")[0], re.MULTILINE)
    for name, (needed, _) in CALLS.items():
        word = name.split()[0]
        actions = {action for called, said in rows if f"`{word}`" in called for action in re.findall(r"`(\w+)`", said)}
        assert {*needed.split()} - BY_THE_WRITES.get(word, set()) <= actions, name
