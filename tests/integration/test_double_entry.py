"""Double entry: no amount is on one account alone, and the books of each currency sum to zero each night."""

import json
import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from types import ModuleType

import pytest

from tests.checkers.books import violations
from tests.support.bodies import (
    Body,
    compound,
    hold,
    interest,
    opening,
    openings,
    payment,
    post_hold,
    rate,
    reverse,
    transfer,
)
from tests.support.ledger import Ledger
from tests.support.reconciling import Reconciled, mismatches
from tests.support.samples import IMPORTED
from tools.local_aws.server import PROJECT, Endpoint


@pytest.fixture
def ledger(aws: Endpoint, dynamodb: Endpoint) -> Ledger:
    """Alice has 100 by a single-sided payment of before, and 20 of them are held."""
    ledger = Ledger(aws, dynamodb)
    ledger.post(*openings("alice", "bob", "fees"), opening("outside", "-1000"), payment("before", 100), hold("h-1", 20))
    return ledger


@pytest.fixture
def strict(ledger: Ledger) -> ModuleType:
    """The function that posts, with the parameter on."""
    return ledger.another_worker(DOUBLE_ENTRY="on")


IMPORT: Body = {"type": "import_account", "transaction_id": "i", "account_id": "carol"} | IMPORTED
ONE_SIDED: dict[str, Body] = {
    "type: expected a transfer or a compound": payment("t-1", 5),
    "to_account_id: expected one, or legs": post_hold(),
    "of_transaction_id: expected a transaction of several accounts": reverse("r-1", None, "alice", "before"),
    "to_account_id: expected one": interest(),
    "from_account_id: expected one": IMPORT,
}


def test_what_has_one_side_alone_is_refused_with_a_sentence_and_changes_nothing(
    ledger: Ledger, strict: ModuleType
) -> None:
    before = ledger.books
    ledger.post(*ONE_SIDED.values(), worker=strict)
    reasons = {letter.reason for letter in ledger.dead_letters()}
    assert reasons == {f"{each}: in double entry no amount is on one account alone" for each in ONE_SIDED}
    assert ledger.books == before


def test_what_has_its_other_side_is_posted_and_a_repetition_gets_its_first_answer(
    ledger: Ledger, strict: ModuleType
) -> None:
    legs = [{"account_id": "bob", "amount": "15"}, {"account_id": "fees", "amount": "1"}]
    messages = [
        transfer("t-1", 50, "outside", "bob"),
        compound("c-1", bob=-10, alice=9, fees=1),
        post_hold(legs=legs),
        reverse("r-1", None, "fees", "c-1", of_account_id="bob"),
        interest(to_account_id="fees"),
        payment("before", 100),
        IMPORT | {"from_account_id": "outside"},
        IMPORT | {"account_id": "dave", "balance": 0},
    ]
    ledger.post(*messages, worker=strict)
    assert ledger.dead_letters() == []
    accounts = ledger.books.accounts
    assert sum(account.balance for account in accounts.values()) == 100
    assert (accounts["bob"].balance, accounts["carol"].balance, accounts["outside"].balance) == (65, -30, -20)
    assert violations(ledger.books) == []


BEFORE = datetime(2026, 2, 1, tzinfo=UTC)
DURING = datetime(2026, 3, 1, 1, 59, 59, tzinfo=UTC)
"""The first night begins a second later."""


@pytest.fixture
def nights(reconciled: Reconciled) -> Reconciled:
    """Books that balance: what came in went out again."""
    ledger = reconciled
    moved = [transfer("t-1", 50), compound("c-1", alice=-10, bob=9, fees=1), transfer("t-2", 9, "carol", "dave")]
    ledger.post_at(BEFORE, *openings("alice", "bob", "fees"), *openings("carol", "dave", limit=-9, currency="JPY"))
    ledger.post_at(BEFORE, payment("in", "100.5"), *moved)
    ledger.post_at(BEFORE, payment("out-1", "-40.5"), payment("out-2", -60, "bob", currency="CHF"))
    ledger.post_at(BEFORE, payment("out-3", -59, "bob"), payment("out-4", -1, "fees"))
    return ledger


