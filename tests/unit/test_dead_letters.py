"""Dead messages are sent to the dead-letter queue complete, with their reasons, in as few requests as SQS allows."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any
from unittest.mock import ANY

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from conditional_writes import Deadline
from tests.support.clock import plenty
from tests.unit.stubs import Stubbed
from tools.local_aws.functions import record
from workers.dead_letters import send_dead_letters
from workers.queue_messages import MAXIMUM_REASON_CHARACTERS, Again, Dead, QueueMessage, message_from_record
from workers.sending import MAXIMUM_BYTES

QUEUE = "https://sqs.us-east-1.amazonaws.com/000000000000/dead-letters"


REQUEST = "request-1"

pytestmark = pytest.mark.usefixtures("one_call_at_a_time")


class Code(StrEnum):
    JUNK = "JUNK"


def dead(body: str = "junk", reason: str = "why", **attributes: dict[str, Any]) -> QueueMessage[Any]:
    message = message_from_record(record(body) | {"messageAttributes": attributes})
    message.disposition = Dead(Code.JUNK, reason)
    return message


def stay_dead(sqs: Stubbed, messages: Sequence[QueueMessage[Any]]) -> list[bool]:
    """Sends the messages. Returns for each whether it was sent, or else returns to its queue."""
    send_dead_letters(sqs.client, QUEUE, messages, REQUEST, plenty())
    assert all(isinstance(message.disposition, Dead | Again) for message in messages)
    return [isinstance(message.disposition, Dead) for message in messages]


def text(value: str) -> dict[str, Any]:
    return {"dataType": "String", "stringValue": value, "stringListValues": [], "binaryListValues": []}


def accept(sqs: Stubbed, requests: int) -> None:
    for _ in range(requests):
        sqs.answers("send_message_batch", {"Successful": [], "Failed": []})


def attributes_sent(sqs: Stubbed) -> dict[str, Any]:
    """The message attributes of the first dead letter."""
    attributes: dict[str, Any] = sqs.parameters[0]["Entries"][0]["MessageAttributes"]
    return attributes


def test_a_letter_keeps_its_body_and_attributes_and_gets_its_reason_and_its_code(stubbed_sqs: Stubbed) -> None:
    accept(stubbed_sqs, 1)
    binary = {"dataType": "Binary", "binaryValue": "AAH/"}
    message = dead(trace=text("t-9"), blob=binary)
    assert stay_dead(stubbed_sqs, [message]) == [True]
    assert message.disposition == Dead(Code.JUNK, "why")
    (entry,) = stubbed_sqs.parameters[0]["Entries"]
    assert entry["MessageBody"] == "junk"
    assert entry["MessageAttributes"] == {
        "trace": {"DataType": "String", "StringValue": "t-9"},
        "blob": {"DataType": "Binary", "BinaryValue": b"\x00\x01\xff"},
        "reason": {"DataType": "String", "StringValue": "why"},
        "reason_code": {"DataType": "String", "StringValue": "JUNK"},
        "origin": {"DataType": "String", "StringValue": ANY},
    }


def test_a_letter_stays_in_the_group_of_its_message(stubbed_sqs: Stubbed) -> None:
    accept(stubbed_sqs, 1)
    sent = record("junk")
    in_group = message_from_record(sent | {"attributes": sent["attributes"] | {"MessageGroupId": "tenant-7"}})
    in_group.disposition = Dead(Code.JUNK, "why")
    assert stay_dead(stubbed_sqs, [in_group, dead()]) == [True, True]
    assert [entry.get("MessageGroupId") for entry in stubbed_sqs.parameters[0]["Entries"]] == ["tenant-7", None]


def test_a_letter_names_the_message_that_it_was_and_the_request_that_gave_it_up(stubbed_sqs: Stubbed) -> None:
    accept(stubbed_sqs, 1)
    message = dead()
    message.message_id, message.sent_at = "m-1", datetime(2026, 2, 28, 12, 0, 0, 250_000, tzinfo=UTC)
    send_dead_letters(stubbed_sqs.client, QUEUE, [message], REQUEST, plenty())
    assert json.loads(attributes_sent(stubbed_sqs)["origin"]["StringValue"]) == {
        "message_id": "m-1",
        "sent_at": "2026-02-28T12:00:00.250+00:00",
        "request_id": REQUEST,
    }


def test_only_dead_messages_are_sent(stubbed_sqs: Stubbed) -> None:
    accept(stubbed_sqs, 1)
    waiting, undecided = dead("waiting"), dead("undecided")
    again = Again("timed out")
    waiting.disposition, undecided.disposition = again, None
    send_dead_letters(stubbed_sqs.client, QUEUE, [waiting, dead("dead"), undecided], REQUEST, plenty())
    assert [entry["MessageBody"] for entry in stubbed_sqs.parameters[0]["Entries"]] == ["dead"]
    assert (waiting.disposition, undecided.disposition) == (again, None)


def test_ten_attributes_leave_no_room_and_the_reason_names_those_that_give_way(stubbed_sqs: Stubbed) -> None:
    accept(stubbed_sqs, 1)
    attributes = {f"a{number}": text("x") for number in range(10)}
    send_dead_letters(stubbed_sqs.client, QUEUE, [dead(**attributes)], REQUEST, plenty())
    sent = attributes_sent(stubbed_sqs)
    assert sent.keys() == {"reason", "reason_code", "origin", *(f"a{number}" for number in range(7))}
    assert sent["reason"]["StringValue"] == "why (left out, as SQS allows ten message attributes: a7, a8, a9)"


def test_seven_attributes_leave_room(stubbed_sqs: Stubbed) -> None:
    accept(stubbed_sqs, 1)
    attributes = {f"a{number}": text("x") for number in range(7)}
    send_dead_letters(stubbed_sqs.client, QUEUE, [dead(**attributes)], REQUEST, plenty())
    sent = attributes_sent(stubbed_sqs)
    assert len(sent) == 10
    assert sent["reason"]["StringValue"] == "why"


def test_ten_letters_go_in_one_request(stubbed_sqs: Stubbed) -> None:
    accept(stubbed_sqs, 3)
    assert stay_dead(stubbed_sqs, [dead() for _ in range(25)]) == [True] * 25
    assert [len(parameters["Entries"]) for parameters in stubbed_sqs.parameters] == [10, 10, 5]


def test_a_request_stays_below_a_mebibyte(stubbed_sqs: Stubbed) -> None:
    accept(stubbed_sqs, 2)
    send_dead_letters(stubbed_sqs.client, QUEUE, [dead("x" * 262_144) for _ in range(5)], REQUEST, plenty())
    assert [len(parameters["Entries"]) for parameters in stubbed_sqs.parameters] == [3, 2]


def test_a_message_that_the_queue_refuses_comes_again_and_the_rest_is_sent(stubbed_sqs: Stubbed) -> None:
    failed = {"Id": "1", "SenderFault": False, "Code": "InternalError"}
    stubbed_sqs.answers("send_message_batch", {"Successful": [], "Failed": [failed]})
    messages = [dead(), dead(), dead()]
    assert stay_dead(stubbed_sqs, messages) == [True, False, True]
    assert messages[1].disposition == Again("the dead-letter queue didn't take it: InternalError; JUNK: why")


def test_when_the_request_fails_every_message_in_it_stays_on_its_own_queue(stubbed_sqs: Stubbed) -> None:
    stubbed_sqs.refuses("send_message_batch", "AccessDenied")
    assert stay_dead(stubbed_sqs, [dead(), dead(), dead()]) == [False] * 3


def test_after_a_request_that_fails_the_next_is_sent(stubbed_sqs: Stubbed) -> None:
    stubbed_sqs.refuses("send_message_batch", "AccessDenied")
    accept(stubbed_sqs, 1)
    assert stay_dead(stubbed_sqs, [dead() for _ in range(12)]) == [False] * 10 + [True] * 2


def test_after_the_deadline_a_dead_message_stays_on_its_own_queue(stubbed_sqs: Stubbed) -> None:
    message = dead()
    send_dead_letters(stubbed_sqs.client, QUEUE, [message], REQUEST, Deadline.after(0))
    assert stubbed_sqs.operations == []
    assert isinstance(message.disposition, Again)


def test_without_letters_there_is_no_request(stubbed_sqs: Stubbed) -> None:
    send_dead_letters(stubbed_sqs.client, QUEUE, [], REQUEST, plenty())
    assert stubbed_sqs.operations == []


@pytest.mark.parametrize("name", ["reason", "reason_code", "origin"])
@pytest.mark.parametrize("position", [0, 7], ids=["first", "last"])
def test_a_letter_that_was_one_before_gets_the_new_reason_code_and_origin_and_loses_nothing(
    stubbed_sqs: Stubbed, name: str, position: int
) -> None:
    accept(stubbed_sqs, 1)
    others = {f"a{number}": text("x") for number in range(7)}
    attributes = list(others.items())
    attributes.insert(position, (name, text("an older one")))
    message = dead()
    message.attributes = dict(attributes)
    send_dead_letters(stubbed_sqs.client, QUEUE, [message], REQUEST, plenty())
    sent = attributes_sent(stubbed_sqs)
    assert sent.keys() == {"reason", "reason_code", "origin", *others}
    assert (sent["reason"]["StringValue"], sent["reason_code"]["StringValue"]) == ("why", "JUNK")
    assert json.loads(sent["origin"]["StringValue"])["message_id"] == message.message_id


def bytes_of(entry: dict[str, Any]) -> int:
    """The dead letter's size as SQS counts it: the body, and each attribute with its name and type."""
    attributes = entry["MessageAttributes"].items()
    spelled = "".join(f"{name}{attribute['DataType']}{attribute['StringValue']}" for name, attribute in attributes)
    return len((entry["MessageBody"] + spelled).encode())


@given(st.lists(st.sampled_from([4, 100_000, 200_000, 262_144]), max_size=24), st.sampled_from("xé\n🏦"))
@example([262_144] * 9, "é")
@settings(max_examples=20)
def test_no_request_is_larger_than_sqs_takes_and_no_letter_is_left_out(sizes: list[int], character: str) -> None:
    bodies = [character * (size // len(character.encode())) for size in sizes]
    with Stubbed("sqs") as sqs:
        accept(sqs, len(bodies))
        assert all(stay_dead(sqs, [dead(body, "x" * MAXIMUM_REASON_CHARACTERS) for body in bodies]))
        sqs.forgets_the_rest()
    requests = [parameters["Entries"] for parameters in sqs.parameters]
    assert all(len(entries) <= 10 and sum(map(bytes_of, entries)) <= MAXIMUM_BYTES for entries in requests)
    assert [entry["MessageBody"] for entries in requests for entry in entries] == bodies
