"""A scheduled job on both engines: each window is done once, in any number of invocations, wherever one dies."""

import itertools
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from aws_lambda_powertools import Logger
from aws_lambda_powertools.metrics import EphemeralMetrics

from conditional_writes import Conflict, Put, exists, key
from conditional_writes.items import from_dynamodb
from conditional_writes.locks import LockLost, Locks, LockTaken, WindowDone
from tests.support.clock import Clock
from tests.support.faults import Killed
from tools.local_aws.functions import Context
from tools.local_aws.server import Endpoint
from tools.local_aws.tables import create_locks_table
from workers import scheduled_jobs as jobs
from workers.invocation import RESERVED_SECONDS
from workers.scheduled_jobs import UNRESOLVED, InvalidEvent, Job, Step

_numbers = itertools.count(1)
EVENT = {"job": "count", "scheduled_time": "2026-03-01T02:00:00Z"}
WINDOW = "2026-03-01T02:00:00+00:00"
STEPS = 3
NO_TIME = RESERVED_SECONDS
"""A timeout that leaves no time for a second step."""


class Counting:
    """A job of three steps. `worked` records each step's time and number. `before_step` is called in each step."""

    def __init__(self, dynamodb: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
        self.client = dynamodb.client("dynamodb")
        self.clock = Clock()
        self.locks = Locks(self.client, create_locks_table(dynamodb, f"jobs-{next(_numbers)}"), now=self.clock)
        self.job = Job("count", self.work, self.locks, Logger(service="teller"), EphemeralMetrics())
        self.worked: list[tuple[datetime, int]] = []
        self.called_again: list[Any] = []
        self.before_step: Any = lambda number: None
        monkeypatch.setattr(jobs, "_invoke_again", lambda event, context: self.called_again.append(event))

    def work(self, scheduled_time: datetime, checkpoint: dict[str, Any] | None) -> Iterator[Step]:
        for number in range(int(checkpoint["done"]) + 1 if checkpoint else 1, STEPS + 1):
            self.before_step(number)
            self.worked.append((scheduled_time, number))
            yield Step({"done": number}, [Put(self.effect(number), {})], last=number == STEPS)

    def effect(self, number: int) -> Any:
        return key(self.locks.table, lock_key=f"effect {number}")

    def run(self, event: Any = EVENT, timeout_seconds: float = 60, **fields: Any) -> dict[str, str]:
        self.clock.seconds += 0.001
        return self.job.run(event | fields if fields else event, Context(timeout_seconds))  # type: ignore[arg-type]

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


def test_a_time_is_done_once_however_often_its_event_comes(counting: Counting) -> None:
    about = {"job": "count", "scheduled_time": WINDOW}
    assert counting.run() == about | {"outcome": "Done"}
    reason = f"lock 'count': window {WINDOW} was done before"
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
    days = {datetime.now(UTC).date()}
    outcomes = [counting.run(scheduled_time=UNRESOLVED)["outcome"] for _ in range(2)]
    days.add(datetime.now(UTC).date())  # At midnight there are two.
    [*_, scheduled_time] = {scheduled_time for scheduled_time, _ in counting.worked}
    assert scheduled_time in {datetime(day.year, day.month, day.day, tzinfo=UTC) for day in days}
    assert outcomes == ["Done", "DoneBefore"] or len(days) == 2


def test_while_another_works_the_event_is_refused_naming_it(counting: Counting) -> None:
    why = "for 2026-03-01T02:00:00+00:00, request the-other"
    lock = counting.locks.acquire("count", lease_seconds=60, why=why, window=WINDOW)
    with pytest.raises(LockTaken, match=r"lock 'count' is taken until .* request the-other") as caught:
        counting.run()
    assert caught.value.holder["why"] == why
    assert not counting.worked
    lock.release()
    assert counting.run()["outcome"] == "Done"


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
    counting.before_step = fail_at(step, Killed())
    counting.locks.acquire = dying(counting.locks.acquire)  # type: ignore[method-assign]
    with pytest.raises(Killed):
        counting.run()
    counting.before_step = lambda number: None
    with pytest.raises(LockTaken):
        counting.run()
    counting.end_of_lease()
    assert counting.run()["outcome"] == "Done"
    assert counting.steps == [1, 2, 3]


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


def test_what_a_step_writes_takes_effect_with_its_checkpoint_or_not_at_all(counting: Counting) -> None:
    def refused(scheduled_time: datetime, checkpoint: Any) -> Iterator[Step]:
        yield Step({"done": 1}, [Put(counting.effect(1), {}, exists("lock_key"))])

    with pytest.raises(Conflict):
        counting.job._replace(work=refused).run(EVENT, Context())  # type: ignore[arg-type]
    assert "checkpoint" not in (counting.item() or {})
    counting.run()
    assert all(counting.item(f"effect {number}") for number in range(1, STEPS + 1))


@pytest.mark.parametrize("step", [1, STEPS], ids=["saving its checkpoint", "completing"])
def test_one_who_was_paused_for_too_long_is_refused_with_what_it_wanted_to_write(counting: Counting, step: int) -> None:
    def another_takes_over(number: int) -> None:
        if number == step:
            counting.end_of_lease()
            counting.locks.acquire("count", lease_seconds=60, window=WINDOW)

    counting.before_step = another_takes_over
    with pytest.raises(LockLost):
        counting.run()
    assert counting.item(f"effect {step}") is None
    assert "windows_done" not in (counting.item() or {})


def test_work_that_does_not_move_on_is_not_called_again_for_ever(counting: Counting) -> None:
    def standing(scheduled_time: datetime, checkpoint: Any) -> Iterator[Step]:
        yield Step({"done": 1})

    job = counting.job._replace(work=standing)
    assert job.run(EVENT, Context(NO_TIME))["outcome"] == "Continued"  # type: ignore[arg-type]
    counting.clock.seconds += 0.001
    with pytest.raises(AssertionError, match="count: a step without progress"):
        job.run(EVENT, Context(NO_TIME))  # type: ignore[arg-type]
    assert len(counting.called_again) == 1


def test_work_without_a_last_step_is_an_error(counting: Counting) -> None:
    with pytest.raises(AssertionError, match="count: no step said that it is the last"):
        counting.job._replace(work=lambda scheduled_time, checkpoint: iter(())).run(EVENT, Context())  # type: ignore[arg-type]
    assert counting.run()["outcome"] == "Done"


def test_a_checkpoint_may_be_changed_in_place(counting: Counting) -> None:
    def work(scheduled_time: datetime, checkpoint: dict[str, Any] | None) -> Iterator[Step]:
        checkpoint = checkpoint or {"done": 0}
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
