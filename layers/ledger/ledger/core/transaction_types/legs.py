"""The legs of a transaction: what each of several accounts gets by it."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Annotated

import msgspec

from ledger.core.accounts import Account
from ledger.core.decoding import Id
from ledger.core.pools import on_shard
from ledger.core.transaction_types.base import NumberRange, check_decimals
from ledger.core.values import exact

MOST_LEGS = 20
"""Each has an entry and an account in the commit, of whose 100 items a `compound` takes 40 at most."""


class Leg(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`amount` is added to the account's balance: below zero it is a debit."""

    account_id: Id
    amount: Decimal


Legs = Annotated[tuple[Leg, ...], msgspec.Meta(min_length=2, max_length=MOST_LEGS)]
LegsOfPayees = Annotated[tuple[Leg, ...], msgspec.Meta(min_length=1, max_length=MOST_LEGS - 1)]
"""Beside the account that pays."""


def checked_legs(legs: Iterable[Leg], expected: NumberRange) -> tuple[Leg, ...]:
    """The legs with their amounts in one spelling. Raises ValueError."""
    checked = tuple(_checked(number, leg, expected) for number, leg in enumerate(legs))
    for account_id, times in Counter(leg.account_id for leg in checked).items():
        if times > 1:
            raise ValueError(f"legs: expected each account once, got {times} legs of {account_id!r}")
    return checked


def check_decimals_of_legs(legs: Iterable[Leg], accounts: Sequence[Account]) -> None:
    """Raises InvalidMessage for an amount with more decimals than its own account has."""
    for number, (leg, account) in enumerate(zip(legs, accounts, strict=True)):
        check_decimals(f"legs[{number}].amount", leg.amount, account)


def legs_on_shards(legs: Iterable[Leg], numbers: Mapping[str, int]) -> tuple[Leg, ...]:
    """The legs of the shards, in place of those of their pools."""
    return tuple(Leg(on_shard(leg.account_id, numbers), leg.amount) for leg in legs)


def field_of_leg(legs: Iterable[Leg], account_id: str) -> str:
    """The field that names the account."""
    number = next(number for number, leg in enumerate(legs) if leg.account_id == account_id)
    return f"legs[{number}].account_id"


def _checked(number: int, leg: Leg, expected: NumberRange) -> Leg:
    field = f"legs[{number}].amount"
    amount = exact(field, leg.amount)
    if not expected.holds(amount):
        raise ValueError(f"{field}: expected {expected.value}")
    return Leg(leg.account_id, amount)
