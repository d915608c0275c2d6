"""Runs the jobs for another day every few seconds. Each message is sent twice, and again while its job isn't done.

The jobs' timeouts are shortened, and so is the visibility timeout of their messages: a killed run's lease is over when
its message comes again, as on AWS.
"""

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from conditional_writes.core.items import from_dynamodb
from tests.checkers.windows import windows_done
from tests.support.deployed import changed_function, until
from tools.local_aws.scheduler import function_name, queue_url, read_report, run_job, send
from tools.local_aws.stack import Stack
from tools.local_aws.tables import scan
from tools.teller.job_records import JOBS

TIMEOUT_SECONDS, VISIBILITY_SECONDS = 20, 25
SENT_AGAIN_AFTER_SECONDS = 30
FIRST_SCHEDULED_TIME = datetime(2026, 4, 1, 2, tzinfo=UTC)


@dataclass
class ScheduledRuns:
    """`times` are the scheduled times so far, a day apart. `pause_seconds` are between them."""

    deployed: Stack
    pause_seconds: float
    times: list[datetime] = field(default_factory=list)
    _last_sent: float = field(default_factory=time.monotonic)

    def progressed(self, _: int) -> None:
        """Schedules the jobs if the pause is over."""
        if not self.times or time.monotonic() > self._last_sent + self.pause_seconds:
            self._last_sent = time.monotonic()
            self.schedule_next()

    def schedule_next(self) -> datetime:
        """Delivers the jobs' events for the next day. Returns the scheduled time."""
        scheduled_time = FIRST_SCHEDULED_TIME + timedelta(days=len(self.times))
        self.times.append(scheduled_time)
        for job in [*JOBS, *JOBS]:
            send(self.deployed, job, scheduled_time)
        return scheduled_time

    def wait_until_done(self) -> None:
        """Waits until each job is done for each scheduled time."""
        until(self._all_done, "each job is done for each scheduled time", seconds=600)

    def _all_done(self) -> bool:
        not_done = self._not_done()
        if not_done and time.monotonic() > self._last_sent + SENT_AGAIN_AFTER_SECONDS:
            self._last_sent = time.monotonic()
            for job, scheduled_time in not_done:
                send(self.deployed, job, scheduled_time)
        return not not_done

    def _not_done(self) -> list[tuple[str, datetime]]:
        items = map(from_dynamodb, scan(self.deployed.endpoint, self.deployed["LocksTableName"]))
        records = {item["lock_key"]: item for item in items}
        done = {job: windows_done(records, job) for job in JOBS}
        return [(job, each) for job in JOBS for each in self.times if each.isoformat() not in done[job]]

    def violations(self) -> list[str]:
        """What the reconciliations found and skipped. Delivers all events again, and names each that was run again."""
        reports = self._reports()
        again = {(job, each): run_job(self.deployed, job, each) for job, each in reports}
        nights = [report for (job, _), report in reports.items() if job == "reconcile_accounts"]
        return [
            *(sentence for night in nights for sentence in [*night["first_mismatches"], *night["first_skipped"]]),
            *(f"a done job was run again: {key}" for key, report in again.items() if report != reports[key]),
        ]

    def _reports(self) -> dict[tuple[str, datetime], dict[str, Any]]:
        return {(job, each): read_report(self.deployed, each, job) for job in JOBS for each in self.times}

    @contextmanager
    def short_timeouts(self) -> Iterator[None]:
        with ExitStack() as changed:
            for job in JOBS:
                name = function_name(self.deployed, job)
                changed.enter_context(changed_function(self.deployed, name, Timeout=TIMEOUT_SECONDS))
                self.deployed.endpoint.client("sqs").set_queue_attributes(
                    QueueUrl=queue_url(self.deployed, job), Attributes={"VisibilityTimeout": str(VISIBILITY_SECONDS)}
                )
            yield
