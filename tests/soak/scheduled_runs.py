"""Schedules the jobs for another day every few seconds. Each event is delivered twice, and again after a failure.

EventBridge Scheduler delivers an event with the target of the template's schedule, and an asynchronous invocation
delivers it again. On AWS both are retried: Scheduler invokes asynchronously, and Lambda retries after one and after two
more minutes before it sends the event to the jobs' dead-letter queue. ministack's Scheduler looks every 10 s for due
schedules and invokes only once, so only the second delivery is retried, after LAMBDA_ASYNC_RETRY_BASE_SECONDS and after
twice that. The jobs' timeout is shortened in proportion, so that a killed run's lease is over before the second retry,
as on AWS.

On AWS the retries of an event have its request id. ministack gives each a new one, so a killed run's retry is taken for
a duplicate of a run in progress, and ends. So the events of jobs that aren't done are sent again.
"""

import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any

from conditional_writes.items import from_dynamodb
from tests.checkers.windows import windows_done
from tests.support.deployed import until
from tools.local_aws.jobs import event_of, function_name, read_report, run_job
from tools.local_aws.queues import take_dead_letters
from tools.local_aws.stack import NAME, Stack
from tools.local_aws.tables import scan

JOBS = ("charge_overdraft_interest", "expire_holds", "reconcile_accounts")
TIMEOUT_SECONDS = 20
SENT_AGAIN_AFTER_SECONDS = 30
FIRST_SCHEDULED_TIME = datetime(2026, 4, 1, 2, tzinfo=UTC)


