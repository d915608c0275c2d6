"""The troubles that `teller status` names, and its figures by CloudWatch."""

import itertools
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from rich.console import Console

from tests.support.template import FOLDERS, TEMPLATE, event_sources, resources
from tests.unit.stubs import Stubbed
from tests.unit.test_docs import first_cells
from tools.teller.alarms import Alarms
from tools.teller.deployment import function_of
from tools.teller.figures import BECAME, Figures, figures
from tools.teller.job_records import JOBS, LATE_AFTER, JobRecords, LockRecord, RunOfJob
from tools.teller.letters import QueueName
from tools.teller.queues import Counts, MessageQueue
from tools.teller.status import Status, _jobs_table, _lock_words, _words_table
from workers.segments import Segment

NOW = datetime(2026, 11, 22, 18, 0, tzinfo=UTC)
NIGHTLY = JOBS["reconcile_accounts"]
NO_FIGURES = Figures({}, None, None, None)


def status(created_hours_ago: float = 1, done_hours_ago: float | None = None, **changes: Any) -> Status:
    """A stack that is well. Its reconciliation was last done so long ago, or never."""
    runs = []
    if done_hours_ago is not None:
        finished = (NOW - timedelta(hours=done_hours_ago)).isoformat()
        runs = [RunOfJob("2026-11-22T02:00:00+00:00", {"finished_at": finished, **changes.pop("report", {})})]
    locks = [LockRecord(NIGHTLY.name, Segment(), item) for item in changes.pop("locks", [])]
    found = Status(
        now=NOW,
        created_at=NOW - timedelta(hours=created_hours_ago),
        queues={},
        dead_letters={queue.value: Counts(0, 0, 0) for queue in QueueName},
        alarms=Alarms(35, 0, []),
        jobs=[JobRecords(NIGHTLY, locks, runs)],
        enabled={NIGHTLY.name: True},
        figures=NO_FIGURES,
    )
    return found._replace(**changes)


def test_a_stack_on_which_nothing_is_wrong_is_well() -> None:
    assert list(status().troubles()) == []
    assert list(status(created_hours_ago=1000, done_hours_ago=25).troubles()) == []
    lock = {"lock_key": NIGHTLY.name, "leased_until": (NOW + timedelta(seconds=5)).isoformat()}
    assert list(status(locks=[lock]).troubles()) == []


@pytest.mark.parametrize(
    ("found", "trouble"),
    [
        (status(created_hours_ago=27), "reconcile_accounts is late: no run was done in 26 h"),
        (status(created_hours_ago=1000, done_hours_ago=26.1), "reconcile_accounts is late"),
        (status(done_hours_ago=1, report={"mismatches": 2}), "the last run found 2 mismatches"),
        (status(done_hours_ago=1, report={"mismatches": 1}), "the last run found 1 mismatch:"),
        (status(done_hours_ago=1, report={"accounts_skipped": 1}), "the last run skipped 1 account:"),
        (status(dead_letters={"bus": Counts(0, 1, 0)}), "1 dead letter of bus: teller dead-letters bus"),
        (status(dead_letters={"jobs": Counts(2000, 0, 0)}), "2,000 dead letters of jobs: teller dead-letters jobs"),
        (status(locks=[{"leased_until": (NOW - timedelta(seconds=5)).isoformat()}]), "has lapsed"),
        (status(locks=[{"leased_until": 7}]), "can't be taken: leased_until: expected a text"),
    ],
)
def test_what_isnt_well_is_one_sentence(found: Status, trouble: str) -> None:
    [sentence] = found.troubles()
    assert trouble in sentence
    assert not found.answer()["well"]


def test_the_words_say_what_came_too_early_and_which_alarms_a_local_aws_has() -> None:
    became = {kind: {"Waiting": 88} if "Waiting" in counted.metrics else {} for kind, counted in BECAME.items()}
    found = status(figures=NO_FIGURES._replace(became=became), alarms=Alarms(40, 40, []))
    console = Console(width=80, record=True)
    console.print(_words_table(LocalAws([], 0), found))  # type: ignore[arg-type]
    words = console.export_text()
    assert words.count("88 came too early") == 2
    assert "40 that a local AWS can have" in words


