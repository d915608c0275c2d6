"""Exactly-once functions, by plain functions and by Powertools' configuration."""

import re
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from aws_lambda_powertools.utilities.idempotency import DynamoDBPersistenceLayer, IdempotencyConfig, idempotent_function
from aws_lambda_powertools.utilities.idempotency.exceptions import (
    IdempotencyAlreadyInProgressError,
    IdempotencyKeyError,
    IdempotencyValidationError,
)

from conditional_writes import (
    Deadline,
    DeadlinePassed,
    Key,
    Observed,
    OutcomeUnknown,
    Plan,
    Put,
    Update,
    VersionedItem,
    at_least,
)
from conditional_writes.core.unconditional import found_by_table
from conditional_writes.exactly_once import PayloadChanged, Ran, ToQueue, exactly_once
from tests.support.faults import Fault, Faults, Killed, unlimited_retries
from tests.support.paying import Tables, Unfunded, Way, Worker, payment
from tools.local_aws.meter import Meter
from tools.local_aws.server import Endpoint

READ, COMMIT = "BatchGetItem", "TransactWriteItems"
MANY = 8

pytestmark = pytest.mark.usefixtures("driver")


@pytest.fixture(params=Way, ids=lambda way: way.name.lower())
def way(request: pytest.FixtureRequest) -> Way:
    return Way(request.param)


@pytest.fixture
def tables(dynamodb: Endpoint) -> Tables:
    tables = Tables(dynamodb)
    tables.open_account()
    return tables


@pytest.fixture
def worker(tables: Tables, way: Way) -> Worker:
    return Worker(tables, way)


@pytest.fixture
def unseeing(tables: Tables, way: Way) -> Worker:
    """Its function is given no items."""
    return Worker(tables, way, items=False)


# --- once, and again --------------------------------------------------------------------------------------


def test_a_second_call_has_the_first_ones_result_and_writes_nothing(worker: Worker) -> None:
    first = worker.pay.run(payment())
    assert first == Ran({"balance": "70", "paid": 30}, replayed=False)
    assert worker.calls == [READ, COMMIT]
    assert worker.pay.run(payment()) == Ran(first.result, replayed=True)
    assert worker.pay(payment()) == first.result
    assert worker.calls == [READ, COMMIT, READ, READ]
    assert worker.pay(payment(2)) == {"balance": "40", "paid": 30}
    assert worker.tables.balances() == {"alice": 40}
    assert worker.tables.paid() == ["p-1", "p-2"]


def test_without_items_nothing_is_read_and_the_refused_transaction_has_the_record(unseeing: Worker) -> None:
    assert unseeing.pay.run(payment()) == Ran({"paid": 30}, replayed=False)
    assert unseeing.pay.run(payment()) == Ran({"paid": 30}, replayed=True)
    assert unseeing.calls == [COMMIT, COMMIT]
    assert unseeing.tables.balances() == {"alice": 70}


@pytest.mark.parametrize("result", [None, False, "", {}, [], {"a": {"b": None}}])
def test_a_result_without_writes_is_recorded_by_one_put_and_replayed_as_it_was(worker: Worker, result: Any) -> None:
    decide = worker.once(worker.way, lambda request, observed: Plan(result), items=False)
    with Faults(Fault.RESPONSE_LOST, at=1).on(worker.client):
        assert decide.run(payment()) == Ran(result, replayed=False)
    assert decide.run(payment()) == Ran(result, replayed=True)
    assert worker.calls == ["PutItem", "PutItem"]


def test_a_result_of_dynamodbs_own_types_is_the_same_at_once_and_later(tables: Tables) -> None:
    result = {"int": 1, "decimal": Decimal("1.50"), "bytes": b"\x00", "set": {"a", "b"}, "tuple": (1, None), "no": {}}

    @exactly_once(Worker(tables).records, key=lambda request: request, prefix="decide")
    def decide(request: str, observed: Observed) -> Plan[dict[str, Any]]:
        return Plan(result)

    first, again = decide.run("a"), decide.run("a")
    assert first.result == again.result == result | {"tuple": [1, None]}
    assert type(first.result["int"]) is type(again.result["int"]) is Decimal
    assert (first.replayed, again.replayed) == (False, True)
    first.result["no"]["changed"] = 1
    assert result["no"] == {}


