"""A batch's upserts: one request for each profile, and only the messages at fault are dead."""

import itertools
import threading
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from conditional_writes import Deadline
from ledger.core.profile_messages import ProfileUpdate
from ledger.profile_writer import UPSERTED, ProfileWriter, QueuedUpdate
from tests.unit.stubs import Stubbed
from tools.local_aws.functions import record
from workers.queue_messages import Again, Dead, Done, ErrorText, message_from_record

START = datetime(2026, 3, 1, 12, tzinfo=UTC)
DONE = Done(UPSERTED)
_numbers = itertools.count(1)


def update(seconds: float, entries: Any, account_id: str = "alice", path: Any = ("preferences",)) -> QueuedUpdate:
    message = message_from_record(record("", sent_at=START + timedelta(seconds=seconds)))
    message.content = ProfileUpdate(account_id=account_id, path=path, entries=entries)
    return message


def written(dynamodb: Stubbed, *messages: QueuedUpdate, seconds: float = 60) -> tuple[float, float, float]:
    """The numbers of entries and erasures that were written, of those that were superseded, and of conflicts.

    Each call uses a table name of its own, so that depths learned before don't matter.
    """
    writer = ProfileWriter(dynamodb.client, f"profiles-{next(_numbers)}")
    measured = writer.write(messages, Deadline.after(seconds))
    assert [each.metric for each in measured] == ["Upserted", "Erased", "Superseded", "Conflicts"]
    upserted, erased, superseded, conflicts = (each.value for each in measured)
    return upserted + erased, superseded, conflicts


def dispositions(*messages: QueuedUpdate) -> list[object]:
    """The code of each dead message, and the name of the error of each one to be redelivered."""
    shown: list[object] = []
    for message in messages:
        match message.disposition:
            case Dead(code=code):
                shown.append(code)
            case Again(error=ErrorText(name=name)):
                shown.append(name)
            case disposition:
                shown.append(disposition)
    return shown


def test_each_profile_has_a_request_of_its_own_and_they_are_sent_in_parallel(empty_dynamodb: Stubbed) -> None:
    for _ in range(2):
        empty_dynamodb.answers("update_item")
    both = threading.Barrier(2, timeout=5)
    empty_dynamodb.client.meta.events.register("before-parameter-build", lambda **_: both.wait())
    messages = [update(n, {f"e{n}": n}, account_id="ab"[n % 2]) for n in range(5)]
    assert written(empty_dynamodb, *messages) == (5, 0, 0)
    assert dispositions(*messages) == [DONE] * 5
    assert sorted(request["Key"]["account_id"]["S"] for request in empty_dynamodb.parameters) == ["a", "b"]


@pytest.mark.parametrize(("first_request", "entries", "done"), [(0, 111, 2), (1, 89, 1)])
def test_what_was_written_before_an_error_is_done(
    empty_dynamodb: Stubbed, monkeypatch: pytest.MonkeyPatch, first_request: int, entries: int, done: int
) -> None:
    monkeypatch.setattr("random.randrange", lambda _: first_request)
    empty_dynamodb.answers("update_item")
    empty_dynamodb.refuses("update_item", "ThrottlingException")
    messages = [update(1, {f"entry {message}-{name}": 1 for name in range(50)}) for message in range(4)]
    upserted, _, _ = written(empty_dynamodb, *messages)
    assert upserted == entries
    assert dispositions(*messages).count(DONE) == done


@pytest.mark.usefixtures("one_call_at_a_time")
def test_an_error_of_awss_own_is_a_whole_profiles_and_not_tried_message_by_message(empty_dynamodb: Stubbed) -> None:
    empty_dynamodb.refuses("update_item", "ThrottlingException")
    messages = [update(1, {name: 1}, account_id) for account_id in ("alice", "bob") for name in "ab"]
    assert written(empty_dynamodb, *messages) == (2, 0, 0)
    failed = ["ThrottlingException"] * 2
    assert dispositions(*messages) in ([*failed, DONE, DONE], [DONE, DONE, *failed])
    assert empty_dynamodb.operations == ["UpdateItem"] * 2


def test_an_update_that_no_request_can_hold_is_no_trouble_to_its_neighbours(empty_dynamodb: Stubbed) -> None:
    messages = [update(1, {"theme": "dark"}), update(2, {"odd": object()}), update(3, {"language": "de"})]
    written(empty_dynamodb, *messages)
    assert dispositions(*messages) == [DONE, "TypeError", DONE]
