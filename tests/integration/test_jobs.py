"""Scheduled jobs on both engines, by a queue in the process and on its clock: each time is done once, and is done.

Faults at every call, and runs at once: tests/explore/scenarios/jobs.py.
"""

import json
from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest
from botocore.exceptions import EndpointConnectionError

from conditional_writes.locks import LockLost, LockTaken, WindowDone
from conditional_writes.testing import Clock
from tests.support.faults import Killed
from tests.support.job_service import (
    EVENT,
    FIRST,
    MOST_RECEIVES,
    NO_TIME,
    ON_SCHEDULE,
    SECOND,
    VISIBILITY_SECONDS,
    JobService,
    fail,
    fail_at,
)
from tools.local_aws.functions import Context
from tools.local_aws.server import Endpoint
from workers.invocation import RESERVED_SECONDS
from workers.queue_messages import NotAnSqsEvent
from workers.scheduled_jobs import LONGEST_DELAY, LONGEST_LEAD, UNRESOLVED, InvalidEvent, Run, Step
from workers.sending import NotSent

STEPS = 3


@pytest.fixture
def counting(dynamodb: Endpoint) -> JobService:
    return JobService(dynamodb, STEPS)


# --- messages that are none of the job's ------------------------------------------------------------------

JOB, TIME = "job: expected 'count'", 'scheduled_time: expected an ISO 8601 time with its offset, such as "2026-02-28'
INVALID: dict[str, tuple[Any, str]] = {
    "no JSON": ("count", "expected JSON, got 'count'"),
    "deep": ("[" * 100_000, f"expected JSON, got '{'[' * 12}...{'[' * 13}'"),
    "no object": ([], f"{JOB}, got None"),
    "another job": (EVENT | {"job": "reconcile"}, f"{JOB}, got 'reconcile'"),
    "no time": ({"job": "count"}, f'{TIME}T02:00:00Z", got None'),
    "a time in words": (EVENT | {"scheduled_time": "tonight"}, f"{TIME}T02:00:00Z\", got 'tonight'"),
    "no offset": (EVENT | {"scheduled_time": FIRST[:19]}, f"{TIME}T02:00:00Z\", got '2026-03-01T02:00:00'"),
    "seconds": (EVENT | {"scheduled_time": 1772330400}, f'{TIME}T02:00:00Z", got 1772330400'),
    "a time that UTC has no date for": (
        EVENT | {"scheduled_time": "0001-01-01T00:00:00+14:00"},
        f"{TIME}T02:00:00Z\", got '0001-01-01T00:00:00+14:00'",
    ),
    "a long text": ({"job": "x" * 100_000}, f"{JOB}, got '{'x' * 12}...{'x' * 13}'"),
    "force in words": (EVENT | {"force": "true"}, "force: expected true or false, got 'true'"),
}


@pytest.mark.parametrize(("event", "sentence"), INVALID.values(), ids=INVALID)
def test_a_message_that_is_none_of_the_jobs_is_a_dead_letter_that_says_what_was_expected(
    counting: JobService, event: Any, sentence: str
) -> None:
    counting.send(event)
    counting.deliver()
    [letter] = counting.dead
    said = {name: letter.attributes[name]["StringValue"] for name in ("reason_code", "reason")}
    assert said == {"reason_code": "INVALID_EVENT", "reason": sentence}
    assert (counting.outcomes, counting.waiting, counting.records()) == (["DeadLettered"], [], {})


def test_one_that_the_dead_letter_queue_does_not_take_comes_again(counting: JobService) -> None:
    counting.sqs.answer("DeleteQueue", {"QueueUrl": "dead"}, "")
    counting.job.queue.client.send_message_batch = lambda **_: fail(EndpointConnectionError(endpoint_url="x"))
    counting.send("junk")
    counting.deliver()
    assert (counting.outcomes, len(counting.waiting)) == (["ReturnedToQueue"], 1)


@pytest.mark.parametrize(
    "event", [EVENT, {"Records": []}, {"Records": [{}, {}]}, {"Records": [{"messageId": 7}]}, None]
)
def test_an_event_that_is_none_of_sqs_is_an_error(counting: JobService, event: Any) -> None:
    context: Any = Context()
    with pytest.raises(NotAnSqsEvent, match=r"^Records(\[0\])?: expected"):
        counting.job.process(event, context)


