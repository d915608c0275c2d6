"""Books with transactions of all types, and the damage that tests plant in their tables."""

from collections.abc import Callable
from decimal import Decimal
from typing import Any

from conditional_writes import Item
from ledger.checkpoints import RECORD, Root, Roots, Walk, key_of
from ledger.core.totals import HashTree
from tests.checkers import seals
from tests.support.bodies import (
    closing,
    expire_hold,
    hold,
    opening,
    openings,
    payment,
    post_hold,
    reverse,
    set_limit,
    transfer,
    void_hold,
)
from tests.support.ledger import Ledger
from tests.support.reconciling import Reconciled

BOOKS = [
    *openings("alice", "bob", "carol", limit=-200),
    opening("dave", -200, "XAU"),  # Gold has no minor units.
    payment("t-1", 100, "alice"),
    payment("t-2", "-250.50", "alice"),
    payment("t-3", -100, "alice"),  # Rejected.
    set_limit("t-4", -300),
    payment("t-5", -100, "alice"),
    payment("t-6", 500, "bob"),
    transfer("t-7", 120, "bob", "carol"),
    transfer("t-8", 1000, "carol", "bob"),  # Rejected: carol's limit.
    transfer("t-9", 120, "carol", "bob"),
    closing("t-10", "carol"),
    transfer("t-11", 1, "bob", "carol"),  # Rejected: closed.
    payment("t-12", 1, "bob"),
    payment("t-13", "1E+37", "dave"),
    payment("t-14", "0.5", "dave"),
    payment("t-15", "1E-30", "dave"),  # Rejected: the balance would need 68 digits.
]


HELD_BOOKS = [
    *openings("ann", "ben", limit=-200),
    payment("p-1", 100, "ann"),
    hold("h-1", 30, "ann", expires_at="2026-05-01T00:00:00+00:00"),
    hold("h-2", 20, "ann"),
    hold("h-3", 10, "ann"),
    post_hold("q-1", 12, "ann", "h-1", final=False, to_account_id="ben"),
    post_hold("q-2", None, "ann", "h-2"),
    void_hold("q-3", "ann", hold_id="h-3"),
    hold("h-4", 5, "ann"),
    expire_hold("q-4", "ann", hold_id="h-1", as_of="2026-04-01T00:00:00Z"),  # Rejected.
    void_hold("q-5", "ann", hold_id="h-2"),  # Rejected.
    post_hold("q-6", None, "ann", "h-2", to_account_id="ben"),  # Rejected.
    hold("h-5", 10_000, "ann"),  # Rejected.
    transfer("x-1", 40, "ann", "ben"),
    reverse("r-1", 10, "ben", "x-1", of_account_id="ann"),
    reverse("r-2", 5, "ann", "x-1"),
    reverse("r-3", 2, "ann", "p-1"),
    reverse("r-4", 100, "ann", "x-1"),  # Rejected.
    reverse("r-5", None, "ann", "r-1", of_account_id="ben"),
    payment("p-2", 1, "ben"),
]
"""At the end two of Ann's holds are open: h-1 with 18, and h-4 with 5."""


def make_anew(
    ledger: Ledger, account_id: str, of: Callable[[list[Item]], None], *, with_checkpoint: bool = False
) -> None:
    """What an administrator may do: the account's entries are changed, and all seals made anew, and the account's."""
    entries = [item for item in ledger.items(ledger.tables.journal) if item["account_id"] == account_id]
    entries.sort(key=lambda item: item["account_version"])
    of(entries)
    made = [""]
    for item in entries:
        made.append(seals.seal_of(made[-1], item))
        ledger.put_entry(item | {"seal": made[-1]})
    ledger.change_account(account_id, seal=made[-1])
    if with_checkpoint:
        peaks = list(HashTree().with_leaves(made[1:]).peaks)
        ledger.change(ledger.tables.checkpoints, key_of(account_id), seal=made[-1], peaks=peaks)


