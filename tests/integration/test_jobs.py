"""A scheduled job on both engines: each window is done once, in any number of invocations, wherever one dies."""

import contextlib
import itertools
import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from aws_lambda_powertools import Logger
from aws_lambda_powertools.metrics import EphemeralMetrics

from conditional_writes import Item
from conditional_writes.items import from_dynamodb
from conditional_writes.locks import LockLost, Locks, LockTaken, WindowDone
from tests.support.clock import Clock
from tests.support.faults import Killed
from tools.local_aws.functions import Context
from tools.local_aws.server import Endpoint
from tools.local_aws.tables import create_locks_table
from workers import scheduled_jobs as jobs
from workers.invocation import RESERVED_SECONDS
from workers.job_events import LONGEST_DELAY, LONGEST_LEAD, InvalidEvent
from workers.scheduled_jobs import UNRESOLVED, Job, Run, Step

_numbers = itertools.count(1)
EVENT = {"job": "count", "scheduled_time": "2026-03-01T02:00:00Z", "force": True}
WINDOW = "2026-03-01T02:00:00+00:00"
RECORD = f"count {WINDOW}"
PART = f"{RECORD} segment 1 of 1"
STEPS = 3
NO_TIME = RESERVED_SECONDS
"""A timeout that leaves no time for a second step."""


