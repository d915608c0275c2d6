"""Every order of concurrent workers: what is found in a worker that isn't safe, and that all orders are tried."""

import asyncio
import contextlib
import itertools
import pickle
import random
import secrets
import threading
import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from math import comb
from typing import Any

import pytest
from botocore.exceptions import ClientError

from conditional_writes import OutcomeUnknown, VersionedTable
from conditional_writes.testing import (
    Engine,
    Explored,
    Fault,
    Outcome,
    Stuck,
    Violation,
    explore,
    exploring,
    replay,
    schedule,
)
from conditional_writes.testing.schedule import Choice
from conditional_writes.upserts import MapEntry
from tests.support.new_tables import definition

CLIENT = Engine().client()
"""Of all orders: it is slow to make."""


class Accounts(VersionedTable):
    def __init__(self, engine: Engine) -> None:
        self.client = engine.attach(CLIENT)
        self.client.create_table(**definition("Accounts", {"id": "S"}))
        super().__init__(self.client, "Accounts", "id")
        self.put("alice", 0)

    def put(self, account: str, balance: int) -> None:
        self.client.put_item(TableName="Accounts", Item={"id": {"S": account}, "balance": {"N": str(balance)}})

    def balance(self, account: str = "alice") -> int:
        found = self.client.get_item(TableName="Accounts", Key={"id": {"S": account}}, ConsistentRead=True)
        return int(found["Item"]["balance"]["N"])

    def touch(self, *accounts: str) -> None:
        for account in accounts:
            self.put(account, 1)

    def put_in_a_transaction(self, balance: int, *accounts: str) -> None:
        items = [{"id": {"S": account}, "balance": {"N": str(balance)}} for account in accounts]
        puts: Any = [{"Put": {"TableName": "Accounts", "Item": item}} for item in items]
        self.client.transact_write_items(TransactItems=puts)


def naive(accounts: Accounts) -> None:
    accounts.put("alice", accounts.balance() + 1)


def safe(accounts: Accounts) -> None:
    accounts.modify("alice", change=lambda account: account | {"balance": account["balance"] + 1})


def none_is_lost(accounts: Accounts, outcomes: list[Outcome]) -> None:
    done = sum(outcome.error is None for outcome in outcomes)
    unsure = sum(outcome.was_killed or isinstance(outcome.error, OutcomeUnknown) for outcome in outcomes)
    assert done <= accounts.balance() <= done + unsure


def seen(look: Callable[[Accounts, list[Outcome]], object], *workers: Any, **options: Any) -> set[Any]:
    """All that is seen after an order of the workers."""
    found = set()

    def check(accounts: Accounts, outcomes: list[Outcome]) -> None:
        found.add(look(accounts, outcomes))

    assert explored(*workers, check=check, **options).is_complete
    return found


def explored(*workers: Any, setup: Any = Accounts, check: Any = lambda *_: True, **options: Any) -> Explored:
    return explore(*workers, setup=setup, check=check, **options)


def test_a_lost_update_is_found_made_short_and_found_again_by_its_script() -> None:
    with pytest.raises(Violation) as found:
        explored(naive, naive, check=none_is_lost)
    assert len(found.value.script.split()) <= 2
    assert "GetItem Accounts alice" in str(found.value)
    assert str(pickle.loads(pickle.dumps(found.value))) == str(found.value)  # another process gets it
    for _ in range(5):
        with pytest.raises(Violation, match=found.value.why.split("\n")[0][:20]):
            replay(found.value.script, naive, naive, setup=Accounts, check=none_is_lost)
    assert len(replay("a a b b", naive, naive, setup=Accounts, check=none_is_lost)) == 2


@pytest.mark.parametrize("script", ["b c a", "a:explodes b", "a: b", ":lost", "A"])
def test_a_script_of_other_workers_or_faults_is_refused(script: str) -> None:
    """It would run another order, and find nothing."""
    with pytest.raises(ValueError, match=r"replay: .*: expected one of 2 workers from a on, and a fault"):
        replay(script, naive, naive, setup=Accounts, check=none_is_lost)


def test_upserts_have_learned_nothing_in_an_earlier_order() -> None:
    def worker(accounts: Accounts) -> None:
        accounts.upsert("bob", entries=[MapEntry(("seen", "device"), 1)])

    assert explored(worker, worker, faults=[Fault.LOST]).is_complete


