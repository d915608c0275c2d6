"""The library's types, as two checkers see them: right uses and the pages' examples pass, and each wrong use is named
at its line.
"""

import json
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from tools.local_aws.server import PROJECT

WRONG_USES = "tests/typing/wrong_uses.py"
MARKS = {
    number: found.groups()
    for number, line in enumerate((PROJECT / WRONG_USES).read_text().splitlines(), 1)
    if (found := re.search(r"  # ([\w-]+), (report\w+): ", line))
}
"""mypy's code and pyright's rule by line."""


@pytest.fixture(scope="module")
def examples(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The examples, and a module of each page's. The README's first shows what is lost without the library."""
    folder, library = tmp_path_factory.mktemp("pages"), PROJECT / "layers" / "conditional_writes"
    modules = [str(path) for path in library.glob("examples/*.py")]
    for page in (library / "README.md", *sorted(library.glob("docs/*.md"))):
        found = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
        module: Path = folder / f"{page.stem.replace('-', '_').lower()}_page.py"
        module.write_text("\n\n".join(found[1:] if page.stem == "README" else found))
        modules += [str(module)] if found else []
    return modules


def checked(*command: str) -> str:
    run = subprocess.run([sys.executable, "-m", *command], cwd=PROJECT, capture_output=True, text=True, check=False)
    assert run.returncode in {0, 1}, run.stdout + run.stderr
    return run.stdout


def pyrights(*paths: str) -> list[dict[str, Any]]:
    return json.loads(checked("pyright", "--outputjson", *paths))["generalDiagnostics"]


def assert_named(found: dict[int, set[str]], expected: dict[int, str]) -> None:
    assert found.keys() == expected.keys()
    assert {line: codes for line, codes in found.items() if expected[line] not in codes} == {}


@pytest.mark.exhaustive  # it takes seven seconds
def test_mypy_names_each_wrong_use_and_no_other_line() -> None:
    found: dict[int, set[str]] = defaultdict(set)
    for line in checked("mypy", "--output", "json", WRONG_USES).splitlines():
        error = json.loads(line)
        if error["severity"] == "error" and error["file"] == WRONG_USES:
            found[error["line"]].add(error["code"])
    assert_named(found, {line: code for line, (code, _) in MARKS.items()})


@pytest.mark.exhaustive  # it takes ten seconds
def test_pyright_names_each_wrong_use_and_no_right_one() -> None:
    found: dict[int, set[str]] = defaultdict(set)
    for error in pyrights(WRONG_USES, "tests/typing/api.py", "tests/typing/models.py"):
        assert error["file"].endswith(WRONG_USES), error
        found[error["range"]["start"]["line"] + 1].add(error["rule"])
    assert_named(found, {line: rule for line, (_, rule) in MARKS.items()})


@pytest.mark.exhaustive  # it takes eight seconds
def test_mypy_finds_nothing_in_the_examples(examples: list[str]) -> None:
    assert "no issues" in checked("mypy", *examples)


@pytest.mark.exhaustive  # it takes five seconds
def test_pyright_finds_nothing_in_the_examples(examples: list[str]) -> None:
    """Its strict mode, but for a type that AWS's own package leaves out."""
    assert [error for error in pyrights(*examples) if '"durable_execution" is partially' not in error["message"]] == []
