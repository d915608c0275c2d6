"""The library's examples make none of the mistakes that their page names, in any order and with any fault."""

import importlib.util
import runpy
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Self

import pytest

from conditional_writes import Conflict, Item, OutcomeUnknown, VersionedTable
from conditional_writes.exactly_once import PayloadChanged
from conditional_writes.items import from_dynamodb, to_dynamodb
from conditional_writes.locks import LockLost, LockTaken, WindowDone
from conditional_writes.testing import Clock, Engine, Fault, Outcome, explore
from conditional_writes.upserts import plan
from tests.support.in_process import IN_PROCESS, Aws, answered_by
from tests.support.new_tables import definition
from tools.local_aws.server import PROJECT

FILES = sorted((PROJECT / "layers" / "conditional_writes" / "examples").glob("*.py"))
TABLES = {
    "catalog": [("ProductCatalog", {"id": "N"})],
    "job_lock": [("job_locks", {"lock_key": "S"}), ("job_results", {"job": "S", "day": "S"})],
    "map_upserts": [("maps", {"pk": "S"})],
    "optimistic_locking": [("items", {"id": "S"})],
    "overdraft": [("accounts", {"AccountId": "S"}), ("payments", {"id": "S"})],
}
AT = datetime(2026, 2, 28, 12, tzinfo=UTC)


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in IN_PROCESS.environment.items():
        monkeypatch.setenv(name, value)


class Stage:
    """An example, imported as a program does it, and its tables as other programs see them."""

    def __init__(self, name: str, *items: Item) -> None:
        self._tables, self._items = TABLES[name], items
        path = next(path for path in FILES if path.stem == name)
        spec: Any = importlib.util.spec_from_file_location(f"example_{name}", path)
        self.example = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(self.example)
        self.client = self.example.client

    def on(self, engine: Engine) -> Self:
        """Makes the tables. In the first one are the items."""
        engine.attach(self.client)
        for name, key in self._tables:
            self.client.create_table(**definition(name, key))
        for item in self._items:
            self.put(item)
        return self

    def put(self, item: Item) -> None:
        self.client.put_item(TableName=self._tables[0][0], Item=to_dynamodb(item))

    def item(self, table: int = 0, **key: Any) -> Item | None:
        """The item without the library's own attributes."""
        found = self.client.get_item(TableName=self._tables[table][0], Key=to_dynamodb(key), ConsistentRead=True)
        item = from_dynamodb(found.get("Item", {}))
        return {name: value for name, value in item.items() if not name.startswith("cw:")} or None

    def after_the_next(self, operation: str, do: Callable[[], object]) -> None:
        doing = iter([do])

        def step_in(**_: Any) -> None:
            for do_it in doing:
                do_it()

        self.client.meta.events.register(f"after-call.dynamodb.{operation}", step_in)


type Plant = Callable[..., Stage]


