"""One id on several homes, in every order: no choice of ids by one payer concerns another."""

from collections.abc import Callable

import pytest

from tests.explore.bank import Opened, each_once, posting
from tests.explore.scenario import Scenario
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
    Scenario(
        "two payers of one payee, who has used the id too",
        [posting(0, PAID), posting(1, CENT), posting(2, OWN)],
        FUNDED,
        each_once(PAID, CENT, OWN),
        completes=False,
    ),
    Scenario(
        "an attacker's cent under a guessed id, before and after the payment, in one batch",
        [posting(0, CENT, PAID), posting(1, PAID, CENT)],
        FUNDED,
        each_once(PAID, CENT),
        completes=False,
    ),
    Scenario(
        "refunds of two merchants under one id",
        [posting(number, refund) for number, refund in enumerate(REFUNDS)],
        SOLD,
        each_once(*REFUNDS),
        completes=False,
    ),
    Scenario(
        "a refund by the merchant, and one by the customer under the same id",
        [posting(0, REFUNDS[0]), posting(1, OTHER_SIDE)],
        SOLD,
        each_once(REFUNDS[0], OTHER_SIDE),
        completes=False,
    ),
]


@pytest.mark.timeout(1800)  # with --all, three workers take 20,000 orders and more: ten minutes of CPU
@pytest.mark.parametrize("scenario", SCENARIOS, ids=str)
def test_in_every_order(scenario: Scenario, holds_in_every_order: Callable[[Scenario], None]) -> None:
    holds_in_every_order(scenario)
