"""The oracle: the rules of each transaction type as plain arithmetic, written from docs/messages.md.

It imports nothing from the product, so that it finds wrong rules in the product. A new type or rule is written here a
second time, from its description. That repetition is on purpose.
"""

import hashlib
from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal, localcontext
from fractions import Fraction
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from tests.checkers.interest_oracle import Interest

type State = dict[str, Any]
"""An account's `balance`, `overdraft_limit`, `currency`, `status`, `version`, `held`, `holds`, `decimal_places`,
`interest`, `frozen`, which says of `debits` and of `credits` whether they are, `pool` and `limits`. A limit is what the
message says, with what was `used` in its `period`, and when it was `set_at`.

`pool` has a pool's number of shards, and that of its opening; None for any other account.

`holds` has what remains of each open hold, and the time of its expiry or None, by the hold's id. `decimal_places` are
None if the account's amounts have no rule.
"""

type EntryId = tuple[str, str, str]
"""An entry's account, its transaction's home, which is the account that is named first, and the transaction's id."""

ACCOUNT_FIELDS = {
    "open_account": ["account_id"],
    "import_account": ["account_id", "from_account_id"],
    "transaction": ["account_id"],
    "transfer": ["from_account_id", "to_account_id"],
    "compound": [],
    "set_overdraft_limit": ["account_id"],
    "set_limits": ["account_id"],
    "freeze_account": ["account_id"],
    "set_interest": ["account_id"],
    "set_shards": ["account_id"],
    "close_account": ["account_id"],
    "charge_interest": ["account_id", "to_account_id"],
    "hold": ["account_id"],
    "post_hold": ["account_id", "to_account_id"],
    "void_hold": ["account_id"],
    "expire_hold": ["account_id"],
    "reverse": ["account_id"],
}
"""The fields that name accounts. The second one may be absent, but for a transfer's."""
POOL_FIELDS = {
    "import_account": ["from_account_id"],
    "transaction": ["account_id"],
    "transfer": ["from_account_id", "to_account_id"],
    "compound": ["legs"],
    "charge_interest": ["to_account_id"],
    "post_hold": ["to_account_id", "legs"],
    "reverse": ["of_account_id"],
}
"""The fields that may name a pool: what is decided has a shard of it there."""
OF_POOLS = ("open_account", "set_shards")
OPENINGS = ("open_account", "import_account")
DECIMALS = {"CHF": 2, "EUR": 2, "GBP": 2, "JPY": 0, "KRW": 0, "KWD": 3, "TND": 3, "USD": 2, "UYW": 4}
"""By ISO 4217, of the currencies in use here. Another code has no rule."""
LOWEST = Decimal(f"-{'9' * 38}e88")
"""The overdraft limit of a pool: no balance can be lower."""
MOST_OPEN_HOLDS = 20
MOST_IN_PART = 2
"""Accounts of a transaction of which a part can be reversed."""
LONG_AGO = "2000-01-01T00:00:00.000+00:00"
"""For callers to whom it's all one when an entry was posted: no limit is of an earlier period."""
LARGEST = Decimal(f"{38 * '9'}e88")
"""The largest number that DynamoDB holds."""
EXACTLY = Context(prec=1000)
"""Has more digits than any sum, so that nothing is rounded."""
_COUNTED_ALIKE = ("name", "of", "per", "time_zone")


class UnknownType(Exception):
    """The oracle has no rule for this type of transaction."""


class Invalid(Exception):
    """An amount has more decimals than one of the transaction's accounts, or an expiry under the id of the job's
    message is as of another time than the hold's: nothing is recorded.
    """


class Reversal(NamedTuple):
    """How many reversals a transaction had and their sum on the account, with this one if it is posted; and the other
    accounts.
    """

    number: int
    reversed_after: Decimal
    other_account_ids: tuple[str, ...]


class Effect(NamedTuple):
    """The effect on one account: the rejection reason (None if posted), the amount, and the next state.

    `rejecting_account_id` is the one of several accounts whose state gave the reason.
    """

    reason: str | None
    amount: Decimal
    after: State
    reversal: Reversal | None = None
    rejecting_account_id: str | None = None
    exceeded: tuple[str, Decimal] | None = None
    """The limit of this account that rejects, by its name, and what is left of it."""

    @property
    def status(self) -> str:
        return "REJECTED" if self.reason else "POSTED"


