"""The parts of `teller verify` that no local AWS can show: what AWS answers, and what each answer is judged as."""

import io
import json
import re
import zipfile
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar, override
from unittest import mock

import pytest
from botocore.exceptions import ClientError

from tools.teller.failures import Failure
from tools.teller.operator import Operator
from tools.teller.verify import code, command
from tools.teller.verify.command import perform
from tools.teller.verify.configuration import Compared
from tools.teller.verify.quotas import quotas
from tools.teller.verify.report import Report, without_account_numbers
from tools.teller.verify.run import Run, problems_of
from tools.teller.verify.steps import Step, Verdict

SECURE, SERVERLESS = "aws:SecureTransport", "AWS::Serverless::"


class FakeDeployment(dict[str, str]):
    """A deployment on AWS, whose functions have these log lines. An output is its own name."""

    name, is_local, region = "teller-dev", False, "eu-west-1"

    def __init__(self, lines: list[Any], clients: dict[str, Any]) -> None:
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


def test_an_interrupted_run_is_tidied_up_though_nobody_reads_its_remarks(monkeypatch: pytest.MonkeyPatch) -> None:
    """As by Ctrl-C in `teller verify 2>&1 | tee log`, which ends tee, too."""

    class Closed(io.StringIO):
        @override
        def write(self, _: str) -> int:
            raise BrokenPipeError

    operator, tidied = Operator("teller-dev", None, as_json=False), mock.Mock(return_value=["an account"])
    operator.__dict__["deployment"] = SimpleNamespace(is_prod=False)
    monkeypatch.setattr("sys.stderr", Closed())
    for name, value in {"Run": mock.Mock(), "perform": mock.Mock(side_effect=KeyboardInterrupt)}.items():
        monkeypatch.setattr(command, name, value)
    monkeypatch.setattr(command, "tidy_up", tidied)
    with pytest.raises(KeyboardInterrupt):
        command.verify(operator)
    tidied.assert_called_once()


def done(work: Callable[[Run, Step], None], *lines: Any, **clients: Any) -> Step:
    run, step = Run(FakeDeployment(list(lines), clients)), Step(1, "a step")
    run.name = "verify-1a2b3c4d"
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
    step, run = Step(1, "a step"), Run(FakeDeployment([], {}))
    step.only_on_aws("a claim", "a local AWS lacks it")
    assert step.verdict is Verdict.ONLY_ON_AWS
    step.check("another claim")
    assert step.verdict is Verdict.PASSED
    assert Report(run, [step], []).counts == {Verdict.PASSED: 1, Verdict.ONLY_ON_AWS: 1}
    step.not_tried("a third claim", "its reason")
    assert (step.verdict, Report(run, [step], []).failed) == (Verdict.NOT_TRIED, False)
    step.check("a fourth claim", "what, where, what was expected")
    assert (step.verdict, Report(run, [step], []).failed) == (Verdict.FAILED, True)


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


