"""The slowest bodies that a producer can send. A benchmark times them."""

import json
from collections.abc import Callable

from tests.support.samples import profile_body, transaction_body

SIZE = 131_000


def filled(unit: str, at_most: int) -> str:
    """Entries with at most `at_most` of these values, and no more than a body can hold."""
    return f'{{"n": [{",".join([unit] * min(at_most, SIZE // (len(unit) + 1)))}]}}'


SLOW: dict[str, Callable[[int], str]] = {
    "the maximum of numbers": lambda n: profile_body(account_id=f'"n{n}"', entries=filled("1.2345678", 4_998)),
    "the maximum of texts": lambda n: profile_body(account_id=f'"t{n}"', entries=filled('"twelveletter"', 4_998)),
    "the maximum of lists": lambda n: profile_body(account_id=f'"l{n}"', entries=filled("[]", 4_998)),
    "the maximum of nested lists": lambda n: profile_body(
        account_id=f'"d{n}"', entries=filled("[" * 19 + "]" * 19, 263)
    ),
    "updates of one profile beyond its limit": lambda n: profile_body(
        path=f'["p{n}"]', entries=filled(f"{n}.2345678", 4_998)
    ),
    "too many numbers": lambda n: profile_body(entries=filled("1", SIZE)),
    "too many lists": lambda n: profile_body(entries=filled("[]", SIZE)),
    "numbers of too many digits": lambda n: profile_body(entries=filled("9" * 4_000, SIZE)),
    "zeros with huge exponents": lambda n: profile_body(entries=filled("0e999999999", 4_998)),
    "values that aren't numbers": lambda n: profile_body(entries=filled("NaN", SIZE)),
    "opening brackets": lambda n: "[" * SIZE,
    "nested objects": lambda n: '{"a":' * (SIZE // 5),
    "one name repeated": lambda n: "{" + '"entries":{"k":1},' * 7_000 + '"x":1}',
    "an amount of too many digits": lambda n: transaction_body(amount="9" * 130_000),
    "decimal places": lambda n: transaction_body(amount=f'"0.{"0" * 130_000}1"'),
    "metadata": lambda n: transaction_body(metadata=json.dumps({f"n{number}": "" for number in range(10_000)})),
    "one amount repeated": lambda n: "{" + '"amount":1,' * 11_000 + '"x":1}',
}
