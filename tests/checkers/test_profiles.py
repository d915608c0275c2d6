"""Tests of the profiles' checker: it finds a violation of each kind, planted in sound profiles."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.checkers.profiles import Profiles, is_poison, upserted, vanished, violations
from tools.local_aws.queues import DeadLetter


def update(seconds: int, path: list[str], entries: dict[str, Any], *removed: str) -> str:
    as_of = f"2026-03-01T12:00:{seconds:02}+00:00"
    return json.dumps({"account_id": "a", "path": path, "entries": entries, "removed": removed, "as_of": as_of})


LATE_MAP = update(1, ["preferences", "theme"], {"accent": "blue"})
FUTURE = json.dumps({"account_id": "a", "path": ["p"], "entries": {"x": 1}, "as_of": "9999-12-31T23:59:59Z"})
BODIES = [
    update(3, ["preferences"], {"theme": "dark", "language": "de"}),
    update(2, ["preferences"], {"theme": "light", "size": 12}),
    update(4, ["preferences"], {}, "language"),
    update(2, ["preferences", "statements"], {"by": "mail"}),
    update(1, ["visits"], {"first": "erased"}),
    json.dumps({"type": "erase_profile", "account_id": "a", "as_of": "2026-03-01T12:00:01.500+00:00"}),
    LATE_MAP,
    FUTURE,
    "junk",
]
LETTERS = [DeadLetter(FUTURE, "as_of: later than the message was sent"), DeadLetter("junk", "body: expected JSON")]


def sound_profiles() -> Profiles:
    return {"a": {"preferences": {"theme": "dark", "size": 12, "statements": {"by": "mail"}}}}


def found(profiles: Profiles) -> list[str]:
    return [sentence.partition(",")[0] for sentence in violations(profiles, upserted(BODIES, LETTERS))]


def test_sound_profiles_have_no_violation() -> None:
    assert found(sound_profiles()) == []


PLANTED: dict[str, tuple[Callable[[Any], object], str]] = {
    "an earlier value": (lambda item: item["preferences"].update(theme="light"), "a: preferences.theme is 'light'"),
    "a lost entry": (lambda item: item["preferences"].pop("size"), "a: preferences.size is lost"),
    "an erased entry": (lambda item: item.update(visits={"first": "erased"}), "a: visits is {'first': 'erased'}"),
}


@pytest.mark.parametrize(("plant", "sentence"), PLANTED.values(), ids=PLANTED)
def test_it_finds(plant: Callable[[Any], object], sentence: str) -> None:
    profiles = sound_profiles()
    plant(profiles["a"])
    assert found(profiles) == [sentence]


def test_it_finds_a_message_that_vanished_and_a_dead_letter_that_is_no_poison() -> None:
    assert list(vanished(BODIES, LETTERS)) == []
    assert list(vanished(BODIES, LETTERS[:1])) == ["an invalid message vanished: junk"]
    assert len(list(vanished(BODIES, LETTERS[1:]))) == 1, "a message from the future"
    assert len(list(vanished(BODIES, [LETTERS[0], DeadLetter("junk", None)]))) == 2
    retries_exhausted = DeadLetter(BODIES[0], "not processed in 6 deliveries: no time is left")
    assert not is_poison(retries_exhausted)
    assert len(list(vanished(BODIES, [*LETTERS, retries_exhausted]))) == 1
