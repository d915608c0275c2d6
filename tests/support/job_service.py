"""Lambda with a function whose job takes some steps for each segment. Events are delivered as Lambda does."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from aws_lambda_powertools import Logger
from aws_lambda_powertools.metrics import EphemeralMetrics

from conditional_writes import Item
from conditional_writes.core.items import from_dynamodb, to_dynamodb
from conditional_writes.locks import Locks
from tests.support.clock import Clock
from tests.support.faults import Faults, Killed
from tools.local_aws.functions import Context
from tools.local_aws.server import Endpoint
from tools.local_aws.tables import create_locks_table, scan
from workers import scheduled_jobs
from workers.invocation import RESERVED_SECONDS
from workers.scheduled_jobs import Job, Run, Step

FIRST, SECOND, THIRD = (f"2026-03-0{day}T02:00:00+00:00" for day in (1, 2, 3))
ON_SCHEDULE = {"job": "count", "scheduled_time": FIRST}
EVENT = ON_SCHEDULE | {"force": True}
NO_TIME = RESERVED_SECONDS
"""A timeout that leaves no time for a second step."""
TRIES = 3

_numbers = itertools.count(1)


class JobService:
    """`waiting` has the events with which the function invoked itself, `worked` the time and step of each step done.

    Each step calls `before_step` with its number, and is noted in the checkpoint.
    """

    def __init__(
        self,
        dynamodb: Endpoint,
        patch: pytest.MonkeyPatch,
        segments: int = 1,
        steps: int = 2,
        now: Callable[[], float] | None = None,
    ) -> None:
        self.dynamodb, self.client, self.number_of_steps = dynamodb, dynamodb.client("dynamodb"), steps
        self.clock = Clock()
        table = create_locks_table(dynamodb, f"jobs-{next(_numbers)}")
        self.locks = Locks(self.client, table, now=now or self.clock)
        logger, metrics = Logger(service="teller", level="CRITICAL"), EphemeralMetrics(namespace="Teller")
        self.job = Job("count", self.work, self.report, segments, self.locks, logger, metrics)
        self.waiting: list[tuple[Any, str, int]] = []
        self.outcomes: list[str] = []
        self.runs: list[Run] = []
        self.worked: list[tuple[str, str, int]] = []
        self.copies, self.timeout_seconds = 1, 60.0
        self.before_step: Callable[[int], object] = lambda number: None
        self.before_call: Callable[[str], object] = lambda operation: None
        self.client.meta.events.register("before-call", lambda model, **_: self.before_call(model.name))
        patch.setattr(scheduled_jobs, "_invoke_again", lambda event, context: self.send(event))

    def work(self, run: Run) -> Iterator[Step]:
        self.runs.append(run)
        steps = run.checkpoint["steps"] if run.checkpoint else []
        for number in range(len(steps) + 1, self.number_of_steps + 1):
            self.before_step(number)
            self.worked.append((run.scheduled_time.isoformat(), str(run.segment), number))
            steps = [*steps, f"{run.segment}, step {number}"]
            yield Step({"steps": steps}, last=number == self.number_of_steps)

    def report(self, parts: Sequence[Item]) -> Item:
        return {"steps": [step for part in parts for step in part["steps"]]}

    def answer(self, event: Any = EVENT, request: str = "", **fields: Any) -> dict[str, str]:
        """Invokes the function, which may raise its error. Lambda's retries of an event have its `request`."""
        context = Context(self.timeout_seconds)
        context.aws_request_id = request or context.aws_request_id
        if self.locks.now is self.clock:
            self.clock.seconds += 0.001
        answer = self.job.run(event | fields if fields else event, context)  # type: ignore[arg-type]
        self.outcomes.append(answer["outcome"])
        return answer

    def invoke(self, event: Any = EVENT, request: str = "", **fields: Any) -> str:
        return self.answer(event, request, **fields)["outcome"]

    def kill(self, step: int, request: str = "") -> None:
        """Runs the job until it is killed in this step: its lock is never released."""

        def acquire_for_good(*arguments: Any, **options: Any) -> Any:
            lock = acquire(*arguments, **options)
            lock.release = lambda: fail(Killed())
            return lock

        acquire = self.locks.acquire
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(self.locks, "acquire", acquire_for_good)
            patch.setattr(self, "before_step", fail_at(step, Killed()))
            with pytest.raises(Killed):
                self.invoke(request=request)

    def end_of_lease(self) -> None:
        self.clock.seconds += 200

    def send(self, event: Any) -> None:
        """An asynchronous invocation. Its event may be delivered more than once."""
        self.waiting += [(event, f"request {next(_numbers)}", 1) for _ in range(self.copies)]

    def deliver_all(self, event: Any = EVENT, faults: Faults | None = None) -> None:
        """Delivers the event, and all that follow from it, until no event is waiting."""
        self.send(event)
        while self.waiting:
            self.deliver_next(faults)

    def deliver_next(self, faults: Faults | None = None, position: int = 0) -> None:
        """After an error the event waits again, with its request, three times in all."""
        event, request, tries = self.waiting.pop(position)
        if faults:
            faults.revive()
        try:
            self.invoke(event, request)
        except (Killed, Exception):  # noqa: BLE001 (Lambda retries after any error)
            assert tries < TRIES, f"{event} failed at every try"
            self.end_of_lease()
            self.waiting.append((event, request, tries + 1))

    def records(self) -> dict[str, Item]:
        items = map(from_dynamodb, scan(self.dynamodb, self.locks.table))
        return {item.pop("lock_key"): item for item in items}

    def put(self, lock_key: str, **attributes: Any) -> None:
        self.client.put_item(TableName=self.locks.table, Item=to_dynamodb({"lock_key": lock_key} | attributes))

    def reported(self, scheduled_time: str = FIRST) -> list[str]:
        """The steps in the run's report. Fails if there is none."""
        record = self.records()[f"count {scheduled_time}"]
        assert record["finished_at"]
        steps: list[str] = record["steps"]
        return steps

    @property
    def steps(self) -> list[int]:
        return [number for _, _, number in self.worked]

    def assert_done_once(self, segments: int, scheduled_time: str = FIRST) -> None:
        """Each step was done once, is in the report, and one invocation was Done."""
        steps = range(1, self.number_of_steps + 1)
        all_of_them = [f"segment {n} of {segments}, step {step}" for n in range(1, segments + 1) for step in steps]
        assert self.reported(scheduled_time) == all_of_them
        assert len(self.worked) == len(set(self.worked)) == len(all_of_them)
        assert self.outcomes.count("Done") == 1


def fail(error: BaseException) -> None:
    raise error


def fail_at(step: int, error: BaseException) -> Callable[[int], object]:
    return lambda number: fail(error) if number == step else None
