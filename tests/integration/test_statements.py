"""The function read_accounts on both engines: its answers about accounts whose transactions were just posted."""

import json
import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from time import sleep
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import ClientError
from hypothesis import given
from hypothesis import strategies as st

from conditional_writes import DeadlinePassed
from conditional_writes.items import to_dynamodb
from ledger import journal_versions, statements
from ledger.core.posting_time import CLOCK_SKEW, LONGEST_POSTING, timestamp
from tests.checkers.statement_oracle import Journal
from tests.support.late_index import LateIndex
from tests.support.posting_bank import (
    INDEXES,
    MILLISECOND,
    YEAR_2020,
    PostingBank,
    Step,
    histories,
    in_fewer_examples,
    opening,
    payment,
    post_history,
    spoil,
    times_of,
)
from tests.support.samples import largest_transaction
from tools.local_aws.functions import Context, invoke, read_accounts, record
from tools.local_aws.meter import Meter
from tools.local_aws.server import Endpoint
from tools.local_aws.tables import Tables
from workers.invocation import RESERVED_SECONDS

# A handler that fails has no metrics.
pytestmark = pytest.mark.filterwarnings("ignore:No application metrics")


class Bank(PostingBank):
    """The functions that post and read. `index` is the index as the latter sees it."""

    def __init__(self, ministack: Endpoint, dynamodb: Endpoint, tables: Tables) -> None:
        super().__init__(ministack, dynamodb, tables)
        self.function: ModuleType = read_accounts(dynamodb, tables)
        self.meter = Meter(self.function.reader.client)
        self.index = LateIndex(self.function.reader.client)
        self.units_of_a_missing_item = 1

    def read(self, kind: str, account_id: str = "alice", **fields: Any) -> dict[str, Any]:
        return self.invoke({"read": kind, "account_id": account_id} | fields)

    def invoke(self, event: Any) -> dict[str, Any]:
        answer: dict[str, Any] = self.function.lambda_handler(event, Context(60))
        return answer


@pytest.fixture
def bank(
    request: pytest.FixtureRequest,
    ministack: Endpoint,
    dynamodb: Endpoint,
    tables: Tables,
    monkeypatch: pytest.MonkeyPatch,
) -> Bank:
    monkeypatch.setattr(journal_versions, "PAUSES_SECONDS", (0.001, 0.001))
    bank = Bank(ministack, dynamodb, tables)
    if request.node.callspec.params["dynamodb"] == "dynamodb_local":  # it counts none for an item that isn't there
        bank.units_of_a_missing_item = 0
    return bank


def test_a_statement_has_the_last_entries_in_the_order_of_their_versions(bank: Bank) -> None:
    bank.post(opening(), payment(1, 100), payment(2, "-250.50"), payment(3, -100))
    answer = bank.read("statement", last=3)
    posted_at = [entry.pop("posted_at") for entry in answer["entries"]]
    assert posted_at == sorted(posted_at)
    assert answer == {
        "account_id": "alice",
        "account_version": 4,
        "entries": [
            {
                "transaction_id": "t-1",
                "account_version": 2,
                "status": "POSTED",
                "amount": "100",
                "balance_after": "100",
                "held_after": "0",
                "currency": "EUR",
                "request": {"type": "transaction", "transaction_id": "t-1", "account_id": "alice", "amount": "100"},
            },
            {
                "transaction_id": "t-2",
                "account_version": 3,
                "status": "POSTED",
                "amount": "-250.5",
                "balance_after": "-150.5",
                "held_after": "0",
                "currency": "EUR",
                "request": {"type": "transaction", "transaction_id": "t-2", "account_id": "alice", "amount": "-250.5"},
            },
            {
                "transaction_id": "t-3",
                "account_version": 4,
                "status": "REJECTED",
                "reason": "OVERDRAFT_LIMIT",
                "amount": "0",
                "balance_after": "-150.5",
                "held_after": "0",
                "currency": "EUR",
                "request": {"type": "transaction", "transaction_id": "t-3", "account_id": "alice", "amount": "-100"},
            },
        ],
        "complete": True,
        "missing_versions": [],
        "next": None,
    }


# --- holds and reversals ------------------------------------------------------------------------------------