def publish_anew(ledger: Ledger) -> Root:
    """The record of the newest root is as the checkpoints are now."""
    roots = Roots(ledger.client, ledger.tables.checkpoints, ledger.locks_table)
    before, walk = roots.newest(), roots.further(Walk())
    assert before
    made = Root.of(before.scheduled_time, walk.ranges)
    ledger.put(ledger.locks_table, {"lock_key": RECORD} | made._asdict() | {"ranges": list(made.ranges)})
    return made


type Plant = Callable[[Reconciled], None]
type Planted = dict[str, tuple[Plant, str]]
"""Damages, and the mismatches that they make: on which account what is wrong, in alphabetical order."""


def later(change: Callable[..., None]) -> Callable[..., Plant]:
    """A change of a ledger that is yet to be given."""
    return lambda *arguments, **changes: lambda ledger: change(ledger, *arguments, **changes)


change_account, change_entry, delete_entry = map(
    later, (Reconciled.change_account, Reconciled.change_entry, Reconciled.delete_entry)
)
change_reversed, delete_reversed = map(later, (Reconciled.change_reversed, Reconciled.delete_reversed))
H_1, H_4 = {"remaining": 18, "expires_at": "2026-05-01T00:00:00+00:00"}, {"remaining": 5}


@later
def reject(ledger: Reconciled, account_id: str, transaction_id: str, **changes: Any) -> None:
    ledger.change_entry(account_id, transaction_id, status="REJECTED", **changes)


@later
def change_reversal(ledger: Reconciled, account_id: str, transaction_id: str, **changes: Any) -> None:
    reversal = ledger.entry(account_id, transaction_id)["reversal"]
    ledger.change_entry(account_id, transaction_id, reversal=reversal | changes)


def enter_again(ledger: Reconciled) -> None:
    ledger.put_entry(ledger.entry("t-2", "alice") | {"transaction_id": "t-2-again"})


def copy_request(ledger: Reconciled) -> None:
    ledger.change_entry("t-1", "alice", request=ledger.entry("t-2", "alice")["request"])


def describe(ledger: Reconciled) -> None:
    ledger.change_entry("t-1", "alice", request=ledger.entry("t-1")["request"] | {"description": "x"})


def swap(ledger: Reconciled) -> None:
    """Two credits change places, with all that follows from their order."""
    ledger.post(payment("s-1", 5, "bob"), payment("s-2", 7, "bob"))
    one, other = ledger.entry("s-1", "bob"), ledger.entry("s-2", "bob")
    before = one["balance_after"] - one["amount"]
    places = ("account_version", "posted_at")
    ledger.put_entry(one | {name: other[name] for name in (*places, "balance_after")})
    ledger.put_entry(other | {name: one[name] for name in places} | {"balance_after": before + other["amount"]})


def number_anew(ledger: Reconciled) -> None:
    """Without a payment of bob's, and without a gap: the entries after it have other versions and balances."""
    journal = [item for item in ledger.items(ledger.tables.journal) if item["account_id"] == "bob"]
    _, left_out, *later_entries = sorted(journal, key=lambda item: item["account_version"])
    ledger.delete_entry(left_out["transaction_id"], "bob")
    for entry in later_entries:
        version, balance = entry["account_version"] - 1, entry["balance_after"] - left_out["amount"]
        ledger.put_entry(entry | {"account_version": version, "balance_after": balance})
    ledger.change_account("bob", version=version, balance=balance)


def raise_balance(ledger: Reconciled) -> None:
    """A payment that nobody sent, as the newest entry, and the account as it would be after it."""
    account, entry = ledger.account_item(), ledger.entry("t-1")
    request = entry["request"] | {"transaction_id": "t-99", "amount": "10000"}
    version, balance, seal = account["version"] + 1, account["balance"] + 10_000, "0" * 43
    posted = {"account_version": version, "amount": 10_000, "balance_after": balance, "seal": seal}
    ledger.put_entry(entry | {"transaction_id": "t-99", "request": request, "posted_at": account["posted_at"]} | posted)
    ledger.change_account("alice", version=version, balance=balance, seal=seal)


