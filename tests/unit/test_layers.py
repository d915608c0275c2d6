"""Imports go one way: functions, ledger, conditional_writes, boto3 and Powertools."""

import ast
import sys
from pathlib import Path

import pytest

from tools.local_aws.server import PROJECT

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
    return [pytest.param(path, id=path.stem) for path in sorted(folder.rglob("*.py"))]


@pytest.mark.parametrize("path", modules(LIBRARY))
def test_the_library_knows_nothing_of_accounts(path: Path) -> None:
    assert not imported(path) & {"ledger", "app", "msgspec"}


@pytest.mark.parametrize("path", modules(LEDGER))
def test_the_ledger_knows_nothing_of_functions(path: Path) -> None:
    assert "app" not in imported(path)


@pytest.mark.parametrize("name", ["accounts", "decoding", "messages", "profiles", "rules"])
def test_the_rules_need_no_aws(name: str) -> None:
    assert not imported(LEDGER / f"{name}.py") & {"boto3", "botocore", "aws_lambda_powertools"}


def loaded_with(module: str) -> set[str]:
    """The library's modules that importing this one imports, itself among them."""
    found, waiting = set(), [module]
    while waiting:
        name = waiting.pop()
        found.add(name)
        tree = ast.walk(ast.parse((LIBRARY / f"{name}.py").read_text()))
        froms = {node.module for node in tree if isinstance(node, ast.ImportFrom) and node.module}
        own = {name.removeprefix("conditional_writes.") for name in froms if name.startswith("conditional_writes.")}
        waiting += own - found
    return found


def test_what_the_library_offers_needs_no_powertools() -> None:
    modules_loaded = loaded_with("__init__")
    assert modules_loaded > {"loop", "requests", "conditions"}
    for name in modules_loaded:
        assert "aws_lambda_powertools" not in imported(LIBRARY / f"{name}.py"), name


def test_the_library_starts_without_what_only_some_functions_need() -> None:
    assert not loaded_with("__init__") & {"upserts", "locks"}


OURS = {"conditional_writes", "ledger"}
FOR_TYPES_ONLY = {"types_boto3_dynamodb", "types_boto3_lambda", "types_boto3_sqs"}


def test_the_dependencies_layer_names_what_is_imported_and_no_more() -> None:
    paths = [*LIBRARY.rglob("*.py"), *LEDGER.glob("*.py"), *(PROJECT / "functions").glob("*/app.py")]
    used = set().union(*map(imported, paths)) - OURS - FOR_TYPES_ONLY - sys.stdlib_module_names
    asked_for = (PROJECT / "layers" / "dependencies" / "requirements.in").read_text().splitlines()
    names = {line.partition("==")[0].replace("-", "_") for line in asked_for if not line.startswith("#")}
    assert used - {"botocore"} == names  # botocore comes with boto3, in the version that boto3 was made for
