"""Runs in segments on both engines: nothing is lost or doubled, and each scheduled time has one report."""

import itertools
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from functools import partial
from typing import Any

import pytest

from tests.support.faults import Fault, Faults, Killed
from tests.support.job_service import EVENT, FIRST, NO_TIME, SECOND, THIRD, JobService, fail
from tools.local_aws.server import Endpoint
from workers import scheduled_jobs as jobs
from workers.job_events import InvalidEvent
from workers.scheduled_jobs import UNRESOLVED
from workers.segments import MOST_SEGMENTS

STEPS = 2


@pytest.fixture
def service(dynamodb: Endpoint, monkeypatch: pytest.MonkeyPatch) -> Callable[..., JobService]:
    return partial(JobService, dynamodb, monkeypatch)


type Made = Callable[..., JobService]


@pytest.mark.parametrize(("segments", "seconds"), [(1, 60), (4, 60), (MOST_SEGMENTS, 60), (1, NO_TIME), (4, NO_TIME)])
def test_the_report_has_what_each_segment_did_and_one_invocation_is_done(
    service: Made, segments: int, seconds: float
) -> None:
    function = service(segments)
    function.timeout_seconds = seconds
    function.deliver_all()
    function.assert_done_once(segments)
    continued = (segments if segments > 1 else 0) + (segments if seconds == NO_TIME else 0)
    assert Counter(function.outcomes) == Counter(Continued=continued, Done=1)
    assert function.invoke() == "DoneBefore"
    function.assert_done_once(segments)


@pytest.mark.parametrize("segments", [1, 4])
def test_the_locks_table_has_the_run_its_parts_and_the_locks(service: Made, segments: int) -> None:
    function = service(segments)
    function.deliver_all()
    names = [f"segment {number} of {segments}" for number in range(1, segments + 1)]
    records = function.records()
    locks = [f"count {name}" for name in names] if segments > 1 else ["count"]
    assert records.keys() == {f"count {FIRST}", *locks, *(f"count {FIRST} {name}" for name in names)}
    run = records[f"count {FIRST}"]
    assert run.keys() == {"segments", "steps", "finished_at", "expires_at", "cw:write_id"}
    assert run["segments"] == segments
    assert 399.9 < (float(run["expires_at"]) - function.clock.seconds) / 24 / 3600 <= 400
    assert all(records[name]["windows_done"] == [FIRST] for name in locks)
    parts = [records[f"count {FIRST} {name}"] for name in names]
    assert [len(part["part"]["steps"]) for part in parts] == [STEPS] * segments
    assert all(part["expires_at"] <= run["expires_at"] for part in parts)


@pytest.mark.parametrize("segments", [1, 4])
def test_the_requests_of_a_run_are_as_documented(service: Made, segments: int) -> None:
    """Beside those of its steps. docs/jobs.md has the table."""
    function, calls = service(segments), Counter[str]()
    function.before_call = lambda operation: calls.update([operation])
    function.deliver_all()
    assert calls == {
        "PutItem": 1 if segments == 1 else segments + 1,
        "UpdateItem": segments + segments * (STEPS - 1) + 1,
        "TransactWriteItems": segments,
        "BatchGetItem": segments,
    }


@pytest.mark.parametrize("segments", [1, 2])
@pytest.mark.parametrize("fault", [Fault.KILLED_BEFORE, Fault.KILLED_AFTER, Fault.ALL_RESPONSES_LOST])
def test_killed_at_any_call_the_run_is_finished_once(service: Made, segments: int, fault: Fault) -> None:
    """The last case has a call that is never made, so all calls were tried."""
    for at in itertools.count(1):
        function, faults = service(segments), Faults(fault, at)
        with faults.on(function.client):
            function.deliver_all(faults=faults)
        assert len(function.reported()) == segments * STEPS, at
        assert function.outcomes.count("Done") <= 1, at
        before = function.records()
        function.end_of_lease()
        assert function.invoke() == "DoneBefore"
        assert function.records() == before
        if len(faults.calls) < at:
            break
    assert at > 5 * segments
    function.assert_done_once(segments)


@pytest.mark.parametrize("after", [False, True], ids=["before it", "after it"])
@pytest.mark.parametrize("at", [1, 2, 4, 5, 8])
def test_killed_at_an_invocation_of_itself_it_loses_no_segment(
    service: Made, monkeypatch: pytest.MonkeyPatch, at: int, after: bool
) -> None:
    function, calls = service(4), itertools.count(1)
    function.timeout_seconds = NO_TIME

    def invoke(event: Any, context: Any) -> None:
        killed = next(calls) == at
        if after or not killed:
            function.send(event)
        if killed:
            raise Killed

    monkeypatch.setattr(jobs, "_invoke_again", invoke)
    function.deliver_all()
    function.assert_done_once(4)


@pytest.mark.parametrize("segments", [1, 4])
@pytest.mark.parametrize("position", [0, -1], ids=["first come first", "last come first"])
def test_each_event_delivered_twice_the_run_is_finished_once(service: Made, segments: int, position: int) -> None:
    function = service(segments)
    function.copies, function.timeout_seconds = 2, NO_TIME
    function.send(EVENT)
    for delivered in itertools.count():
        function.copies = 2 if delivered < 20 else 1
        if not function.waiting:
            break
        function.deliver_next(position=position)
    function.assert_done_once(segments)


def test_all_at_once_and_twice_the_run_is_finished_once(service: Made) -> None:
    function = service(16, now=time.time)
    function.copies = 2
    function.invoke()
    events = [(event, request) for event, request, _ in function.waiting]
    assert len(events) == 32
    with ThreadPoolExecutor(len(events)) as pool:
        list(pool.map(lambda each: function.invoke(*each), events))
    function.assert_done_once(16)


