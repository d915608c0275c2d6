"""The jobs meanwhile: a night every few seconds, each of its jobs delivered twice, and given again where it failed.

Once EventBridge Scheduler delivers it, with the target that the template gives its schedule, and once an asynchronous
invocation. On AWS these are the same: Scheduler invokes asynchronously, and Lambda tries twice more, after one minute
and two, before the event goes to the jobs' dead-letter queue. ministack's Scheduler, which looks every 10 s for what is
due, calls the function a single time, so only the second delivery comes again; and it retries an asynchronous
invocation after LAMBDA_ASYNC_RETRY_BASE_SECONDS, and twice that. The jobs get a timeout that is as short compared to
it as the template's is to a minute, so that a killed run's lease is over before the second retry, as it is on AWS.
"""

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any

from conditional_writes.items import from_dynamodb
from tests.support.deployed import until
from tools.local_aws.jobs import function_name, read_report, run_job
from tools.local_aws.queues import take_dead_letters
from tools.local_aws.stack import NAME, Stack
from tools.local_aws.tables import scan

JOBS = ("charge_overdraft_interest", "reconcile_accounts")
TIMEOUT_SECONDS = 20
FIRST_NIGHT = datetime(2026, 4, 1, 2, tzinfo=UTC)


@dataclass
class ScheduledRuns:
    """`passed`: the scheduled times so far, a day apart. `given_again`: dead-lettered events, as an operator would."""

    deployed: Stack
    passed: list[datetime] = field(default_factory=list)
    given_again: int = 0

    @cached_property
    def lambda_(self):
        return self.deployed.endpoint.client("lambda")

    @cached_property
    def scheduler(self):
        return self.deployed.endpoint.client("scheduler")

    @cached_property
    def targets(self) -> dict[str, dict[str, Any]]:
        """Of the deployed schedules, by job."""
        names = [
            schedule["Name"]
            for page in self.scheduler.get_paginator("list_schedules").paginate()
            for schedule in page["Schedules"]
        ]
        targets = [self.scheduler.get_schedule(Name=name)["Target"] for name in names]
        return {json.loads(target["Input"])["job"]: target for target in targets}

    @contextmanager
    def passing(self, seconds: float) -> Iterator[None]:
        """A night now, and one after each pause, in a thread, while the body runs. What went wrong is raised then."""
        over = threading.Event()

        def pass_by() -> None:
            self.fall()
            while not over.wait(seconds):
                self.fall()

        with ThreadPoolExecutor(1) as pool:
            passing = pool.submit(pass_by)
            try:
                yield
            finally:
                over.set()
            passing.result()

    def fall(self) -> datetime:
        """The day after the one that passed last."""
        night = FIRST_NIGHT + timedelta(days=len(self.passed))
        self.passed.append(night)
        for job in JOBS:
            event = json.dumps({"job": job, "scheduled_time": night.isoformat()})
            self.scheduler.create_schedule(
                Name=_schedule_name(job, night),
                ScheduleExpression=f"at({datetime.now(UTC):%Y-%m-%dT%H:%M:%S})",
                FlexibleTimeWindow={"Mode": "OFF"},
                ActionAfterCompletion="DELETE",
                Target=self.targets[job] | {"Input": event},
            )
            self._invoke_asynchronously(job, event)
        return night

    def settle(self) -> None:
        """Returns once each job of each night is done; gives those again that Lambda gave up."""
        until(lambda: not self._scheduled(), "Scheduler has delivered everything")
        until(self._all_done, "each job of each night is done", seconds=600)

    def _scheduled(self) -> set[str]:
        pages = self.scheduler.get_paginator("list_schedules").paginate()
        names = {schedule["Name"] for page in pages for schedule in page["Schedules"]}
        return names & {_schedule_name(job, night) for job in JOBS for night in self.passed}

    def _all_done(self) -> bool:
        for letter in take_dead_letters(self.deployed.endpoint, self._dead_letter_queue_url):
            event = json.loads(letter.body)["requestPayload"]  # AWS has the event itself for a body
            self._invoke_asynchronously(event["job"], json.dumps(event))
            self.given_again += 1
        return not self.not_done()

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
        """A sentence for each job of each night that isn't."""
        locks = map(from_dynamodb, scan(self.deployed.endpoint, self.deployed["LocksTableName"]))
        done = {lock["lock_key"]: lock.get("windows_done", []) for lock in locks}
        return [
            f"{job} was never done for {night.isoformat()}"
            for job in JOBS
            for night in self.passed
            if night.isoformat() not in done.get(job, [])
        ]

    def mismatches(self) -> list[str]:
        """What the nights' reconciliations found."""
        return [
            f"reconciliation of {night.isoformat()}: {sentence}"
            for night in self.passed
            for sentence in read_report(self.deployed, night)["first_mismatches"]
        ]

    def done_twice(self) -> list[str]:
        """A sentence for each job of each night that, delivered once more, isn't done before."""
        answers = [run_job(self.deployed, job, night) for job in JOBS for night in self.passed]
        return [
            f"a job that was done was run again: {answer}" for answer in answers if answer["outcome"] != "DoneBefore"
        ]

    @contextmanager
    def short_timeouts(self) -> Iterator[None]:
        """And the dead-letter queue that the template gives the jobs: ministack 1.5.33 passes over it."""
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


def _schedule_name(job: str, night: datetime) -> str:
    return f"{job}-{night:%Y-%m-%d}"
