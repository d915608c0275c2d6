"""A rule is changed while there is history: each entry is judged by the rules that decided it."""

from collections.abc import Sequence

import msgspec
import pytest

from ledger.core import transaction_types
from ledger.core.accounts import Account
from ledger.core.rules import RULES, Decision, RejectionReason, all_rejected
from ledger.core.transaction_types import RULE_SETS, TRANSACTION_TYPES, Transfer
from ledger.core.transaction_types.base import Context
from tests.checkers.books import violations
from tests.support.bodies import opening, openings, payment, transfer
from tests.support.reconciling import Reconciled, mismatches


class SmallTransfer(Transfer, frozen=True, tag="transfer"):
    """A transfer of more than 100 is rejected."""

    def decide_for(self, accounts: Sequence[Account], context: Context) -> tuple[Decision, ...]:
        if self.amount > 100:
            return all_rejected(accounts, RejectionReason.OVERDRAFT_LIMIT)
        return super().decide_for(accounts, context)


CHANGED = TRANSACTION_TYPES | {"transfer": SmallTransfer}


def test_the_last_rule_set_decides_and_has_todays_types() -> None:
    assert max(RULE_SETS) == RULES
    assert TRANSACTION_TYPES.items() <= RULE_SETS[RULES].items()


def test_old_entries_are_judged_by_the_old_rule_and_new_ones_by_the_new_one(
    reconciled: Reconciled, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = reconciled
    ledger.post(*openings("alice", "bob"), payment("credit", 1000), transfer("old", 150), transfer("small", 10))
    monkeypatch.setattr("ledger.fold.RULES", RULES + 1)
    monkeypatch.setitem(transaction_types.RULE_SETS, RULES + 1, CHANGED)
    monkeypatch.setitem(transaction_types._decoders, "transfer", msgspec.json.Decoder(SmallTransfer))
    ledger.post(transfer("new", 150), transfer("small too", 10), transfer("old", 150))
    assert ledger.results("old", "small", "new", "small too") == ["POSTED", "POSTED", "OVERDRAFT_LIMIT", "POSTED"]
    rules = [int(ledger.entry(name)["rules"]) for name in ("old", "small", "new", "small too")]
    assert rules == [RULES, RULES, RULES + 1, RULES + 1]
    assert mismatches(ledger.run(whole=True)) == ""
    for number, types in {RULES: CHANGED, RULES + 1: TRANSACTION_TYPES}.items():  # By the wrong set each is wrong.
        with monkeypatch.context() as patched:
            patched.setitem(transaction_types.RULE_SETS, number, types)
            assert mismatches(ledger.run(number, whole=True)) == "alice: wrong decision; bob: wrong decision"


def test_accounts_keep_the_rule_of_their_opening_and_the_reconciliation_finds_each_as_it_was_decided(
    reconciled: Reconciled,
) -> None:
    """The parameter is off, then on, then off again. Without the rule there is nothing new in an account's items."""
    free = reconciled.another_worker(MINOR_UNITS="off")
    reconciled.post(opening("early", -100), payment("t-1", "0.001", "early"), worker=free)
    assert not {"held", "holds", "decimal_places"} & reconciled.account_item("early").keys()
    assert not {"held_after", "decimal_places", "reversal"} & reconciled.entry("open", "early").keys()
    reconciled.post(opening("ruled"), payment("t-2", "-0.0005", "early"), payment("t-3", "5.001", "ruled"))
    reconciled.post(opening("points", currency="PTS"), payment("t-4", "0.00001", "points"), opening("early", -100))
    reconciled.post(opening("late", currency="JPY"), payment("t-5", "0.5", "late"), worker=free)
    reconciled.post(payment("t-6", "0.001", "ruled"), payment("t-7", "0.01", "ruled"), worker=free)
    books = reconciled.books
    assert not violations(books)
    assert (mismatches(report := reconciled.run()), report["accounts_checked"]) == ("", len(books.accounts))
    places = {name: account.decimal_places for name, account in books.accounts.items()}
    assert places == {"early": None, "ruled": 2, "points": None, "late": None}
    posted = {entry.transaction_id for entry in books.entries if entry.outcome.status == "POSTED"}
    assert posted == {"open", "t-1", "t-2", "t-4", "t-5", "t-7"}
    assert [letter.attributes["reason_code"] for letter in reconciled.dead_letters()] == ["INVALID_MESSAGE"] * 2
