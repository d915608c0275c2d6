"""Tests of the history's checkers: each finds its kind of violation, planted in a sound history."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from msgspec.structs import replace

from tests.checkers.books import Books
from tests.checkers.history import History, entries_of, flipped, out_of_order, unasked
from tests.checkers.small_books import JUNK, NOW, OPEN_A, OPEN_B, PAY, SPEND, TRANSFER, post
from tools.local_aws.queues import DeadLetter


@dataclass
class Bank:
    """Two openings, then a batch of three transactions and an invalid message, then a repetition."""

    history: History = field(default_factory=History)
    before: Books = field(default_factory=lambda: post(Books({}, {}), OPEN_A, OPEN_B))
    after: Books = field(default_factory=lambda: Books({}, {}))
    delivered: list[str] = field(default_factory=lambda: [PAY, SPEND, TRANSFER, JUNK])

    def __post_init__(self) -> None:
        self.after = post(self.before, PAY, SPEND, TRANSFER)
        for batch in ([OPEN_A, OPEN_B], [PAY, SPEND, TRANSFER, JUNK], [PAY]):
            numbers = [str(len(self.history.messages) + index) for index in range(1, len(batch) + 1)]
            for number, body in zip(numbers, batch, strict=True):
                self.history.sent(number, body, NOW)
                self.history.delivered(number)
            for number in numbers:
                self.history.acknowledged(number)
        self.history.letters.append(("6", DeadLetter(JUNK, "body: expected JSON")))

    def entry(self, account_id: str, version: int, **changes: Any) -> None:
        entries = self.after.journal[account_id]
        found = entries[version - 1]
        entries[version - 1] = replace(found, outcome=replace(found.outcome, **changes))

    def message(self, number: str, **changes: Any) -> None:
        self.history.messages[number] = self.history.messages[number]._replace(**changes)

    def found(self) -> list[str]:
        messages, letters = self.history.messages.values(), self.history.letters
        return [
            *flipped(entries_of(post(self.before, PAY, SPEND)), self.after),
            *unasked(self.before, self.after, self.delivered),
            *out_of_order(messages, self.after, letters),
        ]


def test_a_sound_history_has_no_violation() -> None:
    assert Bank().found() == []


PLANTED: dict[str, tuple[Callable[[Bank], object], str]] = {
    "a changed outcome": (lambda bank: bank.entry("a", 3, status="POSTED", reason=None), "a: 2 was JournalEntry("),
    "an entry that nobody asked for": (
        lambda bank: bank.delivered.remove(PAY),
        "a: 1 was posted, but never delivered",
    ),
    "wrong versions": (
        lambda bank: bank.message("4", first_delivered=1000, acknowledged=1001),
        "a: 3 was acknowledged before 2 was delivered, but 2 has the lower version, 3",
    ),
}


@pytest.mark.parametrize(("plant", "sentence"), PLANTED.values(), ids=PLANTED)
def test_it_finds(plant: Callable[[Bank], object], sentence: str) -> None:
    bank = Bank()
    plant(bank)
    assert any(violation.startswith(sentence) for violation in bank.found()), bank.found()
