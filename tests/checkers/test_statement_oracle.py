"""The oracle of statements, by an account whose answers are written by hand."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal

from tests.checkers.statement_oracle import journals, open_holds, text

MIDNIGHT = datetime(2026, 3, 1, tzinfo=UTC)


def entry(version: int, amount: str, minutes: int) -> dict[str, object]:
    time = (MIDNIGHT + timedelta(minutes=minutes)).isoformat(timespec="milliseconds")
    fields = {
        "status": "POSTED",
        "amount": Decimal(amount),
        "balance_after": Decimal(),
        "currency": "EUR",
        "request": {"transaction_id": f"t-{version}"},
    }
    key = {"account_id": "a", "transaction_id": f"t-{version}"}
    return key | fields | {"account_version": Decimal(version), "posted_at": time}


ENTRIES = [entry(3, "-2.50", 20), entry(1, "10", 0), entry(2, "5.00", 10), entry(4, "1E+2", 20)]
[JOURNAL] = journals([{"account_id": "a"}], ENTRIES).values()


def test_a_balance_is_that_before_the_time() -> None:
    expected = {
        -1: (None, 0),
        0: (None, 0),
        1: ("10", 1),
        10: ("10", 1),
        11: ("15", 2),
        20: ("15", 2),
        21: ("112.5", 4),
    }
    for minutes, balance_and_version in expected.items():
        answer = JOURNAL.balance(MIDNIGHT + timedelta(minutes=minutes))
        assert (answer["balance"], answer["account_version"]) == balance_and_version


def test_a_statement_between_times_begins_at_the_first_and_ends_before_the_second() -> None:
    times = MIDNIGHT + timedelta(minutes=10), MIDNIGHT + timedelta(minutes=20)
    assert JOURNAL.between(*times) == [2]
    assert JOURNAL.between(times[1], None) == [3, 4]


def test_a_page_names_what_is_missing_and_the_next_page() -> None:
    answer = JOURNAL.statement(range(2, 9), limit=2, unknown={3, 4})
    assert [one["transaction_id"] for one in answer["entries"]] == ["t-2"]
    assert (answer["complete"], answer["missing_versions"]) == (False, [3])
    assert answer["next"] == {"from_version": 4, "to_version": 4}
    assert JOURNAL.statement(JOURNAL.last(2), limit=2)["next"] is None
    assert list(JOURNAL.last(2)) == [3, 4]


def test_numbers_are_texts_with_all_digits_and_no_more() -> None:
    numbers = ["1E+3", "100", "0.10", "-0", "-12.50", "0"]
    assert [text(Decimal(number)) for number in numbers] == ["1000", "100", "0.1", "0", "-12.5", "0"]


def about(version: int, effect: str, **request: object) -> dict[str, object]:
    return entry(version, effect, version) | {
        "request": {"account_id": "a", "transaction_id": f"t-{version}"} | request
    }


def test_holds_are_open_until_they_are_resolved() -> None:
    entries = [
        about(1, "0", type="hold", amount="10", expires_at="2026-04-01T00:00:00+00:00"),
        about(2, "0", type="hold", amount="5"),
        about(3, "-4", type="post_hold", hold_id="t-1", amount="4", final=False),
        about(4, "0", type="void_hold", hold_id="t-2"),
        about(5, "-6", type="post_hold", hold_id="t-1", amount="6", final=False),
        about(6, "0", type="hold", amount="2") | {"status": "REJECTED"},
        about(7, "3", type="post_hold", hold_id="h-9", account_id="b", to_account_id="a"),
    ]
    held = [sum(amount for amount, _ in open_holds(entries[:count], "a").values()) for count in range(8)]
    assert held == [0, 10, 15, 11, 6, 0, 0, 0]
    assert open_holds(entries[:3], "a")["t-1"] == (Decimal(6), "2026-04-01T00:00:00+00:00")


def test_reversals_of_a_transaction_are_counted_and_rejected_ones_are_not() -> None:
    reversals = [
        about(2, "-3", type="reverse", of_transaction_id="t-1"),
        about(3, "-1.50", type="reverse", of_transaction_id="t-1"),
        about(4, "0", type="reverse", of_transaction_id="t-1") | {"status": "REJECTED"},
        about(5, "-1", type="reverse", of_transaction_id="t-0"),
    ]
    [journal] = journals([{"account_id": "a"}], [about(1, "9", type="transaction"), *reversals]).values()
    assert journal.reversed("t-1") == {"amount": "4.5", "number": 2, "reversed_by": "t-3"}
    assert journal.reversed("t-2") is None