def of_type(kind: str, transaction_id: str, account_id: str = "alice", **fields: Any) -> dict[str, Any]:
    return {"type": kind, "transaction_id": transaction_id, "account_id": account_id} | fields


def test_an_account_has_its_holds_and_what_they_leave(bank: Bank) -> None:
    """The hold that expires first is first, and those that never expire are last, by their ids."""
    bank.post(opening(), payment(1, "100.50"))
    answer = bank.read("account")
    amounts = {name: answer[name] for name in ("balance", "held", "available", "overdraft_limit")}
    assert amounts == {"balance": "100.5", "held": "0", "available": "300.5", "overdraft_limit": "-200"}
    assert (answer["holds"], answer["decimal_places"]) == ([], 2)
    bank.post(
        of_type("hold", "h-2", amount="20.25"),
        of_type("hold", "h-1", amount="5"),
        of_type("hold", "h-4", amount="7", expires_at="2100-01-02T01:00:00+02:00"),
        of_type("hold", "h-3", amount="8", expires_at="2100-01-02T00:00:00Z"),
        of_type("hold", "h-5", amount="9"),
        of_type("void_hold", "v-1", hold_id="h-5"),
        of_type("post_hold", "p-1", hold_id="h-2", amount="0.75", final=False),
    )
    answer = bank.read("account")
    amounts = {name: answer[name] for name in ("balance", "held", "available", "overdraft_limit")}
    assert amounts == {"balance": "99.75", "held": "39.5", "available": "260.25", "overdraft_limit": "-200"}
    assert answer["holds"] == [
        {"hold_id": "h-4", "remaining": "7", "expires_at": "2100-01-01T23:00:00+00:00"},
        {"hold_id": "h-3", "remaining": "8", "expires_at": "2100-01-02T00:00:00+00:00"},
        {"hold_id": "h-1", "remaining": "5", "expires_at": None},
        {"hold_id": "h-2", "remaining": "19.5", "expires_at": None},
    ]


def test_nothing_is_available_of_a_closed_account(bank: Bank) -> None:
    bank.post(opening(), of_type("close_account", "c-1"))
    answer = bank.read("account")
    assert (answer["status"], answer["overdraft_limit"], answer["available"]) == ("CLOSED", "-200", "0")


def test_what_is_available_is_told_with_all_its_digits(bank: Bank) -> None:
    """It may have more of them than DynamoDB's numbers have."""
    bank.post(opening())
    bank.change_account(balance=Decimal("1E+60"), overdraft_limit=Decimal("-0.01"), decimal_places=None)
    answer = bank.read("account")
    assert (answer["available"], answer["decimal_places"]) == (f"1{'0' * 60}.01", None)


def test_a_balance_at_a_time_has_what_was_held_then(bank: Bank) -> None:
    bank.post_hourly(
        opening(),
        payment(1, 100),
        of_type("hold", "h-1", amount="40"),
        of_type("post_hold", "p-1", hold_id="h-1", amount="15", final=False),
        of_type("void_hold", "v-1", hold_id="h-1"),
    )
    expected = [(None, None), ("0", "0"), ("100", "0"), ("100", "40"), ("85", "25"), ("85", "0")]
    for hours, balance_and_held in enumerate(expected):
        answer = bank.read("balance", at=(YEAR_2020 + timedelta(hours=hours)).isoformat())
        assert (answer["balance"], answer["held"]) == balance_and_held


def test_a_transaction_that_was_refused_says_so_until_it_is_posted(bank: Bank) -> None:
    def answer() -> dict[str, Any]:
        return bank.read("transaction", transaction_id="t-1")

    assert (answer()["state"], answer()["refusal"]) == ("unknown", None)
    invalid = record(payment(1, "10,5"))
    invoke(bank.teller, [record(opening()), invalid])
    assert (answer()["state"], answer()["entry"]) == ("refused", None)
    refusal = answer()["refusal"]
    assert (refusal["reason_code"], refusal["message_id"]) == ("INVALID_MESSAGE", invalid["messageId"])
    assert refusal["reason"].startswith("amount: ")
    assert datetime.now(UTC) - datetime.fromisoformat(refusal["refused_at"]) < timedelta(minutes=10)
    bank.post(payment(1, "10.5"))
    assert (answer()["state"], answer()["refusal"]) == ("posted", None)