def copy_from_another_account(ledger: Reconciled) -> None:
    """In the place of alice's last entry."""
    last, copy = ledger.entry("t-5"), ledger.entry("t-15", "dave")
    ledger.delete_entry("t-5")
    places = ("account_id", "account_version", "posted_at", "balance_after", "currency")
    ledger.put_entry(copy | {name: last[name] for name in places})


ANOTHER_SENDER = {"sent_by": "AROAEXAMPLE:me", "message_id": "m-1", "sent_at": "2026-03-01T12:00:00.000+00:00"}


def write_a_time_otherwise(ledger: Reconciled) -> None:
    ledger.change_entry("t-7", "bob", posted_at=ledger.entry("t-7", "bob")["posted_at"] + ":00")


def reverse_again(ledger: Reconciled) -> None:
    """A second reversal of p-1 with the number of the first one, as if nobody had looked at the Reversals table."""
    before = ledger.reversed("p-1", "ann")
    ledger.delete_reversed("p-1", "ann")
    ledger.post(reverse("r-9", 2, "ann", "p-1"))
    ledger.change_reversed("p-1", "ann", **before)


def fork_both_sides(ledger: Reconciled) -> None:
    """The last of two reversals of a transfer is the first one once more: both sides agree, and the item with it."""
    for name in ("ann", "ben"):
        change_reversal("r-2", name, number=1, reversed_after=Decimal(5))(ledger)
    ledger.change_reversed("x-1", "ann", version=1, amount=Decimal(5))


def change_an_earlier_amount(ledger: Reconciled) -> None:
    """Of two reversals the first one is as if more had been reversed before, on both sides."""
    ledger.post(reverse("r-9", 1, "ann", "x-1"))
    for name in ("ann", "ben"):
        change_reversal("r-2", name, reversed_after=Decimal(14))(ledger)


