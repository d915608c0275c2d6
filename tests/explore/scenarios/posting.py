"""Payments and transfers of the same accounts, and deliveries of the same message, at once."""

from tests.explore.bank import Opened, at_once
from tests.support.bodies import closing, compound, opening, payment, set_limit, transfer

PAYMENT, COUNTER = payment("p-1", 40), payment("p-2", -70)
TRANSFER, BACK = transfer("t-1", 60), transfer("t-2", 30, "bob", "alice")
SALE, CROSSWISE = compound("c-1", alice=-10, bob=9, fees=1), compound("c-2", bob=-10, fees=1, alice=9)
OPENED = [opening("alice", -20), opening("bob"), payment("first", 50), payment("first", 40, "bob")]
BOTH, WITH_FEES = Opened(*OPENED), Opened(*OPENED, opening("fees"))

SCENARIOS = [
    at_once("two deliveries of one payment post it once", BOTH, PAYMENT, PAYMENT),
    at_once("a redelivery beside the first delivery posts the payment once", BOTH, PAYMENT, PAYMENT, again=[1]),
    at_once("a redelivery and another payment both count", BOTH, COUNTER, PAYMENT, again=[0]),
    at_once("three deliveries of one transfer post it once", BOTH, *[TRANSFER] * 3, completes=False),
    at_once("two deliveries of an opening make one account", BOTH, *[opening("carol")] * 2),
    at_once("a payment and a transfer of one account both count", BOTH, COUNTER, TRANSFER),
    at_once("two transfers back and forth both count", BOTH, TRANSFER, BACK),
    at_once("two compounds that share accounts crosswise both count", WITH_FEES, SALE, CROSSWISE),
    at_once("a compound and a transfer of its second account both count", WITH_FEES, SALE, BACK),
    at_once("of two payments the balance covers one", BOTH, payment("p-3", -60), payment("p-4", -60)),
    at_once(
        "a batch and its messages in another batch are posted once",
        BOTH,
        (PAYMENT, TRANSFER),
        (TRANSFER, BACK),
        completes=False,
    ),
    at_once(
        "a closing, a limit and a payment leave the account sound",
        BOTH,
        closing("close", "bob"),
        set_limit("l-1", -5, "bob"),
        BACK,
        completes=False,
    ),
]
