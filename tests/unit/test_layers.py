"""Imports go one way: functions, ledger, workers, conditional_writes, boto3. ledger.core imports none of these."""

import ast
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from conditional_writes import EXACT as DYNAMODB_EXACT
from conditional_writes.own_attributes import PREFIX
from ledger.core.money import EXACT
from ledger.core.profile_messages import RESERVED_PREFIX
from tools.local_aws.server import PROJECT

LIBRARIES = {name: PROJECT / "layers" / name / name for name in ("conditional_writes", "workers", "ledger")}
CORE = LIBRARIES["ledger"] / "core"
FUNCTIONS = sorted((PROJECT / "functions").glob("*/app.py"))

FOR_TYPES_ONLY = {"types_boto3_dynamodb", "types_boto3_events", "types_boto3_lambda", "types_boto3_sqs"}
EXTRAS = {
    "aws_lambda_powertools": {"staged_record.py", "exactly_once/powertools.py", "exactly_once/function.py"},
    "msgspec": {"msgspec_models.py"},
    "pydantic": {"pydantic_models.py"},
}
"""The modules of the library that import what an extra brings."""
ALLOWED = {
    "conditional_writes": {"conditional_writes", "boto3", "botocore", *EXTRAS},
    "workers": {"workers", "conditional_writes", "botocore", "aws_lambda_powertools"},
    "ledger": {"ledger", "workers", "conditional_writes", "botocore", "aws_lambda_powertools", "msgspec"},
}
"""The packages that each library may import beside the standard library."""
ALLOWED_IN_FUNCTIONS = {"ledger", "workers", "conditional_writes", "aws_lambda_powertools"}


def imports(path: Path) -> Iterator[str]:
    """The modules that a module imports, including imports inside functions and for types."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.module, f"{path}: a relative import"
            assert not node.level, f"{path}: a relative import"
            yield node.module


def packages(path: Path) -> set[str]:
    """The top-level packages that the module imports, without the standard library and imports for types alone."""
    return {name.partition(".")[0] for name in imports(path)} - sys.stdlib_module_names - FOR_TYPES_ONLY


def modules(folder: Path) -> list[Path]:
    found = sorted(folder.rglob("*.py"))
    assert found, folder
    return found


def shown(path: Path) -> str:
    return str(path.relative_to(PROJECT))


@pytest.mark.parametrize(
    ("library", "path"),
    [pytest.param(name, path, id=shown(path)) for name, folder in LIBRARIES.items() for path in modules(folder)],
)
def test_a_library_imports_only_what_is_below_it(library: str, path: Path) -> None:
    assert packages(path) <= ALLOWED[library]


@pytest.mark.parametrize(("library", "allowed"), ALLOWED.items())
def test_a_library_needs_all_that_it_may_import(library: str, allowed: set[str]) -> None:
    assert set().union(*map(packages, modules(LIBRARIES[library]))) == allowed


@pytest.mark.parametrize("package", EXTRAS)
def test_what_an_extra_brings_is_imported_by_its_modules_alone(package: str) -> None:
    folder = LIBRARIES["conditional_writes"]
    importing = {str(path.relative_to(folder)) for path in modules(folder) if package in packages(path)}
    assert importing == EXTRAS[package]


def test_without_what_its_extras_bring_the_library_is_imported() -> None:
    """In function.py the import of Powertools is for types."""
    loaded = "import conditional_writes.exactly_once, conditional_writes.models, sys; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, check=True)
    assert not EXTRAS.keys() & {*run.stdout.split()}


TESTING = LIBRARIES["conditional_writes"] / "testing"


def test_only_tests_import_the_engine_for_tests() -> None:
    product = [path for folder in (*LIBRARIES.values(), PROJECT / "tools") for path in modules(folder)] + FUNCTIONS
    importing = [
        path for path in product if any(name.startswith("conditional_writes.testing") for name in imports(path))
    ]
    assert {path.parent for path in importing} == {TESTING}


def test_the_layer_has_the_library_without_the_engine_for_tests(tmp_path: Path) -> None:
    build = ["make", "-C", PROJECT / "layers" / "conditional_writes", "build-ConditionalWritesLayer"]
    python = f"PYTHON={shlex.quote(sys.executable)}"
    subprocess.run([*build, f"ARTIFACTS_DIR={tmp_path}", python], check=True, capture_output=True)
    built = {str(path.relative_to(tmp_path / "python" / "conditional_writes")) for path in modules(tmp_path)}
    library = LIBRARIES["conditional_writes"]
    assert built == {str(path.relative_to(library)) for path in modules(library) if TESTING not in path.parents}


@pytest.mark.parametrize("path", FUNCTIONS, ids=shown)
def test_a_function_imports_no_other_function(path: Path) -> None:
    assert packages(path) <= ALLOWED_IN_FUNCTIONS


@pytest.mark.parametrize("path", modules(CORE), ids=shown)
def test_the_core_imports_python_msgspec_and_itself(path: Path) -> None:
    outside = {name for name in imports(path) if name.partition(".")[0] not in {*sys.stdlib_module_names, "msgspec"}}
    assert all(name == "ledger.core" or name.startswith("ledger.core.") for name in outside), outside


WITHOUT_AWS = """
import importlib, pkgutil, sys