class Journal:
    """What a transaction may refer to: the earlier journal entries, and how much of a transaction was reversed."""

    def __init__(self) -> None:
        self._entries: dict[EntryId, tuple[Mapping[str, Any], Decimal, str]] = {}
        self._reversed: dict[EntryId, tuple[int, Decimal]] = {}

    def add(self, account_id: str, payload: Mapping[str, Any], amount: Decimal, posted_at: str = LONG_AGO) -> None:
        """Adds an account's entry of this canonical payload and amount. A rejected transaction has the amount 0."""
        self._entries[account_id, named_account_ids(payload)[0], payload["transaction_id"]] = payload, amount, posted_at
        if payload["type"] == "reverse" and amount != 0:
            # Each reversal has an entry on each account of what it reverses.
            reversed_id = account_id, *reversed_id_of(payload)[1:]
            number, before = self.reversed(reversed_id)
            self._reversed[reversed_id] = number + 1, EXACTLY.add(before, amount.copy_abs())

    def has(self, entry_id: EntryId) -> bool:
        return entry_id in self._entries

    def amount(self, entry_id: EntryId) -> Decimal:
        return self._entries[entry_id][1]

    def original(self, payload: Mapping[str, Any]) -> tuple[Mapping[str, Any], str]:
        """The request that a `reverse` reverses, and when it was posted."""
        request, _, posted_at = self._entries[reversed_id_of(payload)]
        return request, posted_at

    def account_ids(self, entry_id: EntryId) -> list[str]:
        """The accounts of the entry's transaction."""
        return account_ids(self._entries[entry_id][0], self)

    def reversed(self, entry_id: EntryId) -> tuple[int, Decimal]:
        """How many reversals the transaction had, and their sum."""
        return self._reversed.get(entry_id, (0, Decimal(0)))


def named_account_ids(payload: Mapping[str, Any]) -> list[str]:
    """The accounts that a canonical payload names. Raises UnknownType."""
    if payload["type"] not in ACCOUNT_FIELDS:
        raise UnknownType(
            f"the oracle doesn't know the type {payload['type']!r}: add its rule to tests/checkers/oracle.py"
        )
    named = [payload[field] for field in ACCOUNT_FIELDS[payload["type"]] if payload.get(field) is not None]
    return named + [leg["account_id"] for leg in payload.get("legs", [])]


def on_shards(payload: Mapping[str, Any], pools: Mapping[str, tuple[int, int]], first_shard: int = 0) -> dict[str, Any]:
    """The payload with shards in place of the pools that its type takes.

    A pool has a number of shards, and that of its opening. A worker chooses among eight, from its `first_shard` on,
    unless the pool is the home.
    """

    def first_byte(text: str) -> int:
        return hashlib.sha256(text.encode()).digest()[0]

    def home_shard(name: str, transaction_id: str) -> str:
        return f"teller:shard:{first_byte(transaction_id) % pools[name][1]}:{name}"

    if payload["type"] in OF_POOLS:
        return dict(payload)
    home = named_account_ids(payload)[0]
    home_id = home_shard(home, payload["transaction_id"]) if home in pools else home

    def named(name: str) -> str:
        if name not in pools or name == home:
            return home_id if name == home else name
        return f"teller:shard:{(first_shard + first_byte(home_id) % 8) % pools[name][0]}:{name}"

    changed: dict[str, Any] = {}
    for field in POOL_FIELDS.get(payload["type"], []):
        value = payload.get(field)
        if field == "legs" and value:
            changed[field] = [leg | {"account_id": named(leg["account_id"])} for leg in value]
        elif field == "of_account_id" and value in pools:
            changed[field] = home_shard(value, payload["of_transaction_id"])
        elif field not in ("legs", "of_account_id") and value is not None:
            changed[field] = named(value)
    return {**payload, **changed}


def account_ids(payload: Mapping[str, Any], journal: Journal) -> list[str]:
    """The accounts of a canonical payload: those that it names, and those of what it reverses. Raises UnknownType."""
    named = named_account_ids(payload)
    if payload["type"] == "reverse" and journal.has(reversed_id_of(payload)):
        return list(dict.fromkeys([*named, *journal.account_ids(reversed_id_of(payload))]))
    return named


