"""Runs in segments on both engines: nothing is lost or doubled, and each scheduled time has one report.

Events are delivered as Lambda does: a failed one again with its request id, three times in all.
"""

import itertools
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from typing import Any

import pytest
from aws_lambda_powertools import Logger
from aws_lambda_powertools.metrics import EphemeralMetrics

from conditional_writes import Item
from conditional_writes.items import from_dynamodb, to_dynamodb
from conditional_writes.locks import Locks
from tests.support.clock import Clock
from tests.support.faults import Fault, Faults, Killed
from tools.local_aws.functions import Context
from tools.local_aws.server import Endpoint
from tools.local_aws.tables import create_locks_table, scan
from workers import scheduled_jobs as jobs
from workers.invocation import RESERVED_SECONDS
from workers.job_events import InvalidEvent
from workers.scheduled_jobs import UNRESOLVED, Job, Run, Step
from workers.segments import MOST_SEGMENTS

_numbers = itertools.count(1)
FIRST, SECOND, THIRD = (f"2026-03-0{day}T02:00:00+00:00" for day in (1, 2, 3))
EVENT = {"job": "count", "scheduled_time": FIRST, "force": True}
STEPS = 2
NO_TIME = RESERVED_SECONDS
"""A timeout that leaves no time for a second step."""
TRIES = 3


class Service:
    """Lambda with a function, whose job takes two steps for each segment. Each step is noted in its checkpoint."""

    def __init__(self, dynamodb: Endpoint, segments: int, clock: Callable[[], float] | None = None) -> None:
        self.dynamodb, self.client = dynamodb, dynamodb.client("dynamodb")
        self.clock = Clock()
        self.table = create_locks_table(dynamodb, f"segments-{next(_numbers)}")
        self.locks = Locks(self.client, self.table, now=clock or self.clock)
        logger, metrics = Logger(service="teller", level="CRITICAL"), EphemeralMetrics(namespace="Teller")
        self.job = Job("count", self.work, self.report, segments, self.locks, logger, metrics)
        self.waiting: list[tuple[Any, str, int]] = []
        self.outcomes: list[str] = []
        self.worked: list[tuple[str, str, int]] = []
        self.events_seen: list[Any] = []
        self.copies = 1
        self.timeout_seconds = 60.0
        self.before_call: Callable[[str], None] = lambda operation: None
        self.client.meta.events.register("before-call", lambda model, **_: self.before_call(model.name))

    def work(self, run: Run) -> Iterator[Step]:
        self.events_seen.append(run.event)
        steps = run.checkpoint["steps"] if run.checkpoint else []
        for number in range(len(steps) + 1, STEPS + 1):
            self.worked.append((run.scheduled_time.isoformat(), str(run.segment), number))
            steps = [*steps, f"{run.segment}, step {number}"]
            yield Step({"steps": steps}, last=number == STEPS)

    def report(self, parts: Sequence[Item]) -> Item:
        return {"steps": [step for part in parts for step in part["steps"]]}

    def invoke(self, event: Any, request: str = "") -> str:
        """Invokes the function, which may raise its error. Returns the outcome."""
        context = Context(self.timeout_seconds)
        context.aws_request_id = request or context.aws_request_id
        if self.locks.now is self.clock:
            self.clock.seconds += 0.001
        outcome = self.job.run(event, context)["outcome"]  # type: ignore[arg-type]
        self.outcomes.append(outcome)
        return outcome

    def send(self, event: Any) -> None:
        """An asynchronous invocation. Its event may be delivered more than once."""
        self.waiting += [(event, f"request {next(_numbers)}", 1) for _ in range(self.copies)]

    def deliver_all(self, event: Any = EVENT, faults: Faults | None = None) -> None:
        """Delivers the event, and all that follow from it, until no event is waiting."""
        self.send(event)
        while self.waiting:
            self.deliver_next(faults or Faults())

    def deliver_next(self, faults: Faults, position: int = 0) -> None:
        event, request, tries = self.waiting.pop(position)
        faults.revive()
        try:
            self.invoke(event, request)
        except (Killed, Exception):  # noqa: BLE001 (Lambda retries after any error)
            assert tries < TRIES, f"{event} failed at every try"
            self.clock.seconds += 200
            self.waiting.append((event, request, tries + 1))

    def records(self) -> dict[str, Item]:
        items = map(from_dynamodb, scan(self.dynamodb, self.table))
        return {item.pop("lock_key"): item for item in items}

    def reported(self, scheduled_time: str = FIRST) -> list[str]:
        """The steps in the run's report. Fails if there is none."""
        record = self.records()[f"count {scheduled_time}"]
        assert record["finished_at"]
        steps: list[str] = record["steps"]
        return steps

    def put(self, lock_key: str, **attributes: Any) -> None:
        self.client.put_item(TableName=self.table, Item=to_dynamodb({"lock_key": lock_key} | attributes))

    def done(self) -> int:
        return self.outcomes.count("Done")


