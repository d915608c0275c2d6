"""A transaction is decided once by Powertools' handler, with its journal entry as the idempotency record."""

from decimal import Decimal
from typing import NoReturn

import pytest
from msgspec.structs import replace

from ledger.core.journal import JournalEntry
from ledger.core.reason_codes import UnknownAccount
from ledger.core.rules import Decision, RejectionReason
from ledger.core.transaction_types.base import outcome_of
from ledger.fold import Once
from tests.support import samples
from tests.support.samples import ALICE, NOW

POSTED = Decision(Decimal("-12.5"), Decimal("87.5"))
REJECTED = Decision(Decimal(0), Decimal("1E+2"), RejectionReason.OVERDRAFT_LIMIT)


def entry_of(decision: Decision) -> JournalEntry:
    return samples.entry_of(samples.payment(), outcome_of(decision, replace(ALICE, version=8, posted_at=NOW)))


@pytest.mark.parametrize("disabled", ["true", "1", ""], ids=repr)
@pytest.mark.parametrize("decision", [POSTED, REJECTED], ids=["posted", "rejected"])
def test_a_transaction_is_decided_without_an_entry_and_replayed_with_one(
    decision: Decision, disabled: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One handler is for all transactions. The variable that turns Powertools off has no effect."""
    monkeypatch.setenv("POWERTOOLS_IDEMPOTENCY_DISABLED", disabled)
    facts: list[str] = []
    once: Once[[str], object] = Once(facts.append, lambda entry: entry)
    entry = entry_of(decision)
    assert once.of(None, "new").handle() is None
    assert once.of(entry, "repeated").handle() is entry
    assert once.of(None, "another").handle() is None
    assert facts == ["new", "another"]


@pytest.mark.parametrize("error", [UnknownAccount("no such account"), SystemExit()], ids=repr)
def test_an_error_of_the_decision_comes_as_it_is(error: BaseException) -> None:
    def decide() -> NoReturn:
        raise error

    with pytest.raises(type(error)) as raised:
        Once(decide, lambda entry: entry).of(None).handle()
    assert raised.value is error