class Counting:
    """A job of three steps. `worked` records each step's time and number. `before_step` is called in each step."""

    def __init__(self, dynamodb: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
        self.client = dynamodb.client("dynamodb")
        self.clock = Clock()
        self.locks = Locks(self.client, create_locks_table(dynamodb, f"jobs-{next(_numbers)}"), now=self.clock)
        self.job = Job("count", self.work, self.report, 1, self.locks, Logger(service="teller"), EphemeralMetrics())
        self.runs: list[Run] = []
        self.worked: list[tuple[datetime, int]] = []
        self.called_again: list[Any] = []
        self.before_step: Any = lambda number: None
        monkeypatch.setattr(jobs, "_invoke_again", lambda event, context: self.called_again.append(event))

    def work(self, run: Run) -> Iterator[Step]:
        self.runs.append(run)
        for number in range(int(run.checkpoint["done"]) + 1 if run.checkpoint else 1, STEPS + 1):
            self.before_step(number)
            self.worked.append((run.scheduled_time, number))
            yield Step({"done": number}, last=number == STEPS)

    def report(self, parts: Sequence[Item]) -> Item:
        return {"done": sum(part["done"] for part in parts)}

    def run(
        self, event: Any = EVENT, timeout_seconds: float = 60, request: str | None = None, **fields: Any
    ) -> dict[str, str]:
        """Invokes the function. Lambda's retries of an event have the `request` of its first try."""
        self.clock.seconds += 0.001
        context = Context(timeout_seconds)
        context.aws_request_id = request or context.aws_request_id
        return self.job.run(event | fields if fields else event, context)  # type: ignore[arg-type]

    def kill(self, step: int, request: str | None = None) -> None:
        """Runs the job until it is killed in this step: its lock is never released."""
        self.before_step, acquire = fail_at(step, Killed()), self.locks.acquire
        self.locks.acquire = dying(acquire)  # type: ignore[method-assign]
        with pytest.raises(Killed):
            self.run(request=request)
        self.before_step, self.locks.acquire = lambda number: None, acquire  # type: ignore[method-assign]

    @property
    def steps(self) -> list[int]:
        return [number for _, number in self.worked]

    def item(self, lock_key: str = "count") -> dict[str, Any] | None:
        found = self.client.get_item(
            TableName=self.locks.table, Key={"lock_key": {"S": lock_key}}, ConsistentRead=True
        ).get("Item")
        return from_dynamodb(found) if found else None

    def end_of_lease(self) -> None:
        self.clock.seconds += 100


@pytest.fixture
def counting(dynamodb: Endpoint, monkeypatch: pytest.MonkeyPatch) -> Counting:
    return Counting(dynamodb, monkeypatch)


def fail(error: BaseException) -> None:
    raise error


def fail_at(step: int, error: BaseException) -> Any:
    return lambda number: fail(error) if number == step else None


JOB, TIME = "job: expected 'count'", 'scheduled_time: expected an ISO 8601 time with its offset, such as "2026-02-28'
INVALID = {
    "no object": ([], f"{JOB}, got None"),
    "no job": ({"scheduled_time": "2026-03-01T02:00:00Z"}, f"{JOB}, got None"),
    "another job": (EVENT | {"job": "reconcile"}, f"{JOB}, got 'reconcile'"),
    "no time": ({"job": "count"}, f'{TIME}T02:00:00Z", got None'),
    "a time in words": (EVENT | {"scheduled_time": "tonight"}, f"{TIME}T02:00:00Z\", got 'tonight'"),
    "a time without its offset": (
        EVENT | {"scheduled_time": "2026-03-01T02:00:00"},
        f"{TIME}T02:00:00Z\", got '2026-03-01T02:00:00'",
    ),
    "a day": (EVENT | {"scheduled_time": "2026-03-01"}, f"{TIME}T02:00:00Z\", got '2026-03-01'"),
    "seconds": (EVENT | {"scheduled_time": 1772330400}, f'{TIME}T02:00:00Z", got 1772330400'),
    "a time that UTC has no date for": (
        EVENT | {"scheduled_time": "0001-01-01T00:00:00+14:00"},
        f"{TIME}T02:00:00Z\", got '0001-01-01T00:00:00+14:00'",
    ),
    "a long text for a job": ({"job": "x" * 100_000}, f"{JOB}, got '{'x' * 12}...{'x' * 13}'"),
    "a long text for a time": (
        EVENT | {"scheduled_time": "2" * 100_000},
        f"{TIME}T02:00:00Z\", got '{'2' * 12}...{'2' * 13}'",
    ),
    "a job of many": ({"job": [["x" * 100] * 100] * 100}, f"{JOB}, got [['xxxxxxxxxxxx...xxxxxxxxxxxxx', 'xxxxx"),
}


@pytest.mark.parametrize(("event", "sentence"), INVALID.values(), ids=INVALID)
def test_an_event_that_is_none_of_the_jobs_is_refused_with_what_was_expected(
    ministack: Endpoint, monkeypatch: pytest.MonkeyPatch, event: Any, sentence: str
) -> None:
    counting = Counting(ministack, monkeypatch)
    with pytest.raises(InvalidEvent) as caught:
        counting.run(event)
    assert str(caught.value) == sentence
    assert counting.item() is None


@pytest.mark.parametrize("value", ["true", 1, None, []])
def test_force_that_is_neither_true_nor_false_is_refused(
    ministack: Endpoint, monkeypatch: pytest.MonkeyPatch, value: Any
) -> None:
    counting = Counting(ministack, monkeypatch)
    with pytest.raises(InvalidEvent, match=r"^force: expected true or false, got "):
        counting.run(force=value)
    assert counting.item(RECORD) is None


# --- an event before its time, or long after it -----------------------------------------------------------

AT = datetime(2026, 3, 1, 2, tzinfo=UTC)
ON_SCHEDULE = {"job": "count", "scheduled_time": WINDOW}
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


@pytest.mark.parametrize("now", DUE.values(), ids=DUE)
def test_an_event_of_the_last_day_begins_a_run_without_a_further_request(counting: Counting, now: datetime) -> None:
    counting.clock.seconds = now.timestamp()
    asked: list[str] = []
    counting.client.meta.events.register("before-call", lambda model, **_: asked.append(model.name))
    assert counting.run(ON_SCHEDULE)["outcome"] == "Done"
    assert asked.count("BatchGetItem") == 1  # the parts of the report


@pytest.mark.parametrize("now", OFF.values(), ids=OFF)
def test_an_event_of_another_time_is_refused_and_its_run_can_begin_in_time(counting: Counting, now: datetime) -> None:
    counting.clock.seconds = now.timestamp()
    for event in (ON_SCHEDULE, ON_SCHEDULE | {"force": False}, ON_SCHEDULE | {"segment": 1, "segments": 1}):
        with pytest.raises(InvalidEvent, match=r"^scheduled_time: expected a time at most a day ago and ") as caught:
            counting.run(event)
    assert f"got {WINDOW}, and now it is {now.isoformat()}" in str(caught.value)
    assert (counting.item(), counting.item(RECORD), counting.worked) == (None, None, [])
    counting.clock.seconds = AT.timestamp()
    assert counting.run(ON_SCHEDULE)["outcome"] == "Done"


@pytest.mark.parametrize("now", OFF.values(), ids=OFF)
def test_an_event_of_another_time_that_is_forced_begins_a_run(counting: Counting, now: datetime) -> None:
    counting.clock.seconds = now.timestamp()
    assert counting.run(ON_SCHEDULE | {"force": True}, timeout_seconds=NO_TIME)["outcome"] == "Continued"
    assert counting.run(counting.called_again.pop())["outcome"] == "Done"


@pytest.mark.parametrize("now", OFF.values(), ids=OFF)
def test_a_run_that_was_begun_goes_on_whatever_the_time(counting: Counting, now: datetime) -> None:
    counting.clock.seconds = AT.timestamp()
    assert counting.run(ON_SCHEDULE, timeout_seconds=NO_TIME)["outcome"] == "Continued"
    counting.clock.seconds = now.timestamp()
    assert [counting.run(ON_SCHEDULE)["outcome"] for _ in range(2)] == ["Done", "DoneBefore"]
    assert counting.steps == [1, 2, 3]


def test_a_time_is_done_once_however_often_its_event_comes(counting: Counting) -> None:
    about = {"job": "count", "scheduled_time": WINDOW}
    assert counting.run() == about | {"outcome": "Done"}
    reason = f"the run was finished at {(counting.item(RECORD) or {})['finished_at']}"
    for spelling in ("2026-03-01T02:00:00Z", "2026-03-01T03:30:00+01:30"):
        again = counting.run(scheduled_time=spelling)
        assert again == about | {"outcome": "DoneBefore", "reason": reason}
    assert counting.worked == [(datetime(2026, 3, 1, 2, tzinfo=UTC), number) for number in (1, 2, 3)]
    assert not counting.called_again


def test_another_time_is_done_from_its_start(counting: Counting) -> None:
    counting.run()
    assert counting.run(scheduled_time="2026-03-02T02:00:00Z")["outcome"] == "Done"
    assert counting.steps == [1, 2, 3, 1, 2, 3]


def test_a_time_that_was_left_unresolved_is_invalid(counting: Counting, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    with pytest.raises(InvalidEvent, match="scheduled_time: expected an ISO 8601 time"):
        counting.run(scheduled_time=UNRESOLVED)


def test_on_a_local_aws_it_is_today_so_the_job_runs_once_a_day(
    counting: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    for now in (AT, AT.replace(hour=23, minute=59, second=59)):
        counting.clock.seconds = now.timestamp()
        counting.run(ON_SCHEDULE | {"scheduled_time": UNRESOLVED})
    assert counting.worked == [(datetime(2026, 3, 1, tzinfo=UTC), number) for number in (1, 2, 3)]


# --- an event while the lock is held ----------------------------------------------------------------------


def test_a_duplicate_of_an_event_in_progress_is_answered(counting: Counting) -> None:
    answers: list[Any] = []
    counting.before_step = lambda number: answers.append(counting.run()) if number == 2 else None
    assert counting.run()["outcome"] == "Done"
    [answer] = answers
    assert answer["outcome"] == "InProgress"
    assert "request" in answer["reason"]
    assert counting.steps == [1, 2, 3]


def test_while_another_time_is_in_progress_the_event_is_refused_naming_it(counting: Counting) -> None:
    why = "for 2026-02-28T02:00:00+00:00, request the-other"
    lock = counting.locks.acquire("count", lease_seconds=60, why=why, window="2026-02-28T02:00:00+00:00")
    with pytest.raises(LockTaken, match=r"lock 'count' is taken until .* request the-other") as caught:
        counting.run()
    assert caught.value.holder["why"] == why
    assert not counting.worked
    lock.release()
    assert counting.run()["outcome"] == "Done"


@pytest.mark.parametrize("why", [None, "", "by hand", 5, f"for {WINDOW}, request first"])
def test_while_another_holds_the_lock_for_no_known_event_the_event_is_refused(counting: Counting, why: Any) -> None:
    """Among them its own run: it was killed, and Lambda must try again when the lease is over."""
    counting.locks.acquire("count", lease_seconds=60, why=why, window=WINDOW)
    with pytest.raises(LockTaken):
        counting.run(request="first")
    assert not counting.worked


@pytest.mark.parametrize("step", range(1, STEPS + 1))
def test_a_retry_of_a_killed_run_is_tried_again_until_the_lease_is_over(counting: Counting, step: int) -> None:
    counting.kill(step, "first")
    assert counting.run(request="duplicate")["outcome"] == "InProgress"
    with pytest.raises(LockTaken):
        counting.run(request="first")
    counting.end_of_lease()
    assert counting.run(request="first")["outcome"] in ("Continued", "Done")
    counting.run()
    assert counting.run()["outcome"] == "DoneBefore"
    assert counting.steps == [1, 2, 3]


def test_a_duplicate_that_took_a_killed_run_over_goes_on_and_the_retry_is_answered(counting: Counting) -> None:
    counting.kill(2, "first")
    counting.end_of_lease()
    answers: list[Any] = []
    counting.before_step = lambda number: answers.append(counting.run(request="first")["outcome"])
    assert counting.run(request="duplicate")["outcome"] == "Continued"
    assert counting.run(counting.called_again.pop())["outcome"] == "Done"
    assert answers == ["InProgress", "InProgress"]
    assert counting.steps == [1, 2, 3]


def test_a_continuation_that_meets_a_duplicate_leaves_the_rest_to_it(counting: Counting) -> None:
    """Between the release of one run and the start of the next, a duplicate has taken the lock."""
    assert counting.run(timeout_seconds=NO_TIME)["outcome"] == "Continued"
    answers: list[Any] = []
    counting.before_step = lambda number: answers.append(counting.run(counting.called_again.pop()))
    assert counting.run(request="duplicate", timeout_seconds=NO_TIME)["outcome"] == "Continued"
    assert [answer["outcome"] for answer in answers] == ["InProgress"]
    counting.before_step = lambda number: None
    assert counting.run(counting.called_again.pop())["outcome"] == "Done"
    assert counting.steps == [1, 2, 3]


def test_a_duplicate_that_has_the_rest_is_retried_as_any_run_is(counting: Counting) -> None:
    """It dies at its first try, after the continuation was answered. Its retry is no duplicate."""
    assert counting.run(timeout_seconds=NO_TIME)["outcome"] == "Continued"
    counting.kill(2, "duplicate")
    assert counting.run(counting.called_again.pop())["outcome"] == "InProgress"
    with pytest.raises(LockTaken):
        counting.run(request="duplicate")
    counting.end_of_lease()
    assert counting.run(request="duplicate")["outcome"] == "Continued"
    assert counting.run(counting.called_again.pop())["outcome"] == "Done"


def test_a_run_whose_continuation_was_sent_without_an_answer_is_answered_at_its_retry(counting: Counting) -> None:
    """The run fails, so Lambda retries it, while the invocation that it did send is at work."""
    answers: list[Any] = []
    counting.run(timeout_seconds=NO_TIME, request="first")
    counting.before_step = lambda number: answers.append(counting.run(request="first")["outcome"])
    assert counting.run(counting.called_again.pop())["outcome"] == "Done"
    assert answers == ["InProgress", "InProgress"]


@pytest.mark.parametrize(("held_for", "outcome"), [(WINDOW, "InProgress"), ("2026-02-28T02:00:00+00:00", "Refused")])
def test_either_is_counted_and_logged(
    counting: Counting, monkeypatch: pytest.MonkeyPatch, held_for: str, outcome: str
) -> None:
    counted: list[str] = []
    logged: list[str] = []
    monkeypatch.setattr(counting.job.metrics, "add_metric", lambda name, unit, value: counted.append(name))
    monkeypatch.setattr(counting.job.logger, "info", lambda message, extra: logged.append(message))
    counting.locks.acquire("count", lease_seconds=60, why=f"for {held_for}, request the-other", window=held_for)
    with contextlib.suppress(LockTaken):
        counting.run()
    assert counted == logged == [outcome]


def test_the_holder_that_others_see_says_for_which_time_and_request(counting: Counting) -> None:
    seen: list[Any] = []
    counting.before_step = lambda number: seen.append((counting.item() or {})["holder"]["why"])
    counting.run()
    assert seen[0].startswith(f"for {WINDOW}, request ")


def test_without_time_for_another_step_the_checkpoint_is_saved_and_the_function_called_again(
    counting: Counting,
) -> None:
    outcomes = [counting.run(timeout_seconds=NO_TIME)["outcome"]]
    assert (counting.item() or {})["checkpoint"] == {"window": WINDOW, "saved": {"done": 1}}
    while counting.called_again:
        outcomes.append(counting.run(counting.called_again.pop(), timeout_seconds=NO_TIME)["outcome"])
    assert outcomes == ["Continued", "Continued", "Done"]
    assert counting.steps == [1, 2, 3]
    assert counting.run()["outcome"] == "DoneBefore"


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


@pytest.mark.parametrize("step", range(1, STEPS + 1))
def test_a_killed_run_continues_from_its_checkpoint_once_its_lease_is_over(counting: Counting, step: int) -> None:
    counting.kill(step, "first")
    with pytest.raises(LockTaken):
        counting.run(request="first")
    counting.end_of_lease()
    outcomes = [counting.run(request="first")["outcome"]]
    outcomes += [counting.run(event)["outcome"] for event in counting.called_again]
    assert outcomes == (["Done"] if step == STEPS else ["Continued", "Done"])
    assert counting.steps == [1, 2, 3]


def test_work_knows_that_the_run_before_was_killed(counting: Counting) -> None:
    counting.kill(2)
    counting.end_of_lease()
    counting.run()
    counting.run()
    assert [run.after_kill for run in counting.runs] == [False, True, False]
    assert counting.runs[1].checkpoint == {"done": 1}


def test_work_that_failed_or_was_continued_was_not_killed(counting: Counting) -> None:
    counting.before_step = fail_at(2, ValueError("x"))
    with pytest.raises(ValueError, match="x"):
        counting.run()
    counting.before_step = lambda number: None
    assert [counting.run(timeout_seconds=NO_TIME)["outcome"], counting.run()["outcome"]] == ["Continued", "Done"]
    assert [run.after_kill for run in counting.runs] == [False, False, False]


def test_after_a_kill_the_next_invocation_has_retries_of_its_own(counting: Counting) -> None:
    """Each event is tried three times, and here each of three steps kills its process once."""
    counting.kill(1, "first")
    for step, request in ((2, "second"), (3, "third")):
        counting.end_of_lease()
        assert counting.run()["outcome"] == "Continued"
        assert len(counting.called_again) == step - 1
        counting.kill(step, request)
    counting.end_of_lease()
    assert counting.run()["outcome"] == "Done"
    assert counting.steps == [1, 2, 3]


def test_a_step_that_may_take_longer_than_there_is_time_is_left_to_the_next_invocation(counting: Counting) -> None:
    def long_second_step(run: Run) -> Iterator[Step]:
        if run.checkpoint is None:
            yield Step({"done": 1}, next_seconds=60)
        yield Step({"done": 2}, last=True)

    counting.job = counting.job._replace(work=long_second_step)
    assert [counting.run()["outcome"] for _ in range(2)] == ["Continued", "Done"]
    assert len(counting.called_again) == 1
    times = [counting.run(scheduled_time=f"2026-03-0{day}T02:00:00Z", timeout_seconds=120) for day in (2, 3)]
    assert [answer["outcome"] for answer in times] == ["Done", "Done"]


def dying(acquire: Any) -> Any:
    """Acquires locks that are never released, as in a killed process."""

    def acquire_for_good(*arguments: Any, **options: Any) -> Any:
        lock = acquire(*arguments, **options)
        lock.release = lambda: fail(Killed())
        return lock

    return acquire_for_good


@pytest.mark.parametrize(
    "error",
    [
        ValueError("x"),
        KeyboardInterrupt(),
        WindowDone("another", "2026-03-01"),
        LockTaken("another", {}, datetime(2026, 3, 1, tzinfo=UTC)),
        InvalidEvent("another's"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_of_the_work_passes_through_and_the_lock_is_released(counting: Counting, error: BaseException) -> None:
    """This includes the errors that a job raises or handles itself, if they are about another lock."""
    counting.before_step = fail_at(2, error)
    with pytest.raises(type(error)) as caught:
        counting.run()
    assert caught.value is error
    assert "owner" not in (counting.item() or {})
    counting.before_step = lambda number: None
    assert counting.run()["outcome"] == "Done"
    assert counting.steps == [1, 2, 3]


@pytest.mark.parametrize("step", [1, STEPS], ids=["saving its checkpoint", "completing"])
def test_one_who_was_paused_for_too_long_is_refused_with_its_part(counting: Counting, step: int) -> None:
    def another_takes_over(number: int) -> None:
        if number == step:
            counting.end_of_lease()
            counting.locks.acquire("count", lease_seconds=60, window=WINDOW)

    counting.before_step = another_takes_over
    with pytest.raises(LockLost):
        counting.run()
    assert counting.item(PART) is None
    assert "finished_at" not in (counting.item(RECORD) or {})
    assert "windows_done" not in (counting.item() or {})


def test_work_that_does_not_move_on_is_not_called_again_for_ever(counting: Counting) -> None:
    def standing(run: Run) -> Iterator[Step]:
        yield Step({"done": 1})

    job = counting.job._replace(work=standing)
    assert job.run(EVENT, Context(NO_TIME))["outcome"] == "Continued"  # type: ignore[arg-type]
    counting.clock.seconds += 0.001
    with pytest.raises(AssertionError, match="count: a step without progress"):
        job.run(EVENT, Context(NO_TIME))  # type: ignore[arg-type]
    assert len(counting.called_again) == 1


def test_work_without_a_last_step_is_an_error(counting: Counting) -> None:
    with pytest.raises(AssertionError, match="count: no step said that it is the last"):
        counting.job._replace(work=lambda run: iter(())).run(EVENT, Context())  # type: ignore[arg-type]
    assert counting.run()["outcome"] == "Done"


def test_a_checkpoint_may_be_changed_in_place(counting: Counting) -> None:
    def work(run: Run) -> Iterator[Step]:
        checkpoint = run.checkpoint or {"done": 0}
        while checkpoint["done"] < STEPS:
            checkpoint["done"] += 1
            counting.before_step(checkpoint["done"])
            yield Step(checkpoint, last=checkpoint["done"] == STEPS)

    counting.job = counting.job._replace(work=work)
    assert counting.run(timeout_seconds=NO_TIME)["outcome"] == "Continued"
    counting.before_step = fail_at(3, RuntimeError("once"))
    with pytest.raises(RuntimeError, match="once"):
        counting.run()
    counting.before_step = lambda number: None
    assert counting.run()["outcome"] == "Done"
