"""A day of transactions and profile updates on the deployed template.yaml, on a local AWS that enforces IAM."""

import json
from collections import Counter
from typing import NamedTuple

import pytest

from conditional_writes.core.items import from_dynamodb, item_bytes
from tests.checkers import books, profiles
from tests.checkers.books import Books
from tests.checkers.profiles import Profiles
from tests.support.deployed import Bank, FunctionQueue
from tools.local_aws.day import TOO_FINE, believable_day
from tools.local_aws.profiles_day import believable_updates
from tools.local_aws.queues import DeadLetter
from tools.local_aws.tables import scan

PHOTO = "x" * 120_000
PHOTOS = [
    json.dumps({"account_id": "acc-0001", "path": ["photos"], "entries": {f"photo {number}": PHOTO}})
    for number in range(4)
]
"""A large value. An item has room for three of them."""


class Day(NamedTuple):
    """The messages sent, and the state when the queues were empty. By queue: of transactions, and of profiles."""

    queues: dict[str, FunctionQueue]
    bodies: dict[str, list[str]]
    books: Books
    profiles: Profiles
    letters: dict[str, list[DeadLetter]]


QUEUES = ("transactions", "profiles")
ACCOUNTS = 30


@pytest.fixture(scope="module")
def day(bank: Bank) -> Day:
    queues = dict(zip(QUEUES, (bank.transactions, bank.profiles), strict=True))
    bodies = dict(
        zip(QUEUES, (believable_day(300, accounts=ACCOUNTS), believable_updates(200, accounts=20)), strict=True)
    )
    bodies["profiles"] += PHOTOS
    openings, others = bodies["transactions"][:ACCOUNTS], bodies["transactions"][ACCOUNTS:]
    bank.transactions.process(*openings)  # Otherwise hundreds of the others wait, some of them for minutes.
    bank.transactions.send(*others)
    bank.profiles.send(*bodies["profiles"])
    for queue in queues.values():
        queue.wait_until_drained()
    letters = {name: queue.take_dead_letters() for name, queue in queues.items()}
    return Day(queues, bodies, bank.books(), bank.read_profiles(), letters)


def test_after_a_day_the_books_are_whole_no_transaction_has_vanished_and_no_entry_has_a_kilobyte(
    bank: Bank, day: Day
) -> None:
    assert books.violations(day.books) == []
    items = map(from_dynamodb, scan(bank.stack.endpoint, bank.stack["JournalTableName"]))
    assert max(item_bytes(item) for item in items if item["account_id"].startswith("acc-")) < 1024
    assert list(books.vanished(day.bodies["transactions"], day.books, day.letters["transactions"])) == []
    assert day.books.counts()["POSTED"] > 150
    assert len(day.books.counts().keys() - {"POSTED"}) > 2, "the order of arrival decides which reasons there are"
    assert {"hold", "post_hold", "void_hold", "reverse"} <= day.books.types().keys()


def test_after_a_day_each_profile_entry_is_the_latest_sent_and_no_update_has_vanished(day: Day) -> None:
    bodies, letters = day.bodies["profiles"], day.letters["profiles"]
    assert list(profiles.violations(day.profiles, profiles.upserted(bodies, letters))) == []
    assert list(profiles.vanished(bodies, letters)) == []
    assert (len(day.profiles), len(day.profiles["acc-0001"]["photos"])) == (20, 3)


def test_only_poison_is_dead_lettered_each_with_a_reason(day: Day) -> None:
    assert [letter for letter in day.letters["transactions"] if not books.is_poison(letter)] == []
    assert [letter for letter in day.letters["profiles"] if not profiles.is_poison(letter)] == []
    reasons = {letter.body: letter.reason or "" for letters in day.letters.values() for letter in letters}
    assert reasons[TOO_FINE] == "amount: 3 decimals, expected at most 2, as many as EUR has"
    [too_large] = reasons.keys() & PHOTOS
    assert "account_id='acc-0001': would have 48" in reasons[too_large]


def test_a_redrive_of_the_dead_letters_changes_nothing(bank: Bank, day: Day) -> None:
    for name, queue in day.queues.items():
        queue.process(*day.letters[name])
        again = queue.take_dead_letters()
        assert Counter(letter.body for letter in again) == Counter(letter.body for letter in day.letters[name])
    assert (bank.books(), bank.read_profiles()) == (day.books, day.profiles)
