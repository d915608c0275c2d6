"""Books with holds and reversals, and the damage that tests plant in them."""

from collections.abc import Callable
from decimal import Decimal
from typing import Any

from conditional_writes.items import from_dynamodb, to_dynamodb
from tests.support.reconciling import Bank, opening, payment, transfer


def message(kind: str, transaction_id: str, account_id: str, **fields: object) -> dict[str, Any]:
    return {"type": kind, "transaction_id": transaction_id, "account_id": account_id} | fields


EXPIRY = "2026-05-01T00:00:00+00:00"
HELD_BOOKS = [
    opening("ann"),
    opening("ben"),
    payment("p-1", "ann", 100),
    message("hold", "h-1", "ann", amount=30, expires_at=EXPIRY),
    message("hold", "h-2", "ann", amount=20),
    message("hold", "h-3", "ann", amount=10),
    message("post_hold", "q-1", "ann", hold_id="h-1", amount=12, final=False, to_account_id="ben"),
    message("post_hold", "q-2", "ann", hold_id="h-2"),
    message("void_hold", "q-3", "ann", hold_id="h-3"),
    message("hold", "h-4", "ann", amount=5),
    message("expire_hold", "q-4", "ann", hold_id="h-1", as_of="2026-04-01T00:00:00Z"),  # Rejected.
    message("void_hold", "q-5", "ann", hold_id="h-2"),  # Rejected.
    message("post_hold", "q-6", "ann", hold_id="h-2", to_account_id="ben"),  # Rejected.
    message("hold", "h-5", "ann", amount=10_000),  # Rejected.
    transfer("x-1", "ann", "ben", 40),
    message("reverse", "r-1", "ben", of_transaction_id="x-1", amount=10),
    message("reverse", "r-2", "ann", of_transaction_id="x-1", amount=5),
    message("reverse", "r-3", "ann", of_transaction_id="p-1", amount=2),
    message("reverse", "r-4", "ann", of_transaction_id="x-1", amount=100),  # Rejected.
    message("reverse", "r-5", "ann", of_transaction_id="r-1"),
    payment("p-2", "ben", 1),
]
"""At the end two of Ann's holds are open: h-1 with 18, and h-4 with 5."""


def change_hold(bank: Bank, hold_id: str, **changes: Any) -> None:
    holds = bank.accounts()["ann"]["holds"]
    bank.change_account("ann", holds=holds | {hold_id: holds.get(hold_id, {}) | changes})


def drop_hold(bank: Bank, hold_id: str) -> None:
    holds = bank.accounts()["ann"]["holds"]
    bank.change_account("ann", holds={name: hold for name, hold in holds.items() if name != hold_id})


def change_reversal(bank: Bank, account_id: str, transaction_id: str, **changes: Any) -> None:
    reversal = bank.entry(account_id, transaction_id)["reversal"]
    bank.change_entry(account_id, transaction_id, reversal=reversal | changes)


def drop_from_entry(bank: Bank, account_id: str, transaction_id: str, name: str) -> None:
    entry = bank.entry(account_id, transaction_id)
    bank.put_entry({other: value for other, value in entry.items() if other != name})


def reversed_item(bank: Bank, account_id: str, transaction_id: str) -> dict[str, Any]:
    at = to_dynamodb({"account_id": account_id, "transaction_id": transaction_id})
    return from_dynamodb(bank.client.get_item(TableName=bank.tables.reversals, Key=at).get("Item", {}))


def change_reversed(bank: Bank, account_id: str, transaction_id: str, /, **changes: Any) -> None:
    """Changes an item of the Reversals table, or adds one."""
    key = {"account_id": account_id, "transaction_id": transaction_id}
    added = {"amount": Decimal(1), "version": 1, "reversed_by": "r-9", "account_version": 3}
    item = (reversed_item(bank, account_id, transaction_id) or added) | key | changes
    bank.client.put_item(TableName=bank.tables.reversals, Item=to_dynamodb(item))


def delete_reversed(bank: Bank, account_id: str, transaction_id: str) -> None:
    at = to_dynamodb({"account_id": account_id, "transaction_id": transaction_id})
    bank.client.delete_item(TableName=bank.tables.reversals, Key=at)


def reverse_again(bank: Bank) -> None:
    """A second reversal of p-1 with the number of the first one, as if nobody had looked at the Reversals table."""
    before = reversed_item(bank, "ann", "p-1")
    delete_reversed(bank, "ann", "p-1")
    bank.post([message("reverse", "r-9", "ann", of_transaction_id="p-1", amount=2)])
    change_reversed(bank, "ann", "p-1", **before)


def reverse_again_and_win(bank: Bank) -> None:
    """The same, and its item stays."""
    delete_reversed(bank, "ann", "p-1")
    bank.post([message("reverse", "r-9", "ann", of_transaction_id="p-1", amount=2)])


