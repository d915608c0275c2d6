"""The parts of `teller verify` that no local AWS can show: what AWS answers, and what each answer is judged as."""

import json
import re
from collections import defaultdict
from collections.abc import Callable
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tools.teller.failures import Failure
from tools.teller.verify import metrics, start_up
from tools.teller.verify.command import perform
from tools.teller.verify.costs import DOLLARS, Requests, Usage, costs
from tools.teller.verify.report import Report, without_account_numbers
from tools.teller.verify.run import Run, problems_of
from tools.teller.verify.steps import Step, Verdict


class FakeDeployment(dict[str, str]):
    """A deployment on AWS, whose functions have these log lines. An output is its own name."""

    name, is_local, region = "teller-dev", False, "eu-west-1"

    def __init__(self, lines: list[Any], clients: dict[str, Any]) -> None:
        self.requests = Requests()
        date = {"ResponseMetadata": {"HTTPHeaders": {"date": "Sun, 22 Nov 2026 18:00:00 GMT"}}}
        texts = list(map(json.dumps, lines))

        def paginate(filterPattern: str, **_: Any) -> list[dict[str, Any]]:  # noqa: N803 (botocore's)
            return [{"events": [{"message": text} for text in texts if filterPattern.strip('"') in text]}]

        self.clients = {
            "sts": SimpleNamespace(get_caller_identity=lambda: date),
            "lambda": SimpleNamespace(get_function_configuration=lambda **_: {"Timeout": 90, "MemorySize": 1024}),
            "logs": SimpleNamespace(get_paginator=lambda _: SimpleNamespace(paginate=paginate)),
        } | clients

    def __missing__(self, output: str) -> str:
        return output

    def client(self, service: str) -> Any:
        return self.clients[service]

    def new_client(self, service: str, **_: Any) -> Any:
        return self.clients[service]


def done(work: Callable[[Run, Step], None], *lines: Any, upserted: int = 0, **clients: Any) -> Step:
    deployment: Any = FakeDeployment(list(lines), clients)
    run, step = Run(deployment), Step(1, "a step")
    run.name, run.upserted = "verify-1a2b3c4d", upserted
    perform(run, step, work)
    return step


def problems(step: Step) -> list[str]:
    return [why for check in step.checks if check.verdict is Verdict.FAILED for why in check.why]


def entry(version: int, amount: int = 1, status: str = "POSTED") -> dict[str, Any]:
    return {"account_version": Decimal(version), "amount": Decimal(amount), "status": status}


def account(version: int, balance: int) -> dict[str, Any]:
    return {"version": Decimal(version), "balance": Decimal(balance)}


@pytest.mark.parametrize(
    ("found", "entries", "problem"),
    [
        (account(3, 5), [entry(1, 0), entry(2, 5), entry(3, 7, "REJECTED")], None),
        (None, [], "a: expected an account, got none"),
        (account(2, 2), [entry(1), entry(2), entry(2, 0)], "got 2 twice: an update was lost"),
        (account(3, 2), [entry(1), entry(3)], "without 2"),
        (account(2, 3), [entry(1), entry(2), entry(3)], "got 3 entries up to version 3"),
        (account(2, 1), [entry(1), entry(2)], "a: expected the balance 2, the sum of its entries, got 1"),
    ],
)
def test_each_kind_of_damage_of_an_accounts_books_is_a_problem(found: Any, entries: list[Any], problem: Any) -> None:
    texts = problems_of(found, entries, "a")
    assert any(problem in text for text in texts) if problem else texts == []


def test_what_only_aws_can_show_is_not_counted_as_passed_and_one_failed_check_fails_the_report() -> None:
    step, run = Step(1, "a step"), Run(FakeDeployment([], {}))  # type: ignore[arg-type]
    step.only_on_aws("a claim", "a local AWS lacks it")
    assert step.verdict is Verdict.ONLY_ON_AWS
    step.check("another claim")
    assert step.verdict is Verdict.PASSED
    assert Report(run, [step], [], []).counts == {Verdict.PASSED: 1, Verdict.ONLY_ON_AWS: 1}
    step.not_tried("a third claim", "its reason")
    assert (step.verdict, Report(run, [step], [], []).failed) == (Verdict.NOT_TRIED, False)
    step.check("a fourth claim", "what, where, what was expected")
    assert (step.verdict, Report(run, [step], [], []).failed) == (Verdict.FAILED, True)