def test_powertools_results_are_json_at_once_and_later(tables: Tables) -> None:
    worker = Worker(tables, Way.POWERTOOLS)
    decide = worker.once(worker.way, lambda request, observed: Plan({"sum": Decimal("1.50"), "n": (1,)}), items=False)
    assert decide(payment()) == decide(payment()) == {"sum": "1.50", "n": [1]}


# --- another payload, an error, a conflict ------------------------------------------------------------------


def test_the_key_with_another_payload_is_refused(worker: Worker) -> None:
    worker.pay(payment())
    with pytest.raises(PayloadChanged, match=r"was used before, with another .*amount") as caught:
        worker.pay(payment(amount=31))
    assert isinstance(caught.value, IdempotencyValidationError) == (worker.way is Way.POWERTOOLS)
    assert worker.tables.balances() == {"alice": 70}


def test_the_fields_that_differ_are_named(tables: Tables) -> None:
    worker = Worker(tables)
    worker.pay(payment(note="rent", by="card"))
    with pytest.raises(PayloadChanged, match="with another amount, by, note") as caught:
        worker.pay(payment(amount=31, by="cash"))
    assert caught.value.fields == ("amount", "by", "note")
    assert "rent" not in repr(tables.record())


def test_only_the_payload_has_to_be_the_same(tables: Tables) -> None:
    worker = Worker(tables)
    pay = exactly_once(
        worker.records,
        key=lambda payment: payment["payment_id"],
        items=lambda payment: [worker.accounts.key(payment["account_id"])],
        payload=lambda payment: payment["amount"],
    )(worker.pay.plan)
    pay(payment(sent_at="12:00"))
    assert pay.run(payment(sent_at="12:01")).replayed
    with pytest.raises(PayloadChanged, match="another payload"):
        pay(payment(amount=31))


def test_a_function_that_raises_records_nothing(worker: Worker) -> None:
    with pytest.raises(Unfunded):
        worker.pay(payment(amount=101))
    assert worker.tables.items(worker.tables.records) == []
    worker.accounts.save(worker.accounts.load("alice") | {"balance": 200})  # type: ignore[operator]
    assert worker.pay(payment(amount=101)) == {"balance": "99", "paid": 101}


def test_a_function_without_items_is_given_the_item_whose_condition_was_false(unseeing: Worker) -> None:
    key, seen = unseeing.accounts.key("alice"), list[Any]()

    def debit(request: dict[str, Any], observed: Observed) -> Plan[Any]:
        seen.append(dict(observed))
        if key in observed:
            return Plan("refused")
        return Plan("paid", [Update(key, {}, at_least("balance", 101), added={"balance": -101})])

    pay = unseeing.once(unseeing.way, debit, items=False)
    assert pay.run(payment()) == Ran("refused", replayed=False)
    assert pay.run(payment()) == Ran("refused", replayed=True)
    assert [list(each) for each in seen] == [[], [key], []]


def test_after_a_conflict_on_an_item_it_is_planned_again(worker: Worker) -> None:
    other = Worker(worker.tables, worker.way)
    with worker.before_writing(lambda: other.pay(payment(2, amount=20))):
        assert worker.pay.run(payment()) == Ran({"balance": "50", "paid": 30}, replayed=False)
    assert worker.calls == [READ, COMMIT, COMMIT]


def test_a_request_that_was_done_while_its_items_were_read_is_replayed_and_no_error(worker: Worker) -> None:
    """The record was read before the other's commit, the account after it: there seems to be too little."""
    other = Worker(worker.tables, worker.way)

    def pay_and_look_again(**_: Any) -> None:
        if not other.calls:
            other.pay(payment(amount=100))

    worker.client.meta.events.register("before-call.dynamodb.BatchGetItem", pay_and_look_again)
    hide_records(worker)
    assert worker.pay.run(payment(amount=100)) == Ran({"balance": "0", "paid": 100}, replayed=True)
    assert worker.calls == [READ, COMMIT]


def test_a_condition_that_is_false_since_the_request_was_done_is_no_error(tables: Tables, way: Way) -> None:
    worker = Worker(tables, way)

    def pay_if_there_is_enough(request: dict[str, Any], observed: Observed) -> Plan[Any]:
        found = VersionedItem(observed[worker.accounts.key("alice")] or {})
        spent = found | {"balance": found["balance"] - request["amount"]}
        return Plan("paid", [worker.accounts.saving(spent, when=at_least("balance", request["amount"]))])

    pay = worker.once(way, pay_if_there_is_enough, items=True)
    pay(payment(amount=100))
    hide_records(worker)
    worker.calls.clear()
    assert pay.run(payment(amount=100)) == Ran("paid", replayed=True)
    assert worker.calls == [READ, COMMIT, COMMIT]


