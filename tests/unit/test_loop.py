"""The loop, with stubbed answers of AWS: its writes, and the items from which it plans again."""

import uuid
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any
from unittest import mock

import pytest
from botocore.exceptions import ClientError, ReadTimeoutError

from conditional_writes import (
    Check,
    Deadline,
    DeadlinePassed,
    Delete,
    Item,
    Observed,
    OutcomeUnknown,
    Plan,
    Put,
    Stopped,
    UnsatisfiableCondition,
    Update,
    Write,
    absent,
    at_least,
    key,
    version_is,
    write,
    write_together,
)
from conditional_writes.core.items import to_dynamodb
from conditional_writes.core.loop import LONGEST_PAUSE_SECONDS
from conditional_writes.core.requests import replacing, version_condition
from tests.support.clock import plenty
from tests.unit.stubs import Stubbed

COUNTER, EVENT = key("Counters", counter_id="c-1"), key("Events", event_id="e-1")
FIRST_ID, SECOND_ID = (uuid.UUID(int=number).hex for number in (1, 2))
NO_ERROR = {"Code": "None"}
TIMING = pytest.mark.parametrize("code", ["TransactionConflict", "ThrottlingError", "ProvisionedThroughputExceeded"])
IN_PROGRESS = ("transact_write_items", "TransactionInProgressException")


def count_up(observed: Observed) -> Plan[int]:
    """Counts an item's version up. The result is the new version."""
    counter = observed[COUNTER]
    if counter is None:
        return Plan(1, [Put(COUNTER, {"version": 1}, absent("counter_id"))])
    version = int(counter["version"])
    return Plan(version + 1, [Update(COUNTER, {"version": version + 1}, version_is(version))])


def count_up_once(observed: Observed) -> Plan[int]:
    return count_up(observed)._replace(once=True)


def count_event(observed: Observed) -> Plan[int | str]:
    """Changes two items: a counter, and the event that it counts once."""
    if observed.get(EVENT):
        return Plan("counted before")
    counted = count_up(observed)
    return Plan(counted.result, [*counted.writes, Put(EVENT, {"counted": True}, absent("event_id"))])


def at(version: int, write_id: str = "another writer's") -> Item:
    return {"counter_id": "c-1", "version": version, "cw:write_id": write_id}


def failed(item: Item | None) -> dict[str, Any]:
    """The cancellation reason of a write whose condition failed on this item."""
    return {"Code": "ConditionalCheckFailed"} | ({"Item": to_dynamodb(item)} if item else {})


def counted(dynamodb: Stubbed, plan: Callable[..., Plan[Any]] = count_up, deadline: Deadline | None = None) -> Any:
    """The result of the plan that is made from version 7."""
    return write(dynamodb.client, plan, {COUNTER: at(7)}, deadline or plenty())


@pytest.fixture(autouse=True)
def write_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes write ids predictable: FIRST_ID for the first plan, SECOND_ID for the second, …"""
    numbers = iter(range(1, 1000))
    monkeypatch.setattr("conditional_writes.core.loop.uuid.uuid4", lambda: uuid.UUID(int=next(numbers)))


class Clock:
    """A clock that each reading moves on by `step_seconds`. Pauses take no real time and are recorded."""

    def __init__(self, step_seconds: float) -> None:
        self.now, self.step_seconds = 0.0, step_seconds
        self.pauses: list[float] = []

    def monotonic(self) -> float:
        self.now += self.step_seconds
        return self.now

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock(step_seconds=0.01)
    monkeypatch.setattr("conditional_writes.core.loop.time.sleep", clock.sleep)
    monkeypatch.setattr("conditional_writes.core.loop.time.monotonic", clock.monotonic)
    return clock


@pytest.fixture
def longest_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes each random pause the longest possible one."""
    monkeypatch.setattr("conditional_writes.core.loop.random.uniform", lambda shortest, longest: longest)


def test_a_loop_that_is_stopped_by_what_came_back_makes_no_other_plan(dynamodb: Stubbed) -> None:
    dynamodb.cancels(NO_ERROR, failed({"event_id": "e-1"}))
    dynamodb.cancels(failed(at(8)), NO_ERROR)
    plans: list[Observed] = []

    def plan(observed: Observed) -> Plan[int]:
        plans.append(observed)
        return Plan(1, [*count_up(observed).writes, Put(EVENT, {}, absent("event_id"))])

    stopped = write(dynamodb.client, plan, {COUNTER: at(7)}, plenty(), stop=lambda found: COUNTER in found)
    observed = {COUNTER: at(8), EVENT: {"event_id": "e-1"}}
    assert stopped == Stopped(2, {COUNTER: at(8)}, observed)
    assert len(plans) == 2


