"""Which order comes next: at random, one after the other, or as a script says."""

import itertools
import random
from collections.abc import Iterable, Iterator, Sequence

from conditional_writes.testing.schedule import Choice, Choose, Stuck

FAULTS_AT_RANDOM = 0.15
"""How probable a fault is at each choice."""


class Search:
    """Depth first through all orders that differ: each run of a schedule takes the next one.

    Of orders in which choices that commute have changed places, one is tried. What was tried at a choice sleeps below
    the others, until something is chosen that doesn't commute with it (sleep sets: Godefroid, Partial-Order Methods for
    the Verification of Concurrent Systems, 1996).
    """

    def __init__(self) -> None:
        self._nodes: list[_Node] = []
        self._depth = 0
        self.has_more = True

    def choose(self, choices: Sequence[Choice]) -> Choice | None:
        self._depth += 1
        if self._depth <= len(self._nodes):
            wanted = self._nodes[self._depth - 1].current
            if wanted.word not in {choice.word for choice in choices}:
                went = f"the same order went otherwise: {wanted.word}, {wanted.shown}, can't be chosen again"
                raise Stuck(
                    f"{went}. Something that outlives an order decides, as a module's cache: set it back in `setup`"
                )
            return wanted
        asleep = self._nodes[-1].asleep_below() if self._nodes else []
        words = {choice.word for choice in asleep}
        awake = [choice for choice in choices if choice.word not in words]
        if not awake:
            return None
        self._nodes.append(_Node(awake, asleep))
        return awake[0]

    def back(self) -> None:
        """The order is done: the next one differs at the last choice that has another."""
        self._depth = 0
        while self._nodes:
            if self._nodes[-1].go_on():
                return
            self._nodes.pop()
        self.has_more = False


class _Node:
    """A choice: those to try, and those that sleep."""

    def __init__(self, awake: list[Choice], asleep: list[Choice]) -> None:
        self._awake, self._asleep, self._tried = awake, asleep, 0

    @property
    def current(self) -> Choice:
        return self._awake[self._tried]

    def go_on(self) -> bool:
        self._tried += 1
        return self._tried < len(self._awake)

    def asleep_below(self) -> list[Choice]:
        return [each for each in [*self._asleep, *self._awake[: self._tried]] if each.commutes_with(self.current)]


def at_random(chooser: random.Random) -> Choose:
    """Any thread may be next, and a fault may happen."""

    def choose(choices: Sequence[Choice]) -> Choice:
        faults = [choice for choice in choices if choice.fault]
        others = [choice for choice in choices if not choice.fault]
        return chooser.choice(faults if faults and chooser.random() < FAULTS_AT_RANDOM else others)

    return choose


def scripted(words: Iterable[str]) -> Choose:
    """The order of a script, without the words that can't be chosen. After its end the last thread goes on first."""
    left = iter(words)

    def choose(choices: Sequence[Choice]) -> Choice:
        by_word = {choice.word: choice for choice in choices}
        return next((by_word[word] for word in left if word in by_word), choices[0])

    return choose


def shorter(words: Sequence[str]) -> Iterator[list[str]]:
    """Scripts that are shorter or simpler, the shortest first."""
    length = len(words) // 2
    while length:
        for start in range(0, len(words), length):
            yield [*words[:start], *words[start + length :]]
        length //= 2
    for at, word in enumerate(words):
        if ":" in word:
            yield [*words[:at], word.partition(":")[0], *words[at + 1 :]]
        if at and word != words[at - 1]:
            yield [*words[: at - 1], word, words[at - 1], *words[at + 1 :]]


def weight(trace: Sequence[Choice]) -> tuple[int, int, int]:
    """How hard an order is to read: its faults, its changes from thread to thread, its length."""
    changes = sum(one.thread != other.thread for one, other in itertools.pairwise(trace))
    return sum(choice.fault is not None for choice in trace), changes, len(trace)
