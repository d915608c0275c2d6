"""Books with transactions of all types, and the damage that tests plant in their tables."""

from collections.abc import Callable
from decimal import Decimal
from typing import Any

from tests.support.reconciling import Bank, opening, payment, transfer

BOOKS = [
    *(opening(name) for name in ("alice", "bob", "carol")),
    opening("dave") | {"currency": "XAU"},  # Gold has no minor units.
    payment("t-1", 100, "alice"),
    payment("t-2", "-250.50", "alice"),
    payment("t-3", -100, "alice"),  # Rejected.
    {"type": "set_overdraft_limit", "transaction_id": "t-4", "account_id": "alice", "overdraft_limit": -300},
    payment("t-5", -100, "alice"),
    payment("t-6", 500, "bob"),
    transfer("t-7", 120, "bob", "carol"),
    transfer("t-8", 1000, "carol", "bob"),  # Rejected: carol's limit.
    transfer("t-9", 120, "carol", "bob"),
    {"type": "close_account", "transaction_id": "t-10", "account_id": "carol"},
    transfer("t-11", 1, "bob", "carol"),  # Rejected: closed.
    payment("t-12", 1, "bob"),
    payment("t-13", "1E+37", "dave"),
    payment("t-14", "0.5", "dave"),
    payment("t-15", "1E-30", "dave"),  # Rejected: the balance would need 68 digits.
]


def of_type(kind: str, transaction_id: str, account_id: str, **fields: object) -> dict[str, Any]:
    return {"type": kind, "transaction_id": transaction_id, "account_id": account_id} | fields


HELD_BOOKS = [
    opening("ann"),
    opening("ben"),
    payment("p-1", 100, "ann"),
    of_type("hold", "h-1", "ann", amount=30, expires_at="2026-05-01T00:00:00+00:00"),
    of_type("hold", "h-2", "ann", amount=20),
    of_type("hold", "h-3", "ann", amount=10),
    of_type("post_hold", "q-1", "ann", hold_id="h-1", amount=12, final=False, to_account_id="ben"),
    of_type("post_hold", "q-2", "ann", hold_id="h-2"),
    of_type("void_hold", "q-3", "ann", hold_id="h-3"),
    of_type("hold", "h-4", "ann", amount=5),
    of_type("expire_hold", "q-4", "ann", hold_id="h-1", as_of="2026-04-01T00:00:00Z"),  # Rejected.
    of_type("void_hold", "q-5", "ann", hold_id="h-2"),  # Rejected.
    of_type("post_hold", "q-6", "ann", hold_id="h-2", to_account_id="ben"),  # Rejected.
    of_type("hold", "h-5", "ann", amount=10_000),  # Rejected.
    transfer("x-1", 40, "ann", "ben"),
    of_type("reverse", "r-1", "ben", of_transaction_id="x-1", amount=10),
    of_type("reverse", "r-2", "ann", of_transaction_id="x-1", amount=5),
    of_type("reverse", "r-3", "ann", of_transaction_id="p-1", amount=2),
    of_type("reverse", "r-4", "ann", of_transaction_id="x-1", amount=100),  # Rejected.
    of_type("reverse", "r-5", "ann", of_transaction_id="r-1"),
    payment("p-2", 1, "ben"),
]
"""At the end two of Ann's holds are open: h-1 with 18, and h-4 with 5."""


type Plant = Callable[[Bank], None]
type Planted = dict[str, tuple[Plant, str]]
"""Damages, and the mismatches that they make: on which account what is wrong, in alphabetical order."""


def later(change: Callable[..., None]) -> Callable[..., Plant]:
    """A change of a bank that is yet to be given."""
    return lambda *arguments, **changes: lambda bank: change(bank, *arguments, **changes)


change_account, change_entry, delete_entry = map(later, (Bank.change_account, Bank.change_entry, Bank.delete_entry))
change_reversed, delete_reversed = map(later, (Bank.change_reversed, Bank.delete_reversed))
H_1, H_4 = {"remaining": 18, "expires_at": "2026-05-01T00:00:00+00:00"}, {"remaining": 5}


@later
def reject(bank: Bank, account_id: str, transaction_id: str, **changes: Any) -> None:
    bank.change_entry(account_id, transaction_id, status="REJECTED", **changes)


@later
def change_reversal(bank: Bank, account_id: str, transaction_id: str, **changes: Any) -> None:
    reversal = bank.entry(account_id, transaction_id)["reversal"]
    bank.change_entry(account_id, transaction_id, reversal=reversal | changes)


def enter_again(bank: Bank) -> None:
    bank.put(bank.tables.journal, bank.entry("alice", "t-2") | {"transaction_id": "t-2-again"})


def copy_request(bank: Bank) -> None:
    bank.change_entry("alice", "t-1", request=bank.entry("alice", "t-2")["request"])


def write_a_time_otherwise(bank: Bank) -> None:
    bank.change_entry("bob", "t-7", posted_at=bank.entry("bob", "t-7")["posted_at"] + ":00")


def reverse_again(bank: Bank) -> None:
    """A second reversal of p-1 with the number of the first one, as if nobody had looked at the Reversals table."""
    before = bank.reversed("ann", "p-1")
    bank.delete_reversed("ann", "p-1")
    bank.post(of_type("reverse", "r-9", "ann", of_transaction_id="p-1", amount=2))
    bank.change_reversed("ann", "p-1", **before)


def fork_both_sides(bank: Bank) -> None:
    """The last of two reversals of a transfer is the first one once more: both sides agree, and the item with it."""
    for name in ("ann", "ben"):
        change_reversal(name, "r-2", number=1, reversed_after=Decimal(5))(bank)
    bank.change_reversed("ann", "x-1", version=1, amount=Decimal(5))


