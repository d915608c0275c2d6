"""The slowest bodies that a producer could send, ten in a batch: the functions' CPU time, beside everyday batches."""

import contextlib
import io
import json
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType

from rich.console import Console
from rich.table import Table

from tests.local_aws.function import invoke, process_transactions, record, upsert_profiles
from tests.local_aws.server import Endpoint, free_port, ministack, running
from tests.local_aws.tables import create_profiles_table, create_tables
from tests.unit.samples import opening_body, profile_body, transaction_body

BATCH = 10
ROUNDS = 3

console = Console(highlight=False)

SIZE = 131_000


def filled(unit: str, at_most: int) -> str:
    """Entries of as many of these values as a body takes, or a message."""
    return f'{{"n": [{",".join([unit] * min(at_most, SIZE // (len(unit) + 1)))}]}}'


SLOW: dict[str, Callable[[int], str]] = {
    "as many numbers as may be": lambda n: profile_body(account_id=f'"n{n}"', entries=filled("1.2345678", 4_998)),
    "as many texts": lambda n: profile_body(account_id=f'"t{n}"', entries=filled('"twelveletter"', 4_998)),
    "as many lists": lambda n: profile_body(account_id=f'"l{n}"', entries=filled("[]", 4_998)),
    "as many, deep": lambda n: profile_body(account_id=f'"d{n}"', entries=filled("[" * 19 + "]" * 19, 263)),
    "one profile's, more than it holds": lambda n: profile_body(
        path=f'["p{n}"]', entries=filled(f"{n}.2345678", 4_998)
    ),
    "too many numbers": lambda n: profile_body(entries=filled("1", SIZE)),
    "too many lists": lambda n: profile_body(entries=filled("[]", SIZE)),
    "numbers of too many digits": lambda n: profile_body(entries=filled("9" * 4_000, SIZE)),
    "zeros with huge exponents": lambda n: profile_body(entries=filled("0e999999999", 4_998)),
    "not numbers": lambda n: profile_body(entries=filled("NaN", SIZE)),
    "brackets": lambda n: "[" * SIZE,
    "objects": lambda n: '{"a":' * (SIZE // 5),
    "one name over and over": lambda n: "{" + '"entries":{"k":1},' * 7_000 + '"x":1}',
    "an amount of too many digits": lambda n: transaction_body(amount="9" * 130_000),
    "decimal places": lambda n: transaction_body(amount=f'"0.{"0" * 130_000}1"'),
    "metadata": lambda n: transaction_body(metadata=json.dumps({f"n{number}": "" for number in range(10_000)})),
    "one amount over and over": lambda n: "{" + '"amount":1,' * 11_000 + '"x":1}',
}
EVERYDAY: dict[str, Callable[[int], str]] = {
    "everyday: an opening": lambda n: opening_body(account_id=f'"a{n}"'),
    "everyday: an update": lambda n: profile_body(account_id=f'"a{n}"'),
}


def load(aws: Endpoint) -> list[ModuleType]:
    tables, profiles_table = create_tables(aws, "slowest"), create_profiles_table(aws, "slowest-profiles")
    quiet = {"POWERTOOLS_LOG_LEVEL": "CRITICAL"}
    return [process_transactions(aws, tables, **quiet), upsert_profiles(aws, profiles_table, **quiet)]


def cpu_seconds(function: ModuleType, bodies: list[str]) -> float:
    """The least of a few rounds."""
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
    with (
        TemporaryDirectory(prefix="teller-") as folder,
        running(ministack(free_port(), Path(folder) / "ministack.log")) as endpoint,
    ):
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
