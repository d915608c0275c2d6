"""Calls that are awaited: by aiobotocore's client where it is installed, and else by boto3's with awaited answers.

What the calls do after a fault is tested by both drivers, and with `--all` all that they do: the fixture `driver`.
"""

import asyncio
import contextlib
import json
import re
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import boto3
import pytest

from conditional_writes import (
    Conflict,
    Deadline,
    DeadlinePassed,
    Observed,
    OutcomeUnknown,
    Plan,
    Put,
    VersionedItem,
    VersionedTable,
    dynamodb_client,
    equals,
    key,
)
from conditional_writes.asyncio import (
    AsyncExactlyOnce,
    AsyncLocks,
    AsyncModelTable,
    AsyncVersionedTable,
    async_dynamodb_client,
    read,
    upsert,
    write,
    write_together,
)
from conditional_writes.exactly_once import Records, exactly_once
from conditional_writes.exactly_once.publishing import Publisher
from conditional_writes.locks import LockTaken, WindowDone
from conditional_writes.testing import Call, Engine
from conditional_writes.upserts import MapEntry
from tests.support.new_tables import definition

try:
    from aiobotocore.session import get_session
except ImportError:
    get_session = None

REGION: Any = {"region_name": "us-east-1", "aws_access_key_id": "test", "aws_secret_access_key": "test"}

TABLES = {"Accounts": "account_id", "Orders": "order_id", "Flights": "flight_id", "Records": "id", "Locks": "lock_key"}
PAGE = Path(__file__).parents[2] / "layers" / "conditional_writes" / "docs" / "asyncio.md"


class Awaited:
    """boto3's client, whose calls are awaited. `calls` has them; `lost` are made, and their answers never come."""

    def __init__(self, client: Any) -> None:
        self.client, self.meta, self.exceptions = client, client.meta, client.exceptions
        self.calls: list[str] = []
        self.lost: set[str] = set()

    def __getattr__(self, method: str) -> Callable[..., Awaitable[Any]]:
        async def call(**parameters: Any) -> Any:
            self.calls.append(method)
            await asyncio.sleep(0)
            answer = getattr(self.client, method)(**parameters)
            if asyncio.iscoroutine(answer):
                answer = await answer
            if method in self.lost:
                await asyncio.Event().wait()
            return answer

        return call


class World:
    """The tables of a test, and a client of them."""

    def __init__(self, engine: Engine, client: Any) -> None:
        self.engine, self.client = engine, Awaited(client)
        self.orders = AsyncVersionedTable(self.client, "Orders", "order_id")


@contextlib.asynccontextmanager
async def made() -> AsyncIterator[World]:
    async with contextlib.AsyncExitStack() as stack:
        engine = stack.enter_context(Engine())
        if get_session:
            client = await stack.enter_async_context(get_session().create_client("dynamodb", **REGION))
        else:
            client = boto3.client("dynamodb", **REGION)
        world = World(engine, engine.attach(client))
        for name, key_name in TABLES.items():
            streamed = {"StreamEnabled": True, "StreamViewType": "NEW_IMAGE"}
            await world.client.create_table(**definition(name, {key_name: "S"}, StreamSpecification=streamed))
        yield world


