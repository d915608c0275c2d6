"""The troubles that `teller status` names, and its figures by CloudWatch."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.support.template import FOLDERS, TEMPLATE, resources
from tests.unit.stubs import Stubbed
from tools.teller.alarms import Alarms
from tools.teller.deployment import function_of
from tools.teller.figures import BECAME, Figures, figures
from tools.teller.job_records import A_DAY, JOBS, JobRecords, LockRecord, RunOfJob
from tools.teller.letters import QueueName
from tools.teller.message_queues import Counts, MessageQueue
from tools.teller.status import Status

NOW = datetime(2026, 11, 22, 18, 0, tzinfo=UTC)
NIGHTLY = JOBS["reconcile_accounts"]


def status(created_hours_ago: float = 1, done_hours_ago: float | None = None, **changes: Any) -> Status:
    """A stack that is well. Its reconciliation was last done so long ago, or never."""
    runs = []
    if done_hours_ago is not None:
        finished = (NOW - timedelta(hours=done_hours_ago)).isoformat()
        runs = [RunOfJob("2026-11-22T02:00:00+00:00", {"finished_at": finished, **changes.pop("report", {})})]
    lock = LockRecord(NIGHTLY.name, changes.pop("lock", {}))
    found = Status(
        now=NOW,
        created_at=NOW - timedelta(hours=created_hours_ago),
        queues={},
        dead_letters={queue.value: Counts(0, 0, 0) for queue in QueueName},
        alarms=Alarms(35, 0, []),
        jobs=[JobRecords(NIGHTLY, lock, runs)],
        enabled={NIGHTLY.name: True},
        figures=Figures({}, None, None, None),
    )
    return found._replace(**changes)


@pytest.mark.parametrize(
    ("found", "trouble"),
    [
        (status(), None),
        (status(created_hours_ago=1000, done_hours_ago=25), None),
        (status(lock={"leased_until": (NOW + timedelta(seconds=5)).isoformat()}), None),
        (status(created_hours_ago=1000, enabled={NIGHTLY.name: False}), None),
        (status(created_hours_ago=33), "reconcile_accounts is late: no run was done in 32 h"),
        (status(created_hours_ago=1000, done_hours_ago=32.1), "reconcile_accounts is late"),
        (status(done_hours_ago=1, report={"mismatches": 2}), "the last run found 2 mismatches"),
        (status(done_hours_ago=1, report={"mismatches": 1}), "the last run found 1 mismatch:"),
        (status(done_hours_ago=1, report={"accounts_skipped": 1}), "the last run skipped 1 account:"),
        (status(dead_letters={"bus": Counts(0, 1, 0)}), "1 dead letter of bus: teller dead-letters bus"),
        (status(dead_letters={"jobs": Counts(2000, 0, 0)}), "2,000 dead letters of jobs: teller dead-letters jobs"),
        (status(lock={"leased_until": (NOW - timedelta(seconds=5)).isoformat()}), "has lapsed"),
        (status(lock={"leased_until": 7}), "can't be taken: leased_until: expected a text"),
    ],
)
def test_what_isnt_well_is_one_sentence(found: Status, trouble: str | None) -> None:
    sentences = list(found.troubles())
    assert len(sentences) == bool(trouble)
    assert all(trouble in sentence for sentence in sentences if trouble)
    assert found.answer()["well"] == (not trouble)


@pytest.fixture
def cloudwatch() -> Iterator[Stubbed]:
    with Stubbed("cloudwatch") as stubbed:
        yield stubbed


class OnAws(dict[str, str]):
    """A stack on AWS with outputs, whose only service is CloudWatch."""

    name, is_local = "teller-prod", False

    def __init__(self, cloudwatch: Any) -> None:
        super().__init__({queue.output: f"https://sqs/1/{queue.output}" for queue in MessageQueue})
        self["PublishOutcomesFunctionName"] = "the-publisher"
        self.cloudwatch = cloudwatch

    def client(self, service: str) -> Any:
        assert service == "cloudwatch"
        return self.cloudwatch


def answered(cloudwatch: Stubbed, *pages: list[dict[str, Any]]) -> Figures:
    for number, page in enumerate(pages, 1):
        more = {"NextToken": str(number)} if number < len(pages) else {}
        cloudwatch.answers("get_metric_data", {"MetricDataResults": page, **more})
    return figures(OnAws(cloudwatch.client), NOW)


def test_the_figures_on_aws_are_the_sums_and_the_latest_ages_of_the_metrics(cloudwatch: Stubbed) -> None:
    answered(cloudwatch, [])
    ids = {}
    for query in cloudwatch.parameters[-1]["MetricDataQueries"]:
        metric = query["MetricStat"]["Metric"]
        ids[metric["Namespace"], metric["MetricName"], metric["Dimensions"][0]["Value"]] = query["Id"]
    assert len(ids) == sum(len(kind.metrics) for kind in BECAME.values()) + 7

    def result(*metric: str, values: dict[datetime, float]) -> dict[str, Any]:
        name = ids[metric]
        return {"Id": name, "Label": name, "Timestamps": list(values), "Values": list(values.values())}

    posted = ("Teller/teller-prod", "Posted", "process_transactions")
    age = ("AWS/SQS", "ApproximateAgeOfOldestMessage")
    one, two, old = (NOW - timedelta(minutes=minutes) for minutes in (1, 2, 30))
    first = [
        result(*posted, values={one: 3, two: 4}),
        result("AWS/SQS", "NumberOfMessagesSent", "TransactionsQueueUrl", values={one: 9}),
        result(*age, "TransactionsQueueUrl", values={two: 12, old: 99}),
    ]
    second = [
        result(*posted, values={old: 5}),
        result(*age, "ProfilesQueueUrl", values={old: 50}),
        result("AWS/Lambda", "IteratorAge", "the-publisher", values={one: 1999}),
    ]
    found = answered(cloudwatch, first, second)
    assert found.became["transactions"]["Posted"] == 12
    assert found.became["profiles"] == dict.fromkeys(BECAME["profiles"].metrics, 0)
    assert found.came == {"transactions": 9, "administration": 0, "profiles": 0}
    assert found.oldest_message_seconds == {"transactions": 12, "administration": None, "profiles": None}
    assert found.oldest_outcome_seconds == 1


def test_the_command_knows_the_jobs_of_the_templates_schedules() -> None:
    inputs = [json.loads(each["Target"]["Input"]) for each in resources("AWS::Scheduler::Schedule").values()]
    assert {each["job"] for each in inputs} == JOBS.keys()


def test_what_the_command_knows_of_the_template_is_there() -> None:
    for job in JOBS.values():
        alarm = resources("AWS::CloudWatch::Alarm").get(f"{FOLDERS[job.name].removesuffix('Function')}UnfinishedAlarm")
        assert bool(alarm) == (job.late_after == A_DAY), "CloudWatch has no alarm about more than a week"
        if alarm:
            [_, done] = alarm["Metrics"]
            assert timedelta(seconds=done["MetricStat"]["Period"] * alarm["EvaluationPeriods"]) == A_DAY
        schedules, expression = resources("AWS::Scheduler::Schedule").values(), {"Ref": job.schedule_parameter}
        [schedule] = [each for each in schedules if each["ScheduleExpression"] == expression]
        assert schedule["State"] == {"Ref": job.state_parameter}
        timezone = {"Ref": job.timezone_parameter} if job.timezone_parameter else "UTC"
        assert schedule["ScheduleExpressionTimezone"] == timezone
        assert job.queue_output in TEMPLATE["Outputs"]
    named = {f"{function_of(kind.service)}LogGroupName" for kind in BECAME.values()}
    assert named | {queue.output for queue in (*MessageQueue, *QueueName)} <= TEMPLATE["Outputs"].keys()