def test_a_nights_report_has_what_came_in_and_went_out_and_it_equals_the_balances(nights: Reconciled) -> None:
    """What is posted meanwhile, or on the other accounts of what is posted meanwhile, counts in the next one."""
    nights.post_at(DURING, payment("late", 5), transfer("t-3", 2, "alice", "bob"))
    assert nights.run()["trial_balance"] == {
        "as_of": "2026-03-01T01:57:55.000+00:00",
        "accounts_left_out": 0,
        "currencies": {
            "EUR": {"came_in": "100.5", "went_out": "100.5", "balances": "0"},
            "JPY": {"came_in": "0", "went_out": "0", "balances": "0"},
        },
    }
    nights.post_at(DURING + timedelta(hours=9), payment("more", -1), transfer("t-4", 3, "dave", "carol"))
    report = nights.run(1)
    assert report["trial_balance"]["currencies"] == {
        "EUR": {"came_in": "105.5", "went_out": "101.5", "balances": "4"},
        "JPY": {"came_in": "0", "went_out": "0", "balances": "0"},
    }
    assert nights.run(2, whole=True)["trial_balance"]["currencies"] == report["trial_balance"]["currencies"]
    assert mismatches(report) == ""


def test_pools_are_the_outside_world_and_get_the_interest(nights: Reconciled) -> None:
    nights.double_entry = True
    pools = [opening(name, shards=4) for name in ("outside", "interest")]
    paid = [transfer(f"in-{name}", 10, "outside", name) for name in ("alice", "bob", "fees")]
    nights.post_at(BEFORE, *pools, opening("erin", -100), rate(account_id="erin"))
    nights.post_at(BEFORE, *paid, transfer("t-9", 90, "erin", "outside"), IMPORT | {"from_account_id": "outside"})
    nights.post_at(DURING - timedelta(minutes=9), interest(account_id="erin", to_account_id="interest"))
    report = nights.run()
    assert mismatches(report) == ""
    assert report["trial_balance"]["currencies"]["EUR"] == {"came_in": "100.5", "went_out": "100.5", "balances": "0"}
    books = nights.books
    assert violations(books) == []
    assert books.accounts["erin"].interest.due == 0
    shards = [each for name, each in books.accounts.items() if name.endswith(":interest")]
    assert sum(shard.balance for shard in shards) == -90 - books.accounts["erin"].balance > 0


def test_in_double_entry_a_planted_entry_with_one_side_is_found_by_the_nightly_check(nights: Reconciled) -> None:
    nights.double_entry = True
    assert mismatches(nights.run()) == ""
    nights.post_at(DURING, payment("planted", 5))  # by a function that knows nothing of double entry
    assert mismatches(nights.run()) == ""
    report = nights.run(1)
    assert report["first_mismatches"] == [
        "all accounts: trial balance: EUR: the balances sum to 5, expected 0 in double entry"
    ]


def test_accounts_of_which_the_sums_are_not_known_are_left_out_and_nothing_is_said_of_the_others(
    nights: Reconciled,
) -> None:
    nights.run()
    nights.post(payment("today", 5))  # long after the time of the night, which had other entries of the account
    nights.run(0.5)
    report = nights.run(1)
    assert (report["trial_balance"]["accounts_left_out"], mismatches(report)) == (1, "")


def test_the_pages_week_ends_with_the_balances_that_it_says(ledger: Ledger, strict: ModuleType) -> None:
    page = (PROJECT / "docs" / "double-entry.md").read_text()
    outside, *week = map(json.loads, re.findall(r"```json\n(.*?)```", page, re.DOTALL))
    rows = re.findall(r"^\| `([\w-]+)` \| (-?\d+) \|$", page, re.MULTILINE)
    balances = {name: Decimal(balance) for name, balance in rows}
    ledger.post(outside, *openings(*(balances.keys() - {outside["account_id"]})), *week, worker=strict)
    assert ledger.dead_letters() == []
    assert balances == {name: ledger.books.accounts[name].balance for name in balances}
    assert sum(balances.values()) == 0
