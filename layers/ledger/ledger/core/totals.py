"""The totals of a journal and of all accounts, which grow in constant memory: turnovers, reversals, trees of hashes.

**Turnovers** are the money that came into the ledger and went out of it, per currency; the trial balance is the sum of
all balances. A night's accounts are read one after another, while others post. So the sums are those of one moment
before the run: each entry of a transaction has the same time, and the entries before that moment have all been there
since.

**Sums of hashes** compare what is read in two orders: entries, and reversals. Each posted reversal takes its
transaction from one state to the next: how often it was reversed, and how much of it. The sum of the states that a
journal's reversals lead to, without those that they begin with, is the sum of the states that the Reversals table has.
A reversal that is missing, or counted twice, makes the two differ.

**Merkle trees** are over seals and over accounts: whoever knows a tree's top can be shown by few hashes that a leaf is
in it. A tree is that of RFC 6962: the left side is the largest full one. A hash is 43 characters, as a seal's.
docs/seals.md defines what is hashed.
"""

import base64
import functools
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from typing import Any, NamedTuple

from ledger.core.journal import JournalEntry
from ledger.core.reversals import Reversal, Reversed
from ledger.core.transaction_types import HISTORIC
from ledger.core.values import WIDE, format_decimal

MOST_CURRENCIES = 200
"""In a report. Accounts of further ones are left out of it."""
SUMS = 2**126
"""Sums of hashes are kept below: a number of DynamoDB's has 38 digits."""
CHARACTERS = "-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz"
"""Those of hashes, in the order in which texts are sorted."""


class Turnover(NamedTuple):
    """Changes of balances. `came_in` and `went_out` are sizes of amounts on one account alone; `moved` is the
    sum of the amounts of transactions of several accounts, which is 0 over all accounts.
    """

    came_in: Decimal = Decimal(0)
    went_out: Decimal = Decimal(0)
    moved: Decimal = Decimal(0)

    @property
    def balance(self) -> Decimal:
        return WIDE.add(WIDE.subtract(self.came_in, self.went_out), self.moved)

    def plus(self, other: "Turnover") -> "Turnover":
        return Turnover(*map(WIDE.add, self, other))

    def minus(self, other: "Turnover") -> "Turnover":
        return Turnover(*map(WIDE.subtract, self, other))

    def with_entry(self, entry: JournalEntry) -> "Turnover":
        amount = entry.outcome.amount
        if entry.request.get("type") == HISTORIC:
            return self  # the import has its sum
        if len(entry.account_ids) > 1:
            return self._replace(moved=WIDE.add(self.moved, amount))
        if amount < 0:
            return self._replace(went_out=WIDE.subtract(self.went_out, amount))
        return self._replace(came_in=WIDE.add(self.came_in, amount))

    def as_item(self) -> list[str]:
        """As texts: a sum may have more digits than a number of DynamoDB's."""
        return list(map(format_decimal, self))

    @classmethod
    def from_item(cls, item: Iterable[str]) -> "Turnover":
        """Raises TypeError or ArithmeticError for an item that is none."""
        return cls(*map(Decimal, item))


class Turnovers(NamedTuple):
    """The changes by an account's entries: by all of them, and by those `since` a moment. None: that isn't known."""

    as_of: str
    total: Turnover = Turnover()
    since: Turnover | None = Turnover()

    @property
    def before(self) -> Turnover | None:
        return self.total.minus(self.since) if self.since is not None else None

    def at(self, as_of: str, last_posted_at: str) -> "Turnovers":
        """The same of another moment, if the last entry is before it."""
        if as_of == self.as_of:
            return self
        return Turnovers(as_of, self.total, Turnover() if last_posted_at < as_of else None)

    def with_entries(self, entries: Iterable[JournalEntry]) -> "Turnovers":
        total, since = self.total, self.since
        for entry in entries:
            total = total.with_entry(entry)
            if since is not None and entry.outcome.posted_at >= self.as_of:
                since = since.with_entry(entry)
        return Turnovers(self.as_of, total, since)

    def as_item(self) -> dict[str, Any]:
        since = self.since.as_item() if self.since is not None else None
        return {"as_of": self.as_of, "total": self.total.as_item(), "since": since}

    @classmethod
    def from_item(cls, item: Mapping[str, Any]) -> "Turnovers":
        """Raises KeyError, TypeError or ArithmeticError for an item that is none."""
        since = Turnover.from_item(item["since"]) if item["since"] is not None else None
        return cls(str(item["as_of"]), Turnover.from_item(item["total"]), since)


