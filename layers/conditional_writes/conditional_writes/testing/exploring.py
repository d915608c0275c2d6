"""Every order of concurrent workers, with every fault: the real code, on the engine, in simulated time."""

import contextlib
import inspect
import logging
import pkgutil
import random
import time
from collections.abc import Callable, Coroutine, Generator, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, override
from unittest import mock

from botocore.awsrequest import AWSResponse

from conditional_writes.testing.clock import Clock
from conditional_writes.testing.engine import Engine
from conditional_writes.testing.pools import scheduled_pools
from conditional_writes.testing.schedule import CALL_SECONDS, Choice, Choose, Fault, Outcome, Schedule, Stuck, current
from conditional_writes.testing.search import Search, at_random, scripted, shorter, weight
from conditional_writes.testing.wire import Call

START_SECONDS = 1_800_000_000.0
"""Of each order: in January 2027."""
SAMPLED = 200
"""The first orders that are followed by one at random: a mistake early in an order is found by chance at once."""
MAXIMUM_SHRINKS = 500
_PLAN = "conditional_writes.upserts.plan"

type Setup[World] = Callable[[Engine], World]
type Worker[World] = Callable[[World], Any]
type Check[World] = Callable[[World, list[Outcome]], object]


class Explored(NamedTuple):
    """The number of orders that were tried. `is_complete`: all that differ, with every fault at every call."""

    orders: int
    is_complete: bool
    seconds: float


class Violation(AssertionError):
    """An order in which the check fails. `script` runs it again: `replay(script, …)` with the same workers."""

    def __init__(self, script: str, why: str, trace: Sequence[Choice], orders: int) -> None:
        super().__init__(script, why, trace, orders)
        self.script, self.why, self.orders = script, why, orders

    @override
    def __str__(self) -> str:
        script, why, trace, orders = self.args
        steps = "\n".join(f"  {choice.thread:<3} {choice.shown}" for choice in trace)
        return f"{why}\nin order {orders}, here made shorter:\n{steps}\nagain: replay({script!r}, …)"


def explore[World](  # noqa: PLR0913 (workers alone are given by their position)
    *workers: Worker[World],
    setup: Setup[World],
    check: Check[World],
    faults: Iterable[Fault] = tuple(Fault),
    most_faults: int = 1,
    budget: int = 20_000,
    seed: int = 0,
) -> Explored:
    """Runs the workers in every order of their calls of DynamoDB, each time on new tables, and checks what is left.

    `setup` gets an engine, makes tables and clients, and returns what each worker and the check get. The check gets the
    workers' outcomes, too; it fails if it returns False or raises an error. In an order at most `most_faults` of the
    `faults` happen. Of orders that differ only in calls that touch no common item, one is tried.

    At most `budget` orders are tried, the last calls of an order first; at the beginning some at random, too, as the
    `seed` says. Workers stand for processes: what they share in memory is no part of an order. Time is simulated.

    Raises Violation for the first order in which the check fails, after making it shorter; Stuck if a worker waits for
    something that the schedule doesn't know, never ends, or makes no call; NotImplementedError if it makes one that the
    engine doesn't answer. Raises ValueError without workers, for a fault that isn't one, and for fewer than none.
    """
    if most_faults < 0:
        raise ValueError(f"most_faults: {most_faults}, expected 0 or more")
    if not workers:
        raise ValueError("expected a worker at least: a function of what `setup` returns")
    runner = _Runner(workers, setup, check, tuple(map(Fault, faults)), most_faults)
    started, orders, search = time.perf_counter(), 0, Search()
    with _simulated(runner.clock):
        chooser = at_random(random.Random(seed))
        while search.has_more and orders < budget:
            ran = runner.run(search.choose)
            orders += ran.was_finished
            if orders == 1 and ran.was_finished:
                _check_all_called(ran)
            runner.raise_if_failed(ran, orders)
            search.back()
            if ran.was_finished and orders <= SAMPLED:
                runner.raise_if_failed(runner.run(chooser), orders)
    return Explored(orders, not search.has_more, time.perf_counter() - started)


def replay[World](script: str, *workers: Worker[World], setup: Setup[World], check: Check[World]) -> list[Outcome]:
    """Runs the workers in the order of a script that `explore` has printed. Raises Violation if the check fails.

    Raises ValueError for a script of other workers or faults. Words whose step isn't there any more are left out.
    """
    words = script.split()
    for word in words:
        thread, _, fault = word.partition(":")
        if not 0 <= ord(thread[:1] or " ") - ord("a") < len(workers) or (":" in word and fault not in set(Fault)):
            raise ValueError(f"replay: {word!r}: expected one of {len(workers)} workers from a on, and a fault, if any")
    runner = _Runner(workers, setup, check, tuple(Fault), sum(":" in word for word in words))
    with _simulated(runner.clock):
        ran = runner.run(scripted(words))
    if ran.failure is not None:
        raise Violation(script, ran.failure, ran.trace, 1)
    return ran.outcomes


class _Ran(NamedTuple):
    """An order as it went. `failure` is what the check said, None if it was content or wasn't asked."""

    trace: list[Choice]
    outcomes: list[Outcome]
    was_finished: bool
    failure: str | None


class _ScheduledEngine(Engine):
    """Answers the calls of workers in their turn, and all others at once."""

    @override
    def answer(self, call: Call) -> AWSResponse:
        running = current()
        if running is None:
            self.clock.advance(CALL_SECONDS)
            return super().answer(call)
        schedule, thread = running
        return schedule.call(thread, call)

    def execute(self, call: Call) -> AWSResponse:
        """The answer to a call whose turn it is."""
        return super().answer(call)


