"""The profiles handler with one worker, on both engines."""

import itertools
import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from types import ModuleType
from typing import Any

import pytest

from conditional_writes.items import from_dynamodb, to_dynamodb
from tests.checkers.profile_oracle import is_mark
from tools.local_aws.functions import Context, Queue, again, invoke, metric_totals, record, upsert_profiles
from tools.local_aws.queues import take_dead_letters
from tools.local_aws.server import Endpoint
from tools.local_aws.tables import create_profiles_table, scan

START = datetime(2026, 3, 1, 12, tzinfo=UTC)
_numbers = itertools.count(1)


@pytest.fixture
def table(dynamodb: Endpoint) -> str:
    return create_profiles_table(dynamodb, f"test-{next(_numbers)}")


@pytest.fixture
def function(ministack: Endpoint, dynamodb: Endpoint, table: str) -> ModuleType:
    return upsert_profiles(ministack, table, dynamodb)


@pytest.fixture
def requests(function: ModuleType) -> list[str]:
    """Records the operations of the function's DynamoDB client."""
    calls: list[str] = []
    function.writer.client.meta.events.register("before-call", lambda model, **_: calls.append(model.name))
    return calls


def at(seconds: float) -> str:
    return (START + timedelta(seconds=seconds)).isoformat()


def update(entries: dict[str, Any] | None = None, seconds: float = 0, **fields: Any) -> dict[str, Any]:
    """An update of alice's preferences, unless `fields` changes it."""
    body = {"account_id": "alice", "path": ["preferences"], "entries": entries or {}, "as_of": at(seconds)}
    return {name: value for name, value in (body | fields).items() if value is not None}


def erasure(account_id: str = "alice", seconds: float | None = 0) -> dict[str, Any]:
    body = {"type": "erase_profile", "account_id": account_id}
    return body if seconds is None else body | {"as_of": at(seconds)}


def items(dynamodb: Endpoint, table: str) -> dict[str, Any]:
    return {item["account_id"]: item for item in map(from_dynamodb, scan(dynamodb, table))}


def profile(dynamodb: Endpoint, table: str, account_id: str = "alice") -> dict[str, Any]:
    """A profile's maps, without the clocks and the library's other attributes."""
    item = items(dynamodb, table)[account_id]
    return {name: value for name, value in item.items() if not is_mark(name)}


@pytest.mark.usefixtures("new_process")
def test_a_hundred_messages_for_a_profile_are_one_request_once_its_shape_is_known(
    function: ModuleType, requests: list[str], dynamodb: Endpoint, table: str
) -> None:
    def requests_of(account_id: str, seconds: float) -> int:
        requests.clear()
        messages = [update({f"entry {number}": number}, seconds, account_id=account_id) for number in range(100)]
        assert not invoke(function, map(record, messages))
        assert set(requests) == {"UpdateItem"}
        return len(requests)

    names = ["alice", "bob", "carol", "dave"]
    assert [requests_of(name, 1) for name in names] == [2, 1, 1, 1], "if the map is known to be missing"
    assert [requests_of(name, 2) for name in names] == [2, 2, 1, 1], "if the map is known to exist"
    assert all(profile(dynamodb, table, name)["preferences"]["entry 99"] == 99 for name in names)


def test_each_profile_of_a_batch_is_upserted_by_itself(
    function: ModuleType, requests: list[str], dynamodb: Endpoint, table: str
) -> None:
    messages = [update({f"e{n}": n}, account_id=f"acc-{n % 40}", path=[f"map-{n % 40}"]) for n in range(120)]
    assert not invoke(function, map(record, messages))
    assert requests == ["UpdateItem"] * 80  # Each upsert finds its map missing, which wasn't known before.
    assert profile(dynamodb, table, "acc-7") == {"map-7": {"e7": 7, "e47": 47, "e87": 87}}


