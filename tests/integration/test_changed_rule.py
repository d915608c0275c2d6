"""A rule is changed while there is history: each entry is judged by the rule set that decided it."""

from collections.abc import Sequence

import msgspec
import pytest

from ledger.core import transaction_types
from ledger.core.accounts import Account
from ledger.core.rules import Decision, RejectionReason, all_rejected
from ledger.core.transaction_types import TRANSACTION_TYPES, Transfer
from ledger.core.transaction_types.base import Context
from tests.support.bodies import openings, payment, transfer
from tests.support.reconciling import Reconciled, mismatches


class SmallTransfer(Transfer, frozen=True, tag="transfer"):
    """A transfer of more than 100 is rejected."""

    def decide_for(self, accounts: Sequence[Account], context: Context) -> tuple[Decision, ...]:
        if self.amount > 100:
            return all_rejected(accounts, RejectionReason.OVERDRAFT_LIMIT)
        return super().decide_for(accounts, context)


CHANGED = TRANSACTION_TYPES | {"transfer": SmallTransfer}


def test_old_entries_are_judged_by_the_old_rule_and_new_ones_by_the_new_one(
    reconciled: Reconciled, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = reconciled
    ledger.post(*openings("alice", "bob"), payment("credit", 1000), transfer("old", 150), transfer("small", 10))
    monkeypatch.setattr("ledger.fold.RULES", 2)
    monkeypatch.setitem(transaction_types.RULE_SETS, 2, CHANGED)
    monkeypatch.setitem(transaction_types._decoders, "transfer", msgspec.json.Decoder(SmallTransfer))
    ledger.post(transfer("new", 150), transfer("small too", 10), transfer("old", 150))
    assert ledger.results("old", "small", "new", "small too") == ["POSTED", "POSTED", "OVERDRAFT_LIMIT", "POSTED"]
    assert [int(ledger.entry(name)["rules"]) for name in ("old", "small", "new", "small too")] == [1, 1, 2, 2]
    assert mismatches(ledger.run(whole=True)) == ""
    for number, types in {1: CHANGED, 2: TRANSACTION_TYPES}.items():  # By the wrong set each is wrong.
        with monkeypatch.context() as patched:
            patched.setitem(transaction_types.RULE_SETS, number, types)
            assert mismatches(ledger.run(number, whole=True)) == "alice: wrong decision; bob: wrong decision"
