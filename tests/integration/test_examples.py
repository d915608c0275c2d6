"""Each of the library's examples runs, and keeps what its page claims: in every order of two, with every fault."""

import importlib.util
import runpy
import sys
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Self

import pytest

from conditional_writes import Conflict, Item, OutcomeUnknown
from conditional_writes.core.items import from_dynamodb, to_dynamodb
from conditional_writes.exactly_once import PayloadChanged
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
        found = self.client.get_item(TableName=self._tables[table][0], Key=to_dynamodb(key), ConsistentRead=True)
        item = from_dynamodb(found.get("Item", {}))
        return {name: value for name, value in item.items() if not name.startswith("cw:")} or None


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_an_example_runs_as_a_program_and_again(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Engine() as engine, answered_by(Aws(engine)):
        for name, key in TABLES[path.stem]:
            engine.client().create_table(**definition(name, key))
        for _ in range(2):
            runpy.run_path(str(path), run_name="__main__")
    assert capsys.readouterr().out


def test_of_two_who_rename_an_item_none_is_lost_and_unknown_attributes_stay(every_case: bool) -> None:
    """A lost answer is no conflict, and a deleted item isn't made again."""

    def both_renamed(stage: Stage, outcomes: Sequence[Outcome]) -> None:
        item = stage.item(id="i") or {}
        done = sum(outcome.error is None for outcome in outcomes)
        unsure = sum(outcome.was_killed or isinstance(outcome.error, OutcomeUnknown) for outcome in outcomes)
        assert done + unsure == 2
        assert done <= item["lock_version"] - 1 <= 2
        assert item["price"] == 7

    stage = Stage("optimistic_locking", {"id": "i", "name": "before", "lock_version": 1, "price": 7})
    workers = [lambda _, name=name: stage.example.rename("i", name) for name in "ab"]
    tried = explore(*workers, setup=stage.on, check=both_renamed, budget=20_000 if every_case else 10)
    assert tried.is_complete or not every_case
    with Engine() as engine, pytest.raises(LookupError):
        Stage("optimistic_locking").on(engine).example.rename("i", "ours")


def test_an_unchecked_save_keeps_others_changes_and_a_stale_one_after_it_is_a_conflict() -> None:
    stage = Stage("catalog", {"id": 101, "title": "before", "authors": {"A"}, "version": 1, "price": 7})
    with Engine() as engine:
        catalog = stage.on(engine).example.catalog
        first, second = catalog.get(101), catalog.get(101)
        stale = catalog.save(second.changed_to(replace(second.model, isbn="2")))
        catalog.save(first.changed_to(replace(first.model, title="unchecked")), checked=False)
        unchecked = {"id": 101, "title": "unchecked", "authors": {"A"}, "version": 3, "price": 7, "isbn": "2"}
        assert stage.item(id=101) == unchecked
        with pytest.raises(Conflict, match="expected version 2, found version 3"):
            catalog.save(stale.changed_to(replace(stale.model, title="stale")))


def test_a_payment_that_is_delivered_twice_is_posted_once_beside_another(every_case: bool) -> None:
    account = {"AccountId": "123", "Balance": 100, "OverdraftLimit": -500, "Version": 0, "Note": "call them"}
    stage = Stage("overdraft", account)

    def pay(value: int, payment_id: str = "p-1") -> Any:
        return stage.example.post({"PaymentId": payment_id, "AccountId": "123", "Value": value})

    def posted_once(stage: Stage, _: object) -> None:
        assert pay(-200) in (-100, -130)
        assert pay(-30, "p-2") in (70, -130)
        assert (stage.item(AccountId="123") or {}).items() >= {"Balance": -130, "Note": "call them"}.items()
        with pytest.raises(PayloadChanged, match="Value"):
            pay(-201)
        with pytest.raises(ValueError, match="overdraft limit"):
            pay(-371, "p-3")

    for second in (lambda _: pay(-200), lambda _: pay(-30, "p-2")):
        budget = 20_000 if every_case else 10
        explore(lambda _: pay(-200), second, setup=stage.on, check=posted_once, budget=budget)


@pytest.mark.parametrize("before", [[], [{"pk": "k"}], [{"pk": "k", "m": {"older": "0"}}]])
def test_of_two_who_set_entries_none_is_lost_and_an_older_value_does_not_win(
    before: list[Item], every_case: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Stage("map_upserts", *before)
    older = {"older": "0"} if before and "m" in before[0] else {}

    def new_processes(engine: Engine) -> Stage:
        monkeypatch.setattr(plan, "recent_depths", plan.RecentDepths())
        return stage.on(engine)

    def both_are_there(stage: Stage, _: object) -> None:
        for name in "ab":  # delivered again, and an older one late
            stage.example.set_entry("k", "m", name, "1", AT)
            stage.example.set_entry("k", "m", name, "0", AT - timedelta(seconds=1))
        assert (stage.item(pk="k") or {})["m"] == older | {"a": "1", "b": "1"}

    workers = [lambda _, name=name: stage.example.set_entry("k", "m", name, "1", AT) for name in "ab"]
    explore(*workers, setup=new_processes, check=both_are_there, budget=20_000 if every_case else 10)


def test_a_job_that_two_start_has_one_result_and_its_own_error_gives_the_lock_back() -> None:
    stage = Stage("job_lock")

    def result() -> Any:
        return (stage.item(1, job="job", day="1") or {}).get("by")

    def done_once(_: Stage, outcomes: Sequence[Outcome]) -> None:
        winners = [by for by, outcome in zip("ab", outcomes, strict=True) if outcome.error is None]
        assert len(winners) <= 1
        assert result() in (winners or [None, "a", "b"])
        assert all(isinstance(each.error, LockTaken | WindowDone | None) for each in outcomes if not each.was_killed)

    workers = [lambda _, by=by: stage.example.run_once("job", "1", lambda: {"by": by}) for by in "ab"]
    faults = (Fault.KILLED_BEFORE, Fault.KILLED_AFTER, Fault.LOST)
    assert explore(*workers, setup=stage.on, check=done_once, faults=faults).is_complete
    with Engine() as engine:
        stage.on(engine)
        with pytest.raises(ZeroDivisionError):
            stage.example.run_once("job", "1", lambda: 1 / 0)
        stage.example.run_once("job", "1", lambda: {"by": "the next"})
        assert result() == "the next"


def test_a_late_holder_does_not_write_over_the_next_ones_result(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage("job_lock")
    with Engine(clock := Clock()) as engine:
        stage.on(engine)

        def outlive_the_lease() -> Item:
            clock.advance(90)
            stage.example.run_once("job", "1", lambda: {"by": "the second"})
            return {"by": "the first, late"}

        monkeypatch.setattr(stage.example.locks, "now", clock.time)
        with pytest.raises(LockLost):
            stage.example.run_once("job", "1", outlive_the_lease)
        assert (stage.item(1, job="job", day="1") or {})["by"] == "the second"