def test_a_fault_that_is_none_is_refused() -> None:
    for faults in (Fault.LOST, ["explodes"]):  # a single one is a text, of letters
        with pytest.raises(ValueError, match="is not a valid Fault"):
            explored(naive, faults=faults)
    with pytest.raises(ValueError, match="most_faults: -1, expected 0 or more"):
        explored(naive, most_faults=-1)
    with pytest.raises(ValueError, match="expected a worker at least"):
        explored()


@pytest.mark.parametrize("calls", [1, 2, 3])
def test_all_orders_of_calls_of_one_item_are_tried(calls: int) -> None:
    both = [lambda accounts: accounts.touch(*["alice"] * calls)] * 2
    assert explored(*both, faults=()).orders == comb(2 * calls, calls)


def test_calls_that_touch_no_common_item_are_tried_in_one_order() -> None:
    def of(*names: str) -> Any:
        return lambda accounts: accounts.touch(*names)

    assert explored(of("a", "b"), of("c", "d"), of("e", "f"), faults=()).orders == 1
    assert explored(of("a", "x"), of("b", "x"), of("c", "x"), faults=()).orders == 6


def random_worker(chooser: random.Random, calls: int) -> Any:
    """Reads and writes two items, and what it writes depends on what it has read."""
    steps = [(chooser.choice(["get", "put"]), chooser.choice(["alice", "bob"])) for _ in range(calls)]

    def worker(accounts: Accounts) -> list[int]:
        read = [1]
        for step, account in steps:
            if step == "get":
                read.append(accounts.balance(account))
            else:
                accounts.put(account, sum(read) * 3 + len(read))
        return read

    return worker