class _ScheduledClock(Clock):
    """A clock on which a worker's pause lets the others go on."""

    @override
    def sleep(self, seconds: float) -> None:
        running = current()
        if running is None:
            self.advance(seconds)
        else:
            schedule, thread = running
            schedule.sleep(thread, seconds)


class _Runner[World]:
    """Runs one order after the other, each on a new engine."""

    def __init__(
        self,
        workers: Sequence[Worker[World]],
        setup: Setup[World],
        check: Check[World],
        faults: Sequence[Fault],
        most_faults: int,
    ) -> None:
        self._workers, self._setup, self._check = workers, setup, check
        self._faults, self._most_faults = faults, most_faults
        for worker in workers:
            _check_worker(worker)
        self.clock = _ScheduledClock(START_SECONDS)

    def run(self, choose: Choose) -> _Ran:
        self.clock.reset()
        chance = random.Random()
        with (
            _ScheduledEngine(self.clock) as engine,
            mock.patch("os.urandom", chance.randbytes),
            mock.patch("random._urandom", chance.randbytes),  # that of SystemRandom, and so of secrets
            # Depths that earlier orders have learned would decide the number of an upsert's requests.
            mock.patch(f"{_PLAN}.recent_depths", pkgutil.resolve_name(f"{_PLAN}:RecentDepths")()),
        ):
            chance.seed("setup")
            random.seed("setup")
            world = self._setup(engine)
            _check_has_run(world)
            chance.seed("workers")  # the same in each order, also if the set-up copies what it made for an earlier one
            random.seed("workers")
            schedule = Schedule(engine.database, engine.execute, choose, self._faults)
            was_finished = schedule.run([_bound(worker, world) for worker in self._workers], self._most_faults)
            if schedule.trouble is not None:
                raise schedule.trouble
            failure = self._failure(world, schedule.outcomes) if was_finished else None
        return _Ran(schedule.trace, schedule.outcomes, was_finished, failure)

    def _failure(self, world: World, outcomes: list[Outcome]) -> str | None:
        try:
            verdict = self._check(world, outcomes)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # noqa: BLE001 (pytest.fail raises one that is no Exception)
            return f"{type(error).__name__}: {error}"
        _check_has_run(verdict)
        return "the check returned False" if verdict is False else None

    def raise_if_failed(self, ran: _Ran, orders: int) -> None:
        """Raises Violation if the check failed, after making the order shorter."""
        if ran.failure is None:
            return
        tries = MAXIMUM_SHRINKS
        words = [choice.word for choice in ran.trace]
        candidates = shorter(words)
        while tries and (candidate := next(candidates, None)) is not None:
            tries -= 1
            again = self._run_again(candidate)
            if again and again.failure is not None and weight(again.trace) < weight(ran.trace):
                ran, words = again, [choice.word for choice in again.trace]
                candidates = shorter(words)
        for length in range(len(words)):  # the rest follows by itself
            again = self._run_again(words[:length])
            if again and again.failure is not None and weight(again.trace) <= weight(ran.trace):
                raise Violation(" ".join(words[:length]), again.failure, again.trace, orders)
        raise Violation(" ".join(words), str(ran.failure), ran.trace, orders)

    def _run_again(self, words: Sequence[str]) -> _Ran | None:
        """None for an order that never ends, as if a worker waits for a write that it leaves out."""
        try:
            return self.run(scripted(words))
        except Stuck:
            return None


def _check_worker(worker: Any) -> None:
    """Raises Stuck for what can't be called: each order would end at once, and most checks would be content."""
    try:
        inspect.signature(worker).bind("what setup returned")
    except TypeError as error:
        raise Stuck(f"{worker!r}: {error}: expected a function of what `setup` returns") from None
    except ValueError:
        pass  # a function in C, of which nobody knows what it takes


def _check_all_called(ran: _Ran) -> None:
    """Raises Stuck for a worker without a call: it fails before, or its client isn't the engine's."""
    called = {choice.process for choice in ran.trace}
    for number, outcome in enumerate(ran.outcomes):
        name = chr(ord("a") + number)
        if name not in called:
            ended = f"raised {outcome.error!r}" if outcome.error else f"returned {outcome.value!r}"
            raise Stuck(f"{name} made no call of the engine, so no order of it could be tried: it {ended}")


def _bound[World](worker: Worker[World], world: World) -> Callable[[], Any]:
    def run() -> Any:
        value = worker(world)
        _check_has_run(value)
        return value

    return run


def _check_has_run(value: Any) -> None:
    """Raises Stuck for the value of a call that didn't begin: no order of it would be tried."""
    if isinstance(value, Coroutine | Generator):
        value.close()
        raise Stuck(f"{value!r} would have to be awaited, or iterated over: expected plain functions")


@contextlib.contextmanager
def _simulated(clock: Clock) -> Iterator[None]:
    """Time, chance, thread pools and retries are the same in each order. There are no logs: they would be thousands."""
    chance, level = random.getstate(), logging.root.manager.disable
    logging.disable()
    try:
        with (
            clock.simulated_time(),
            scheduled_pools(),
            # botocore's quota of retries is a process's: here each order is one of its own.
            mock.patch("botocore.retries.quota.RetryQuota.acquire", return_value=True),
        ):
            yield
    finally:
        logging.disable(level)
        random.setstate(chance)
