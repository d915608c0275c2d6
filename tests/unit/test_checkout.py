"""A copied or moved checkout tests itself: `make` makes its environments again. Here it only says what it would do."""

import itertools
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tools.local_aws.server import PROJECT

ENVIRONMENTS = {
    ".venv": ["tests/requirements.txt", "layers/dependencies/requirements.txt"],
    ".venv-tools": ["tools/local_aws/requirements.txt"],
}


@pytest.mark.parametrize("where", ["made here", "copied", "linked"])
def test_environments_are_made_again_in_another_directory(tmp_path: Path, where: str) -> None:
    checkout, elsewhere = tmp_path / "checkout", tmp_path / "elsewhere"
    for path in ("Makefile", *itertools.chain(*ENVIRONMENTS.values())):
        (checkout / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(PROJECT / path, checkout / path)
        os.utime(checkout / path, (0, 0))
    for name in ENVIRONMENTS:
        made_in = elsewhere / name if where == "linked" else checkout / name
        made_in.mkdir(parents=True)
        (made_in / "made").write_text(f"{elsewhere / name if where == 'copied' else made_in}\n")
        if where == "linked":
            (checkout / name).symlink_to(made_in)
    command = ["make", "-n", "PYTHON=true", *(f"{name}/made" for name in ENVIRONMENTS)]
    run = subprocess.run(command, cwd=checkout, capture_output=True, text=True, check=True)
    made_again = [name for name in ENVIRONMENTS if f"true -m venv --clear {name}\n" in run.stdout]
    assert made_again == (list(ENVIRONMENTS) if where == "copied" else [])