@pytest.fixture
def planted() -> Iterator[Plant]:
    with Engine() as engine:
        yield lambda name, *items: Stage(name, *items).on(engine)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_an_example_runs_as_a_program_and_again(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Engine() as engine, answered_by(Aws(engine)):
        for name, key in TABLES[path.stem]:
            engine.client().create_table(**definition(name, key))
        for _ in range(2):
            runpy.run_path(str(path), run_name="__main__")
    assert capsys.readouterr().out


# --- optimistic_locking ----------------------------------------------------------------------------------


def named(version: int, name: str = "before", **others: Any) -> Item:
    return {"id": "i", "name": name, "lock_version": version} | others


@pytest.mark.parametrize("left", [None, {"id": "i", "name": "imported"}, named(4, "theirs")])
def test_a_save_neither_brings_an_item_back_nor_overwrites_what_others_wrote(planted: Plant, left: Item | None) -> None:
    stage = planted("optimistic_locking", named(3))

    def change() -> None:
        stage.client.delete_item(TableName="items", Key={"id": {"S": "i"}})
        if left:
            stage.put(left)

    stage.after_the_next("GetItem", change)
    with pytest.raises(Conflict):
        stage.example.save_name("i", "ours")
    assert stage.item(id="i") == left


def test_a_recreated_item_is_not_taken_for_the_deleted_one(planted: Plant) -> None:
    stage = planted("optimistic_locking")
    saved = stage.example.items.save({"id": "i", "name": "before"})
    others = VersionedTable(stage.client, "items", "id", version="lock_version")

    def recreate() -> None:
        others.delete(saved)
        others.save({"id": "i", "name": "another's"})

    stage.after_the_next("GetItem", recreate)
    with pytest.raises(Conflict, match="deleted and made anew"):
        stage.example.save_name("i", "ours")
    assert stage.item(id="i") == named(1, "another's")


def test_a_lost_answer_looks_like_no_conflict_and_unknown_attributes_stay() -> None:
    def saved_once(stage: Stage, outcomes: Sequence[Outcome]) -> None:
        assert not isinstance(outcomes[0].error, Conflict)
        assert stage.item(id="i") in (named(2, "ours", price=7), *[named(1, price=7)] * outcomes[0].was_killed)

    stage = Stage("optimistic_locking", named(1, price=7))
    assert explore(lambda _: stage.example.save_name("i", "ours"), setup=stage.on, check=saved_once).is_complete


def test_of_two_who_rename_none_is_lost_and_nobody_renames_what_is_gone(planted: Plant) -> None:
    def both_renamed(stage: Stage, outcomes: Sequence[Outcome]) -> None:
        item = stage.item(id="i") or {}
        done = sum(outcome.error is None for outcome in outcomes)
        unsure = sum(outcome.was_killed or isinstance(outcome.error, OutcomeUnknown) for outcome in outcomes)
        assert done + unsure == 2
        assert done <= item["lock_version"] - 1 <= 2
        assert item["price"] == 7

    stage = Stage("optimistic_locking", named(1, price=7))
    workers = [lambda _, name=name: stage.example.rename("i", name) for name in "ab"]
    assert explore(*workers, setup=stage.on, check=both_renamed).is_complete
    with pytest.raises(LookupError):
        planted("optimistic_locking").example.rename("i", "ours")


# --- catalog ---------------------------------------------------------------------------------------------


def titled(version: int, title: str, **others: Any) -> Item:
    return {"id": 101, "title": title, "authors": {"A"}, "version": version} | others


@pytest.mark.parametrize(("checked", "left"), [(True, "before"), (False, "ours")])
def test_an_unchecked_save_keeps_others_changes_and_the_version_grows(planted: Plant, checked: bool, left: str) -> None:
    stage = planted("catalog", titled(1, "before", price=7))
    stage.after_the_next("GetItem", lambda: stage.put(titled(3, "before", price=7, isbn="1")))
    if checked:
        with pytest.raises(Conflict):
            stage.example.retitle(101, "ours")
    else:
        stage.example.retitle(101, "ours", checked=False)
    assert stage.item(id=101) == titled(3 if checked else 4, left, price=7, isbn="1")


def test_after_an_unchecked_save_a_stale_one_is_a_conflict(planted: Plant) -> None:
    catalog = planted("catalog", titled(1, "before")).example.catalog
    first, second = catalog.get(101), catalog.get(101)
    stale = catalog.save(second.changed_to(replace(second.model, isbn="2")))
    catalog.save(first.changed_to(replace(first.model, title="unchecked")), checked=False)
    with pytest.raises(Conflict, match="expected version 2, found version 3"):
        catalog.save(stale.changed_to(replace(stale.model, title="stale")))


def test_a_first_save_replaces_no_item_that_has_no_version(planted: Plant) -> None:
    stage = planted("catalog", {"id": 101, "title": "imported"})
    with pytest.raises(Conflict, match="expected no item"):
        stage.example.catalog.save(stage.example.CatalogItem(101, "ours"))


def test_a_recreated_item_is_not_deleted_for_the_deleted_one(planted: Plant) -> None:
    example = planted("catalog").example
    stale = example.catalog.save(example.CatalogItem(101, "before"))
    example.catalog.delete(example.catalog.get(101))
    example.catalog.save(example.CatalogItem(101, "made anew"))
    with pytest.raises(Conflict, match="deleted and made anew"):
        example.catalog.delete(stale)


# --- overdraft -------------------------------------------------------------------------------------------

ACCOUNT = {"AccountId": "123", "Balance": 100, "OverdraftLimit": -500, "Version": 0, "Note": "call them"}


def pay(stage: Stage, value: int, payment_id: str = "p-1") -> Any:
    return stage.example.post({"PaymentId": payment_id, "AccountId": "123", "Value": value})


def test_a_payment_that_is_delivered_twice_is_posted_once_beside_another(every_case: bool) -> None:
    stage = Stage("overdraft", ACCOUNT)

    def posted_once(stage: Stage, _: object) -> None:
        assert pay(stage, -200) in (-100, -130)
        assert pay(stage, -30, "p-2") in (70, -130)
        assert (stage.item(AccountId="123") or {}).items() >= {"Balance": -130, "Note": "call them"}.items()
        with pytest.raises(PayloadChanged, match="Value"):
            pay(stage, -201)

    deliveries = [lambda stage: pay(stage, -200)] * 2
    for workers in (deliveries, [deliveries[0], lambda stage: pay(stage, -30, "p-2")]):
        explore(*workers, setup=stage.on, check=posted_once, budget=20_000 if every_case else 60)


def test_no_payment_goes_below_the_limit_and_a_refused_one_can_be_made_later(planted: Plant) -> None:
    stage = planted("overdraft", ACCOUNT)
    with pytest.raises(ValueError, match="overdraft limit"):
        pay(stage, -601)
    assert pay(stage, 400, "p-2") == 500
    assert pay(stage, -601) == -101


# --- map_upserts -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("before", [[], [{"pk": "k"}], [{"pk": "k", "m": {"older": "0"}}]])
def test_of_two_who_set_entries_none_is_lost_whatever_map_there_is(
    before: list[Item], every_case: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Stage("map_upserts", *before)
    older = {"older": "0"} if before and "m" in before[0] else {}

    def new_processes(engine: Engine) -> Stage:
        monkeypatch.setattr(plan, "recent_depths", plan.RecentDepths())
        return stage.on(engine)

    def both_are_there(stage: Stage, _: object) -> None:
        for name in "ab":  # delivered again
            stage.example.set_entry("k", "m", name, "1", AT)
        assert (stage.item(pk="k") or {})["m"] == older | {"a": "1", "b": "1"}

    workers = [lambda _, name=name: stage.example.set_entry("k", "m", name, "1", AT) for name in "ab"]
    explore(*workers, setup=new_processes, check=both_are_there, budget=20_000 if every_case else 60)


def test_an_older_value_that_arrives_late_does_not_win(planted: Plant) -> None:
    stage = planted("map_upserts")
    stage.example.set_entry("k", "m", "e", "newer", AT + timedelta(seconds=1))
    stage.example.set_entry("k", "m", "e", "older", AT)
    assert stage.item(pk="k") == {"pk": "k", "m": {"e": "newer"}}


# --- job_lock --------------------------------------------------------------------------------------------


def run(stage: Stage, by: str, error: Exception | None = None) -> None:
    def work() -> Item:
        if error:
            raise error
        return {"by": by}

    stage.example.run_once("job", "1", work)


def result(stage: Stage) -> Any:
    return (stage.item(1, job="job", day="1") or {}).get("by")


def test_a_job_that_two_start_has_one_result_and_is_not_run_again() -> None:
    stage = Stage("job_lock")

    def done_once(stage: Stage, outcomes: Sequence[Outcome]) -> None:
        winners = [by for by, outcome in zip("ab", outcomes, strict=True) if outcome.error is None]
        assert len(winners) <= 1
        assert result(stage) in (winners or [None, "a", "b"])
        assert all(isinstance(each.error, LockTaken | WindowDone | None) for each in outcomes if not each.was_killed)

    workers = [lambda stage, by=by: run(stage, by) for by in "ab"]
    faults = (Fault.KILLED_BEFORE, Fault.KILLED_AFTER, Fault.LOST)
    assert explore(*workers, setup=stage.on, check=done_once, faults=faults).is_complete


def test_the_jobs_own_error_passes_and_the_next_one_has_the_lock(planted: Plant) -> None:
    stage = planted("job_lock")
    error = stage.client.exceptions.ConditionalCheckFailedException({}, "PutItem")
    with pytest.raises(type(error)) as caught:
        run(stage, "the first", error)
    assert caught.value is error
    run(stage, "the next")
    assert result(stage) == "the next"


def test_a_late_holder_does_not_write_over_the_next_ones_result(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage("job_lock")
    with Engine(clock := Clock()) as engine:
        stage.on(engine)

        def outlive_the_lease() -> Item:
            clock.advance(90)
            run(stage, "the second")
            return {"by": "the first, late"}

        monkeypatch.setattr(stage.example.locks, "now", clock.time)
        with pytest.raises(LockLost):
            stage.example.run_once("job", "1", outlive_the_lease)
        assert result(stage) == "the second"
