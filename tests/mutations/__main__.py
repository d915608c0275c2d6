"""`make mutations`: breaks the product, by machine and by hand, and shows what the quick suite doesn't find."""

import argparse
import os
import re
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest
from rich.console import Console
from rich.table import Column, Table

from tests.mutations.breakages import BREAKAGES, Breakage
from tests.mutations.machine import SUITES, Result, Runner
from tests.mutations.operators import Mutant, mutants
from tools.local_aws.server import PROJECT

MUTATED = (
    "layers/conditional_writes/conditional_writes/core/loop.py",
    "layers/conditional_writes/conditional_writes/exactly_once/*.py",
    "layers/conditional_writes/conditional_writes/upserts/*.py",
    "layers/workers/workers/batches.py",
    "layers/workers/workers/redelivery.py",
    "layers/ledger/ledger/batch_poster.py",
    "layers/ledger/ledger/fold.py",
    "layers/ledger/ledger/core/**/*.py",
)
SURVIVORS = Path(__file__).with_name("survivors.toml")

type Name = tuple[str, str, str]
"""A mutant's path, function and change."""

console = Console(highlight=False, soft_wrap=True)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.mutations", description=__doc__)
    parser.add_argument("words", nargs="*", help="only the mutants whose lines have all of these words")
    parser.add_argument("--since", metavar="REVISION", help="only mutants of lines changed since")
    parser.add_argument("--judged", action="store_true", help="run the survivors that are judged, too")
    parser.add_argument("--by", choices=["machine", "hand"], help="only these (both)")
    parser.add_argument("--workers", type=int, default=os.cpu_count(), help="processes at a time (%(default)s)")
    parser.add_argument("--seconds", type=float, default=60, help="of tests for one mutant (%(default)s)")
    parser.add_argument("--tests", nargs="+", default=SUITES, help="where the tests are (the quick suite)")
    given = parser.parse_args()
    paths = [path for pattern in MUTATED for path in sorted(PROJECT.glob(pattern))]
    whole = [mutant for path in paths for mutant in mutants(str(path.relative_to(PROJECT)), path.read_text())]
    for name in sorted(_judged() - {mutant.name for mutant in whole}):
        console.print(f"judged in {SURVIVORS.name}, but there is no such mutant: {name}", markup=False)
    kinds = {"hand": BREAKAGES, "machine": whole}
    chosen = [each for kind in kinds if given.by in {None, kind} for each in kinds[kind]]
    chosen = [mutant for mutant in chosen if all(word in str(mutant) for word in given.words)]
    if given.since:
        changed = {path: _changed_lines(path, given.since) for path in {mutant.path for mutant in chosen}}
        chosen = [mutant for mutant in chosen if not changed[mutant.path].isdisjoint(mutant.lines)]
    skipped = set() if given.judged else _judged()
    sys.exit(1 if _run(chosen, skipped, given.workers, given.seconds, given.tests) else 0)


def _judged() -> set[Name]:
    return {
        (path, function, change)
        for path, functions in tomllib.loads(SURVIVORS.read_text()).items()
        for function, changes in functions.items()
        for change in changes
    }


def _changed_lines(path: str, since: str) -> set[int]:
    command = ["git", "diff", "--unified=0", since, "--", path]
    diff = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=True).stdout
    parts = re.findall(r"^@@ -\S+ \+(\d+)(?:,(\d+))? @@", diff, re.MULTILINE)
    return {line for first, count in parts for line in range(int(first), int(first) + int(count or 1))}


def _run(
    chosen: Sequence[Mutant | Breakage], skipped: set[Name], workers: int, seconds: float, tests: Sequence[str]
) -> int:
    """How many mutants survived that nobody has judged."""
    judged = _judged()

    def say(result: Result) -> None:
        if result.killer is None and result.mutant.name not in judged:
            console.print(f"SURVIVED {result.tests} tests: {result.mutant}", markup=False)
        if result.killer and result.mutant.name in judged:
            console.print(f"judged a survivor, but killed by {result.killer}: {result.mutant}", markup=False)

    tried = [mutant for mutant in chosen if mutant.name not in skipped]
    runner = Runner(tried, workers=workers, cpu_seconds=seconds, say=say)
    options = ("-q", "--capture=no", "--tb=native", "-p", "no:cacheprovider", "-p", "no:xdist")
    if tried:
        ended = pytest.main([*options, "--hypothesis-profile=mutants", *tests], plugins=[runner])
        if ended not in {pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED}:
            sys.exit(ended)
    for test in runner.broken:
        console.print(f"left out, for it is skipped, or fails without a mutant: {test}", markup=False)

    columns = ("Mutants", "Killed", "Survivors, judged", "Survivors, new")
    table = Table(Column("Module", overflow="fold"), *columns, title="Mutants")
    known = Counter(mutant.path for mutant in chosen if mutant.name in skipped)
    known += Counter(each.mutant.path for each in runner.results if not each.killer and each.mutant.name in judged)
    killed = Counter(each.mutant.path for each in runner.results if each.killer)
    new = Counter(each.mutant.path for each in runner.results if not each.killer and each.mutant.name not in judged)
    rows = [(path, killed[path], known[path], new[path]) for path in dict.fromkeys(mutant.path for mutant in chosen)]
    for path, *counts in [*rows, ("all", killed.total(), known.total(), new.total())]:
        table.add_row(path.removeprefix("layers/").partition("/")[2] or path, *map(str, [sum(counts), *counts]))
    console.print(table)
    return new.total()


if __name__ == "__main__":
    main()
