"""The library's examples beside the programs that they replace, by the same scripts of interleaved calls.

Each script runs twice, on fresh tables: with the original, whose damage is asserted, and with the example.
"""

import ast
import contextlib
import importlib.util
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError, ReadTimeoutError

from conditional_writes import Conflict, OutcomeUnknown
from conditional_writes.exactly_once import PayloadChanged
from conditional_writes.locks import LockLost, LockTaken, WindowDone
from tests.support.faults import Fault, Faults, Killed
from tests.support.originals import job_lock, map_upserts, optimistic_locking, overdraft
from tests.support.originals.catalog import CatalogItem, Mapper
from tools.local_aws.server import PROJECT, REGION, Endpoint

EXAMPLES = PROJECT / "layers" / "conditional_writes" / "examples"
ORIGINALS = PROJECT / "tests" / "support" / "originals"
README = EXAMPLES / "README.md"
FILES = sorted(EXAMPLES.glob("*.py"))
TABLES = {
    "items": {"id": "S"},
    "ProductCatalog": {"id": "N"},
    "accounts": {"AccountId": "S"},
    "payments": {"id": "S"},
    "maps": {"pk": "S"},
    "job_locks": {"lock_key": "S"},
    "job_results": {"job": "S", "day": "S"},
    "locks_of_the_original": {"Key": "S"},
}