def entry_ids(payload: Mapping[str, Any], journal: Journal) -> list[EntryId]:
    """The entries of a canonical payload, one on each of its accounts. Raises UnknownType."""
    home = named_account_ids(payload)[0]
    return [(account_id, home, payload["transaction_id"]) for account_id in account_ids(payload, journal)]


def reversed_id_of(payload: Mapping[str, Any]) -> EntryId:
    """The entry that a `reverse` reverses."""
    account_id = payload["account_id"]
    return account_id, payload.get("of_account_id", account_id), payload["of_transaction_id"]


def effects(
    payload: Mapping[str, Any],
    states: Sequence[State | None],
    journal: Journal,
    *,
    minor_units: bool = True,
    posted_at: str | None = None,
) -> list[Effect] | None:
    """The effects of a transaction on its accounts. None if it must wait for an account, a hold or a transaction.

    `states` are in the order of `account_ids(payload, journal)`, with None for a missing account. `minor_units` says
    whether an account is opened under the rule of minor units. `posted_at` is that of the entries: interest accrues
    until then, if it is given. Raises UnknownType, and Invalid.
    """
    names = account_ids(payload, journal)
    assert len(states) == len(names)
    if payload["type"] not in OF_POOLS and any(state and state["pool"] for state in states):
        raise Invalid("a pool, where the type takes none")
    if payload["type"] in OPENINGS and states[0] is None:
        known = [_new(payload, minor_units=minor_units), *(state for state in states[1:] if state)]
    else:
        known = [state for state in states if state]
    if len(known) < len(states) or (payload["type"] == "reverse" and not journal.has(reversed_id_of(payload))):
        return None
    if payload["type"] not in OPENINGS or known[0]["version"] == 0:
        _check_decimals(payload, known)
    known = [_with_interest(state, posted_at) for state in known]
    posted_at = posted_at or LONG_AGO
    with localcontext(EXACTLY):
        known = [state | {"limits": _limits_at(state, posted_at)} for state in known]
        closed = [at for at, each in enumerate(known) if each["status"] == "CLOSED"]
        if payload["type"] not in OPENINGS and closed:
            decided: Decided | None = Decided("ACCOUNT_CLOSED", by=closed[0])
        else:
            decided = _rule(payload | {"posted_at": posted_at}, journal, *known)
        if decided is None:
            return None
        reason, amounts, changes, by = decided
        rejecting_account_id = names[by] if reason and by is not None and len(names) > 1 else None
        if reason or not amounts:
            amounts = [Decimal(0) for _ in known]
        return [
            Effect(
                reason and str(reason),
                amount,
                # The first account alone has other fields that change.
                _next(state, amount, _counted(payload, journal, state, amount) | (changes if name == names[0] else {}))
                if not reason
                else _next(state, amount, {}),
                _reversal(payload, journal, name, amount),
                rejecting_account_id,
                (reason.limit, reason.left) if isinstance(reason, LimitExceeded) and reason.account is state else None,
            )
            for name, state, amount in zip(names, known, amounts, strict=True)
        ]


class LimitExceeded(str):
    """The rejection reason, of this account, for this limit."""

    account: State
    limit: str
    left: Decimal

    def __new__(cls, account: State, limit: str, left: Decimal) -> "LimitExceeded":
        self = super().__new__(cls, "LIMIT_EXCEEDED")
        self.account, self.limit, self.left = account, limit, left
        return self


class Decided(NamedTuple):
    """The rejection reason or None, the amount for each account if there is one, and the other fields that change.

    `by` is the place of the account whose state gave the reason. None if no single account's did.
    """

    reason: str | None = None
    amounts: Sequence[Decimal] = ()
    changes: State = {}  # noqa: RUF012 (it is never changed)
    by: int | None = None


def _new(payload: Mapping[str, Any], *, minor_units: bool) -> State:
    """The account at version 0. Its opening makes version 1."""
    return {
        "balance": Decimal(0),
        "overdraft_limit": LOWEST if "shards" in payload else Decimal(payload.get("overdraft_limit", 0)),
        "currency": payload["currency"],
        "status": "OPEN",
        "version": 0,
        "held": Decimal(0),
        "holds": {},
        "decimal_places": DECIMALS.get(payload["currency"]) if minor_units else None,
        "frozen": {"debits": False, "credits": False},
        "interest": Interest(),
        "limits": [],
        "pool": (int(payload["shards"]), int(payload["shards"])) if "shards" in payload else None,
    }


