"""The function read_accounts: its answers about accounts whose transactions were just posted."""

import json
import random
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import ClientError
from hypothesis import given
from hypothesis import strategies as st

from conditional_writes import DeadlinePassed
from ledger import statements
from ledger.core.accounts import CLOCK_SKEW, LONGEST_POSTING, timestamp
from tests.checkers.statement_oracle import Journal
from tests.support.bodies import (
    Body,
    closing,
    compound,
    freeze,
    hold,
    opening,
    payment,
    post_hold,
    reverse,
    transfer,
    void_hold,
)
from tests.support.histories import (
    HOUR,
    INDEXES,
    MILLISECOND,
    Step,
    histories,
    in_fewer_examples,
    post_history,
    reads_by,
    spoil,
    times_of,
)
from tests.support.late_index import LateIndex
from tests.support.ledger import YEAR_2020, Ledger
from tests.support.samples import largest_transaction
from tools.local_aws.functions import Context, read_accounts, record
from tools.local_aws.meter import Meter
from tools.local_aws.server import Endpoint
from workers.invocation import RESERVED_SECONDS

# A handler that fails has no metrics.
pytestmark = pytest.mark.filterwarnings("ignore:No application metrics")

type Answer = dict[str, Any]


class Read(Ledger):
    """A ledger, and the function that reads it. `index` is the index as the latter sees it."""

    def __init__(self, aws: Endpoint, dynamodb: Endpoint) -> None:
        super().__init__(aws, dynamodb)
        self.function = read_accounts(dynamodb, self.tables)
        self.events = self.function.reader.client.meta.events
        self.meter = Meter(self.function.reader.client)
        self.index = LateIndex(self.function.reader.client)

    def read(self, kind: str, account_id: str = "alice", seconds: float = 60, **fields: Any) -> Answer:
        request = {"read": kind, "account_id": account_id} | fields
        answer: Answer = self.function.lambda_handler(request, Context(seconds + RESERVED_SECONDS))
        return answer

    def cost(self, kind: str, account_id: str = "alice", **fields: Any) -> tuple[dict[str, int], float]:
        """Requests and read units. DynamoDB Local counts none for an item that isn't there."""
        self.meter.reset()
        assert self.read(kind, account_id, **fields).get("complete", True)
        return dict(self.meter.requests), self.meter.read_units


@pytest.fixture
def bank(aws: Endpoint, dynamodb: Endpoint, monkeypatch: pytest.MonkeyPatch) -> Read:
    bank = Read(aws, dynamodb)
    reads_by(bank.clock, monkeypatch)
    return bank


OPENING = opening(limit=-200)


def payments(count: int) -> list[Body]:
    return [payment(f"t-{number}") for number in range(1, count + 1)]


@pytest.fixture
def hourly(bank: Read) -> Read:
    """An opening at the beginning of 2020, and in each of the next hours a payment of 1: t-1, t-2 and t-3."""
    bank.post_hourly(OPENING, *payments(3))
    return bank


def at(hours: float) -> str:
    return (YEAR_2020 + hours * HOUR).isoformat()


def versions_of(answer: Answer) -> list[int]:
    return [entry["account_version"] for entry in answer["entries"]]


def chosen(answer: Answer, *names: str) -> tuple[Any, ...]:
    return tuple(answer[name] for name in names)


# --- holds and reversals ------------------------------------------------------------------------------------


def test_an_account_has_its_holds_and_what_they_leave(bank: Read) -> None:
    """The hold that expires first is first, and those that never expire are last, by their ids."""
    bank.post(OPENING, payment("t-1", "100.50"))
    amounts = ("balance", "held", "available", "overdraft_limit")
    answer = bank.read("account")
    assert chosen(answer, *amounts, "holds", "decimal_places") == ("100.5", "0", "300.5", "-200", [], 2)
    bank.post(
        hold("h-2", "20.25"),
        hold("h-1", "5"),
        hold("h-4", "7", expires_at="2100-01-02T01:00:00+02:00"),
        hold("h-3", "8", expires_at="2100-01-02T00:00:00Z"),
        hold("h-5", "9"),
        void_hold("v-1", hold_id="h-5"),
        post_hold("p-1", "0.75", hold_id="h-2", final=False),
    )
    answer = bank.read("account")
    assert chosen(answer, *amounts) == ("99.75", "39.5", "260.25", "-200")
    assert answer["holds"] == [
        {"hold_id": "h-4", "remaining": "7", "expires_at": "2100-01-01T23:00:00+00:00"},
        {"hold_id": "h-3", "remaining": "8", "expires_at": "2100-01-02T00:00:00+00:00"},
        {"hold_id": "h-1", "remaining": "5", "expires_at": None},
        {"hold_id": "h-2", "remaining": "19.5", "expires_at": None},
    ]


