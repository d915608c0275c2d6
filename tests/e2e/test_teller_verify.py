"""`teller verify` on the deployed stack, and on stacks with a planted defect, which it has to name."""

import contextlib
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.command import Command
from tests.support.deployed import Bank, changed_function, denied, statement_more
from tests.support.reporting import Say
from tools.local_aws import server, stack
from tools.local_aws.server import free_port, running
from tools.local_aws.stack import Stack
from tools.teller.deployment import Deployment
from tools.teller.verify import command
from tools.teller.verify.command import STEPS, perform
from tools.teller.verify.configuration import configuration
from tools.teller.verify.contention import contention
from tools.teller.verify.events import events
from tools.teller.verify.permissions import permissions
from tools.teller.verify.poison import poison
from tools.teller.verify.posting import each_outcome
from tools.teller.verify.run import Run, payment
from tools.teller.verify.steps import Step, Verdict
from tools.teller.verify.tidying import tidy_up

type Work = Callable[[Run, Step], None]


@pytest.fixture
def run(bank: Bank) -> Run:
    return new_run(bank.stack)


def new_run(deployed: Stack) -> Run:
    return Run(Deployment(deployed.name, deployed.endpoint.url))


def problems(run: Run, work: Work) -> list[str]:
    step = Step(1, "a step")
    perform(run, step, work)
    found = [why for check in step.checks if check.verdict is Verdict.FAILED for why in check.why]
    assert found or step.verdict is Verdict.PASSED
    return found


@pytest.mark.parametrize("work", [configuration, permissions])
def test_a_sound_stack_passes(run: Run, work: Work) -> None:
    assert problems(run, work) == []


def test_messages_are_sent_and_everything_is_tidied_up_but_for_letters_of_others(run: Run, bank: Bank) -> None:
    bank.transactions.take_dead_letters()
    bank.transactions.sqs.send_message(
        QueueUrl=bank.transactions.dead_letter_queue_url, MessageBody="a letter of another's"
    )
    for work in (each_outcome, poison, events):
        assert problems(run, work) == []
    assert tidy_up(run) == []
    accounts = [run.item("AccountsTableName", account_id=account_id) for account_id in run.accounts]
    assert [(account["status"], account["balance"]) for account in accounts if account] == [("CLOSED", 0)] * 4
    assert [run.item("ProfilesTableName", account_id=profile_id) for profile_id in run.profiles] == [None, None]
    assert [letter.body for letter in bank.transactions.take_dead_letters()] == ["a letter of another's"]
    assert bank.profiles.take_dead_letters() == []


def test_an_interrupted_run_leaves_no_open_account_and_no_message_that_waits(
    bank: Bank, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(its_run: Run, _: Step) -> None:
        its_run.open(its_run.account("interrupted"))
        credits_ = [payment(its_run.accounts[0], f"credit-{number}", "5") for number in range(30)]
        hold = {"type": "hold", "transaction_id": "hold", "account_id": its_run.accounts[0], "amount": "3"}
        its_run.send("Transactions", [*credits_, hold])
        its_run.send("Transactions", [payment(its_run.account("interrupted-late"), "early", "1")])
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "STEPS", [("An interruption", interrupted)])
    ended = Command(bank.stack).run("verify")
    assert (ended.status, ended.out) == (130, "")
    bank.transactions.wait_until_drained()
    accounts = [account for name, account in bank.books().accounts.items() if "interrupted" in name]
    assert [(account.status, account.balance) for account in accounts] == [("CLOSED", 0)] * 2


# --- Planted defects of deployed resources -------------------------------------------------------------------


def table_arn(bank: Bank, table: str) -> str:
    described = bank.stack.endpoint.client("dynamodb").describe_table(TableName=bank.stack[f"{table}TableName"])
    return str(described["Table"]["TableArn"])


def forbidding(bank: Bank) -> contextlib.AbstractContextManager[None]:
    function = bank.stack["ProcessTransactionsFunctionName"]
    return denied(bank.stack, function, "dynamodb:BatchGetItem", resource=table_arn(bank, "Journal"))