def new_shard(pool: State) -> State:
    """A shard before its first transaction."""
    return pool | {"version": 0, "pool": None, "interest": Interest()}


def _with_interest(state: State, posted_at: str | None) -> State:
    return state | {"interest": state["interest"].until(posted_at, Fraction(state["balance"]), _unit(state))}


def _next(state: State, amount: Decimal, changes: State) -> State:
    """Every outcome, even a rejection, makes the account's next version."""
    return state | changes | {"balance": state["balance"] + amount, "version": state["version"] + 1}


def _check_decimals(payload: Mapping[str, Any], accounts: Sequence[State]) -> None:
    if legs := payload.get("legs", []):
        for leg, account in zip(legs, accounts[-len(legs) :], strict=True):
            _check_decimals({"amount": leg["amount"]}, [account])
        accounts = accounts[:1]  # a `post_hold` has an amount, too: that of its first account
    held = [hold["amount"] for hold in payload.get("holds", {}).values()]
    held += [limit["amount"] for limit in payload.get("limits", ()) if "amount" in limit]
    for number in (*(payload.get(field) for field in ("amount", "overdraft_limit", "balance")), *held):
        if number is not None:
            unit_exponent = EXACTLY.normalize(Decimal(number)).as_tuple().exponent
            finest = -int(unit_exponent)
            if any(each["decimal_places"] is not None and finest > each["decimal_places"] for each in accounts):
                raise Invalid(f"{number}")


def _reversal(payload: Mapping[str, Any], journal: Journal, account_id: str, amount: Decimal) -> Reversal | None:
    if payload["type"] != "reverse":
        return None
    number, before = journal.reversed((account_id, *reversed_id_of(payload)[1:]))
    posted = [abs(amount)] if amount else []
    others = tuple(each for each in account_ids(payload, journal) if each != account_id)
    return Reversal(number + len(posted), before + sum(posted), others)


def _rule(payload: Mapping[str, Any], journal: Journal, account: State, *others: State) -> Decided | None:
    """The type's own rule, for accounts that aren't closed. None if the transaction must wait for a hold."""
    match payload["type"]:
        case "open_account" | "import_account":
            return _opened(payload, account, *others)
        case "transaction":
            amount = Decimal(payload["amount"])
            same_currency = payload.get("currency") in {None, account["currency"]}
            refusal = _refusal_of_range if payload.get("forced") else _refusal
            return Decided(refusal(account, amount) if same_currency else "CURRENCY_MISMATCH", [amount])
        case "transfer" | "compound":
            return _moved(payload, account, *others)
        case "set_overdraft_limit":
            return _new_limit(account, Decimal(payload["overdraft_limit"]))
        case "set_limits" | "freeze_account" | "set_shards":
            return Decided(changes=_controls(payload, account))
        case "close_account":
            reasons = [
                "BALANCE_NOT_ZERO" if account["balance"] != 0 else None,
                "HOLDS_OPEN" if account["holds"] else None,
                None if account["interest"].is_settled(_unit(account)) else "INTEREST_NOT_CHARGED",
            ]
            return Decided(next(filter(None, reasons), None), changes={"status": "CLOSED"})
        case "set_interest" | "charge_interest":
            return _rule_of_interest(payload, account, *others)
        case "hold" | "post_hold" | "void_hold" | "expire_hold":
            return _rule_of_holds(payload, journal, account, *others)
        case "reverse":
            return _reverse(payload, journal, account, *others)
    raise AssertionError(payload["type"])


def _opened(payload: Mapping[str, Any], account: State, *sources: State) -> Decided:
    if account["version"]:
        return Decided("ACCOUNT_EXISTS", by=0)
    balance = Decimal(payload.get("balance", 0))
    for source in sources:
        is_of_another = source["currency"] != account["currency"] or source["status"] == "CLOSED"
        if is_of_another or not _fits(source["balance"] - balance):
            raise Invalid("from_account_id")
    holds = {name: (Decimal(each["amount"]), each.get("expires_at")) for name, each in payload.get("holds", {}).items()}
    return Decided(None, [balance, *(-balance for _ in sources)], _with_holds(holds))