def awaited(test: Callable[[World], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    async def run() -> None:
        async with made() as world:
            await test(world)

    def call() -> None:
        asyncio.run(run())

    call.__name__ = test.__name__
    return call


def one_more(order: VersionedItem | None) -> VersionedItem:
    assert order is not None
    return order | {"lines": order["lines"] + 1}


@dataclass(frozen=True)
class Flight:
    flight_id: str
    seats: int = 0


@awaited
async def test_models_are_saved_changed_one_task_after_the_other_and_found(world: World) -> None:
    flights = AsyncModelTable(world.client, "Flights", "flight_id", model=Flight)
    await flights.save(Flight("TL2"))
    made = await asyncio.gather(
        *(flights.modify("TL1", change=lambda flight: Flight("TL1", flight.seats + 1 if flight else 1)) for _ in "123")
    )
    assert sorted(flight.model.seats for flight in made) == [1, 2, 3]
    assert world.client.calls.count("put_item") + world.client.calls.count("update_item") == 4
    assert [flight.model async for flight in flights.query(equals("flight_id", "TL1"))] == [Flight("TL1", 3)]
    pages = flights.scan(page_size=1)
    found = [await pages.page(), await pages.page()]
    assert {flight.model.flight_id for page in found for flight in page.items} == {"TL1", "TL2"}
    assert [flight async for flight in flights.scan(after=found[0].token)] == found[1].items


@awaited
async def test_many_items_are_made_and_loaded_and_kinds_have_keys_of_their_own(world: World) -> None:
    assert await world.orders.put_many({"order_id": f"o-{number}"} for number in range(101)) == []
    found = await world.orders.load_many([world.orders.key("o-100"), world.orders.key("o-101")])
    assert [order and order["version"] for order in found] == [1, None]
    assert world.client.calls.count("transact_write_items") == 1
    flights = AsyncModelTable(
        world.client, "Orders", "order_id", model=Flight, templates={"order_id": "FLIGHT#{flight_id}"}
    )
    await flights.save(Flight("TL1", 1))
    [there] = await flights.put_many([Flight("TL1"), Flight("TL2")])
    assert there.model == Flight("TL1", 1)
    loaded = await flights.load_many([flights.key("TL2"), flights.key("TL3")])
    assert [flight and flight.model for flight in loaded] == [Flight("TL2"), None]
    assert [flight.model.flight_id async for flight in flights.scan()] == ["TL1", "TL2"]


@awaited
async def test_items_are_saved_changed_found_and_deleted(world: World) -> None:
    order = await world.orders.save({"order_id": "o-1", "lines": 1})
    assert (await world.orders.modify("o-1", change=one_more))["lines"] == 2
    with pytest.raises(Conflict, match="expected version 1, found version 2"):
        await world.orders.save(order)
    assert [each["order_id"] async for each in world.orders.scan(page_size=1)] == ["o-1"]
    assert [each["lines"] async for each in world.orders.query(equals("order_id", "o-1"))] == [2]
    assert await world.orders.update("o-1", version=2, values={"lines": 5}) == 3
    assert (await world.orders.upsert("o-1", entries=[MapEntry(("notes", "a"), "b")])).written == 1
    order = await world.orders.get("o-1")
    assert (order["lines"], order["notes"]) == (5, {"a": "b"})
    await world.orders.delete(order)
    assert await world.orders.load("o-1") is None


@awaited
async def test_tasks_that_share_pages_get_each_item_once(world: World) -> None:
    await world.orders.put_many({"order_id": f"o-{number}"} for number in range(6))
    pages, got = world.orders.scan(page_size=2), list[str]()

    async def take() -> None:
        async for order in pages:
            got.append(order["order_id"])
            await asyncio.sleep(0)

    await asyncio.gather(take(), take(), take())
    assert sorted(got) == [f"o-{number}" for number in range(6)]


@awaited
async def test_the_pages_example_does_what_it_says(world: World) -> None:
    [example] = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    names: dict[str, Any] = {"__name__": "page"}
    exec(example, names)
    airline = names["Airline"](world.client)
    await airline.accounts.save({"account_id": "ann", "balance": 100})
    await airline.flights.save({"flight_id": "TL1", "passengers": []})
    payment = {"payment_id": "p-1", "account_id": "ann", "amount": 40, "flight_id": "TL1"}
    assert await asyncio.gather(*(airline.pay(payment) for _ in range(3))) == ["paid"] * 3
    assert (await airline.accounts.get("ann"))["balance"] == 60
    [ticket] = sent(world)
    assert await asyncio.gather(*(airline.book(ticket) for _ in range(3))) == ["booked"] * 3
    await airline.close("TL1")
    assert [flight async for flight in airline.flights.scan()] == [
        {"flight_id": "TL1", "passengers": ["ann"], "closed": True, "version": 3}
    ]


def sent(world: World) -> list[Any]:
    """The messages of the functions' records, as a publisher sends them to queues."""
    bodies: list[Any] = []

    def sqs(call: Call) -> dict[str, Any]:
        bodies.extend(json.loads(entry["MessageBody"]) for entry in call.request["Entries"])
        return {"Successful": [{"Id": entry["Id"]} for entry in call.request["Entries"]]}

    world.engine.others["AmazonSQS"] = sqs
    context = SimpleNamespace(get_remaining_time_in_millis=lambda: 60_000)
    Publisher("dead", world.engine.client).publish({"Records": world.engine.stream_records("Records")}, context)
    return bodies


def test_without_aiobotocore_its_client_is_refused_with_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "aiobotocore.session", None)
    with pytest.raises(ModuleNotFoundError, match=r'needs aiobotocore: pip install "conditional-writes\[asyncio\]"'):
        asyncio.run(async_dynamodb_client().__aenter__())


@pytest.mark.skipif(get_session is None, reason="aiobotocore isn't installed")
def test_the_librarys_client_has_the_settings_of_the_one_that_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")

    async def settings() -> Any:
        async with async_dynamodb_client() as client:
            return client.meta.config

    awaited, blocking = asyncio.run(settings()), dynamodb_client().meta.config
    for name in ("retries", "connect_timeout", "read_timeout", "max_pool_connections"):
        assert getattr(awaited, name) == getattr(blocking, name)


@awaited
async def test_plans_and_upserts_are_awaited(world: World) -> None:
    first, second = key("Orders", order_id="o-1"), key("Orders", order_id="o-2")
    await write_together(world.client, [Put(first, {"lines": 1}), Put(second, {"lines": 2})])

    def plan(observed: Observed) -> Plan[int]:
        return Plan(len(observed), [Put(first, {"lines": 3})])

    deadline = Deadline.after(10)
    written = await write(world.client, plan, await read(world.client, [first, second], deadline), deadline)
    assert written.result == 2
    assert (await upsert(world.client, second, [MapEntry(("notes", "a"), "b")])).written == 1
    found = await read(world.client, [first, second], deadline)
    assert [(item or {}).get("lines") for item in found.values()] == [3, 2]


@awaited
async def test_a_function_runs_once(world: World) -> None:
    @AsyncExactlyOnce
    @exactly_once(Records(world.client, "Records"), key=lambda order: order["order_id"], prefix="place")
    def place(order: dict[str, Any], _: Observed) -> Plan[str]:
        return Plan(f"placed {order['order_id']}", [Put(key("Orders", **order), {"lines": 1})])

    ran = [await place.run({"order_id": "o-1"}) for _ in range(2)]
    assert ran == [("placed o-1", False), ("placed o-1", True)]
    assert await asyncio.gather(*(place({"order_id": "o-2"}) for _ in range(8))) == ["placed o-2"] * 8


def test_a_function_that_is_not_exactly_once_is_refused() -> None:
    function: Any = print
    with pytest.raises(TypeError, match="isn't exactly_once: AsyncExactlyOnce goes over"):
        AsyncExactlyOnce(function)


@awaited
async def test_a_lock_is_held_for_a_block_also_of_a_cancelled_task(world: World) -> None:
    locks, taken = AsyncLocks(world.client, "Locks"), asyncio.Event()

    async def work() -> None:
        async with locks.hold("nightly", lease_seconds=60) as lock:
            await lock.refresh(90)
            await lock.save_checkpoint({"at": 7})
            taken.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(work())
    await taken.wait()
    with pytest.raises(LockTaken):
        await locks.acquire("nightly", lease_seconds=60)
    task.cancel()
    await asyncio.wait([task])
    lock = await locks.acquire("nightly", lease_seconds=60)
    assert (lock.taken_over, lock.checkpoint) == (False, {"at": 7})
    await lock.release()
    async with locks.once("nightly", "2026-03-01", lease_seconds=60) as lock:
        assert lock.token > 0
    with pytest.raises(WindowDone):
        await locks.acquire("nightly", lease_seconds=60, window="2026-03-01")


@awaited
async def test_tasks_that_change_an_item_take_turns_and_refuse_each_other_nothing(world: World) -> None:
    await world.orders.save({"order_id": "o-1", "lines": 0})
    world.client.calls.clear()
    await asyncio.gather(*(world.orders.modify("o-1", change=one_more) for _ in range(50)))
    assert (await world.orders.get("o-1"))["lines"] == 50
    assert len(world.client.calls) == 2 * 50 + 1
    world.client.lost = {"get_item"}
    first = asyncio.create_task(world.orders.modify("o-1", change=one_more))
    await asyncio.sleep(0)
    with pytest.raises(DeadlinePassed, match="other tasks were first"):
        await world.orders.modify("o-1", change=one_more, deadline=Deadline.after(0.01))
    first.cancel()
    await asyncio.wait([first])


@pytest.mark.parametrize(
    ("lost", "is_unknown"), [("get_item", False), ("update_item", True), ("put_item", True)], ids=str
)
def test_a_cancelled_task_has_written_nothing_or_says_that_nobody_knows(lost: str, *, is_unknown: bool) -> None:
    @awaited
    async def test(world: World) -> None:
        await world.orders.save({"order_id": "o-1", "lines": 0})
        world.client.lost = {lost}
        orders = world.orders
        with pytest.raises(TimeoutError) as late:
            async with asyncio.timeout(0.05):
                await (
                    orders.save({"order_id": "o-2"}) if lost == "put_item" else orders.modify("o-1", change=one_more)
                )
        cancelled = late.value.__cause__
        assert isinstance(cancelled, asyncio.CancelledError)
        assert isinstance(cancelled.__cause__, OutcomeUnknown) is is_unknown
        world.client.lost = set()
        versions = [(order["order_id"], order["version"]) async for order in world.orders.scan()]
        assert len(versions) == 1 + (lost == "put_item")
        assert dict(versions)["o-1"] == 1 + (lost == "update_item")

    test()


def test_a_client_of_the_other_kind_is_refused_before_anything_is_sent() -> None:
    class OfAiobotocore(type(boto3.client("dynamodb", **REGION))):  # type: ignore[misc]
        async def _make_api_call(self, *_: object) -> Any:
            raise AssertionError

    client = boto3.client("dynamodb", **REGION)
    with pytest.raises(TypeError, match="the calls of this client block"):
        asyncio.run(AsyncVersionedTable(client, "Orders", "order_id").save({"order_id": "o-1"}))
    client.__class__ = OfAiobotocore
    with pytest.raises(TypeError, match="the calls of this client are awaited"):
        VersionedTable(client, "Orders", "order_id").save({"order_id": "o-1"})
