"""`teller verify` on the deployed stack, and on stacks with a planted defect, which it has to name."""

import contextlib
import json
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.command import Command
from tests.support.deployed import Bank
from tests.support.reporting import Say
from tests.support.template import FUNCTIONS
from tools.local_aws import server, stack
from tools.local_aws.server import free_port, running
from tools.local_aws.stack import Stack
from tools.teller.deployment import Deployment
from tools.teller.verify import command
from tools.teller.verify.command import STEPS, perform
from tools.teller.verify.configuration import configuration
from tools.teller.verify.contention import contention
from tools.teller.verify.holds import holds
from tools.teller.verify.metrics import metrics
from tools.teller.verify.permissions import permissions
from tools.teller.verify.poison import poison
from tools.teller.verify.posting import each_outcome
from tools.teller.verify.run import CountedDeployment, Run, payment
from tools.teller.verify.steps import Step, Verdict
from tools.teller.verify.tidying import tidy_up


@pytest.fixture
def run(bank: Bank) -> Run:
    return new_run(bank.stack)


def new_run(deployed: Stack) -> Run:
    return Run(CountedDeployment(deployed.name, deployed.endpoint.url))


def done(run: Run, work: Callable[[Run, Step], None]) -> Step:
    step = Step(1, "a step")
    perform(run, step, work)
    return step


def problems(step: Step) -> list[str]:
    return [why for check in step.checks if check.verdict is Verdict.FAILED for why in check.why]


@pytest.mark.parametrize("work", [configuration, permissions])
def test_a_sound_stack_passes(run: Run, work: Callable[[Run, Step], None]) -> None:
    step = done(run, work)
    assert problems(step) == []
    assert step.verdict is Verdict.PASSED
    assert any(check.verdict is Verdict.ONLY_ON_AWS for check in step.checks)


def test_messages_are_sent_and_everything_is_tidied_up_but_for_letters_of_others(run: Run, bank: Bank) -> None:
    bank.transactions.take_dead_letters()
    bank.stack.endpoint.client("sqs").send_message(
        QueueUrl=bank.transactions.dead_letter_queue_url, MessageBody="a letter of another's"
    )
    for work in (each_outcome, holds, poison, metrics):
        assert problems(done(run, work)) == []
    assert tidy_up(run) == []
    accounts = [run.item("AccountsTableName", account_id=account_id) for account_id in run.accounts]
    assert [(account["status"], account["balance"]) for account in accounts if account] == [("CLOSED", 0)] * 5
    assert [run.item("ProfilesTableName", account_id=profile_id) for profile_id in run.profiles] == [None, None]
    assert [letter.body for letter in bank.transactions.take_dead_letters()] == ["a letter of another's"]
    assert bank.profiles.take_dead_letters() == []


def test_an_interrupted_run_leaves_no_open_account_and_no_message_that_waits(
    bank: Bank, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(its_run: Run, _: Step) -> None:
        its_run.open(its_run.account("interrupted"))
        its_run.send("Transactions", [payment(its_run.accounts[0], "credit", "5")])
        its_run.wait_for_version(its_run.accounts[0], 2)
        hold = {"type": "hold", "transaction_id": "hold", "account_id": its_run.accounts[0], "amount": "3"}
        its_run.send("Transactions", [hold])
        its_run.send("Transactions", [payment(its_run.account("interrupted-late"), "early", "1")])
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "STEPS", [("An interruption", interrupted)])
    ended = Command(bank.stack).run("verify")
    assert (ended.status, ended.out) == (130, "")
    bank.transactions.wait_until_drained()
    accounts = [account for name, account in bank.books().accounts.items() if "interrupted" in name]
    assert [account.status for account in accounts] == ["CLOSED", "CLOSED"]


def test_an_account_whose_messages_are_still_on_the_way_is_closed_after_them(run: Run) -> None:
    run.open(run.account("busy"))
    run.send("Transactions", [payment(run.accounts[0], f"credit-{number}", "5") for number in range(500)])
    assert tidy_up(run) == []
    account = run.item("AccountsTableName", account_id=run.accounts[0])
    assert account is not None
    assert (account["status"], account["balance"]) == ("CLOSED", 0)


def test_it_asks_before_it_sends_anything_in_prod(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Deployment, "is_prod", property(lambda _: True))
    ended = Command(Stack(server.Endpoint(run.deployment.client("sqs").meta.endpoint_url), {})).run("verify")
    assert (ended.status, ended.out) == (2, "")
    assert "add --yes" in ended.err


# --- Planted defects of deployed resources -------------------------------------------------------------------


@contextlib.contextmanager
def planted(bank: Bank, function: str, statement: dict[str, Any]) -> Iterator[None]:
    """The role of the function has one statement more."""
    iam, role = bank.stack.endpoint.client("iam"), role_of(bank, function)
    document = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
    iam.put_role_policy(RoleName=role, PolicyName="planted", PolicyDocument=document)
    try:
        yield
    finally:
        iam.delete_role_policy(RoleName=role, PolicyName="planted")


