"""Limits: what is left of them in each kind of history, by example. tests/checkers/test_limits.py has random ones."""

import json
from decimal import Decimal
from typing import Any

import pytest
from msgspec.structs import replace

from conditional_writes.core.items import from_dynamodb, item_bytes, to_dynamodb
from ledger.core.accounts import account_from_item, account_item
from ledger.core.limits import Limit, Of, Per, counted, set_limits
from ledger.core.reason_codes import InvalidMessage
from ledger.core.transaction_types import decode
from tests.checkers.books import Books
from tests.checkers.small_books import post_messages
from tests.support import bodies
from tests.support.bodies import Body, hold, opening, payment, post_hold, rate, reverse, set_limit, transfer, void_hold
from tests.support.samples import NOW

PARIS, ST_JOHNS = {"time_zone": "Europe/Paris"}, {"time_zone": "America/St_Johns"}
DAY = {"name": "day", "of": "debits", "per": "day", "amount": 100} | PARIS
OFTEN = {"name": "often", "of": "debits", "per": "day", "number": 3} | PARIS
SINGLE = {"name": "single", "of": "debits", "per": "transaction", "amount": 40}
IN = {"name": "in", "of": "credits", "per": "month", "amount": 50} | PARIS
CEILING = {"name": "ceiling", "of": "balance", "amount": 1010}


def setting(*limits: dict[str, Any], number: int = 1) -> Body:
    return {"type": "set_limits", "transaction_id": f"l-{number}", "account_id": "alice", "limits": list(limits)}


def after(*steps: Body | str) -> Books:
    """The books after alice got 1000 and then these messages, of which each is a minute after the one before.

    A step may be the time of the next one.
    """
    books = post_messages(Books({}, {}), map(_decoded, [opening("alice"), opening("bob"), payment("t-0", 1000)]))
    day, minute = "2026-03-28", 0
    for step in steps:
        if isinstance(step, str):
            day, _, time = step.partition("T")
            minute = int(time[:2] or 0) * 60 + int(time[3:] or 0)
        else:
            at = f"{day}T{minute // 60:02d}:{minute % 60:02d}:00.000+00:00"
            books, minute = post_messages(books, [_decoded(step)], posted_at=at), minute + 1
    return books


def _decoded(body: Body) -> Any:
    return decode(json.dumps(body))


LATE = bodies.interest(until="2026-05-01T00:00:00+00:00")
DAILY, THRICE, SPENT = setting(DAY), setting(OFTEN), payment("t-1", -60)
AGAIN, HELD = payment("t-2", -60), hold("h-1", 60)


def spend(amount: object) -> Body:
    return payment("t", f"-{amount}")