def _rule_of_interest(payload: Mapping[str, Any], account: State, *payees: State) -> Decided:
    interest: Interest = account["interest"]
    if payload["type"] == "set_interest":
        at_rate = interest.rounded(_unit(account))._replace(rate=Fraction(payload["annual_rate"]))
        return Decided(changes={"interest": at_rate})
    due = Decimal(interest.due.numerator) / Decimal(interest.due.denominator)
    if any(payee["currency"] != account["currency"] for payee in payees):
        return Decided("CURRENCY_MISMATCH")
    fits = [_fits(due) and _fits(account["balance"] - due), *(_fits(payee["balance"] + due) for payee in payees)]
    reasons = [None if each else "BALANCE_OUT_OF_RANGE" for each in fits]
    changes = {"interest": interest._replace(due=Fraction(0))}
    return _first(reasons, [-due, *(due for _ in payees)])._replace(changes=changes)


def _moved(payload: Mapping[str, Any], *accounts: State) -> Decided:
    amounts, sums = [Decimal(leg["amount"]) for leg in payload.get("legs", [])], dict[str, Decimal]()
    if payload["type"] == "transfer":
        amounts = [-Decimal(payload["amount"]), Decimal(payload["amount"])]
    for account, amount in zip(accounts, amounts, strict=True):
        sums[account["currency"]] = sums.get(account["currency"], Decimal(0)) + amount
    if any(sums.values()):
        return Decided("CURRENCY_MISMATCH")
    refusal = _refusal_of_range if payload.get("forced") else _refusal
    return _first([refusal(account, amount) for account, amount in zip(accounts, amounts, strict=True)], amounts)


def _new_limit(account: State, limit: Decimal) -> Decided:
    is_above = account["overdraft_limit"] < limit and account["balance"] - account["held"] < limit
    return Decided("OVERDRAFT_LIMIT" if is_above else None, changes={"overdraft_limit": limit})


def _rule_of_holds(payload: Mapping[str, Any], journal: Journal, account: State, *payees: State) -> Decided | None:
    if payload["type"] == "hold":
        return _hold(payload, account)
    if payload["hold_id"] in account["holds"]:
        return _resolution(payload, account, *payees)
    hold_id = payload["account_id"], payload["account_id"], payload["hold_id"]
    return Decided("HOLD_NOT_OPEN", by=0) if journal.has(hold_id) else None


def _hold(payload: Mapping[str, Any], account: State) -> Decided:
    amount = Decimal(payload["amount"])
    placed = {payload["transaction_id"]: (amount, payload.get("expires_at"))}
    holds = account["holds"] | placed
    if account["frozen"]["debits"]:
        reason: str | None = "ACCOUNT_FROZEN"
    elif payload["transaction_id"] in account["holds"]:
        reason = "HOLD_EXISTS"
    elif len(account["holds"]) >= MOST_OPEN_HOLDS:
        reason = "TOO_MANY_HOLDS"
    elif not _can_be_summed(holds):
        reason = "BALANCE_OUT_OF_RANGE"
    else:
        is_refused = account["balance"] - account["held"] - amount < account["overdraft_limit"]
        reason = "OVERDRAFT_LIMIT" if is_refused else _exceeded(account, -amount)
    return Decided(reason, changes=_with_holds(holds))


def _resolution(payload: Mapping[str, Any], account: State, *payees: State) -> Decided:
    """Of an open hold: the first account's."""
    remaining, expires_at = account["holds"][payload["hold_id"]]
    others = {name: hold for name, hold in account["holds"].items() if name != payload["hold_id"]}
    if payload["type"] == "void_hold":
        return Decided(changes=_with_holds(others))
    if payload["type"] == "expire_hold":
        if payload["transaction_id"].startswith("teller:expire-hold-") and payload["as_of"] != expires_at:
            raise Invalid(f"as_of: {payload['as_of']}")
        is_expired = expires_at and datetime.fromisoformat(expires_at) <= datetime.fromisoformat(payload["as_of"])
        return Decided(None if is_expired else "HOLD_NOT_EXPIRED", changes=_with_holds(others))
    amount = Decimal(payload.get("amount", remaining))
    if amount > remaining:
        return Decided("HOLD_EXCEEDED", by=0)
    if any(payee["currency"] != account["currency"] for payee in payees):
        return Decided("CURRENCY_MISMATCH")
    is_over = payload.get("final", True) or amount == remaining
    rest = {} if is_over else {payload["hold_id"]: (remaining - amount, expires_at)}
    holds = others | rest
    if not _can_be_summed(holds):
        return Decided("BALANCE_OUT_OF_RANGE", by=0)
    of_payer = None if _fits(account["balance"] - amount) else "BALANCE_OUT_OF_RANGE"
    if account["frozen"]["debits"]:
        of_payer = "ACCOUNT_FROZEN"
    received = [Decimal(leg["amount"]) for leg in payload.get("legs", [])] or [amount for _ in payees]
    reasons = [of_payer, *(_refusal(*each) for each in zip(payees, received, strict=True))]
    return _first(reasons, [-amount, *received])._replace(changes=_with_holds(holds))


