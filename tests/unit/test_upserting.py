"""A batch's upserts: all of a profile together, each profile by itself, and only the guilty refused."""

import itertools
import threading
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError
from ledger.upserting import Delivery, Profiles, Upserted

from conditional_writes import Deadline, DeadlinePassed
from conditional_writes.items import to_dynamodb
from conditional_writes.upserts import ItemTooLarge, NotAMap
from ledger.core.profile_messages import ProfileUpdate
from tests.unit.stubs import Stubbed

START = datetime(2026, 3, 1, 12, tzinfo=UTC)
_numbers = itertools.count(1)


def delivery(
    seconds: float, entries: dict[str, Any], account_id: str = "alice", path: tuple[str, ...] = ("preferences",)
) -> Delivery:
    sent_at = START + timedelta(seconds=seconds)
    return Delivery(ProfileUpdate(account_id=account_id, path=path, entries=entries), sent_at)


def upserted(dynamodb: Stubbed, *deliveries: Delivery, seconds: float = 60) -> Upserted:
    """In a table of its own: what was learned of another doesn't matter."""
    return Profiles(dynamodb.client, f"profiles-{next(_numbers)}").upsert(deliveries, Deadline.after(seconds))


def refuses(dynamodb: Stubbed, item: dict[str, Any]) -> None:
    """As the item is, the condition doesn't hold."""
    dynamodb.refuses("update_item", "ConditionalCheckFailedException", Item=to_dynamodb(item))


def sent(request: dict[str, Any]) -> list[Any]:
    """The strings and numbers that a request sets: not the clocks and marks."""
    values = [next(iter(value.items())) for value in request["ExpressionAttributeValues"].values()]
    return sorted(content for kind, content in values if kind == "S" and content.startswith("value "))


def test_all_of_a_profile_goes_in_one_request_and_of_an_entry_the_latest(stubbed_dynamodb: Stubbed) -> None:
    stubbed_dynamodb.answers("update_item")
    done = upserted(
        stubbed_dynamodb,
        delivery(3, {"theme": "value new"}),
        delivery(1, {"theme": "value old", "language": "value de"}),
        delivery(2, {"size": "value 12"}, path=("preferences", "font")),
        delivery(3, {"theme": "value new"}),
    )
    assert done == Upserted([None] * 4, written=3, superseded=2)
    [request] = stubbed_dynamodb.parameters
    assert request["Key"] == {"account_id": {"S": "alice"}}
    assert sent(request) == ["value 12", "value de", "value new"]


def test_each_profile_has_a_request_of_its_own_and_they_are_sent_in_parallel(stubbed_dynamodb: Stubbed) -> None:
    stubbed_dynamodb.answers("update_item")
    stubbed_dynamodb.answers("update_item")
    both = threading.Barrier(2, timeout=5)
    stubbed_dynamodb.client.meta.events.register("before-parameter-build", lambda **_: both.wait())
    done = upserted(stubbed_dynamodb, *(delivery(n, {f"e{n}": n}, account_id="ab"[n % 2]) for n in range(5)))
    assert done == Upserted([None] * 5, written=5)
    assert sorted(request["Key"]["account_id"]["S"] for request in stubbed_dynamodb.parameters) == ["a", "b"]


def test_the_results_are_in_the_deliveries_order_whosever_they_are(stubbed_dynamodb: Stubbed) -> None:
    for _ in range(3):
        stubbed_dynamodb.answers("update_item")
    photo = {"photo": "x" * 400_000}
    done = upserted(
        stubbed_dynamodb,
        delivery(1, {"theme": "dark"}),
        delivery(1, {"theme": "dark"}, account_id="bob"),
        delivery(1, photo),
        delivery(1, {"theme": "dark"}, account_id="carol"),
        delivery(1, photo, account_id="bob"),
    )
    assert [isinstance(result, ItemTooLarge) for result in done.results] == [False, False, True, False, True]


