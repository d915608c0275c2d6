"""Imports go one way: functions, ledger, conditional_writes, boto3 and Powertools."""

import ast
from pathlib import Path

import pytest

from tests.local_aws.server import PROJECT

LIBRARY = PROJECT / "layers" / "conditional_writes" / "conditional_writes"
LEDGER = PROJECT / "layers" / "ledger" / "ledger"


def imported(path: Path) -> set[str]:
    """Top-level packages that the module imports."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add((node.module or "").partition(".")[0])
    return names


def modules(folder: Path) -> list[object]:
    return [pytest.param(path, id=path.stem) for path in sorted(folder.glob("*.py"))]


@pytest.mark.parametrize("path", modules(LIBRARY))
def test_the_library_knows_nothing_of_accounts(path: Path) -> None:
    assert not imported(path) & {"ledger", "app", "msgspec"}


@pytest.mark.parametrize("path", modules(LEDGER))
def test_the_ledger_knows_nothing_of_functions(path: Path) -> None:
    assert "app" not in imported(path)


@pytest.mark.parametrize("name", ["accounts", "messages", "rules"])
def test_the_rules_need_no_aws(name: str) -> None:
    assert not imported(LEDGER / f"{name}.py") & {"boto3", "botocore", "aws_lambda_powertools"}


def test_what_the_library_offers_needs_no_powertools() -> None:
    public = ast.parse((LIBRARY / "__init__.py").read_text())
    used = [node.module for node in ast.walk(public) if isinstance(node, ast.ImportFrom) and node.module]
    assert used
    for module in used:
        assert "aws_lambda_powertools" not in imported(LIBRARY / f"{module.partition('.')[2]}.py")
