"""Large items of refused writes: read without botocore, with the same result, and by few threads at a time."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from botocore.exceptions import ClientError
from hypothesis import given
from hypothesis import strategies as st

from conditional_writes import DeadlinePassed, Item, Observed, OutcomeUnknown, Plan, Put, absent, key, write
from conditional_writes.core import steps
from conditional_writes.core.items import from_dynamodb, to_dynamodb
from conditional_writes.core.steps import LARGE_BYTES, MAXIMUM_THREADS
from tests.support.clock import plenty
from tests.support.numbers import exact_numbers
from tests.support.strategies import nested
from tests.unit.stubs import Answering

FIRST, SECOND = key("Profiles", account_id="alice"), key("Profiles", account_id="bob")
LARGE = {"account_id": "alice", "notes": "x" * LARGE_BYTES}


@pytest.fixture(autouse=True)
def turns(monkeypatch: pytest.MonkeyPatch) -> threading.Semaphore:
    turns = threading.Semaphore(MAXIMUM_THREADS)
    monkeypatch.setattr(steps, "_turns", turns)
    return turns


@pytest.fixture
def botocore_reads_no_item(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: object) -> Item:
        pytest.fail("botocore has read a large item")

    monkeypatch.setattr(steps, "from_dynamodb", refuse)


def error(code: str, **fields: Any) -> tuple[int, dict[str, Any]]:
    return 400, {"__type": f"com.amazonaws.dynamodb.v20120810#{code}"} | fields


def refusal(item: Item | None) -> tuple[int, dict[str, Any]]:
    item_field = {} if item is None else {"Item": to_dynamodb(item)}
    return error("ConditionalCheckFailedException", Message="The conditional request failed", **item_field)


def cancellation(*items: Item | None) -> tuple[int, dict[str, Any]]:
    failed = [None if item is None else {"Item": to_dynamodb(item)} for item in items]
    reasons = [{"Code": "ConditionalCheckFailed"} | each if each else {"Code": "None"} for each in failed]
    return error("TransactionCanceledException", Message="Transaction cancelled", CancellationReasons=reasons)


def put_unless(*found: Any) -> Callable[[Observed], Plan[list[Item | None]]]:
    """Puts two items, or one, until one was found. The result is what was found."""
    keys = [FIRST, SECOND][: len(found) or 1]

    def plan(observed: Observed) -> Plan[list[Item | None]]:
        if observed:
            return Plan([observed.get(each) for each in keys])
        return Plan([], [Put(each, {}, absent("account_id")) for each in keys])

    return plan


def test_a_turn_ends_with_its_write_however_it_ends(turns: threading.Semaphore) -> None:
    def failing(observed: Observed) -> Plan[None]:
        if observed:
            raise RuntimeError("the plan has failed")
        return Plan(None, [Put(FIRST, {}, absent("account_id"))])

    with pytest.raises(RuntimeError, match="the plan has failed"):
        write(Answering(refusal(LARGE)).client, failing, {}, plenty())
    assert write(Answering(refusal(LARGE)).client, put_unless(), {}, plenty()).result == [LARGE]
    assert turns._value == MAXIMUM_THREADS


@pytest.mark.usefixtures("botocore_reads_no_item")
def test_botocore_never_sees_a_large_item() -> None:
    """If this fails after an update of botocore: what is read is right, but it takes much memory. Mend `register`."""
    assert write(Answering(refusal(LARGE)).client, put_unless(), {}, plenty()).result == [LARGE]
    answers = Answering(cancellation(None, LARGE))
    assert write(answers.client, put_unless(None, LARGE), {}, plenty()).result == [None, LARGE]


names = st.sampled_from(["S", "N", "B", "M", "L", "SS", "NULL", "BOOL", "Code", "Item", "Message", "__type"]) | st.text(
    st.characters(codec="utf-8"), min_size=1
)
texts = st.text(st.characters(codec="utf-8"))
scalars = st.none() | st.booleans() | texts | exact_numbers() | st.just(0) | st.binary()
sets = st.one_of(*(st.sets(each, min_size=1, max_size=3) for each in (texts, exact_numbers(), st.binary())))
items = st.dictionaries(names, nested(scalars | sets, names, 3, max_leaves=10), max_size=5)
ANSWERING = Answering()
"""One for all examples: making a client takes long."""


@given(items)
def test_any_item_is_read_as_botocore_reads_it(item: Item) -> None:
    found = {"account_id": "alice"} | item
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(steps, "LARGE_BYTES", 0)
        patched.setattr(steps, "from_dynamodb", None)
        ANSWERING.answers = [cancellation(None, found)]
        read = write(ANSWERING.client, put_unless(None, found), {}, plenty()).result
    assert read == [None, from_dynamodb(to_dynamodb(found))]


def test_a_callers_own_request_is_left_alone() -> None:
    answers = Answering((200, {}), refusal(LARGE))
    write(answers.client, put_unless(), {}, plenty())
    with pytest.raises(ClientError) as refused:
        answers.client.put_item(TableName="Profiles", Item=to_dynamodb(LARGE))
    assert refused.value.response["Item"] == to_dynamodb(LARGE)


def test_few_threads_have_large_items_at_a_time() -> None:
    have, most, waiting = set[int](), list[int](), threading.Barrier(MAXIMUM_THREADS)

    def plan(observed: Observed) -> Plan[None]:
        if FIRST not in observed:
            return Plan(None, [Put(FIRST, {}, absent("account_id"))])
        have.add(threading.get_ident())
        waiting.wait(60)  # as many as may have one do have one
        most.append(len(have))
        waiting.wait(60)
        have.remove(threading.get_ident())
        return Plan(None)

    def write_one(_: int) -> None:
        write(Answering(refusal(LARGE)).client, plan, {}, plenty())

    with ThreadPoolExecutor(4 * MAXIMUM_THREADS) as pool:
        list(pool.map(write_one, range(4 * MAXIMUM_THREADS)))
    assert most == [MAXIMUM_THREADS] * 4 * MAXIMUM_THREADS


@pytest.fixture
def others_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other threads have large items, as many as may, until the deadline."""
    now = [1000.0]

    def wait(timeout: float) -> bool:
        now[0] += timeout
        return False

    monkeypatch.setattr(steps._turns, "acquire", wait)
    monkeypatch.setattr("time.monotonic", lambda: now[0])


@pytest.mark.usefixtures("others_turn")
def test_at_the_deadline_nothing_was_written_unless_a_first_try_got_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("botocore.endpoint.time.sleep", lambda _: None)
    with pytest.raises(DeadlinePassed):
        write(Answering(refusal(LARGE)).client, put_unless(), {}, plenty())
    with pytest.raises(OutcomeUnknown):
        write(Answering((500, {}), refusal(LARGE)).client, put_unless(), {}, plenty())