@pytest.mark.parametrize("operation", ["BatchGetItem", "UpdateItem"])
def test_of_two_segments_that_end_at_the_same_moment_one_is_done(service: Made, operation: str) -> None:
    """The second ends before the first looks for its part, or has seen all parts and is about to write the report."""
    function = service(2)
    function.invoke()
    [(one, _, _), (other, _, _)] = function.waiting
    calls: list[str] = []

    def meanwhile(name: str) -> None:
        calls.append(name)
        if name == operation and "BatchGetItem" in calls:
            function.before_call = lambda operation: None
            function.invoke(other)

    if operation == "UpdateItem":  # the first must find all parts, so the second has ended but for its report
        function.before_call = lambda name: fail(Killed()) if name == "BatchGetItem" else None
        with pytest.raises(Killed):
            function.invoke(other)
    function.before_call = meanwhile
    function.invoke(one)
    assert sorted(function.outcomes[1:]) == ["Done", "DoneBefore"]
    assert len(function.reported()) == 2 * STEPS


def test_a_segment_that_ends_while_others_work_is_continued_by_them(service: Made) -> None:
    function = service(2)
    function.invoke()
    (one, _, _), (other, _, _) = function.waiting
    outcomes = [function.invoke(event) for event in (one, one, other, one)]
    assert outcomes == ["Continued", "DoneBefore", "Done", "DoneBefore"]


def test_the_event_of_the_run_delivered_again_begins_what_is_not_done(service: Made) -> None:
    """As by hand, after events of segments were lost."""
    function = service(4)
    function.invoke()
    function.deliver_next()
    function.waiting.clear()
    function.deliver_all()
    function.assert_done_once(4)


def test_a_number_that_changes_between_nights_counts_from_the_next_on(service: Made) -> None:
    function = service()
    nights = {FIRST: 4, SECOND: 16, THIRD: 1}
    for scheduled_time, segments in nights.items():
        function.job = function.job._replace(segments=segments)
        function.deliver_all(EVENT | {"scheduled_time": scheduled_time})
        assert len(function.reported(scheduled_time)) == segments * STEPS
    assert [function.invoke(scheduled_time=each) for each in nights] == ["DoneBefore"] * 3


@pytest.mark.parametrize(("before", "after"), [(4, 16), (16, 4), (1, 4), (4, 1)])
def test_a_number_that_changes_while_a_run_is_interrupted_leaves_that_run_as_it_is(
    service: Made, before: int, after: int
) -> None:
    for deliveries in {1, 2, before, before + 1}:
        function = service(before)
        function.timeout_seconds = NO_TIME
        function.send(EVENT)
        for _ in range(deliveries):
            if function.waiting:
                function.deliver_next()
        function.job = function.job._replace(segments=after)
        function.deliver_all()
        function.assert_done_once(before)


def test_a_run_that_was_never_finished_takes_no_other_time_along(service: Made) -> None:
    """Its segments' checkpoints are of another window, so each time is worked on from its start."""
    function = service(4)
    function.timeout_seconds = NO_TIME
    function.invoke()
    for _ in range(4):
        function.deliver_next()
    function.waiting.clear()
    for scheduled_time in (SECOND, FIRST):
        function.deliver_all(EVENT | {"scheduled_time": scheduled_time})
        assert len(function.reported(scheduled_time)) == 4 * STEPS


def test_an_event_of_another_number_of_segments_is_refused_with_the_runs_number(service: Made) -> None:
    function = service(4)
    function.invoke()
    for segments, number in ((16, 16), (1, 1), (5, 1)):
        with pytest.raises(InvalidEvent) as caught:
            function.invoke(segment=number, segments=segments)
        assert str(caught.value) == f"segments: expected 4, as the run was begun, got {segments}"
    assert not function.worked


INVALID: list[dict[str, Any]] = [
    {"segment": 1},
    {"segments": 4},
    {"segment": 0, "segments": 4},
    {"segment": 5, "segments": 4},
    {"segment": 1, "segments": MOST_SEGMENTS + 1},
    {"segment": "1", "segments": "4"},
    {"segment": 1.0, "segments": 4},
    {"segment": True, "segments": 4},
    {"segment": None, "segments": None},
]


@pytest.mark.parametrize("fields", INVALID, ids=str)
def test_a_segment_that_no_run_has_is_refused_with_what_was_expected(service: Made, fields: dict[str, Any]) -> None:
    function = service(4)
    with pytest.raises(InvalidEvent) as caught:
        function.invoke(**fields)
    expected = "expected whole numbers from 1, segment at most segments, segments at most 100"
    got = f"got {fields.get('segment')!r} and {fields.get('segments')!r}"
    assert str(caught.value) == f"segment and segments: {expected}, {got}"
    assert not function.records()


def test_segments_are_told_further_fields_and_the_time_that_an_unresolved_one_stands_for(
    service: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At midnight it would be another."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    function = service(2)
    function.deliver_all(EVENT | {"scheduled_time": UNRESOLVED, "whole": True})
    [time_seen] = {run.event["scheduled_time"] for run in function.runs}
    assert len(function.reported(time_seen)) == 2 * STEPS
    assert [(run.event["segment"], run.event["whole"]) for run in function.runs] == [(1, True), (2, True)]


@pytest.mark.parametrize("segments", [None, 0, 101, Decimal("1.5"), "4"])
def test_a_run_with_a_damaged_record_is_not_worked_on(service: Made, segments: Any) -> None:
    function = service(4)
    function.put(f"count {FIRST}", **({} if segments is None else {"segments": segments}))
    with pytest.raises(ValueError, match="segments: expected a whole number from 1 to 100, got"):
        function.invoke()
    assert not function.worked
