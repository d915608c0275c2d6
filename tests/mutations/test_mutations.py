"""The mutants that are made by hand, and the planted races, fit the current product."""

import ast
import functools

import pytest

from tests.explore.__main__ import scenarios
from tests.mutations.breakages import BREAKAGES, RACES, Breakage
from tools.local_aws.server import PROJECT


@functools.cache
def outside_of_functions(text: str) -> str:
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            node.body = [ast.Pass()]
    return ast.dump(tree)


@functools.cache
def dumped(text: str) -> str:
    return ast.dump(ast.parse(text))


@pytest.mark.parametrize("breakage", [*BREAKAGES, *RACES], ids=lambda each: each.what)
def test_each_breakage_changes_the_body_of_a_function_and_leaves_python(breakage: Breakage) -> None:
    whole = (PROJECT / breakage.path).read_text()
    broken = breakage.patched()
    assert ast.dump(ast.parse(broken)) != dumped(whole)
    assert breakage in RACES or outside_of_functions(broken) == outside_of_functions(whole)


def test_a_scenario_is_there_for_each_race() -> None:
    assert all(scenarios(race.scenario.split()) for race in RACES)
