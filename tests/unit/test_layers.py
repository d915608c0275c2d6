"""Imports go one way: functions, ledger, workers, conditional_writes, boto3. ledger.core imports none of these."""

import ast
import functools
import graphlib
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from conditional_writes import EXACT as DYNAMODB_EXACT
from conditional_writes.core.own_attributes import PREFIX
from ledger.core.profile_messages import RESERVED_PREFIX
from ledger.core.values import EXACT
from tools.local_aws.server import PROJECT

LIBRARIES = {name: PROJECT / "layers" / name / name for name in ("conditional_writes", "workers", "ledger")}
FUNCTIONS = sorted((PROJECT / "functions").glob("*/app.py"))

FOR_TYPES_ONLY = {"types_boto3_dynamodb", "types_boto3_events", "types_boto3_lambda", "types_boto3_sqs"}
EXTRAS = {
    "aws_lambda_powertools": {"core/staged_record.py", "exactly_once/powertools.py", "exactly_once/function.py"},
    "msgspec": {"models/msgspec_models.py"},
    "pydantic": {"models/pydantic_models.py"},
}
"""The modules of the library that import what an extra brings."""
ALLOWED = {
    "conditional_writes": {"conditional_writes", "boto3", "botocore", *EXTRAS},
    "workers": {"workers", "conditional_writes", "botocore", "aws_lambda_powertools"},
    "ledger": {"ledger", "workers", "conditional_writes", "botocore", "aws_lambda_powertools", "msgspec"},
}
"""The packages that each library may import beside the standard library."""
ALLOWED_IN_FUNCTIONS = {"ledger", "workers", "conditional_writes", "aws_lambda_powertools"}
TESTING = LIBRARIES["conditional_writes"] / "testing"


@functools.cache
def imports(path: Path) -> frozenset[str]:
    """The modules that a module imports, including imports inside functions and for types."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.module, f"{path}: a relative import"
            assert not node.level, f"{path}: a relative import"
            names.add(node.module)
    return frozenset(names)


def packages(path: Path) -> frozenset[str]:
    """The top-level packages that the module imports, without the standard library and imports for types alone."""
    names = frozenset(name.partition(".")[0] for name in imports(path))
    return names - sys.stdlib_module_names - FOR_TYPES_ONLY


def modules(folder: Path) -> list[Path]:
    found = sorted(folder.rglob("*.py"))
    assert found, folder
    return found


@pytest.mark.parametrize(("library", "allowed"), ALLOWED.items())
def test_a_library_imports_what_is_below_it_and_nothing_else(library: str, allowed: set[str]) -> None:
    assert set().union(*map(packages, modules(LIBRARIES[library]))) == allowed


@pytest.mark.parametrize("package", EXTRAS)
def test_what_an_extra_brings_is_imported_by_its_modules_alone(package: str) -> None:
    folder = LIBRARIES["conditional_writes"]
    importing = {str(path.relative_to(folder)) for path in modules(folder) if package in packages(path)}
    assert importing == EXTRAS[package]


IMPORTED_BY_PACKAGES: dict[str, set[str]] = {
    "core": set(),
    "locks": {"core"},
    "upserts": {"core"},
    "versioned": {"core", "upserts"},
    "models": {"core", "upserts", "versioned"},
    "exactly_once": {"core"},
    "asyncio": {"core", "locks", "upserts", "versioned", "models", "exactly_once"},
    "testing": {"core"},
}
"""What each package of the library may import of the others. Teller uses the first three."""
TELLERS = {"core", "locks", "upserts"}


def package_of(module: str) -> str:
    """The package of the library that has the module, or the name that is imported of the library itself."""
    part = module.split(".")[1]
    if part in IMPORTED_BY_PACKAGES:
        return part
    return "versioned" if part in {"VersionedTable", "NoSuchItem"} else "core"


@functools.cache
def imported_of_the_library(path: Path) -> frozenset[str]:
    """The modules, and the names of the library itself, that a module imports."""
    tree = ast.walk(ast.parse(path.read_text()))
    names = [f"{node.module}.{each.name}" for node in tree if isinstance(node, ast.ImportFrom) for each in node.names]
    return frozenset(name for name in names if name.startswith("conditional_writes."))


@pytest.mark.parametrize(("package", "allowed"), IMPORTED_BY_PACKAGES.items())
def test_the_librarys_packages_import_one_way(package: str, allowed: set[str]) -> None:
    folder = LIBRARIES["conditional_writes"] / package
    imported = {package_of(name) for path in modules(folder) for name in imported_of_the_library(path)}
    assert imported <= allowed | {package}


def test_the_librarys_modules_import_in_no_circle() -> None:
    library = LIBRARIES["conditional_writes"]
    names = {
        ".".join(("conditional_writes", *path.relative_to(library).with_suffix("").parts)): path
        for path in modules(library)
        if path.name != "__init__.py"
    }
    graph = {
        name: {other for other in names for each in imported_of_the_library(path) if f"{each}.".startswith(f"{other}.")}
        for name, path in names.items()
    }
    graphlib.TopologicalSorter(graph).prepare()


def test_teller_uses_three_packages_of_the_library_and_no_other() -> None:
    paths = [path for name in ("workers", "ledger") for path in modules(LIBRARIES[name])] + FUNCTIONS
    assert {package_of(name) for path in paths for name in imported_of_the_library(path)} == TELLERS


def test_only_tests_import_the_engine_for_tests() -> None:
    product = [path for folder in (*LIBRARIES.values(), PROJECT / "tools") for path in modules(folder)] + FUNCTIONS
    found = [path for path in product if any(name.startswith("conditional_writes.testing") for name in imports(path))]
    assert {path.parent for path in found} == {TESTING}


def test_the_layer_has_the_library_without_the_engine_for_tests(tmp_path: Path) -> None:
    """It is built by make, as SAM builds it."""
    build = ["make", "-C", PROJECT / "layers" / "conditional_writes", "build-ConditionalWritesLayer"]
    python = f"PYTHON={shlex.quote(sys.executable)}"
    subprocess.run([*build, f"ARTIFACTS_DIR={tmp_path}", python], check=True, capture_output=True)
    built = {str(path.relative_to(tmp_path / "python" / "conditional_writes")) for path in modules(tmp_path)}
    library = LIBRARIES["conditional_writes"]
    assert built == {str(path.relative_to(library)) for path in modules(library) if TESTING not in path.parents}


def test_a_function_imports_no_other_function() -> None:
    assert set().union(*map(packages, FUNCTIONS)) <= ALLOWED_IN_FUNCTIONS


def test_the_core_imports_python_msgspec_and_itself() -> None:
    names = {name for path in modules(LIBRARIES["ledger"] / "core") for name in imports(path)}
    outside = {name for name in names if name.partition(".")[0] not in {*sys.stdlib_module_names, "msgspec"}}
    assert not [name for name in outside if name != "ledger.core" and not name.startswith("ledger.core.")]


IMPURE = {"os", "random", "secrets", "socket", "time", "uuid"}
CLOCKS = {"now", "utcnow", "today"}


def impure(source: str) -> set[str]:
    """The module's imports for input and output, for chance or for the clock, and its readings of the clock."""
    found = set[str]()
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import(names=names):
                found |= {each.name for each in names if each.name.partition(".")[0] in IMPURE}
            case ast.ImportFrom(module=str(name)) if name.partition(".")[0] in IMPURE:
                found.add(name)
            case ast.Call(func=ast.Attribute(attr=name)) if name in CLOCKS:
                found.add(name)
    return found