def test_later_wins_whatever_the_order_of_arrival(function: ModuleType, dynamodb: Endpoint, table: str) -> None:
    assert not invoke(function, [record(update({"theme": "dark", "language": "de"}, 5))])
    late = [update({"theme": "blue", "language": "fr"}, 3), update({"language": "it", "size": 12}, 7)]
    assert not invoke(function, map(record, late))
    assert not invoke(function, [record(update(removed=["theme"], seconds=6))])
    assert not invoke(function, [record(update({"theme": "red"}, 5.5))])
    assert profile(dynamodb, table) == {"preferences": {"language": "it", "size": 12}}


def test_maps_are_made_on_the_way_and_values_read_exactly(function: ModuleType, dynamodb: Endpoint, table: str) -> None:
    limits = '{"account_id": "alice", "path": ["limits", "card", "day"], "as_of": "2026-03-01T12:00:00Z", "entries": '
    body = (
        limits + '{"atm": 0.1000000000000000055511151231257827021, "all": [1, {"x": null}], "none": {}, "big": 1E+38}}'
    )
    assert not invoke(function, [record(body), record(update({"theme": "dark"}))])
    exact = json.loads("0.1000000000000000055511151231257827021", parse_float=Decimal)
    values = {"atm": exact, "all": [1, {"x": None}], "none": {}, "big": 10**38}
    assert profile(dynamodb, table) == {"limits": {"card": {"day": values}}, "preferences": {"theme": "dark"}}


def test_without_as_of_a_messages_time_is_when_it_was_sent(
    function: ModuleType, dynamodb: Endpoint, table: str
) -> None:
    def sent(theme: str, seconds: float) -> dict[str, Any]:
        return record(update({"theme": theme}, as_of=None), sent_at=START + timedelta(seconds=seconds))

    assert not invoke(function, [sent("second", 0.002)])
    assert not invoke(function, [sent("first", 0.001), record(update({"theme": "before"}, -1))])
    assert profile(dynamodb, table) == {"preferences": {"theme": "second"}}
    assert not invoke(function, [sent("third", 0.003)])
    assert profile(dynamodb, table) == {"preferences": {"theme": "third"}}


@pytest.mark.parametrize("together", [True, False])
def test_an_erased_profile_has_only_what_is_later_whatever_the_order_of_arrival(
    function: ModuleType, dynamodb: Endpoint, table: str, together: bool
) -> None:
    messages = [
        update({"theme": "dark", "language": "de"}, 1),
        update({"size": 12}, 5, path=["preferences", "font"]),
        erasure(seconds=2),
        erasure(seconds=4),
        update({"first": 1}, 4, path=["visits"]),
        update({"theme": "red"}, 6),
    ]
    expected = {"preferences": {"theme": "red", "font": {"size": 12}}}
    for order in itertools.islice(itertools.permutations(messages), 0, None, 37):
        dynamodb.client("dynamodb").delete_item(TableName=table, Key=to_dynamodb({"account_id": "alice"}))
        for batch in [order] if together else [[message] for message in order]:
            assert not invoke(function, map(record, batch))
        assert profile(dynamodb, table) == expected
        assert items(dynamodb, table)["alice"]["cw:erased_as_of"] == "2026-03-01T12:00:04.000000+00:00"


def test_an_erasure_without_as_of_erases_what_was_sent_before_it(
    function: ModuleType, dynamodb: Endpoint, table: str
) -> None:
    dynamodb.client("dynamodb").put_item(TableName=table, Item=to_dynamodb({"account_id": "alice", "name": "Alice"}))
    erasing = record(erasure(seconds=None), sent_at=START + timedelta(seconds=2))
    before, after = (record(update({"theme": n}, as_of=None), sent_at=START + timedelta(seconds=n)) for n in (1, 3))
    for delivered in (before, erasing, again(before), again(erasing), after, again(before), again(erasing)):
        assert not invoke(function, [delivered])
    assert profile(dynamodb, table) == {"preferences": {"theme": 3}}


