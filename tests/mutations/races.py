"""Races planted in a copy of the product: only some orders of concurrent workers, or of faults, show them.

`python -m tests.mutations.races [WORDS]` searches the scenario that each names, for a minute at most, and runs the
script of what it finds again, twenty times.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.mutations.breakages import RACES, Breakage
from tools.local_aws.server import PROJECT

SECONDS = 60
"""Of CPU, in which each is found."""
TIMES = 20


def main() -> None:
    arguments = argparse.ArgumentParser(prog="python -m tests.mutations.races", description=__doc__)
    arguments.add_argument("words", nargs="*", help="only the races whose descriptions have all of these words")
    words = arguments.parse_args().words
    chosen = [each for each in RACES if all(word in each.what for word in words)]
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder) / "project"
        shutil.copytree(PROJECT, project, ignore=shutil.ignore_patterns(".*", "__pycache__"))
        (project / ".venv").symlink_to(PROJECT / ".venv")
        missed = sum(not is_found(project, each) for each in chosen)
    print(f"{len(chosen)} races, {len(chosen) - missed} found")
    sys.exit(1 if missed or not chosen else 0)


def is_found(project: Path, planted: Breakage) -> bool:
    path = project / planted.path
    whole = path.read_text()
    path.write_text(planted.patched())
    try:
        search = subprocess.run(
            [project / ".venv/bin/python", "-m", "tests.explore", *planted.scenario.split(), "--again", str(TIMES)],
            cwd=project,
            env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": ":".join(layers(project))},
            capture_output=True,
            text=True,
            timeout=10 * SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        print(f"NOT FOUND  {planted.what}", flush=True)
        return False
    finally:
        path.write_text(whole)
    last = (search.stdout + search.stderr[-2000:]).strip().splitlines()
    print(f"{'found' if search.returncode == 0 else 'NOT FOUND'}  {planted.what}: {' '.join(last[-2:])}", flush=True)
    return search.returncode == 0


def layers(project: Path) -> list[str]:
    return [str(project), *(str(project / "layers" / name) for name in ("conditional_writes", "workers", "ledger"))]


if __name__ == "__main__":
    main()