@TIMING
def test_if_the_timing_was_bad_the_same_is_sent_with_a_fresh_token(dynamodb: Stubbed, clock: Clock, code: str) -> None:
    """DynamoDB could repeat the cancellation for the old token. The mark is the plan's, and the plan is the same.

    After one that was throttled there is a pause.
    """
    plans = iter([count_event])
    dynamodb.cancels({"Code": code}, NO_ERROR)
    dynamodb.answers("transact_write_items")
    assert counted(dynamodb, next(plans))[:2] == (8, 1)
    first, again = dynamodb.parameters
    assert (first["ClientRequestToken"], again["ClientRequestToken"]) == (FIRST_ID, SECOND_ID)
    assert again["TransactItems"] == first["TransactItems"]
    assert len(clock.pauses) == (code != "TransactionConflict")


@TIMING
def test_a_cancellation_after_a_try_without_an_answer_leaves_the_token_as_it_is(dynamodb: Stubbed, code: str) -> None:
    """The first try may be on its way still. With another token it could take effect beside the next."""
    dynamodb.first_fails()
    dynamodb.cancels({"Code": code}, NO_ERROR)
    dynamodb.cancels({"Code": code}, NO_ERROR)
    dynamodb.answers("transact_write_items")
    assert counted(dynamodb, count_event)[:2] == (8, 2)
    tokens = [sent["ClientRequestToken"] for sent in dynamodb.parameters]
    assert tokens == [FIRST_ID, FIRST_ID, FIRST_ID]


@pytest.mark.parametrize(
    ("reason", "written", "last_token"),
    [({"Code": "TransactionConflict"}, 8, FIRST_ID), (failed(at(9)), 10, SECOND_ID)],
    ids=["cancelled", "refused"],
)
def test_after_a_transaction_in_progress_the_next_plan_alone_has_a_fresh_token(
    dynamodb: Stubbed, reason: dict[str, Any], written: int, last_token: str
) -> None:
    """A cancellation for the timing is one try's alone: the one in progress may end otherwise."""
    dynamodb.refuses(*IN_PROGRESS)
    dynamodb.cancels(reason, NO_ERROR)
    dynamodb.answers("transact_write_items")
    assert counted(dynamodb, count_event)[:2] == (written, 1)
    assert [sent["ClientRequestToken"] for sent in dynamodb.parameters] == [FIRST_ID, FIRST_ID, last_token]


@pytest.mark.usefixtures("longest_pauses")
def test_at_the_deadline_a_transaction_in_progress_is_unknown(dynamodb: Stubbed) -> None:
    for _ in range(3):
        dynamodb.refuses(*IN_PROGRESS)
    with pytest.raises(OutcomeUnknown, match="no time is left for another") as unknown:
        counted(dynamodb, count_event, Deadline.after(2))
    assert (unknown.value.key, unknown.value.found) == (COUNTER, None)
    dynamodb.forgets_the_rest()


@pytest.mark.parametrize("silence", [None, 500, 503])
def test_at_the_deadline_a_cancellation_after_silence_is_unknown(dynamodb: Stubbed, silence: int | None) -> None:
    dynamodb.first_fails(silence)
    dynamodb.cancels({"Code": "TransactionConflict"}, NO_ERROR)
    with pytest.raises(OutcomeUnknown):
        counted(dynamodb, count_event, Deadline.after(0.04))


@pytest.mark.parametrize("silence", [None, 429, 500, 503])
def test_an_unanswered_single_write_is_unknown_once_others_have_written(dynamodb: Stubbed, silence: int | None) -> None:
    """Each of these answers is none: the write may have taken effect."""
    dynamodb.first_fails(silence)
    dynamodb.fails_condition("update_item", at(9))
    with pytest.raises(OutcomeUnknown, match="others have written since"):
        counted(dynamodb, count_up_once)


def test_a_write_that_is_never_planned_again_is_unknown_if_a_try_got_no_answer(dynamodb: Stubbed) -> None:
    dynamodb.first_fails()
    dynamodb.fails_condition("delete_item", at(9))
    with pytest.raises(OutcomeUnknown, match="others have written since"):
        write_together(dynamodb.client, [Delete(COUNTER, version_is(8))])


