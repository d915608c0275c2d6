"""A transaction is decided once by Powertools' protocol, with its journal entry as the idempotency record."""

from decimal import Decimal
from typing import Any

import jmespath
import pytest
from hypothesis import given
from msgspec.structs import replace

from ledger.core.journal import EntryId, JournalEntry, Outcome, outcome_of
from ledger.core.reason_codes import PayloadChanged, UnknownAccount
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


class Deciding:
    """Counts its decisions."""

    def __init__(self, outcome: Outcome | Exception) -> None:
        self.outcome, self.times = outcome, 0

    def __call__(self) -> Outcome:
        self.times += 1
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome


def recorded(decided: Decided, request: dict[str, Any] = REQUEST) -> JournalEntry:
    assert decided.payload_hash is not None
    return JournalEntry(*ENTRY_ID, request, decided.payload_hash, decided.outcome)


@pytest.mark.parametrize("outcome", [POSTED, REJECTED], ids=["posted", "rejected"])
def test_without_an_entry_the_transaction_is_decided_and_has_a_hash_to_record(outcome: Outcome) -> None:
    decide = Deciding(outcome)
    decided = decide_once(REQUEST, None, decide)
    assert (decided.outcome, decide.times) == (outcome, 1)
    assert decided.payload_hash


@pytest.mark.parametrize("value", ["true", "1", ""])
def test_the_variable_that_turns_powertools_off_has_no_effect(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POWERTOOLS_IDEMPOTENCY_DISABLED", value)
    decided = decide_once(REQUEST, None, Deciding(POSTED))
    assert decided.payload_hash
    assert decide_once(REQUEST, recorded(decided), Deciding(POSTED)).outcome.replayed


@pytest.mark.parametrize("outcome", [POSTED, REJECTED], ids=["posted", "rejected"])
def test_with_its_entry_the_first_outcome_is_replayed_and_nothing_decided_or_recorded(outcome: Outcome) -> None:
    entry = recorded(decide_once(REQUEST, None, Deciding(outcome)))
    decide = Deciding(AssertionError("decided again"))
    assert decide_once(REQUEST, entry, decide) == (replace(outcome, replayed=True), None)
    assert decide.times == 0


def test_another_payload_is_refused_and_the_sentence_names_the_fields() -> None:
    entry = recorded(decide_once(REQUEST, None, Deciding(POSTED)))
    decide = Deciding(POSTED)
    changed = payment(6, currency="EUR").canonical_payload()
    with pytest.raises(PayloadChanged) as caught:
        decide_once(changed, entry, decide)
    assert str(caught.value) == "transaction_id: 't-1' was used before on account 'alice' with another amount, currency"
    assert caught.value.__suppress_context__
    assert decide.times == 0


def test_an_error_of_the_decision_passes_through() -> None:
    error = UnknownAccount("account_id: no account 'alice' has been opened")
    with pytest.raises(UnknownAccount) as caught:
        decide_once(REQUEST, None, Deciding(error))
    assert caught.value is error


@given(any_message())
def test_the_hash_is_of_the_canonical_payload_alone(message: TransactionMessage) -> None:
    request = message.canonical_payload()
    hashes = {decide_once(request, None, Deciding(outcome)).payload_hash for outcome in (POSTED, REJECTED)}
    assert len(hashes) == 1
    other = request | {"transaction_id": f"{message.transaction_id}x"}
    assert decide_once(other, None, Deciding(POSTED)).payload_hash not in hashes


@given(any_message())
def test_powertools_finds_a_key_and_a_payload_in_every_message(message: TransactionMessage) -> None:
    request = message.canonical_payload()
    assert jmespath.search(_CONFIG.event_key_jmespath, request) == message.transaction_id
    assert jmespath.search(_CONFIG.payload_validation_jmespath, request) == request