def test_what_is_available_has_all_its_digits_and_is_nothing_of_a_closed_account_or_a_frozen_one(bank: Read) -> None:
    """It may have more of them than DynamoDB's numbers have."""
    bank.post(OPENING)
    bank.change_account(balance=Decimal("1E+60"), overdraft_limit=Decimal("-0.01"), decimal_places=None)
    assert chosen(bank.read("account"), "available", "decimal_places") == (f"1{'0' * 60}.01", None)
    bank.change_account(balance=0, status="OPEN")
    bank.post(freeze(credits=False))
    assert chosen(bank.read("account"), "frozen", "available") == ({"debits": True, "credits": False}, "0")
    bank.post(closing())
    assert chosen(bank.read("account"), "status", "overdraft_limit", "available") == ("CLOSED", "-0.01", "0")


def test_a_transaction_that_was_refused_says_so_until_it_is_posted(bank: Read) -> None:
    def answer() -> Answer:
        return bank.read("transaction", transaction_id="t-1")

    assert chosen(answer(), "state", "refusal") == ("unknown", None)
    invalid = record(payment("t-1", "10,5"))
    bank.worker.lambda_handler({"Records": [record(OPENING), invalid]}, Context())
    assert chosen(answer(), "state", "entry") == ("refused", None)
    refusal = answer()["refusal"]
    assert chosen(refusal, "reason_code", "message_id") == ("INVALID_MESSAGE", invalid["messageId"])
    assert refusal["reason"].startswith("amount: ")
    assert datetime.now(UTC) - datetime.fromisoformat(refusal["refused_at"]) < timedelta(minutes=10)
    bank.post(payment("t-1", "10.5"))
    assert chosen(answer(), "state", "refusal") == ("posted", None)


@pytest.mark.parametrize(("payer", "payee"), [("alice", "pool"), ("pool", "alice")])
def test_a_refused_transfer_with_a_pool_says_so_on_both_accounts(bank: Read, payer: str, payee: str) -> None:
    bank.post(OPENING, opening("pool", shards=2), transfer("t-1", "0.001", payer, payee))
    for name in (payer, payee):
        answer = bank.read("transaction", name, transaction_id="t-1", home_account_id=payer)
        assert chosen(answer, "state", "home_account_id") == ("refused", payer)


def test_a_refusal_of_a_changed_payload_leaves_the_transaction_as_it_is(bank: Read) -> None:
    bank.post(OPENING, payment("t-1"), payment("t-2", -999), payment("t-1", 7), payment("t-2", 8))
    states = [bank.read("transaction", transaction_id=name)["state"] for name in ("t-1", "t-2")]
    assert states == ["posted", "rejected"]


def test_a_transfer_that_was_reversed_says_so_on_both_accounts(bank: Read) -> None:
    """The payee's side is found by the home, under which what was reversed is counted."""
    bank.post(OPENING, opening("bob"), transfer("t-1", 30), reverse("r-1", 10, "bob", of_account_id="alice"))
    for name, amount in (("alice", "-30"), ("bob", "30")):
        assert bank.cost("transaction", name, transaction_id="t-1", home_account_id="alice")[0] == {"BatchGetItem": 1}
        answer = bank.read("transaction", name, transaction_id="t-1", home_account_id="alice")
        assert answer["reversed"] == {"amount": "10", "number": 1, "reversed_by": "r-1"}
        assert answer["entry"]["amount"] == amount
        assert (answer["entry"]["home_account_id"], answer["entry"]["transaction_id"]) == ("alice", "t-1")
    reversal = bank.read("transaction", "bob", transaction_id="r-1")["entry"]["reversal"]
    assert reversal == {"number": 1, "reversed_after": "10", "other_account_ids": ["alice"]}