def test_a_report_has_no_number_of_an_aws_account() -> None:
    arn, url = "arn:aws:sqs:eu-west-1:123456789012:q", "https://sqs.eu-west-1.amazonaws.com/123456789012/q"
    assert not re.search(r"\d{12}", without_account_numbers(f"{arn} {url}"))


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, []),
        (
            {"MaximumConcurrency": "500"},
            [
                "Lambda, concurrent executions: expected at least 1,018, got 1,000",
                "EventBridge, PutEvents a second: expected at least 5,000, got 400",
            ],
        ),
    ],
)
def test_quotas_are_held_against_what_the_parameters_allow_and_topics_are_asked_for_subscriptions(
    given: Any, expected: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(code, "BUILT", tmp_path / "nothing")
    topics = {"AlarmTopicArn": "arn:aws:sns:t:s", "WorkingHoursAlarmTopicArn": "PendingConfirmation"}
    parameters = {"Stage": "dev", "MaximumConcurrency": "10"} | topics | given
    quota = {"QuotaName": "PutEvents throttle limit in transactions per second", "Value": 400.0}
    quotas_page = {"Quotas": [{"QuotaName": "Rules", "Value": 300.0}, quota]}
    clients = {
        "cloudformation": SimpleNamespace(
            describe_stacks=lambda **_: {"Stacks": [{"StackStatus": "UPDATE_COMPLETE"}]},
            get_template=lambda **_: {"TemplateBody": {"Resources": {"Q": {"DeletionPolicy": "Delete"}}}},
        ),
        "lambda": SimpleNamespace(get_account_settings=lambda: {"AccountLimit": {"ConcurrentExecutions": 1000}}),
        "dynamodb": SimpleNamespace(describe_limits=lambda: {"TableMaxWriteCapacityUnits": 40_000}),
        "service-quotas": SimpleNamespace(get_paginator=lambda _: SimpleNamespace(paginate=lambda **_: [quotas_page])),
        "cloudwatch": SimpleNamespace(get_metric_statistics=lambda **_: {"Datapoints": [{"Sum": 2.0}]}),
        "sns": SimpleNamespace(
            get_paginator=lambda _: SimpleNamespace(
                paginate=lambda TopicArn: [{"Subscriptions": [{"SubscriptionArn": TopicArn}]}]  # noqa: N803 (botocore's)
            )
        ),
    }

    def work(run: Run, step: Step) -> None:
        kept = {"Q": {"DeletionPolicy": "Retain"}}
        run.resources = SimpleNamespace(parameters=parameters, expected=kept)
        quotas(run, step)

    step = done(work, **clients)
    first, *others = problems(step)
    assert first == "Q, DeletionPolicy: expected Retain, got Delete"
    unconfirmed = "WorkingHoursAlarmTopicArn, confirmed: expected True, got False"
    assert sorted(others) == sorted([unconfirmed, *expected])
    assert ("1,000 concurrent executions, 38 needed; 40,000 write units" in step.measured[0]) == (not expected)
    assert step.measured[1].startswith("8 throttled requests to tables")


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"Principal": {"AWS": "*"}, "Action": ["sqs:*"], "Condition": {"Bool": {SECURE: "false"}}}, None),
        ({"Effect": "Allow"}, "Q.Policy.TlsOnly.Effect: expected Deny, got Allow"),
        ({"Resource": "arn:aws:sqs:::other"}, "Q.Policy.TlsOnly.Resource: expected *, got arn:aws:sqs:::other"),
        ({"Condition": {}}, "Q.Policy.TlsOnly.Condition.Bool.aws:SecureTransport: expected False, got nothing"),
        ({"Sid": "Other"}, "Q.Policy.others: expected nothing, got ['Other']"),
    ],
)
def test_a_queues_policy_is_compared_whole_in_any_spelling(change: Any, problem: str | None) -> None:
    condition = {"Bool": {"aws:SecureTransport": False}}
    statement = {"Sid": "TlsOnly", "Effect": "Deny", "Principal": "*", "Action": "sqs:*", "Resource": "*"}
    statement |= {"Condition": condition}
    document = {"Statement": [statement]}
    policy = {"Type": "AWS::SQS::QueuePolicy", "Properties": {"Queues": [{"Ref": "Q"}], "PolicyDocument": document}}
    run = Run(FakeDeployment([], {}))
    run.resources = SimpleNamespace(expected={"P": policy}, resolved=lambda node: node)
    found = list(Compared(run)._queue_policy("Q", {"Statement": [statement | change]}))
    assert problem in found if problem else found == []


def test_a_role_that_others_may_take_or_that_has_no_boundary_is_named() -> None:
    def trusting(service: str) -> dict[str, Any]:
        statement = {"Effect": "Allow", "Principal": {"Service": service}, "Action": "sts:AssumeRole"}
        return {"AssumeRolePolicyDocument": {"Statement": [statement]}}

    answer = {"Role": trusting("ec2.amazonaws.com")}
    run = Run(FakeDeployment([], {"iam": SimpleNamespace(get_role=lambda **_: answer)}))
    run.resources = {"R": "r"}
    expected = trusting("lambda.amazonaws.com") | {"PermissionsBoundary": "arn:b"}
    assert list(Compared(run)._role("R", expected)) == [
        "R.boundary: expected arn:b, got nothing",
        "R.AssumeRolePolicyDocument.Principal.Service: expected lambda.amazonaws.com, got ec2.amazonaws.com",
    ]


@pytest.mark.parametrize(("deployed", "problem"), [("one", []), ("another", ["1 other files, such as app.py"])])
def test_code_that_is_not_what_was_built_is_named(
    deployed: str, problem: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(code, "BUILT", tmp_path)
    for name in ("F", "L"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "app.py").write_text("one")
        with zipfile.ZipFile(tmp_path / f"{name}.zip", "w") as files:
            files.writestr("app.py", deployed if name == "L" else "one")
    location = {name: {"Location": (tmp_path / f"{name}.zip").as_uri()} for name in ("F", "L")}
    lambda_ = SimpleNamespace(
        get_function=lambda **_: {"Code": location["F"]},
        get_layer_version_by_arn=lambda **_: {"Content": location["L"]},
    )

    class Found(dict[str, str]):
        expected: ClassVar = {"F": {"Type": f"{SERVERLESS}Function"}, "L": {"Type": f"{SERVERLESS}LayerVersion"}}

    def work(run: Run, step: Step) -> None:
        run.resources = Found({"F": "f", "L0d4b268692": "arn"})
        code.check_code(run, step)

    assert [sentence.partition("got ")[2] for sentence in problems(done(work, **{"lambda": lambda_}))] == problem
