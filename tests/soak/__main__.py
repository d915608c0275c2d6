"""`make soak`: runs the deployed stack under faults for minutes, and writes a report. Exits with 1 on a violation."""

import argparse
import sys
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from tests.soak.report import write_report
from tests.soak.run import PARAMETERS, Plan, Soaked, soak
from tests.soak.scheduled_runs import TIMEOUT_SECONDS
from tests.soak.watch import Sample, StillWaiting
from tests.support.deployed import RETRY_SETTINGS, Bank
from tools.local_aws import server, stack
from tools.local_aws.server import CACHE, LocalAwsError, free_port, running

console = Console(highlight=False)


def main() -> int:
    arguments = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    arguments.add_argument(
        "--messages", type=int, default=20_000, help="transactions to send, with a fifth as many profile updates"
    )
    arguments.add_argument("--minutes", type=float, default=60, help="the time in which all queues must drain")
    arguments.add_argument("--seed", type=int, default=1, help="the seed of the messages and of the kills")
    arguments.add_argument(
        "--again", type=float, default=1.0, help="the share of the messages that is sent again at the end"
    )
    arguments.add_argument("--report", type=Path, default=CACHE / "soak", help="the folder of the report")
    options = arguments.parse_args()
    plan = Plan(options.messages, options.seed, options.minutes, again_share=options.again)
    try:
        soaked = _soak(plan, options.report)
    except (LocalAwsError, StillWaiting) as error:
        console.print(f"[red]{error}")
        return 1
    except KeyboardInterrupt:
        console.print("\nInterrupted. The local AWS has been stopped.")
        return 130
    report = write_report(soaked, options.report, _about(plan))
    console.print(report.read_text(), markup=False)
    console.print(f"The report is in {report}")
    return 1 if soaked.violations else 0


def _soak(plan: Plan, folder: Path) -> Soaked:
    console.print("Starting a local AWS (ministack, IAM enforced)")
    log = (folder / "ministack.log").absolute()
    started = server.ministack(free_port(), log, settings=RETRY_SETTINGS)
    with running(started) as endpoint:
        console.print("Building and deploying the stack (sam build, sam deploy)")
        stack.build()
        bank = Bank(stack.deploy(endpoint, **PARAMETERS), started[1].pid, log)
        with Progress(
            TextColumn("{task.description:<34}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=console,
        ) as progress:
            transactions = progress.add_task("transactions", total=plan.messages)
            updates = progress.add_task("updates", total=plan.messages // 5)

            def show(what: str, sample: Sample, killed: int) -> None:
                about = f"transactions ({what}, {killed} killed)"
                progress.update(transactions, description=about, completed=plan.messages - sample.transactions)
                progress.update(updates, completed=plan.messages // 5 - sample.updates)

            return soak(bank, plan, show)


def _about(plan: Plan) -> list[str]:
    return [
        "template.yaml is deployed to ministack with IAM enforced"
        f" ({', '.join(f'{name}={value}' for name, value in PARAMETERS.items())}). ministack is one process. Its event"
        " source mappings take batches of at most 10 and pause for a second after a failure: the rates aren't AWS's.",
        f"Every {plan.mean_messages_between_kills:g} messages on average a random function process was killed with"
        " SIGKILL, and sometimes all of them. The messages of a killed function are redelivered after"
        f" {plan.visibility_seconds} s, not 14 minutes, and returned ones no later, not after up to 15 minutes. A job's"
        f" lease lasts {TIMEOUT_SECONDS + 2} s.",
        f"After a third of the messages AWS denied the functions everything but events for {plan.outage_seconds:g} s,"
        f" after two thirds only events for {plan.eventbridge_outage_seconds:g} s.",
        f"Every {plan.seconds_between_runs:g} s all three jobs were scheduled for another day, and delivered twice.",
        "A killed invocation's postings are in the journal, but not in the metrics. Only logged conflicts are counted.",
        f"Seed {plan.seed}.",
    ]


if __name__ == "__main__":
    sys.exit(main())