def hide_records(worker: Worker) -> None:
    """The worker's batch reads find no records: those were made since."""

    def hide(parsed: dict[str, Any], **_: Any) -> None:
        found: Any = found_by_table(parsed)  # the answer's own
        found.pop(worker.tables.records, None)

    worker.client.meta.events.register("after-call.dynamodb.BatchGetItem", hide)


def test_many_workers_with_one_key_do_it_once_and_have_one_result(tables: Tables, way: Way) -> None:
    def pay(_: int) -> Ran[Any]:
        return Worker(tables, way).pay.run(payment(), deadline=Deadline.after(60))

    with ThreadPoolExecutor(MANY) as pool:
        ran = list(pool.map(pay, range(MANY)))
    assert [result for result, _ in ran] == [{"balance": "70", "paid": 30}] * MANY
    assert sorted(replayed for _, replayed in ran) == [False] + [True] * (MANY - 1)
    assert (tables.balances(), tables.paid()) == ({"alice": 70}, ["p-1"])


def test_after_an_unknown_outcome_the_next_call_tells(worker: Worker) -> None:
    with (
        Faults(Fault.ALL_IN_PROGRESS, at=1).on(worker.client) as faults,
        pytest.raises(OutcomeUnknown, match=worker.tables.records),
    ):
        worker.pay(payment(), deadline=Closing(lambda: faults.injected))
    assert worker.pay.run(payment()) == Ran({"balance": "70", "paid": 30}, replayed=True)


class Closing(Deadline):
    """A deadline that passes when this is true."""

    is_over: Callable[[], object]

    def __new__(cls, is_over: Callable[[], object]) -> "Closing":
        closing = super().__new__(cls, 0.0)
        closing.is_over = is_over
        return closing

    @property
    def remaining_seconds(self) -> float:
        return -1.0 if self.is_over() else 5.0


# --- expired records ------------------------------------------------------------------------------------


def test_after_its_expiry_a_key_is_new_whether_or_not_its_record_is_still_there(worker: Worker) -> None:
    worker.pay(payment())
    record = worker.tables.record()
    assert record["status"] == "COMPLETED"  # Earlier versions refuse one without.
    assert timedelta(0) < timedelta(seconds=int(record["expiration"]) - time.time()) <= timedelta(days=30)
    worker.plant(record | {"expiration": int(time.time()) - 1})
    worker.payments.delete(worker.payments.load("p-1") or {})
    assert worker.pay.run(payment()) == Ran({"balance": "40", "paid": 30}, replayed=False)
    assert worker.pay.run(payment()) == Ran({"balance": "40", "paid": 30}, replayed=True)
    assert worker.tables.record()["expiration"] > time.time()


def test_a_record_that_expires_between_the_read_and_the_write_is_replaced(unseeing: Worker) -> None:
    decide = unseeing.once(unseeing.way, lambda request, observed: Plan(len(unseeing.calls)), items=False)
    assert decide.run(payment()) == Ran(0, replayed=False)
    unseeing.plant(unseeing.tables.record() | {"expiration": 1})
    unseeing.calls.clear()
    assert decide.run(payment()) == Ran(0, replayed=False)
    assert unseeing.calls == ["PutItem"]


# --- what a function may be -------------------------------------------------------------------------------


def test_a_function_that_changes_its_request_and_its_items_is_given_the_same_again(tables: Tables, way: Way) -> None:
    worker, other = Worker(tables, way), Worker(tables, way)
    seen: list[Any] = []

    def pay(request: dict[str, Any], observed: Observed) -> Plan[Any]:
        account: Any
        [account] = observed.values()
        request["amount"] //= 2
        planned = worker.pay.plan(request, observed)
        seen.append((request["amount"], account["balance"]))
        account["balance"] = account["version"] = 0
        return planned

    request = payment(amount=40)
    with worker.before_writing(lambda: other.pay(payment(2))):
        worker.once(way, pay, items=True)(request)
    assert seen == [(20, 100), (20, 70)]
    assert request == payment(amount=40)