def floats(source: str) -> set[str]:
    """The module's floating-point numbers, and its conversions into them."""
    nodes = ast.walk(ast.parse(source))
    return {
        ast.unparse(node)
        for node in nodes
        if isinstance(getattr(node, "value", None), float) or (isinstance(node, ast.Name) and node.id == "float")
    }


def test_the_core_reads_no_clock_and_does_no_io_and_decides_without_floats() -> None:
    imports = [form.format(name) for name in IMPURE for form in ("import {}", "import {}.x", "from {} import x")]
    assert all(map(impure, [*imports, *(f"x.{name}()" for name in CLOCKS)]))
    assert all(map(floats, ("x + 0.5", "float(x)")))
    for path in modules(LIBRARIES["ledger"] / "core"):
        assert not impure(path.read_text()), path
    for path in modules(LIBRARIES["ledger"] / "core" / "transaction_types"):
        assert not floats(path.read_text()), path


def test_the_core_counts_as_exactly_as_dynamodb_does_and_reserves_the_librarys_attributes() -> None:
    """The core has its own copy of the limits and the prefix, because it can't import them."""
    for name in ("prec", "Emin", "Emax", "traps", "rounding"):
        assert getattr(EXACT, name) == getattr(DYNAMODB_EXACT, name)
    assert RESERVED_PREFIX == PREFIX


def test_the_dependencies_layer_names_what_is_imported_and_no_more() -> None:
    paths = [path for folder in LIBRARIES.values() for path in modules(folder)] + FUNCTIONS
    used = set().union(*map(packages, paths)) - LIBRARIES.keys()
    asked_for = (PROJECT / "layers" / "dependencies" / "requirements.in").read_text().splitlines()
    names = {line.partition("==")[0].replace("-", "_") for line in asked_for if not line.startswith("#")}
    of_others = {"botocore", "pydantic"}  # boto3 brings botocore, and no function has pydantic's models
    assert used - of_others == names
