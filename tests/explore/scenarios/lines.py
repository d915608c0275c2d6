"""Workers in the line of a contended account, with tickets that live and tickets that nobody holds any more."""

from conditional_writes import Item
from tests.explore.bank import LOCKS, NOW, Bank, Opened, at_once
from tests.support.bodies import compound, opening, payment, transfer

SERVED = 40
MARK: Item = {"ticket_served": SERVED, "contended_until": int(NOW.timestamp() + 8) * 1000}
A, B, C = payment("p-1", 10), payment("p-2", -20), payment("p-3", 5)
OPENINGS = [opening("alice"), opening("bob"), payment("first", 50)]


def in_line(last_ticket: int | None) -> Opened:
    """The account is contended. Its line has a record of the last ticket if there is one."""

    def change(bank: Bank) -> None:
        bank.change_account("alice", **MARK)
        if last_ticket is not None:
            bank.put(LOCKS, {"lock_key": "line alice", "last_ticket": last_ticket})

    return Opened(*OPENINGS, then=change)


SCENARIOS = [
    at_once("two workers commit in turn", in_line(SERVED), A, B),
    at_once("a line goes on behind a dead ticket", in_line(SERVED + 1), A, B),
    at_once("a line goes on behind many dead tickets", in_line(SERVED + 9), A, B, completes=False),
    at_once("a line goes on if its record is new", in_line(None), A, B, completes=False),
    at_once("three workers with two deliveries of one message commit once", in_line(SERVED), A, A, C, completes=False),
    at_once(
        "a transfer between accounts with lines commits beside their payments",
        Opened(*OPENINGS, then=lambda bank: [bank.change_account(name, **MARK) for name in ("alice", "bob")]),
        transfer("t-1", 15),
        A,
        payment("p-4", 3, "bob"),
        completes=False,
    ),
]

MESH = ("alice", "bob", "carol", "dave", "erin")
IN_MESH = Opened(
    *(opening(name) for name in MESH),
    *(payment("first", 50, name) for name in MESH),
    then=lambda bank: [bank.change_account(name, **MARK) for name in MESH],
)
SCENARIOS += [
    at_once(
        "two compounds of five contended accounts commit in a shared turn",
        IN_MESH,
        compound("c-1", alice=-10, bob=4, carol=3, dave=2, erin=1),
        compound("c-2", erin=-10, dave=4, carol=3, bob=2, alice=1),
    ),
    at_once(
        "a shared turn beside a payment in a line",
        IN_MESH,
        compound("c-1", alice=-10, bob=4, carol=3, dave=2, erin=1),
        A,
    ),
]