def test_callables_that_change_the_request_are_given_copies(tables: Tables) -> None:
    worker = Worker(tables)

    def key(request: dict[str, Any]) -> str:
        return str(request.pop("payment_id"))

    def items(request: dict[str, Any]) -> list[Key]:
        request["amount"] = 0
        return [worker.accounts.key(request["account_id"])]

    request = payment()
    pay = exactly_once(worker.records, key=key, items=items, prefix="pay")(worker.pay.plan)
    assert pay(request) == {"balance": "70", "paid": 30}
    assert request == payment()


def test_if_nobody_can_say_whether_the_request_was_done_meanwhile_that_is_raised_from_the_functions_error(
    worker: Worker,
) -> None:
    raised: list[Unfunded] = []

    def refuse(request: dict[str, Any], observed: Observed) -> Plan[Any]:
        raised.append(Unfunded("p-1"))
        raise raised[0]

    with pytest.raises(DeadlinePassed) as caught:
        worker.once(worker.way, refuse, items=True).run(payment(), deadline=Closing(lambda: raised))
    assert caught.value.__cause__ is raised[0]


def test_a_function_within_another_has_a_record_and_a_transaction_of_its_own(tables: Tables, way: Way) -> None:
    worker, other = Worker(tables, way), Worker(tables, way)

    def order(request: dict[str, Any], observed: Observed) -> Plan[Any]:
        paid = worker.pay.run(request)
        return Plan({"replayed": paid.replayed}, [Put(worker.payments.key("order"), {}, None)])

    ordering = worker.once(way, order, items=False)
    with Faults(Fault.KILLED_BEFORE, at=3).on(worker.client) as faults, pytest.raises(Killed):
        ordering(payment())
    assert faults.injected
    assert tables.paid() == ["p-1"]
    assert ordering(payment()) == {"replayed": True}
    assert ordering.run(payment()) == Ran({"replayed": True}, replayed=True)
    assert (tables.balances(), tables.paid()) == ({"alice": 70}, ["order", "p-1"])
    assert other.pay.run(payment()).replayed


def test_ninety_nine_writes_and_the_record_are_one_transaction_and_a_hundred_are_too_many(unseeing: Worker) -> None:
    def many(request: dict[str, Any], observed: Observed) -> Plan[Any]:
        return Plan("done", [Put(unseeing.payments.key(f"n-{n}"), {}) for n in range(request["amount"])])

    write_many = unseeing.once(unseeing.way, many, items=False)
    with pytest.raises(ValueError, match=r"many: 100 writes and the record: .* may have 99"):
        write_many(payment(amount=100))
    assert write_many.run(payment(amount=99)) == Ran("done", replayed=False)
    assert len(unseeing.tables.paid()) == 99


def test_a_result_that_no_item_has_room_for_is_refused_and_nothing_is_written(unseeing: Worker) -> None:
    length = 409_600

    def much(request: Any, observed: Observed) -> Plan[Any]:
        return Plan("x" * length, [Put(unseeing.payments.key("p"), {})])

    pay = unseeing.once(unseeing.way, much, items=False)
    with pytest.raises(ValueError, match=r"id='.*': the record with its result and messages has") as refused:
        pay(payment())
    [size] = re.findall(r"has ([\d,]+) bytes", str(refused.value))
    length -= int(size.replace(",", "")) - 409_600 - 1
    with pytest.raises(ValueError, match="has 409,601 bytes, and an item has room for 409,600"):
        pay(payment())
    assert unseeing.tables.paid() == []
    length -= 1
    assert pay.run(payment()).result == "x" * length


def test_a_result_that_cannot_be_recorded_is_refused_and_nothing_is_written(tables: Tables) -> None:
    worker = Worker(tables)
    planned = Plan({"rate": 0.1}, [Put(worker.payments.key("p"), {})])
    with pytest.raises(TypeError, match=r"result\.rate: 0\.1 is a float"):
        worker.once(Way.PLAIN, lambda request, observed: planned, items=False)(payment())
    assert tables.paid() == []


def test_a_request_without_a_key_is_refused(tables: Tables) -> None:
    with pytest.raises(IdempotencyKeyError):
        Worker(tables, Way.POWERTOOLS).pay({"account_id": "alice", "amount": 1})
    with pytest.raises(KeyError):
        Worker(tables).pay({"account_id": "alice", "amount": 1})
    assert tables.balances() == {"alice": 100}