@pytest.mark.parametrize(
    ("seed", "calls"), [(1, 2), *(pytest.param(seed, 3, marks=pytest.mark.exhaustive) for seed in range(3))]
)
def test_what_is_left_out_leads_to_no_other_end(seed: int, calls: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With and without the orders that are taken for the same: equal items and outcomes, and fewer orders."""
    chooser = random.Random(seed)
    workers = [random_worker(chooser, calls), random_worker(chooser, calls)]

    def ends() -> tuple[set[Any], int]:
        found = set()

        def check(accounts: Accounts, outcomes: list[Outcome]) -> None:
            values = tuple((str(outcome.value), type(outcome.error)) for outcome in outcomes)
            found.add((accounts.balance(), accounts.balance("bob"), values))

        def setup(engine: Engine) -> Accounts:
            accounts = Accounts(engine)
            accounts.put("bob", 5)
            return accounts

        tried = explore(*workers, setup=setup, check=check, faults=[Fault.KILLED_AFTER, Fault.LOST])
        assert tried.is_complete
        return found, tried.orders

    monkeypatch.setattr(exploring, "SAMPLED", 0)  # what is found by chance isn't asked here
    reduced, orders = ends()
    monkeypatch.setattr(Choice, "commutes_with", lambda *_: False)
    everything, all_orders = ends()
    assert reduced == everything
    assert orders < all_orders


def test_each_fault_strikes_each_call_once() -> None:
    def worker(accounts: Accounts) -> None:
        accounts.touch("alice", "alice")

    def error(_: object, outcomes: list[Outcome]) -> str:
        return type(outcomes[0].error).__name__

    faults = [seen(error, worker, faults=[fault], budget=1000) for fault in Fault]  # a batch alone can be torn: below
    assert set().union(*faults) == {"NoneType", "Killed"}


def test_a_delayed_write_takes_effect_late() -> None:
    def worker(accounts: Accounts) -> None:
        accounts.put("alice", 1)
        accounts.put("alice", 2)

    assert seen(lambda accounts, _: accounts.balance(), worker, faults=[Fault.DELAYED]) == {1, 2}


def test_a_batch_may_be_read_one_item_after_the_other() -> None:
    read_ones = set()

    def read(accounts: Accounts) -> None:
        wanted = {"Accounts": {"Keys": [{"id": {"S": name}} for name in ("alice", "bob")], "ConsistentRead": True}}
        found = accounts.client.batch_get_item(RequestItems=wanted)["Responses"]["Accounts"]
        read_ones.add(tuple(sorted((item["id"]["S"], item["balance"]["N"]) for item in found)))

    def write(accounts: Accounts) -> None:
        accounts.put_in_a_transaction(1, "alice", "bob")

    whole = {(("alice", "0"),), (("alice", "1"), ("bob", "1"))}
    assert explored(read, write, faults=()).is_complete
    assert read_ones == whole
    assert explored(read, write, faults=[Fault.TORN]).is_complete
    assert read_ones == {*whole, (("alice", "0"), ("bob", "1"))}
    read_ones.clear()
    assert explored(read, write, faults=[Fault.TORN_BACK]).is_complete
    assert read_ones == {*whole, (("alice", "1"),)}


@pytest.mark.parametrize("back", [False, True])
def test_a_batch_may_be_interrupted_between_any_two_items(back: bool) -> None:
    """The writer makes one after the other larger. A reader that takes them from the last one on can't tell."""
    names = ["alice", "bob", "carol"]

    def read(accounts: Accounts) -> list[int]:
        wanted = {"Accounts": {"Keys": [{"id": {"S": name}} for name in names], "ConsistentRead": True}}
        found = accounts.client.batch_get_item(RequestItems=wanted)["Responses"]["Accounts"]
        values = {item["id"]["S"]: int(item["balance"]["N"]) for item in found}
        return [values.get(name, 0) for name in names]

    def write(accounts: Accounts) -> None:
        accounts.touch("bob", "carol")

    read_ones = seen(
        lambda _, outcomes: tuple(outcomes[0].value), read, write, faults=[Fault.TORN_BACK if back else Fault.TORN]
    )
    torn = set() if back else {(0, 0, 1)}
    assert read_ones == {(0, 0, 0), (0, 1, 0), (0, 1, 1), *torn}


def test_a_scan_may_come_to_items_one_after_the_other_and_has_all_of_them() -> None:
    def scanned(accounts: Accounts, **request: Any) -> dict[str, Any]:
        found: dict[str, Any] = accounts.client.scan(TableName="Accounts", ConsistentRead=True, **request)
        return {name: found[name] for name in ("Items", "Count", "ScannedCount", "LastEvaluatedKey") if name in found}

    def read(accounts: Accounts) -> str:
        by_name = {
            "FilterExpression": "#i <> :a",
            "ExpressionAttributeNames": {"#i": "id"},
            "ExpressionAttributeValues": {":a": {"S": "alice"}},
        }
        requests: list[dict[str, Any]] = [{}, {"Limit": 2}, {"Select": "COUNT"}, by_name]
        return str([scanned(accounts, **request) for request in requests])

    def setup(engine: Engine) -> Accounts:
        accounts = Accounts(engine)
        accounts.touch("bob", "carol")
        return accounts

    def write(accounts: Accounts) -> None:
        accounts.put_in_a_transaction(9, "alice", "bob")

    def total(accounts: Accounts) -> int:
        return sum(int(item["balance"]["N"]) for item in scanned(accounts)["Items"])

    def answer(_: Accounts, outcomes: list[Outcome]) -> Any:
        return outcomes[0].value

    assert len(seen(answer, read, setup=setup, faults=[Fault.TORN])) == 1
    assert seen(answer, total, write, setup=setup, faults=[]) == {2, 19}
    assert seen(answer, total, write, setup=setup, faults=[Fault.TORN]) > {2, 19}


def test_an_item_of_a_batch_may_be_left_unprocessed() -> None:
    def write(accounts: Accounts) -> None:
        items = [{"id": {"S": name}, "balance": {"N": "1"}} for name in ("alice", "bob")]
        accounts.client.batch_write_item(RequestItems={"Accounts": [{"PutRequest": {"Item": item}} for item in items]})

    def read(accounts: Accounts, _: object) -> tuple[int, int]:
        wanted = {"Accounts": {"Keys": [{"id": {"S": name}} for name in ("alice", "bob")]}}
        answer = accounts.client.batch_get_item(RequestItems=wanted)
        return len(answer["Responses"]["Accounts"]), sum(
            len(each["Keys"]) for each in answer["UnprocessedKeys"].values()
        )

    assert seen(read, write, faults=[Fault.UNPROCESSED]) == {(1, 0), (2, 0)}

    def both(accounts: Accounts) -> tuple[int, int]:
        return read(accounts, None)

    assert seen(lambda _, outcomes: outcomes[0].value, both, faults=[Fault.UNPROCESSED]) == {(1, 0), (1, 1)}


def test_a_transaction_of_reads_conflicts_with_a_write() -> None:
    codes = set()

    def read(accounts: Accounts) -> None:
        try:
            accounts.client.transact_get_items(
                TransactItems=[{"Get": {"TableName": "Accounts", "Key": {"id": {"S": "alice"}}}}]
            )
        except ClientError as error:
            codes.add(error.response["Error"]["Code"])

    explored(read, lambda accounts: accounts.touch("alice"), faults=[Fault.CONFLICT])
    assert codes == {"TransactionCanceledException"}


def test_while_a_client_waits_for_a_lost_answer_a_lease_may_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """The two workers read and write no common item before that."""
    monkeypatch.setattr(exploring, "SAMPLED", 0)
    client = Engine().client(retries={"total_max_attempts": 1})

    def holder(accounts: Accounts) -> None:
        accounts.touch("bob")
        accounts.put("alice", 1)

    def taker(accounts: Accounts) -> None:
        client.get_item(TableName="Accounts", Key={"id": {"S": "lease"}})
        if time.monotonic() > 30:
            accounts.put("alice", 2)

    def setup(engine: Engine) -> Accounts:
        engine.attach(client)
        return Accounts(engine)

    found = seen(lambda accounts, _: accounts.balance(), holder, taker, setup=setup, faults=[Fault.LOST])
    assert found == {1, 2}


def test_writes_that_are_delayed_together_all_take_effect() -> None:
    def add(accounts: Accounts) -> None:
        accounts.client.update_item(
            TableName="Accounts",
            Key={"id": {"S": "alice"}},
            UpdateExpression="ADD balance :one",
            ExpressionAttributeValues={":one": {"N": "1"}},
        )

    def all_five(accounts: Accounts, _: object) -> None:
        assert accounts.balance() == 5  # two that were delayed and tried again, and one of them once more

    replay("a:delayed b:delayed a' b:delayed b", add, add, setup=Accounts, check=all_five)


def test_transactions_that_meet_conflict_and_a_delayed_one_is_still_in_progress() -> None:
    codes: set[str] = set()

    def worker(accounts: Accounts) -> None:
        put = {"TableName": "Accounts", "Item": {"id": {"S": "alice"}, "balance": {"N": "1"}}}
        try:
            accounts.client.transact_write_items(TransactItems=[{"Put": put}])
        except ClientError as error:
            codes.add(error.response["Error"]["Code"])
            raise

    explored(worker, worker)
    assert codes == {"TransactionCanceledException", "TransactionInProgressException"}


def test_pauses_cost_nothing_and_let_the_others_go_on() -> None:
    def patient(accounts: Accounts) -> float:
        began = time.monotonic()
        while accounts.balance() != 1 and time.monotonic() - began < 3600:
            time.sleep(1200)
        return time.monotonic() - began

    def waited(_: object, outcomes: list[Outcome]) -> float:
        return round(outcomes[0].value, -2)

    assert seen(waited, patient, lambda accounts: accounts.touch("alice"), faults=()) == {0, 1200, 2400, 3600}


def test_timers_of_an_event_loop_are_pauses() -> None:
    async def patient(accounts: Accounts) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(1200):
                await asyncio.sleep(3600)
        naive(accounts)

    def worker(accounts: Accounts) -> float:
        before = accounts.balance(), time.monotonic()
        asyncio.run(patient(accounts))
        return round(time.monotonic() - before[1], -2)

    waited = set()

    def check(accounts: Accounts, outcomes: list[Outcome]) -> None:
        waited.update(outcome.value for outcome in outcomes)
        none_is_lost(accounts, outcomes)

    with pytest.raises(Violation, match="its pause is over"):
        explored(worker, worker, check=check, faults=())
    assert 1200 in waited


def test_the_code_of_a_killed_process_has_no_outcome_of_its_own() -> None:
    async def twice(accounts: Accounts) -> list[Any]:
        async def touch() -> None:
            accounts.touch("alice")

        return await asyncio.gather(touch(), touch(), return_exceptions=True)

    def check(_: Accounts, outcomes: list[Outcome]) -> None:
        assert outcomes[0].was_killed or outcomes[0].value == [None, None]

    assert explored(lambda accounts: asyncio.run(twice(accounts)), check=check, faults=[Fault.KILLED_AFTER]).is_complete


def test_threads_of_a_workers_pool_are_scheduled_and_die_with_it() -> None:
    def worker(accounts: Accounts) -> list[int]:
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(accounts.touch, ["alice", "alice"]))
            return [accounts.balance()]

    def end(accounts: Accounts, outcomes: list[Outcome]) -> tuple[bool, int]:
        return outcomes[0].was_killed, accounts.balance()

    assert seen(end, worker, faults=[Fault.KILLED_AFTER]) == {(False, 1), (True, 1)}