def _reverse(payload: Mapping[str, Any], journal: Journal, *accounts: State) -> Decided:
    reversed_id, names = reversed_id_of(payload), account_ids(payload, journal)
    if len(names) > MOST_IN_PART and "amount" in payload:
        raise Invalid("amount")
    whole, (_, before) = journal.amount(reversed_id), journal.reversed(reversed_id)
    left = abs(whole) - before
    amount = Decimal(payload.get("amount", left))
    if whole == 0:
        return Decided("NOT_REVERSIBLE")
    if left == 0:
        return Decided("ALREADY_REVERSED")
    if amount > left:
        return Decided("REVERSAL_EXCEEDED")
    if not _fits(left - amount) or not _fits(before + amount):
        return Decided("BALANCE_OUT_OF_RANGE")
    back = -amount if whole > 0 else amount
    amounts = [back, -back][: len(accounts)]
    if len(names) > MOST_IN_PART:
        amounts = [-journal.amount((name, *reversed_id[1:])) for name in names]
    by_amount = sorted(range(len(amounts)), key=lambda at: amounts[at] > 0)
    counts = journal.original(payload)[0]["type"] == "reverse"
    refusals = [_refusal(account, each, counts=counts) for each, account in zip(amounts, accounts, strict=True)]
    return _first(refusals, amounts, by_amount)


def _first(reasons: Sequence[str | None], amounts: Sequence[Decimal], order: Sequence[int] | None = None) -> Decided:
    """Posted, or rejected for the first account's reason in this order of their places."""
    by = next((at for at in order or range(len(reasons)) if reasons[at]), None)
    return Decided(None if by is None else reasons[by], amounts, by=by)


def _with_holds(holds: State) -> State:
    return {"holds": holds, "held": sum((remaining for remaining, _ in holds.values()), Decimal(0))}


def _can_be_summed(holds: State) -> bool:
    """Whether each sum of some of them fits: at most 38 digits down to the last decimal of the finest one."""
    if not holds:
        return True
    finest = min(int(remaining.normalize().as_tuple().exponent) for remaining, _ in holds.values())
    held = _with_holds(holds)["held"]
    return bool(held.scaleb(-finest) < Decimal("1e38")) and held < Decimal("1e126")


def _refusal(account: State, amount: Decimal, *, counts: bool = True) -> str | None:
    """The rejection reason for this amount, or None."""
    if account["frozen"]["debits" if amount < 0 else "credits"]:
        return "ACCOUNT_FROZEN"
    return _refusal_of_the_limit(account, amount) or _exceeded(account, amount, counts=counts)


def _controls(payload: Mapping[str, Any], account: State) -> State:
    if payload["type"] == "freeze_account":
        return {"frozen": {each: payload[each] for each in ("debits", "credits")}}
    if payload["type"] == "set_limits":
        return {"limits": [_set(each, account, payload["posted_at"]) for each in payload["limits"]]}
    if not account["pool"] or account["pool"][0] >= int(payload["shards"]):
        raise Invalid("shards")
    return {"pool": (int(payload["shards"]), account["pool"][1])}


