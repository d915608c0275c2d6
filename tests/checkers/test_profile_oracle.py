"""Tests of the profiles' oracle: cases written by hand from docs/profiles.md, and the properties that make it one."""

import itertools
import random
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conditional_writes.upserts import REMOVED, MapEntry
from conditional_writes.upserts.clocks import clock
from tests.checkers.profile_oracle import EVERYTHING, Write, differences, living, most_bytes, removal_bytes, standing
from tests.support.strategies import profile_writes

START = datetime(2026, 3, 1, 12, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def write(path: str, value: Any, seconds: float) -> Write:
    """`path` is dotted: a.b.c."""
    return Write(tuple(path.split(".")), value, at(seconds))


def erasure(seconds: float) -> Write:
    return Write(EVERYTHING, REMOVED, at(seconds))


LARGER = max(["red", "blue"], key=lambda value: clock(MapEntry(("a", "b"), value, START)))

CASES: dict[str, tuple[list[Write], dict[str, Any]]] = {
    "of two entries the later": ([write("a.b", 1, 2), write("a.b", 2, 1)], {"a.b": 1}),
    "an entry and its later removal": ([write("a.b", 1, 1), write("a.b", REMOVED, 2)], {}),
    "an entry and its earlier removal": ([write("a.b", 1, 2), write("a.b", REMOVED, 1)], {"a.b": 1}),
    "an entry, then a map": ([write("a.b", 1, 1), write("a.b.c", 2, 2)], {"a.b.c": 2}),
    "a map, an entry, a map again": ([write("a.b.c", 1, 1), write("a.b", 2, 2), write("a.b.d", 3, 3)], {"a.b.d": 3}),
    "the removal of a map": ([write("a.b.c", 1, 1), write("a.b.d", 2, 2), write("a.b", REMOVED, 3)], {}),
    "the removal of a name that never was, and a map": ([write("a.b", REMOVED, 1), write("a.b.c", 2, 2)], {"a.b.c": 2}),
    "an inner removal makes a map of an earlier entry": ([write("a.b", 1, 1), write("a.b.c", REMOVED, 2)], {}),
    "an inner removal that is superseded itself": (
        [write("a.b", 1, 1), write("a.b.c", REMOVED, 2), write("a.b.c", 3, 4), write("a.b", 5, 3)],
        {"a.b.c": 3},
    ),
    "of equal times a value, not a removal": ([write("a.b", 1, 1), write("a.b", REMOVED, 1)], {"a.b": 1}),
    "of equal times the larger hash": ([write("a.b", "red", 1), write("a.b", "blue", 1)], {"a.b": LARGER}),
    "of equal times the map, not the value": ([write("a.b", 1, 1), write("a.b.c", 2, 1)], {"a.b.c": 2}),
    "of equal times the map, even an empty one": ([write("a.b", 1, 1), write("a.b.c", REMOVED, 1)], {}),
    "a map as late as one entry": ([write("a.b.c", 1, 1), write("a.b.d", 2, 5), write("a.b", 3, 4)], {"a.b.d": 2}),
    "an object is one value": ([write("a.b", {"c": 1, "d": 2}, 1), write("a.b", {"c": 3}, 2)], {"a.b": {"c": 3}}),
    "an erasure, and what is later": ([write("a.b", 1, 1), write("a.c", 2, 3), erasure(2)], {"a.c": 2}),
    "of equal times the erasure": ([write("a.b", 1, 2), write("a.b.c", 2, 2), erasure(2)], {}),
    "the erased supersedes nothing": (
        [write("a.b", REMOVED, 2), write("a.b.c", 1, 3), erasure(2), write("a.d", 4, 1)],
        {"a.b.c": 1},
    ),
}


@pytest.mark.parametrize(("writes", "expected"), CASES.values(), ids=CASES)
def test_it_knows(writes: list[Write], expected: dict[str, Any]) -> None:
    for order in itertools.permutations(writes):
        assert {".".join(path): value for path, value in standing(order).items()} == expected


@given(st.lists(profile_writes(), max_size=10), st.randoms(use_true_random=False))
def test_neither_order_nor_repetition_changes_the_profile(writes: list[Write], choose: random.Random) -> None:
    shuffled = [*writes, *choose.choices(writes, k=3)] if writes else []
    choose.shuffle(shuffled)
    assert standing(shuffled) == standing(writes)


@given(st.lists(profile_writes(), max_size=10))
def test_no_value_stands_inside_of_another_and_superseded_writes_change_nothing(writes: list[Write]) -> None:
    values = standing(writes)
    assert not any(path[:length] in values for path in values for length in range(1, len(path)))
    assert standing(living(writes)) == values


def test_it_tells_each_difference() -> None:
    values: dict[tuple[str, ...], Any] = {("a", "b"): 1, ("a", "c", "d"): {}, ("a", "e"): {"f": 1}, ("a", "g"): True}
    sound = {"a": {"b": 1, "c": {"d": {}, "left": {"empty": {}}}, "e": {"f": 1}, "g": True}, "empty": {}}
    assert list(differences(values, sound)) == []
    wrong = {"a": {"b": 2, "c": 5, "e": {"f": 1, "h": {}}, "g": 1, "i": {"j": 7}}, "k": "text"}
    assert list(differences(values, wrong)) == [
        "a.b is 2, expected 1",
        "a.c.d is lost, expected {}",
        "a.e is {'f': 1, 'h': {}}, expected {'f': 1}",
        "a.g is 1, expected True",
        "a.i is {'j': 7}, but no write of it stands",
        "k is 'text', but no write of it stands",
    ]


def test_the_size_has_values_their_clocks_and_the_removals_that_are_young_enough() -> None:
    writes = [write("a.b", "x" * 100, 1), write("a.c", REMOVED, 2), write("a.d", REMOVED, 3), write("a.c", 1, 1)]
    time_bytes, hash_bytes = 1 + 32 + 1, 17  # the entry, its name and its time; a space and the hash
    value_bytes = 1 + 1 + 100
    maps_bytes = len("a") + 3 + len('cw:as_of ["a"]') + 3
    everything, one_removal, none = (most_bytes(writes, at(seconds), {}) for seconds in (2, 3, 4))
    assert none == maps_bytes + value_bytes + time_bytes + hash_bytes
    assert (everything - one_removal, one_removal - none) == (time_bytes, time_bytes)
    assert [removal_bytes(writes, at(seconds)) for seconds in (2, 3, 4)] == [2 * time_bytes, time_bytes, 0]