def test_jobs_with_held_locks_fit_a_terminal_of_80_columns() -> None:
    until = (NOW + timedelta(seconds=5)).isoformat()
    done = RunOfJob("2026-11-22T02:00:00+00:00", {"finished_at": "2026-11-22T02:01:00+00:00"})
    jobs = [
        JobRecords(job, [LockRecord(job.name, Segment(), {"leased_until": until})], [done]) for job in JOBS.values()
    ]
    console = Console(width=80, record=True)
    console.print(_jobs_table(status(jobs=jobs, enabled=dict.fromkeys(JOBS, True))))
    lines = console.export_text().splitlines()[2:]
    assert [line.split()[0] for line in lines] == list(JOBS)
    ends = "2026-11-22 02:01  2026-11-22 02:00  held until 18:00"
    assert [line.split(maxsplit=1)[1].strip() for line in lines] == [ends] * len(JOBS)


def test_free_locks_are_not_worth_a_word() -> None:
    free, held = ({"leased_until": (NOW + timedelta(seconds=5)).isoformat()} if held else {} for held in (False, True))
    for records, words in (
        ([], "free"),
        ([free, free], "free"),
        ([free, held], "held until 18:00"),
        ([held, free, held], "2 held"),
    ):
        assert _lock_words([LockRecord("a", Segment(), record) for record in records], NOW) == words


def test_a_job_whose_schedule_is_off_is_never_late() -> None:
    assert list(status(created_hours_ago=1000, enabled={NIGHTLY.name: False}).troubles()) == []


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


def test_the_figures_on_aws_are_the_sums_and_the_latest_ages_of_the_metrics(cloudwatch: Stubbed) -> None:
    asked = queries(cloudwatch, [], [])
    assert len(asked) == sum(len(kind.metrics) for kind in BECAME.values()) + 5
    posted = id_of(asked, "Teller/teller-prod", "Posted", "process_transactions")
    came = id_of(asked, "AWS/SQS", "NumberOfMessagesSent", "TransactionsQueueUrl")
    fresh = id_of(asked, "AWS/SQS", "ApproximateAgeOfOldestMessage", "TransactionsQueueUrl")
    stale = id_of(asked, "AWS/SQS", "ApproximateAgeOfOldestMessage", "ProfilesQueueUrl")
    iterator = id_of(asked, "AWS/Lambda", "IteratorAge", "the-publisher")
    one, two, old = (NOW - timedelta(minutes=minutes) for minutes in (1, 2, 30))
    first = [result(posted, {one: 3, two: 4}), result(came, {one: 9}), result(fresh, {two: 12, old: 99})]
    second = [result(posted, {old: 5}), result(stale, {old: 50}), result(iterator, {one: 1999})]
    found = answered(cloudwatch, first, second)
    assert found.became["transactions"]["Posted"] == 12
    assert found.became["profiles"] == dict.fromkeys(BECAME["profiles"].metrics, 0)
    assert found.came == {"transactions": 9, "profiles": 0}
    assert found.oldest_message_seconds == {"transactions": 12, "profiles": None}
    assert found.oldest_outcome_seconds == 1


def answered(cloudwatch: Stubbed, *pages: list[dict[str, Any]]) -> Figures:
    for number, page in enumerate(pages, 1):
        more = {"NextToken": str(number)} if number < len(pages) else {}
        cloudwatch.answers("get_metric_data", {"MetricDataResults": page, **more})
    return figures(OnAws(cloudwatch.client), NOW)  # type: ignore[arg-type]