def test_an_erasure_as_of_the_future_is_dead_lettered(
    function: ModuleType, ministack: Endpoint, dynamodb: Endpoint, table: str
) -> None:
    assert not invoke(function, [record(update({"theme": "dark"}))])
    assert not invoke(function, [record(erasure(seconds=301), sent_at=START)])
    [letter] = take_dead_letters(ministack, function.worker.queue.dead_letter_url)
    assert letter.reason
    assert letter.reason.startswith("as_of: expected at most 5 minutes after the message was sent")
    assert profile(dynamodb, table) == {"preferences": {"theme": "dark"}}


def test_a_profile_that_no_update_can_read_can_be_erased(function: ModuleType, dynamodb: Endpoint, table: str) -> None:
    plant_unreadable(dynamodb, table, "alice")
    assert not invoke(function, [record(erasure(seconds=1))])
    assert not invoke(function, [record(update({"theme": "dark"}, 2))])
    assert profile(dynamodb, table) == {"preferences": {"theme": "dark"}}


def test_a_redelivered_batch_changes_nothing(
    function: ModuleType, requests: list[str], dynamodb: Endpoint, table: str
) -> None:
    records = [record(update({"theme": "dark"}, n, account_id=f"acc-{n}", path=[f"map-{n}"])) for n in range(5)]
    records.append(record(update({"seen": 1}, as_of=None)))
    assert not invoke(function, records)
    before = items(dynamodb, table)
    requests.clear()
    assert not invoke(function, map(again, records))
    assert items(dynamodb, table) == before
    assert requests == ["BatchGetItem"] + ["UpdateItem"] * 6  # their attempts; each update is refused


def test_what_does_not_fit_is_dead_lettered_and_the_rest_of_its_profile_is_upserted(
    function: ModuleType, ministack: Endpoint, dynamodb: Endpoint, table: str
) -> None:
    dynamodb.client("dynamodb").put_item(
        TableName=table, Item=to_dynamodb({"account_id": "alice", "status": "VIP", "since": 2020})
    )
    assert not invoke(function, [record(update({"font": {"size": 9}})), record(update({"a": 1}, path=["deep", "map"]))])
    clashing = [
        update({"x": 1}, 1, path=["status"]),
        update({"x": 1}, 1, path=["since", "month"]),
        update({"photo": "x" * 130_000}, 1, path=["photos"]),
    ]
    fitting = [
        update({"theme": "dark"}, 1),
        update({"b": 2}, 1, path=["deep", "map"]),
        update({"1": "x" * 130_000, "2": "x"}, 2, path=["photos"]),
        update({"3": "x" * 130_000}, 2, path=["photos"]),
        update({"4": "x" * 130_000}, 2, path=["photos"]),
    ]
    records = [*map(record, fitting), *map(record, clashing)]
    assert not invoke(function, records)
    letters = take_dead_letters(ministack, function.worker.queue.dead_letter_url)
    assert [letter.body for letter in letters] == [json.dumps(message) for message in clashing]
    for letter, reason in zip(
        letters,
        [
            "status is a string, expected a map, to hold entries",
            "since is a number, expected a map, to hold entries",
            "an item holds 400 kB",
        ],
        strict=True,
    ):
        assert letter.reason
        assert letter.reason.startswith(f"{table} account_id='alice': ")
        assert letter.reason.endswith(reason)
    found = profile(dynamodb, table)
    assert (found["status"], found["since"], found["deep"]) == ("VIP", 2020, {"map": {"a": 1, "b": 2}})
    assert found["preferences"] == {"font": {"size": 9}, "theme": "dark"}
    assert found["photos"].keys() == {"1", "2", "3", "4"}


@pytest.mark.parametrize("together", [True, False])
def test_of_an_entry_and_a_map_of_its_name_the_later_stands_whichever_arrives_first(
    function: ModuleType, ministack: Endpoint, dynamodb: Endpoint, table: str, together: bool
) -> None:
    for account_id, entry_at, expected in [("alice", 2, "serif"), ("bob", 0, {"size": 12})]:
        entry = update({"font": "serif"}, entry_at, account_id=account_id)
        font = update({"size": 12}, 1, path=["preferences", "font"], account_id=account_id)
        for messages in ([entry, font], [font, entry]):
            for batch in [messages] if together else [[message] for message in messages]:
                assert not invoke(function, map(record, batch))
            assert profile(dynamodb, table, account_id) == {"preferences": {"font": expected}}
            dynamodb.client("dynamodb").delete_item(TableName=table, Key=to_dynamodb({"account_id": account_id}))
    assert not take_dead_letters(ministack, function.worker.queue.dead_letter_url)


