"""Strikes a play with two faults, at two of its AWS calls: of one delivery, or the second at what the first led to."""

import contextlib
import random
import time
from collections.abc import Callable, Iterator
from typing import Any, Self
from unittest import mock

from tests.faults.every_call import MANY, NotStruck, strikes, violations
from tests.faults.scenarios import Play
from tests.support.faults import FaultsAt, play_after_play

SEED = 20_261_121


class Tally:
    """`not_struck`: pairs whose second call never came. The play went another way than after the first alone."""

    def __init__(self) -> None:
        self.pairs = 0
        self.violations: list[str] = []
        self.not_struck: list[str] = []
        self._started = time.monotonic()

    def progress(self, done: float) -> str:
        """`done`: of 1."""
        seconds = time.monotonic() - self._started
        return (
            f"{self.pairs:,} pairs ({done:.0%}) in {seconds:,.0f} s, {self.pairs / seconds:.1f} a second,"
            f" {seconds / done - seconds:,.0f} s left: {len(self.violations)} violations,"
            f" {len(self.not_struck)} not struck"
        )


def strike_every_pair(play: Play, say: Callable[[str], object]) -> Tally:
    """Says how far it has come after each of the first faults."""
    return _strike(play, say, firsts=None, seconds=None)


def strike_some_pairs(play: Play, firsts: int, seconds: int) -> Tally:
    """So many first faults, and for each so many seconds: always the same ones."""
    return _strike(play, lambda progress: None, firsts, seconds)


def _strike(play: Play, say: Callable[[str], object], firsts: int | None, seconds: int | None) -> Tally:
    choose = random.Random(SEED)

    def some[Strike](strikes: list[Strike], number: int | None) -> list[Strike]:
        return strikes if number is None else choose.sample(strikes, min(number, len(strikes)))

    tally = Tally()
    with play_after_play(), _one_call_at_a_time():
        faultless, expected, wrong = play(FaultsAt({}))
        assert not wrong
        first_strikes = some(strikes(faultless.calls), firsts)
        for number, (at, fault) in enumerate(first_strikes, 1):
            alone = FaultsAt({at: fault})
            play(alone)
            for second_at, second in some(strikes(alone.calls, after=at), seconds):
                try:
                    tally.violations += violations(play, {at: fault, second_at: second}, expected)
                    tally.pairs += 1
                except NotStruck as error:
                    tally.not_struck.append(str(error))
            say(tally.progress(number / len(first_strikes)))
            if len(tally.violations) > MANY:
                break
    return tally


@contextlib.contextmanager
def _one_call_at_a_time() -> Iterator[None]:
    """Or it were chance which call has which number, and which are made still when one has failed."""
    with contextlib.ExitStack() as patched:
        for module in ("posting", "upserting", "reconciling"):
            patched.enter_context(mock.patch(f"ledger.{module}.ThreadPoolExecutor", _OneAfterAnother))
        yield


class _OneAfterAnother(contextlib.nullcontext[Any]):
    """In place of a ThreadPoolExecutor."""

    def __enter__(self) -> Self:
        return self

    map = staticmethod(map)