def test_a_single_write_without_an_answer_stays_so_and_finds_its_own_effect_later(dynamodb: Stubbed) -> None:
    """A later conflict with a transaction says nothing of the first try."""
    dynamodb.first_fails()
    for _ in range(2):
        dynamodb.refuses("update_item", "TransactionConflictException")
    dynamodb.fails_condition("update_item", at(8, FIRST_ID))
    assert counted(dynamodb, count_up_once)[:2] == (8, 2)
    dynamodb.first_fails()
    dynamodb.refuses("update_item", "TransactionConflictException")
    dynamodb.refuses("update_item", "TransactionConflictException")
    with pytest.raises(OutcomeUnknown, match="no time is left for another"):
        counted(dynamodb, count_up_once, Deadline.after(0.07))


def test_what_no_plan_can_mend_is_raised(dynamodb: Stubbed) -> None:
    codes = ("ValidationException", "AccessDeniedException", "ResourceNotFoundException", "ThrottlingException")
    for code in codes:
        dynamodb.refuses("update_item", code)
        with pytest.raises(ClientError, match=code):
            counted(dynamodb)
    for code in ("ValidationError", "ItemCollectionSizeLimitExceeded", "AccessDenied"):
        dynamodb.cancels(failed(at(9)), {"Code": code})
        with pytest.raises(ClientError, match="TransactionCanceledException"):
            counted(dynamodb, count_event)


def test_an_error_after_a_try_without_an_answer_leaves_the_outcome_unknown(dynamodb: Stubbed) -> None:
    for plan, operation in ((count_up, "update_item"), (count_event, "transact_write_items")):
        dynamodb.first_fails()
        dynamodb.refuses(operation, "ValidationException")
        with pytest.raises(OutcomeUnknown, match="another ended in An error occurred"):
            counted(dynamodb, plan)
    dynamodb.first_fails()
    dynamodb.refuses("update_item", "TransactionConflictException")
    dynamodb.refuses("update_item", "ValidationException")
    with pytest.raises(OutcomeUnknown, match="another ended in An error occurred"):
        counted(dynamodb)


def versioned(version: int | None, version_id: str = "a") -> Item:
    return {"counter_id": "c-1"} | ({"version": version, "cw:version_id": version_id} if version else {})


def saving(before: int | None) -> Write:
    return replacing(COUNTER, None if before is None else versioned(before), versioned((before or 0) + 1))


def deleting(before: int) -> Write:
    expected, condition = version_condition(COUNTER, versioned(before), "version")
    return Delete(COUNTER, condition, expected)


@pytest.mark.parametrize(
    ("refused", "found", "was_never_made"),
    [
        (saving(None), versioned(1), True),
        (saving(None), versioned(None), True),
        (saving(None), versioned(2), False),
        (saving(7), versioned(7, "a"), True),
        (saving(7), versioned(7, "b"), False),
        (saving(7), versioned(8, "b"), True),
        (saving(7), versioned(9, "b"), False),
        (saving(0), versioned(None), True),
        (saving(0), versioned(1, "b"), True),
        (saving(0), versioned(2, "b"), False),
        (deleting(7), versioned(7, "a"), True),
        (deleting(7), versioned(7, "b"), False),
        (deleting(7), versioned(8, "b"), True),
        (deleting(7), versioned(6, "b"), False),
        (deleting(7), versioned(7) | {"version": "a text"}, False),
        (deleting(7), None, False),
        (deleting(0), versioned(None), False),
        (deleting(0), versioned(1, "b"), False),
    ],
)
def test_a_write_without_an_answer_is_planned_again_if_the_version_shows_that_it_was_never_made(
    dynamodb: Stubbed, refused: Write, found: Item | None, *, was_never_made: bool
) -> None:
    """Versions have no gaps, and a deleted item begins anew."""
    dynamodb.first_fails()
    dynamodb.fails_condition({Put: "put_item", Update: "update_item", Delete: "delete_item"}[type(refused)], found)
    with nullcontext() if was_never_made else pytest.raises(OutcomeUnknown):
        written = write(dynamodb.client, lambda seen: Plan("seen", [] if seen else [refused]), {}, plenty())
        assert written[:2] == ("seen", 1)
    assert not [sent for sent in dynamodb.parameters if "ReturnValues" in sent], "nobody needs the item"


def test_an_error_that_is_no_answer_is_raised_as_it_is(dynamodb: Stubbed, monkeypatch: pytest.MonkeyPatch) -> None:
    late = mock.Mock(side_effect=ReadTimeoutError(endpoint_url="DynamoDB"))
    monkeypatch.setattr(dynamodb.client, "update_item", late)
    with pytest.raises(ReadTimeoutError) as raised:
        counted(dynamodb)
    assert raised.value.__cause__ is None