def test_what_is_too_long_for_a_request_and_does_not_fit_may_be_there_in_part_and_can_be_sent_again_once_mended(
    function: ModuleType, ministack: Endpoint, dynamodb: Endpoint, table: str
) -> None:
    path = ["limits", *(f"level {number}" for number in range(14))]
    planted = {"account_id": "alice", "cw:item_bytes": 399_000}
    dynamodb.client("dynamodb").put_item(TableName=table, Item=to_dynamodb(planted | {"photo": "x" * 391_000}))
    message = update({f"entry {number:02}": "x" * 100 for number in range(100)}, 1, path=path)
    assert not invoke(function, [record(message)])
    [letter] = take_dead_letters(ministack, function.worker.queue.dead_letter_url)
    assert letter.reason
    assert letter.reason.endswith("an item holds 400 kB")

    def limits() -> dict[str, Any]:
        inner = profile(dynamodb, table)
        for name in path:
            inner = inner[name]
        return inner

    assert 1 < len(limits()) < 100
    dynamodb.client("dynamodb").update_item(
        TableName=table, Key=to_dynamodb({"account_id": "alice"}), UpdateExpression="REMOVE photo"
    )
    assert not invoke(function, [record(message)])
    assert limits() == message["entries"]


def test_what_is_invalid_is_dead_lettered_with_its_reason_and_holds_up_nobody(
    function: ModuleType, ministack: Endpoint, dynamodb: Endpoint, table: str
) -> None:
    junk = ["hello", update({"limit": None}, colour="green"), update({}), update({"x": 1}, path=["cw:write_id"])]
    assert not invoke(function, [*map(record, junk), record(update({"theme": "dark"}))])
    reasons = [letter.reason for letter in take_dead_letters(ministack, function.worker.queue.dead_letter_url)]
    assert reasons == [
        "body: expected JSON; JSON is malformed: invalid character (byte 0)",
        "body: object contains unknown field `colour`",
        "entries: expected at least one name, there or in removed",
        "path: expected another first name than 'cw:write_id', which the table needs for itself",
    ]
    assert profile(dynamodb, table) == {"preferences": {"theme": "dark"}}


def test_a_name_of_control_characters_does_not_keep_a_reason_from_the_dead_letters(
    function: ModuleType, ministack: Endpoint, dynamodb: Endpoint, table: str
) -> None:
    name = "\0\x1b[2J\uffff"
    dynamodb.client("dynamodb").put_item(
        TableName=table, Item=to_dynamodb({"account_id": "alice", "preferences": {name: 1}})
    )
    assert not invoke(function, [record(update({"x": 1}, path=["preferences", name]))])
    [letter] = take_dead_letters(ministack, function.worker.queue.dead_letter_url)
    assert letter.reason
    assert letter.reason.endswith(r"preferences.\x00\x1b[2J\uffff is a number, expected a map, to hold entries")


def plant_unreadable(dynamodb: Endpoint, table: str, account_id: str) -> None:
    """Plants a profile that no upsert can read, because its clocks are invalid."""
    item = {"account_id": account_id, "preferences": {}, 'cw:as_of ["preferences"]': "nonsense"}
    dynamodb.client("dynamodb").put_item(TableName=table, Item=to_dynamodb(item))


def test_one_profiles_trouble_does_not_hold_up_another(function: ModuleType, dynamodb: Endpoint, table: str) -> None:
    plant_unreadable(dynamodb, table, "alice")
    bad = [record(update({"theme": "dark"})), record(update({"size": 12}))]
    good = [record(update({"theme": "dark"}, account_id="bob")), record("junk")]
    assert invoke(function, [*bad, *good]) == {one["messageId"] for one in bad}
    assert profile(dynamodb, table, "bob") == {"preferences": {"theme": "dark"}}


