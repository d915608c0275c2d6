"""The CPU time of batches over TLS, the first of a process and later ones, for Teller and for stock Powertools.

A proxy speaks TLS in front of the engine, as AWS does. Each process counts its own CPU time. The sides run in turn, so
that other load on the machine affects all of them alike.
"""

import json
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import Console
from rich.progress import track
from rich.table import Table

from benchmarks.counted import stock_side, teller_side
from benchmarks.start_up import PROGRAMS_FOLDER, lambda_environment
from tools.local_aws.server import PROJECT, free_port, ministack, running
from tools.local_aws.tls import TlsProxy

ACCOUNTS = 100
"""Each batch has one transaction for each account, so Teller makes as many commits."""
LATER = 3
"""The batches of a process after its first one."""
PROCESSES = 5
PROGRAMS = {
    "teller": "Teller",
    "botocore's": "Teller, botocore's connections",
    "stock": "stock Powertools",
}
"""The sides, as programs/batches.py knows them, and their names in the report."""
GOALS = {"botocore's": 0.4, "stock": 1.0}
"""The most CPU time of Teller's first batch, as a share of this side's first batch."""

console = Console(highlight=False)


@dataclass(frozen=True)
class Process:
    """The CPU seconds of the batches of one process, and the number of its connections."""

    first: float
    later: float
    connections: int


def main() -> None:
    with (
        TemporaryDirectory(prefix="teller-") as folder,
        running(ministack(free_port(), Path(folder) / "ministack.log")) as engine,
        (proxy := TlsProxy(engine)).running() as endpoint,
    ):
        layers = [PROJECT / "layers" / name for name in ("conditional_writes", "workers", "ledger")]
        path = [PROJECT / "functions" / "process_transactions", *layers, PROJECT]
        environment = lambda_environment(path) | endpoint.environment
        environment["AWS_CA_BUNDLE"] = proxy.write_bundle(Path(folder) / "bundle.pem")
        teller, stock = teller_side(engine), stock_side(engine)
        sides = {program: stock if program == "stock" else teller for program in PROGRAMS}
        for side in (teller, stock):
            side.open_accounts([f"tls-{number}" for number in range(ACCOUNTS)])
        console.print(f"Starting {PROCESSES} processes of each, for {1 + LATER} batches of {ACCOUNTS} accounts")
        rounds = [
            {
                program: handle(program, side.tables, f"{program}-{number}", environment, proxy)
                for program, side in sides.items()
            }
            for number in track(range(PROCESSES), "", console=console, transient=True, disable=not console.is_terminal)
        ]
    console.print(report({program: [each[program] for each in rounds] for program in PROGRAMS}))
    console.print(
        "[dim]urllib3 loads the file of certificate authorities for each connection, here 32 times. Teller's clients "
        "load it once. Lambda gives 1,024 MB 0.58 of a CPU, so a batch takes there at least 1.7 times its CPU time.[/]"
    )


def handle(
    program: str, tables: Sequence[str], prefix: str, environment: Mapping[str, str], proxy: TlsProxy
) -> Process:
    """Handles batches in a process of their own. `prefix` begins their transactions' ids."""
    before = proxy.connections
    arguments = [program, *tables, "tls", str(ACCOUNTS), prefix, str(1 + LATER)]
    finished = subprocess.run(
        [sys.executable, PROGRAMS_FOLDER / "batches.py", *arguments],
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    first, *later = json.loads(finished.stdout.splitlines()[-1])
    return Process(first, statistics.median(later), proxy.connections - before)


def report(measured: Mapping[str, Sequence[Process]]) -> Table:
    table = Table(title=f"CPU time over TLS: medians of {PROCESSES}", title_justify="left", title_style="bold")
    table.add_column(f"batch of {ACCOUNTS} by", no_wrap=True)
    for name in ("connec-\ntions", "first\nms", "later\nms", "Teller's\nof it", "goal"):
        table.add_column(name, justify="right")
    first = {program: statistics.median(each.first for each in processes) for program, processes in measured.items()}
    for program, processes in measured.items():
        ratio, most = first["teller"] / first[program], GOALS.get(program)
        table.add_row(
            PROGRAMS[program],
            f"{statistics.median(each.connections for each in processes):.0f}",
            f"{first[program] * 1000:.0f}",
            f"{statistics.median(each.later for each in processes) * 1000:.0f}",
            f"{ratio:.2f}" if most else "",
            f"≤ {most:g} {'[green]✓[/]' if ratio <= most else '[red]✗[/]'}" if most else "",
            style="bold" if program == "teller" else "",
        )
    return table


if __name__ == "__main__":
    main()