def test_a_refusal_of_a_changed_payload_leaves_the_transaction_as_it_is(bank: Bank) -> None:
    bank.post(opening(), payment(1), payment(2, -999), payment(1, 7), payment(2, 8))
    states = [bank.read("transaction", transaction_id=name)["state"] for name in ("t-1", "t-2")]
    assert states == ["posted", "rejected"]


def test_a_damaged_refusal_gets_a_sentence(bank: Bank) -> None:
    bank.post(opening(), payment(1, "10,5"))
    bank.change(bank.tables.refusals, {"account_id": "alice", "transaction_id": "t-1"}, reason=1)
    reason = "the refusal of 't-1' can't be read: TypeError: reason: expected str, got Decimal"
    assert bank.read("transaction", transaction_id="t-1") == {"error": {"code": "UNREADABLE", "reason": reason}}


def test_a_transaction_has_what_was_reversed_of_it(bank: Bank) -> None:
    bank.post(opening(), payment(1, "12.50"), payment(2, 5))
    bank.post(of_type("reverse", "r-1", of_transaction_id="t-1", amount="2.50"))
    bank.post(of_type("reverse", "r-2", of_transaction_id="t-1"), of_type("reverse", "r-3", of_transaction_id="t-1"))
    answer = bank.read("transaction", transaction_id="t-1")
    assert answer["reversed"] == {"amount": "12.5", "number": 2, "reversed_by": "r-2"}
    assert (answer["entry"]["amount"], answer["account_id"], answer["transaction_id"]) == ("12.5", "alice", "t-1")
    answer = bank.read("transaction", transaction_id="r-2")
    assert (answer["reversed"], answer["entry"]["amount"]) == (None, "-10")
    assert answer["entry"]["reversal"] == {"number": 2, "reversed_after": "12.5"}
    rejected = bank.read("transaction", transaction_id="r-3")["entry"]
    assert (rejected["reason"], rejected["reversal"]) == ("ALREADY_REVERSED", answer["entry"]["reversal"])
    for name in ("t-2", "open", "t-none"):
        assert bank.read("transaction", transaction_id=name)["reversed"] is None


def test_a_transfer_that_was_reversed_says_so_on_both_accounts(bank: Bank) -> None:
    """What was reversed is counted under the payer, so the payee's answer takes a second request."""
    transfer = {"from_account_id": "alice", "to_account_id": "bob", "amount": "30"}
    bank.post(opening(), opening("bob"), {"type": "transfer", "transaction_id": "t-1"} | transfer)
    bank.post(of_type("reverse", "r-1", "bob", of_transaction_id="t-1", amount="10"))
    answers = {}
    for name, requests, units in (("alice", 1, 2), ("bob", 2, 2 + bank.units_of_a_missing_item)):
        bank.meter.reset()
        answers[name] = bank.read("transaction", name, transaction_id="t-1")
        assert (dict(bank.meter.requests), bank.meter.read_units) == ({"BatchGetItem": requests}, units)
        assert answers[name]["reversed"] == {"amount": "10", "number": 1, "reversed_by": "r-1"}
    assert [answers[name]["entry"]["amount"] for name in answers] == ["-30", "30"]
    reversal = bank.read("transaction", "bob", transaction_id="r-1")["entry"]["reversal"]
    assert reversal == {"number": 1, "reversed_after": "10", "other_account_id": "alice"}


def test_a_damaged_count_of_what_was_reversed_gets_a_sentence(bank: Bank) -> None:
    bank.post(opening(), payment(1, 10), of_type("reverse", "r-1", of_transaction_id="t-1"))
    bank.change(bank.tables.reversals, {"account_id": "alice", "transaction_id": "t-1"}, amount="all")
    reason = "the amount reversed of 't-1' can't be read: TypeError: amount: expected Decimal, got str"
    assert bank.read("transaction", transaction_id="t-1") == {"error": {"code": "UNREADABLE", "reason": reason}}
    assert bank.read("transaction", transaction_id="r-1")["reversed"] is None


# --- pages --------------------------------------------------------------------------------------------------


