"""Money for people: without thousands separators, so that an amount can be copied into a message."""

from collections.abc import Iterable


def most_places(amounts: Iterable[str], decimal_places: int | None) -> int:
    """The decimals with which all are shown, so that their points align: the account's, or those of the finest."""
    return max([decimal_places or 0, *(len(amount.partition(".")[2]) for amount in amounts)])


def money(amount: str, places: int) -> str:
    whole, _, decimals = amount.partition(".")
    return f"{whole}.{decimals.ljust(places, '0')}" if places else whole
