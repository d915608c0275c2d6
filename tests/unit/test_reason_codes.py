"""Reason codes, and the refusals that have them."""

import pytest

from ledger.core import reason_codes
from ledger.core.reason_codes import IdReused, InvalidMessage, NotYet, ReasonCode, Refusal, UnknownAccount
from ledger.dispositions import disposition_of
from workers.batches import GivenUp
from workers.queue_messages import Again, Dead, Waiting


@pytest.mark.parametrize("code", [*ReasonCode, *GivenUp])
def test_a_reason_code_is_spelled_as_it_is_named(code: ReasonCode | GivenUp) -> None:
    """Metric dimensions and message attributes accept all its characters."""
    assert code == code.name
    assert code.replace("_", "").isalpha()
    assert code.isascii()


def subclasses(kind: type) -> list[type]:
    return [each for direct in kind.__subclasses__() for each in (direct, *subclasses(direct))]


def test_each_refusal_has_a_code() -> None:
    found = [each for each in subclasses(Refusal) + subclasses(NotYet) if each.__module__ == reason_codes.__name__]
    assert {each.__name__: each.code for each in found} == {
        "InvalidMessage": ReasonCode.INVALID_MESSAGE,
        "WrongQueue": ReasonCode.WRONG_QUEUE,
        "IdReused": ReasonCode.PAYLOAD_CHANGED,
        "UnknownAccount": ReasonCode.UNKNOWN_ACCOUNT,
        "UnknownHold": ReasonCode.UNKNOWN_HOLD,
        "UnknownTransaction": ReasonCode.UNKNOWN_TRANSACTION,
    }


def test_an_invalid_messages_sentence_is_cut() -> None:
    assert str(InvalidMessage("x" * 300)) == "x" * 300
    assert str(InvalidMessage("x" * 301)) == "x" * 299 + "…"


INVALID, CHANGED = InvalidMessage("no amount"), IdReused("another amount", "POSTED")
UNKNOWN = UnknownAccount("no account 'alice' has been opened")
DISPOSITIONS: dict[Exception, Dead | Waiting] = {
    INVALID: Dead(ReasonCode.INVALID_MESSAGE, "no amount", INVALID.details),
    CHANGED: Dead(ReasonCode.PAYLOAD_CHANGED, "another amount", {"original_status": "POSTED"}),
    UNKNOWN: Waiting(ReasonCode.UNKNOWN_ACCOUNT, "no account 'alice' has been opened"),
}


@pytest.mark.parametrize(("error", "disposition"), DISPOSITIONS.items(), ids=repr)
def test_what_is_refused_is_dead_and_what_may_come_is_waited_for(error: Exception, disposition: Dead | Waiting) -> None:
    assert disposition_of(error) == disposition


@pytest.mark.parametrize(
    ("error", "reason"), [(KeyError("balance"), "KeyError: 'balance'"), (TimeoutError(), "TimeoutError()")]
)
def test_any_other_error_comes_again_with_a_reason(error: Exception, reason: str) -> None:
    again = disposition_of(error)
    assert isinstance(again, Again)
    assert again.reason == reason
    assert again.error
    assert again.error.name == type(error).__name__