def test_a_missing_permission_is_named(run: Run, bank: Bank) -> None:
    denied = {"Effect": "Deny", "Action": "dynamodb:BatchGetItem", "Resource": table_arn(bank, "JournalTableName")}
    with planted(bank, "ProcessTransactions", denied):
        found = problems(done(run, permissions))
    [problem] = found
    assert problem.startswith("ProcessTransactionsRole, dynamodb:BatchGetItem on JournalTable: expected allowed, got ")


def test_a_permission_too_many_is_named(run: Run, bank: Bank) -> None:
    allowed = {"Effect": "Allow", "Action": "dynamodb:*", "Resource": table_arn(bank, "AccountsTableName")}
    with planted(bank, "ReadAccounts", allowed):
        found = problems(done(run, permissions))
    assert "ReadAccountsRole, dynamodb:DeleteItem on AccountsTable: expected denied, got allowed" in found
    assert all(problem.startswith("ReadAccountsRole, ") for problem in found)


def test_a_permission_that_no_list_names_is_named(run: Run, bank: Bank) -> None:
    allowed = {"Effect": "Allow", "Action": ["dynamodb:Query"], "Resource": table_arn(bank, "ProfilesTableName")}
    with planted(bank, "ReadAccounts", allowed):
        found = problems(done(run, permissions))
    assert found == [
        "ReadAccountsRole, dynamodb:Query: expected the template's statements, got another one that allows this"
    ]


def test_another_visibility_timeout_is_named(run: Run, bank: Bank) -> None:
    with bank.profiles.visibility_timeout(100):
        assert problems(done(run, configuration)) == ["ProfilesQueue.VisibilityTimeout: expected 840, got 100"]


def test_an_alarm_that_tells_nobody_is_named(run: Run, bank: Bank) -> None:
    cloudwatch = bank.stack.endpoint.client("cloudwatch")
    [alarm] = [name for name in alarm_names(cloudwatch) if "BusDeadLetterAlarm" in name]
    cloudwatch.disable_alarm_actions(AlarmNames=[alarm])
    try:
        assert problems(done(run, configuration)) == ["BusDeadLetterAlarm.ActionsEnabled: expected True, got False"]
    finally:
        cloudwatch.enable_alarm_actions(AlarmNames=[alarm])


def alarm_names(cloudwatch: Any) -> list[str]:
    return [alarm["AlarmName"] for alarm in cloudwatch.describe_alarms()["MetricAlarms"]]


def test_a_log_level_that_drops_metrics_is_named(run: Run, bank: Bank) -> None:
    lambda_, function = bank.stack.endpoint.client("lambda"), bank.stack["UpsertProfilesFunctionName"]
    before = lambda_.get_function_configuration(FunctionName=function)["LoggingConfig"]
    lambda_.update_function_configuration(
        FunctionName=function, LoggingConfig={**before, "ApplicationLogLevel": "WARN"}
    )
    try:
        found = problems(done(run, configuration))
    finally:
        lambda_.update_function_configuration(FunctionName=function, LoggingConfig=before)
    assert found == ["UpsertProfilesFunction.LoggingConfig.ApplicationLogLevel: expected TRACE, got WARN"]


def role_of(bank: Bank, function: str) -> str:
    lambda_ = bank.stack.endpoint.client("lambda")
    role: str = lambda_.get_function_configuration(FunctionName=bank.stack[f"{function}FunctionName"])["Role"]
    return role.rpartition("/")[2]


def table_arn(bank: Bank, output: str) -> str:
    described = bank.stack.endpoint.client("dynamodb").describe_table(TableName=bank.stack[output])
    return str(described["Table"]["TableArn"])


# --- Whole verifications of stacks of their own --------------------------------------------------------------


@contextlib.contextmanager
def deployed(folder: Path, change: Callable[[Path], None] = lambda _: None) -> Iterator[Stack]:
    """A stack on a local AWS of its own. `change` may change a copy of the build first."""
    copy = folder / "build"
    shutil.copytree(stack.BUILT.parent, copy, symlinks=True)
    change(copy)
    with running(server.ministack(free_port(), folder / "ministack.log")) as endpoint:
        yield stack.deploy(endpoint, template=copy / "template.yaml")


@pytest.mark.exhaustive
def test_a_sound_stack_is_verified_for_less_than_a_dollar(built: None, tmp_path: Path) -> None:
    with deployed(tmp_path) as sound:
        ended = Command(sound).run("verify")
        assert ended.status == 0, ended
        assert len(re.findall(r"^\| \d+\. ", ended.out, re.MULTILINE)) == len(STEPS)
        assert "**Failed" not in ended.out
        assert not re.search(r"\b\d{12}\b", ended.out), "the report has a number of an AWS account"
        [dollars] = re.findall(r"cost at most ([\d.]+) dollars", ended.out)
        assert 0 < float(dollars) < 1


