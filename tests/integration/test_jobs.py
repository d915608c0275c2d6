"""A scheduled job on both engines: each window is done once, in any number of invocations, wherever one dies."""

import contextlib
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from conditional_writes.locks import LockLost, LockTaken, WindowDone
from tests.support.job_service import EVENT, FIRST, NO_TIME, ON_SCHEDULE, SECOND, JobService, fail_at
from tools.local_aws.functions import Context
from tools.local_aws.server import Endpoint
from workers import scheduled_jobs as jobs
from workers.job_events import LONGEST_DELAY, LONGEST_LEAD, InvalidEvent
from workers.scheduled_jobs import UNRESOLVED, Run, Step

STEPS = 3


@pytest.fixture
def counting(dynamodb: Endpoint, monkeypatch: pytest.MonkeyPatch) -> JobService:
    return JobService(dynamodb, monkeypatch, steps=STEPS)


JOB, TIME = "job: expected 'count'", 'scheduled_time: expected an ISO 8601 time with its offset, such as "2026-02-28'
INVALID: dict[str, tuple[Any, str]] = {
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
def test_an_event_that_is_none_of_the_jobs_is_refused_with_what_was_expected(
    counting: JobService, event: Any, sentence: str
) -> None:
    with pytest.raises(InvalidEvent) as caught:
        counting.invoke(event)
    assert str(caught.value) == sentence
    assert counting.records() == {}


# --- an event before its time, or long after it -----------------------------------------------------------

AT = datetime.fromisoformat(FIRST)
OFF = {
    "an hour after tonight's event was played": AT - timedelta(hours=1),
    "five minutes and a second ahead": AT - LONGEST_LEAD - timedelta(seconds=1),
    "a day and a second ago": AT + LONGEST_DELAY + timedelta(seconds=1),
    "a year ago": AT + timedelta(days=365),
}
DUE = {
    "clocks that differ": AT - LONGEST_LEAD + timedelta(seconds=1),
    "on time": AT,
    "the last retry": AT + LONGEST_DELAY - timedelta(seconds=1),
}
off = pytest.mark.parametrize("now", OFF.values(), ids=OFF)


@pytest.mark.parametrize("now", DUE.values(), ids=DUE)
def test_an_event_of_the_last_day_begins_a_run_without_a_further_request(counting: JobService, now: datetime) -> None:
    counting.clock.seconds = now.timestamp()
    asked: list[str] = []
    counting.before_call = asked.append
    assert counting.invoke(ON_SCHEDULE) == "Done"
    assert asked.count("BatchGetItem") == 1  # the parts of the report


@off
def test_an_event_of_another_time_is_refused_and_its_run_can_begin_in_time(counting: JobService, now: datetime) -> None:
    counting.clock.seconds = now.timestamp()
    for event in (ON_SCHEDULE, ON_SCHEDULE | {"force": False}, ON_SCHEDULE | {"segment": 1, "segments": 1}):
        with pytest.raises(InvalidEvent, match=r"^scheduled_time: expected a time at most a day ago and ") as caught:
            counting.invoke(event)
    assert f"got {FIRST}, and now it is {now.isoformat()}" in str(caught.value)
    assert (counting.records(), counting.worked) == ({}, [])
    counting.clock.seconds = AT.timestamp()
    assert counting.invoke(ON_SCHEDULE) == "Done"


@off
@pytest.mark.parametrize("force", [True, False], ids=["forced", "begun in time"])
def test_an_event_of_another_time_that_is_forced_or_whose_run_was_begun_goes_on(
    counting: JobService, now: datetime, force: bool
) -> None:
    counting.clock.seconds = (now if force else AT).timestamp()
    counting.timeout_seconds = NO_TIME
    assert counting.invoke(ON_SCHEDULE, force=force) == "Continued"
    counting.clock.seconds, counting.timeout_seconds = now.timestamp(), 60
    assert [counting.invoke(ON_SCHEDULE) for _ in range(2)] == ["Done", "DoneBefore"]
    assert counting.steps == [1, 2, 3]


def test_a_time_is_done_once_however_often_its_event_comes_and_another_from_its_start(counting: JobService) -> None:
    assert counting.answer() == ON_SCHEDULE | {"outcome": "Done"}
    reason = f"the run was finished at {counting.records()[f'count {FIRST}']['finished_at']}"
    for spelling in ("2026-03-01T02:00:00Z", "2026-03-01T03:30:00+01:30"):
        again = counting.answer(scheduled_time=spelling)
        assert again == ON_SCHEDULE | {"outcome": "DoneBefore", "reason": reason}
    assert counting.invoke(scheduled_time=SECOND) == "Done"
    assert [(time, number) for time, _, number in counting.worked] == [
        (time, number) for time in (FIRST, SECOND) for number in (1, 2, 3)
    ]
    assert not counting.waiting


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
    assert counting.steps == [1, 2, 3]
    assert {time for time, _, _ in counting.worked} == {"2026-03-01T00:00:00+00:00"}


# --- an event while the lock is held ----------------------------------------------------------------------


def test_a_duplicate_of_an_event_in_progress_is_answered(counting: JobService) -> None:
    answers: list[Any] = []
    counting.before_step = lambda number: answers.append(counting.answer()) if number == 2 else None
    assert counting.invoke() == "Done"
    [answer] = answers
    assert answer["outcome"] == "InProgress"
    assert f"for {FIRST}, request " in answer["reason"]
    assert counting.steps == [1, 2, 3]


@pytest.mark.parametrize("why", [f"for {SECOND}, request the-other", f"for {FIRST}, request first", "by hand", None, 5])
def test_while_another_time_or_its_own_killed_run_holds_the_lock_the_event_is_refused_naming_the_holder(
    counting: JobService, why: Any
) -> None:
    """Its own run, of the same request, was killed: Lambda must try again when the lease is over."""
    lock = counting.locks.acquire("count", lease_seconds=60, why=why, window=SECOND)
    with pytest.raises(LockTaken, match=r"lock 'count' is taken until ") as caught:
        counting.invoke(request="first")
    assert caught.value.holder.get("why") == why
    assert not counting.worked
    lock.release()
    assert counting.invoke() == "Done"


@pytest.mark.parametrize(("held_for", "outcome"), [(FIRST, "InProgress"), (SECOND, "Refused")])
def test_either_is_counted_and_logged(
    counting: JobService, monkeypatch: pytest.MonkeyPatch, held_for: str, outcome: str
) -> None:
    counted: list[str] = []
    logged: list[str] = []
    monkeypatch.setattr(counting.job.metrics, "add_metric", lambda name, unit, value: counted.append(name))
    monkeypatch.setattr(counting.job.logger, "info", lambda message, extra: logged.append(message))
    counting.locks.acquire("count", lease_seconds=60, why=f"for {held_for}, request the-other", window=held_for)
    with contextlib.suppress(LockTaken):
        counting.invoke()
    assert counted == logged == [outcome]


@pytest.mark.parametrize("step", range(1, STEPS + 1))
def test_a_killed_run_continues_from_its_checkpoint_once_its_lease_is_over(counting: JobService, step: int) -> None:
    counting.kill(step, "first")
    assert counting.invoke(request="duplicate") == "InProgress"
    with pytest.raises(LockTaken):
        counting.invoke(request="first")
    counting.end_of_lease()
    outcomes = [counting.invoke(request="first"), *(counting.invoke(event) for event, _, _ in counting.waiting)]
    assert outcomes == (["Done"] if step == STEPS else ["Continued", "Done"])
    assert counting.steps == [1, 2, 3]


def test_a_duplicate_that_took_a_killed_run_over_goes_on_and_the_retry_is_answered(counting: JobService) -> None:
    counting.kill(2, "first")
    counting.end_of_lease()
    answers: list[Any] = []
    counting.before_step = lambda number: answers.append(counting.invoke(request="first"))
    assert counting.invoke(request="duplicate") == "Continued"
    counting.deliver_next()
    assert answers == ["InProgress", "InProgress"]
    assert counting.outcomes[-1] == "Done"
    assert counting.steps == [1, 2, 3]


def test_a_continuation_that_meets_a_duplicate_leaves_the_rest_to_it(counting: JobService) -> None:
    """Between the release of one run and the start of the next, a duplicate has taken the lock."""
    counting.timeout_seconds = NO_TIME
    assert counting.invoke() == "Continued"
    counting.before_step = lambda number: counting.deliver_next()
    assert counting.invoke(request="duplicate") == "Continued"
    assert counting.outcomes[1:] == ["InProgress", "Continued"]
    counting.before_step = lambda number: None
    counting.deliver_next()
    assert counting.outcomes[-1] == "Done"
    assert counting.steps == [1, 2, 3]


def test_a_duplicate_that_has_the_rest_is_retried_as_any_run_is(counting: JobService) -> None:
    """It dies at its first try, after the continuation was answered. Its retry is no duplicate."""
    counting.timeout_seconds = NO_TIME
    counting.invoke()
    counting.timeout_seconds = 60
    counting.kill(2, "duplicate")
    counting.deliver_next()
    with pytest.raises(LockTaken):
        counting.invoke(request="duplicate")
    counting.end_of_lease()
    assert counting.invoke(request="duplicate") == "Continued"
    counting.deliver_next()
    assert counting.outcomes == ["Continued", "InProgress", "Continued", "Done"]


def test_a_run_whose_continuation_was_sent_without_an_answer_is_answered_at_its_retry(counting: JobService) -> None:
    """The run fails, so Lambda retries it, while the invocation that it did send is at work."""
    counting.timeout_seconds = NO_TIME
    counting.invoke(request="first")
    counting.timeout_seconds = 60
    counting.before_step = lambda number: counting.invoke(request="first")
    counting.deliver_next()
    assert counting.outcomes == ["Continued", "InProgress", "InProgress", "Done"]


# --- several invocations ----------------------------------------------------------------------------------


def test_without_time_for_another_step_the_checkpoint_is_saved_and_the_function_called_again(
    counting: JobService,
) -> None:
    counting.timeout_seconds = NO_TIME
    counting.invoke()
    saved = {"steps": ["segment 1 of 1, step 1"]}
    assert counting.records()["count"]["checkpoint"] == {"window": FIRST, "saved": saved}
    while counting.waiting:
        counting.deliver_next()
    assert counting.outcomes == ["Continued", "Continued", "Done"]
    assert counting.steps == [1, 2, 3]
    assert counting.invoke() == "DoneBefore"


def test_the_function_is_called_again_with_the_same_event_and_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []

    class Lambda:
        def invoke(self, **parameters: Any) -> None:
            calls.append(parameters | {"Payload": json.loads(parameters["Payload"])})

    monkeypatch.setattr(jobs, "lambda_client", Lambda)
    context = Context()
    jobs._invoke_again(EVENT, context)  # type: ignore[arg-type]
    arn = context.invoked_function_arn
    assert calls == [{"FunctionName": arn, "InvocationType": "Event", "Payload": EVENT}]


def test_work_knows_whether_the_run_before_was_killed(counting: JobService) -> None:
    counting.before_step = fail_at(2, ValueError("x"))
    with pytest.raises(ValueError, match="x"):
        counting.invoke()
    counting.before_step = lambda number: None
    counting.kill(2)
    counting.end_of_lease()
    assert [counting.invoke(), counting.invoke()] == ["Continued", "Done"]
    assert [run.after_kill for run in counting.runs] == [False, False, True, False]
    assert counting.runs[2].checkpoint == {"steps": ["segment 1 of 1, step 1"]}


def test_after_a_kill_the_next_invocation_has_retries_of_its_own(counting: JobService) -> None:
    """Each event is tried three times, and here each of three steps kills its process once."""
    counting.kill(1, "first")
    for step, request in ((2, "second"), (3, "third")):
        counting.end_of_lease()
        assert counting.invoke() == "Continued"
        assert len(counting.waiting) == step - 1
        counting.kill(step, request)
    counting.end_of_lease()
    assert counting.invoke() == "Done"
    assert counting.steps == [1, 2, 3]


def test_a_step_that_may_take_longer_than_there_is_time_is_left_to_the_next_invocation(counting: JobService) -> None:
    def long_second_step(run: Run) -> Iterator[Step]:
        if run.checkpoint is None:
            yield Step({"steps": [1]}, next_seconds=60)
        yield Step({"steps": [1, 2]}, last=True)

    counting.job = counting.job._replace(work=long_second_step)
    assert [counting.invoke() for _ in range(2)] == ["Continued", "Done"]
    counting.timeout_seconds = 120
    assert counting.invoke(scheduled_time=SECOND) == "Done"


ERRORS = [
    ValueError("x"),
    KeyboardInterrupt(),
    WindowDone("another", "2026-03-01"),
    LockTaken("another", {}, datetime(2026, 3, 1, tzinfo=UTC)),
    InvalidEvent("another's"),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_an_error_of_the_work_passes_through_and_the_lock_is_released(
    counting: JobService, error: BaseException
) -> None:
    """This includes the errors that a job raises or handles itself, if they are about another lock."""
    counting.before_step = fail_at(2, error)
    with pytest.raises(type(error)) as caught:
        counting.invoke()
    assert caught.value is error
    assert "owner" not in counting.records()["count"]
    counting.before_step = lambda number: None
    assert counting.invoke() == "Done"
    assert counting.steps == [1, 2, 3]


@pytest.mark.parametrize("step", [1, STEPS], ids=["saving its checkpoint", "completing"])
def test_one_who_was_paused_for_too_long_is_refused_with_its_part(counting: JobService, step: int) -> None:
    def another_takes_over(number: int) -> None:
        if number == step:
            counting.end_of_lease()
            counting.locks.acquire("count", lease_seconds=60, window=FIRST)

    counting.before_step = another_takes_over
    with pytest.raises(LockLost):
        counting.invoke()
    records = counting.records()
    assert records.keys() == {"count", f"count {FIRST}"}, "no part"
    assert not {"finished_at", "windows_done"} & {name for record in records.values() for name in record}


def test_work_that_does_not_move_on_is_not_called_again_for_ever(counting: JobService) -> None:
    def standing(run: Run) -> Iterator[Step]:
        yield Step({"done": 1})

    counting.job, counting.timeout_seconds = counting.job._replace(work=standing), NO_TIME
    assert counting.invoke() == "Continued"
    with pytest.raises(AssertionError, match="count: a step without progress"):
        counting.invoke()
    assert len(counting.waiting) == 1


def test_work_without_a_last_step_is_an_error(counting: JobService) -> None:
    counting.job = counting.job._replace(work=lambda run: iter(()))
    with pytest.raises(AssertionError, match="count: no step said that it is the last"):
        counting.invoke()


def test_a_checkpoint_may_be_changed_in_place(counting: JobService) -> None:
    def work(run: Run) -> Iterator[Step]:
        checkpoint = run.checkpoint or {"steps": []}
        while len(checkpoint["steps"]) < STEPS:
            checkpoint["steps"].append("a step")
            counting.before_step(len(checkpoint["steps"]))
            yield Step(checkpoint, last=len(checkpoint["steps"]) == STEPS)

    counting.job, counting.timeout_seconds = counting.job._replace(work=work), NO_TIME
    assert counting.invoke() == "Continued"
    counting.timeout_seconds, counting.before_step = 60, fail_at(3, RuntimeError("once"))
    with pytest.raises(RuntimeError, match="once"):
        counting.invoke()
    counting.before_step = lambda number: None
    assert counting.invoke() == "Done"
