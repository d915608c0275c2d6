"""The machine's mutants of a small module."""

from typing import Any
from unittest.mock import Mock

from tests.mutations.operators import mutants

SOURCE = '''"""A module."""


def charged(balance, fee=1):
    """A docstring."""
    logger.info("charging %s", balance)
    if balance >= 10 and fee:
        raise TooMuch(f"{balance}, expected at most {10 + 1}")
    for each in [1]:
        continue
    return sorted([balance - fee], reverse=True)
'''


def test_a_function_has_a_mutant_for_each_small_change_of_what_it_does() -> None:
    assert [mutant.change for mutant in mutants("charging.py", SOURCE)] == [
        "if balance >= 10 and fee: → if True:",
        "if balance >= 10 and fee: → if False:",
        "balance >= 10 and fee → fee",
        "balance >= 10 and fee → balance >= 10",
        "balance >= 10 and fee → balance > 10 and fee",
        "balance >= 10 → balance >= 11",
        "[1] → [2]",
        "continue → break",
        "return sorted([balance - fee], reverse=True) → return None",
        "sorted([balance - fee], reverse=True) → sorted([balance - fee])",
        "[balance - fee] → [balance + fee]",
        "reverse=True → reverse=False",
    ]


def test_a_mutant_does_what_its_change_says_and_keeps_its_lines() -> None:
    [mutant] = [each for each in mutants("charging.py", SOURCE) if each.change == "[balance - fee] → [balance + fee]"]
    module: dict[str, Any] = {"logger": Mock()}
    exec(mutant.compiled("charging.py"), module)
    assert module["charged"](8) == [9]
    assert module["charged"].__code__.co_firstlineno == 4
    assert mutant.lines == range(11, 12)
