"""Reversals of one transaction through several of its accounts, at once."""

from tests.explore.bank import Opened, at_once
from tests.support.bodies import compound, opening, payment, reverse, transfer

SENT = Opened(opening("alice"), opening("bob"), payment("first", 100), transfer("t-1", 50), payment("p-1", -20))
THIS_SIDE, OTHER_SIDE = reverse("r-1", 30, "alice"), reverse("r-2", 30, "bob", of_account_id="alice")
TOO_MUCH = reverse("r-5", 51, "bob", of_account_id="alice")
SALE = compound("c-1", alice=-10, bob=9, fees=1)
BACK, BACK_BY_BOB = reverse("r-6", of_transaction_id="c-1"), reverse("r-7", None, "bob", "c-1", of_account_id="alice")
SOLD = Opened(opening("alice"), opening("bob"), opening("fees"), payment("first", 100), SALE)
NOT_YET_SOLD = Opened(opening("alice"), opening("bob"), opening("fees"), payment("first", 100))

SCENARIOS = [
    at_once("reversals through both sides don't exceed the transfer", SENT, THIS_SIDE, OTHER_SIDE, completes=False),
    at_once(
        "two reversals of one payment don't exceed it",
        SENT,
        reverse("r-3", 15, of_transaction_id="p-1"),
        reverse("r-4", of_transaction_id="p-1"),
    ),
    at_once("a reversal and a payment of its money both count", SENT, OTHER_SIDE, payment("p-2", -40, "bob")),
    at_once(
        "a reversal that depends on another's rejection is decided as things are",
        SENT,
        TOO_MUCH,
        OTHER_SIDE,
        TOO_MUCH,
        completes=False,
    ),
    at_once(
        "a reversal that crosses its compound's second delivery is of one compound",
        NOT_YET_SOLD,
        SALE,
        (SALE, BACK),
        again=[1],
    ),
    at_once("a compound is reversed once, by whichever of its accounts", SOLD, BACK, BACK_BY_BOB),
]