def test_a_message_of_an_unreadable_profile_comes_again_until_sqs_would_delete_it(
    function: ModuleType, ministack: Endpoint, dynamodb: Endpoint, table: str
) -> None:
    plant_unreadable(dynamodb, table, "alice")
    queue = Queue([record(update({"theme": "dark"}))])
    for _ in range(10):
        queue.deliver(function)
    assert len(queue.records) == 1
    old = record(update({"theme": "dark"}), 700, datetime.now(UTC) - timedelta(days=7))
    assert not invoke(function, [old])
    [letter] = take_dead_letters(ministack, function.worker.queue.dead_letter_url)
    assert letter.reason
    assert letter.reason.startswith("not processed in 7.0 days on the queue: ")


def test_without_time_left_everything_goes_back_to_the_queue(
    function: ModuleType, dynamodb: Endpoint, table: str
) -> None:
    records = [record(update({"theme": "dark"})), record("junk")]
    assert invoke(function, records, Context(timeout_seconds=1)) == {one["messageId"] for one in records}
    assert not items(dynamodb, table)


def test_every_record_has_its_line_without_payload_and_the_batch_its_metrics(
    function: ModuleType,
    dynamodb: Endpoint,
    table: str,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
) -> None:
    plant_unreadable(dynamodb, table, "bob")
    dynamodb.client("dynamodb").put_item(TableName=table, Item=to_dynamodb({"account_id": "alice", "status": "secret"}))
    erased = record(erasure("carol", 1))
    erased_before = record(erasure("carol", 0))
    theme = record(update({"theme": "secret"}, 1))
    size = record(update({"size": "secret", "theme": "secret before"}, removed=["secret name"]))
    late = record(update({"x": "secret"}, path=["preferences", "theme"]))
    clash = record(update({"x": "secret"}, path=["status"]))
    back = record(update({"x": "secret"}, account_id="bob"))
    last = record(update({"x": "secret"}, account_id="bob"), 700, datetime.now(UTC) - timedelta(days=7))
    junk = record('"secret"')
    with caplog.at_level("DEBUG", "teller"):
        assert invoke(function, [theme, size, late, clash, back, last, junk, erased, erased_before]) == {
            back["messageId"]
        }
    lines = {line.message_id: vars(line) for line in caplog.records if hasattr(line, "message_id")}
    said = {message_id: (line["message"], line.get("reason_code")) for message_id, line in lines.items()}
    assert said == {
        erased["messageId"]: ("erased", None),
        erased_before["messageId"]: ("superseded", None),
        theme["messageId"]: ("upserted", None),
        size["messageId"]: ("upserted", None),
        late["messageId"]: ("superseded", None),
        clash["messageId"]: ("dead-lettered", "NOT_A_MAP"),
        back["messageId"]: ("returned to the queue", None),
        last["messageId"]: ("dead-lettered", "RETRIES_EXHAUSTED"),
        junk["messageId"]: ("dead-lettered", "INVALID_MESSAGE"),
    }
    assert (lines[size["messageId"]]["account_id"], lines[size["messageId"]]["entries"]) == ("alice", 3)
    assert "secret" not in str(lines)
    totals = metric_totals(json.loads(line) for line in capsys.readouterr().out.splitlines() if '"_aws"' in line)
    assert totals.pop("Conflicts") >= 1
    assert totals.pop("ColdStart", 1) == 1
    assert totals.pop("MessageAge") > 0
    assert totals.pop("ReturnedAge") > 0
    assert totals == {
        "Upserted": 4,
        "Erased": 1,
        "Superseded": 2,
        "Waiting": 0,
        "ReturnedToQueue": 1,
        "DeadLettered": 3,
        "NOT_A_MAP": 1,
        "RETRIES_EXHAUSTED": 1,
        "INVALID_MESSAGE": 1,
    }