def allowing(action: str, table: str) -> Callable[[Bank], contextlib.AbstractContextManager[None]]:
    return lambda bank: statement_more(
        bank.stack,
        bank.stack["ReadAccountsFunctionName"],
        {"Effect": "Allow", "Action": action, "Resource": table_arn(bank, table)},
    )


@contextlib.contextmanager
def disabling_an_alarm(bank: Bank) -> Iterator[None]:
    cloudwatch = bank.stack.endpoint.client("cloudwatch")
    names = [alarm["AlarmName"] for alarm in cloudwatch.describe_alarms()["MetricAlarms"]]
    [alarm] = [name for name in names if "BusDeadLetterAlarm" in name]
    cloudwatch.disable_alarm_actions(AlarmNames=[alarm])
    try:
        yield
    finally:
        cloudwatch.enable_alarm_actions(AlarmNames=[alarm])


@contextlib.contextmanager
def dropping_metrics(bank: Bank) -> Iterator[None]:
    lambda_, function = bank.stack.endpoint.client("lambda"), bank.stack["UpsertProfilesFunctionName"]
    before = lambda_.get_function_configuration(FunctionName=function)["LoggingConfig"]
    with changed_function(bank.stack, function, LoggingConfig=before | {"ApplicationLogLevel": "WARN"}):
        yield


PLANTED: dict[Work, dict[str, Callable[[Bank], contextlib.AbstractContextManager[None]]]] = {
    permissions: {
        "ProcessTransactionsRole, dynamodb:BatchGetItem on JournalTable: expected allowed, got ": forbidding,
        "ReadAccountsRole, dynamodb:DeleteItem on AccountsTable: expected denied, got allowed": allowing(
            "dynamodb:DeleteItem", "Accounts"
        ),
        "ReadAccountsRole, dynamodb:Query: expected the template's statements, got another one": allowing(
            "dynamodb:Query", "Profiles"
        ),
    },
    configuration: {
        "ProfilesQueue.VisibilityTimeout: expected 840, got 100": lambda bank: bank.profiles.visibility_timeout(100),
        "BusDeadLetterAlarm.ActionsEnabled: expected True, got False": disabling_an_alarm,
        "UpsertProfilesFunction.LoggingConfig.ApplicationLogLevel: expected TRACE, got WARN": dropping_metrics,
    },
}
"""By the step that names them, and its sentence."""


@pytest.mark.parametrize(("work", "problem"), [(work, problem) for work, of in PLANTED.items() for problem in of])
def test_a_planted_defect_is_named(run: Run, bank: Bank, work: Work, problem: str) -> None:
    with PLANTED[work][problem](bank):
        found = problems(run, work)
    assert any(each.startswith(problem) for each in found)
    assert {each.partition(",")[0].partition(".")[0] for each in found} == {problem.partition(",")[0].partition(".")[0]}


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
def test_a_sound_stack_is_verified(built: None, tmp_path: Path) -> None:
    with deployed(tmp_path) as sound:
        ended = Command(sound).run("verify")
    assert ended.status == 0, ended
    assert len(re.findall(r"^\| \d+\. ", ended.out, re.MULTILINE)) == len(STEPS)
    assert "**Failed" not in ended.out
    assert not re.search(r"\b\d{12}\b", ended.out), "the report has a number of an AWS account"


def without_version_condition(build: Path) -> None:
    """A change of an account no longer asserts the version that it was planned from."""
    module = build / "ConditionalWritesLayer/python/conditional_writes/core/requests.py"
    old = "return Update(key, values, condition, removed, expected=expected)"
    source = module.read_text()
    assert source.count(old) == 1
    module.unlink()  # A copy may share the file with the build.
    module.write_text(source.replace(old, old.replace("condition", "exists(key.attributes[0][0])")))
    shutil.rmtree(module.parent / "__pycache__")


@pytest.mark.exhaustive
def test_lost_updates_are_named(built: None, tmp_path: Path, say: Say) -> None:
    with deployed(tmp_path, without_version_condition) as unsound:
        found = problems(new_run(unsound), contention)
    assert any("twice: an update was lost" in problem for problem in found), found
    assert any("expected the balance" in problem for problem in found), found
    say("\n".join(found))
