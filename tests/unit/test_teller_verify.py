"""The parts of `teller verify` that no local AWS can show: what AWS answers, and what each answer is judged as."""

import itertools
import json
import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tools.teller.failures import Failure
from tools.teller.verify import metrics, start_up, tokens
from tools.teller.verify.command import perform
from tools.teller.verify.costs import DOLLARS, Requests, Usage, costs
from tools.teller.verify.report import Report, without_account_numbers
from tools.teller.verify.run import Run, TimeIsUp, problems_of
from tools.teller.verify.steps import Step, Verdict


class FakeDeployment:
    """A deployment on AWS. `lines` has the log lines of functions, by their names."""

    name, is_local, region = "teller-dev", False, "eu-west-1"

    def __init__(self, clients: Mapping[str, Any], lines: Mapping[str, list[Any]]) -> None:
        self.requests, self.clients = Requests(), {"lambda": Lambda(), "logs": Logs(lines), **clients}

    def __getitem__(self, output: str) -> str:
        return output

    def client(self, service: str) -> Any:
        return self.clients[service]

    def new_client(self, service: str, **_: Any) -> Any:
        return self.clients[service]


class Lambda:
    def get_function_configuration(self, FunctionName: str) -> dict[str, Any]:  # noqa: N803 (botocore's)
        return {"Timeout": 90, "MemorySize": 1024}


class Logs:
    def __init__(self, lines: Mapping[str, list[Any]]) -> None:
        self.lines = lines

    def get_paginator(self, _: str) -> "Logs":
        return self

    def paginate(self, logGroupName: str, filterPattern: str, **_: Any) -> list[dict[str, Any]]:  # noqa: N803
        texts = map(json.dumps, self.lines.get(logGroupName.removesuffix("LogGroupName"), []))
        return [{"events": [{"message": text} for text in texts if filterPattern.strip('"') in text]}]


class FakeRun(Run):
    """A run on AWS, with prepared clients and log lines in place of AWS's."""

    def __init__(self, clients: Mapping[str, Any] | None = None, lines: Mapping[str, list[Any]] | None = None) -> None:
        deployment: Any = FakeDeployment({"sts": Sts(), **(clients or {})}, lines or {})
        super().__init__(deployment)
        self.name = "verify-1a2b3c4d"


class Sts:
    def get_caller_identity(self) -> dict[str, Any]:
        return {"ResponseMetadata": {"HTTPHeaders": {"date": "Sun, 22 Nov 2026 18:00:00 GMT"}}}


def new_step() -> Step:
    return Step(1, "a step")


def problems(step: Step) -> list[str]:
    return [why for check in step.checks if check.verdict is Verdict.FAILED for why in check.why]


def verdicts(step: Step) -> dict[str, Verdict]:
    return {check.claim: check.verdict for check in step.checks}


# --- The books of an account ---------------------------------------------------------------------------------


def entry(version: int, amount: int = 1, status: str = "POSTED") -> dict[str, Any]:
    return {"account_version": Decimal(version), "amount": Decimal(amount), "status": status}


def account(version: int, balance: int) -> dict[str, Any]:
    return {"version": Decimal(version), "balance": Decimal(balance)}


def test_sound_books_have_no_problem() -> None:
    entries = [entry(1, 0), entry(2, 5), entry(3, 7, "REJECTED")]
    assert problems_of(account(3, 5), entries, "a") == []


@pytest.mark.parametrize(
    ("found", "entries", "problem"),
    [
        (None, [], "a: expected an account, got none"),
        (account(2, 2), [entry(1), entry(2), entry(2, 0)], "got 2 twice: an update was lost"),
        (account(3, 2), [entry(1), entry(3)], "without 2"),
        (account(2, 3), [entry(1), entry(2), entry(3)], "got 3 entries up to version 3"),
        (account(2, 1), [entry(1), entry(2)], "a: expected the balance 2, the sum of its entries, got 1"),
    ],
)
def test_each_kind_of_damage_is_a_problem(found: Any, entries: list[Any], problem: str) -> None:
    assert [text for text in problems_of(found, entries, "a") if problem in text]


# --- Verdicts ------------------------------------------------------------------------------------------------


