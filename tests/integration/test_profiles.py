"""The profiles handler with one worker, on both engines."""

import itertools
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from conditional_writes import Item
from conditional_writes.core.items import from_dynamodb, to_dynamodb
from tests.support.profile_table import Stored
from tools.local_aws.functions import Context, invoke, metric_totals, record, upsert_profiles
from tools.local_aws.queues import take_dead_letters
from tools.local_aws.server import Endpoint
from tools.local_aws.tables import create_profiles_table, scan

START = datetime(2026, 3, 1, 12, tzinfo=UTC)
FUTURE = timedelta(minutes=5)
"""A message may be as of so much later than it was sent."""
LAST_DAY = datetime.now(UTC) - timedelta(days=7)
_numbers = itertools.count(1)


class Profiles:
    """The function, its table, and the operations of its client."""

    def __init__(self, aws: Endpoint, dynamodb: Endpoint) -> None:
        self.aws, self.dynamodb, self.client = aws, dynamodb, dynamodb.client("dynamodb")
        self.table = create_profiles_table(dynamodb, f"profiles-{next(_numbers)}")
        self.function = upsert_profiles(aws, self.table, dynamodb)
        self.requests: list[str] = []
        self.function.writer.client.meta.events.register(
            "before-call", lambda model, **_: self.requests.append(model.name)
        )

    def post(self, *messages: Any) -> None:
        """Delivers messages, or records. None of them comes again."""
        assert not self.returned(*messages)

    def returned(self, *messages: Any, context: Context | None = None) -> set[str]:
        records = [each if isinstance(each, dict) and "messageId" in each else record(each) for each in messages]
        return invoke(self.function, records, context)

    def reasons(self) -> list[str | None]:
        """Those of the dead letters, which are taken."""
        return [letter.reason for letter in take_dead_letters(self.aws, self.function.worker.queue.dead_letter_url)]

    def items(self) -> dict[str, Item]:
        return {item["account_id"]: item for item in map(from_dynamodb, scan(self.dynamodb, self.table))}

    def __getitem__(self, account_id: str) -> Item:
        """A profile's maps, without the clocks and the library's other attributes."""
        return Stored(to_dynamodb(self.items()[account_id])).maps

    def put(self, account_id: str = "alice", **attributes: Any) -> None:
        self.client.put_item(TableName=self.table, Item=to_dynamodb({"account_id": account_id} | attributes))

    def put_unreadable(self, account_id: str) -> None:
        self.put(account_id, **{"preferences": {}, 'cw:as_of ["preferences"]': "nonsense"})

    def delete(self, account_id: str = "alice") -> None:
        self.client.delete_item(TableName=self.table, Key=to_dynamodb({"account_id": account_id}))


@pytest.fixture
def profiles(aws: Endpoint, dynamodb: Endpoint) -> Profiles:
    return Profiles(aws, dynamodb)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def update(entries: dict[str, Any] | None = None, seconds: float = 0, **fields: Any) -> dict[str, Any]:
    """An update of alice's preferences, unless `fields` changes it."""
    body = {"account_id": "alice", "path": ["preferences"], "entries": entries or {}, "as_of": at(seconds).isoformat()}
    return {name: value for name, value in (body | fields).items() if value is not None}


def erasure(account_id: str = "alice", seconds: float | None = 0) -> dict[str, Any]:
    body = {"type": "erase_profile", "account_id": account_id}
    return body if seconds is None else body | {"as_of": at(seconds).isoformat()}


def sent(message: dict[str, Any], seconds: float, as_of: str | None = None) -> dict[str, Any]:
    """The record of a message that was sent at a time, without `as_of` unless it is given."""
    times = {} if as_of is None else {"as_of": as_of}
    return record({name: message[name] for name in message if name != "as_of"} | times, sent_at=at(seconds))


@pytest.mark.usefixtures("new_process")
def test_a_hundred_messages_for_a_profile_are_one_request_once_its_shape_is_known(profiles: Profiles) -> None:
    def requests_of(account_id: str, seconds: float) -> int:
        profiles.requests.clear()
        profiles.post(*(update({f"entry {number}": number}, seconds, account_id=account_id) for number in range(100)))
        assert set(profiles.requests) == {"UpdateItem"}
        return len(profiles.requests)

    names = ["alice", "bob", "carol", "dave"]
    assert [requests_of(name, 1) for name in names] == [2, 1, 1, 1], "if the map is known to be missing"
    assert [requests_of(name, 2) for name in names] == [2, 2, 1, 1], "if the map is known to exist"
    assert all(profiles[name]["preferences"]["entry 99"] == 99 for name in names)


@pytest.mark.parametrize("early", [timedelta(days=-400), timedelta(), FUTURE])
def test_a_message_as_of_its_sending_and_an_allowance_more_is_written(profiles: Profiles, early: timedelta) -> None:
    profiles.post(sent(update({"theme": "dark"}), 0, (START + early).isoformat()))
    assert profiles["alice"] == {"preferences": {"theme": "dark"}}
    profiles.post(sent(update({"theme": "blue"}), early.total_seconds() + 1))
    assert profiles["alice"] == {"preferences": {"theme": "blue"}}


@pytest.mark.parametrize("message", [update({"theme": "dark"}), erasure()], ids=["an update", "an erasure"])
@pytest.mark.parametrize(
    "as_of", [START + FUTURE + timedelta(microseconds=1), datetime.max.replace(tzinfo=UTC)], ids=str
)
def test_a_message_as_of_a_later_time_is_refused_and_locks_nothing(
    profiles: Profiles, message: dict[str, Any], as_of: datetime
) -> None:
    profiles.post(sent(message, 0, as_of.isoformat()), sent(update({"theme": "blue"}), 0))
    sentence = "as_of: expected at most 5 minutes after the message was sent"
    assert profiles.reasons() == [f"{sentence} at {START.isoformat()}, got {as_of.isoformat()}"]
    assert profiles["alice"] == {"preferences": {"theme": "blue"}}
    profiles.post(sent(update({"theme": "green"}), 1))
    assert profiles["alice"] == {"preferences": {"theme": "green"}}