def test_pages_go_on_where_the_last_one_ended(bank: Bank) -> None:
    bank.post(opening(), *(payment(number) for number in range(1, 10)))
    answer = bank.read("statement", from_version=3, limit=4)
    assert versions_of(answer) == [3, 4, 5, 6]
    assert answer["next"] == {"from_version": 7, "to_version": 10}
    bank.post(payment(10))
    answer = bank.read("statement", limit=4, **answer["next"])
    assert (versions_of(answer), answer["next"], answer["account_version"]) == ([7, 8, 9, 10], None, 11)
    assert versions_of(bank.read("statement", from_version=11, to_version=99)) == [11]
    assert bank.read("statement", from_version=12)["entries"] == []


def versions_of(answer: dict[str, Any]) -> list[int]:
    return [entry["account_version"] for entry in answer["entries"]]


def test_a_page_without_a_limit_has_a_hundred_entries(bank: Bank) -> None:
    bank.post(opening(), *(payment(number) for number in range(1, 105)))
    answer = bank.read("statement", from_version=1)
    assert (len(answer["entries"]), answer["next"]) == (100, {"from_version": 101, "to_version": 105})


def test_a_page_has_four_megabytes_at_most_and_the_next_one_goes_on(bank: Bank) -> None:
    account_id = largest_transaction().account_id
    gold = {"currency": "XAU"}  # It has no minor units: the largest amount has 130 decimals.
    payments = (largest_transaction(number).canonical_payload() | gold for number in range(60))
    bank.post(opening(account_id) | gold, *payments)
    found, fields = list[int](), dict[str, Any](last=61)
    sizes = list[int]()
    while fields:
        answer = bank.read("statement", account_id, **fields)
        assert answer["complete"]
        found += versions_of(answer)
        sizes.append(len(json.dumps(answer)))
        fields = answer["next"]
    assert found == list(range(1, 62))
    assert len(sizes) == 2
    assert 3_800_000 < sizes[0] < 4_010_000


def test_an_entry_that_is_larger_than_a_page_is_a_page(bank: Bank, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statements, "LARGEST_PAGE_BYTES", 100)
    bank.post(opening(), payment(1), payment(2))
    answer = bank.read("statement", last=3)
    assert (versions_of(answer), answer["next"]) == ([1], {"from_version": 2, "to_version": 3})


# --- what it costs ------------------------------------------------------------------------------------------


def test_an_answer_takes_few_requests_and_read_units(bank: Bank) -> None:
    """Entries of some 350 bytes, in three hundred milliseconds. The index is read at half a unit for 4 kB."""
    bank.post_at(YEAR_2020, opening())
    for number in range(1, 300):
        bank.post_at(YEAR_2020 + number * MILLISECOND, payment(number))

    def cost(kind: str, **fields: Any) -> tuple[dict[str, int], float]:
        bank.meter.reset()
        assert bank.read(kind, **fields).get("complete", True)
        return dict(bank.meter.requests), bank.meter.read_units

    in_between = (YEAR_2020 + 150 * MILLISECOND).isoformat()
    assert cost("account") == ({"GetItem": 1}, 1)
    assert cost("transaction", transaction_id="t-7") == ({"BatchGetItem": 1}, 1 + bank.units_of_a_missing_item)
    assert cost("balance", at="2100-01-01T00:00:00Z") == ({"GetItem": 1, "Query": 1}, 1.5)
    requests, units = cost("statement", last=50)
    assert requests == {"GetItem": 1, "Query": 1}
    assert 3 <= units <= 4
    requests, units = cost("balance", at=in_between)
    searched = requests["Query"]
    assert searched in (8, 9), "the binary logarithm of 300 versions"
    assert units == 1 + searched / 2
    requests, units = cost("statement", **{"from": in_between, "limit": 10})
    assert requests == {"GetItem": 1, "Query": searched + 1}
    assert units == 1 + searched / 2 + 0.5


# --- times --------------------------------------------------------------------------------------------------