def test_what_only_aws_can_show_is_not_counted_as_passed() -> None:
    step = new_step()
    step.only_on_aws("a claim", "a local AWS lacks it")
    assert step.verdict is Verdict.ONLY_ON_AWS
    step.check("another claim")
    assert step.verdict is Verdict.PASSED
    assert Report(FakeRun(), [step], [], []).counts == {Verdict.PASSED: 1, Verdict.ONLY_ON_AWS: 1}


def test_a_failed_check_fails_the_step_and_the_report() -> None:
    step = new_step()
    step.check("a claim")
    step.not_tried("another claim", "its reason")
    assert step.verdict is Verdict.NOT_TRIED
    assert not Report(FakeRun(), [step], [], []).failed
    step.check("a third claim", "what, where, what was expected")
    assert step.verdict is Verdict.FAILED
    assert Report(FakeRun(), [step], [], []).failed


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
    def work(_run: Run, _step: Step) -> None:
        raise error

    step = new_step()
    perform(FakeRun(), step, work)
    [check] = step.checks
    assert check.verdict is verdict
    assert why in check.why[0]


# --- Metrics in CloudWatch -----------------------------------------------------------------------------------


class CloudWatch:
    """Answers sums, by the metric's name."""

    def __init__(self, **sums: int) -> None:
        self.sums = sums

    def get_metric_statistics(self, MetricName: str, **_: Any) -> dict[str, Any]:  # noqa: N803 (botocore's)
        return {"Datapoints": [{"Sum": float(self.sums.get(MetricName, 0))}]}


def line_with(**values: int) -> dict[str, Any]:
    directive = {"Dimensions": [["service"]], "Metrics": [{"Name": name} for name in values]}
    return {"_aws": {"CloudWatchMetrics": [directive]}, "service": "upsert_profiles", **values}


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "CLOUDWATCH_SECONDS", 0)
    monkeypatch.setattr(metrics, "LOG_SECONDS", 0)


def with_metrics(lines: list[Any], **sums: int) -> Step:
    run = FakeRun({"cloudwatch": CloudWatch(**sums)}, {"UpsertProfiles": lines})
    run.upserted = 2
    step = new_step()
    metrics.metrics(run, step)
    return step


@pytest.mark.usefixtures("impatient")
def test_metrics_that_are_what_was_sent_pass() -> None:
    assert problems(with_metrics([line_with(Upserted=2)], Upserted=2)) == []


@pytest.mark.usefixtures("impatient")
class BusyQueue:
    def get_queue_attributes(self, **_: Any) -> dict[str, Any]:
        names = ("", "NotVisible", "Delayed")
        return {"Attributes": {f"ApproximateNumberOfMessages{name}": "1200" for name in names}}


def test_a_wait_that_ends_in_vain_says_how_many_messages_are_on_the_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Run, "version", lambda *_: 1)
    with pytest.raises(TimeIsUp) as ended:
        FakeRun({"sqs": BusyQueue()}).wait_for_version("verify-a", 2, seconds=0)
    assert ended.value.reason == (
        "not within 0 s: verify-a: expected version 2, got 1. On the transactions queue are 1,200 waiting, "
        "1,200 in flight, 1,200 delayed"
    )


def test_messages_of_others_are_said_to_be_counted_too() -> None:
    step = with_metrics([line_with(Upserted=5)], Upserted=5)
    assert problems(step) == []
    assert step.measured == ["upsert_profiles: Upserted 2, and 3 of others or counted twice"]


@pytest.mark.usefixtures("impatient")
def test_a_log_without_its_metrics_is_named() -> None:
    [of_log, of_cloudwatch] = problems(with_metrics([], Upserted=1))
    assert "upsert_profiles: expected lines with Upserted in its log, got none" in of_log
    assert "upsert_profiles, Upserted, at least: expected 2, got 1" in of_cloudwatch


# --- Lambda's lines ------------------------------------------------------------------------------------------


def platform_report(duration_ms: float, used_mb: int = 90, **more: float) -> dict[str, Any]:
    """As https://docs.aws.amazon.com/lambda/latest/dg/telemetry-schema-reference.html#platform-report has it."""
    found = {"durationMs": duration_ms, "billedDurationMs": 1, "memorySizeMB": 1024, "maxMemoryUsedMB": used_mb}
    record = {"requestId": "6d68ca91", "metrics": found | more, "status": "success"}
    return {"time": "2026-11-22T00:00:00.000Z", "type": "platform.report", "record": record}


