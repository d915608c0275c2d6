"""Requests and write units are exact, so a test may ask for them: the benchmark asserts each of Teller's."""

from tests.benchmarks import counted


def test_a_transaction_costs_what_the_readme_says() -> None:
    counted.main()