class TrialBalance(NamedTuple):
    """The sums of all accounts at a moment, by currency. `accounts_left_out` are those of which it isn't known."""

    as_of: str = ""
    currencies: Mapping[str, Turnover] = {}
    accounts_left_out: int = 0

    def plus(self, currency: str, turnover: Turnover | None) -> "TrialBalance":
        """With an account's. None: it isn't known."""
        is_new = currency not in self.currencies
        if turnover is None or (is_new and len(self.currencies) >= MOST_CURRENCIES):
            return self._replace(accounts_left_out=self.accounts_left_out + 1)
        so_far = self.currencies.get(currency, Turnover())
        return self._replace(currencies={**self.currencies, currency: so_far.plus(turnover)})

    def wrong(self, *, double_entry: bool) -> Iterator[str]:
        """A sentence for each currency in which the sums don't agree, if they are those of all accounts."""
        for currency, of in sorted(self.currencies.items()) if not self.accounts_left_out else ():
            if of.moved:
                came_in, went_out, balances = map(format_decimal, (of.came_in, of.went_out, of.balance))
                yield f"{currency}: {came_in} came in, {went_out} went out, and the balances sum to {balances}"
            elif double_entry and of.balance:
                yield f"{currency}: the balances sum to {format_decimal(of.balance)}, expected 0 in double entry"

    def as_report(self) -> dict[str, Any]:
        currencies = {
            currency: {
                "came_in": format_decimal(of.came_in),
                "went_out": format_decimal(of.went_out),
                "balances": format_decimal(of.balance),
            }
            for currency, of in sorted(self.currencies.items())
        }
        return {"as_of": self.as_of, "accounts_left_out": self.accounts_left_out, "currencies": currencies}

    def as_item(self) -> dict[str, Any]:
        currencies = {currency: of.as_item() for currency, of in self.currencies.items()}
        return {"as_of": self.as_of, "accounts_left_out": self.accounts_left_out, "currencies": currencies}

    @classmethod
    def from_item(cls, item: Mapping[str, Any]) -> "TrialBalance":
        currencies = {currency: Turnover.from_item(of) for currency, of in item["currencies"].items()}
        return cls(item["as_of"], currencies, int(item["accounts_left_out"]))


def number_of(value: object) -> int:
    """The hash of an item, or of another value of JSON and numbers, as a number."""
    text = json.dumps(value, sort_keys=True, default=str)
    return int.from_bytes(hashlib.sha256(text.encode()).digest()) % SUMS


class ReversalSum(NamedTuple):
    """`number` is that of the reversals, `states` the sum of the hashes of the states."""

    number: int = 0
    states: int = 0

    def with_reversal(self, transaction_id: str, reversal: Reversal, amount: Decimal) -> "ReversalSum":
        """With a posted reversal of this transaction, by this amount in whichever direction."""
        before = WIDE.subtract(reversal.reversed_after, amount.copy_abs())
        led_to = _state(transaction_id, reversal.number, reversal.reversed_after)
        began_with = _state(transaction_id, reversal.number - 1, before)
        return ReversalSum(self.number + 1, (self.states + led_to - began_with) % SUMS)

    def with_item(self, item: Reversed) -> "ReversalSum":
        """With an item of the Reversals table."""
        state = _state(item.transaction_id, item.number, item.amount)
        return ReversalSum(self.number + item.number, (self.states + state) % SUMS)


def _state(transaction_id: str, number: int, amount: Decimal) -> int:
    """0 if nothing was reversed: then the table has no item."""
    return number_of([transaction_id, number, WIDE.normalize(amount)]) if number or amount else 0


def hash_of(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest())[:43].decode()


def hash_of_values(*values: Any) -> str:
    """The hash of a list of texts and integers, as JSON."""
    return hash_of(json.dumps(values, ensure_ascii=False, separators=(",", ":")))


def node(left: str, right: str) -> str:
    """The hash above two others. A comma after the 43 characters is in no text that a leaf is the hash of."""
    return hash_of(f"{left},{right}")


class HashTree(NamedTuple):
    """A tree of so many leaves, as its peaks: the tops of the full trees that it is made of, the largest first."""

    size: int = 0
    peaks: tuple[str, ...] = ()

    def with_leaves(self, leaves: Iterable[str]) -> "HashTree":
        """The tree with more leaves, each a hash."""
        size, peaks = self.size, list(self.peaks)
        for leaf in leaves:
            top, full = leaf, size
            while full & 1:
                top, full = node(peaks.pop(), top), full >> 1
            peaks.append(top)
            size += 1
        return HashTree(size, tuple(peaks))

    @property
    def top(self) -> str:
        """The hash above all leaves; empty without any."""
        return functools.reduce(lambda right, left: node(left, right), self.peaks[::-1]) if self.peaks else ""
