"""The patience and the pauses of a group that waits in an account's line."""

import itertools
from collections.abc import Iterator

import pytest

from conditional_writes import Deadline, Item, Key
from conditional_writes.testing import Clock
from ledger import lines
from ledger.lines import LONGEST_PAUSE_SECONDS, Lines, Ticket
from tests.support.folding import NOBODY, TABLES

ACCOUNT = TABLES.account_key("alice")
LINES = Lines(NOBODY, "locks")


@pytest.fixture
def clock() -> Iterator[Clock]:
    with Clock(0).simulated_time() as clock:
        yield clock


def looks(monkeypatch: pytest.MonkeyPatch, clock: Clock, *served: int) -> list[float]:
    """When the account is looked at. Each look takes 4 ms, and the last ticket served stays."""
    at: list[float] = []
    numbers = itertools.chain(served, itertools.repeat(served[-1]))

    def read_one(_: object, key: Key, deadline: Deadline, __: object) -> Item:
        deadline.check("reading")
        at.append(round(clock.time(), 3))
        clock.advance(0.004)
        return {"ticket_served": next(numbers)}

    monkeypatch.setattr(lines, "read_one", read_one)
    return at


@pytest.mark.parametrize(
    ("account_key", "ahead", "losses", "patience_seconds"),
    [
        (ACCOUNT, 1, 0, 0.3),
        (ACCOUNT, 1, 1, 0.3),
        (ACCOUNT, 1, 3, 0.9),
        (ACCOUNT, 2, 2, 1.2),
        (ACCOUNT, 50, 1, 1.5),
        (LINES.shared_turn_key, 2, 1, 4.0),
    ],
)
def test_a_line_that_stands_still_is_waited_in_for_each_ticket_ahead(
    clock: Clock, monkeypatch: pytest.MonkeyPatch, account_key: Key, ahead: int, losses: int, patience_seconds: float
) -> None:
    at = looks(monkeypatch, clock, 7)
    ticket, _ = LINES.wait(account_key, Ticket(7 + ahead + 1), Deadline.after(60), losses=losses)
    pause_seconds = min((ahead - 1) / 100, LONGEST_PAUSE_SECONDS)
    assert at[1] - at[0] == pytest.approx(pause_seconds + 0.004)
    assert patience_seconds - pause_seconds - 0.01 <= at[-1] <= patience_seconds + pause_seconds
    assert ticket.waited_seconds == pytest.approx(at[-1] + 0.004)
    assert ticket.mark == {"contended_until": pytest.approx(1000 * (at[-1] + 10), abs=5)}


def test_in_a_line_that_moves_one_waits_anew_and_the_first_not(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    at = looks(monkeypatch, clock, *[7] * 40, *[8] * 30, 9)
    ticket, account = LINES.wait(ACCOUNT, Ticket(10), Deadline.after(60), losses=1)
    assert (len(at), account) == (71, {"ticket_served": 9})
    assert ticket.waited_seconds
    looks(monkeypatch, clock, 9)
    assert LINES.wait(ACCOUNT, Ticket(10), Deadline.after(60), losses=1) == (Ticket(10), {"ticket_served": 9})


def test_no_pause_ends_after_the_deadline(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    looks(monkeypatch, clock, 7)
    with pytest.raises(Exception, match="no time is left") as late:
        LINES.wait(ACCOUNT, Ticket(50), Deadline.after(0.4), losses=1)
    assert type(late.value).__name__ == "DeadlinePassed"
    assert clock.time() == pytest.approx(0.4)


@pytest.mark.parametrize(("served", "number", "left"), [(0, 5, 5), (5, 5, 5), (6, 5, 6), (105, 5, 105), (106, 5, 5)])
def test_a_ticket_that_is_served_late_leaves_the_later_number(served: int, number: int, left: int) -> None:
    assert Ticket(number).served(lines.Line(ticket_served=served)) == {"ticket_served": left}
