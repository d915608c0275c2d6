"""The oracle: the rules of each transaction type as plain arithmetic, written from docs/messages.md.

It imports nothing from the product, so that it finds wrong rules in the product. A new type or rule is written here a
second time, from its description. That repetition is on purpose.
"""

from collections.abc import Mapping, Sequence
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from typing import Any, NamedTuple

type State = dict[str, Any]
"""An account's `balance`, `overdraft_limit`, `currency`, `status` and `version`."""

ACCOUNT_FIELDS = {
    "open_account": ["account_id"],
    "transaction": ["account_id"],
    "transfer": ["from_account_id", "to_account_id"],
    "set_overdraft_limit": ["account_id"],
    "close_account": ["account_id"],
    "charge_interest": ["account_id"],
}
EXACTLY = Context(prec=1000)
"""Has more digits than any sum, so that nothing is rounded."""


class UnknownType(Exception):
    """The oracle has no rule for this type of transaction."""


class Effect(NamedTuple):
    """The effect on one account: the rejection reason (None if posted), the amount, and the next state."""

    reason: str | None
    amount: Decimal
    after: State

    @property
    def status(self) -> str:
        return "REJECTED" if self.reason else "POSTED"


def account_ids(payload: Mapping[str, Any]) -> list[str]:
    """The accounts of a canonical payload. Raises UnknownType."""
    if payload["type"] not in ACCOUNT_FIELDS:
        raise UnknownType(
            f"the oracle doesn't know the type {payload['type']!r}: add its rule to tests/checkers/oracle.py"
        )
    return [payload[field] for field in ACCOUNT_FIELDS[payload["type"]]]


def effects(payload: Mapping[str, Any], states: Sequence[State | None]) -> list[Effect] | None:
    """The effects of a transaction on its accounts. None if it must wait for one of them to be opened.

    `states` are in the order of `account_ids(payload)`, with None for a missing account. Raises UnknownType.
    """
    assert len(states) == len(account_ids(payload))
    if payload["type"] == "open_account" and states == [None]:
        known = [_new(payload)]
    else:
        known = [state for state in states if state]
    if len(known) < len(states):
        return None
    with localcontext(EXACTLY):
        reason, amounts, changes = _rule(payload, *known)
        if reason:
            amounts, changes = [Decimal(0) for _ in known], {}
        return [
            Effect(reason, amount, _next(state, amount, changes)) for state, amount in zip(known, amounts, strict=True)
        ]


def _new(payload: Mapping[str, Any]) -> State:
    """The account at version 0. Its opening makes version 1."""
    limit = Decimal(payload.get("overdraft_limit", 0))
    currency = payload["currency"]
    return {"balance": Decimal(0), "overdraft_limit": limit, "currency": currency, "status": "OPEN", "version": 0}


def _next(state: State, amount: Decimal, changes: State) -> State:
    """Every outcome, even a rejection, makes the account's next version."""
    return state | changes | {"balance": state["balance"] + amount, "version": state["version"] + 1}


def _rule(payload: Mapping[str, Any], account: State, *others: State) -> tuple[str | None, list[Decimal], State]:
    """The rejection reason or None, the amount for each account, and the other fields that change."""
    nothing = [Decimal(0)]
    if payload["type"] == "open_account":
        return ("ACCOUNT_EXISTS" if account["version"] else None), nothing, {}
    if any(each["status"] == "CLOSED" for each in (account, *others)):
        return "ACCOUNT_CLOSED", nothing, {}
    match payload["type"]:
        case "transaction":
            amount = Decimal(payload["amount"])
            same_currency = payload.get("currency") in {None, account["currency"]}
            return (_refusal(account, amount) if same_currency else "CURRENCY_MISMATCH"), [amount], {}
        case "transfer":
            [payee] = others
            amount = Decimal(payload["amount"])
            reason = _refusal(account, -amount) or _refusal(payee, amount)
            return (reason if account["currency"] == payee["currency"] else "CURRENCY_MISMATCH"), [-amount, amount], {}
        case "set_overdraft_limit":
            limit = Decimal(payload["overdraft_limit"])
            return ("OVERDRAFT_LIMIT" if account["balance"] < limit else None), nothing, {"overdraft_limit": limit}
        case "close_account":
            return ("BALANCE_NOT_ZERO" if account["balance"] != 0 else None), nothing, {"status": "CLOSED"}
        case "charge_interest":
            interest = _interest(account["balance"], Decimal(payload["annual_rate"]))
            return (_refusal(account, -interest) if _fits(interest) else "BALANCE_OUT_OF_RANGE"), [-interest], {}
    raise AssertionError(payload["type"])


def _refusal(account: State, amount: Decimal) -> str | None:
    """The rejection reason for this amount, or None. The overdraft limit applies to debits alone."""
    balance = account["balance"] + amount
    if not _fits(balance):
        return "BALANCE_OUT_OF_RANGE"
    return "OVERDRAFT_LIMIT" if amount < 0 and balance < account["overdraft_limit"] else None


def _fits(number: Decimal) -> bool:
    """Whether DynamoDB can store the number: at most 38 significant digits, and below 10 to the power of 126."""
    return len(number.normalize().as_tuple().digits) <= 38 and abs(number) < Decimal("1e126")


def _interest(balance: Decimal, annual_rate: Decimal) -> Decimal:
    """A day's interest on a negative balance: 1/365 of a year's, rounded once to whole hundredths, half to even."""
    if balance >= 0:
        return Decimal(0)
    hundredths = Fraction(-balance) * Fraction(annual_rate) / 365 * 100
    whole, rest = divmod(hundredths, 1)
    if rest > Fraction(1, 2) or (rest == Fraction(1, 2) and whole % 2 == 1):
        whole += 1
    return Decimal(whole) / 100