def with_planted_settings(build: Path) -> None:
    """Changes the built template: a visibility timeout, the log level, the architecture, and a permission."""
    template = build / "template.yaml"
    content: dict[str, Any] = yaml.safe_load(template.read_text())
    resources, functions = content["Resources"], content["Globals"]["Function"]
    _, _, queues = resources["Fn::ForEach::MessageQueues"]
    queues["${Messages}Queue"]["Properties"]["VisibilityTimeout"] = 600
    functions["LoggingConfig"]["ApplicationLogLevel"] = "WARN"
    functions["Architectures"] = [other_architecture()]
    statements = resources["ReadAccountsPolicy"]["Properties"]["PolicyDocument"]["Statement"]
    [of_index] = [statement for statement in statements if statement["Sid"] == "JournalByVersion"]
    of_index["Action"] = "dynamodb:GetItem"
    template.write_text(yaml.safe_dump(content, sort_keys=False))


def other_architecture() -> str:
    return "x86_64" if stack.architecture() == "arm64" else "arm64"


@pytest.mark.exhaustive
def test_each_planted_setting_of_a_stack_is_named(built: None, tmp_path: Path) -> None:
    with deployed(tmp_path, with_planted_settings) as unsound:
        report = Command(unsound).json("verify", status=1)
    failed = {check["claim"]: check["why"] for step in report["steps"] for check in step["checks"] if is_failed(check)}
    expected, other = stack.architecture(), other_architecture()
    found = [why for problems in failed.values() for why in problems]
    assert sorted(found) == sorted(
        [
            "ReadAccountsRole, dynamodb:Query on JournalTable, by_version: expected allowed, got implicitDeny",
            "ReadAccountsRole, dynamodb:GetItem: expected the template's statements, got another one that allows this",
            *(f"{queue}Queue.VisibilityTimeout: expected 840, got 600" for queue in ("Transactions", "Profiles")),
            *(f"{name}.Architectures: expected ['{expected}'], got ['{other}']" for name in FUNCTIONS),
            *(f"{name}.LoggingConfig.ApplicationLogLevel: expected TRACE, got WARN" for name in FUNCTIONS),
        ]
    )


def is_failed(check: dict[str, Any]) -> bool:
    return check["verdict"] == Verdict.FAILED


def edited(build: Path, layer: str, module_name: str, old: str, new: str) -> None:
    """Replaces the text in a module of a built layer."""
    module = build / layer / "python" / module_name
    assert module.read_text().count(old) == 1
    changed = module.read_text().replace(old, new)
    module.unlink()  # A copy may share the file with the build.
    module.write_text(changed)
    shutil.rmtree(module.parent / "__pycache__")


def without_version_condition(build: Path) -> None:
    """A change of an account no longer asserts the version that it was planned from."""
    old = "return Update(key, values, condition, removed, expected=expected)"
    new = old.replace("condition", "exists(key.attributes[0][0])")
    edited(build, "ConditionalWritesLayer", "conditional_writes/item_diff.py", old, new)


@pytest.mark.exhaustive
def test_lost_updates_are_named(built: None, tmp_path: Path, say: Say) -> None:
    with deployed(tmp_path, without_version_condition) as unsound:
        found = problems(done(new_run(unsound), contention))
    assert any("twice: an update was lost" in problem for problem in found), found
    assert any("expected the balance" in problem for problem in found), found
    say("\n".join(found))


def without_held_money(build: Path) -> None:
    """A debit may spend what is held."""
    old = "WIDE.subtract(WIDE.subtract(self.balance, self.held), self.overdraft_limit)"
    edited(build, "LedgerLayer", "ledger/core/accounts.py", old, "WIDE.subtract(self.balance, self.overdraft_limit)")


def without_the_count_of_reversals(build: Path) -> None:
    """A transaction may be reversed again and again."""
    edited(build, "LedgerLayer", "ledger/core/transaction_types/reverse.py", "    if left <= 0:", "    if False:")


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("change", "transaction", "expected"),
    [
        (without_held_money, "too-early", "('REJECTED', '0', 'OVERDRAFT_LIMIT')"),
        (without_the_count_of_reversals, "second-reversal", "('REJECTED', '0', 'ALREADY_REVERSED')"),
    ],
)
def test_held_money_that_is_spent_and_a_second_reversal_are_named(
    built: None, tmp_path: Path, change: Callable[[Path], None], transaction: str, expected: str
) -> None:
    with deployed(tmp_path, change) as unsound:
        found = problems(done(new_run(unsound), holds))
    assert any(f"-buyer, {transaction}: expected {expected}, got ('POSTED', " in problem for problem in found), found
