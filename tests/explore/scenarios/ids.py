"""One id on several homes, in every order: no choice of ids by one payer concerns another."""

from tests.explore.bank import Opened, at_once
from tests.support.bodies import openings, payment, reverse, transfer

FUNDED = Opened(*openings("alice", "carol", "shop"), payment("in", 500, "alice"), payment("in", 500, "carol"))
PAID, CENT = transfer("order-1001", 499, "alice", "shop"), transfer("order-1001", "0.01", "carol", "shop")
OWN = payment("order-1001", 5, "shop")
SOLD = Opened(
    *openings("alice", "mia", "max"),
    payment("in", 100, "mia"),
    payment("in", 100, "max"),
    transfer("sale", 10, "mia", "alice"),
    transfer("sale", 20, "max", "alice"),
)
REFUNDS = [reverse("refund-17", None, name, "sale") for name in ("mia", "max")]
OTHER_SIDE = reverse("refund-17", None, "alice", "sale", of_account_id="mia")

SCENARIOS = [
    at_once("two payers of one payee, who has used the id too", FUNDED, PAID, CENT, OWN, completes=False),
    at_once(
        "an attacker's cent under a guessed id, before and after the payment, in one batch",
        FUNDED,
        (CENT, PAID),
        (PAID, CENT),
        completes=False,
    ),
    at_once("refunds of two merchants under one id", SOLD, *REFUNDS, completes=False),
    at_once(
        "a refund by the merchant, and one by the customer under the same id",
        SOLD,
        REFUNDS[0],
        OTHER_SIDE,
        completes=False,
    ),
]