def steps_of(segments: int) -> list[str]:
    return [f"segment {n} of {segments}, step {step}" for n in range(1, segments + 1) for step in range(1, STEPS + 1)]


@pytest.fixture
def service(dynamodb: Endpoint, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Service]:
    def made(segments: int, **options: Any) -> Service:
        new = Service(dynamodb, segments, **options)
        monkeypatch.setattr(jobs, "_invoke_again", lambda event, context: new.send(event))
        return new

    return made


type Made = Callable[..., Service]


@pytest.mark.parametrize("segments", [1, 4, 16, MOST_SEGMENTS])
def test_the_report_has_what_each_segment_did_and_one_invocation_is_done(service: Made, segments: int) -> None:
    function = service(segments)
    function.deliver_all()
    assert function.reported() == steps_of(segments)
    assert Counter(function.outcomes) == Counter(Continued=segments if segments > 1 else 0, Done=1)
    assert function.invoke(EVENT) == "DoneBefore"
    assert function.reported() == steps_of(segments)


@pytest.mark.parametrize("segments", [1, 4])
def test_a_segment_without_time_for_another_step_is_continued(service: Made, segments: int) -> None:
    function = service(segments)
    function.timeout_seconds = NO_TIME
    function.deliver_all()
    assert function.reported() == steps_of(segments)
    assert len(function.worked) == len(set(function.worked)) == segments * STEPS
    assert function.done() == 1


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
    kept_days = (float(run["expires_at"]) - function.clock.seconds) / 24 / 3600
    assert 399.9 < kept_days <= 400
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
    steps = segments * (STEPS - 1)
    assert calls == {
        "PutItem": 1 if segments == 1 else segments + 1,
        "UpdateItem": segments + steps + 1,
        "TransactWriteItems": segments,
        "BatchGetItem": segments,
    }


@pytest.mark.parametrize("segments", [1, 3])
@pytest.mark.parametrize("fault", [Fault.KILLED_BEFORE, Fault.KILLED_AFTER, Fault.ALL_RESPONSES_LOST])
def test_killed_at_any_call_the_run_is_finished_once(
    dynamodb: Endpoint, service: Made, monkeypatch: pytest.MonkeyPatch, segments: int, fault: Fault
) -> None:
    """The last case has a call that is never made, so all calls were tried."""
    for at in itertools.count(1):
        function, faults = service(segments), Faults(fault, at)
        with faults.on(function.client):
            function.deliver_all(faults=faults)
        assert function.reported() == steps_of(segments), at
        assert function.done() <= 1, at
        before = function.records()
        function.clock.seconds += 200
        assert function.invoke(EVENT) == "DoneBefore"
        assert function.records() == before
        if len(faults.calls) < at:
            break
    assert at > 5 * segments
    assert function.done() == 1


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
    assert function.reported() == steps_of(4)
    assert (function.done(), len(set(function.worked))) == (1, len(function.worked))


@pytest.mark.parametrize("segments", [1, 4])
@pytest.mark.parametrize("last_first", [False, True])
def test_each_event_delivered_twice_the_run_is_finished_once(service: Made, segments: int, last_first: bool) -> None:
    function = service(segments)
    function.copies, function.timeout_seconds = 2, NO_TIME
    function.send(EVENT)
    delivered = 0
    while function.waiting:
        function.copies = 2 if delivered < 20 else 1
        function.deliver_next(Faults(), position=-1 if last_first else 0)
        delivered += 1
    assert function.reported() == steps_of(segments)
    assert len(function.worked) == segments * STEPS
    assert function.done() == 1


