"""The direction of imports outside of the product: suites, support and checkers, tools, product. None from a suite."""

import ast
from pathlib import Path

import pytest

from tools.local_aws.server import PROJECT

COMMON = {"tests.support", "tests.checkers"}
SUITES = {f"tests.{path.parent.name}" for path in (PROJECT / "tests").glob("*/test_*.py")} - COMMON
ALLOWED = {
    "tools": {"tools"},
    "tests.checkers": {*COMMON, "tools"},
    "tests.support": {*COMMON, "tools"},
    "tests.conftest": {*COMMON, "tools"},
    "benchmarks": {"benchmarks", "tools"},
    **{suite: {suite, *COMMON, "tools"} for suite in SUITES},
}
"""The parts that each part may import, beside the product and other packages."""

EXCEPTIONS = {
    # The demo runs the tests' checkers instead of its own.
    ("tools.local_aws.demo", "tests.checkers"),
    # The benchmarks check a hot account's books, and use the slow bodies whose cost a test asserts.
    ("benchmarks.posting", "tests.checkers"),
    ("benchmarks.slowest", "tests.support"),
    # A verification's costs are at the prices of the benchmarks: there is one list of them.
    ("tools.teller.verify.costs", "benchmarks"),
    ("tools.teller.verify.report", "benchmarks"),
    # One test asserts the benchmarks' counts, which the README claims.
    ("tests.integration.test_counted", "benchmarks"),
    # Another runs the mesh of the benchmarks in many orders, and checks its books.
    ("tests.faults.test_mesh", "benchmarks"),
}


def part_of(module: str) -> str:
    """The part of the project that a module belongs to, such as `tests.faults`, `tools` and `ledger`."""
    names = module.split(".")
    return ".".join(names[:2]) if names[0] == "tests" else names[0]


def imported(path: Path) -> set[str]:
    """The parts that a module imports, in any form of import."""
    modules: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}: a relative import"
            modules |= {f"{node.module}.{alias.name}" for alias in node.names}
    return set(map(part_of, modules))


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(PROJECT).with_suffix("").parts)


MODULES = {
    module_of(path): path
    for folder in ("tools", "benchmarks", "tests")
    for path in sorted((PROJECT / folder).rglob("*.py"))
}
PRODUCT = [*(PROJECT / "layers").rglob("*.py"), *(PROJECT / "functions").rglob("*.py")]


def imports_of_ours(path: Path) -> set[str]:
    return {part for part in imported(path) if part.partition(".")[0] in {"tools", "benchmarks", "tests"}}


def test_every_suite_is_known() -> None:
    assert {"tests.unit", "tests.integration", "tests.faults", "tests.e2e", "tests.soak"} <= SUITES
    unknown = {part_of(module) for module in MODULES} - ALLOWED.keys() - {"tests.__init__", "tests.typing"}
    assert not unknown, "a folder of tests/ has no tests and isn't support"


@pytest.mark.parametrize("module", MODULES)
def test_no_suite_imports_another_and_nothing_imports_a_suite(module: str) -> None:
    part = part_of(module)
    excepted = {other for one, other in EXCEPTIONS if one == module}
    assert imports_of_ours(MODULES[module]) <= ALLOWED.get(part, set()) | excepted


@pytest.mark.parametrize(("module", "part"), sorted(EXCEPTIONS))
def test_each_exception_is_still_needed(module: str, part: str) -> None:
    assert part in imports_of_ours(MODULES[module])


def test_the_product_imports_neither_tools_nor_tests() -> None:
    assert PRODUCT
    for path in PRODUCT:
        assert not imports_of_ours(path), path