def fork_both_sides(bank: Bank) -> None:
    """The last of two reversals of a transfer is the first one once more: both sides agree, and the item with it."""
    for name in ("ann", "ben"):
        change_reversal(bank, name, "r-2", number=1, reversed_after=Decimal(5))
    change_reversed(bank, "ann", "x-1", version=1, amount=Decimal(5))


def change_an_earlier_amount(bank: Bank) -> None:
    """Of two reversals the first one is as if more had been reversed before, on both sides."""
    bank.post([message("reverse", "r-9", "ann", of_transaction_id="x-1", amount=1)])
    for name in ("ann", "ben"):
        change_reversal(bank, name, "r-2", reversed_after=Decimal(14))


HELD_PLANTED: dict[str, tuple[Callable[[Bank], None], set[str]]] = {
    "another sum of holds": (
        lambda bank: bank.change_account("ann", held=22),
        {"ann: changed account: held is 22, the journal gives 23"},
    ),
    "another remainder of a hold": (
        lambda bank: change_hold(bank, "h-1", remaining=17),
        {"ann: changed account: hold h-1 is 17 until 2026-05-01T00:00:00+00:00, the journal gives 18 until"},
    ),
    "another expiry of a hold": (
        lambda bank: change_hold(bank, "h-1", expires_at="2027-05-01T00:00:00+00:00"),
        {"ann: changed account: hold h-1 is 18 until 2027-05-01T00:00:00+00:00, the journal gives 18 until"},
    ),
    "a hold that was never placed": (
        lambda bank: change_hold(bank, "h-9", remaining=1),
        {"ann: changed account: hold h-9 is 1, the journal gives none"},
    ),
    "a hold that is gone": (
        lambda bank: drop_hold(bank, "h-4"),
        {"ann: changed account: hold h-4 is none, the journal gives 5"},
    ),
    "all holds gone": (
        lambda bank: bank.change_account("ann", holds={}, held=0),
        {"ann: changed account: held is 0, the journal gives 23; holds is empty, the journal gives h-1 of"},
    ),
    "a first hold": (
        lambda bank: bank.change_account("ben", holds={"h-9": {"remaining": 1}}, held=1),
        {"ben: changed account: held is 1, the journal gives 0; holds is h-9 of 1, the journal gives none"},
    ),
    "other decimals": (
        lambda bank: bank.change_account("ben", decimal_places=3),
        {"ben: changed account: decimal_places is 3, the journal gives 2"},
    ),
    "another sum of holds in an entry": (
        lambda bank: bank.change_entry("ann", "h-2", held_after=49),
        {"ann: wrong decision: version 4, h-2: it is POSTED 0, balance 100, held 49, expected POSTED 0,"},
    ),
    "no sum of holds in an entry": (
        lambda bank: drop_from_entry(bank, "ann", "h-2", "held_after"),
        {"ann: wrong decision: version 4, h-2: it is POSTED 0, balance 100, expected POSTED 0, balance 100,"},
    ),
    "a sum of holds in an entry without": (
        lambda bank: bank.change_entry("ben", "q-1", held_after=1),
        {"ben: wrong decision: version 2, q-1: it is POSTED 12, balance 12, held 1, expected POSTED 12,"},
    ),
    "other decimals in an opening": (
        lambda bank: bank.change_entry("ann", "open-ann", decimal_places=3),
        {"ann: changed account: decimal_places is 2, the journal gives 3"},
    ),
    "no decimals in an opening": (
        lambda bank: drop_from_entry(bank, "ann", "open-ann", "decimal_places"),
        {"ann: changed account: decimal_places is 2, the journal gives none"},
    ),
    "a hold's entry deleted": (
        lambda bank: bank.delete_entry("ann", "h-2"),
        {
            "ann: missing entry: the account is at version 19, and this one has no entry",
            "ben: wrong decision: version 3, q-6: it is REJECTED 0, HOLD_NOT_OPEN, balance 12, expected",
        },
    ),
    "the payer's side of a posted hold deleted": (
        lambda bank: bank.delete_entry("ann", "q-1"),
        {
            "ann: missing entry: the account is at version 19, and this one has no entry",
            "ben: one-sided transfer: version 2, q-1: on ann no entry of it can be read",
        },
    ),
    "the payee's side of a posted hold deleted": (
        lambda bank: bank.delete_entry("ben", "q-1"),
        {
            "ann: one-sided transfer: version 6, q-1: on ben no entry of it can be read",
            "ben: missing entry: the account is at version 9, and this one has no entry",
        },
    ),
    "a posted hold of another amount": (
        lambda bank: bank.change_entry("ann", "q-2", amount=-19, balance_after=69),
        {"ann: wrong decision: version 7, q-2: it is POSTED -19, balance 69, held 28, expected POSTED -20,"},
    ),
    "a hold that was voided, and not": (
        lambda bank: bank.change_entry("ann", "q-3", status="REJECTED", reason="HOLD_NOT_OPEN", held_after=28),
        {
            "ann: wrong decision: version 8, q-3: it is REJECTED 0, HOLD_NOT_OPEN, balance 68, held 28,",
            "ann: changed account: held is 23, the journal gives 33; hold h-3 is none, the journal gives 10",
        },
    ),
    "a hold that wasn't open, and was voided": (
        lambda bank: bank.put_entry(
            {name: value for name, value in bank.entry("ann", "q-5").items() if name != "reason"} | {"status": "POSTED"}
        ),
        {"ann: wrong decision: version 11, q-5: it is POSTED 0, balance 68, held 23, expected REJECTED 0,"},
    ),
    "another number of a reversal": (
        lambda bank: change_reversal(bank, "ann", "r-3", number=2),
        {
            "ann: wrong decision: version 17, r-3: it is POSTED -2, balance 41, held 23, reversal 2, reversed",
            "ann: wrong reversal: version 17, r-3: of p-1 on ann it is reversal 2, reversed 2, the table",
            "ann: wrong reversals: the table Reversals has 3 reversals of its transactions, but of other",
        },
    ),
    "another number on one side": (
        lambda bank: change_reversal(bank, "ben", "r-2", number=1),
        {
            "ann: unlike sides: version 16, r-2: here POSTED 5, balance 43, held 23, reversal 2, reversed 15,",
            "ben: unlike sides: version 6, r-2: here POSTED -5, balance 37, reversal 1, reversed 15, the other",
            "ben: wrong decision: version 6, r-2: it is POSTED -5, balance 37, reversal 1, reversed 15, the",
        },
    ),
    "another sum on one side": (
        lambda bank: change_reversal(bank, "ann", "r-2", reversed_after=16),
        {
            "ann: unlike sides: version 16, r-2: here POSTED 5, balance 43, held 23, reversal 2, reversed 16,",
            "ann: wrong reversal: version 16, r-2: of x-1 on ann it is reversal 2, reversed 16, the other",
            "ann: wrong reversals: the table Reversals has 3 reversals of its transactions, but of other",
            "ben: unlike sides: version 6, r-2: here POSTED -5, balance 37, reversal 2, reversed 15, the other",
        },
    ),
    "more reversed than there was": (
        lambda bank: change_reversal(bank, "ann", "r-3", reversed_after=102),
        {
            "ann: wrong decision: version 17, r-3: it is POSTED -2, balance 41, held 23, reversal 1, reversed",
            "ann: wrong reversal: version 17, r-3: of p-1 on ann it is reversal 1, reversed 102, the table",
            "ann: wrong reversals: the table Reversals has 3 reversals of its transactions, but of other",
        },
    ),
    "another account on one side": (
        lambda bank: change_reversal(bank, "ann", "r-2", other_account_id="carl"),
        {"ann: one-sided transfer: version 16, r-2: on carl no entry of it can be read"},
    ),
    "an account that nobody can have": (
        lambda bank: change_reversal(bank, "ann", "r-2", other_account_id=""),
        {"ann: one-sided transfer: version 16, r-2: its other account is none, expected ben"},
    ),
    "no reversal in the entry": (
        lambda bank: drop_from_entry(bank, "ann", "r-3", "reversal"),
        {
            "ann: wrong decision: version 17, r-3: it is POSTED -2, balance 41, held 23, expected POSTED -2,",
            "ann: wrong reversals: the table Reversals has 3 reversals of its transactions, the journal gives 2",
        },
    ),
    "a reversal in an entry without": (
        lambda bank: bank.change_entry("ben", "p-2", reversal={"number": 1, "reversed_after": 1}),
        {"ben: wrong decision: version 9, p-2: it is POSTED 1, balance 48, reversal 1, reversed 1, expected"},
    ),
    "one side of a reversal deleted": (
        lambda bank: bank.delete_entry("ben", "r-2"),
        {
            "ann: one-sided transfer: version 16, r-2: on ben no entry of it can be read",
            "ben: missing entry: the account is at version 9, and this one has no entry",
        },
    ),
    "the other side of a reversal deleted": (
        lambda bank: bank.delete_entry("ann", "r-2"),
        {
            "ann: missing entry: the account is at version 19, and this one has no entry",
            "ben: one-sided transfer: version 6, r-2: on ann no entry of it can be read",
        },
    ),
    "the reversed entry deleted": (
        lambda bank: bank.delete_entry("ann", "x-1"),
        {
            "ann: missing entry: the account is at version 19, and this one has no entry",
            "ben: one-sided transfer: version 4, x-1: on ann no entry of it can be read",
            "ben: wrong decision: version 6, r-2: it is POSTED -5, balance 37, reversal 2, reversed 15, the",
        },
    ),
    "a second reversal of one number": (
        reverse_again,
        {
            "ann: wrong reversal: version 20, r-9: of p-1 on ann it is reversal 1, reversed 2, the table",
            "ann: wrong reversals: the table Reversals has 3 reversals of its transactions, the journal gives 4",
        },
    ),
    "a second reversal of one number, which won": (
        reverse_again_and_win,
        {
            "ann: wrong reversal: version 17, r-3: of p-1 on ann it is reversal 1, reversed 2, the table",
            "ann: wrong reversals: the table Reversals has 3 reversals of its transactions, the journal gives 4",
        },
    ),
    "a first reversal for a second one": (
        fork_both_sides,
        {
            "ann: wrong reversal: version 15, r-1: of x-1 on ann it is reversal 1, reversed 10, the other",
            "ann: wrong reversals: the table Reversals has 2 reversals of its transactions, the journal gives 3",
            "ben: wrong reversal: version 5, r-1: of x-1 on ann it is reversal 1, reversed 10, the other",
        },
    ),
    "more reversed before a reversal": (
        change_an_earlier_amount,
        {"ann: wrong reversals: the table Reversals has 4 reversals of its transactions, but of other"},
    ),
    "a raised count": (
        lambda bank: change_reversed(bank, "ann", "x-1", version=3),
        {"ann: wrong reversals: the table Reversals has 4 reversals of its transactions, the journal gives 3"},
    ),
    "a lowered count": (
        lambda bank: change_reversed(bank, "ann", "x-1", version=1),
        {
            "ann: wrong reversal: version 15, r-1: of x-1 on ann it is reversal 1, reversed 10, the other",
            "ann: wrong reversals: the table Reversals has 2 reversals of its transactions, the journal gives 3",
            "ben: wrong reversal: version 5, r-1: of x-1 on ann it is reversal 1, reversed 10, the other",
        },
    ),
    "a raised sum": (
        lambda bank: change_reversed(bank, "ann", "x-1", amount=16),
        {
            "ann: wrong reversal: version 16, r-2: of x-1 on ann it is reversal 2, reversed 15, the other",
            "ann: wrong reversals: the table Reversals has 3 reversals of its transactions, but of other",
            "ben: wrong reversal: version 6, r-2: of x-1 on ann it is reversal 2, reversed 15, the other",
        },
    ),
    "a lowered sum": (
        lambda bank: change_reversed(bank, "ben", "r-1", amount=9),
        {
            "ann: wrong reversal: version 19, r-5: of r-1 on ben it is reversal 1, reversed 10, the other",
            "ben: wrong reversal: version 8, r-5: of r-1 on ben it is reversal 1, reversed 10, the other",
            "ben: wrong reversals: the table Reversals has 1 reversals of its transactions, but of other",
        },
    ),
    "another last reversal": (
        lambda bank: change_reversed(bank, "ann", "x-1", reversed_by="r-3"),
        {
            "ann: wrong reversal: version 16, r-2: of x-1 on ann it is reversal 2, reversed 15, the other",
            "ben: wrong reversal: version 6, r-2: of x-1 on ann it is reversal 2, reversed 15, the other",
        },
    ),
    "another version of a reversal": (
        lambda bank: change_reversed(bank, "ann", "x-1", account_version=14),
        {"ann: wrong reversal: version 16, r-2: of x-1 on ann it is reversal 2, reversed 15, the other"},
    ),
    "what was reversed deleted": (
        lambda bank: delete_reversed(bank, "ann", "p-1"),
        {
            "ann: wrong reversal: version 17, r-3: of p-1 on ann it is reversal 1, reversed 2, the table",
            "ann: wrong reversals: the table Reversals has 2 reversals of its transactions, the journal gives 3",
        },
    ),
    "a transaction that was never reversed": (
        lambda bank: change_reversed(bank, "ben", "p-2"),
        {"ben: wrong reversals: the table Reversals has 2 reversals of its transactions, the journal gives 1"},
    ),
    "one that was never reversed, of a later version": (
        lambda bank: change_reversed(bank, "ben", "p-2", account_version=10**9),
        {"ben: wrong reversals: the table Reversals has an item of p-2 of version 1000000000, the account"},
    ),
    "what was reversed unreadable": (
        lambda bank: change_reversed(bank, "ann", "x-1", amount="15"),
        {
            "ann: wrong reversal: version 15, r-1: of x-1 on ann it is reversal 1, reversed 10, the other",
            "ann: wrong reversals: the table Reversals has an item of x-1 that can't be read: TypeError:",
            "ben: wrong reversal: version 5, r-1: of x-1 on ann it is reversal 1, reversed 10, the other",
        },
    ),
}
