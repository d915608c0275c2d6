"""Pacing: a thread leaves the other writers of an item as much time as they took since its own last write."""

import pytest

from conditional_writes import Deadline, VersionedTable, key
from conditional_writes.core.items import to_dynamodb
from conditional_writes.core.steps import blocking, steps
from conditional_writes.versioned import pacing
from conditional_writes.versioned.pacing import LONGEST_WAIT_SECONDS, MAXIMUM_ITEMS, ROUND_TRIPS, Pace
from tests.support.clock import plenty
from tests.unit.stubs import Stubbed
from tests.unit.test_loop import Clock

ORDER = key("Orders", order_id="o-1")
ROUND_TRIP = 0.01


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock(step_seconds=0)
    monkeypatch.setattr("time.sleep", clock.sleep)
    monkeypatch.setattr("time.monotonic", clock.monotonic)
    return clock


@pytest.mark.parametrize(
    ("writes", "round_trips"),
    [
        ([(7, 0)], 0),
        ([(7, 3)], 3),
        ([(7, 3), (13, 0)], 5),
        ([(7, 3), (1, 0)], 0),
        ([(7, 1_000)], LONGEST_WAIT_SECONDS / ROUND_TRIP / ROUND_TRIPS),
    ],
    ids=["met nobody", "conflicts", "versions of others", "made anew", "a second at most"],
)
def test_at_first_the_conflicts_tell_how_many_others_there_are(
    clock: Clock, writes: list[tuple[int, int]], round_trips: float
) -> None:
    """Each write is of a version, and after so many conflicts."""
    pace = Pace()
    for version, conflicts in writes:
        pace.note(ORDER, version, conflicts, ROUND_TRIP)
    pace.wait(ORDER, plenty())
    assert sum(clock.pauses) / ROUND_TRIP == pytest.approx(round_trips * ROUND_TRIPS)


def test_no_wait_takes_more_than_half_of_the_time_that_is_left(clock: Clock) -> None:
    pace = Pace()
    pace.note(ORDER, 7, 50, ROUND_TRIP)
    assert pace.wait(ORDER, Deadline.after(0.1))
    assert clock.pauses == [pytest.approx(0.05)]
    assert pace.wait(ORDER, Deadline.after(-1))
    assert len(clock.pauses) == 1


def test_a_thread_remembers_the_items_that_were_contended_last() -> None:
    pace = Pace()
    for number in range(MAXIMUM_ITEMS + 1):
        pace.note(key("Orders", order_id=f"o-{number}"), 7, 1, ROUND_TRIP)
    assert not pace.wait(key("Orders", order_id="o-0"), plenty())
    assert pace.wait(key("Orders", order_id="o-1"), plenty())


def at(version: int) -> dict[str, object]:
    return {"order_id": "o-1", "count": 0, "version": version, "cw:version_id": "another writer's"}


def test_modify_waits_before_it_reads_again(dynamodb: Stubbed, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second `modify` meets four conflicts without a pause: a paced writer steps aside later."""
    orders = VersionedTable(dynamodb.client, "Orders", "order_id")
    log: list[str] = []
    wait = steps(pacing.Pace.wait)
    monkeypatch.setattr(pacing.Pace, "wait", blocking(lambda *given: log.append("wait") or wait(*given)))
    dynamodb.client.meta.events.register("before-parameter-build", lambda model, **_: log.append(model.name))
    for before, *others in ([7, 8], [12, 13, 14, 15, 16]):
        dynamodb.answers("get_item", {"Item": to_dynamodb(at(before))})
        for version in others:
            dynamodb.fails_condition("update_item", at(version))
        dynamodb.answers("update_item")
    monkeypatch.setattr("conditional_writes.core.loop.random.uniform", lambda *_: pytest.fail("has stepped aside"))
    for _ in range(2):
        orders.modify("o-1", change=lambda order: order | {"count": 1})
    assert log == ["wait", "GetItem", *["UpdateItem"] * 2, "wait", "GetItem", *["UpdateItem"] * 5]
    assert orders._pace._last[orders.key("o-1")].version == 17