def test_an_account_that_an_earlier_release_wrote_last_has_the_same_answers(bank: Bank) -> None:
    bank.post_hourly(opening(), payment(1), payment(2), payment(3))
    [journal] = bank.journals().values()
    bank.change_account(posted_at=None)
    assert bank.read("account")["posted_at"] is None
    for hours in range(6):
        time = YEAR_2020 + timedelta(hours=hours)
        assert without_final(bank.read("balance", at=time.isoformat())) == journal.balance(time)
        answer = bank.read("statement", **{"from": time.isoformat(), "limit": 9})
        assert without_final(answer) == journal.statement(journal.between(time, None), 9)


def test_an_account_whose_time_an_earlier_release_left_has_the_same_answers(bank: Bank) -> None:
    """After a rollback: that release posted the last two entries, and the account has the time of the second."""
    bank.post_hourly(opening(), payment(1), payment(2), payment(3))
    [journal] = bank.journals().values()
    bank.change_account(posted_at=timestamp(YEAR_2020 + timedelta(hours=1)))
    for minutes in range(-30, 300, 30):
        time = YEAR_2020 + timedelta(minutes=minutes)
        assert without_final(bank.read("balance", at=time.isoformat())) == journal.balance(time)
        answer = bank.read(
            "statement", **{"from": YEAR_2020.isoformat(), "to": (time + timedelta(hours=1)).isoformat()}
        )
        expected = journal.statement(journal.between(YEAR_2020, time + timedelta(hours=1)), 100)
        assert without_final(answer) == expected


def test_a_time_is_final_if_nothing_can_be_posted_before_it_any_more(bank: Bank) -> None:
    bank.post(opening())
    now = datetime.now(UTC)
    newest = datetime.fromisoformat(bank.read("account")["posted_at"])
    for time, expected in {
        YEAR_2020: True,
        now - CLOCK_SKEW: True,
        newest: True,
        newest + MILLISECOND: False,
        now + timedelta(days=1): False,
    }.items():
        assert bank.read("balance", at=time.isoformat())["final"] == expected
        fields = {"from": (YEAR_2020 - CLOCK_SKEW).isoformat(), "to": time.isoformat()}
        assert bank.read("statement", **fields)["final"] == expected
    assert bank.read("statement", **{"from": now.isoformat()})["final"] is False
    too_far = now + 2 * CLOCK_SKEW
    bank.change_account(posted_at=timestamp(too_far))
    assert bank.read("balance", at=too_far.isoformat())["final"] is False