def started_up(*lines: dict[str, Any]) -> Step:
    step = new_step()
    start_up.start_up(FakeRun(lines={function: list(lines) for function in start_up.FUNCTIONS}), step)
    return step


def test_cold_starts_are_measured() -> None:
    step = started_up(platform_report(800, initDurationMs=412.5), platform_report(12))
    assert problems(step) == []
    assert verdicts(step)["the time of a cold start is known"] is Verdict.PASSED
    assert step.measured[0] == (
        "ProcessTransactions: 2 invocations, median 406 ms, longest 800 ms, 90 of 1,024 MB, "
        "init 412 ms at most, first batch 800 ms at most"
    )


def test_an_invocation_near_its_limits_is_named() -> None:
    found = problems(started_up(platform_report(85_000, used_mb=1000)))
    assert "ProcessTransactions: expected at most 81,000 ms, got 85,000 ms" in found
    assert "ProcessTransactions: expected at most 922 MB, got 1,000 MB" in found


# --- Client tokens -------------------------------------------------------------------------------------------


class OneItem:
    """DynamoDB with one item. Each transaction is refused so many times before it is done."""

    def __init__(self, refusals: int, *, tokens_count: bool = True, sticky: bool = False) -> None:
        self.count, self.refusals, self.tokens_count, self.sticky = 0, refusals, tokens_count, sticky
        self.tries: dict[str, Iterator[int]] = {}
        self.done: set[str] = set()

    def put_item(self, **_: Any) -> None:
        pass

    def get_item(self, **_: Any) -> dict[str, Any]:
        return {"Item": {"count": {"N": str(self.count)}}}

    def transact_write_items(self, ClientRequestToken: str, **_: Any) -> None:  # noqa: N803 (botocore's)
        token = ClientRequestToken
        if self.tokens_count and token in self.done:
            return
        if self.sticky or next(self.tries.setdefault(token, itertools.count())) < self.refusals:
            code, reasons = "TransactionCanceledException", [{"Code": "TransactionConflict"}]
            raise ClientError({"Error": {"Code": code}, "CancellationReasons": reasons}, "X")  # type: ignore[typeddict-item,typeddict-unknown-key]
        self.done.add(token)
        self.count += 1


def tried(table: OneItem, monkeypatch: pytest.MonkeyPatch) -> Step:
    monkeypatch.setattr(tokens, "THREADS", 3)
    monkeypatch.setattr(tokens, "SECONDS", 0.3)
    step = new_step()
    perform(FakeRun({"dynamodb": table}), step, tokens.tokens)
    return step


def test_cancelled_transactions_that_are_done_at_last_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    step = tried(OneItem(2), monkeypatch)
    assert set(verdicts(step).values()) == {Verdict.PASSED}
    assert step.measured == ["6 TransactionConflict, 6 done"]


def test_a_cancellation_that_sticks_to_its_token_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "transactions done: expected 3, got 0" in problems(tried(OneItem(0, sticky=True), monkeypatch))


def test_a_token_with_two_effects_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "verify-1a2b3c4d-tokens, count: expected 3, got 6" in problems(
        tried(OneItem(0, tokens_count=False), monkeypatch)
    )


# --- The report ----------------------------------------------------------------------------------------------


def test_a_report_has_no_number_of_an_aws_account() -> None:
    arn, url = "arn:aws:sqs:eu-west-1:123456789012:q", "https://sqs.eu-west-1.amazonaws.com/123456789012/q"
    assert not re.search(r"\d{12}", without_account_numbers(f"{arn} {url}"))


def test_costs_are_numbers_at_their_prices() -> None:
    requests = Requests()
    requests.add("sqs", "SendMessageBatch")
    requests.add_read({"CapacityUnits": 2.5})
    usage = Usage([700, 2000], 1, 2, 1, 100, 1, 3, 0.5, 4096)
    found = {cost.what: cost for cost in costs(requests, usage)}
    assert found.keys() == DOLLARS.keys()
    assert found["DynamoDB write units"].number == 3 * 5 + 2 + 200 + 2
    assert found["DynamoDB read units"].number == 2.5 + 3 + 2 + 1
    assert found["SQS requests"].number == 1 + 6
    assert found["EventBridge events"].dollars == pytest.approx(3 / 1e6)