@pytest.mark.parametrize(
    ("error", "verdict", "why"),
    [
        (Failure("not in time"), Verdict.FAILED, "not in time"),
        (ClientError({"Error": {"Code": "AccessDenied", "Message": "no"}}, "X"), Verdict.NOT_TRIED, "don't suffice"),
        (ClientError({"Error": {"Code": "Throttled", "Message": "slow"}}, "X"), Verdict.FAILED, "AWS refused X: slow"),
        (KeyError("answer"), Verdict.FAILED, "an error of the command's own: KeyError"),
    ],
)
def test_an_error_ends_its_step_alone(error: Exception, verdict: Verdict, why: str) -> None:
    def work(*_: object) -> None:
        raise error

    [check] = done(work).checks
    assert (check.verdict, why in check.why[0]) == (verdict, True)


def line_with(**values: int) -> dict[str, Any]:
    directive = {"Dimensions": [["service"]], "Metrics": [{"Name": name} for name in values]}
    return {"_aws": {"CloudWatchMetrics": [directive]}, "service": "upsert_profiles", **values}


def test_metrics_are_held_against_what_was_sent_and_those_of_others_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "CLOUDWATCH_SECONDS", 0)
    monkeypatch.setattr(metrics, "LOG_SECONDS", 0)

    def with_metrics(logged: int, summed: int) -> Step:
        sums = defaultdict(float, Upserted=float(summed))
        cloudwatch = SimpleNamespace(
            get_metric_statistics=lambda MetricName, **_: {"Datapoints": [{"Sum": sums[MetricName]}]}  # noqa: N803
        )
        lines = [line_with(Upserted=logged)] if logged else []
        return done(metrics.metrics, *lines, upserted=2, cloudwatch=cloudwatch)

    assert problems(with_metrics(2, 2)) == []
    with_others = with_metrics(5, 5)
    assert problems(with_others) == []
    assert with_others.measured == ["upsert_profiles: Upserted 2, and 3 of others or counted twice"]
    [of_log, of_cloudwatch] = problems(with_metrics(0, 1))
    assert "upsert_profiles: expected lines with Upserted in its log, got none" in of_log
    assert "upsert_profiles, Upserted, at least: expected 2, got 1" in of_cloudwatch


def platform_report(duration_ms: float, used_mb: int = 90, **more: float) -> dict[str, Any]:
    """As https://docs.aws.amazon.com/lambda/latest/dg/telemetry-schema-reference.html#platform-report has it."""
    found = {"durationMs": duration_ms, "billedDurationMs": 1, "memorySizeMB": 1024, "maxMemoryUsedMB": used_mb}
    record = {"requestId": "6d68ca91", "metrics": found | more, "status": "success"}
    return {"time": "2026-11-22T00:00:00.000Z", "type": "platform.report", "record": record}


def test_cold_starts_are_measured_and_an_invocation_near_its_limits_is_named() -> None:
    step = done(start_up.start_up, platform_report(800, initDurationMs=412.5), platform_report(12))
    assert problems(step) == []
    assert step.measured[0] == (
        "ProcessTransactions: 2 invocations, median 406 ms, longest 800 ms, 90 of 1,024 MB, "
        "init 412 ms at most, first batch 800 ms at most"
    )
    found = problems(done(start_up.start_up, platform_report(85_000, used_mb=1000)))
    assert "ProcessTransactions: expected at most 81,000 ms, got 85,000 ms" in found
    assert "ProcessTransactions: expected at most 922 MB, got 1,000 MB" in found


def test_a_report_has_no_number_of_an_aws_account() -> None:
    arn, url = "arn:aws:sqs:eu-west-1:123456789012:q", "https://sqs.eu-west-1.amazonaws.com/123456789012/q"
    assert not re.search(r"\d{12}", without_account_numbers(f"{arn} {url}"))


def test_costs_are_numbers_at_their_prices() -> None:
    requests = Requests()
    requests.add("sqs", "SendMessageBatch")
    requests.add_read({"CapacityUnits": 2.5})
    found = {cost.what: cost for cost in costs(requests, Usage([700, 2000], 1, 2, 1, 100, 1, 3, 0.5, 4096))}
    assert found.keys() == DOLLARS.keys()
    assert found["DynamoDB write units"].number == 3 * 5 + 2 + 200 + 2
    assert found["DynamoDB read units"].number == 2.5 + 3 + 2 + 1
    assert found["SQS requests"].number == 1 + 6
    assert found["EventBridge events"].dollars == pytest.approx(3 / 1e6)