def test_it_costs_so_many_requests_and_units(worker: Worker, unseeing: Worker) -> None:
    """Items of up to 1 KB. A refused transaction has the units of all its items. The figures of exactly-once.md."""
    meter = Meter(worker.client, unseeing.client)

    def cost(call: Callable[[], object]) -> tuple[int, float, float]:
        meter.reset()
        call()
        return meter.requests.total(), meter.read_units, meter.write_units

    missing = 0 if "Jetty" in server_of(worker) else 1  # DynamoDB Local doesn't count the read of a missing record
    assert cost(lambda: worker.pay(payment())) == (2, 1 + missing, 6)
    assert cost(lambda: worker.pay(payment())) == (1, 2, 0)
    telling = unseeing.once(
        unseeing.way,
        lambda request, observed: unseeing.pay.plan(request, observed)._replace(
            messages=[ToQueue(f"https://sqs.eu-central-1.amazonaws.com/123456789012/{'n' * 80}", {"note": "x" * 300})]
        ),
        items=False,
    )
    assert cost(lambda: unseeing.pay(payment(2))) == (1, 0, 6)
    assert cost(lambda: unseeing.pay(payment(2))) == (1, 0, 6)
    assert cost(lambda: telling(payment(7, amount=1))) == (1, 0, 6)  # the message is in the record
    assert cost(lambda: worker.pay(payment(3, amount=0))) == (2, 1 + missing, 1)
    other = Worker(worker.tables, worker.way)
    with worker.before_writing(lambda: other.pay(payment(5, amount=1))):
        assert cost(lambda: worker.pay(payment(4, amount=1))) == (3, 1 + missing, 12)

    def raise_unfunded() -> None:
        with pytest.raises(Unfunded):
            worker.pay(payment(6, amount=1000))

    assert cost(raise_unfunded) == (2, 1 + missing, 2)


def server_of(worker: Worker) -> str:
    answer = worker.client.list_tables()
    worker.calls.clear()
    return str(answer["ResponseMetadata"]["HTTPHeaders"].get("server", ""))


# --- beside stock Powertools --------------------------------------------------------------------------------


def stock_of(worker: Worker, config: IdempotencyConfig, run: Callable[[dict[str, Any]], Any]) -> Callable[[Any], Any]:
    """Stock Powertools' function with the same table, configuration and prefix."""
    layer = DynamoDBPersistenceLayer(table_name=worker.tables.records, boto3_client=worker.client)

    def pay(*, request: dict[str, Any]) -> Any:
        return run(request)

    once = idempotent_function(
        pay, data_keyword_argument="request", persistence_store=layer, config=config, key_prefix="pay"
    )
    return lambda request: once(request=request)


def ours_of(worker: Worker, config: IdempotencyConfig) -> Any:
    return exactly_once(worker.records, config=config, items=worker.pay._items, prefix="pay")(worker.pay.plan)


def new_config(milliseconds: int = 60_000) -> IdempotencyConfig:
    config = IdempotencyConfig(event_key_jmespath="payment_id", payload_validation_jmespath="amount")
    config.register_lambda_context(Context(milliseconds))  # type: ignore[arg-type]
    return config


class Context:
    """Lambda's context of an invocation with so much time left."""

    def __init__(self, milliseconds: int = 60_000) -> None:
        self.milliseconds = milliseconds

    def get_remaining_time_in_millis(self) -> int:
        return self.milliseconds


@pytest.fixture
def both(tables: Tables) -> Worker:
    return Worker(tables, Way.POWERTOOLS)


def test_a_record_of_stock_powertools_is_replayed_and_ours_by_stock(both: Worker) -> None:
    config, ran = new_config(), list[Any]()
    stock = stock_of(both, config, lambda request: ran.append(request) or {"by": "stock"})
    ours = ours_of(both, config)
    assert stock(payment(1)) == {"by": "stock"}
    both.plant(both.tables.record() | {"in_progress_expiration": 1})  # Stock leaves it there.
    assert ours.run(payment(1)) == Ran({"by": "stock"}, replayed=True)
    assert ours(payment(2)) == {"balance": "70", "paid": 30}
    assert stock(payment(2)) == {"balance": "70", "paid": 30}
    assert len(ran) == 1
    with pytest.raises(IdempotencyValidationError):
        stock(payment(2, amount=31))
    with pytest.raises(PayloadChanged, match="with another amount"):
        ours(payment(1, amount=31))