def test_a_pool_has_no_more_threads_than_it_was_made_with() -> None:
    """Two additions, one after the other, are sound. Each thread is set up before its first call."""
    begun = threading.local()

    def begin(number: int) -> None:
        begun.number = number

    def worker(accounts: Accounts) -> None:
        with ThreadPoolExecutor(1, initializer=begin, initargs=(1,)) as pool:
            for future in [pool.submit(add, accounts) for _ in range(2)]:
                future.result()

    def add(accounts: Accounts) -> None:
        accounts.put("alice", accounts.balance() + begun.number)

    assert seen(lambda accounts, _: accounts.balance(), worker, faults=()) == {2}

    def broken(accounts: Accounts) -> None:
        with ThreadPoolExecutor(1, initializer=begin) as pool:
            assert isinstance(pool.submit(add, accounts).exception(), TypeError)
        accounts.touch("alice")

    assert seen(lambda _, outcomes: outcomes[0].error, broken, faults=()) == {None}


def test_chance_is_the_same_in_each_order() -> None:
    def worker(accounts: Accounts) -> None:
        accounts.touch("alice", secrets.choice(["bob", "carol", "dave", "erin"]), str(uuid.uuid4()))

    def names(accounts: Accounts, _: object) -> tuple[str, ...]:
        return tuple(sorted(item["id"]["S"] for item in accounts.client.scan(TableName="Accounts")["Items"]))

    assert len(seen(names, worker, faults=[Fault.THROTTLED])) == 1


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (lambda accounts: accounts.client.execute_statement(Statement="SELECT * FROM Accounts"), NotImplementedError),
        (lambda _: threading.Thread(target=print).start(), Stuck),
    ],
    ids=["a call", "a thread"],
)
def test_an_order_that_the_engine_cannot_make_is_none_though_the_worker_goes_on(call: Any, expected: Any) -> None:
    def worker(accounts: Accounts) -> None:
        accounts.touch("alice")
        with contextlib.suppress(Exception):
            call(accounts)

    with pytest.raises(expected):
        explored(worker, faults=())


