"""The answer of `post_transactions` for each disposition of a message."""

from typing import Any

import pytest

from conditional_writes import DeadlinePassed
from ledger.core.post_requests import PostRequest
from ledger.core.reason_codes import LineTooLong, ReasonCode
from ledger.dispositions import after_commit, disposition_of
from ledger.synchronous import SynchronousPoster
from tests.support.clock import plenty
from tests.support.samples import transfer
from workers.queue_messages import Again, Dead, Disposition, PerhapsDone, Waiting

IDS = {"transaction_id": "t-1", "account_id": "alice"}


class Giving:
    """Gives each message this disposition, and decodes each body as a transfer."""

    def __init__(self, disposition: Disposition) -> None:
        self.disposition = disposition

    def post(self, messages: Any, _: object) -> list[Any]:
        for message in messages:
            message.disposition = self.disposition
        return []

    decide = post


@pytest.mark.parametrize("dry_run", [False, True])
@pytest.mark.parametrize(
    ("disposition", "outcome"),
    [
        (Waiting(ReasonCode.UNKNOWN_ACCOUNT, "why"), {"state": "waiting", "reason_code": "UNKNOWN_ACCOUNT"}),
        (
            Dead(ReasonCode.PAYLOAD_CHANGED, "why", {"original_status": "POSTED"}),
            {"state": "invalid", "reason_code": "PAYLOAD_CHANGED", "original_status": "POSTED"},
        ),
        (PerhapsDone("why"), {"state": "unknown"}),
        (Again("why"), {"state": "busy"}),
    ],
)
def test_an_outcome_has_the_ids_of_its_transaction_its_state_and_why(
    disposition: Disposition, outcome: dict[str, str], dry_run: bool
) -> None:
    poster = SynchronousPoster(lambda _: transfer(1), Giving(disposition))
    answer = poster.answer(PostRequest(["{}"], dry_run), "r-1", "AROAEXAMPLE:api", plenty())
    assert answer.outcomes == [IDS | outcome | {"reason": "why"}]
    assert [answer.count(state) for state in ("posted", outcome["state"])] == [0, 1]


def test_a_body_that_is_no_transaction_has_no_ids_and_is_posted_by_nobody() -> None:
    def refuse(_: str) -> Any:
        raise LineTooLong("no")

    [outcome] = SynchronousPoster(refuse, None).answer(PostRequest(["{}"], False), "r", "x", plenty()).outcomes
    assert outcome == {"transaction_id": None, "account_id": None, "state": "busy", "reason": "no"}


def test_a_line_that_is_too_long_has_no_traceback_and_after_the_deadline_nothing_was_written() -> None:
    assert disposition_of(LineTooLong("too long")) == Again("too long")
    assert type(after_commit(DeadlinePassed("late"))) is Again
