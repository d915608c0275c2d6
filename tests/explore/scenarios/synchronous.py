"""A transaction comes by the queue and by a synchronous call at once: it is posted once, and no answer denies it."""

import json
from collections.abc import Callable, Sequence
from typing import Any

from conditional_writes import Deadline
from conditional_writes.testing import Outcome
from ledger.batch_poster import BatchPoster
from ledger.core.post_requests import PostRequest
from ledger.core.transaction_types import decode
from ledger.lines import Lines
from ledger.synchronous import SynchronousPoster
from tests.checkers.history import entries_of
from tests.explore.bank import LOCKS, NAMES, Bank, Body, Opened, assert_none, each_once, posting
from tests.explore.scenario import Scenario
from tests.support.bodies import opening, payment, transfer

CALL_SECONDS = 20
PAYMENT, POOR, TRANSFER = payment("p-1", -60), payment("p-2", -60), transfer("t-1", 30)
BOTH = Opened(opening("alice"), opening("bob"), payment("first", 100))


class Asked(list[dict[str, Any]]):
    """The outcomes that a caller was answered with."""


def asking(worker: int, *bodies: Body) -> Callable[[Bank], Asked]:
    def ask(bank: Bank) -> Asked:
        client = bank.clients[worker]
        synchronous = SynchronousPoster(decode, BatchPoster(client, NAMES, Lines(client, LOCKS)))
        request = PostRequest([json.dumps(body) for body in bodies], dry_run=False)
        return Asked(synchronous.answer(request, "call", "caller", Deadline.after(CALL_SECONDS)).outcomes)

    return ask


def once(*bodies: Body) -> Callable[[Bank, Sequence[Outcome]], None]:
    """As `each_once`, and each answer agrees with the journal: at the time, and in the end."""
    posted = each_once(*bodies)

    def check(bank: Bank, outcomes: Sequence[Outcome]) -> None:
        asked = [answer for outcome in outcomes if isinstance(outcome.value, Asked) for answer in outcome.value]
        for outcome in outcomes:
            if isinstance(outcome.value, Asked):
                outcome.value.clear()  # so that each_once looks at the queue's deliveries
        assert_none(_contradictions(asked, bank))
        posted(bank, outcomes)
        assert_none(_contradictions(asked, bank))

    return check


def _contradictions(asked: Sequence[dict[str, Any]], bank: Bank) -> list[str]:
    entries = {entry.transaction_id: entry.outcome for entry in entries_of(bank.books).values()}
    found = []
    for answer in asked:
        entry, state = entries.get(answer["transaction_id"]), answer["state"]
        if state in ("posted", "rejected") and (entry is None or entry.status.lower() != state):
            found.append(f"answered {answer}, and the journal has {entry}")
        if state in ("invalid", "waiting"):
            found.append(f"answered {answer}")
    return found


SCENARIOS = [
    Scenario("one id by both ways is posted once", [posting(0, PAYMENT), asking(1, PAYMENT)], BOTH, once(PAYMENT)),
    Scenario("one id by two calls is posted once", [asking(0, TRANSFER), asking(1, TRANSFER)], BOTH, once(TRANSFER)),
    Scenario(
        "of two debits by both ways the balance covers one",
        [posting(0, PAYMENT), asking(1, POOR)],
        BOTH,
        once(PAYMENT, POOR),
    ),
    Scenario(
        "a call with two transactions and a delivery of one of them",
        [posting(0, TRANSFER), asking(1, PAYMENT, TRANSFER)],
        BOTH,
        once(PAYMENT, TRANSFER),
        completes=False,
    ),
]