def test_of_a_compound_that_was_reversed_each_account_says_what_was_its_own(bank: Read) -> None:
    back = reverse("r-1", None, "bob", "c-1", of_account_id="alice")
    bank.post(OPENING, opening("bob"), opening("fees"), compound("c-1", alice=-30, bob=28, fees=2), back)
    for name, amount in (("alice", "30"), ("bob", "28"), ("fees", "2")):
        answer = bank.read("transaction", name, transaction_id="c-1", home_account_id="alice")
        assert answer["reversed"] == {"amount": amount, "number": 1, "reversed_by": "r-1"}
        of = bank.read("transaction", name, transaction_id="r-1", home_account_id="bob")["entry"]["reversal"]
        assert (of["reversed_after"], sorted([*of["other_account_ids"], name])) == (amount, ["alice", "bob", "fees"])


# --- pages --------------------------------------------------------------------------------------------------


def test_a_page_has_four_megabytes_at_most_and_the_next_one_goes_on(
    bank: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An entry that is larger than a page is a page."""
    account_id, gold = largest_transaction().account_id, {"currency": "XAU"}  # Its amounts may have 130 decimals.
    largest = (largest_transaction(number).canonical_payload() | gold for number in range(60))
    bank.post(opening(account_id, **gold), *largest)
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
    monkeypatch.setattr(statements, "LARGEST_PAGE_BYTES", 100)
    answer = bank.read("statement", account_id, last=3)
    assert (versions_of(answer), answer["next"]) == ([59], {"from_version": 60, "to_version": 61})


def test_an_answer_takes_few_requests_and_read_units(bank: Read) -> None:
    """A page without a limit has a hundred entries. The index is read at half a unit for 4 kB."""
    bank.post_at(YEAR_2020, OPENING)
    for number in range(1, 128):
        bank.post_at(YEAR_2020 + number * MILLISECOND, payment(f"t-{number}"))
    in_between = (YEAR_2020 + 64 * MILLISECOND).isoformat()
    assert bank.cost("account") == ({"GetItem": 1}, 1)
    requests, units = bank.cost("transaction", transaction_id="t-7")
    assert (requests, 1 <= units <= 2) == ({"BatchGetItem": 1}, True)
    assert bank.cost("balance", at="2100-01-01T00:00:00Z") == ({"GetItem": 1, "Query": 1}, 1.5)
    requests, units = bank.cost("statement", last=50)
    assert (requests, 3 <= units <= 4) == ({"GetItem": 1, "Query": 1}, True)
    requests, units = bank.cost("balance", at=in_between)
    searched = requests["Query"]
    assert searched in (7, 8), "the binary logarithm of 128 versions"
    assert units == 1 + searched / 2
    requests, units = bank.cost("statement", **{"from": in_between, "limit": 10})
    assert requests == {"GetItem": 1, "Query": searched + 1}
    assert units == 1 + searched / 2 + 0.5
    answer = bank.read("statement", from_version=1)
    assert (len(answer["entries"]), answer["next"]) == (100, {"from_version": 101, "to_version": 128})


# --- times --------------------------------------------------------------------------------------------------


def test_a_time_is_final_if_nothing_can_be_posted_before_it_any_more(bank: Read) -> None:
    bank.post(OPENING)
    now = datetime.now(UTC)
    newest = datetime.fromisoformat(bank.read("account")["posted_at"])
    times = {YEAR_2020: True, now - CLOCK_SKEW: True, newest: True, newest + MILLISECOND: False, now + HOUR: False}
    for time, expected in times.items():
        assert bank.read("balance", at=time.isoformat())["final"] == expected
        fields = {"from": (YEAR_2020 - CLOCK_SKEW).isoformat(), "to": time.isoformat()}
        assert bank.read("statement", **fields)["final"] == expected
    assert bank.read("statement", **{"from": now.isoformat()})["final"] is False
    too_far = now + 2 * CLOCK_SKEW
    bank.change_account(posted_at=timestamp(too_far))
    assert bank.read("balance", at=too_far.isoformat())["final"] is False


def test_a_time_is_final_as_of_before_the_account_was_read(bank: Read, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is posted while the index is waited for isn't in the answer."""
    bank.post_at(YEAR_2020, OPENING)
    clock = SimpleNamespace(now=lambda zone: datetime.fromtimestamp(bank.clock(), zone))
    monkeypatch.setattr(statements, "datetime", clock)
    bank.events.register("after-call.dynamodb.GetItem", lambda **_: bank.clock.sleep(30))
    time = clock.now(UTC) - CLOCK_SKEW - LONGEST_POSTING + timedelta(seconds=1)
    assert bank.read("balance", at=time.isoformat())["final"] is False
    assert bank.read("balance", at=time.isoformat())["final"] is True


# --- errors, and trouble ------------------------------------------------------------------------------------


def error(code: str, reason: str) -> Answer:
    return {"error": {"code": code, "reason": reason}}


def test_a_request_that_is_none_gets_a_sentence_and_no_read(bank: Read) -> None:
    assert bank.read("statement", last=0) == error("INVALID_REQUEST", "last: expected `int` >= 1")
    assert bank.function.lambda_handler([1], Context())["error"]["code"] == "INVALID_REQUEST"
    assert not bank.meter.requests


def test_an_account_that_was_never_opened_is_unknown_but_not_its_transactions(bank: Read) -> None:
    for kind, fields in {"account": {}, "statement": {"last": 1}, "balance": {"at": at(0)}}.items():
        unknown = error("UNKNOWN_ACCOUNT", "account_id: no account 'nobody' has been opened")
        assert bank.read(kind, "nobody", **fields) == unknown
    assert bank.read("transaction", "nobody", transaction_id="t-1")["entry"] is None


REACHES = "ValueError: version: no account reaches 1000000000000000000000000000000"
OF_ACCOUNTS: list[tuple[dict[str, Any], str]] = [
    ({"balance": "12"}, "TypeError: balance: expected Decimal, got str"),
    ({"version": None}, "KeyError: 'version'"),
    ({"version": 10**30}, REACHES),
    ({"holds": "none"}, "TypeError: holds: expected dict, got str"),
    ({"held": "5"}, "TypeError: held: expected Decimal, got str"),
]
OF_ENTRIES: list[tuple[dict[str, Any], str]] = [
    ({"request": None}, "KeyError: 'request'"),
    ({"request": {"amount": Decimal(1)}}, "TypeError: Object of type Decimal is not JSON serializable"),
    ({"held_after": "12"}, "TypeError: held_after: expected Decimal, got str"),
    ({"amount": "12"}, "TypeError: amount: expected Decimal, got str"),
]


def test_a_damaged_item_gets_a_sentence(bank: Read) -> None:
    bank.post(OPENING, *payments(3), reverse("r-1"), payment("t-4", "10,5"))
    account, entry = bank.account_item(), bank.entry("t-2")
    for changes, sentence in OF_ACCOUNTS:
        bank.change_account(**changes)
        assert bank.read("statement", last=4) == error("UNREADABLE", f"the account can't be read: {sentence}")
        bank.put_account(**account)
    for changes, sentence in OF_ENTRIES:
        bank.change_entry("t-2", **changes)
        assert bank.read("statement", last=4) == error("UNREADABLE", f"entry 't-2' can't be read: {sentence}")
        bank.put_entry(entry)
    bank.change(bank.tables.reversals, {"account_id": "alice", "transaction_id": "t-1"}, amount="all")
    reason = "the amount reversed of 't-1' can't be read: TypeError: amount: expected Decimal, got str"
    assert bank.read("transaction", transaction_id="t-1") == error("UNREADABLE", reason)
    assert bank.read("transaction", transaction_id="r-1")["reversed"] is None
    bank.change(bank.tables.refusals, {"account_id": "alice", "transaction_id": "t-4"}, reason=1)
    reason = "the refusal of 't-4' can't be read: TypeError: reason: expected str, got Decimal"
    assert bank.read("transaction", transaction_id="t-4") == error("UNREADABLE", reason)


@pytest.mark.parametrize("state", ["in time", "away"])
def test_a_damaged_time_gets_a_sentence(hourly: Read, state: str) -> None:
    spoil(hourly.index, state, random.Random(1))
    for posted_at in ("yesterday", "2026-03-01T00:00:00", Decimal(5), None):
        hourly.change_entry("t-1", posted_at=posted_at)
        damaged = error("UNREADABLE", f"entry 't-1': posted_at: expected a time with its offset, got {posted_at!r}")
        assert hourly.read("balance", at=at(2)) == hourly.read("statement", **{"from": at(2)}) == damaged


@pytest.mark.parametrize("state", ["in time", "away"])
def test_two_entries_of_one_version_are_both_in_the_statement_and_no_balance_is_told(hourly: Read, state: str) -> None:
    hourly.put_entry(hourly.entry("t-1") | {"transaction_id": "t-1-again"})
    spoil(hourly.index, state, random.Random(1))
    answer = hourly.read("statement", last=4)
    assert (versions_of(answer), answer["complete"]) == ([1, 2, 2, 3, 4], True)
    refusal = hourly.read("balance", at=at(1.5))["error"]
    assert refusal["code"] == "UNREADABLE"
    assert refusal["reason"].startswith("of version 2 are two entries: 't-1")
    assert hourly.read("balance", at=at(2.5))["balance"] == "2"


def test_an_entry_that_is_gone_is_missing_by_its_version(hourly: Read) -> None:
    hourly.delete_entry("t-1")
    answer = hourly.read("statement", last=4)
    assert (versions_of(answer), answer["complete"], answer["missing_versions"]) == ([1, 3, 4], False, [2])
    assert chosen(hourly.read("balance", at=at(2)), "balance", "complete") == (None, False)
    assert chosen(hourly.read("balance", at=at(2.5)), "balance", "complete") == ("2", True)


def test_without_time_left_an_answer_says_what_it_lacks_and_if_there_is_none_the_invocation_fails(hourly: Read) -> None:
    hourly.index.hidden = {1, 2, 3, 4}
    answer = hourly.read("statement", seconds=1, last=2)
    assert chosen(answer, "entries", "complete", "missing_versions") == ([], False, [3, 4])
    answer = hourly.read("balance", seconds=1, at=at(0.5))
    assert chosen(answer, "balance", "complete", "final") == (None, False, True)
    with pytest.raises(DeadlinePassed):
        hourly.read("statement", seconds=0, last=2)


def test_time_that_ends_between_two_requests_leaves_the_rest_to_the_next_page(bank: Read) -> None:
    bank.post(OPENING, *payments(9))
    bank.index.limits = {"index": 4}
    bank.events.register("after-call.dynamodb.Query", lambda **_: bank.clock.sleep(1.1))
    answer = bank.read("statement", seconds=1, last=10)
    assert (versions_of(answer), answer["complete"]) == ([1, 2, 3], True)
    assert answer["next"] == {"from_version": 4, "to_version": 10}


def test_trouble_of_the_tables_fails_the_invocation(bank: Read) -> None:
    bank.post(OPENING)
    refusal = LateIndex.refusal("InternalServerError", "try again")
    bank.events.register("before-call.dynamodb", lambda model, **_: None if model.name == "Query" else refusal)
    for kind, fields in {"account": {}, "transaction": {"transaction_id": "open"}}.items():
        with pytest.raises(ClientError, match="try again"):
            bank.read(kind, **fields)


def without_final(answer: Answer) -> Answer:
    return {name: value for name, value in answer.items() if name not in ("final", "at")}


def test_the_answers_about_any_history_are_the_oracles_in_any_state_of_the_index(bank: Read) -> None:
    @in_fewer_examples
    @given(histories, st.randoms(use_true_random=False))
    def try_history(history: list[Step], choose: random.Random) -> None:
        post_history(bank, history)
        for name, journal in bank.journals().items():
            spoil(bank.index, choose.choice(INDEXES), choose)
            bank.index.limits = {"index": choose.randint(2, 40), "table": choose.randint(1, 40)}
            check_answers(bank, name, journal, choose)

    try_history()


def check_answers(bank: Read, name: str, journal: Journal, choose: random.Random) -> None:
    answer = bank.read("account", name)
    assert (answer.pop("interest") is None) == ("interest" not in journal.account)
    wanted = journal.account_answer()
    if limits := answer["limits"]:  # what they leave is in tests/checkers/test_limits.py
        assert [limit["name"] for limit in limits] == [limit["name"] for limit in journal.account["limits"]]
        wanted |= {name: answer[name] for name in ("limits", "available")}
    assert answer == wanted
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
    known = [(entry["request"]["transaction_id"], entry.get("home_account_id", name)) for entry in journal.entries]
    transaction_id, home = choose.choice([*known, ("t-none", name)])
    answer = bank.read("transaction", name, transaction_id=transaction_id, home_account_id=home)
    assert answer == journal.transaction(transaction_id, home)


def check_pages(bank: Read, name: str, journal: Journal, versions: list[int], limit: int, **fields: Any) -> None:
    """The statement is the oracle's, page after page."""
    while True:
        answer = bank.read("statement", name, limit=limit, **fields)
        assert without_final(answer) == journal.statement(versions, limit)
        versions, fields = versions[limit:], answer["next"]
        if fields is None:
            return
