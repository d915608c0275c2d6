"""The functions' CPU time for the slowest bodies that a producer can send, ten in a batch, beside everyday batches."""

import contextlib
import io
import time
from collections.abc import Callable
from types import ModuleType

from rich.console import Console
from rich.table import Table

from benchmarks.engine import new_ministack
from benchmarks.slow_bodies import SLOW
from tests.support.samples import opening_body, profile_body
from tools.local_aws.functions import invoke, process_transactions, record, upsert_profiles
from tools.local_aws.server import Endpoint
from tools.local_aws.tables import create_profiles_table, create_tables

BATCH = 10
ROUNDS = 3

console = Console(highlight=False)

EVERYDAY: dict[str, Callable[[int], str]] = {
    "everyday: an opening": lambda n: opening_body(account_id=f'"a{n}"'),
    "everyday: an update": lambda n: profile_body(account_id=f'"a{n}"'),
}


def load(aws: Endpoint) -> list[ModuleType]:
    tables, profiles_table = create_tables(aws, "slowest"), create_profiles_table(aws, "slowest-profiles")
    quiet = {"POWERTOOLS_LOG_LEVEL": "CRITICAL"}
    return [process_transactions(aws, tables, **quiet), upsert_profiles(aws, profiles_table, **quiet)]


def cpu_seconds(function: ModuleType, bodies: list[str]) -> float:
    """The minimum of a few rounds."""
    taken = []
    for _ in range(ROUNDS):
        records = list(map(record, bodies))
        started = time.process_time()
        with contextlib.redirect_stdout(io.StringIO()):
            invoke(function, records)
        taken.append(time.process_time() - started)
    return min(taken)


def main() -> None:
    table = Table(title=f"CPU time of a batch of {BATCH}, ms", title_justify="left", title_style="bold")
    table.add_column("", no_wrap=True)
    table.add_column("KB a body", justify="right")
    table.add_column("transactions", justify="right")
    table.add_column("profiles", justify="right")
    with new_ministack() as endpoint:
        functions = load(endpoint)
        for name, body_of in (EVERYDAY | SLOW).items():
            bodies = [body_of(number) for number in range(BATCH)]
            times = [cpu_seconds(function, bodies) for function in functions]
            table.add_row(
                name, f"{len(bodies[0].encode()) / 1024:.1f}", *(f"{seconds * 1000:.0f}" for seconds in times)
            )
    console.print(table)


if __name__ == "__main__":
    main()
