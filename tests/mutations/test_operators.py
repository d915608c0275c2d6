"""The machine's mutants of a small module."""

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
