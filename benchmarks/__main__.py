"""`make bench`: every benchmark in turn, or those that are named: `python -m benchmarks counted`."""

import argparse
import time

from rich.console import Console

from benchmarks import contention, counted, locks, slowest, start_up, upserts, versioned

BENCHMARKS = {
    "counted": (counted.main, "requests and write units a transaction, against stock Powertools"),
    "contention": (
        contention.main,
        "workers on one account: 1, 2, 4 and 8, against stock Powertools, and their picture",
    ),
    "versioned": (versioned.main, "versioned items, against PynamoDB and boto3 by hand"),
    "upserts": (upserts.main, "requests for a map's entry, against the usual ways"),
    "locks": (locks.main, "requests for a lock's steps, against two libraries and the usual way"),
    "slowest": (slowest.main, "the slowest bodies that a producer could send, beside everyday ones"),
    "start_up": (start_up.main, "importing the function, against stock Powertools"),
}

console = Console(highlight=False)


def main() -> None:
    arguments = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    arguments.add_argument("names", nargs="*", help=f"which to run: {', '.join(BENCHMARKS)}; without any, all of them")
    names = arguments.parse_args().names or list(BENCHMARKS)
    if unknown := set(names) - BENCHMARKS.keys():
        arguments.error(f"no such benchmark: {', '.join(unknown)}; there are {', '.join(BENCHMARKS)}")
    for number, name in enumerate(names, start=1):
        run, what = BENCHMARKS[name]
        console.print(f"[bold]{number} of {len(names)}  {name}[/]: {what}\n")
        started = time.monotonic()
        run()
        console.print(f"[dim]{name} took {time.monotonic() - started:.0f} s[/]\n")


if __name__ == "__main__":
    main()
