"""Workers, what they find, and what must be true in the end: searched a little by `make test`, and whole by `--all`."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple
from unittest import mock

from conditional_writes.testing import Engine, Explored, Fault, Outcome, explore, replay
from conditional_writes.testing.schedule import current
from conditional_writes.testing.wire import Call

BUDGET = 6
"""Of the orders in `make test`. Some more are tried at random: as many. A scenario may need more for a planted race."""
ALL_BUDGET = 40_000


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
        with mock.patch("workers.batches.single_metric"):
            return explore(*self.workers, setup=self.setup, check=self.check, budget=budget, seed=seed, **faults)

    def replay(self, script: str) -> None:
        with mock.patch("workers.batches.single_metric"):
            replay(script, *self.workers, setup=self.setup, check=self.check)

    def calls(self) -> str:
        """How many calls each worker makes, if one comes after the other and nothing goes wrong."""
        counted = Counter[str]()

        def setup(engine: Any) -> Any:
            world, execute = self.setup(engine), engine.execute

            def count(call: Call) -> Any:
                _, thread = current() or (None, None)
                counted[thread.process.name if thread else ""] += 1
                return execute(call)

            engine.execute = count
            return world

        self._replace(setup=setup, check=lambda *_: True).replay("")
        return " + ".join(str(calls) for _, calls in sorted(counted.items()))

    def __str__(self) -> str:
        return self.claim
