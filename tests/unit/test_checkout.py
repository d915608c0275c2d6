"""A copied or moved checkout tests itself: its environment has its own layers, and `make` makes it again."""

import itertools
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tools.local_aws.server import PROJECT

LAYERS = ("conditional_writes", "workers", "ledger")
ENVIRONMENTS = {
    ".venv": ["tests/requirements.txt", "layers/dependencies/requirements.txt"],
    ".venv-tools": ["tools/local_aws/requirements.txt"],
    ".venv-checkov": ["tools/checkov/requirements.txt"],
}


def copy_environment(copy: Path) -> None:
    """Copies a checkout's environment as `cp -r` does, but without the packages from PyPI."""
    packages = Path("lib/python3.13/site-packages")
    (copy / ".venv" / packages).mkdir(parents=True)
    shutil.copytree(PROJECT / ".venv/bin", copy / ".venv/bin", symlinks=True)
    for name in ("pyvenv.cfg", packages / "layers.pth"):
        shutil.copy(PROJECT / ".venv" / name, copy / ".venv" / name)


def layers_in_use(python: Path) -> dict[str, Path]:
    """The files that a Python imports from the layers."""
    code = "from importlib.util import find_spec\n" + "".join(f"print(find_spec({name!r}).origin)\n" for name in LAYERS)
    run = subprocess.run([python, "-I", "-c", code], cwd="/", capture_output=True, text=True, check=True)
    return dict(zip(LAYERS, map(Path, run.stdout.splitlines()), strict=True))


@pytest.mark.parametrize("move", [False, True], ids=["copied", "copied and moved"])
def test_a_copied_checkouts_python_imports_its_own_layers(tmp_path: Path, move: bool) -> None:
    copy = tmp_path / "a copy"
    copy_environment(copy)
    for name in LAYERS:
        (copy / "layers" / name / name).mkdir(parents=True)
        (copy / "layers" / name / name / "__init__.py").touch()
    if move:
        copy = copy.rename(tmp_path / "moved")
    expected = {name: copy / "layers" / name / name / "__init__.py" for name in LAYERS}
    assert layers_in_use(copy / ".venv/bin/python") == expected


def test_tests_of_another_checkouts_layers_do_not_begin(tmp_path: Path) -> None:
    """The script `.venv/bin/pytest` of a copied checkout names the Python of the original."""
    shutil.copytree(
        PROJECT / "layers/conditional_writes",
        tmp_path / "layers/conditional_writes",
        ignore=shutil.ignore_patterns("__pycache__"),
    )
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--collect-only", "tests/unit/test_rules.py"],
        cwd=PROJECT,
        env=os.environ | {"PYTHONPATH": str(tmp_path / "layers/conditional_writes")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == pytest.ExitCode.USAGE_ERROR, run.stdout
    assert "conditional_writes is imported from" in run.stderr
    assert "make setup" in run.stderr


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
    run = subprocess.run(
        ["make", "-n", "PYTHON=true", *(f"{name}/made" for name in ENVIRONMENTS)],
        cwd=checkout,
        capture_output=True,
        text=True,
        check=True,
    )
    made_again = [name for name in ENVIRONMENTS if f"true -m venv --clear {name}\n" in run.stdout]
    assert made_again == (list(ENVIRONMENTS) if where == "copied" else [])
