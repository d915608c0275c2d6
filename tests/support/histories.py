"""Journals of any history, posted at any time by workers that outrun one another; and the states of their index."""

import random
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st

from ledger.core.accounts import CLOCK_SKEW
from ledger.core.transaction_types.base import TransactionMessage
from tests.checkers.books import violations
from tests.checkers.statement_oracle import Journal
from tests.support.bodies import openings
from tests.support.clock import Clock
from tests.support.late_index import AWAY, THROTTLED, LateIndex
from tests.support.ledger import YEAR_2020, Ledger
from tests.support.strategies import messages_of, that_refer

MILLISECOND, HOUR = timedelta(milliseconds=1), timedelta(hours=1)
NAMES = ["alice", "bob", "carol"]
MOST_STEPS = 5

type Step = tuple[timedelta, list[TransactionMessage], list[TransactionMessage]]
"""How much later the clock is, a batch, and what another worker posts before the batch commits."""

in_fewer_examples = settings(max_examples=max(1, settings().max_examples // 8), deadline=None)
messages = messages_of(st.sampled_from(NAMES), st.integers(1, 99).map(lambda number: f"t-{number:02}"))
steps = st.tuples(
    st.timedeltas(-CLOCK_SKEW / MOST_STEPS, HOUR),  # all of them together are no wrong clock
    that_refer(st.lists(messages, min_size=1, max_size=8)),
    st.just([]) | st.lists(messages, min_size=1, max_size=3),
)
histories = st.lists(steps, min_size=1, max_size=MOST_STEPS)


def post_history(ledger: Ledger, history: list[Step]) -> None:
    """Posts the steps with a clock that goes back now and then. In some of them another worker is first."""
    ledger.empty()
    time = YEAR_2020
    ledger.post_at(time, *openings(*NAMES, limit=-200))
    for later, batch, meanwhile in history:
        time += later
        first = [message.canonical_payload() for message in meanwhile]
        ledger.post_at(time, *(message.canonical_payload() for message in batch), meanwhile=first)
    assert violations(ledger.books) == []


def times_of(journal: Journal, choose: random.Random) -> list[datetime]:
    """Some times of entries, and those a millisecond before and after."""
    posted = {datetime.fromisoformat(entry["posted_at"]) for entry in journal.entries}
    chosen = choose.sample(sorted(posted), min(3, len(posted)))
    return [*(time + MILLISECOND * off for time in chosen for off in (-1, 0, 1)), datetime(2100, 1, 1, tzinfo=UTC)]


INDEXES = ["in time", "late", "late for ever", "with holes", "away", "throttled"]


def spoil(index: LateIndex, state: str, choose: random.Random) -> None:
    index.error = {"away": AWAY, "throttled": THROTTLED}.get(state)
    index.reads = choose.randint(1, 6) if state == "late" else None
    index.hidden = set()
    if state.startswith("late"):
        index.hidden = set(range(choose.randint(1, 12), 200))
    elif state == "with holes":
        index.hidden = set(choose.sample(range(1, 30), 12))


def reads_by(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """Deadlines, and pauses before the index is read again, go by this clock."""
    time: Any = SimpleNamespace(monotonic=clock, sleep=clock.sleep)
    for module in ("ledger.table_reading", "conditional_writes.core.steps"):
        monkeypatch.setattr(f"{module}.time", time)
