"""The oracle of statements, by an account whose answers are written by hand."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal

from tests.checkers.statement_oracle import journals

MIDNIGHT = datetime(2026, 3, 1, tzinfo=UTC)


def entry(version: int, amount: str, minutes: int) -> dict[str, object]:
    time = (MIDNIGHT + timedelta(minutes=minutes)).isoformat(timespec="milliseconds")
    of_a = {"account_id": "a", "status": "POSTED", "request": {}}
    return of_a | {"amount": Decimal(amount), "account_version": Decimal(version), "posted_at": time}


ENTRIES = [entry(3, "-2.50", 20), entry(1, "10", 0), entry(2, "5.00", 10), entry(4, "1E+2", 20)]
[JOURNAL] = journals([{"account_id": "a"}], ENTRIES).values()


def test_a_balance_is_that_before_the_time() -> None:
    answers = [JOURNAL.balance(MIDNIGHT + timedelta(minutes=minutes)) for minutes in (-1, 0, 1, 10, 11, 20, 21)]
    found = [(answer["balance"], answer["account_version"]) for answer in answers]
    assert found == [(None, 0), (None, 0), ("10", 1), ("10", 1), ("15", 2), ("15", 2), ("112.5", 4)]


def test_a_statement_between_times_begins_at_the_first_and_ends_before_the_second() -> None:
    times = MIDNIGHT + timedelta(minutes=10), MIDNIGHT + timedelta(minutes=20)
    assert JOURNAL.between(*times) == [2]
    assert JOURNAL.between(times[1], None) == [3, 4]
