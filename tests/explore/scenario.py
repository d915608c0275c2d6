"""Workers, what they find, and what must be true in the end: searched a little by `make test`, and whole by `--all`."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from conditional_writes.testing import Engine, Explored, Fault, Outcome, explore, replay

BUDGET = 24
"""Of the orders in `make test`. Some more are tried at random: as many."""
ALL_BUDGET = 20_000


class Scenario(NamedTuple):
    """What `explore` takes. Its name is the claim. `completes` says that `--all` tries every order that differs."""

    claim: str
    workers: Sequence[Callable[[Any], Any]]
    setup: Callable[[Engine], Any]
    check: Callable[[Any, Sequence[Outcome]], object]
    faults: Sequence[Fault] = tuple(Fault)
    most_faults: int = 1
    budget: int = BUDGET
    completes: bool = True

    def explore(self, budget: int, seed: int = 0) -> Explored:
        faults = {"faults": self.faults, "most_faults": self.most_faults}
        return explore(*self.workers, setup=self.setup, check=self.check, budget=budget, seed=seed, **faults)

    def replay(self, script: str) -> None:
        replay(script, *self.workers, setup=self.setup, check=self.check)

    def __str__(self) -> str:
        return self.claim
