"""`teller verify`: the steps in their order, the tidying after them, and the report."""

import time
from collections.abc import Callable, Sequence

import typer
from botocore.exceptions import BotoCoreError, ClientError

from tools.teller.failures import Failure, failure_of
from tools.teller.operator import Operator, YesOption, subcommand
from tools.teller.verify.configuration import configuration
from tools.teller.verify.contention import contention
from tools.teller.verify.events import events
from tools.teller.verify.permissions import permissions
from tools.teller.verify.poison import poison
from tools.teller.verify.posting import a_payment_before_its_account, each_outcome
from tools.teller.verify.quotas import quotas
from tools.teller.verify.report import Report
from tools.teller.verify.run import Run
from tools.teller.verify.schedule import schedule
from tools.teller.verify.steps import Step, Verdict
from tools.teller.verify.tidying import tidy_up

type Work = Callable[[Run, Step], None]

STEPS: Sequence[tuple[str, Work]] = (
    ("Open, post, repeat, reject, transfer", each_outcome),
    ("A payment before its account", a_payment_before_its_account),
    ("Messages that can't be processed", poison),
    ("Many messages of few accounts", contention),
    ("A one-off schedule, twice", schedule),
    ("Permissions", permissions),
    ("Configuration", configuration),
    ("The stack, its quotas and its alarms", quotas),
    ("Events", events),
)
REFUSED = {"AccessDenied", "AccessDeniedException", "AuthorizationError", "UnauthorizedOperation"}


def add_to(app: typer.Typer) -> None:
    subcommand(app)(verify)


def verify(operator: Operator, yes: YesOption = False) -> None:
    """Show that the stack does what the README says.

    In nine steps it sends some 5,000 messages on accounts of its own, whose names begin with verify-, and closes them
    at the end. Nothing of others is touched; consumers of events hear of these accounts, too. On AWS it takes some ten
    minutes and costs less than a dollar. The answer is a report in Markdown. Exit status 1 if a step failed.
    """
    operator.agree("send messages on accounts of its own", yes=yes)
    run = Run(operator.deployment)
    steps: list[Step] = []
    left_behind: list[str] = []
    try:
        for number, (title, work) in enumerate(STEPS, 1):
            operator.remark(f"{number:>2}. {title} …")
            steps.append(Step(number, title))
            perform(run, steps[-1], work)
            _tell(operator, steps[-1])
    finally:
        operator.remark("Tidying up …")
        left_behind = tidy_up(run)
        for sentence in left_behind:
            operator.remark(f"left behind: {sentence}")
    report = Report(run, steps, left_behind)
    if operator.as_json:
        operator.show(report.answer())
    else:
        for line in report.markdown():
            operator.line(line)
    operator.remark(report.summary())
    if report.failed:
        raise typer.Exit(1)


def _tell(operator: Operator, step: Step) -> None:
    """The step's verdict on the screen, with what was measured and with its problems."""
    problems = [why for check in step.checks if check.verdict is Verdict.FAILED for why in check.why]
    for sentence in (f"{step.verdict}, {step.seconds:.0f} s", *step.measured, *problems):
        operator.remark(sentence, indent=4)


def perform(run: Run, step: Step, work: Work) -> None:
    """Does a step. An error that ends it is a failed check, or one not tried if the caller may not do it."""
    began = time.monotonic()
    try:
        work(run, step)
    except Failure as error:
        step.check("the step comes to its end", error.reason)
    except (ClientError, BotoCoreError) as error:
        reason = failure_of(error).reason
        if isinstance(error, ClientError) and error.response["Error"]["Code"] in REFUSED:
            step.not_tried("the step comes to its end", f"the caller's credentials don't suffice: {reason}")
        else:
            step.check("the step comes to its end", reason)
    except Exception as error:  # noqa: BLE001 (the other steps and the tidying go on)
        step.check("the step comes to its end", f"an error of the command's own: {type(error).__name__}: {error}")
    step.seconds = time.monotonic() - began
