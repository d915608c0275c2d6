"""Payments and transfers of the same accounts, and deliveries of the same message, at once."""

from collections.abc import Callable

import pytest

from tests.explore.bank import Opened, each_once, posting
from tests.explore.scenario import Scenario
from tests.support.bodies import closing, compound, opening, payment, set_limit, transfer

PAYMENT, COUNTER = payment("p-1", 40), payment("p-2", -70)
TRANSFER, BACK = transfer("t-1", 60), transfer("t-2", 30, "bob", "alice")
SALE, CROSSWISE = compound("c-1", alice=-10, bob=9, fees=1), compound("c-2", bob=-10, fees=1, alice=9)
OPENED = [opening("alice", -20), opening("bob"), payment("first", 50), payment("first", 40, "bob")]
BOTH, WITH_FEES = Opened(*OPENED), Opened(*OPENED, opening("fees"))

SCENARIOS = [
    Scenario(
        "two deliveries of one payment post it once",
        [posting(0, PAYMENT), posting(1, PAYMENT)],
        BOTH,
        each_once(PAYMENT),
    ),
    Scenario(
        "a redelivery beside the first delivery posts the payment once",
        [posting(0, PAYMENT), posting(1, PAYMENT, receive_count=2)],
        BOTH,
        each_once(PAYMENT),
    ),
    Scenario(
        "a redelivery and another payment both count",
        [posting(0, COUNTER, receive_count=2), posting(1, PAYMENT)],
        BOTH,
        each_once(COUNTER, PAYMENT),
    ),
    Scenario(
        "three deliveries of one transfer post it once",
        [posting(0, TRANSFER), posting(1, TRANSFER), posting(2, TRANSFER)],
        BOTH,
        each_once(TRANSFER),
        completes=False,
    ),
    Scenario(
        "two deliveries of an opening make one account",
        [posting(0, opening("carol")), posting(1, opening("carol"))],
        BOTH,
        each_once(opening("carol")),
    ),
    Scenario(
        "a payment and a transfer of one account both count",
        [posting(0, COUNTER), posting(1, TRANSFER)],
        BOTH,
        each_once(COUNTER, TRANSFER),
    ),
    Scenario(
        "two transfers back and forth both count",
        [posting(0, TRANSFER), posting(1, BACK)],
        BOTH,
        each_once(TRANSFER, BACK),
    ),
    Scenario(
        "two compounds that share accounts crosswise both count",
        [posting(0, SALE), posting(1, CROSSWISE)],
        WITH_FEES,
        each_once(SALE, CROSSWISE),
    ),
    Scenario(
        "a compound and a transfer of its second account both count",
        [posting(0, SALE), posting(1, BACK)],
        WITH_FEES,
        each_once(SALE, BACK),
    ),
    Scenario(
        "of two payments the balance covers one",
        [posting(0, payment("p-3", -60)), posting(1, payment("p-4", -60))],
        BOTH,
        each_once(payment("p-3", -60), payment("p-4", -60)),
    ),
    Scenario(
        "a batch and its messages in another batch are posted once",
        [posting(0, PAYMENT, TRANSFER), posting(1, TRANSFER, BACK)],
        BOTH,
        each_once(PAYMENT, TRANSFER, BACK),
        completes=False,
    ),
    Scenario(
        "a closing, a limit and a payment leave the account sound",
        [posting(0, closing("close", "bob")), posting(1, set_limit("l-1", -5, "bob")), posting(2, BACK)],
        BOTH,
        each_once(closing("close", "bob"), set_limit("l-1", -5, "bob"), BACK),
        completes=False,
    ),
]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=str)
def test_in_every_order(scenario: Scenario, holds_in_every_order: Callable[[Scenario], None]) -> None:
    holds_in_every_order(scenario)