# --- a message before its time, or long after it ----------------------------------------------------------

AT = datetime.fromisoformat(FIRST)
OFF = {
    "an hour before": AT - timedelta(hours=1),
    "five minutes and a second before": AT - LONGEST_LEAD - timedelta(seconds=1),
    "a day and a second after": AT + LONGEST_DELAY + timedelta(seconds=1),
    "a year after": AT + timedelta(days=365),
}
DUE = {
    "clocks that differ": AT - LONGEST_LEAD + timedelta(seconds=1),
    "on time": AT,
    "the last retry": AT + LONGEST_DELAY - timedelta(seconds=1),
}


@pytest.mark.parametrize("sent_at", OFF.values(), ids=OFF)
def test_a_message_that_was_sent_at_another_time_begins_a_run_only_by_force(
    counting: JobService, sent_at: datetime
) -> None:
    counting.clock.seconds = sent_at.timestamp()
    for event in (ON_SCHEDULE, ON_SCHEDULE | {"force": False}):
        with pytest.raises(InvalidEvent, match=r"^scheduled_time: expected a time at most a day before the ") as caught:
            counting.invoke(event)
    assert f"got {FIRST}, sent at {sent_at.isoformat()}" in str(caught.value)
    assert (counting.records(), counting.worked) == ({}, [])
    assert counting.invoke(EVENT) == "Done"


@pytest.mark.parametrize("sent_at", DUE.values(), ids=DUE)
def test_a_message_that_was_sent_in_time_begins_its_run_however_long_it_waited(
    counting: JobService, sent_at: datetime
) -> None:
    counting.clock.seconds = sent_at.timestamp()
    counting.send(ON_SCHEDULE)
    counting.clock.seconds += 6 * 24 * 3600
    counting.deliver()
    counting.assert_done_once(FIRST)


def test_a_time_is_done_once_however_it_is_spelled_and_another_from_its_start(counting: JobService) -> None:
    assert counting.invoke() == "Done"
    for spelling in (FIRST, "2026-03-01T02:00:00Z", "2026-03-01T03:30:00+01:30"):
        assert counting.invoke(scheduled_time=spelling) == "DoneBefore"
    assert counting.invoke(scheduled_time=SECOND) == "Done"
    assert counting.worked == [(time, number) for time in (FIRST, SECOND) for number in (1, 2, 3)]


