"""A batch's upserts: one request for each profile, and only the messages at fault are dead."""

import itertools
import threading
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from conditional_writes import Deadline
from conditional_writes.core.items import to_dynamodb
from ledger.core.profile_messages import EraseProfile, ProfileUpdate
from ledger.core.reason_codes import ReasonCode
from ledger.profile_writer import ERASED, SUPERSEDED, UPSERTED, ProfileWriter, QueuedUpdate
from tests.unit.stubs import Stubbed
from tools.local_aws.functions import record
from workers.queue_messages import Again, Dead, Done, ErrorText, message_from_record

START = datetime(2026, 3, 1, 12, tzinfo=UTC)
DONE = Done(UPSERTED)
_numbers = itertools.count(1)


def update(
    seconds: float, entries: dict[str, Any], account_id: str = "alice", path: tuple[str, ...] = ("preferences",)
) -> QueuedUpdate:
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


def erasure(seconds: float, account_id: str = "alice") -> QueuedUpdate:
    message = message_from_record(record("", sent_at=START + timedelta(seconds=seconds)))
    message.content = EraseProfile(account_id=account_id)
    return message


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


def refuses(dynamodb: Stubbed, item: dict[str, Any]) -> None:
    """Prepares a failed condition with this item."""
    dynamodb.refuses("update_item", "ConditionalCheckFailedException", Item=to_dynamodb(item))


def sent(request: dict[str, Any]) -> list[Any]:
    """The strings and numbers that a request sets, without the clocks and the library's other attributes."""
    values = [next(iter(value.items())) for value in request["ExpressionAttributeValues"].values()]
    return sorted(content for kind, content in values if kind == "S" and content.startswith("value "))


def test_all_of_a_profile_goes_in_one_request_and_of_an_entry_the_latest(empty_dynamodb: Stubbed) -> None:
    messages = [
        update(3, {"theme": "value new"}),
        update(1, {"theme": "value old", "language": "value de"}),
        update(2, {"size": "value 12"}, path=("preferences", "font")),
        update(3, {"theme": "value new"}),
    ]
    assert written(empty_dynamodb, *messages) == (3, 2, 0)
    assert dispositions(*messages) == [Done(SUPERSEDED), DONE, DONE, DONE]  # the last one says the same as the first
    [request] = empty_dynamodb.parameters
    assert request["Key"] == {"account_id": {"S": "alice"}}
    assert sent(request) == ["value 12", "value de", "value new"]


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
def test_an_error_of_awss_own_is_a_whole_profiles_and_not_tried_message_by_message(
    empty_dynamodb: Stubbed,
) -> None:
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


def test_of_the_erasures_of_a_batch_the_latest_goes_with_the_later_entries_in_one_request_more(
    empty_dynamodb: Stubbed,
) -> None:
    there = {"account_id": "alice", "preferences": {"font": "serif"}, 'cw:as_of ["preferences"]': {"font": "2025"}}
    refuses(empty_dynamodb, there | {"name": "Alice"})
    messages = [
        update(1, {"theme": "value early", "size": "value early"}),
        erasure(2),
        erasure(3),
        update(3, {"language": "value as late as the erasure"}),
        update(4, {"theme": "value late"}),
        update(5, {"photo": "value late"}, path=("photos",)),
    ]
    assert written(empty_dynamodb, *messages) == (2 + 1, 2 + 1 + 1, 1)
    late = [Done(SUPERSEDED), DONE, DONE]
    assert dispositions(*messages) == [Done(SUPERSEDED), Done(SUPERSEDED), Done(ERASED), *late]
    request = empty_dynamodb.parameters[1]
    maps = [value["M"] for value in request["ExpressionAttributeValues"].values() if "M" in value]
    assert {"theme": {"S": "value late"}} in maps
    assert {"photo": {"S": "value late"}} in maps
    assert {"cw:erased_as_of", "name"} <= set(request["ExpressionAttributeNames"].values())


def test_of_a_batch_that_does_not_fit_the_erasure_is_done_and_what_fits_after_it(empty_dynamodb: Stubbed) -> None:
    empty_dynamodb.answers("update_item")
    refuses(empty_dynamodb, {"account_id": "alice", "cw:erased_as_of": "2026-03-01T12:00:02.000000+00:00"})
    messages = [update(3, {"photo": "x" * 400_000}), update(3, {"theme": "dark"}), erasure(2)]
    assert written(empty_dynamodb, *messages) == (2, 0, 1)
    assert dispositions(*messages) == [ReasonCode.ITEM_TOO_LARGE, DONE, Done(ERASED)]


def test_without_time_or_messages_nothing_is_sent(empty_dynamodb: Stubbed) -> None:
    messages = [update(1, {"theme": "dark"}), update(2, {"language": "de"})]
    written(empty_dynamodb, *messages, seconds=-1)
    assert dispositions(*messages) == ["DeadlinePassed"] * 2
    assert written(empty_dynamodb) == (0, 0, 0)
    assert empty_dynamodb.operations == []
