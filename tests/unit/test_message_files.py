"""Files of messages: each line's queue, what is wrong with it, and where a broken sending goes on."""

import json
import tracemalloc
from pathlib import Path
from typing import Any, override

import msgspec
import pytest
from hypothesis import given

from ledger.core.transaction_types.base import Door, TransactionMessage
from tests.support.faults import Killed
from tests.support.strategies import any_message, profile_updates
from tools.teller import send as sending
from tools.teller.failures import Failure
from tools.teller.message_files import checked, messages_from, queue_of
from tools.teller.message_queues import MessageQueue
from tools.teller.places import Place, path_of, read_place, remove_place, write_place
from tools.teller.send import send_from

GOOD = '{"transaction_id": "t", "account_id": "a", "amount": 1}'
ERASURE = '{"type": "erase_profile", "account_id": "a"}'
UPDATE = '{"account_id": "a", "path": ["p"], "entries": {"n": 1}}'
TRANSACTIONS, PROFILES = MessageQueue.TRANSACTIONS, MessageQueue.PROFILES
BEGINNING = Place("abc", {"transactions": "https://q"})
URLS = {TRANSACTIONS: "https://t", PROFILES: "https://p"}


def written(directory: Path, *lines: str | bytes) -> Path:
    path = directory / "messages.jsonl"
    path.write_bytes(b"\n".join(line if isinstance(line, bytes) else line.encode() for line in lines))
    return path


@given(any_message(), profile_updates())
def test_the_queue_of_a_message_is_told_from_its_content(message: TransactionMessage, update: object) -> None:
    administrative = message.own_door is Door.ADMINISTRATION
    assert queue_of(msgspec.json.encode(message)) is (MessageQueue.ADMINISTRATION if administrative else TRANSACTIONS)
    assert queue_of(msgspec.json.encode(update)) is PROFILES


@pytest.mark.parametrize(("kind", "queue"), [('"open\\u005faccount"', "administration"), ("[[]]", "transactions")])
def test_a_type_is_read_as_json(kind: str, queue: str) -> None:
    assert queue_of(f'{{"type": {kind}}}'.encode()) == queue


def test_a_file_of_good_lines_is_counted_by_queue(tmp_path: Path) -> None:
    path = written(tmp_path, f"\ufeff{GOOD}", "", UPDATE, f"  {GOOD} \r", ERASURE, "")
    found = checked(path)
    assert (found.messages, found.wrong) == ({TRANSACTIONS: 2, PROFILES: 2}, 0)
    with path.open("rb") as file:
        assert [message.body for message in messages_from(file, 0)] == [GOOD, UPDATE, GOOD, ERASURE]
    assert found.bytes == (tmp_path / "messages.jsonl").stat().st_size


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("junk", "body: expected JSON"),
        ('{"transaction_id": "t", "account_id": "a", "amount": "12,50"}', "amount: expected a decimal number"),
        ('{"account_id": "a", "path": ["p"], "entries": {}}', "entries: expected at least one name"),
        ('{"account_id": "a", "path": ["p"], "entries": {"n": 1}, "as_of": "2999-01-01T00:00:00Z"}', "as_of: expected"),
        (b'{"transaction_id": "\xff"}', "expected UTF-8, got the byte 0xff"),
        (GOOD.replace("}", ', "description": "\uffff"}'), "SQS takes no characters"),
        (GOOD + " " * 200_000 + "x", "bytes, expected at most 131,072"),
        (GOOD + " " * 2_000_000, "expected at most 131,072 bytes, got more than 524,288"),
    ],
)
def test_a_line_that_is_wrong_is_named(tmp_path: Path, line: str | bytes, problem: str) -> None:
    found = checked(written(tmp_path, GOOD, "", line, GOOD))
    assert (found.wrong, found.messages.total()) == (1, 2)
    assert found.problems[0].startswith("line 3: ")
    assert problem in found.problems[0]
    assert found.bytes == (tmp_path / "messages.jsonl").stat().st_size