def test_all_at_once_and_twice_the_run_is_finished_once(service: Made) -> None:
    function = service(16, clock=time.time)
    function.copies = 2
    function.invoke(EVENT)
    segments = [(event, request) for event, request, _ in function.waiting]
    assert len(segments) == 32

    def deliver(waiting: tuple[Any, str]) -> None:
        function.invoke(*waiting)

    with ThreadPoolExecutor(len(segments)) as pool:
        list(pool.map(deliver, segments))
    assert function.done() == 1
    assert sorted(function.reported()) == sorted(steps_of(16))
    assert len(function.worked) == 16 * STEPS


@pytest.mark.parametrize("operation", ["BatchGetItem", "UpdateItem"])
def test_of_two_segments_that_end_at_the_same_moment_one_is_done(service: Made, operation: str) -> None:
    """The second ends before the first looks for its part, or has seen all parts and is about to write the report."""
    function = service(2)
    function.invoke(EVENT)
    [(one, _, _), (other, _, _)] = function.waiting
    calls: list[str] = []

    def meanwhile(name: str) -> None:
        calls.append(name)
        if name == operation and "BatchGetItem" in calls:
            function.before_call = lambda operation: None
            function.invoke(other)

    function.before_call = meanwhile
    if operation == "UpdateItem":  # the first must find all parts, so the second has ended but for its report
        function.before_call = lambda name: (_ for _ in ()).throw(Killed()) if name == "BatchGetItem" else None
        with pytest.raises(Killed):
            function.invoke(other)
        function.before_call = meanwhile
    function.invoke(one)
    assert sorted(function.outcomes[1:]) == ["Done", "DoneBefore"]
    assert function.reported() == steps_of(2)


def test_a_segment_that_ends_while_others_work_is_continued_by_them(service: Made) -> None:
    function = service(2)
    function.invoke(EVENT)
    events = [event for event, _, _ in function.waiting]
    assert [function.invoke(event) for event in (events[0], events[0], events[1], events[0])] == [
        "Continued",
        "DoneBefore",
        "Done",
        "DoneBefore",
    ]


def test_the_event_of_the_run_delivered_again_begins_what_is_not_done(service: Made) -> None:
    """As by hand, after events of segments were lost."""
    function = service(4)
    function.invoke(EVENT)
    function.deliver_next(Faults())
    function.waiting.clear()
    function.deliver_all()
    assert function.reported() == steps_of(4)
    assert len(function.worked) == 4 * STEPS
    assert function.done() == 1


def test_a_number_that_changes_between_nights_counts_from_the_next_on(service: Made) -> None:
    function = service(4)
    for scheduled_time, segments in ((FIRST, 4), (SECOND, 16), (THIRD, 1)):
        function.job = function.job._replace(segments=segments)
        function.deliver_all(EVENT | {"scheduled_time": scheduled_time})
        assert function.reported(scheduled_time) == steps_of(segments)
    for scheduled_time in (FIRST, SECOND, THIRD):
        assert function.invoke(EVENT | {"scheduled_time": scheduled_time}) == "DoneBefore"
    assert function.done() == 3


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
                function.deliver_next(Faults())
        function.job = function.job._replace(segments=after)
        function.deliver_all()
        assert function.reported() == steps_of(before)
        assert len(function.worked) == before * STEPS
        assert function.done() == 1


def test_a_run_that_was_never_finished_takes_no_other_time_along(service: Made) -> None:
    """Its segments' checkpoints are of another window, so each time is worked on from its start."""
    function = service(4)
    function.timeout_seconds = NO_TIME
    function.invoke(EVENT)
    for _ in range(4):
        function.deliver_next(Faults())
    function.waiting.clear()
    function.deliver_all(EVENT | {"scheduled_time": SECOND})
    assert function.reported(SECOND) == steps_of(4)
    function.deliver_all()
    assert function.reported() == steps_of(4)