@dataclass
class ScheduledRuns:
    """`times` are the scheduled times so far, a day apart. `sent_again` counts dead letters that were sent again."""

    deployed: Stack
    times: list[datetime] = field(default_factory=list)
    sent_again: int = 0
    _last_sent: float = field(default_factory=time.monotonic)

    @cached_property
    def lambda_(self):
        return self.deployed.endpoint.client("lambda")

    @cached_property
    def scheduler(self):
        return self.deployed.endpoint.client("scheduler")

    @cached_property
    def targets(self) -> dict[str, dict[str, Any]]:
        """The targets of the deployed schedules, by job."""
        names = [
            schedule["Name"]
            for page in self.scheduler.get_paginator("list_schedules").paginate()
            for schedule in page["Schedules"]
        ]
        targets = [self.scheduler.get_schedule(Name=name)["Target"] for name in names]
        return {json.loads(target["Input"])["job"]: target for target in targets}

    @contextmanager
    def scheduling(self, seconds: float) -> Iterator[None]:
        """Schedules the jobs now and after each pause, in a thread, while the body runs. Raises errors at the end."""
        over = threading.Event()

        def schedule() -> None:
            self.schedule_next()
            while not over.wait(seconds):
                self.schedule_next()

        with ThreadPoolExecutor(1) as pool:
            scheduling = pool.submit(schedule)
            try:
                yield
            finally:
                over.set()
            scheduling.result()

    def schedule_next(self) -> datetime:
        """Delivers the jobs' events for the next day. Returns the scheduled time."""
        scheduled_time = FIRST_SCHEDULED_TIME + timedelta(days=len(self.times))
        self.times.append(scheduled_time)
        for job in JOBS:
            event = json.dumps(event_of(job, scheduled_time))
            self.scheduler.create_schedule(
                Name=_schedule_name(job, scheduled_time),
                ScheduleExpression=f"at({datetime.now(UTC):%Y-%m-%dT%H:%M:%S})",
                FlexibleTimeWindow={"Mode": "OFF"},
                ActionAfterCompletion="DELETE",
                Target=self.targets[job] | {"Input": event},
            )
            self._invoke_asynchronously(job, event)
        return scheduled_time

    def wait_until_done(self) -> None:
        """Waits until each job is done for each scheduled time. Sends the jobs' dead letters again."""
        until(lambda: not self._scheduled(), "Scheduler has delivered all events")
        until(self._all_done, "each job is done for each scheduled time", seconds=600)

    def _scheduled(self) -> set[str]:
        pages = self.scheduler.get_paginator("list_schedules").paginate()
        names = {schedule["Name"] for page in pages for schedule in page["Schedules"]}
        return names & {_schedule_name(job, scheduled_time) for job in JOBS for scheduled_time in self.times}

    def _all_done(self) -> bool:
        for letter in take_dead_letters(self.deployed.endpoint, self._dead_letter_queue_url):
            event = json.loads(letter.body)["requestPayload"]  # On AWS the body is the event itself.
            self._invoke_asynchronously(event["job"], json.dumps(event))
            self.sent_again += 1
        not_done = self._not_done()
        if not_done and time.monotonic() > self._last_sent + SENT_AGAIN_AFTER_SECONDS:
            self._last_sent = time.monotonic()
            for job, scheduled_time in not_done:
                self._invoke_asynchronously(job, json.dumps(event_of(job, scheduled_time)))
        return not not_done

    @cached_property
    def _dead_letter_queue_url(self) -> str:
        resource = self.deployed.endpoint.client("cloudformation").describe_stack_resource(
            StackName=NAME, LogicalResourceId="JobsDeadLetterQueue"
        )
        return resource["StackResourceDetail"]["PhysicalResourceId"]

    def _invoke_asynchronously(self, job: str, event: str) -> None:
        self.lambda_.invoke(
            FunctionName=function_name(self.deployed, job), InvocationType="Event", Payload=event.encode()
        )

    def not_done(self) -> list[str]:
        """A sentence for each job that isn't done for a scheduled time."""
        return [f"{job} was never done for {scheduled_time.isoformat()}" for job, scheduled_time in self._not_done()]

    def _not_done(self) -> list[tuple[str, datetime]]:
        items = map(from_dynamodb, scan(self.deployed.endpoint, self.deployed["LocksTableName"]))
        records = {item["lock_key"]: item for item in items}
        return [
            (job, scheduled_time)
            for job in JOBS
            for scheduled_time in self.times
            if scheduled_time.isoformat() not in windows_done(records, job)
        ]

    def mismatches(self) -> list[str]:
        """The mismatches that the reconciliations found, and the accounts that they skipped."""
        reports = [(scheduled_time, read_report(self.deployed, scheduled_time)) for scheduled_time in self.times]
        return [
            f"reconciliation of {scheduled_time.isoformat()}: {sentence}"
            for scheduled_time, report in reports
            for sentence in [*report["first_mismatches"], *report["first_skipped"]]
        ]

    def done_twice(self) -> list[str]:
        """Delivers all events again. Returns a sentence for each that isn't answered with DoneBefore."""
        answers = [run_job(self.deployed, job, scheduled_time) for job in JOBS for scheduled_time in self.times]
        return [f"a done job was run again: {answer}" for answer in answers if answer["outcome"] != "DoneBefore"]

    @contextmanager
    def short_timeouts(self) -> Iterator[None]:
        """Shortens the jobs' timeouts, and sets the template's dead-letter queue, which ministack 1.5.33 ignores."""
        names = [function_name(self.deployed, job) for job in JOBS]
        queue = {"QueueUrl": self._dead_letter_queue_url, "AttributeNames": ["QueueArn"]}
        arn = self.deployed.endpoint.client("sqs").get_queue_attributes(**queue)["Attributes"]["QueueArn"]
        before = [self.lambda_.get_function_configuration(FunctionName=name)["Timeout"] for name in names]
        for name in names:
            self.lambda_.update_function_configuration(
                FunctionName=name, Timeout=TIMEOUT_SECONDS, DeadLetterConfig={"TargetArn": arn}
            )
        try:
            yield
        finally:
            for name, seconds in zip(names, before, strict=True):
                self.lambda_.update_function_configuration(FunctionName=name, Timeout=seconds)


def _schedule_name(job: str, scheduled_time: datetime) -> str:
    return f"{job}-{scheduled_time:%Y-%m-%d}"
