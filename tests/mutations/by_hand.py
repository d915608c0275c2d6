"""Makes one breakage after another in a copy of the product, and shows which test of the quick suite finds each."""

import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.table import Column, Table

from tests.mutations.breakages import Breakage
from tests.mutations.patching import patched
from tools.local_aws.server import PROJECT

OPTIONS = (
    *("-x", "-q", "--tb=no", "-p", "no:cacheprovider"),
    *("--timeout", "120", "--session-timeout", "300"),  # Broken code may wait for ever.
)


class Found(NamedTuple):
    """The test that fails only with the breakage, or None and the reason."""

    test: str | None
    why_not: str
    seconds: float


def try_all(chosen: Sequence[Breakage], console: Console) -> int:
    """How many no test found."""
    table = Table("What is broken", Column("Found by", overflow="fold"), "Seconds", title="Breakages made by hand")
    survivors = 0
    with tempfile.TemporaryDirectory() as folder:
        project = copied(Path(folder) / "project")
        for number, breakage in enumerate(chosen, 1):
            found = try_out(project, breakage)
            console.print(
                f"{number} of {len(chosen)}  {breakage.what}: {found.test or found.why_not}",
                markup=False,
                soft_wrap=True,
            )
            survivors += found.test is None
            test = (found.test or f"NONE: {found.why_not}").replace("[", r"\[")
            table.add_row(breakage.what, test, f"{found.seconds:.0f}")
    console.print(table)
    console.print(f"{len(chosen)} breakages made by hand, {len(chosen) - survivors} found out")
    return survivors


def copied(project: Path) -> Path:
    """A copy of the product and its tests that uses the original's environments and engines."""
    shutil.copytree(PROJECT, project, ignore=shutil.ignore_patterns(".*", "__pycache__"))
    for shared in (".venv", ".venv-tools", ".cache"):
        (PROJECT / shared).mkdir(exist_ok=True)
        (project / shared).symlink_to(PROJECT / shared)
    return project


def try_out(project: Path, breakage: Breakage) -> Found:
    started = time.monotonic()
    test, why_not = None, "every test passed"
    path = project / breakage.path
    whole = path.read_text()
    path.write_text(patched(whole, breakage))
    try:
        for tests in breakage.tests:
            test, why_not = failure(project, tests)
            if test:
                break
    finally:
        path.write_text(whole)
    if test and failure(project, test)[0]:
        test, why_not = None, f"{test} fails without the breakage, too"
    return Found(test, why_not, time.monotonic() - started)


def failure(project: Path, tests: str) -> tuple[str | None, str]:
    """The first failing test, or None and the reason."""
    run = subprocess.run(
        [project / ".venv/bin/python", "-m", "pytest", *OPTIONS, tests],
        cwd=project,
        env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    if run.returncode == 0:
        return None, "every test passed"
    failed = re.search(r"^FAILED (.+?)( - .*)?$", run.stdout, re.MULTILINE)
    return (failed[1], "") if failed else (None, f"the tests didn't run: {run.stdout[-500:]}{run.stderr[-500:]}")