def queries(cloudwatch: Stubbed, *pages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    answered(cloudwatch, *pages)
    asked: list[dict[str, Any]] = cloudwatch.parameters[-1]["MetricDataQueries"]
    return asked


def id_of(asked: list[dict[str, Any]], namespace: str, metric: str, dimension: str) -> str:
    [name] = [
        query["Id"]
        for query in asked
        if query["MetricStat"]["Metric"]["Namespace"] == namespace
        and query["MetricStat"]["Metric"]["MetricName"] == metric
        and query["MetricStat"]["Metric"]["Dimensions"][0]["Value"] == dimension
    ]
    return name


def result(name: str, values: dict[datetime, float]) -> dict[str, Any]:
    return {"Id": name, "Label": name, "Timestamps": list(values), "Values": list(values.values())}


class LocalAws(dict[str, str]):
    """A stack on a local AWS whose functions have these log lines, a line a second. It answers with few lines."""

    is_local = True

    def __init__(self, lines: list[str], most: int) -> None:
        super().__init__({f"{function_of(kind.service)}LogGroupName": kind.service for kind in BECAME.values()})
        self.lines, self.most = lines, most
        self.begin = round((NOW - timedelta(hours=1)).timestamp() * 1000)

    def client(self, service: str) -> Any:
        assert service == "logs"
        return self

    def get_paginator(self, operation: str) -> Any:
        assert operation == "filter_log_events"
        return self

    def paginate(self, *, logGroupName: str, startTime: int, endTime: int, filterPattern: str) -> Any:  # noqa: N803
        assert filterPattern == '"CloudWatchMetrics"'
        lines = self.lines if logGroupName == "process_transactions" else []
        times = zip(itertools.count(self.begin, 1000), lines, strict=False)
        found = [{"message": line} for time, line in times if startTime <= time <= endTime]
        return [{"events": found[: self.most]}]


def test_the_figures_on_a_local_aws_are_those_of_all_lines_however_few_it_answers_with(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tools.teller.figures.MOST_EVENTS", 7)
    names = [{"Name": "Posted"}, {"Name": "Rejected"}]
    by_service = {"Dimensions": [["service"]], "Metrics": names}
    by_reason = {"Dimensions": [["service", "Reason"]], "Metrics": names[1:]}
    line = {"service": "process_transactions", "Posted": [1.0, 2.0], "Rejected": 1.0, "Reason": "OVERDRAFT_LIMIT"}
    lines = [json.dumps(line | {"_aws": {"CloudWatchMetrics": [by_service, by_reason]}})] * 100
    lines += ['not JSON, but "CloudWatchMetrics"', json.dumps({"message": "CloudWatchMetrics"})]
    found = figures(LocalAws(lines, 7), NOW)  # type: ignore[arg-type]
    counted = {metric: count for metric, count in found.became["transactions"].items() if count}
    assert counted == {"Posted": 300, "Rejected": 100}
    assert (found.came, found.oldest_message_seconds, found.oldest_outcome_seconds) == (None, None, None)


def test_what_the_command_knows_of_the_template_is_there() -> None:
    for job in JOBS.values():
        function = FOLDERS[job.name]
        alarms = resources("AWS::CloudWatch::Alarm", **{job.state_parameter: "ENABLED"})
        alarm = alarms[f"{function.removesuffix('Function')}UnfinishedAlarm"]
        [_, done] = alarm["Metrics"]
        assert timedelta(seconds=done["MetricStat"]["Period"] * alarm["EvaluationPeriods"]) == LATE_AFTER
        [schedule] = event_sources(function, "ScheduleV2")
        assert schedule["ScheduleExpression"] == {"Ref": job.schedule_parameter}
        assert schedule["State"] == {"Ref": job.state_parameter}
        timezone = {"Ref": job.timezone_parameter} if job.timezone_parameter else "UTC"
        assert schedule["ScheduleExpressionTimezone"] == timezone
        assert job.function_output == f"{function}Name"
    named = {f"{function_of(kind.service)}LogGroupName" for kind in BECAME.values()}
    assert named | {queue.output for queue in (*MessageQueue, *QueueName)} <= TEMPLATE["Outputs"].keys()


def test_what_became_of_messages_is_told_by_metrics_that_exist() -> None:
    metrics = {metric for kind in BECAME.values() for metric in kind.metrics}
    assert metrics <= set(first_cells("operations", "## Metrics"))