def test_what_does_not_fit_is_dead_lettered_and_the_rest_of_its_profile_is_upserted(profiles: Profiles) -> None:
    name = "\0\x1b[2J\uffff"
    profiles.put(status="VIP", since=2020, names={name: 1})
    profiles.post(update({"font": {"size": 9}}), update({"a": 1}, path=["deep", "map"]))
    clashing = {
        "status is a string, expected a map, to hold entries": update({"x": 1}, 1, path=["status"]),
        "since is a number, expected a map, to hold entries": update({"x": 1}, 1, path=["since", "month"]),
        r"names.\x00\x1b[2J\uffff is a number, expected a map, to hold entries": update(
            {"x": 1}, 1, path=["names", name]
        ),
        "an item holds 400 kB": update({"photo": "x" * 130_000}, 1, path=["photos"]),
    }
    fitting = [
        update({"theme": "dark"}, 1),
        update({"b": 2}, 1, path=["deep", "map"]),
        update({"1": "x" * 130_000, "2": "x"}, 2, path=["photos"]),
        update({"3": "x" * 130_000}, 2, path=["photos"]),
        update({"4": "x" * 130_000}, 2, path=["photos"]),
    ]
    profiles.post(*fitting, *clashing.values())
    reasons = profiles.reasons()
    assert all(reason and reason.startswith(f"{profiles.table} account_id='alice': ") for reason in reasons)
    assert [reason and reason.endswith(end) for reason, end in zip(reasons, clashing, strict=True)] == [True] * 4
    found = profiles["alice"]
    assert found.pop("photos").keys() == {"1", "2", "3", "4"}
    unchanged = {"status": "VIP", "since": 2020, "names": {name: 1}}
    assert found == unchanged | {
        "deep": {"map": {"a": 1, "b": 2}},
        "preferences": {"font": {"size": 9}, "theme": "dark"},
    }


def test_what_is_too_long_for_a_request_and_does_not_fit_may_be_there_in_part_and_can_be_sent_again_once_mended(
    profiles: Profiles,
) -> None:
    path = ["limits", *(f"level {number}" for number in range(14))]
    profiles.put(photo="x" * 391_000, **{"cw:item_bytes": 399_000})
    message = update({f"entry {number:02}": "x" * 100 for number in range(100)}, 1, path=path)
    profiles.post(message)
    [reason] = profiles.reasons()
    assert reason
    assert reason.endswith("an item holds 400 kB")

    def limits() -> Item:
        inner = profiles["alice"]
        for name in path:
            inner = inner[name]
        return inner

    assert 1 < len(limits()) < 100
    profiles.client.update_item(
        TableName=profiles.table, Key=to_dynamodb({"account_id": "alice"}), UpdateExpression="REMOVE photo"
    )
    profiles.post(message)
    assert limits() == message["entries"]


def test_one_profiles_trouble_does_not_hold_up_another_and_it_can_be_erased(profiles: Profiles) -> None:
    profiles.put_unreadable("alice")
    bad = [record(update({"theme": "dark"})), record(update({"size": 12}))]
    assert profiles.returned(*bad, update({"theme": "dark"}, account_id="bob"), "junk") == {
        one["messageId"] for one in bad
    }
    assert profiles["bob"] == {"preferences": {"theme": "dark"}}
    profiles.post(erasure(seconds=1))
    profiles.post(update({"theme": "dark"}, 2))
    assert profiles["alice"] == {"preferences": {"theme": "dark"}}


def test_every_record_has_its_line_without_payload_and_the_batch_its_metrics(
    profiles: Profiles, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    profiles.put_unreadable("bob")
    profiles.put(status="secret")
    records: dict[str, tuple[dict[str, Any], tuple[str, str | None]]] = {
        "theme": (record(update({"theme": "secret"}, 1)), ("upserted", None)),
        "size": (
            record(update({"size": "secret", "theme": "secret before"}, removed=["secret name"])),
            ("upserted", None),
        ),
        "late": (record(update({"x": "secret"}, path=["preferences", "theme"])), ("superseded", None)),
        "clash": (record(update({"x": "secret"}, path=["status"])), ("dead-lettered", "NOT_A_MAP")),
        "back": (record(update({"x": "secret"}, account_id="bob")), ("returned to the queue", None)),
        "last": (
            record(update({"x": "secret"}, account_id="bob"), 700, LAST_DAY),
            ("dead-lettered", "RETRIES_EXHAUSTED"),
        ),
        "junk": (record('"secret"'), ("dead-lettered", "INVALID_MESSAGE")),
        "erasure": (record(erasure("carol", 1)), ("erased", None)),
        "earlier erasure": (record(erasure("carol", 0)), ("superseded", None)),
    }
    ids = {name: each["messageId"] for name, (each, _) in records.items()}
    with caplog.at_level("DEBUG", "teller"):
        assert profiles.returned(*(each for each, _ in records.values())) == {ids["back"]}
    lines = {line.message_id: vars(line) for line in caplog.records if hasattr(line, "message_id")}
    said = {name: (lines[number]["message"], lines[number].get("reason_code")) for name, number in ids.items()}
    assert said == {name: expected for name, (_, expected) in records.items()}
    assert (lines[ids["size"]]["account_id"], lines[ids["size"]]["entries"]) == ("alice", 3)
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
