"""`make soak`: the deployed stack under faults, for minutes; a report of how it went. Exits with 1 on any violation."""

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
    arguments.add_argument("--messages", type=int, default=20_000, help="transactions; and a fifth as many updates")
    arguments.add_argument("--minutes", type=float, default=60, help="until when all queues must be empty for good")
    arguments.add_argument("--seed", type=int, default=1, help="of the messages and of the kills' rhythm")
    arguments.add_argument(
        "--again", type=float, default=1.0, help="the share of all that is sent once more at the end"
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
        console.print("\nStopped, and the local AWS with it.")
        return 130
    report = write_report(soaked, options.report, _about(plan))
    console.print(report.read_text(), markup=False)
    console.print(f"The report is {report}")
    return 1 if soaked.violations else 0


def _soak(plan: Plan, folder: Path) -> Soaked:
    console.print("Starting an AWS on this machine (ministack, IAM enforced)")
    log = (folder / "ministack.log").absolute()
    started = server.ministack(free_port(), log, settings=RETRY_SETTINGS)
    with running(started) as endpoint:
        console.print("sam build, sam deploy")
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
        "The stack is template.yaml's, deployed to ministack with IAM enforced"
        f" ({', '.join(f'{name}={value}' for name, value in PARAMETERS.items())}). It is one process, its event source"
        " mappings take batches of at most 10 and rest for a second after a failure: the rates are its, not AWS's.",
        f"Every {plan.mean_messages_between_kills:g} messages, in the mean, a function process was killed with SIGKILL,"
        " any of them, and now and then all. A batch comes back after"
        f" {plan.visibility_seconds} s, not eight minutes; a job's lease lasts {TIMEOUT_SECONDS + 2} s, not 122.",
        f"Every {plan.seconds_between_nights:g} s a night passed: both jobs for a day of their own, delivered twice.",
        "What a killed invocation posted is in the journal, and in no metric: conflicts are those that were logged.",
        f"Seed {plan.seed}.",
    ]


if __name__ == "__main__":
    sys.exit(main())