def test_an_event_of_another_number_of_segments_is_refused_with_the_runs_number(service: Made) -> None:
    function = service(4)
    function.invoke(EVENT)
    for segments, number in ((16, 16), (1, 1), (5, 1)):
        with pytest.raises(InvalidEvent) as caught:
            function.invoke(EVENT | {"segment": number, "segments": segments})
        assert str(caught.value) == f"segments: expected 4, as the run was begun, got {segments}"
    assert not function.worked
    function.deliver_all()
    assert function.reported() == steps_of(4)


INVALID: list[dict[str, Any]] = [
    {"segment": 1},
    {"segments": 4},
    {"segment": 0, "segments": 4},
    {"segment": 5, "segments": 4},
    {"segment": 1, "segments": MOST_SEGMENTS + 1},
    {"segment": "1", "segments": "4"},
    {"segment": 1.0, "segments": 4},
    {"segment": True, "segments": 4},
    {"segment": [1], "segments": {}},
    {"segment": None, "segments": None},
]


@pytest.mark.parametrize("fields", INVALID, ids=str)
def test_a_segment_that_no_run_has_is_refused_with_what_was_expected(service: Made, fields: dict[str, Any]) -> None:
    function = service(4)
    with pytest.raises(InvalidEvent) as caught:
        function.invoke(EVENT | fields)
    expected = "expected whole numbers from 1, segment at most segments, segments at most 100"
    got = f"got {fields.get('segment')!r} and {fields.get('segments')!r}"
    assert str(caught.value) == f"segment and segments: {expected}, {got}"
    assert not function.records()


def test_further_fields_of_the_event_are_those_of_its_segments(service: Made) -> None:
    function = service(2)
    function.timeout_seconds = NO_TIME
    function.deliver_all(EVENT | {"whole": True})
    assert [event["whole"] for event in function.events_seen] == [True] * 2 * STEPS
    assert {event["segment"] for event in function.events_seen} == {1, 2}


def test_segments_are_told_the_time_that_an_unresolved_one_stands_for(
    service: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At midnight it would be another."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    function = service(2)
    function.deliver_all(EVENT | {"scheduled_time": UNRESOLVED})
    [time_seen] = {event["scheduled_time"] for event in function.events_seen}
    assert len(function.reported(time_seen)) == 2 * STEPS


@pytest.mark.parametrize("segments", [None, 0, 101, Decimal("1.5"), "4", [4]])
def test_a_run_with_a_damaged_record_is_not_worked_on(service: Made, segments: Any) -> None:
    function = service(4)
    function.put(f"count {FIRST}", **({} if segments is None else {"segments": segments}))
    with pytest.raises(ValueError, match="segments: expected a whole number from 1 to 100, got"):
        function.invoke(EVENT)
    assert not function.worked


@pytest.mark.parametrize("segments", [1, 4])
def test_a_time_that_an_earlier_release_reported_is_done(service: Made, segments: int) -> None:
    function = service(segments)
    function.put(f"count {FIRST}", finished_at="2026-03-01T02:00:09.120+00:00", steps=["all"])
    before = function.records()
    assert function.job.run(EVENT, Context())["reason"] == "the run was finished at 2026-03-01T02:00:09.120+00:00"  # type: ignore[arg-type]
    assert function.records() == before
    assert not function.worked


def test_a_time_that_an_earlier_release_did_without_a_report_is_done(service: Made) -> None:
    function = service(1)
    function.put("count", windows_done=[FIRST], token=1, times_acquired=1, last_released=1)
    assert function.invoke(EVENT) == "DoneBefore"
    assert not function.worked


def test_a_time_that_an_earlier_release_began_is_resumed_from_its_checkpoint(service: Made) -> None:
    function = service(1)
    saved = {"window": FIRST, "saved": {"steps": ["the earlier release's"]}}
    function.put("count", checkpoint=saved, token=1, times_acquired=1, last_released=1)
    assert function.invoke(EVENT) == "Done"
    assert function.reported() == ["the earlier release's", "segment 1 of 1, step 2"]