@pytest.mark.parametrize("items", [True, False])
def test_a_record_in_progress_of_stock_powertools_is_respected_until_its_function_timed_out(
    tables: Tables, *, items: bool
) -> None:
    both = Worker(tables, Way.POWERTOOLS, items=items)
    config, ours = new_config(), ours_of(both, new_config())

    def meanwhile(request: dict[str, Any]) -> str:
        with pytest.raises(IdempotencyAlreadyInProgressError):
            ours(request)
        raise Killed

    with pytest.raises(Killed):
        stock_of(both, config, meanwhile)(payment())
    record = tables.record()
    for unfinished in (record, {name: value for name, value in record.items() if name != "in_progress_expiration"}):
        both.plant(unfinished)
        with pytest.raises(IdempotencyAlreadyInProgressError):
            ours(payment())
    both.plant(record | {"in_progress_expiration": int(time.time() * 1000) - 1})
    assert not ours.run(payment()).replayed
    assert tables.balances() == {"alice": 70}


def test_a_configuration_with_a_local_cache_replays_nothing_that_was_refused(both: Worker) -> None:
    config = IdempotencyConfig(event_key_jmespath="payment_id", use_local_cache=True)
    ours, other = ours_of(both, config), Worker(both.tables)
    with both.before_writing(lambda: other.pay(payment(2))):
        assert ours.run(payment()) == Ran({"balance": "40", "paid": 30}, replayed=False)
    assert both.tables.paid() == ["p-1", "p-2"]
    for record in both.tables.items(both.tables.records):
        assert not {"validation", "messages"} & record.keys(), "without either there is none"


def test_a_record_of_the_other_way_is_no_record(tables: Tables) -> None:
    worker = Worker(tables, Way.POWERTOOLS)
    worker.pay(payment())
    record = tables.record()
    prefix, _, hashed = record["id"].partition("#")
    plain = exactly_once(worker.records, key=lambda request: hashed, prefix=prefix)(worker.pay.plan)
    with pytest.raises(ValueError, match="is no record of an exactly-once function with `key`"):
        plain(payment())
    worker.plant({name: value for name, value in record.items() if name not in {"data", "expiration"}})
    with pytest.raises(ValueError, match="is no record of Powertools'"):
        worker.pay(payment())


# --- a process that dies, with stock Powertools and with ours -------------------------------------------------


def stock(tables: Tables) -> Worker:
    """Debits and makes the payment's item inside stock Powertools' idempotent function.

    No time is left: its record in progress is over in the next millisecond.
    """
    worker = Worker(tables)

    def debit_and_pay(request: dict[str, Any]) -> dict[str, int]:
        worker.client.update_item(
            TableName=tables.accounts,
            Key={"account_id": {"S": request["account_id"]}},
            UpdateExpression="ADD balance :amount",
            ExpressionAttributeValues={":amount": {"N": str(-request["amount"])}},
        )
        item = {"payment_id": {"S": request["payment_id"]}}
        worker.client.put_item(TableName=tables.payments, Item=item)
        return {"paid": request["amount"]}

    worker.pay = stock_of(worker, new_config(milliseconds=0), debit_and_pay)  # type: ignore[assignment]
    return worker


@pytest.mark.parametrize(
    ("fault", "at", "times"),
    [
        *((Fault.KILLED_BEFORE, at, 1 if at < 3 else 2) for at in (1, 2, 3, 4)),
        *((Fault.KILLED_AFTER, at, 2 if at in {2, 3} else 1) for at in (1, 2, 3, 4)),
        (Fault.RESPONSE_LOST, 2, 2),
    ],
)
def test_stock_powertools_debits_twice_if_the_process_dies_between_the_debit_and_the_completed_record(
    tables: Tables, fault: Fault, at: int, times: int
) -> None:
    """The table of powertools-lambda-python #801. The request is delivered until it has its answer."""
    worker = stock(tables)
    with Faults(fault, at).on(worker.client) as faults, unlimited_retries():
        for _ in range(3):
            faults.revive()
            try:
                assert worker.pay(payment())["paid"] == 30
            except Killed:
                time.sleep(0.01)  # Powertools' record in progress is over in the next millisecond
    assert faults.injected[fault] == 1
    assert (tables.balances(), tables.paid()) == ({"alice": 100 - 30 * times}, ["p-1"])


def test_stock_powertools_makes_the_calls_that_the_table_says(tables: Tables) -> None:
    """The record in progress, the debit, the payment, the completed record; and again. Ours are at the top."""
    worker = stock(tables)
    assert worker.pay(payment()) == worker.pay(payment())
    assert worker.calls == ["PutItem", "UpdateItem"] * 2 + ["PutItem"]