PLANTED: Planted = {
    "a changed balance": (change_account("alice", balance=-7), "alice: changed account"),
    "a missing entry": (delete_entry("t-2", "alice"), "alice: missing entry"),
    "the last entry missing": (delete_entry("t-5", "alice"), "alice: missing entry"),
    "an entry twice": (enter_again, "alice: entries twice"),
    "a version gap": (change_entry("t-5", "alice", account_version=7), "alice: missing entry"),
    "an account's version that jumped": (change_account("alice", version=8), "alice: missing entry"),
    "an account of a version that no journal has": (change_account("alice", version=10**30), "alice: missing entry"),
    "a wrong decision": (
        change_entry("t-1", "alice", amount=101, balance_after=101),
        "alice: broken seal, wrong decision",
    ),
    "another request": (copy_request, "alice: broken seal, wrong request"),
    "another description": (describe, "alice: broken seal"),
    "another sender": (change_entry("t-8", "carol", sent=ANOTHER_SENDER), "carol: broken seal"),
    "another seal": (change_entry("t-8", "carol", seal="0" * 43), "carol: broken seal"),
    "two entries swapped": (swap, "bob: broken seal, changed account"),
    "versions given anew": (number_anew, "bob: broken seal"),
    "a raised balance with an entry that says so": (raise_balance, "alice: broken seal"),
    "an entry of another account": (copy_from_another_account, "alice: broken seal, changed account, wrong request"),
    "another currency": (change_entry("t-1", "alice", currency="USD"), "alice: broken seal, wrong currency"),
    "a time in the future": (
        change_entry("t-15", "dave", posted_at="9999-12-31T23:59:59Z"),
        "dave: broken seal, changed account, wrong time",
    ),
    "a transfer of two times": (write_a_time_otherwise, "bob: broken seal, unlike sides; carol: unlike sides"),
    "a transfer of one side": (delete_entry("t-9", "carol"), "bob: one-sided transfer; carol: missing entry"),
    "a transfer that was rejected on one side": (
        reject("t-7", "bob", reason="OVERDRAFT_LIMIT", amount=0),
        "bob: broken seal, unlike sides, wrong decision; carol: unlike sides",
    ),
    "a transfer that another account rejected": (
        change_entry("t-8", "carol", rejecting_account_id="bob"),
        "bob: unlike sides; carol: broken seal, unlike sides, wrong decision",
    ),
    "an entry that can't be read": (
        change_entry("t-1", "alice", request={"type": "magic"}),
        "alice: broken seal, unreadable entry",
    ),
}
HELD_PLANTED: Planted = {
    "another sum of holds": (change_account("ann", held=22), "ann: changed account"),
    "another remainder of a hold": (
        change_account("ann", holds={"h-1": H_1 | {"remaining": 17}, "h-4": H_4}),
        "ann: changed account",
    ),
    "a hold that is gone": (change_account("ann", holds={"h-1": H_1}), "ann: changed account"),
    "a hold's entry deleted": (delete_entry("h-2", "ann"), "ann: missing entry; ben: wrong decision"),
    "the payer's side of a posted hold deleted": (
        delete_entry("q-1", "ann"),
        "ann: missing entry; ben: one-sided transfer",
    ),
    "a hold that was voided, and not": (
        reject("q-3", "ann", reason="HOLD_NOT_OPEN", held_after=28),
        "ann: broken seal, changed account, wrong decision",
    ),
    "another number on one side": (
        change_reversal("r-2", "ben", number=1),
        "ann: unlike sides; ben: broken seal, unlike sides, wrong decision",
    ),
    "another sum on one side": (
        change_reversal("r-2", "ann", reversed_after=16),
        "ann: broken seal, unlike sides, wrong reversal; ben: unlike sides",
    ),
    "more reversed than there was": (
        change_reversal("r-3", "ann", reversed_after=102),
        "ann: broken seal, wrong decision, wrong reversal",
    ),
    "another account on one side": (
        change_reversal("r-2", "ann", other_account_ids=["carl"]),
        "ann: broken seal, one-sided transfer",
    ),
    "an account that nobody can have": (
        change_reversal("r-2", "ann", other_account_ids=[""]),
        "ann: broken seal, one-sided transfer",
    ),
    "one side of a reversal deleted": (delete_entry("r-2", "ben"), "ann: one-sided transfer; ben: missing entry"),
    "the reversed entry deleted": (
        delete_entry("x-1", "ann"),
        "ann: missing entry; ben: one-sided transfer, wrong decision",
    ),
    "a second reversal of one number": (reverse_again, "ann: wrong reversal"),
    "a first reversal for a second one": (
        fork_both_sides,
        "ann: broken seal, wrong reversal; ben: broken seal, wrong reversal",
    ),
    "more reversed before a reversal": (change_an_earlier_amount, "ann: broken seal; ben: broken seal"),
    "a raised count": (change_reversed("x-1", "ann", version=3), "ann: wrong reversal"),
    "a raised count, of a later version": (
        change_reversed("x-1", "ann", version=3, account_version=10**9),
        "ann: wrong reversals",
    ),
    "a lowered count": (change_reversed("x-1", "ann", version=1), "ann: wrong reversal; ben: wrong reversal"),
    "a lowered sum": (change_reversed("r-1", "ben", amount=9), "ann: wrong reversal; ben: wrong reversal"),
    "another last reversal": (
        change_reversed("x-1", "ann", reversed_by="r-3"),
        "ann: wrong reversal; ben: wrong reversal",
    ),
    "another version of a reversal": (change_reversed("x-1", "ann", account_version=14), "ann: wrong reversal"),
    "what was reversed deleted": (delete_reversed("p-1", "ann"), "ann: wrong reversal"),
    "a transaction that was never reversed": (change_reversed("p-2", "ben"), "ben: wrong reversals"),
    "one that was never reversed, of a later version": (
        change_reversed("p-2", "ben", account_version=10**9),
        "ben: wrong reversals",
    ),
    "what was reversed unreadable": (
        change_reversed("x-1", "ann", amount="15"),
        "ann: wrong reversal; ben: wrong reversal",
    ),
}
