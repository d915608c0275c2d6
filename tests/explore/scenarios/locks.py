"""A lock whose holder is killed, or paused for longer than its lease, and another that wants it."""

import contextlib
import itertools
import time
from collections.abc import Callable, Iterable, Sequence

from conditional_writes import (
    Conflict,
    Deadline,
    DeadlinePassed,
    Item,
    OutcomeUnknown,
    Put,
    Update,
    key,
    more_than,
    write_together,
)
from conditional_writes.core.items import from_dynamodb
from conditional_writes.locks import LockLost, Locks, LockTaken, WindowDone
from conditional_writes.testing import Engine, Outcome
from tests.explore.bank import LOCKS, PROFILES, Bank, Opened
from tests.explore.scenario import Scenario
from tests.support.new_tables import definition

LEASE_SECONDS = 20
COUNTER = key(PROFILES, account_id="counter")
EXPECTED = LockTaken | LockLost | WindowDone | DeadlinePassed | OutcomeUnknown


class Work:
    """Two steps under a lock, each counted together with its checkpoint. A pause may come before or between them."""

    def __init__(
        self, worker: int, *, begins_after: float = 0, pause_seconds: float = 0, waits_seconds: float = 0
    ) -> None:
        self._worker, self._begins_after, self._pause = worker, begins_after, pause_seconds
        self._waits = waits_seconds

    def __call__(self, bank: Bank) -> int:
        locks = Locks(bank.clients[self._worker], LOCKS)
        time.sleep(self._begins_after)
        deadline = Deadline.after(self._waits) if self._waits else None
        lock = locks.acquire("job", window="2027-01-01", lease_seconds=LEASE_SECONDS, deadline=deadline)
        if lock.checkpoint is None:
            lock.save_checkpoint({"step": 1}, self._count("first"))
        time.sleep(self._pause)
        lock.complete(self._count("second"))
        return lock.token

    @staticmethod
    def _count(name: str) -> Update:
        return Update(COUNTER, {}, added={name: 1})


def each_step_once(bank: Bank, outcomes: Sequence[Outcome]) -> None:
    """Each step counts once, whoever did it; a further holder finds the window done; tokens differ."""
    for outcome in outcomes:
        if outcome.error is not None and not outcome.was_killed and not isinstance(outcome.error, EXPECTED):
            raise outcome.error
    tokens = [outcome.value for outcome in outcomes if outcome.error is None]
    assert len(set(tokens)) == len(tokens), tokens
    bank.engine.clock.advance(10 * LEASE_SECONDS)
    with contextlib.suppress(WindowDone):
        Work(3)(bank)
    counted: Item = next(iter(map(from_dynamodb, bank.items(PROFILES))), {})
    assert (counted.get("first"), counted.get("second")) == (1, 1), counted


def only_the_holder_releases(bank: Bank, outcomes: Sequence[Outcome]) -> None:
    """While a holder works within its lease, nobody else has the lock."""
    held = [outcome.value for outcome in outcomes if outcome.error is None]
    for (began, ended), (other_began, other_ended) in itertools.pairwise(held):
        assert ended <= other_began or other_ended <= began, held


def holding(worker: int, seconds: float) -> Callable[[Bank], tuple[float, float]]:
    """Waits for the lock, holds it, and releases it. Returns from when to when it held the lock."""

    def hold(bank: Bank) -> tuple[float, float]:
        locks = Locks(bank.clients[worker], LOCKS)
        with contextlib.ExitStack() as held:
            held.enter_context(contextlib.suppress(LockLost))  # the time until then counts
            lock = held.enter_context(locks.hold("shared", lease_seconds=LEASE_SECONDS, deadline=Deadline.after(100)))
            began = time.time()
            time.sleep(seconds)
            ended = min(time.time(), lock.leased_until)
        return began, ended

    return hold


SKEW_SECONDS, SHORT_SECONDS = 0.5, 1.0


class Contest:
    """Contenders note when they certainly held the lock: from the acquisition to the release or the lease's end."""

    def __init__(self, engine: Engine) -> None:
        self.client = engine.client()
        self.client.create_table(**definition(LOCKS, {"lock_key": "S"}))
        self.held: list[tuple[float, float, int]] = []
        self.held_though_a_successor_wrote = False

    def contend(self, ahead: float, pauses: Iterable[float]) -> None:
        """By a clock that is ahead. If the holder pauses for longer than its lease, it writes late."""
        skewed = Locks(self.client, LOCKS, clock_skew_seconds=SKEW_SECONDS, now=lambda: time.time() + ahead)
        for pause in pauses:
            lock = skewed.acquire("contended", lease_seconds=SHORT_SECONDS, deadline=Deadline.after(60))
            began = time.time()
            time.sleep(pause)
            self.held.append((began, min(time.time(), lock.leased_until - ahead), lock.token))
            put = Put(key(LOCKS, lock_key="effect"), {"token": lock.token}, ~more_than("token", lock.token))
            try:
                write_together(self.client, [lock.condition_check(), put])
                lock.release()
            except Conflict as conflict:
                self.held_though_a_successor_wrote |= conflict.key == put.key
            except LockLost:
                pass


def never_two_held_it(contest: Contest, outcomes: Sequence[Outcome]) -> None:
    assert not contest.held_though_a_successor_wrote
    assert all(each.was_killed or isinstance(each.error, EXPECTED | None) for each in outcomes)
    held = sorted(each for each in contest.held if each[0] < each[1])
    for (_, ended, token), (began, _, next_token) in itertools.pairwise(held):
        assert began >= ended
        assert next_token > token


def contending(number: int) -> Callable[[Contest], None]:
    return lambda contest: contest.contend(number * SKEW_SECONDS / 2, (0.4, 3 * SHORT_SECONDS))


SCENARIOS = [
    Scenario("two workers do a window's steps once", [Work(0), Work(1)], Opened(), each_step_once),
    Scenario(
        "a worker that waits for the lock goes on from the last step",
        [Work(0), Work(1, waits_seconds=2 * LEASE_SECONDS)],
        Opened(),
        each_step_once,
        completes=False,
    ),
    Scenario(
        "a holder that is paused for longer than its lease does nothing afterwards",
        [Work(0, pause_seconds=2 * LEASE_SECONDS), Work(1, begins_after=1.5 * LEASE_SECONDS)],
        Opened(),
        each_step_once,
    ),
    Scenario(
        "three workers, two of them paused, do a window's steps once",
        [
            Work(0, pause_seconds=2 * LEASE_SECONDS),
            Work(1, begins_after=1.5 * LEASE_SECONDS, pause_seconds=2 * LEASE_SECONDS),
            Work(2, begins_after=3 * LEASE_SECONDS),
        ],
        Opened(),
        each_step_once,
        completes=False,
    ),
    Scenario(
        "two holders follow one another",
        [holding(0, 6), holding(1, 6)],
        Opened(),
        only_the_holder_releases,
        completes=False,
    ),
    Scenario(
        "of many contenders with clocks apart never two hold the lock",
        [contending(0), contending(1), contending(2)],
        Contest,
        never_two_held_it,
        budget=12,
        completes=False,
    ),
]
