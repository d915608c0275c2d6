"""The CPU time of calls that are awaited, beside the same calls that block, in an environment that has aiobotocore."""

import json
import os
import subprocess
import sys

from rich.console import Console
from rich.table import Table

from benchmarks.engine import new_ministack
from benchmarks.start_up import PROGRAMS_FOLDER
from benchmarks.writers import create_table
from tools.local_aws.server import PROJECT

AIOBOTOCORE = "aiobotocore==3.10.0"
"""It pins a botocore, so all that is compared has that one."""

console = Console(highlight=False)


def main() -> None:
    uv = PROJECT / ".venv" / "bin" / "uv"
    environment = [uv, "--system-certs", "run", "--quiet", "--isolated", "--no-project", "--python", sys.executable]
    with new_ministack() as endpoint:
        create_table(endpoint, "awaited")
        printed = subprocess.run(
            [
                *environment,
                "--with",
                AIOBOTOCORE,
                "--with",
                "boto3",
                "python",
                PROGRAMS_FOLDER / "awaited.py",
                "awaited",
            ],
            env=os.environ | endpoint.environment | {"PYTHONPATH": str(PROJECT / "layers" / "conditional_writes")},
            stdout=subprocess.PIPE,
            check=True,
        ).stdout
    measured = json.loads(printed)
    console.print(report(measured["milliseconds"]))
    console.print(f"A thousand `modify`s at once took {measured['megabytes']:.0f} MB.")


def report(milliseconds: dict[str, float]) -> Table:
    table = Table(title="The client's CPU for a read-modify-write", title_justify="left", title_style="bold")
    table.add_column("by")
    table.add_column("ms", justify="right")
    table.add_column("of `modify`, blocking", justify="right")
    blocking = next(iter(milliseconds.values()))
    for name, each in milliseconds.items():
        table.add_row(name, f"{each:.2f}", f"{each / blocking:.2f}")
    return table
