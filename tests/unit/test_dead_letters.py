"""Dead messages are sent to the dead-letter queue complete, with their reasons, in as few requests as SQS allows."""

import json
from collections.abc import Sequence
from enum import StrEnum
from typing import Any
from unittest.mock import ANY

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from conditional_writes import Deadline
from tests.support.clock import plenty
from tests.unit.stubs import Stubbed, all_taken_but
from tools.local_aws.functions import record
from workers.dead_letters import send_dead_letters
from workers.queue_messages import MAXIMUM_REASON_CHARACTERS, Again, Dead, QueueMessage, message_from_record
from workers.sending import MAXIMUM_BYTES

QUEUE = "https://sqs.us-east-1.amazonaws.com/000000000000/dead-letters"
REQUEST = "request-1"


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


def entries_sent(sqs: Stubbed) -> list[dict[str, Any]]:
    return [entry for parameters in sqs.parameters for entry in parameters["Entries"]]


def texts_sent(sqs: Stubbed) -> dict[str, str]:
    """The texts of the message attributes of the first dead letter."""
    attributes = entries_sent(sqs)[0]["MessageAttributes"].items()
    return {name: attribute["StringValue"] for name, attribute in attributes}


def test_a_letter_keeps_its_body_and_attributes_and_gets_its_reason_and_its_code(sqs: Stubbed) -> None:
    message = dead(trace=text("t-9"), blob={"dataType": "Binary", "binaryValue": "AAH/"})
    assert stay_dead(sqs, [message]) == [True]
    assert message.disposition == Dead(Code.JUNK, "why")
    [entry] = entries_sent(sqs)
    assert entry["MessageBody"] == "junk"
    assert entry["MessageAttributes"] == {
        "trace": {"DataType": "String", "StringValue": "t-9"},
        "blob": {"DataType": "Binary", "BinaryValue": b"\x00\x01\xff"},
        "reason": {"DataType": "String", "StringValue": "why"},
        "reason_code": {"DataType": "String", "StringValue": "JUNK"},
        "origin": {"DataType": "String", "StringValue": ANY},
    }


def test_a_letter_stays_in_the_group_of_its_message(sqs: Stubbed) -> None:
    sent = record("junk")
    in_group = message_from_record(sent | {"attributes": sent["attributes"] | {"MessageGroupId": "tenant-7"}})
    in_group.disposition = Dead(Code.JUNK, "why")
    assert stay_dead(sqs, [in_group, dead()]) == [True, True]
    assert [entry.get("MessageGroupId") for entry in entries_sent(sqs)] == ["tenant-7", None]


@pytest.mark.parametrize(
    ("number", "reason"), [(7, "why"), (10, "why (left out, as SQS allows ten message attributes: a7, a8, a9)")]
)
def test_a_letter_has_ten_attributes_and_its_reason_names_the_others(sqs: Stubbed, number: int, reason: str) -> None:
    stay_dead(sqs, [dead(**{f"a{each}": text("x") for each in range(number)})])
    sent = texts_sent(sqs)
    assert sent.keys() == {"reason", "reason_code", "origin", *(f"a{each}" for each in range(7))}
    assert sent["reason"] == reason


def test_after_the_deadline_or_without_letters_there_is_no_request(sqs: Stubbed) -> None:
    message = dead()
    send_dead_letters(sqs.client, QUEUE, [message], REQUEST, Deadline.after(0))
    assert isinstance(message.disposition, Again)
    send_dead_letters(sqs.client, QUEUE, [], REQUEST, plenty())
    assert sqs.operations == []


@pytest.mark.parametrize("name", ["reason", "reason_code", "origin"])
@pytest.mark.parametrize("position", [0, 7], ids=["first", "last"])
def test_a_letter_that_was_one_before_gets_its_reason_and_loses_nothing(sqs: Stubbed, name: str, position: int) -> None:
    names = [f"a{number}" for number in range(7)]
    names.insert(position, name)
    message = dead()
    message.attributes = {each: text("an older one") for each in names}
    stay_dead(sqs, [message])
    sent = texts_sent(sqs)
    assert sent.keys() == {"reason", "reason_code", "origin", *names}
    assert (sent["reason"], sent["reason_code"]) == ("why", "JUNK")
    assert json.loads(sent["origin"])["message_id"] == message.message_id


def bytes_of(entry: dict[str, Any]) -> int:
    """The dead letter's size as SQS counts it: the body, and each attribute with its name and type."""
    attributes = entry["MessageAttributes"].items()
    spelled = "".join(f"{name}{attribute['DataType']}{attribute['StringValue']}" for name, attribute in attributes)
    return len((entry["MessageBody"] + spelled).encode())


@pytest.mark.usefixtures("one_call_at_a_time")
@given(st.lists(st.sampled_from([4, 100_000, 200_000, 262_144]), max_size=24), st.sampled_from("xé\n🏦"))
@example([262_144] * 9, "é")
@settings(max_examples=20)
def test_no_request_is_larger_than_sqs_takes_and_no_letter_is_left_out(sizes: list[int], character: str) -> None:
    bodies = [character * (size // len(character.encode())) for size in sizes]
    with Stubbed("sqs") as sqs:
        sqs.always("send_message_batch", all_taken_but())
        assert all(stay_dead(sqs, [dead(body, "x" * MAXIMUM_REASON_CHARACTERS) for body in bodies]))
    requests = [parameters["Entries"] for parameters in sqs.parameters]
    assert all(len(entries) <= 10 and sum(map(bytes_of, entries)) <= MAXIMUM_BYTES for entries in requests)
    assert [entry["MessageBody"] for entry in entries_sent(sqs)] == bodies