def test_a_place_is_read_as_it_was_written_and_is_gone_when_it_is_removed(tmp_path: Path) -> None:
    file = tmp_path / "m.jsonl"
    assert read_place(file, BEGINNING) == BEGINNING
    place = Place("abc", {"transactions": "https://q"}, messages=12, bytes=345)
    write_place(file, place)
    assert read_place(file, BEGINNING) == place
    assert [path.name for path in tmp_path.iterdir()] == ["m.jsonl.place"]
    remove_place(file)
    assert read_place(file, BEGINNING) == BEGINNING


@pytest.mark.parametrize(
    ("written", "sentence"),
    [
        (b'{"sha256": "other", "queue_urls": {"transactions": "https://q"}, "messages": 7}', "was changed after 7 of"),
        (b'{"sha256": "abc", "queue_urls": {"transactions": "https://r"}, "messages": 7}', "sent to another stack"),
        (b"junk", "can't be read"),
        (b'{"sha256": "\xff"}', "can't be read"),
    ],
)
def test_a_place_of_another_content_or_stack_is_refused(tmp_path: Path, written: bytes, sentence: str) -> None:
    file = tmp_path / "m.jsonl"
    path_of(file).write_bytes(written)
    with pytest.raises(Failure, match=sentence) as caught:
        read_place(file, BEGINNING)
    assert str(path_of(file)) in caught.value.reason


class Queues:
    """A deployment whose queues keep the bodies. The client is killed before its request number `killed_at`."""

    def __init__(self) -> None:
        self.bodies: dict[str, list[str]] = {"https://t": [], "https://p": []}
        self.requests, self.killed_at = 0, 0
        self.refuses = False

    def new_client(self, service: str, **config: Any) -> Any:
        return self

    def send_message_batch(self, QueueUrl: str, Entries: list[dict[str, Any]]) -> dict[str, Any]:  # noqa: N803
        self.requests += 1
        if self.requests == self.killed_at:
            raise Killed
        if self.refuses:
            return {"Failed": [{"Id": entry["Id"], "Code": "Refused"} for entry in Entries]}
        self.bodies[QueueUrl] += [entry["MessageBody"] for entry in Entries]
        return {"Successful": Entries}


def payments(number: int) -> list[str]:
    return [json.dumps({"transaction_id": f"t-{n}", "account_id": "a", "amount": 1}) for n in range(number)]


def send_file(queues: Any, file: Path) -> None:
    place = read_place(file, Place(checked(file).sha256, dict(URLS)))
    send_from(queues, file, place, sending.time_of_change(file), lambda number: None)


@pytest.mark.usefixtures("one_call_at_a_time")
def test_killed_at_any_request_it_goes_on_and_sends_few_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sending, "MOST_MESSAGES", 20)
    file = written(tmp_path, *payments(55), *[UPDATE] * 3)
    for killed_at in range(1, 8):
        queues = Queues()
        queues.killed_at = killed_at
        with pytest.raises(Killed):
            send_file(queues, file)
        send_file(queues, file)
        assert set(queues.bodies["https://t"]) == set(payments(55))
        assert len(queues.bodies["https://t"]) <= 55 + 20
        assert queues.bodies["https://p"].count(UPDATE) >= 3
        remove_place(file)


def test_a_refusing_queue_is_a_sentence_and_leaves_the_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sending, "MOST_MESSAGES", 20)
    monkeypatch.setattr(sending, "SENDING_SECONDS", 0.1)
    file, queues = written(tmp_path, *payments(30)), Queues()
    queues.refuses = True
    with pytest.raises(Failure, match=r"^0 messages were sent\. A queue doesn't take the next ones: Refused"):
        send_file(queues, file)
    assert queues.bodies == {"https://t": [], "https://p": []}


def test_a_file_is_checked_and_sent_without_being_held_in_memory(tmp_path: Path) -> None:
    """The peak is that of a thousand messages, however many the file has."""

    class Forgetting(Queues):
        @override
        def send_message_batch(self, **asked: Any) -> dict[str, Any]:
            return {"Successful": asked["Entries"]}

    def peak(number: int) -> int:
        file = written(tmp_path, *payments(number))
        tracemalloc.start()
        send_file(Forgetting(), file)
        [_, bytes_at_most] = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        remove_place(file)
        return bytes_at_most

    assert peak(4_000) < 1.2 * peak(2_000)
