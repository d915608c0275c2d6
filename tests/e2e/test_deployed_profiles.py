"""The invariants of profiles on the deployed template.yaml, on a local AWS that enforces IAM."""

import json
from collections import Counter
from dataclasses import dataclass

import pytest

from tests.checkers.profiles import Profiles, is_poison, upserted, vanished, violations
from tests.support.deployed import Bank, metrics
from tools.local_aws.profiles_day import believable_updates
from tools.local_aws.queues import DeadLetter

PHOTO = "x" * 120_000
PHOTOS = [
    json.dumps({"account_id": "acc-0001", "path": ["photos"], "entries": {f"photo {number}": PHOTO}})
    for number in range(4)
]
"""A large value. An item has room for three of them."""


@dataclass(frozen=True)
class Day:
    """The messages sent, and the state when the queue was empty."""

    bodies: list[str]
    profiles: Profiles
    dead_letters: list[DeadLetter]
    log_lines: list[dict]


@pytest.fixture(scope="module")
def day(bank: Bank) -> Day:
    bodies = believable_updates(200, accounts=20) + PHOTOS
    bank.profiles.process(*bodies)
    return Day(bodies, bank.read_profiles(), bank.profiles.take_dead_letters(), bank.profiles.logged())


def test_after_a_day_every_entry_is_the_latest_sent_and_no_message_has_vanished(day: Day) -> None:
    assert list(violations(day.profiles, upserted(day.bodies, day.dead_letters))) == []
    assert list(vanished(day.bodies, day.dead_letters)) == []
    assert len(day.profiles) == 20
    preferences = [profile.get("preferences", {}) for profile in day.profiles.values()]
    assert any(isinstance(each.get("theme"), dict) for each in preferences), "an entry became a map"


def test_only_poison_and_what_an_item_has_no_room_for_are_dead_lettered(day: Day) -> None:
    assert [letter for letter in day.dead_letters if not is_poison(letter)] == []
    [too_large] = [letter for letter in day.dead_letters if letter.body in PHOTOS]
    assert "account_id='acc-0001': would have 48" in (too_large.reason or "")
    assert len(day.profiles["acc-0001"]["photos"]) == 3


def test_a_redrive_of_the_dead_letters_changes_nothing(bank: Bank, day: Day) -> None:
    bank.profiles.process(*day.dead_letters)
    assert bank.read_profiles() == day.profiles
    again = bank.profiles.take_dead_letters()
    assert Counter(letter.body for letter in again) == Counter(letter.body for letter in day.dead_letters)


def test_the_log_tells_the_account_but_no_payload_and_has_the_metrics(day: Day) -> None:
    """tests/integration/test_profiles.py shows that the metrics are exact."""
    upserted = {line["account_id"] for line in day.log_lines if line.get("message") == "upserted"}
    assert upserted
    assert upserted <= day.profiles.keys()
    text = json.dumps(day.log_lines)
    assert [word for word in ("dark", "mail", "xxx") if word in text] == []
    totals = metrics(day.log_lines)
    assert {"Upserted", "Erased", "Superseded", "DeadLettered", "ReturnedToQueue"} <= totals.keys()