def test_of_several_messages_only_that_fails_which_does_not_fit(stubbed_dynamodb: Stubbed) -> None:
    there = {"account_id": "alice", "preferences": {}, "status": "VIP"}
    refuses(stubbed_dynamodb, there)
    stubbed_dynamodb.answers("update_item")
    refuses(stubbed_dynamodb, there)
    stubbed_dynamodb.answers("update_item")
    done = upserted(
        stubbed_dynamodb,
        delivery(1, {"theme": "dark"}),
        delivery(2, {"since": 2020}, path=("status",)),
        delivery(3, {"language": "de"}),
    )
    first, clash, last = done.results
    assert (first, last, done.written) == (None, None, 2)
    assert isinstance(clash, NotAMap)
    assert str(clash).endswith("status is a string, expected a map, to hold entries")


def test_two_messages_that_contradict_each_other_are_no_trouble_to_a_third(stubbed_dynamodb: Stubbed) -> None:
    stubbed_dynamodb.answers("update_item")
    entry = {"account_id": "alice", "preferences": {"font": "serif"}, 'cw:as_of ["preferences"]': {"font": "2026"}}
    refuses(stubbed_dynamodb, entry)
    stubbed_dynamodb.answers("update_item")
    done = upserted(
        stubbed_dynamodb,
        delivery(1, {"font": "serif"}),
        delivery(2, {"size": 12}, path=("preferences", "font")),
        delivery(3, {"theme": "dark"}),
    )
    assert [type(result) for result in done.results] == [type(None), NotAMap, type(None)]


def test_what_an_item_has_no_room_for_is_refused_without_a_request_and_the_rest_is_written(
    stubbed_dynamodb: Stubbed,
) -> None:
    stubbed_dynamodb.answers("update_item")
    done = upserted(stubbed_dynamodb, delivery(1, {"theme": "dark"}), delivery(2, {"photo": "x" * 400_000}))
    assert [type(result) for result in done.results] == [type(None), ItemTooLarge]
    assert stubbed_dynamodb.operations == ["UpdateItem"]


def test_an_error_of_awss_own_is_the_whole_profiles_and_is_not_tried_message_by_message(
    stubbed_dynamodb: Stubbed,
) -> None:
    stubbed_dynamodb.refuses("update_item", "ThrottlingException")
    done = upserted(stubbed_dynamodb, delivery(1, {"theme": "dark"}), delivery(2, {"language": "de"}))
    assert [isinstance(result, ClientError) for result in done.results] == [True, True]
    assert stubbed_dynamodb.operations == ["UpdateItem"]


def test_one_profiles_trouble_is_its_own(stubbed_dynamodb: Stubbed) -> None:
    stubbed_dynamodb.refuses("update_item", "ThrottlingException")
    stubbed_dynamodb.answers("update_item")
    done = upserted(stubbed_dynamodb, delivery(1, {"a": 1}), delivery(2, {"b": 2}, account_id="bob"))
    assert sorted(isinstance(result, ClientError) for result in done.results) == [False, True]
    assert done.written == 1


def test_without_time_nothing_is_sent(stubbed_dynamodb: Stubbed) -> None:
    done = upserted(stubbed_dynamodb, delivery(1, {"theme": "dark"}), delivery(2, {"language": "de"}), seconds=-1)
    assert [type(result) for result in done.results] == [DeadlinePassed, DeadlinePassed]
    assert stubbed_dynamodb.operations == []


def test_without_deliveries_nothing_is_asked_for(stubbed_dynamodb: Stubbed) -> None:
    assert upserted(stubbed_dynamodb) == Upserted([])


@pytest.mark.parametrize(("depth", "size"), [(1, 100), (2, 95), (16, 27)])
def test_a_message_of_this_size_is_written_together(stubbed_dynamodb: Stubbed, depth: int, size: int) -> None:
    stubbed_dynamodb.answers("update_item")
    path = tuple(f"level {number}" for number in range(depth))
    done = upserted(stubbed_dynamodb, delivery(1, {f"entry {number}": number for number in range(size)}, path=path))
    assert (done.written, stubbed_dynamodb.operations) == (size, ["UpdateItem"])


@pytest.mark.parametrize("size", [100, 200])
def test_a_hundred_entries_of_a_map_are_one_request(stubbed_dynamodb: Stubbed, size: int) -> None:
    requests = 1 if size == 100 else 2
    for _ in range(requests):
        stubbed_dynamodb.answers("update_item")
    done = upserted(stubbed_dynamodb, *(delivery(number, {f"entry {number}": number}) for number in range(size)))
    assert (done.written, stubbed_dynamodb.operations) == (size, ["UpdateItem"] * requests)
