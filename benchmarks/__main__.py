"""`make bench` runs all benchmarks one after another; `make bench NAMES="counted costs"` runs the named ones."""

import argparse
import time
from importlib.util import find_spec

from rich.console import Console

from benchmarks import (
    awaited,
    beside_import,
    books,
    contention,
    costs,
    counted,
    day,
    engine_calls,
    flood,
    limits,
    locks,
    mesh,
    night,
    outcomes,
    reads,
    slowest,
    start_up,
    synchronous,
    tls,
    upserts,
    versioned,
)

BENCHMARKS = {
    "counted": (counted.main, "requests and write units per transaction, against stock Powertools"),
    "costs": (costs.main, "what a million transactions cost, by service"),
    "contention": (
        contention.main,
        "1 to 32 workers on one account, against stock Powertools, with a plot; and what quiet accounts notice",
    ),
    "mesh": (mesh.main, "1 to 40 workers on transfers among many hot accounts, in virtual time"),
    "beside_import": (beside_import.main, "payments while accounts are imported, in virtual time"),
    "books": (books.main, "CPU time of a history of a million entries, of its export and of each query"),
    "night": (night.main, "a night of the reconciliation, by the length of the history"),
    "outcomes": (
        outcomes.main,
        "the time from a message to its event, with a plot, and what a million events cost, beside a pipe",
    ),
    "reads": (reads.main, "what reads of an account cost, by the length of its journal"),
    "versioned": (versioned.main, "versioned items, against PynamoDB and boto3 by hand"),
    "awaited": (awaited.main, "calls that are awaited, beside the same that block"),
    "upserts": (upserts.main, "requests for a map entry, against the usual ways"),
    "locks": (locks.main, "requests for a lock's steps, against two libraries and the usual way"),
    "engine_calls": (
        engine_calls.main,
        "calls a second of the engine for tests, beside ministack, DynamoDB Local, moto",
    ),
    "day": (day.main, "a day of a million transactions, in a model of SQS: how soon each is posted"),
    "flood": (flood.main, "how late payments are behind 120,000 that wait for accounts, in a model of SQS"),
    "limits": (limits.main, "CPU time of five limits in the fold, beside the same without them"),
    "slowest": (slowest.main, "the slowest bodies that a producer can send, beside everyday ones"),
    "start_up": (start_up.main, "importing the function, against stock Powertools"),
    "synchronous": (synchronous.main, "a synchronous call, beside the two requests that it makes"),
    "tls": (tls.main, "CPU time of the first batch and of later ones over TLS, against stock Powertools"),
}

DRAWN = {"contention", "outcomes"}

console = Console(highlight=False)


def main() -> None:
    arguments = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    arguments.add_argument("names", nargs="*", help=f"the benchmarks to run, by default all: {', '.join(BENCHMARKS)}")
    names = arguments.parse_args().names or list(BENCHMARKS)
    if unknown := set(names) - BENCHMARKS.keys():
        arguments.error(f"unknown benchmark: {', '.join(unknown)}; expected {', '.join(BENCHMARKS)}")
    if DRAWN.intersection(names) and not find_spec("matplotlib"):
        arguments.error(f"{', '.join(sorted(DRAWN))} draw a plot, for which `make bench NAMES=…` has matplotlib")
    for number, name in enumerate(names, start=1):
        run, what = BENCHMARKS[name]
        console.print(f"[bold]{number} of {len(names)}  {name}[/]: {what}\n")
        started = time.monotonic()
        run()
        console.print(f"[dim]{name} took {time.monotonic() - started:.0f} s[/]\n")


if __name__ == "__main__":
    main()