def _set(rule: State, account: State, posted_at: str) -> State:
    """A limit that is set. What was used of it stays, if all but its amount or number stays."""
    plain = {name: Decimal(value) if name in ("amount", "number") else value for name, value in rule.items()}
    if "time_zone" not in rule:
        return plain
    for each in account["limits"]:
        if (
            "used" in each
            and {name: each.get(name) for name in _COUNTED_ALIKE} == {name: rule.get(name) for name in _COUNTED_ALIKE}
            and ("number" in each) == ("number" in rule)
        ):
            return each | plain
    return plain | {"used": Decimal(0), "period": _period(rule, posted_at), "set_at": posted_at}


def _period(rule: State, posted_at: str) -> str:
    there = datetime.fromisoformat(posted_at).astimezone(ZoneInfo(rule["time_zone"]))
    return f"{there:%Y-%m-%d}" if rule["per"] == "day" else f"{there:%Y-%m}"


def _limits_at(account: State, posted_at: str) -> list[State]:
    """Nothing is used of a period that begins, and no period comes again."""
    return [
        each | {"used": Decimal(0), "period": _period(each, posted_at)}
        if "used" in each and _period(each, posted_at) > each["period"]
        else each
        for each in account["limits"]
    ]


def _exceeded(account: State, amount: Decimal, *, counts: bool = True) -> LimitExceeded | None:
    for each in account["limits"]:
        applies = counts and each["of"] == ("debits" if amount < 0 else "credits")
        if each["of"] == "balance":
            applies, left = amount > 0, each["amount"] - account["balance"]
        elif "number" in each:
            left = each["number"] - each["used"]
        else:
            reserved = account["held"] if each["of"] == "debits" and "used" in each else Decimal(0)
            left = each["amount"] - each.get("used", Decimal(0)) - reserved
        if applies and left < (1 if "number" in each else abs(amount)):
            return LimitExceeded(account, each["name"], _of_38_digits(max(left, Decimal(0)), ROUND_FLOOR))
    return None


def _counted(payload: Mapping[str, Any], journal: Journal, account: State, amount: Decimal) -> State:
    """The limits after a posting."""
    of, more, times, since = "debits" if amount < 0 else "credits", abs(amount), 1, None
    match payload["type"]:
        case "transaction" | "transfer" | "compound":
            times, more = (0, Decimal(0)) if payload.get("forced") else (times, more)
        case "hold":
            of, more = "debits", Decimal(0)
        case "post_hold":
            times = 1 if amount > 0 else 0
        case "reverse":
            original, posted_at = journal.original(payload)
            if original["type"] in ("transaction", "transfer", "compound", "post_hold") and not original.get("forced"):
                of, more, times, since = "debits" if amount > 0 else "credits", -abs(amount), 0, posted_at
            elif original["type"] != "reverse":
                return {"limits": account["limits"]}
        case _:
            return {"limits": account["limits"]}
    after = []
    for each in account["limits"]:
        counted = not since or ("used" in each and since > each["set_at"] and _period(each, since) == each["period"])
        if each["of"] == of and "used" in each and counted and (amount or payload["type"] == "hold"):
            used = each["used"] + (times if "number" in each else more)
            after.append(each | {"used": _of_38_digits(min(used, LARGEST), ROUND_CEILING)})
        else:
            after.append(each)
    return {"limits": after}


def _of_38_digits(number: Decimal, rounding: str) -> Decimal:
    return Context(38, rounding).plus(number)


def _refusal_of_range(account: State, amount: Decimal) -> str | None:
    """As `_refusal`, of a transaction that nothing else stops."""
    return None if _fits(account["balance"] + amount) else "BALANCE_OUT_OF_RANGE"


def _refusal_of_the_limit(account: State, amount: Decimal) -> str | None:
    """As `_refusal`, of an account that isn't frozen. The overdraft limit applies to debits alone."""
    balance = account["balance"] + amount
    if not _fits(balance):
        return "BALANCE_OUT_OF_RANGE"
    is_below = balance - account["held"] < account["overdraft_limit"]
    return "OVERDRAFT_LIMIT" if amount < 0 and is_below else None


def _fits(number: Decimal) -> bool:
    """Whether DynamoDB can store the number: at most 38 significant digits, and below 10 to the power of 126."""
    return len(number.normalize().as_tuple().digits) <= 38 and abs(number) < Decimal("1e126")


def _unit(account: State) -> Fraction:
    """The smallest amount of the account's currency; a hundredth, if its amounts have no rule."""
    return Fraction(1, 10 ** (2 if account["decimal_places"] is None else account["decimal_places"]))