@pytest.mark.parametrize("was_answered", [True, False])
def test_an_interrupted_call_says_whether_a_write_may_have_taken_effect(
    dynamodb: Stubbed, monkeypatch: pytest.MonkeyPatch, *, was_answered: bool
) -> None:
    def interrupt(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("conditional_writes.core.loop.time.sleep", interrupt)
    if not was_answered:
        dynamodb.first_fails()
    for _ in range(2):
        dynamodb.refuses("update_item", "TransactionConflictException")
    with pytest.raises(KeyboardInterrupt) as raised:
        counted(dynamodb)
    assert isinstance(raised.value.__cause__, OutcomeUnknown) is not was_answered


def test_a_plan_that_is_refused_by_the_item_it_was_made_from_is_not_sent_again(dynamodb: Stubbed) -> None:
    def forget_the_stock(observed: Observed) -> Plan[int]:
        """Plans the same writes for any item found."""
        counted = count_up(observed)
        return Plan(counted.result, [*counted.writes, Check(EVENT, at_least("stock", 3))])

    for _ in range(2):
        dynamodb.cancels(NO_ERROR, failed({"event_id": "e-1", "stock": 1}))
    with pytest.raises(UnsatisfiableCondition, match="Events event_id='e-1': the plan's condition") as never:
        counted(dynamodb, forget_the_stock)
    assert (never.value.key, never.value.found) == (EVENT, {"event_id": "e-1", "stock": 1})


def test_a_plan_from_a_bool_is_made_again_from_the_number_that_python_takes_for_the_same(dynamodb: Stubbed) -> None:
    dynamodb.fails_condition("update_item", at(7) | {"on": 1})
    dynamodb.answers("update_item")
    assert write(dynamodb.client, count_up, {COUNTER: at(7) | {"on": True}}, plenty())[:2] == (8, 1)


def test_nor_is_one_that_needs_an_item_where_there_is_none(dynamodb: Stubbed) -> None:
    dynamodb.fails_condition("update_item")
    plan: Plan[int] = Plan(0, [Update(COUNTER, {"version": 8}, version_is(7))])
    with pytest.raises(UnsatisfiableCondition, match="and there is no such item"):
        write(dynamodb.client, lambda _: plan, {COUNTER: None}, plenty())


def test_a_writer_who_always_loses_fails_at_the_deadline(dynamodb: Stubbed, clock: Clock) -> None:
    lost = iter(range(1, 1000))
    deadline = Deadline.after(5)

    def lose_again(observed: Observed) -> Plan[int]:
        dynamodb.fails_condition("update_item", at(7 + next(lost)))
        return count_up(observed)

    with pytest.raises(DeadlinePassed, match="conflicts"):
        counted(dynamodb, lose_again, deadline)
    assert 3 <= len(dynamodb.requests) < 1000
    assert clock.now < deadline.at + 0.1
    dynamodb.forgets_the_rest()


def lose(stubbed: Stubbed, times: int) -> None:
    """Another writer is first this many times, and then the write takes effect."""
    for version in range(8, 8 + times):
        stubbed.fails_condition("update_item", at(version))
    stubbed.answers("update_item")


@pytest.mark.usefixtures("longest_pauses")
@pytest.mark.parametrize(
    ("times", "pauses"), [(0, 0), (1, 0), (2, 1), (5, 1), (6, 2), (11, 2), (12, 3), (19, 3), (20, 4)]
)
def test_one_who_lost_tries_again_at_once_and_steps_aside_the_less_often_the_longer_it_lost(
    dynamodb: Stubbed, clock: Clock, times: int, pauses: int
) -> None:
    lose(dynamodb, times)
    assert counted(dynamodb)[:2] == (8 + times, times)
    assert len([pause for pause in clock.pauses if pause > 0]) == pauses


@pytest.mark.usefixtures("longest_pauses")
@pytest.mark.parametrize(("request_seconds", "pause_seconds"), [(0.01, 0.64), (10, LONGEST_PAUSE_SECONDS)])
def test_a_pause_is_at_most_64_times_as_long_as_the_request_and_no_longer_than_a_second(
    dynamodb: Stubbed, clock: Clock, request_seconds: float, pause_seconds: float
) -> None:
    clock.step_seconds = request_seconds
    lose(dynamodb, 2)
    counted(dynamodb)
    assert clock.pauses == [pytest.approx(pause_seconds)]


@pytest.mark.usefixtures("longest_pauses")
def test_no_pause_outlasts_the_deadline(dynamodb: Stubbed, clock: Clock) -> None:
    clock.step_seconds = 0.05
    deadline = Deadline.after(0.4)
    dynamodb.refuses("update_item", "TransactionConflictException")
    dynamodb.refuses("update_item", "TransactionConflictException")
    with pytest.raises(DeadlinePassed):
        counted(dynamodb, count_up, deadline)
    assert 0 < clock.pauses[0] < 0.4
