"""The times of profile messages: one in the future is refused, and a superseded message is reported as that."""

import itertools
import json
from datetime import UTC, datetime, timedelta
from types import ModuleType
from typing import Any

import pytest

from tests.checkers.profiles import read_profiles
from tools.local_aws.functions import invoke, metric_totals, record, upsert_profiles
from tools.local_aws.queues import take_dead_letters
from tools.local_aws.server import Endpoint
from tools.local_aws.tables import create_profiles_table

SENT_AT = datetime.now(UTC).replace(microsecond=0)
ALLOWED = timedelta(minutes=5)
_numbers = itertools.count(1)


class Sending:
    def __init__(self, aws: Endpoint) -> None:
        self.aws, self.table = aws, create_profiles_table(aws, f"times-{next(_numbers)}")
        self.function: ModuleType = upsert_profiles(aws, self.table)

    def __call__(self, *records: dict[str, Any]) -> list[str | None]:
        """The reasons of the messages that were dead-lettered. None comes again."""
        assert not invoke(self.function, records)
        letters = take_dead_letters(self.aws, self.function.worker.queue.dead_letter_url)
        assert all(letter.attributes["reason_code"] == "INVALID_MESSAGE" for letter in letters)
        return [letter.reason for letter in letters]

    @property
    def theme(self) -> str | None:
        profile = read_profiles(self.aws, self.table).get("alice", {})
        theme: str | None = profile.get("preferences", {}).get("theme")
        return theme


@pytest.fixture
def send(ministack: Endpoint) -> Sending:
    return Sending(ministack)


def theme(value: str, as_of: datetime | None = None, sent_at: datetime = SENT_AT) -> dict[str, Any]:
    body: dict[str, Any] = {"account_id": "alice", "path": ["preferences"], "entries": {"theme": value}}
    return record(body if as_of is None else body | {"as_of": as_of.isoformat()}, sent_at=sent_at)


@pytest.mark.parametrize("early", [timedelta(days=-400), timedelta(), timedelta(minutes=1), ALLOWED])
def test_a_message_as_of_its_sending_and_an_allowance_more_is_written(send: Sending, early: timedelta) -> None:
    assert not send(theme("dark", SENT_AT + early))
    assert send.theme == "dark"
    assert not send(theme("blue", sent_at=SENT_AT + early + timedelta(seconds=1)))
    assert send.theme == "blue"


@pytest.mark.parametrize(
    "as_of",
    [SENT_AT + ALLOWED + timedelta(microseconds=1), SENT_AT + timedelta(days=1), datetime.max.replace(tzinfo=UTC)],
)
def test_a_message_as_of_a_later_time_is_refused_and_locks_nothing(send: Sending, as_of: datetime) -> None:
    [reason] = send(theme("dark", as_of), theme("blue", SENT_AT))
    sentence = "as_of: expected at most 5 minutes after the message was sent"
    assert reason == f"{sentence} at {SENT_AT.isoformat()}, got {as_of.isoformat()}"
    assert send.theme == "blue"
    assert not send(theme("green", sent_at=SENT_AT + timedelta(seconds=1)))
    assert send.theme == "green"


def test_a_message_that_came_too_early_is_written_if_it_is_sent_again_at_its_time(send: Sending) -> None:
    as_of = SENT_AT + timedelta(hours=1)
    assert len(send(theme("dark", as_of))) == 1
    assert not send(theme("dark", as_of, sent_at=as_of - ALLOWED))
    assert send.theme == "dark"


def test_a_superseded_message_is_logged_and_counted_as_that(
    send: Sending, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    assert not send(theme("dark", SENT_AT + timedelta(minutes=4)))
    capsys.readouterr()
    with caplog.at_level("DEBUG", "teller"):
        assert not send(theme("blue"), theme("dark", SENT_AT + timedelta(minutes=4)))
    lines = [line.getMessage() for line in caplog.records if hasattr(line, "message_id")]
    assert lines == ["superseded", "superseded"]
    batch = next(vars(line) for line in reversed(caplog.records) if line.getMessage() == "batch")
    assert batch["superseded"] == 2
    assert "upserted" not in batch
    totals = metric_totals(json.loads(line) for line in capsys.readouterr().out.splitlines() if '"_aws"' in line)
    assert (totals["Upserted"], totals["Superseded"]) == (0, 2)
    assert send.theme == "dark"