def test_a_time_is_final_as_of_before_the_account_was_read(bank: Bank, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is posted while the index is waited for isn't in the answer."""
    bank.post_at(YEAR_2020, opening())
    now = datetime.now(UTC)
    clock = SimpleNamespace(now=lambda zone: now)
    monkeypatch.setattr(statements, "datetime", clock)

    def half_a_minute_later(**_: Any) -> None:
        nonlocal now
        now += timedelta(seconds=30)

    at = now - CLOCK_SKEW - LONGEST_POSTING + timedelta(seconds=20)
    bank.function.reader.client.meta.events.register("after-call.dynamodb.GetItem", half_a_minute_later)
    assert bank.read("balance", at=at.isoformat())["final"] is False
    assert bank.read("balance", at=at.isoformat())["final"] is True


# --- errors, and trouble ------------------------------------------------------------------------------------


def test_a_request_that_is_none_gets_a_sentence_and_no_read(bank: Bank) -> None:
    answer = bank.invoke({"read": "statement", "account_id": "alice", "last": 0})
    assert answer == {"error": {"code": "INVALID_REQUEST", "reason": "last: expected `int` >= 1"}}
    assert bank.invoke([1])["error"]["code"] == "INVALID_REQUEST"
    assert not bank.meter.requests


def test_an_account_that_was_never_opened_is_unknown_but_not_its_transactions(bank: Bank) -> None:
    for kind, fields in {"account": {}, "statement": {"last": 1}, "balance": {"at": "2026-03-01T00:00:00Z"}}.items():
        error = bank.read(kind, "nobody", **fields)["error"]
        assert error == {"code": "UNKNOWN_ACCOUNT", "reason": "account_id: no account 'nobody' has been opened"}
    assert bank.read("transaction", "nobody", transaction_id="t-1")["entry"] is None


DAMAGED: dict[str, tuple[Callable[[Bank], None], str]] = {
    "a text for a balance": (
        lambda bank: bank.change_account(balance="12"),
        "the account can't be read: TypeError: balance: expected Decimal, got str",
    ),
    "an account without a version": (
        lambda bank: bank.change_account(version=None),
        "the account can't be read: KeyError: 'version'",
    ),
    "an account of a version that no journal has": (
        lambda bank: bank.change_account(version=10**30),
        "the account can't be read: ValueError: version: no account reaches 1000000000000000000000000000000",
    ),
    "an entry without a request": (
        lambda bank: bank.change_entry("t-2", request=None),
        "entry 't-2' can't be read: KeyError: 'request'",
    ),
    "an entry whose request is no JSON": (
        lambda bank: bank.change_entry("t-2", request={"amount": Decimal(1)}),
        "entry 't-2' can't be read: TypeError: Object of type Decimal is not JSON serializable",
    ),
    "an entry of a later release": (
        lambda bank: bank.change_entry("t-2", format=2),
        "entry 't-2' can't be read: ValueError: format: expected 1, got 2: a later release of Teller may have written"
        " it",
    ),
    "a hold that is a number": (
        lambda bank: bank.change_account(holds={"h-1": 5}),
        "the account can't be read: TypeError: holds: expected a map for each hold, got Decimal",
    ),
    "a hold of a text": (
        lambda bank: bank.change_account(holds={"h-1": {"remaining": "5"}}),
        "the account can't be read: TypeError: remaining: expected Decimal, got str",
    ),
    "a hold that expires without an offset": (
        lambda bank: bank.change_account(holds={"h-1": {"remaining": 5, "expires_at": "2026-03-01"}}),
        "the account can't be read: ValueError: holds: expires_at: expected a time with its offset, got '2026-03-01'",
    ),
    "holds that are none": (
        lambda bank: bank.change_account(holds="none"),
        "the account can't be read: TypeError: holds: expected dict, got str",
    ),
    "an amount held that is a text": (
        lambda bank: bank.change_account(held="5"),
        "the account can't be read: TypeError: held: expected Decimal, got str",
    ),
    "an amount held after an entry that is a text": (
        lambda bank: bank.change_entry("t-2", held_after="12"),
        "entry 't-2' can't be read: TypeError: held_after: expected Decimal, got str",
    ),
    "an amount that is a text": (
        lambda bank: bank.change_entry("t-2", amount="12"),
        "entry 't-2' can't be read: TypeError: amount: expected Decimal, got str",
    ),
}


@pytest.mark.parametrize("damage", DAMAGED)
def test_a_damaged_item_gets_a_sentence(bank: Bank, damage: str) -> None:
    bank.post(opening(), payment(1), payment(2), payment(3))
    plant, sentence = DAMAGED[damage]
    plant(bank)
    assert bank.read("statement", last=4) == {"error": {"code": "UNREADABLE", "reason": sentence}}


@pytest.mark.parametrize("state", ["in time", "away"])
@pytest.mark.parametrize("posted_at", ["yesterday", "2026-03-01T00:00:00", Decimal(5), None])
def test_a_damaged_time_gets_a_sentence(bank: Bank, state: str, posted_at: Any) -> None:
    bank.post_hourly(opening(), payment(1), payment(2), payment(3))
    bank.change_entry("t-1", posted_at=posted_at)
    spoil(bank.index, state, random.Random(1))
    at = (YEAR_2020 + timedelta(hours=2)).isoformat()
    reason = f"entry 't-1': posted_at: expected a time with its offset, got {posted_at!r}"
    for fields in ({"read": "balance", "at": at}, {"read": "statement", "from": at}):
        assert bank.invoke({"account_id": "alice"} | fields) == {"error": {"code": "UNREADABLE", "reason": reason}}


@pytest.mark.parametrize("state", ["in time", "away"])
def test_two_entries_of_one_version_are_both_in_the_statement_and_no_balance_is_told(bank: Bank, state: str) -> None:
    bank.post_hourly(opening(), payment(1), payment(2), payment(3))
    key = to_dynamodb({"account_id": "alice", "transaction_id": "t-1"})
    item = bank.client.get_item(TableName=bank.tables.journal, Key=key)["Item"]
    bank.client.put_item(TableName=bank.tables.journal, Item=item | to_dynamodb({"transaction_id": "t-1-again"}))
    spoil(bank.index, state, random.Random(1))
    answer = bank.read("statement", last=4)
    assert (versions_of(answer), answer["complete"]) == ([1, 2, 2, 3, 4], True)
    error = bank.read("balance", at=(YEAR_2020 + timedelta(hours=1.5)).isoformat())["error"]
    assert error["code"] == "UNREADABLE"
    assert error["reason"].startswith("of version 2 are two entries: 't-1")
    assert bank.read("balance", at=(YEAR_2020 + timedelta(hours=2.5)).isoformat())["balance"] == "2"


def test_an_entry_that_is_gone_is_missing_by_its_version(bank: Bank) -> None:
    bank.post_hourly(opening(), payment(1), payment(2), payment(3))
    bank.client.delete_item(
        TableName=bank.tables.journal, Key=to_dynamodb({"account_id": "alice", "transaction_id": "t-1"})
    )
    answer = bank.read("statement", last=4)
    assert (versions_of(answer), answer["complete"], answer["missing_versions"]) == ([1, 3, 4], False, [2])
    answer = bank.read("balance", at=(YEAR_2020 + timedelta(hours=2)).isoformat())
    assert (answer["balance"], answer["complete"]) == (None, False)
    answer = bank.read("balance", at=(YEAR_2020 + timedelta(hours=2.5)).isoformat())
    assert (answer["balance"], answer["complete"]) == ("2", True)


def test_without_time_left_an_answer_says_what_it_lacks_and_if_there_is_none_the_invocation_fails(
    bank: Bank, monkeypatch: pytest.MonkeyPatch
) -> None:
    bank.post_at(YEAR_2020, opening(), payment(1))
    bank.post_at(YEAR_2020 + timedelta(hours=1), payment(2))
    monkeypatch.setattr(journal_versions, "PAUSES_SECONDS", (60,))
    bank.index.hidden = {1, 2, 3}

    def read(timeout_seconds: float, **fields: Any) -> dict[str, Any]:
        context = Context(RESERVED_SECONDS + timeout_seconds)
        answer: dict[str, Any] = bank.function.lambda_handler({"account_id": "alice"} | fields, context)
        return answer

    answer = read(2, read="statement", last=2)
    assert (answer["entries"], answer["complete"], answer["missing_versions"]) == ([], False, [2, 3])
    answer = read(2, read="balance", at=(YEAR_2020 + MILLISECOND).isoformat())
    assert (answer["balance"], answer["complete"], answer["final"]) == (None, False, True)
    with pytest.raises(DeadlinePassed):
        read(0, read="statement", last=2)


def test_time_that_ends_between_two_requests_leaves_the_rest_to_the_next_page(bank: Bank) -> None:
    bank.post(opening(), *(payment(number) for number in range(1, 10)))
    bank.index.limits = {"index": 4}
    events = bank.function.reader.client.meta.events
    events.register("after-call.dynamodb.Query", lambda **_: sleep(1.1))
    context = Context(RESERVED_SECONDS + 1)
    answer = bank.function.lambda_handler({"read": "statement", "account_id": "alice", "last": 10}, context)
    assert (versions_of(answer), answer["complete"]) == ([1, 2, 3], True)
    assert answer["next"] == {"from_version": 4, "to_version": 10}


def test_trouble_of_the_tables_fails_the_invocation(bank: Bank) -> None:
    bank.post(opening())
    refusal = LateIndex.refusal("InternalServerError", "try again")
    events = bank.function.reader.client.meta.events
    for operation in ("GetItem", "BatchGetItem"):
        events.register(f"before-call.dynamodb.{operation}", lambda **_: refusal)
    for kind, fields in {"account": {}, "transaction": {"transaction_id": "open"}}.items():
        with pytest.raises(ClientError, match="try again"):
            bank.read(kind, **fields)


# --- any history, by the oracle -----------------------------------------------------------------------------


def without_final(answer: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in answer.items() if name not in ("final", "at")}


def test_the_answers_about_any_history_are_the_oracles_in_any_state_of_the_index(bank: Bank) -> None:
    @in_fewer_examples
    @given(histories, st.randoms(use_true_random=False))
    def try_history(history: list[Step], choose: random.Random) -> None:
        post_history(bank, history)
        for name, journal in bank.journals().items():
            spoil(bank.index, choose.choice(INDEXES), choose)
            bank.index.limits = {"index": choose.randint(2, 40), "table": choose.randint(1, 40)}
            check_answers(bank, name, journal, choose)

    try_history()


def check_answers(bank: Bank, name: str, journal: Journal, choose: random.Random) -> None:
    assert bank.read("account", name) == journal.account_answer()
    last = choose.randint(1, 20)
    assert bank.read("statement", name, last=last) == journal.statement(journal.last(last), last)
    first, limit = choose.randint(1, len(journal.entries) + 1), choose.randint(1, 10)
    wanted = range(first, choose.randint(first, len(journal.entries) + 2) + 1)
    check_pages(bank, name, journal, list(wanted), limit, from_version=first, to_version=wanted[-1])
    times = times_of(journal, choose)
    for time in times:
        answer = bank.read("balance", name, at=time.isoformat())
        assert without_final(answer) == journal.balance(time)
        assert answer["final"] == (time.year < 2100)
    begin, end = sorted(choose.sample(times, 2))
    if begin < end:
        versions = journal.between(begin, end)
        check_pages(bank, name, journal, versions, limit, **{"from": begin.isoformat(), "to": end.isoformat()})
    check_pages(bank, name, journal, journal.between(begin, None), limit, **{"from": begin.isoformat()})
    for transaction_id in choose.sample([entry["transaction_id"] for entry in journal.entries] + ["t-none"], 1):
        answer = bank.read("transaction", name, transaction_id=transaction_id)
        assert answer == journal.transaction(transaction_id)


def check_pages(bank: Bank, name: str, journal: Journal, versions: list[int], limit: int, **fields: Any) -> None:
    """The statement is the oracle's, page after page."""
    while True:
        answer = bank.read("statement", name, limit=limit, **fields)
        assert without_final(answer) == journal.statement(versions, limit)
        versions, fields = versions[limit:], answer["next"]
        if fields is None:
            return


def test_answers_without_what_neither_the_index_nor_a_long_table_can_tell_say_so(
    bank: Bank, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(statements, "MOST_TABLE_PAGES", 1)

    @in_fewer_examples
    @given(histories, st.randoms(use_true_random=False))
    def try_history(history: list[Step], choose: random.Random) -> None:
        post_history(bank, history)
        for name, journal in bank.journals().items():
            spoil(bank.index, choose.choice(["late for ever", "with holes"]), choose)
            searched = choose.randint(1, 5)
            bank.index.limits = {"table": searched}
            by_id = sorted(journal.entries, key=lambda entry: str(entry["transaction_id"]).encode())
            unknown = bank.index.hidden - {int(entry["account_version"]) for entry in by_id[:searched]}
            check_incomplete(bank, name, journal, unknown, choose)

    try_history()


def check_incomplete(bank: Bank, name: str, journal: Journal, unknown: set[int], choose: random.Random) -> None:
    """A statement of versions names exactly those that are unknown. An answer about times is right, or not complete."""
    last = choose.randint(1, 20)
    assert bank.read("statement", name, last=last) == journal.statement(journal.last(last), last, unknown)
    times = times_of(journal, choose)
    for time in times:
        answer = without_final(bank.read("balance", name, at=time.isoformat()))
        if answer["complete"]:
            assert answer == journal.balance(time)
        else:
            assert unknown
            assert (answer["balance"], answer["account_version"], answer["posted_at"]) == (None, None, None)
    begin, end = sorted(choose.sample(times, 2))
    if begin == end:
        return
    fields = {"from": begin.isoformat(), "to": end.isoformat()}
    answer = bank.read("statement", name, limit=1000, **fields)
    whole = journal.statement(journal.between(begin, end), 1000)
    if answer["complete"]:
        assert without_final(answer) == whole
    else:
        assert set(answer["missing_versions"]) <= unknown
        assert all(entry in whole["entries"] for entry in answer["entries"])
        found = {entry["account_version"] for entry in answer["entries"]}
        assert {entry["account_version"] for entry in whole["entries"]} - found <= set(answer["missing_versions"])