class Stage:
    """Empty tables, and what uses them. Each caller has a client of its own, so that no hook meets another's calls."""

    def __init__(self, dynamodb: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
        self.dynamodb, self._monkeypatch = dynamodb, monkeypatch
        self._resource = self._new_resource()

    def empty(self, name: str) -> Any:
        """The table, made anew, for a test's own reads and writes."""
        self._delete(name)
        key = TABLES[name]
        self._resource.create_table(
            TableName=name,
            BillingMode="PAY_PER_REQUEST",
            AttributeDefinitions=[{"AttributeName": each, "AttributeType": kind} for each, kind in key.items()],
            KeySchema=[
                {"AttributeName": each, "KeyType": role} for each, role in zip(key, ("HASH", "RANGE"), strict=False)
            ],
        )
        return self._resource.Table(name)

    def delete_tables(self) -> None:
        """DynamoDB Local makes no table `Accounts` beside one that is called `accounts`."""
        for name in TABLES:
            self._delete(name)

    def _delete(self, name: str) -> None:
        table = self._resource.Table(name)
        with contextlib.suppress(table.meta.client.exceptions.ResourceNotFoundException):
            table.delete()

    def of_original(self, name: str) -> Any:
        """The table, as an original gets it."""
        return self._new_resource().Table(name)

    def example(self, name: str) -> Any:
        """The example's module, imported anew, as a program that has this endpoint in its environment."""
        for variable, value in self.dynamodb.environment.items():
            self._monkeypatch.setenv(variable, value)
        spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
        assert spec
        assert spec.loader
        module = importlib.util.module_from_spec(spec)
        self._monkeypatch.setitem(sys.modules, spec.name, module)
        spec.loader.exec_module(module)
        return module

    def _new_resource(self) -> Any:
        return boto3.session.Session().resource(
            "dynamodb",
            endpoint_url=self.dynamodb.url,
            region_name=REGION,
            aws_access_key_id="test",
            aws_secret_access_key="test",
        )


@pytest.fixture
def dynamodb(ministack: Endpoint) -> Endpoint:
    """A server: examples run as programs of their own, and Java's mapper has parameters of DynamoDB's first years."""
    return ministack


@pytest.fixture
def stage(dynamodb: Endpoint, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    stage = Stage(dynamodb, monkeypatch)
    yield stage
    stage.delete_tables()


def client_of(table: Any) -> Any:
    return table.meta.client


def after_first(client: Any, operations: set[str], do: Callable[[], object]) -> None:
    """Calls `do` once, after the client's first answer to one of these operations."""
    doing = iter([do])

    def step_in(model: Any, **_: Any) -> None:
        if model.name in operations:
            for do_it in doing:
                do_it()

    client.meta.events.register("after-call.dynamodb", step_in)


READS = {"GetItem", "BatchGetItem"}


def without_marks(item: dict[str, Any] | None) -> dict[str, Any] | None:
    """The item without the library's own attributes."""
    return item and {name: value for name, value in item.items() if not name.startswith("cw:")}


def is_refused(call: Callable[[], object]) -> bool:
    """Whether the call ends with DynamoDB's refusal of its condition."""
    try:
        call()
    except ClientError as error:
        if error.response["Error"]["Code"] != "ConditionalCheckFailedException":
            raise
        return True
    return False


# --- optimistic_locking ----------------------------------------------------------------------------------


def rename_by_original(stage: Stage, meanwhile: Callable[[Any], object], before: dict[str, Any]) -> tuple[bool, Any]:
    """Whether the rename was refused, and the item after it. `meanwhile` gets the table, after the rename's read."""
    table, theirs = stage.empty("items"), stage.of_original("items")
    table.put_item(Item=before)
    after_first(client_of(theirs), READS, lambda: meanwhile(table))
    refused = is_refused(lambda: optimistic_locking.rename(theirs, "i", "ours"))
    return refused, table.get_item(Key={"id": "i"}).get("Item")


def save_by_example(stage: Stage, meanwhile: Callable[[Any], object], before: dict[str, Any]) -> tuple[bool, Any]:
    table, example = stage.empty("items"), stage.example("optimistic_locking")
    table.put_item(Item=before)
    after_first(example.client, READS, lambda: meanwhile(table))
    try:
        example.save_name("i", "ours")
        refused = False
    except Conflict:
        refused = True
    return refused, without_marks(table.get_item(Key={"id": "i"}).get("Item"))


def item_of(version: int, name: str = "before", **others: Any) -> dict[str, Any]:
    return {"id": "i", "name": name, "lock_version": version} | others


def test_the_original_brings_a_deleted_item_back(stage: Stage) -> None:
    def delete(table: Any) -> None:
        table.delete_item(Key={"id": "i"})

    assert rename_by_original(stage, delete, item_of(3)) == (False, item_of(4, "ours"))
    assert save_by_example(stage, delete, item_of(3)) == (True, None)


def test_the_original_takes_a_recreated_item_for_the_deleted_one(stage: Stage) -> None:
    recreated = item_of(1, "another's")

    def recreate_by_original(table: Any) -> None:
        table.delete_item(Key={"id": "i"})
        table.put_item(Item=recreated)

    assert rename_by_original(stage, recreate_by_original, item_of(1)) == (False, item_of(2, "ours"))

    table, example = stage.empty("items"), stage.example("optimistic_locking")
    saved = example.items.save({"id": "i", "name": "before"})

    def recreate() -> None:
        other = stage.example("optimistic_locking")
        other.items.delete(saved)
        other.items.save({"id": "i", "name": "another's"})

    after_first(example.client, READS, recreate)
    with pytest.raises(Conflict, match="deleted and made anew"):
        example.save_name("i", "ours")
    assert without_marks(table.get_item(Key={"id": "i"})["Item"]) == recreated


def test_the_original_overwrites_what_an_import_without_versions_has_written(stage: Stage) -> None:
    imported = {"id": "i", "name": "imported", "price": 7}

    def replace(table: Any) -> None:
        table.put_item(Item=imported)

    assert rename_by_original(stage, replace, item_of(3)) == (False, item_of(4, "ours"))
    assert save_by_example(stage, replace, item_of(3)) == (True, imported)


def test_the_original_drops_attributes_that_it_does_not_know(stage: Stage) -> None:
    def nothing(_: Any) -> None:
        pass

    assert rename_by_original(stage, nothing, item_of(1, price=7)) == (False, item_of(2, "ours"))
    assert save_by_example(stage, nothing, item_of(1, price=7)) == (False, item_of(2, "ours", price=7))


def test_the_original_leaves_a_conflict_to_its_caller_and_modify_renames_the_newer_item(stage: Stage) -> None:
    def rename_first(table: Any) -> None:
        table.put_item(Item=item_of(2, "theirs", price=7))

    assert rename_by_original(stage, rename_first, item_of(1)) == (True, item_of(2, "theirs", price=7))

    table, example = stage.empty("items"), stage.example("optimistic_locking")
    table.put_item(Item=item_of(1))
    after_first(example.client, READS, lambda: rename_first(table))
    assert without_marks(example.rename("i", "ours")) == item_of(3, "ours", price=7)
    table.delete_item(Key={"id": "i"})
    with pytest.raises(LookupError):
        example.rename("i", "ours")
    assert "Item" not in table.get_item(Key={"id": "i"})


def test_the_original_takes_its_own_write_for_anothers_if_the_answer_was_lost(stage: Stage) -> None:
    table, theirs = stage.empty("items"), stage.of_original("items")
    table.put_item(Item=item_of(1))
    with Faults(Fault.RESPONSE_LOST, at=2).on(client_of(theirs)) as faults:
        assert is_refused(lambda: optimistic_locking.rename(theirs, "i", "ours"))
    assert faults.calls == ["GetItem", "PutItem"]
    assert table.get_item(Key={"id": "i"})["Item"] == item_of(2, "ours")  # it was written

    table, example = stage.empty("items"), stage.example("optimistic_locking")
    table.put_item(Item=item_of(1))
    with Faults(Fault.RESPONSE_LOST, at=2).on(example.client) as faults:
        assert example.save_name("i", "ours")["lock_version"] == 2
    assert faults.calls == ["GetItem", "UpdateItem"]


# --- catalog ---------------------------------------------------------------------------------------------


def catalog_item(version: int, title: str = "before", **others: Any) -> dict[str, Any]:
    return {"id": 101, "title": title, "authors": {"A"}, "version": version} | others


class Catalogs:
    """The catalog by the mapper and by the example, on fresh tables, with the item as it is planted."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage

    def by_original(self, planted: dict[str, Any], meanwhile: Callable[[Any], object], *, clobber: bool) -> Any:
        """Whether a new title was refused, and the item then. `meanwhile` gets the table after the mapper's read."""
        table, theirs = self._plant(planted), self._stage.of_original("ProductCatalog")
        after_first(client_of(theirs), READS, lambda: meanwhile(table))
        mapper = Mapper(theirs)
        item = mapper.load(101)
        item.title = "ours"
        return is_refused(lambda: mapper.save(item, clobber=clobber)), self._item(table)

    def by_example(self, planted: dict[str, Any], meanwhile: Callable[[Any], object], *, checked: bool) -> Any:
        table, example = self._plant(planted), self._stage.example("catalog")
        after_first(example.client, READS, lambda: meanwhile(table))
        try:
            example.retitle(101, "ours", checked=checked)
            refused = False
        except Conflict:
            refused = True
        return refused, self._item(table)

    def _plant(self, item: dict[str, Any]) -> Any:
        table = self._stage.empty("ProductCatalog")
        table.put_item(Item=item)
        return table

    def _item(self, table: Any) -> Any:
        return without_marks(table.get_item(Key={"id": 101}).get("Item"))


@pytest.fixture
def catalogs(stage: Stage) -> Catalogs:
    return Catalogs(stage)


def set_isbn(table: Any) -> None:
    """Another writer's two changes, each with a version."""
    table.update_item(
        Key={"id": 101},
        UpdateExpression="SET isbn = :n ADD version :two",
        ExpressionAttributeValues={":n": "1", ":two": 2},
    )


def test_the_mappers_clobber_overwrites_anothers_change_and_the_version_goes_back(catalogs: Catalogs) -> None:
    planted = catalog_item(1, price=7)
    assert catalogs.by_original(planted, set_isbn, clobber=True) == (False, catalog_item(2, "ours"))
    won = catalog_item(4, "ours", isbn="1", price=7)
    assert catalogs.by_example(planted, set_isbn, checked=False) == (False, won)

    # With the check both leave the other's change.
    theirs = catalog_item(3, isbn="1", price=7)
    assert catalogs.by_original(planted, set_isbn, clobber=False) == (True, theirs)
    assert catalogs.by_example(planted, set_isbn, checked=True) == (True, theirs)


def test_after_the_mappers_clobber_a_stale_save_passes(stage: Stage) -> None:
    table = stage.empty("ProductCatalog")
    table.put_item(Item=catalog_item(1))
    mapper = Mapper(stage.of_original("ProductCatalog"))
    first = mapper.load(101)
    second = mapper.load(101)
    second.isbn = "2"
    mapper.save(second)
    stale = mapper.load(101)  # version 2
    first.title = "clobbered"
    mapper.save(first, clobber=True)  # version 2 again
    stale.title = "stale"
    mapper.save(stale)
    assert table.get_item(Key={"id": 101})["Item"] == catalog_item(3, "stale", isbn="2")

    table.put_item(Item=catalog_item(1))
    example = stage.example("catalog")
    first, second = example.catalog.get(101), example.catalog.get(101)
    stale = example.catalog.save(second.changed_to(replace(second.model, isbn="2")))
    example.catalog.save(first.changed_to(replace(first.model, title="clobbered")), checked=False)
    with pytest.raises(Conflict, match="expected version 2, found version 3"):
        example.catalog.save(stale.changed_to(replace(stale.model, title="stale")))
    assert without_marks(table.get_item(Key={"id": 101})["Item"]) == catalog_item(3, "clobbered", isbn="2")


def test_the_mappers_first_save_replaces_an_item_that_has_no_version(stage: Stage) -> None:
    imported = {"id": 101, "title": "imported", "isbn": "1"}
    table = stage.empty("ProductCatalog")
    table.put_item(Item=imported)
    Mapper(stage.of_original("ProductCatalog")).save(CatalogItem(101, "ours"))
    assert table.get_item(Key={"id": 101})["Item"] == {"id": 101, "title": "ours", "version": 1}

    table.put_item(Item=imported)
    example = stage.example("catalog")
    with pytest.raises(Conflict, match="expected no item"):
        example.catalog.save(example.CatalogItem(101, "ours"))
    assert table.get_item(Key={"id": 101})["Item"] == imported


def test_the_mapper_deletes_a_recreated_item_for_the_deleted_one(stage: Stage) -> None:
    table = stage.empty("ProductCatalog")
    mapper = Mapper(stage.of_original("ProductCatalog"))
    mapper.save(CatalogItem(101, "before"))
    stale = mapper.load(101)
    mapper.delete(mapper.load(101))
    mapper.save(CatalogItem(101, "made anew"))
    mapper.delete(stale)
    assert "Item" not in table.get_item(Key={"id": 101})

    example = stage.example("catalog")
    stale = example.catalog.save(example.CatalogItem(101, "before"))
    example.catalog.delete(example.catalog.get(101))
    example.catalog.save(example.CatalogItem(101, "made anew"))
    with pytest.raises(Conflict, match="deleted and made anew"):
        example.catalog.delete(stale)
    assert example.catalog.get(101).model.title == "made anew"


# --- overdraft -------------------------------------------------------------------------------------------


def payment(value: int, payment_id: str = "p-1") -> dict[str, Any]:
    return {"PaymentId": payment_id, "AccountId": "123", "Value": value}


class Accounts:
    """Account 123 with 100 and a limit of -500: `table` is the original's, or the example's, and `post` posts there."""

    def __init__(self, stage: Stage, kind: str) -> None:
        self.table = stage.empty("accounts")
        self.table.put_item(Item={"AccountId": "123", "Balance": 100, "OverdraftLimit": -500, "Version": 0})
        if kind == "original":
            theirs = stage.of_original("accounts")
            self.client = client_of(theirs)
            self.post: Callable[..., Any] = lambda value, _="": overdraft.post(theirs, "123", value)
        else:
            stage.empty("payments")
            example = stage.example("overdraft")
            self.client = example.client
            self.post = lambda value, *payment_id: example.post(payment(value, *payment_id))

    def meanwhile(self, expression: str, **values: Any) -> None:
        """Another's update of the account after the first read."""
        update = {"UpdateExpression": expression, "ExpressionAttributeValues": values}
        after_first(self.client, READS, lambda: self.table.update_item(Key={"AccountId": "123"}, **update))

    @property
    def item(self) -> Any:
        return self.table.get_item(Key={"AccountId": "123"})["Item"]

    @property
    def balance(self) -> int:
        return int(self.item["Balance"])


def test_the_original_posts_a_payment_twice_that_is_delivered_twice(stage: Stage) -> None:
    accounts = Accounts(stage, "original")
    accounts.post(-200)
    accounts.post(-200)
    assert accounts.balance == -300

    accounts = Accounts(stage, "example")
    assert accounts.post(-200) == accounts.post(-200) == -100
    assert accounts.balance == -100
    with pytest.raises(PayloadChanged, match="Value"):
        accounts.post(-201)
    assert accounts.post(-200, "p-2") == accounts.balance == -300


def test_the_original_asks_to_try_again_what_is_posted_if_the_answer_was_lost(stage: Stage) -> None:
    accounts = Accounts(stage, "original")
    with Faults(Fault.RESPONSE_LOST, at=2).on(accounts.client), pytest.raises(ValueError, match="try again"):
        accounts.post(-200)
    assert accounts.balance == -100
    accounts.post(-200)
    assert accounts.balance == -300

    accounts = Accounts(stage, "example")
    with Faults(Fault.RESPONSE_LOST, at=2).on(accounts.client) as faults:
        assert accounts.post(-200) == -100
    assert faults.injected[Fault.RESPONSE_LOST] == 1
    assert accounts.post(-200) == accounts.balance == -100


@pytest.mark.parametrize("fault", [Fault.ALL_RESPONSES_LOST, Fault.KILLED_AFTER])
def test_a_payment_whose_poster_never_heard_of_it_is_posted_once(stage: Stage, fault: Fault) -> None:
    for kind, twice in (("original", -300), ("example", -100)):
        accounts = Accounts(stage, kind)
        with Faults(fault, at=2).on(accounts.client), pytest.raises((Killed, OutcomeUnknown, ReadTimeoutError)):
            accounts.post(-200)
        accounts.post(-200)
        assert accounts.balance == twice, kind


def test_the_original_leaves_a_conflict_to_its_caller(stage: Stage) -> None:
    for kind in ("original", "example"):
        accounts = Accounts(stage, kind)
        accounts.meanwhile("SET Balance = :balance ADD Version :one", **{":balance": -200, ":one": 1})
        if kind == "original":
            with pytest.raises(ValueError, match="try again"):
                accounts.post(-200)
            assert accounts.balance == -200
        else:
            assert accounts.post(-200) == accounts.balance == -400


def test_no_payment_goes_below_the_limit_and_a_refused_one_can_be_made_later(stage: Stage) -> None:
    accounts = Accounts(stage, "example")
    accounts.meanwhile("SET Balance = :balance ADD Version :one", **{":balance": -300, ":one": 1})
    with pytest.raises(ValueError, match="overdraft limit"):
        accounts.post(-300)
    assert accounts.balance == -300
    assert accounts.post(400, "p-2") == 100
    assert accounts.post(-300) == accounts.balance == -200


def test_the_original_overwrites_what_a_program_without_versions_has_written(stage: Stage) -> None:
    for kind, note in (("original", None), ("example", "call them")):
        accounts = Accounts(stage, kind)
        accounts.meanwhile("SET Note = :note", **{":note": "call them"})
        accounts.post(-200)
        assert accounts.balance == -100
        assert accounts.item.get("Note") == note, kind


def test_the_original_as_it_was_printed_does_not_know_the_error_of_a_conflict(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(overdraft, "ClientError")
    accounts = Accounts(stage, "original")
    accounts.meanwhile("ADD Version :one", **{":one": 1})
    with pytest.raises(NameError):
        accounts.post(-200)


# --- map_upserts -----------------------------------------------------------------------------------------


type SetEntry = Callable[..., None]
AT = datetime(2026, 2, 28, 12, tzinfo=UTC)


def map_after(table: Any) -> Any:
    return table.get_item(Key={"pk": "k"}, ConsistentRead=True).get("Item", {}).get("m")


@pytest.mark.parametrize("attempt", [map_upserts.set_entry, map_upserts.set_map_and_entry])
def test_the_originals_first_two_attempts_make_no_missing_map(stage: Stage, attempt: SetEntry) -> None:
    table = stage.empty("maps")
    with pytest.raises(ClientError, match="ValidationException"):
        attempt(stage.of_original("maps"), "k", "m", "ours", "1")
    assert map_after(table) is None

    stage.example("map_upserts").set_entry("k", "m", "ours", "1", AT)
    assert map_after(table) == {"ours": "1"}


def test_the_originals_second_attempt_fails_even_if_there_is_a_map(
    dynamodb_local: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On Amazon's own engine alone: ministack takes paths that overlap."""
    stage = Stage(dynamodb_local, monkeypatch)
    table = stage.empty("maps")
    table.put_item(Item={"pk": "k", "m": {"theirs": "2"}})
    with pytest.raises(ClientError, match="overlap"):
        map_upserts.set_map_and_entry(stage.of_original("maps"), "k", "m", "ours", "1")

    stage.example("map_upserts").set_entry("k", "m", "ours", "1", AT)
    assert map_after(table) == {"ours": "1", "theirs": "2"}


def set_by_original(stage: Stage, attempt: SetEntry, meanwhile: Callable[[Any], object]) -> Any:
    """The map after an attempt that finds no map, and after whose first request `meanwhile` gets the table."""
    table, theirs = stage.empty("maps"), stage.of_original("maps")
    after_first(client_of(theirs), {"UpdateItem"}, lambda: meanwhile(table))
    attempt(theirs, "k", "m", "ours", "1")
    return map_after(table)


def set_by_example(stage: Stage, meanwhile: Callable[[Any], object], before: dict[str, Any] | None = None) -> Any:
    """The same of the example. Its first request assumes a map; if the item has one, it has learned to assume none."""
    table, example = stage.empty("maps"), stage.example("map_upserts")
    if before:
        table.put_item(Item=before)
        example.set_entry("another", "m", "x", "0", AT)
    requests: list[str] = []
    example.client.meta.events.register("before-call", lambda model, **_: requests.append(model.name))
    after_first(example.client, {"UpdateItem"}, lambda: meanwhile(table))
    example.set_entry("k", "m", "ours", "1", AT)
    assert len(requests) > 1, "nothing was refused, so nothing came between"
    return map_after(table)


@pytest.mark.usefixtures("new_process")
def test_the_originals_third_attempt_overwrites_the_map_that_another_has_made(stage: Stage) -> None:
    def make_map(table: Any) -> None:
        table.put_item(Item={"pk": "k", "m": {"theirs": "2"}})

    assert set_by_original(stage, map_upserts.entry_else_map, make_map) == {"ours": "1"}
    assert set_by_original(stage, map_upserts.entry_else_map_else_entry, make_map) == {"ours": "1", "theirs": "2"}
    assert set_by_example(stage, make_map) == {"ours": "1", "theirs": "2"}


@pytest.mark.parametrize("attempt", [map_upserts.entry_else_map_else_entry, map_upserts.map_else_entry])
def test_the_originals_last_attempts_let_an_older_value_that_arrives_late_win(stage: Stage, attempt: SetEntry) -> None:
    table, theirs = stage.empty("maps"), stage.of_original("maps")
    attempt(theirs, "k", "m", "e", "newer")
    attempt(theirs, "k", "m", "e", "older")
    assert map_after(table) == {"e": "older"}

    table, example = stage.empty("maps"), stage.example("map_upserts")
    example.set_entry("k", "m", "e", "newer", AT + timedelta(seconds=1))
    example.set_entry("k", "m", "e", "older", AT)
    assert map_after(table) == {"e": "newer"}


@pytest.mark.usefixtures("new_process")
def test_the_originals_last_attempt_fails_if_the_map_is_removed_in_between(stage: Stage) -> None:
    def remove(table: Any) -> None:
        table.update_item(Key={"pk": "k"}, UpdateExpression="REMOVE m")

    before = {"pk": "k", "m": {"theirs": "2"}}
    table, theirs = stage.empty("maps"), stage.of_original("maps")
    table.put_item(Item=before)
    after_first(client_of(theirs), {"UpdateItem"}, lambda: remove(table))
    with pytest.raises(ClientError, match="document path"):
        map_upserts.map_else_entry(theirs, "k", "m", "ours", "1")
    assert map_after(table) is None

    assert set_by_example(stage, remove, before) == {"ours": "1"}


# --- job_lock --------------------------------------------------------------------------------------------


class Clock:
    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def time(self) -> float:
        return self.now


class Jobs:
    """A job's lock by the original and by the example, on fresh tables and one clock.

    `run` runs the job under its lock; what `work` returns is the job's result, and is kept in `results`.
    """

    def __init__(self, stage: Stage, monkeypatch: pytest.MonkeyPatch, results: Any, kind: str) -> None:
        self.clock, self._day = Clock(), {"job": kind, "day": "1"}
        self._results = results
        if kind == "original":
            stage.empty("locks_of_the_original")
            self.client = client_of(locks := stage.of_original("locks_of_the_original"))
            monkeypatch.setattr(job_lock, "time", self.clock)
            self.run: Callable[[Callable[[], Any]], Any] = lambda work: job_lock.acquire_lock(
                locks, "job", lambda: self._results.put_item(Item=self._day | work())
            )
        else:
            stage.empty("job_locks")
            example = stage.example("job_lock")
            self.client = example.client
            monkeypatch.setattr(example.locks, "now", self.clock.time)
            self.run = lambda work: example.run_once(kind, "1", work)

    @property
    def result(self) -> Any:
        """The holder that the job's result is by; None if there is no result."""
        return self._results.get_item(Key=self._day).get("Item", {}).get("by")


@pytest.fixture
def results(stage: Stage) -> Any:
    return stage.empty("job_results")


@pytest.fixture
def original(stage: Stage, monkeypatch: pytest.MonkeyPatch, results: Any) -> Jobs:
    return Jobs(stage, monkeypatch, results, "original")


@pytest.fixture
def example(stage: Stage, monkeypatch: pytest.MonkeyPatch, results: Any) -> Jobs:
    return Jobs(stage, monkeypatch, results, "example")


def test_the_original_swallows_its_blocks_own_error(stage: Stage, original: Jobs, example: Jobs) -> None:
    items = stage.empty("items")
    items.put_item(Item={"id": "i"})

    def refused() -> Any:
        items.put_item(Item={"id": "i"}, ConditionExpression="attribute_not_exists(id)")

    assert original.run(refused) is None  # as if another had the lock
    assert original.result is None
    with pytest.raises(ClientError, match="ConditionalCheckFailedException"):
        example.run(refused)


def test_the_original_keeps_the_lock_of_a_block_that_failed(original: Jobs, example: Jobs) -> None:
    def fail() -> Any:
        raise ZeroDivisionError

    for jobs in (original, example):
        with pytest.raises(ZeroDivisionError):
            jobs.run(fail)
        jobs.clock.now += 30
        jobs.run(lambda: {"by": "the next"})
    assert original.result is None
    assert example.result == "the next"


def test_the_original_lets_a_second_holder_in_beside_the_first(original: Jobs, example: Jobs) -> None:
    for jobs in (original, example):

        def outlive(jobs: Jobs = jobs) -> Any:
            jobs.clock.now += 90
            jobs.run(lambda: {"by": "the second"})
            assert jobs.result == "the second"
            return {"by": "the first, late"}

        if jobs is original:
            jobs.run(outlive)
        else:
            with pytest.raises(LockLost):
                jobs.run(outlive)
    assert original.result == "the first, late"
    assert example.result == "the second"


def test_the_original_runs_a_job_again_that_is_done(original: Jobs, example: Jobs) -> None:
    for jobs in (original, example):
        jobs.run(lambda: {"by": "the first"})
        jobs.clock.now += 60
    original.run(lambda: {"by": "the second"})
    with pytest.raises(WindowDone):
        example.run(lambda: {"by": "the second"})
    assert original.result == "the second"
    assert example.result == "the first"


def test_the_originals_lock_of_a_minute_lasts_59_seconds_if_it_was_taken_late_in_a_second(
    original: Jobs, example: Jobs
) -> None:
    for jobs in (original, example):
        jobs.clock.now += 0.9

        def work_a_minute(jobs: Jobs = jobs) -> Any:
            jobs.clock.now += 59.2
            jobs.run(lambda: {"by": "the second"})
            return {"by": "the first"}

        if jobs is original:
            jobs.run(work_a_minute)
        else:
            with pytest.raises(LockTaken):
                jobs.run(work_a_minute)
    assert original.result == "the first"


def test_the_original_finds_the_lock_taken_by_itself_if_the_answer_was_lost(original: Jobs, example: Jobs) -> None:
    for jobs in (original, example):
        with Faults(Fault.RESPONSE_LOST, at=1).on(jobs.client) as faults:
            jobs.run(lambda: {"by": "the only one"})
        assert faults.injected[Fault.RESPONSE_LOST] == 1
    assert original.result is None
    assert example.result == "the only one"


# --- the examples themselves -----------------------------------------------------------------------------


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_an_example_runs_as_a_program_and_again(stage: Stage, path: Path) -> None:
    for table in TABLES:
        stage.empty(table)
    for _ in range(2):
        run = subprocess.run(
            [sys.executable, "-W", "error", path],
            env=os.environ | stage.dynamodb.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout


def lines_of_code(path: Path) -> int:
    """The lines of a module without blank lines, comments and docstrings."""
    text = path.read_text()
    documented = [
        node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
    ]
    docstrings = {
        number
        for node in documented
        if ast.get_docstring(node) is not None
        for number in range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1)
    }
    lines = enumerate(text.splitlines(), 1)
    return sum(1 for number, line in lines if number not in docstrings and not re.match(r"\s*(#|$)", line))


def test_each_example_is_shorter_than_what_it_replaces() -> None:
    rows = re.findall(r"^\| \[(\w+)\]\(\1\.py\) \|.*\| (\d+) of \w+ \| (\d+) \|$", README.read_text(), re.MULTILINE)
    assert [name for name, _, _ in rows] == [path.stem for path in FILES]
    for name, theirs, ours in rows:
        assert lines_of_code(EXAMPLES / f"{name}.py") == int(ours) < int(theirs), name
        assert int(ours) < lines_of_code(ORIGINALS / f"{name}.py"), f"{name}: longer than the original in Python"
