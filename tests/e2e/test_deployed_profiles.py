"""The invariants of profiles on the deployed template.yaml, on a local AWS that enforces IAM."""

import json
from collections import Counter
from dataclasses import dataclass

import pytest

from ledger.core.profile_messages import EraseProfile, ProfileUpdate, decode
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
    log_lines: list[str]


@pytest.fixture(scope="module")
def day(bank: Bank) -> Day:
    bodies = believable_updates(300, accounts=20) + PHOTOS
    bank.profiles.send(bodies)
    bank.profiles.wait_until_drained()
    return Day(bodies, bank.read_profiles(), bank.profiles.take_dead_letters(), bank.profiles.log_lines())


def test_after_a_day_every_entry_is_the_latest_sent(day: Day) -> None:
    assert list(violations(day.profiles, upserted(day.bodies, day.dead_letters))) == []
    assert len(day.profiles) == 20


def test_no_message_vanishes(day: Day) -> None:
    assert list(vanished(day.bodies, day.dead_letters)) == []


def test_only_poison_is_dead_lettered_each_with_a_reason(day: Day) -> None:
    for letter in day.dead_letters:
        assert is_poison(letter), letter


def test_an_entry_became_a_map_and_a_map_an_entry(day: Day) -> None:
    preferences = [profile.get("preferences", {}) for profile in day.profiles.values()]
    assert any(isinstance(each.get("theme"), dict) for each in preferences)
    assert any(each.get("statements") == "mail" for each in preferences)


def test_what_an_item_has_no_room_for_is_dead_lettered_with_its_size_and_the_profile(day: Day) -> None:
    [letter] = [letter for letter in day.dead_letters if letter.body in PHOTOS]
    assert "account_id='acc-0001': would have 48" in (letter.reason or "")
    assert len(day.profiles["acc-0001"]["photos"]) == 3


def test_a_redrive_of_the_dead_letters_changes_nothing(bank: Bank, day: Day) -> None:
    bank.profiles.send(day.dead_letters)
    bank.profiles.wait_until_drained()
    assert bank.read_profiles() == day.profiles
    again = bank.profiles.take_dead_letters()
    assert Counter(letter.body for letter in again) == Counter(letter.body for letter in day.dead_letters)
    assert all(map(is_poison, again))


def test_every_line_of_the_log_is_json_and_tells_the_account_but_no_payload(day: Day) -> None:
    lines = [json.loads(line) for line in day.log_lines]
    assert {line["service"] for line in lines} == {"upsert_profiles"}
    upserted = {line["account_id"] for line in lines if line.get("message") == "upserted"}
    assert upserted
    assert upserted <= day.profiles.keys()
    assert not any('"dark' in line or '"mail' in line or "xxx" in line for line in day.log_lines)


def test_the_metrics_are_in_the_log(day: Day) -> None:
    """The metrics are in the stack's namespace. tests/integration/test_profiles.py shows that they are exact."""
    totals = metrics(map(json.loads, day.log_lines))
    dead = {letter.body for letter in day.dead_letters}
    assert (
        0
        < totals["Upserted"]
        <= sum(
            len(update.entries) + len(update.removed)
            for update in (decode(body) for body in day.bodies if body not in dead)
            if isinstance(update, ProfileUpdate)
        )
    )
    valid = (decode(body) for body in set(day.bodies) - dead)
    assert 0 < totals["Erased"] <= sum(isinstance(message, EraseProfile) for message in valid)
    assert {"Superseded", "DeadLettered", "ReturnedToQueue"} <= totals.keys()
