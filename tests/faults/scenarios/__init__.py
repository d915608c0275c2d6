"""Plays: a function does its work while faults strike, is called again until nothing is left to do, and is judged."""

from collections.abc import Callable
from typing import NamedTuple

from tests.support.faults import Faults, FaultsAt


class Played(NamedTuple):
    """What is left once all is quiet. `wrong` has a sentence for each thing that isn't as it must be."""

    faults: Faults
    left: object
    wrong: list[str]


type Play = Callable[[FaultsAt], Played]
"""Always begins with the same tables, and a function that knows nothing of the plays before."""
