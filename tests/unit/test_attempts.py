"""The table of attempts: what is written of a delivery, how long it stays, and what happens if that fails."""

import math
import random
from collections.abc import Iterator
from typing import Any

import pytest

from conditional_writes import Deadline
from conditional_writes.testing import Engine
from tests.support.new_tables import definition
from tools.local_aws.functions import record
from workers.attempts import END_TRIES, MAXIMUM_KEYS, RECORD_SECONDS, Attempts
from workers.queue_messages import UNTROUBLED, Again, Attempt, Done, QueueMessage, Waiting, message_from_record

TABLE = "attempts"
PAUSES = END_TRIES - 1


@pytest.fixture
def engine() -> Iterator[Engine]:
    with Engine() as engine, engine.simulated_time():
        engine.client().create_table(**definition(TABLE, {"message_id": "S"}))
        yield engine


def message(number: int = 1, receive_count: int = 3) -> QueueMessage[Any]:
    return message_from_record(record("{}", receive_count) | {"messageId": f"m-{number}"})


def stored(engine: Engine) -> list[dict[str, Any]]:
    return engine.resource().Table(TABLE).scan()["Items"]


@pytest.mark.parametrize(
    ("disposition", "was_processed", "left"),
    [
        (Done(Any), True, UNTROUBLED),
        (Waiting("UNKNOWN_ACCOUNT", "x"), True, Attempt(0, 3, 4)),
        (Again("x"), True, Attempt(0, 2, 3)),
        (Again("x"), False, Attempt(1, 2, 3)),
    ],
)
def test_an_attempt_that_was_begun_counts_until_its_end_is_written_down(
    engine: Engine, disposition: Any, was_processed: bool, left: Attempt
) -> None:
    attempts, deadline = Attempts(engine.client(), TABLE), Deadline.after(60)
    [before] = [message()]
    before.attempt = Attempt(0, 2, 3)
    attempts.begin([before], deadline)  # and its function is killed
    found = message(receive_count=4)
    attempts.read([found], deadline)
    assert found.attempt == Attempt(1, 2, 3)
    attempts.begin([found], deadline)
    attempts.begin([found], deadline)  # as after an answer that was lost
    assert found.attempt == Attempt(2, 2, 3)
    found.disposition, found.was_processed = disposition, was_processed
    attempts.end([found], deadline)
    [item] = stored(engine)
    assert Attempt(*(int(item[name]) for name in Attempt._fields)) == left
    assert item["expires_at"] == int(engine.clock.time()) + RECORD_SECONDS


def test_messages_whose_attempts_cannot_be_read_cost_no_others(engine: Engine) -> None:
    engine.throttle(TABLE, {"message_id": "m-0"}, times=math.inf)
    messages = [message(number) for number in range(MAXIMUM_KEYS + 1)]
    attempts = Attempts(engine.client(), TABLE)
    attempts.read(messages, Deadline.after(60))
    assert [each.message_id for each in messages if each.disposition] == ["m-0"]
    engine.client().delete_table(TableName=TABLE)
    later = [message(number) for number in range(MAXIMUM_KEYS + 1)]
    attempts.read(later, Deadline.after(60))
    assert all(isinstance(each.disposition, Again) for each in later)


@pytest.mark.parametrize(
    ("failures", "seconds", "is_written", "pauses"),
    [(PAUSES, 60, True, PAUSES), (END_TRIES, 60, False, PAUSES), (1, 1, False, 0), (1, 1.5, True, 1)],
)
def test_the_end_of_an_attempt_is_tried_ten_times_until_the_deadline(
    engine: Engine,
    failures: int,
    seconds: float,
    is_written: bool,
    pauses: int,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    attempts = Attempts(engine.client(retries={"total_max_attempts": 1}), TABLE)
    [begun] = [message()]
    attempts.begin([begun], Deadline.after(60))
    begun.disposition, began_at = Done(Any), engine.clock.time()
    engine.throttle(TABLE, times=failures)
    monkeypatch.setattr(random, "uniform", lambda least, most: least + most)
    attempts.end([begun], Deadline.after(seconds))
    assert ([int(item["begun"]) for item in stored(engine)] == [0]) == is_written
    assert ("could not write down the end of attempts" in caplog.text) != is_written
    assert engine.clock.time() - began_at == pauses