def test_a_violation_is_told_though_a_shorter_order_would_never_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedule, "MAXIMUM_STEPS", 60)

    def waits(accounts: Accounts) -> None:
        while not accounts.balance():
            time.sleep(1)

    def check(accounts: Accounts, outcomes: list[Outcome]) -> None:
        if outcomes[1].was_killed:
            pytest.fail("killed")

    with pytest.raises(Violation, match="Failed: killed"):
        explored(waits, lambda accounts: accounts.touch("alice", "bob"), check=check, faults=[Fault.KILLED_AFTER])


async def awaited(_: object, __: object = None) -> None: ...


@pytest.mark.parametrize(
    ("worker", "sentence"),
    [
        (lambda _: threading.Thread(target=print).start(), "a thread of its own"),
        (lambda _: [time.sleep(1) for _ in itertools.count()], "a has paused 2000 times, without a call"),
        (awaited, "would have to be awaited"),
        (lambda accounts: accounts.touhc("alice"), "a made no call of the engine.* AttributeError"),
        (lambda _: (yield), "or iterated over"),
        (lambda: None, "too many positional arguments: expected a function of what `setup` returns"),
        (None, "None is not a callable object"),
    ],
)
def test_a_worker_that_no_order_can_be_tried_of_is_refused_whatever_the_check_says(worker: Any, sentence: str) -> None:
    with pytest.raises(Stuck, match=sentence):
        explored(worker, check=lambda *_: None)


def test_a_worker_that_is_stuck_may_end_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """An error of its thread would be one of another test."""
    monkeypatch.setattr(schedule, "STUCK_SECONDS", 0.1)
    lock = threading.Lock()

    def worker(accounts: Accounts) -> None:
        with lock:
            accounts.touch("alice", "alice")

    with pytest.raises(Stuck, match="waits for something other than DynamoDB"):
        explored(worker, worker)
    for thread in threading.enumerate():
        if thread.name in {"a", "b"}:
            thread.join(30)


def test_a_check_or_set_up_that_would_have_to_be_awaited_is_refused() -> None:
    with pytest.raises(Stuck, match="would have to be awaited"):
        explored(safe, check=awaited)
    with pytest.raises(Stuck, match="would have to be awaited"):
        explore(safe, setup=awaited, check=lambda *_: None)


def test_a_budget_ends_the_search() -> None:
    tried = explored(*[lambda accounts: accounts.touch(*["alice"] * 4)] * 2, budget=20)
    assert tried.orders == 20
    assert not tried.is_complete
