"""Times a cold start: the import of the function, with its clients, for Teller and for stock Powertools.

Each run is a process of its own, with a Lambda function's environment variables. The three programs run in turn, so
that other load on the machine affects all of them alike. Function, layers and their bytecode are those that `sam build`
made. The other programs import the layers' packages, too, and their others from .venv, with bytecode.

The library's own start is timed likewise, beside boto3's: `import conditional_writes` and its `dynamodb_client()`, as
other applications would use them, and `boto3.client("dynamodb")`.
"""

import os
import statistics
import subprocess
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import track
from rich.table import Table

from tools import template
from tools.local_aws import stack
from tools.local_aws.functions import QUEUE_LIMITS
from tools.local_aws.server import PROJECT, REGION

RUNS = 15
GOAL = 0.55
PROGRAMS_FOLDER = Path(__file__).parent / "programs"
BUILT = PROJECT / ".aws-sam" / "build"
STOCK = "stock_function"
PROGRAMS = {
    "app": "Teller's process_transactions",
    STOCK: "stock Powertools, boto3 table",
    "only_a_client": "a botocore client alone",
}
"""The modules' names in the report."""
BOTO3 = "boto3_client"
LIBRARY_PROGRAMS = {"the_library": "conditional_writes and its client", BOTO3: "boto3 and its client"}
LIBRARY_RUNS = 31
LIBRARY_GOAL = 1.1
"""Of boto3's CPU time."""

console = Console(highlight=False)


@dataclass(frozen=True)
class Times:
    """The medians of the runs."""

    seconds: float
    cpu_seconds: float


def main() -> None:
    console.print("Building the functions and layers (sam build)")
    stack.build()
    layers = ("DependenciesLayer", "ConditionalWritesLayer", "WorkersLayer", "LedgerLayer")
    queue, door = (
        lambda_environment([BUILT / name, *(BUILT / layer / "python" for layer in layers)], name)
        | {"PYTHONDONTWRITEBYTECODE": "1"}
        for name in ("ProcessTransactionsFunction", "PostTransactionsFunction")
    )
    console.print(f"Starting each program {RUNS} times")
    console.print(report("Start-up", measure(queue)))
    in_turn = [(start("app", door).cpu_seconds, start("app", queue).cpu_seconds) for _ in range(RUNS)]
    ratio = statistics.median(ours for ours, _ in in_turn) / statistics.median(theirs for _, theirs in in_turn)
    console.print(f"post_transactions takes {ratio:.2f} of process_transactions' CPU time {goal(ratio, LIBRARY_GOAL)}")
    console.print(f"\nStarting the library and boto3 {LIBRARY_RUNS} times each")
    console.print(library_report(measure(lambda_environment([PROJECT]), LIBRARY_PROGRAMS, LIBRARY_RUNS)))


def lambda_environment(path: Sequence[Path], function: str = "ProcessTransactionsFunction") -> dict[str, str]:
    """Lambda's environment variables. Without them Powertools would leave out work, such as that of its Tracer.

    `path` is the function's folder and those of its layers, `function` its name in the template.
    """
    own = template.resources("AWS::Serverless::Function")[function]["Environment"]["Variables"]
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "POWERTOOLS_", "PYTHON"))}
    return kept | {
        "PYTHONPATH": os.pathsep.join(map(str, path)),
        "LAMBDA_TASK_ROOT": str(path[0]),
        "_X_AMZN_TRACE_ID": "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1",
        "AWS_LAMBDA_FUNCTION_NAME": "process-transactions",
        "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "1024",
        "AWS_LAMBDA_INITIALIZATION_TYPE": "on-demand",
        "AWS_EXECUTION_ENV": "AWS_Lambda_python3.13",
        "AWS_REGION": REGION,
        "AWS_DEFAULT_REGION": REGION,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_SESSION_TOKEN": "test",
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        "POWERTOOLS_METRICS_NAMESPACE": "Teller",
        **dict(map(_variable, own.items())),
    }


def _variable(variable: tuple[str, Any]) -> tuple[str, str]:
    """A variable of the function in the template, with a value in place of a reference."""
    name, value = variable
    url = f"https://sqs.{REGION}.amazonaws.com/000000000000/{name.lower()}"
    values = QUEUE_LIMITS | {"MINOR_UNITS": "on", "POWERTOOLS_LOG_LEVEL": "INFO"}
    return name, value if isinstance(value, str) else values.get(name, url if "URL" in name else name.lower())


def measure(environment: Mapping[str, str], programs: Collection[str] = PROGRAMS, runs: int = RUNS) -> dict[str, Times]:
    """The medians of each program, by module, without the first round."""
    rounds = [
        {module: start(module, environment) for module in programs}
        for _ in track(range(runs + 1), "", console=console, transient=True, disable=not console.is_terminal)
    ][1:]
    return {
        module: Times(
            statistics.median(times[module].seconds for times in rounds),
            statistics.median(times[module].cpu_seconds for times in rounds),
        )
        for module in programs
    }


def start(module: str, environment: Mapping[str, str]) -> Times:
    finished = subprocess.run(
        [sys.executable, PROGRAMS_FOLDER / "measure.py", module],
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    seconds, cpu_seconds = finished.stdout.split()[-2:]
    return Times(float(seconds), float(cpu_seconds))


def report(title: str, measured: dict[str, Times]) -> Table:
    table = Table(title=f"{title}: medians of {RUNS}", title_justify="left", title_style="bold")
    table.add_column("importing")
    for name in ("ms", "of stock", "CPU ms", "of stock", f"≤ {GOAL}"):
        table.add_column(name, justify="right")
    stock = measured[STOCK]
    for module, times in measured.items():
        ratio, cpu_ratio = times.seconds / stock.seconds, times.cpu_seconds / stock.cpu_seconds
        table.add_row(
            PROGRAMS[module],
            f"{times.seconds * 1000:.0f}",
            f"{ratio:.2f}",
            f"{times.cpu_seconds * 1000:.0f}",
            f"{cpu_ratio:.2f}",
            goal(max(ratio, cpu_ratio)) if module == "app" else "",
            style="bold" if module == "app" else "",
        )
    return table


def library_report(measured: dict[str, Times]) -> Table:
    title = f"The library's start: medians of {LIBRARY_RUNS}"
    table = Table(title=title, title_justify="left", title_style="bold")
    table.add_column("importing")
    for name in ("CPU ms", "of boto3", f"≤ {LIBRARY_GOAL}"):
        table.add_column(name, justify="right")
    for module, times in measured.items():
        ratio = times.cpu_seconds / measured[BOTO3].cpu_seconds
        reached = goal(ratio, LIBRARY_GOAL) if module != BOTO3 else ""
        table.add_row(LIBRARY_PROGRAMS[module], f"{times.cpu_seconds * 1000:.0f}", f"{ratio:.2f}", reached)
    return table


def goal(ratio: float, at_most: float = GOAL) -> str:
    """`ratio` is the worse one of time and CPU time, because time alone varies by chance on a busy machine."""
    return "[green]✓[/]" if ratio <= at_most else "[red]✗[/]"
