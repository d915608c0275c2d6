"""Workers in the line of a contended account, with tickets that live and tickets that nobody holds any more."""

from collections.abc import Callable

import pytest

from conditional_writes import Item
from tests.explore.bank import LOCKS, NOW, Bank, Opened, each_once, posting
from tests.explore.scenario import Scenario
from tests.support.bodies import opening, payment, transfer

SERVED = 40
MARK: Item = {"ticket_served": SERVED, "contended_until": int(NOW.timestamp() + 8) * 1000}
A, B, C = payment("p-1", 10), payment("p-2", -20), payment("p-3", 5)
OPENINGS = [opening("alice"), opening("bob"), payment("first", 50)]


def contended(last_ticket: int | None) -> Callable[[Bank], None]:
    """The account's line, with a record of the last ticket if there is one."""

    def change(bank: Bank) -> None:
        bank.change_account("alice", **MARK)
        if last_ticket is not None:
            bank.put(LOCKS, {"lock_key": "line alice", "last_ticket": last_ticket})

    return change


def of_two(last_ticket: int | None) -> dict[str, object]:
    return {
        "workers": [posting(0, A), posting(1, B)],
        "setup": Opened(*OPENINGS, then=contended(last_ticket)),
        "check": each_once(A, B),
    }


SCENARIOS = [
    Scenario("two workers commit in turn", **of_two(SERVED)),
    Scenario("a line goes on behind a dead ticket", **of_two(SERVED + 1)),
    Scenario("a line goes on if its record is new", **of_two(None), completes=False),
    Scenario(
        "three workers with two deliveries of one message commit once",
        [posting(0, A), posting(1, A), posting(2, C)],
        Opened(*OPENINGS, then=contended(SERVED)),
        each_once(A, C),
        completes=False,
    ),
    Scenario(
        "a transfer between accounts with lines commits beside their payments",
        [posting(0, transfer("t-1", 15)), posting(1, A), posting(2, payment("p-4", 3, "bob"))],
        Opened(*OPENINGS, then=lambda bank: [bank.change_account(name, **MARK) for name in ("alice", "bob")]),
        each_once(transfer("t-1", 15), A, payment("p-4", 3, "bob")),
        completes=False,
    ),
]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=str)
def test_in_every_order(scenario: Scenario, holds_in_every_order: Callable[[Scenario], None]) -> None:
    holds_in_every_order(scenario)