LATER = {
    "a debit of what is left": ([DAILY, SPENT, spend(40)], None),
    "a debit of more": ([DAILY, SPENT, spend("40.01")], "day 40"),
    "a transfer of more": ([DAILY, SPENT, transfer("t", 41)], "day 40"),
    "a hold of more": ([DAILY, SPENT, hold("t", 41)], "day 40"),
    "a debit beside a hold": ([DAILY, HELD, spend(41)], "day 40"),
    "a debit after a void": ([DAILY, HELD, void_hold(), spend(100)], None),
    "a debit after a posting in part": ([DAILY, HELD, post_hold("p-1", 10), spend(91)], "day 90"),
    "a posting on the next day": ([DAILY, HELD, "2026-03-29", SPENT, post_hold("t")], None),
    "a debit on the next day, beside a hold": ([DAILY, HELD, "2026-03-29", spend(41)], "day 40"),
    "a posting after the limit fell": ([HELD, setting(DAY | {"amount": 1}), post_hold("t")], None),
    "a debit before midnight there": ([DAILY, SPENT, "2026-03-28T22:59", spend(41)], "day 40"),
    "a debit at midnight there": ([DAILY, SPENT, "2026-03-28T23:00", spend(100)], None),
    "a debit at midnight there, in summer": (["2026-03-29T21:58", DAILY, SPENT, "2026-03-29T22:00", spend(100)], None),
    "a debit at midnight there, half an hour off": (
        ["2026-03-28T01:00", setting(DAY | ST_JOHNS), SPENT, "2026-03-28T02:30", spend(100)],
        None,
    ),
    "a fourth debit": ([THRICE, *(payment(f"t-{n}", -1) for n in "abc"), spend(1)], "often 0"),
    "a third debit after a posting": ([THRICE, hold(), post_hold(), SPENT, spend(1)], None),
    "a fourth debit after a void": ([THRICE, hold(), void_hold(), SPENT, hold("h"), spend(1)], "often 0"),
    "a fourth debit after a reversal": ([THRICE, SPENT, hold("a"), hold("b"), reverse(), spend(1)], "often 0"),
    "too large a debit": ([setting(SINGLE), spend(41)], "single 40"),
    "too large a hold": ([setting(SINGLE), hold("t", 41)], "single 40"),
    "a debit beside a hold, of a limit per transaction": ([setting(SINGLE), hold("h-1", 40), spend(40)], None),
    "a credit of more": ([setting(IN), payment("t-1", 20), payment("t", 31)], "in 30"),
    "a debit that limits of credits leave alone": ([setting(IN), spend(100)], None),
    "a credit in the next month": ([setting(IN), payment("t-1", 50), "2026-03-31T22:00", payment("t", 50)], None),
    "a credit above the ceiling": ([setting(CEILING), payment("t", 11)], "ceiling 10"),
    "a debit of an account above its ceiling": ([setting(CEILING | {"amount": 1}), spend(5)], None),
    "a reversal above the ceiling": ([SPENT, payment("t-2", 60), setting(CEILING), reverse("t")], "ceiling 10"),
    "the first of two limits": ([setting(SINGLE, DAY), spend(101)], "single 40"),
    "a debit after a reversal": ([DAILY, SPENT, reverse(amount=20), spend(61)], "day 60"),
    "a debit after a reversal of yesterday's": ([DAILY, SPENT, "2026-03-29", AGAIN, reverse(), spend(41)], "day 40"),
    "a debit after a reversal of a debit before it": ([SPENT, DAILY, AGAIN, reverse(), spend(41)], "day 40"),
    "a reversal of a credit, beyond a limit of debits": ([payment("t-1", 200), DAILY, reverse("t")], None),
    "a reversal of a reversal": ([DAILY, SPENT, reverse(), AGAIN, reverse("t", of_transaction_id="r-1")], "day 40"),
    "a debit after a new amount": ([DAILY, SPENT, setting(DAY | {"amount": 200}, number=2), spend(141)], "day 140"),
    "a debit in another time zone": ([DAILY, SPENT, setting(DAY | {"time_zone": "UTC"}, number=2), spend(100)], None),
    "a debit after the end of the limit": ([DAILY, setting(number=2), spend(999)], None),
    "a debit of more than is available, too": ([DAILY, spend(1001)], "OVERDRAFT_LIMIT"),
    "a debit on a frozen account": ([DAILY, bodies.freeze(credits=False), spend(101)], "ACCOUNT_FROZEN"),
    "a debit after a forced one": ([DAILY, payment("t-1", -100, forced=True), spend(100)], None),
    "a debit after the reversal of a forced one": (
        [DAILY, payment("t-1", -50, forced=True), payment("t-2", -100), reverse(), spend(1)],
        "day 0",
    ),
    "interest": ([set_limit(limit=-999), rate(), payment("a", -1900), DAILY, "2026-05-01", LATE, spend(82)], None),
}


@pytest.mark.parametrize(("steps", "expected"), LATER.values(), ids=LATER)
def test_a_transaction_is_posted_or_says_what_is_left_of_a_limit(steps: list[Body | str], expected: str | None) -> None:
    outcome = after(*steps).journal["alice"][-1].outcome
    left = outcome.exceeded and f"{outcome.exceeded.limit} {outcome.exceeded.left:f}"
    assert (outcome.reason, left) == (("LIMIT_EXCEEDED", expected) if " " in str(expected) else (expected, None))


AVAILABLE = {
    "the overdraft limit alone": ([setting(IN, CEILING)], 1000),
    "an amount of a day": ([DAILY, SPENT], 40),
    "an amount of a day, of which a part is held": ([DAILY, SPENT, hold("h-1", 15)], 25),
    "an amount of a transaction": ([setting(DAY, SINGLE)], 40),
    "a number that isn't used up": ([setting(OFTEN | {"number": 2}), SPENT], 940),
    "a number that is used up": ([setting(OFTEN | {"number": 1}), SPENT], 0),
    "the least of all": ([setting(DAY, OFTEN, SINGLE, IN, CEILING), SPENT | {"amount": -40}, payment("t-2", -35)], 25),
    "less than was used": ([DAILY, SPENT, setting(DAY | {"amount": 50}, number=2)], -10),
}


@pytest.mark.parametrize(("steps", "expected"), AVAILABLE.values(), ids=AVAILABLE)
def test_what_is_available_is_left_under_all_limits(steps: list[Body | str], expected: int) -> None:
    assert after(*steps).accounts["alice"].available_under_limits == expected


def test_on_another_day_all_of_a_limit_is_available_but_what_is_held() -> None:
    account = after(setting(DAY, OFTEN | {"number": 2}), SPENT, hold("h-1", 15)).accounts["alice"]
    assert account.available_under_limits == 0
    assert account.at("2026-03-29T12:00:00.000+00:00").available_under_limits == 85