def test_an_unresolved_time_is_invalid_and_on_a_local_aws_it_is_today_so_the_job_runs_once_a_day(
    counting: JobService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    with pytest.raises(InvalidEvent, match="scheduled_time: expected an ISO 8601 time"):
        counting.invoke(scheduled_time=UNRESOLVED)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    for now in (AT, AT.replace(hour=23, minute=59, second=59)):
        counting.clock.seconds = now.timestamp()
        counting.invoke(ON_SCHEDULE, scheduled_time=UNRESOLVED)
    assert counting.worked == [("2026-03-01T00:00:00+00:00", number) for number in (1, 2, 3)]
    counting.invoke(scheduled_time=SECOND)
    assert counting.worked[3:] == [(SECOND, number) for number in (1, 2, 3)]


# --- several invocations ----------------------------------------------------------------------------------


def test_without_time_for_another_step_the_checkpoint_is_saved_and_the_message_comes_again_at_once(
    counting: JobService,
) -> None:
    counting.timeout_seconds = NO_TIME
    began = counting.clock.seconds
    counting.send()
    counting.deliver()
    assert counting.records()["count"]["checkpoint"] == {"window": FIRST, "saved": {"steps": [1]}}
    counting.deliver_until_quiet()
    assert counting.outcomes == ["Continued", "Continued", "Done"]
    assert counting.clock.seconds == began
    counting.assert_done_once(FIRST)


def test_the_locks_table_has_the_lock_and_the_report(counting: JobService) -> None:
    counting.invoke()
    records = counting.records()
    assert records.keys() == {"count", f"count {FIRST}"}
    assert records["count"]["windows_done"] == [FIRST]
    run = records[f"count {FIRST}"]
    assert run.keys() == {"steps", "finished_at", "expires_at", "cw:write_id"}
    assert datetime.fromisoformat(run["finished_at"]).timestamp() == pytest.approx(counting.clock.seconds, abs=0.01)
    assert 399.9 < (float(run["expires_at"]) - counting.clock.seconds) / 24 / 3600 <= 400


def test_the_requests_of_a_run_are_as_documented(counting: JobService) -> None:
    """Beside those of its steps. docs/jobs.md has the table."""
    calls = Counter[str]()
    counting.before_call = lambda operation: calls.update([operation])
    counting.invoke()
    assert calls == {"UpdateItem": 1 + (STEPS - 1), "TransactWriteItems": 1}
    calls.clear()
    counting.invoke()
    assert calls == {"UpdateItem": 1}


def test_a_step_that_may_take_longer_than_there_is_time_is_left_to_the_next_invocation(counting: JobService) -> None:
    def long_second_step(run: Run) -> Iterator[Step]:
        if run.checkpoint is None:
            yield Step({"steps": [1]}, next_seconds=60)
        yield Step({"steps": [1, 2]}, report={})

    counting.job = counting.job._replace(work=long_second_step)
    assert [counting.invoke() for _ in range(2)] == ["Continued", "Done"]
    counting.timeout_seconds = 120
    assert counting.invoke(scheduled_time=SECOND) == "Done"


@pytest.mark.parametrize(
    ("steps_seconds", "seconds", "outcome"),
    [((3, 1, 1), 9.9, "Continued"), ((3, 1, 1), 10.1, "Done"), ((1, 3, 1), 9.9, "Continued"), ((0.1,) * 3, 1, "Done")],
)
def test_another_step_is_begun_if_there_is_time_for_twice_the_longest_so_far(
    counting: JobService, steps_seconds: tuple[float, ...], seconds: float, outcome: str
) -> None:
    with Clock().simulated_time() as clock:
        counting.before_step = lambda number: clock.advance(steps_seconds[number - 1])
        counting.timeout_seconds = RESERVED_SECONDS + seconds
        assert counting.invoke() == outcome


def test_work_that_does_not_move_on_is_an_error(counting: JobService) -> None:
    counting.job = counting.job._replace(work=lambda run: iter([Step({"done": 1})]))
    counting.timeout_seconds = NO_TIME
    assert counting.invoke() == "Continued"
    with pytest.raises(AssertionError, match="count: a step without progress"):
        counting.invoke()
    counting.job = counting.job._replace(work=lambda run: iter([]))
    with pytest.raises(AssertionError, match="count: no step said that it is the last"):
        counting.invoke()


# --- a lock that is held, or was lost ---------------------------------------------------------------------


@pytest.mark.parametrize("window", [FIRST, SECOND], ids=["the same time", "another time"])
def test_while_another_run_holds_the_lock_the_message_waits_and_is_done_afterwards(
    counting: JobService, window: str
) -> None:
    lock = counting.locks.acquire("count", lease_seconds=60, why="at work", window=window)
    counting.send()
    counting.deliver()
    assert counting.outcomes == ["InProgress"]
    lock.release()
    counting.deliver_until_quiet()
    counting.assert_done_once(FIRST)


@pytest.mark.parametrize("step", range(1, STEPS + 1))
def test_a_killed_run_goes_on_from_its_checkpoint_when_its_message_comes_again_and_learns_of_the_kill(
    counting: JobService, step: int
) -> None:
    counting.kill(step)
    assert counting.invoke() == "InProgress", "the lease isn't over"
    counting.end_of_lease()
    assert counting.invoke() == "Done"
    assert counting.steps == [1, 2, 3]
    assert [run.after_kill for run in counting.runs] == [False, True]
    assert counting.runs[1].checkpoint == ({"steps": list(range(1, step))} if step > 1 else None)


@pytest.mark.parametrize("step", [1, STEPS], ids=["saving its checkpoint", "completing"])
def test_one_who_was_paused_for_too_long_is_refused_with_its_report_and_its_message_comes_again(
    counting: JobService, step: int
) -> None:
    def another_takes_over(number: int) -> None:
        if number == step:
            counting.end_of_lease()
            counting.locks.acquire("count", lease_seconds=60, window=FIRST)

    counting.before_step = another_takes_over
    with pytest.raises(LockLost):
        counting.invoke()
    records = counting.records()
    assert records.keys() == {"count"}, "no report"
    assert "windows_done" not in records["count"]
    counting.end_of_lease()
    counting.send()
    counting.deliver()
    assert (counting.outcomes, len(counting.waiting)) == (["ReturnedToQueue"], 1)


# --- errors and outages -----------------------------------------------------------------------------------

PASSING = [NotSent("x"), LockTaken("another", {}, AT), EndpointConnectionError(endpoint_url="x")]
ERRORS = [ValueError("x"), KeyboardInterrupt(), WindowDone("another", FIRST)]


@pytest.mark.parametrize("error", [*PASSING, *ERRORS], ids=lambda error: type(error).__name__)
def test_an_error_of_the_work_leaves_the_lock_free_and_the_message_on_its_queue(
    counting: JobService, error: BaseException
) -> None:
    """That of AWS is no error of the function. The others are."""
    counting.before_step = fail_at(2, error)
    with pytest.raises(type(error)) as caught:
        counting.invoke()
    assert caught.value is error
    assert "owner" not in counting.records()["count"]
    if not isinstance(error, KeyboardInterrupt):
        counting.send()
        counting.deliver()
        assert counting.outcomes == ["ReturnedToQueue" if error in PASSING else type(error).__name__]
    counting.before_step = lambda number: None
    assert counting.invoke() == "Done"
    assert counting.steps == [1, 2, 3]


@pytest.mark.parametrize(
    "hours", [12, pytest.param(6 * 24, marks=pytest.mark.exhaustive)], ids=["half a day", "six days"]
)
def test_after_an_outage_the_run_is_done_once_and_nobody_was_called(counting: JobService, hours: int) -> None:
    """No invocation fails, and no letter is dead."""
    counting.clock.seconds = AT.timestamp()
    over = counting.clock.seconds + hours * 3600
    counting.before_call = lambda operation: (
        fail(EndpointConnectionError(endpoint_url="x")) if counting.clock.seconds < over else None
    )
    for _ in range(2):  # Scheduler sends a message at least once.
        counting.send(ON_SCHEDULE)
    counting.deliver_until_quiet()
    assert counting.outcomes[-2:] == ["Done", "DoneBefore"]
    assert set(counting.outcomes[:-2]) == {"ReturnedToQueue"}
    assert counting.clock.seconds < over + VISIBILITY_SECONDS
    counting.assert_done_once(FIRST)


def test_a_run_that_fails_for_a_week_is_a_dead_letter(counting: JobService) -> None:
    counting.before_step = lambda number: fail(ValueError("x"))
    counting.send()
    began = counting.clock.seconds
    counting.deliver_until_quiet()
    assert (len(counting.dead), counting.outcomes) == (1, ["ValueError"] * MOST_RECEIVES)
    assert 7 * 24 * 3600 < counting.clock.seconds - began < 8 * 24 * 3600


def test_killed_before_its_message_is_told_to_come_at_once_the_run_goes_on_later(counting: JobService) -> None:
    counting.timeout_seconds = NO_TIME
    tell = counting.job.queue.client.change_message_visibility
    counting.job.queue.client.change_message_visibility = lambda **_: fail(Killed())
    counting.send()
    counting.deliver()
    counting.job.queue.client.change_message_visibility = tell
    counting.deliver_until_quiet()
    assert counting.outcomes == ["Killed", "Continued", "Done"]
    counting.assert_done_once(FIRST)


def test_two_times_at_once_each_sent_twice_are_done_once_each(counting: JobService) -> None:
    counting.timeout_seconds = NO_TIME
    for event in (EVENT, EVENT | {"scheduled_time": SECOND}) * 2:
        counting.send(event)
    counting.deliver_until_quiet()
    assert {time for time, _ in counting.worked} == {FIRST, SECOND}
    assert counting.outcomes.count("Done") == 2
    assert {json.loads(message.body)["scheduled_time"] for message in counting.dead} == set()
