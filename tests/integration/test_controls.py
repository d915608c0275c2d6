"""Controls through the function that posts, on both engines: what they leave on the account, and what they refuse."""

from datetime import UTC, datetime

import pytest

from ledger.core.rules import RULES
from tests.checkers.books import violations
from tests.support.bodies import (
    expire_hold,
    freeze,
    hold,
    interest,
    openings,
    payment,
    post_hold,
    rate,
    reverse,
    set_limit,
    transfer,
    void_hold,
)
from tests.support.ledger import YEAR_2020
from tests.support.reconciling import Reconciled, mismatches

DAY = {"name": "day", "of": "debits", "per": "day", "time_zone": "Europe/Paris", "amount": "100"}
CEILING = {"name": "ceiling", "of": "balance", "amount": "100"}


def test_a_freeze_that_ended_leaves_nothing_on_the_account_and_others_attributes_stay(reconciled: Reconciled) -> None:
    reconciled.open("alice")
    reconciled.change_account(notes="of another program")
    reconciled.post(freeze("f-1"), payment("t-1"))
    assert reconciled.account_item()["frozen"] == {"debits": True, "credits": True}
    reconciled.post(payment("t-2"), freeze("f-2", debits=False, credits=False), payment("t-3"))
    assert "frozen" not in reconciled.account_item()
    assert reconciled.account_item()["notes"] == "of another program"
    assert reconciled.results("t-1", "t-2", "t-3") == ["ACCOUNT_FROZEN", "ACCOUNT_FROZEN", "POSTED"]
    assert not violations(reconciled.books)
    reconciled.change_account(frozen={"debits": "yes", "credits": True})
    assert reconciled.returned(payment("t-4")), "nothing is decided on a damaged freeze"


AFTER_A_FREEZE = {
    "debit": (payment("debit", -1), "debits"),
    "credit": (payment("credit"), "credits"),
    "out": (transfer("out"), "debits"),
    "in": (transfer("in", 1, "bob", "alice"), "credits"),
    "refund": (reverse("refund", of_transaction_id="spent"), "credits"),
    "claim": (reverse("claim", account_id="bob", of_transaction_id="gift"), "debits"),
    "hold": (hold("hold"), "debits"),
    "post": (post_hold("post"), "debits"),
    "paid": (post_hold("paid", None, "bob", "h-4", to_account_id="alice"), "credits"),
    "void": (void_hold("void", hold_id="h-2"), None),
    "expire": (expire_hold("expire", hold_id="h-3", as_of="2020-01-05T00:00:00Z"), None),
    "interest": (interest("interest", "2020-02-01T00:00:00+00:00"), None),
    "forced": (payment("forced", -1, forced=True), None),
    "limit": (set_limit("limit", -2000), None),
}
"""Transactions on alice's account, each with what must be frozen to stop it."""


@pytest.mark.parametrize("frozen", ["debits", "credits"])
def test_a_freeze_stops_what_its_page_says_and_nothing_else(reconciled: Reconciled, frozen: str) -> None:
    gift, expires = transfer("gift", 50, "bob", "alice"), "2020-01-05T00:00:00Z"
    holds = hold(), hold("h-2"), hold("h-3", expires_at=expires), hold("h-4", account_id="bob")
    reconciled.post_at(YEAR_2020, *openings("alice", "bob", limit=-1000), rate(), payment("spent", -200), gift, *holds)
    later, messages = datetime(2020, 2, 2, tzinfo=UTC), [message for message, _ in AFTER_A_FREEZE.values()]
    reconciled.post_at(later, freeze(debits=frozen == "debits", credits=frozen == "credits"), *messages)
    stopped = [by == frozen for _, by in AFTER_A_FREEZE.values()]
    assert reconciled.results(*AFTER_A_FREEZE) == ["ACCOUNT_FROZEN" if each else "POSTED" for each in stopped]
    assert not violations(reconciled.books)
    assert mismatches(reconciled.run()) == ""


def test_limits_and_forced_debits_are_replayed_as_they_were_decided(reconciled: Reconciled) -> None:
    """Payments at the end of a day in Paris and on the next one, and a payee that refuses what its ceiling leaves no
    room for. Limits that were set and removed leave nothing on an account.
    """
    limits = {"type": "set_limits", "account_id": "alice"}
    evening = datetime(2020, 3, 28, 22, 0, tzinfo=UTC)
    ceiling = limits | {"account_id": "bob", "transaction_id": "l-1", "limits": [CEILING]}
    reconciled.post_at(evening, *openings("alice", "bob"), payment("t-0", 500), ceiling)
    reconciled.post_at(evening, limits | {"transaction_id": "l-2", "limits": [DAY]}, transfer("t-1", 60))
    reconciled.post_at(evening.replace(minute=30), transfer("t-2", 41), hold("h-1", 40), payment("t-3", -1))
    reconciled.post_at(evening.replace(hour=23), post_hold(), reverse(), transfer("t-4", 60), transfer("t-5", 41))
    reconciled.post_at(evening.replace(hour=23), payment("t-6", -999, forced=True))
    results = reconciled.results("t-1", "t-2", "h-1", "t-3", "p-1", "r-1", "t-4", "t-5", "t-6")
    exceeded, posted = "LIMIT_EXCEEDED", "POSTED"
    assert results == [posted, exceeded, posted, exceeded, posted, posted, posted, exceeded, posted]
    assert reconciled.entry("t-3")["exceeded"] == {"limit": "day", "left": 0}
    assert not violations(reconciled.books)
    reconciled.post(limits | {"transaction_id": "l-3", "limits": []}, freeze(), transfer("t-7", 1, "bob", "alice"))
    assert "limits" not in reconciled.account_item()
    reconciled.post(freeze("thaw", debits=False, credits=False))
    assert reconciled.results("t-7") == ["ACCOUNT_FROZEN"]
    assert mismatches(reconciled.run()) == ""
    reconciled.change_account("bob", limits=[CEILING | {"amount": "1_0"}])
    assert reconciled.returned(payment("t-8", 1, "bob")), "nothing is decided on a damaged limit"


def test_a_reversal_comes_again_while_its_originals_rule_set_is_unknown(reconciled: Reconciled) -> None:
    """During a deployment: a function of the earlier release can't know whether limits count the original."""
    limits = {"type": "set_limits", "account_id": "alice", "transaction_id": "l-1", "limits": [DAY]}
    reconciled.post_at(YEAR_2020, *openings("alice"), payment("t-0", 500), limits, payment("t-1", -60))
    reconciled.change_entry("t-1", rules=RULES + 1)
    assert reconciled.returned(reverse("r-1", of_transaction_id="t-1"))
    reconciled.change_entry("t-1", rules=RULES)
    assert not reconciled.returned(reverse("r-1", of_transaction_id="t-1"))
    assert reconciled.results("r-1") == ["POSTED"]


def test_without_limits_nobody_asks_whether_a_reversals_original_was_counted(reconciled: Reconciled) -> None:
    reconciled.post(*openings("alice"), payment("t-1", 60))
    reconciled.change_entry("t-1", rules=RULES + 1)
    assert not reconciled.returned(reverse("r-1", of_transaction_id="t-1"))
    assert reconciled.results("r-1") == ["POSTED"]