def change_an_earlier_amount(bank: Bank) -> None:
    """Of two reversals the first one is as if more had been reversed before, on both sides."""
    bank.post(of_type("reverse", "r-9", "ann", of_transaction_id="x-1", amount=1))
    for name in ("ann", "ben"):
        change_reversal(name, "r-2", reversed_after=Decimal(14))(bank)


PLANTED: Planted = {
    "a changed balance": (change_account("alice", balance=-7), "alice: changed account"),
    "a missing entry": (delete_entry("alice", "t-2"), "alice: missing entry"),
    "the last entry missing": (delete_entry("alice", "t-5"), "alice: missing entry"),
    "an entry twice": (enter_again, "alice: entries twice"),
    "a version gap": (change_entry("alice", "t-5", account_version=7), "alice: entry beyond, missing entry"),
    "an account's version that jumped": (change_account("alice", version=8), "alice: missing entry"),
    "an account of a version that no journal has": (change_account("alice", version=10**30), "alice: missing entry"),
    "a wrong decision": (change_entry("alice", "t-1", amount=101, balance_after=101), "alice: wrong decision"),
    "another request": (copy_request, "alice: changed request, wrong request"),
    "another payload hash": (change_entry("carol", "t-8", payload_hash="0" * 64), "carol: changed request"),
    "another currency": (change_entry("alice", "t-1", currency="USD"), "alice: wrong currency"),
    "a time in the future": (change_entry("dave", "t-15", posted_at="9999-12-31T23:59:59Z"), "dave: wrong time"),
    "a transfer of two times": (write_a_time_otherwise, "bob: unlike sides; carol: unlike sides"),
    "a transfer of one side": (delete_entry("carol", "t-9"), "bob: one-sided transfer; carol: missing entry"),
    "a transfer that was rejected on one side": (
        reject("bob", "t-7", reason="OVERDRAFT_LIMIT", amount=0),
        "bob: unlike sides, wrong decision; carol: unlike sides",
    ),
    "an entry that can't be read": (
        change_entry("alice", "t-1", request={"type": "magic"}),
        "alice: changed request, unreadable entry",
    ),
}
HELD_PLANTED: Planted = {
    "another sum of holds": (change_account("ann", held=22), "ann: changed account"),
    "another remainder of a hold": (
        change_account("ann", holds={"h-1": H_1 | {"remaining": 17}, "h-4": H_4}),
        "ann: changed account",
    ),
    "a hold that is gone": (change_account("ann", holds={"h-1": H_1}), "ann: changed account"),
    "a hold's entry deleted": (delete_entry("ann", "h-2"), "ann: missing entry; ben: wrong decision"),
    "the payer's side of a posted hold deleted": (
        delete_entry("ann", "q-1"),
        "ann: missing entry; ben: one-sided transfer",
    ),
    "a hold that was voided, and not": (
        reject("ann", "q-3", reason="HOLD_NOT_OPEN", held_after=28),
        "ann: changed account, wrong decision",
    ),
    "another number on one side": (
        change_reversal("ben", "r-2", number=1),
        "ann: unlike sides; ben: unlike sides, wrong decision",
    ),
    "another sum on one side": (
        change_reversal("ann", "r-2", reversed_after=16),
        "ann: unlike sides, wrong reversal, wrong reversals; ben: unlike sides",
    ),
    "more reversed than there was": (
        change_reversal("ann", "r-3", reversed_after=102),
        "ann: wrong decision, wrong reversal, wrong reversals",
    ),
    "another account on one side": (change_reversal("ann", "r-2", other_account_id="carl"), "ann: one-sided transfer"),
    "an account that nobody can have": (change_reversal("ann", "r-2", other_account_id=""), "ann: one-sided transfer"),
    "one side of a reversal deleted": (delete_entry("ben", "r-2"), "ann: one-sided transfer; ben: missing entry"),
    "the reversed entry deleted": (
        delete_entry("ann", "x-1"),
        "ann: missing entry; ben: one-sided transfer, wrong decision",
    ),
    "a second reversal of one number": (reverse_again, "ann: wrong reversal, wrong reversals"),
    "a first reversal for a second one": (fork_both_sides, "ann: wrong reversal, wrong reversals; ben: wrong reversal"),
    "more reversed before a reversal": (change_an_earlier_amount, "ann: wrong reversals"),
    "a raised count": (change_reversed("ann", "x-1", version=3), "ann: wrong reversals"),
    "a lowered count": (
        change_reversed("ann", "x-1", version=1),
        "ann: wrong reversal, wrong reversals; ben: wrong reversal",
    ),
    "a lowered sum": (
        change_reversed("ben", "r-1", amount=9),
        "ann: wrong reversal; ben: wrong reversal, wrong reversals",
    ),
    "another last reversal": (
        change_reversed("ann", "x-1", reversed_by="r-3"),
        "ann: wrong reversal; ben: wrong reversal",
    ),
    "another version of a reversal": (change_reversed("ann", "x-1", account_version=14), "ann: wrong reversal"),
    "what was reversed deleted": (delete_reversed("ann", "p-1"), "ann: wrong reversal, wrong reversals"),
    "a transaction that was never reversed": (change_reversed("ben", "p-2"), "ben: wrong reversals"),
    "one that was never reversed, of a later version": (
        change_reversed("ben", "p-2", account_version=10**9),
        "ben: wrong reversals",
    ),
    "what was reversed unreadable": (
        change_reversed("ann", "x-1", amount="15"),
        "ann: wrong reversal, wrong reversals; ben: wrong reversal",
    ),
}