def test_the_other_account_of_a_transfer_is_not_told_what_is_left() -> None:
    books = after(setting(CEILING), payment("t-1", 99, "bob"), transfer("t-2", 11, "bob", "alice"))
    mine, theirs = (books.journal[name][-1].outcome for name in ("alice", "bob"))
    assert (mine.reason, theirs.reason, theirs.exceeded) == ("LIMIT_EXCEEDED", "LIMIT_EXCEEDED", None)
    assert mine.exceeded


NO_ZONES = (
    "Europe/Nowhere",
    "right/UTC",
    "posix/UTC",
    "../UTC",
    "/etc/localtime",
    "",
    "Europe",
    "localtime",
    "posixrules",
)
WRONG = [
    ({"amount": None}, "expected an amount or a number, in the limit 'day'"),
    ({"number": 1}, "expected an amount or a number, in the limit 'day'"),
    ({"amount": "-1"}, "amount: expected 0 or more, in the limit 'day'"),
    ({"amount": None, "number": "1.5"}, "number: expected a whole number of 0 or more, in the limit 'day'"),
    ({"of": "balance"}, "per: expected transaction, day or month, of debits and of credits alone, in the limit 'day'"),
    ({"per": "transaction"}, "time_zone: expected one per day and per month alone, in the limit 'day'"),
    ({"time_zone": None}, "time_zone: expected one per day and per month alone, in the limit 'day'"),
    *(({"time_zone": zone}, "time_zone: expected one of the IANA time zone database, such as") for zone in NO_ZONES),
    ({"name": "Day"}, "name: expected 1 to 24 of a to z, 0 to 9, - and _"),
    ({"amount": "1_0"}, 'limits[0].amount: expected a decimal number, such as "12.50"'),
    *(({"amount": text}, "amount: expected a finite decimal number") for text in ("NaN", "sNaN", "-Infinity")),
    ({"amount": "1" * 39}, "amount: 39 digits, expected at most 38"),
    ({"of": "all"}, "of: invalid enum value 'all'"),
    ({"per": "secret" * 9}, f"per: invalid enum value '{('secret' * 9)[:40]}'"),
]


@pytest.mark.parametrize(("changes", "sentence"), WRONG)
def test_a_limit_that_cannot_be_meant_is_refused_with_a_sentence(changes: dict[str, Any], sentence: str) -> None:
    limit = {name: value for name, value in (DAY | changes).items() if value is not None}
    with pytest.raises(InvalidMessage) as refused:
        decode(json.dumps(setting(limit)))
    assert sentence in str(refused.value)


def test_a_limit_of_many_zeros_is_the_number_that_dynamodb_can_hold() -> None:
    [limit] = decode(json.dumps(setting(DAY | {"amount": "5." + "0" * 40}))).limits
    assert limit.amount.as_tuple() == Decimal(5).as_tuple()


def test_six_limits_or_two_of_a_name_are_refused() -> None:
    with pytest.raises(InvalidMessage, match=r"^limits: expected `array` of length <= 5$"):
        decode(json.dumps(setting(*[DAY] * 6)))
    with pytest.raises(InvalidMessage, match=r"expected each name once, got 'day' 2 times"):
        decode(json.dumps(setting(DAY, DAY)))


LIMITED = after(setting(DAY, OFTEN, SINGLE, IN, CEILING), payment("t-1", "-12.34")).accounts["alice"]
DAMAGED: list[dict[str, Any]] = [{"used": Decimal(-1)}, {"used": "1"}, {"period": None}, {"set_at": Decimal(1)}]
DAMAGED += [{"time_zone": "Europe/Nowhere"}, {"per": "year"}]


def test_an_item_gives_its_limits_back_and_none_that_is_damaged() -> None:
    item = from_dynamodb(to_dynamodb(account_item(LIMITED)))
    assert account_from_item(item) == LIMITED
    for damage in DAMAGED:
        with pytest.raises((KeyError, TypeError, ValueError)):
            account_from_item(item | {"limits": [item["limits"][0] | damage]})
    with pytest.raises(TypeError):
        account_from_item(item | {"limits": ["day"]})


def test_five_limits_leave_the_account_within_a_kilobyte_beside_the_marks_of_a_contended_one() -> None:
    item = account_item(replace(LIMITED, seal="s" * 43, account_id="a" * 36, posted_at=NOW))
    item |= {"ticket_served": 12345, "contended_until": 1795338600123}
    item |= {"cw:version_id": "f" * 32, "cw:write_id": "f" * 32}
    assert (item_bytes(item), item_bytes({"limits": item["limits"]})) == (797, 459)


def test_what_was_used_is_rounded_up_to_38_digits() -> None:
    limit = Limit(name="all", of=Of.DEBITS, per=Per.DAY, time_zone="UTC", amount=Decimal("1e30"))
    [limited] = counted(counted(set_limits([limit], (), NOW), Of.DEBITS, Decimal("1e20")), Of.DEBITS, Decimal("1e-60"))
    assert f"{limited.used:f}" == f"1{'0' * 20}.{'0' * 16}1"