class Barred:
    names = {"boto3", "botocore", "aws_lambda_powertools", "conditional_writes", "workers"}

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in self.names:
            raise ImportError(f"{name} is barred")

sys.meta_path.insert(0, Barred())
try:
    import boto3
except ImportError:
    pass
else:
    sys.exit("boto3 isn't barred")

import ledger.core
names = [module.name for module in pkgutil.walk_packages(ledger.core.__path__, "ledger.core.")]
for name in names:
    importlib.import_module(name)

from ledger.core.transaction_types import decode
from ledger.core.transaction_types.base import Context

opening = decode('{"type": "open_account", "transaction_id": "1", "account_id": "alice", "currency": "EUR"}')
[opened] = opening.decide([None], Context())
account = opening.next_account(None, opened, "2026-01-31T12:00:00.000+00:00")
payment = decode('{"transaction_id": "2", "account_id": "alice", "amount": "12.50"}')
[paid] = payment.decide([account], Context())
print(*names, payment.next_account(account, paid, "2026-01-31T12:00:00.000+00:00").balance)
"""


def test_the_core_decides_a_transaction_where_nothing_of_aws_can_be_imported() -> None:
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", WITHOUT_AWS], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    *names, balance = run.stdout.split()
    files = {path.relative_to(CORE).with_suffix("").as_posix().replace("/", ".") for path in modules(CORE)}
    expected = {f"ledger.core.{name}".removesuffix(".__init__") for name in files} - {"ledger.core"}
    assert set(names) == expected
    assert balance == "12.5"


def test_the_library_starts_without_what_only_some_functions_need() -> None:
    loaded = "import conditional_writes, sys; print(*(name for name in sys.modules if name.startswith('conditional')))"
    run = subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, check=True)
    names = run.stdout.split()
    assert "conditional_writes.loop" in names
    apart = (
        "upserts",
        "locks",
        "exactly_once",
        "staged_record",
        "models",
        "codecs",
        "msgspec_models",
        "pydantic_models",
    )
    assert not [name for name in names if name.removeprefix("conditional_writes.").startswith(apart)]


def test_the_core_counts_as_exactly_as_dynamodb_does() -> None:
    """The core has its own copy of the limits and the prefix, because it can't import them."""
    assert (EXACT.prec, EXACT.Emin, EXACT.Emax) == (DYNAMODB_EXACT.prec, DYNAMODB_EXACT.Emin, DYNAMODB_EXACT.Emax)
    assert EXACT.traps == DYNAMODB_EXACT.traps
    assert EXACT.rounding == DYNAMODB_EXACT.rounding


def test_the_core_reserves_the_librarys_attributes() -> None:
    assert RESERVED_PREFIX == PREFIX


def test_the_dependencies_layer_names_what_is_imported_and_no_more() -> None:
    paths = [path for folder in LIBRARIES.values() for path in modules(folder)] + FUNCTIONS
    used = set().union(*map(packages, paths)) - LIBRARIES.keys()
    asked_for = (PROJECT / "layers" / "dependencies" / "requirements.in").read_text().splitlines()
    names = {line.partition("==")[0].replace("-", "_") for line in asked_for if not line.startswith("#")}
    of_others = {"botocore", "pydantic"}  # boto3 brings botocore, and no function has pydantic's models
    assert used - of_others == names
