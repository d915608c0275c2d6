"""A transaction is decided once by Powertools' protocol, with its journal entry as the idempotency record."""

from decimal import Decimal

import jmespath
import pytest
from hypothesis import given
from msgspec.structs import replace

from ledger.core.journal import EntryId, JournalEntry, Outcome, outcome_of
from ledger.core.rules import Decision, RejectionReason
from ledger.core.transaction_types.base import TransactionMessage
from ledger.idempotent_decision import _CONFIG, Decided, decide_once
from tests.support.samples import ALICE, NOW, payment
from tests.support.strategies import any_message

ENTRY_ID = EntryId("alice", "t-1")
POSTED = outcome_of(Decision(Decimal("-12.5"), Decimal("87.5")), replace(ALICE, version=8), NOW)
REJECTED = outcome_of(
    Decision(Decimal(0), Decimal("1E+2"), RejectionReason.OVERDRAFT_LIMIT), replace(ALICE, version=8), NOW
)
REQUEST = payment("-12.5").canonical_payload()


OUTCOMES = {"posted": POSTED, "rejected": REJECTED}


def nothing() -> Outcome:
    raise AssertionError("decided again")


def recorded(decided: Decided) -> JournalEntry:
    assert decided.payload_hash
    return JournalEntry(*ENTRY_ID, REQUEST, decided.payload_hash, decided.outcome)


@pytest.mark.parametrize("disabled", ["true", "1", ""], ids=repr)
@pytest.mark.parametrize("outcome", OUTCOMES.values(), ids=OUTCOMES)
def test_a_transaction_is_decided_without_an_entry_and_with_one_its_first_outcome_is_replayed(
    outcome: Outcome, disabled: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The variable that turns Powertools off has no effect."""
    monkeypatch.setenv("POWERTOOLS_IDEMPOTENCY_DISABLED", disabled)
    decided = decide_once(REQUEST, None, lambda: outcome)
    assert decided.outcome == outcome
    assert decide_once(REQUEST, recorded(decided), nothing) == (replace(outcome, replayed=True), None)


@given(any_message())
def test_the_hash_is_of_the_canonical_payload_alone(message: TransactionMessage) -> None:
    request = message.canonical_payload()
    hashes = [decide_once(request, None, lambda each=each: each).payload_hash for each in OUTCOMES.values()]
    other = decide_once(request | {"transaction_id": f"{message.transaction_id}x"}, None, lambda: POSTED)
    assert hashes[0] == hashes[1] != other.payload_hash


@given(any_message())
def test_powertools_finds_a_key_and_a_payload_in_every_message(message: TransactionMessage) -> None:
    request = message.canonical_payload()
    assert jmespath.search(_CONFIG.event_key_jmespath, request) == message.transaction_id
    assert jmespath.search(_CONFIG.payload_validation_jmespath, request) == request
