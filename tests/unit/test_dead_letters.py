"""Poison on its way to the dead-letter queue: whole, with its reason, in as few requests as SQS allows."""

from typing import Any

import pytest
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord
from conditional_writes.dead_letters import MAXIMUM_REASON_CHARACTERS, DeadLetter, send_dead_letters
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.unit.stubs import Stubbed
from tools.local_aws.functions import record
from workers.sending import MAXIMUM_BYTES

QUEUE = "https://sqs.us-east-1.amazonaws.com/000000000000/dead-letters"


def letter(body: str = "junk", reason: str = "why", **attributes: dict[str, Any]) -> DeadLetter:
    return DeadLetter(SQSRecord(record(body) | {"messageAttributes": attributes}), reason)


def text(value: str) -> dict[str, Any]:
    return {"dataType": "String", "stringValue": value, "stringListValues": [], "binaryListValues": []}


def accept(sqs: Stubbed, requests: int) -> None:
    for _ in range(requests):
        sqs.answers("send_message_batch", {"Successful": [], "Failed": []})


def test_a_letter_keeps_its_body_and_attributes_and_gets_its_reason(stubbed_sqs: Stubbed) -> None:
    accept(stubbed_sqs, 1)
    binary = {"dataType": "Binary", "binaryValue": "AAH/"}
    assert send_dead_letters(stubbed_sqs.client, QUEUE, [letter(trace=text("t-9"), blob=binary)]) == [None]
    (entry,) = stubbed_sqs.parameters[0]["Entries"]
    assert entry["MessageBody"] == "junk"
    assert entry["MessageAttributes"] == {
        "trace": {"DataType": "String", "StringValue": "t-9"},
        "blob": {"DataType": "Binary", "BinaryValue": b"\x00\x01\xff"},
        "reason": {"DataType": "String", "StringValue": "why"},
    }


def test_where_ten_attributes_leave_no_room_the_reason_names_the_one_that_gives_way(stubbed_sqs: Stubbed) -> None:
    accept(stubbed_sqs, 1)
    attributes = {f"a{number}": text("x") for number in range(10)}
    send_dead_letters(stubbed_sqs.client, QUEUE, [letter(**attributes)])
    sent = stubbed_sqs.parameters[0]["Entries"][0]["MessageAttributes"]
    assert len(sent) == 10
    assert sent["reason"]["StringValue"] == "why (its message attribute a9 had to make room for this one)"


def test_ten_letters_go_in_one_request(stubbed_sqs: Stubbed) -> None:
    accept(stubbed_sqs, 3)
    assert send_dead_letters(stubbed_sqs.client, QUEUE, [letter()] * 25) == [None] * 25
    assert [len(parameters["Entries"]) for parameters in stubbed_sqs.parameters] == [10, 10, 5]


def test_a_request_stays_below_a_mebibyte(stubbed_sqs: Stubbed) -> None:
    accept(stubbed_sqs, 2)
    send_dead_letters(stubbed_sqs.client, QUEUE, [letter("x" * 262_144)] * 5)
    assert [len(parameters["Entries"]) for parameters in stubbed_sqs.parameters] == [3, 2]


def test_what_the_queue_does_not_take_is_reported_and_the_rest_is_sent(stubbed_sqs: Stubbed) -> None:
    failed = {"Id": "1", "SenderFault": False, "Code": "InternalError"}
    stubbed_sqs.answers("send_message_batch", {"Successful": [], "Failed": [failed]})
    first, second, third = send_dead_letters(stubbed_sqs.client, QUEUE, [letter()] * 3)
    assert (first, third) == (None, None)
    assert str(second) == "the dead-letter queue didn't take it: InternalError"


def test_when_the_request_fails_every_letter_in_it_stays_on_its_own_queue(stubbed_sqs: Stubbed) -> None:
    stubbed_sqs.refuses("send_message_batch", "AccessDenied")
    assert all(send_dead_letters(stubbed_sqs.client, QUEUE, [letter()] * 3))


def test_after_a_request_that_fails_the_next_is_sent(stubbed_sqs: Stubbed) -> None:
    stubbed_sqs.refuses("send_message_batch", "AccessDenied")
    accept(stubbed_sqs, 1)
    results = send_dead_letters(stubbed_sqs.client, QUEUE, [letter()] * 12)
    assert [result is None for result in results] == [False] * 10 + [True] * 2


def test_without_letters_there_is_no_request(stubbed_sqs: Stubbed) -> None:
    assert send_dead_letters(stubbed_sqs.client, QUEUE, []) == []
    assert stubbed_sqs.operations == []


def test_a_reason_is_cut_before_it_fills_the_message(stubbed_sqs: Stubbed) -> None:
    accept(stubbed_sqs, 1)
    send_dead_letters(stubbed_sqs.client, QUEUE, [letter(reason="x" * 100_000)])
    reason = stubbed_sqs.parameters[0]["Entries"][0]["MessageAttributes"]["reason"]["StringValue"]
    assert reason == "x" * MAXIMUM_REASON_CHARACTERS


def test_a_reason_has_only_characters_that_a_queue_takes(stubbed_sqs: Stubbed) -> None:
    accept(stubbed_sqs, 1)
    send_dead_letters(stubbed_sqs.client, QUEUE, [letter(reason="no map: \0\x1b[2J\uffff\ud800 é")])
    reason = stubbed_sqs.parameters[0]["Entries"][0]["MessageAttributes"]["reason"]["StringValue"]
    assert reason == r"no map: \x00\x1b[2J\uffff\ud800 é"


@pytest.mark.parametrize("place", [0, 9], ids=["first", "last"])
def test_a_letter_that_was_one_before_gets_the_new_reason_and_loses_nothing(stubbed_sqs: Stubbed, place: int) -> None:
    accept(stubbed_sqs, 1)
    others = {f"a{number}": text("x") for number in range(9)}
    attributes = list(others.items())
    attributes.insert(place, ("reason", text("an older one")))
    again = SQSRecord(record("junk") | {"messageAttributes": dict(attributes)})
    send_dead_letters(stubbed_sqs.client, QUEUE, [DeadLetter(again, "why")])
    sent = stubbed_sqs.parameters[0]["Entries"][0]["MessageAttributes"]
    assert sent.keys() == {"reason", *others}
    assert sent["reason"]["StringValue"] == "why"


def bytes_of(entry: dict[str, Any]) -> int:
    """What SQS counts of these letters: the body, and the reason with its name and type."""
    (reason,) = entry["MessageAttributes"].values()
    return len(entry["MessageBody"].encode() + f"reason{reason['DataType']}{reason['StringValue']}".encode())


@given(st.lists(st.sampled_from([4, 100_000, 200_000, 262_144]), max_size=24), st.sampled_from("xé\n🏦"))
@example([262_144] * 9, "é")
@settings(max_examples=20)
def test_no_request_is_larger_than_sqs_takes_and_no_letter_is_left_out(sizes: list[int], character: str) -> None:
    bodies = [character * (size // len(character.encode())) for size in sizes]
    with Stubbed("sqs") as sqs:
        accept(sqs, len(bodies))
        assert send_dead_letters(sqs.client, QUEUE, [letter(body) for body in bodies]) == [None] * len(bodies)
        sqs.forgets_the_rest()
    requests = [parameters["Entries"] for parameters in sqs.parameters]
    assert all(len(entries) <= 10 and sum(map(bytes_of, entries)) <= MAXIMUM_BYTES for entries in requests)
    assert [entry["MessageBody"] for entries in requests for entry in entries] == bodies
