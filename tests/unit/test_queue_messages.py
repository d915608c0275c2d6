"""Queue messages from SQS records, and reasons that fit log lines and message attributes."""

from datetime import UTC
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.support.refusals import NOT_FOR_SQS
from tools.local_aws.functions import record
from workers import queue_messages
from workers.queue_messages import Attempt, ErrorText, NotAnSqsEvent, message_from_record, messages_of, printable_reason

WITHOUT: dict[str, dict[str, Any]] = {
    "receiptHandle: expected a text": {"receiptHandle": None},
    "body: expected a text": {"body": {"amount": 1}},
    "attributes.ApproximateReceiveCount: expected": {"attributes": None},
    "messageAttributes: expected": {"messageAttributes": []},
}
COUNTS = [None, 1, "", "0", "-1", "x", "1.0", "\u0661", "9999999", "1\n"]
TIMES = [None, 1, "", "-1", "1e3", "9" * 15, "9" * 5_000]
ATTRIBUTES = [None, "x", {}, {"dataType": "String"}, {"dataType": "Binary", "binaryValue": "%"}, {"stringValue": "x"}]
WAITED = Attempt(waits=1, waited_at=2)
BEGUN = WAITED._replace(begun=1)


def with_attribute(name: str, value: object) -> dict[str, Any]:
    return {"attributes": record("x")["attributes"] | {name: value}}


UNREADABLE = [
    *WITHOUT.items(),
    *[("attributes.ApproximateReceiveCount", with_attribute("ApproximateReceiveCount", value)) for value in COUNTS],
    *[("attributes.SentTimestamp", with_attribute("SentTimestamp", value)) for value in TIMES],
    *[("messageAttributes", {"messageAttributes": {"x": value}}) for value in ATTRIBUTES],
]


@pytest.mark.parametrize(("problem", "fields"), UNREADABLE)
def test_a_record_that_is_none_of_sqs_names_the_field_and_quotes_nothing(problem: str, fields: dict[str, Any]) -> None:
    with pytest.raises(queue_messages.NotAnSqsRecord) as caught:
        message_from_record(record("secret") | fields)
    assert str(caught.value).startswith(problem)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("milliseconds", ["0", "9" * 14])
def test_any_time_that_is_accepted_is_a_date(milliseconds: str) -> None:
    assert message_from_record(record("x") | with_attribute("SentTimestamp", milliseconds)).sent_at.tzinfo is UTC


@pytest.mark.parametrize("name", ["eventSource", "eventSourceARN", "messageAttributes", "md5OfBody"])
def test_a_record_without_what_nobody_needs_is_one(name: str) -> None:
    made = record("x")
    assert message_from_record({other: made[other] for other in made if other != name} | {"more": 1}).attributes == {}


@pytest.mark.parametrize("odd", [None, "x", [], {}, record("x") | {"messageId": ""}, record("x") | {"messageId": 1}])
def test_a_record_without_an_id_cannot_be_told_from_the_others(odd: Any) -> None:
    with pytest.raises(NotAnSqsEvent, match=r"^Records\[3\]: expected a record of SQS's, with its messageId$"):
        queue_messages.message_id_of(odd, 3)


@pytest.mark.parametrize("event", [None, [], "x", {}, {"Records": None}, {"Records": {"0": record("x")}}])
def test_an_event_that_is_none_of_sqs_says_what_is_missing(event: Any) -> None:
    with pytest.raises(NotAnSqsEvent, match=r"^Records: expected a list of SQS's records$"):
        messages_of(event)


@pytest.mark.parametrize(
    ("receive_count", "attempt", "is_suspect"),
    [(2, Attempt(), False), (3, Attempt(), True), (3, WAITED, False), (4, WAITED, True), (3, BEGUN, True)],
)
def test_a_message_is_a_suspect_if_a_delivery_before_may_have_died_of_it(
    receive_count: int, attempt: Attempt, is_suspect: bool
) -> None:
    message = message_from_record(record("x", receive_count))
    message.attempt = attempt
    assert message.is_suspect == is_suspect


def one(depth: int, text: str) -> None:
    other(depth - 1, text)


def other(depth: int, text: str) -> None:
    if depth <= 0:
        raise ValueError(text)
    one(depth, text)


@pytest.mark.parametrize("length", [1, 20_000])
def test_an_error_s_text_has_its_innermost_frames_and_both_its_ends(length: int) -> None:
    with pytest.raises(ValueError, match="x") as caught:
        one(queue_messages.MAXIMUM_FRAMES, "x" * length + " is the end")
    name, text = ErrorText.of(caught.value)
    assert name == "ValueError"
    assert text.startswith("Traceback (most recent call last):\n")
    assert text.endswith("x is the end")
    if length == 1:
        assert text.count("\n  File ") == queue_messages.MAXIMUM_FRAMES
        assert "in test_an_error_s_text" not in text
    else:
        assert len(text) == queue_messages.MAXIMUM_TRACEBACK_CHARACTERS + 1
        assert text[queue_messages.MAXIMUM_TRACEBACK_CHARACTERS // 2] == "…"


def test_a_reason_has_only_characters_that_a_queue_takes_and_is_cut_before_it_fills_the_message() -> None:
    assert printable_reason("no map: \0\x1b[2J\uffff\ud800 é") == r"no map: \x00\x1b[2J\uffff\ud800 é"
    assert printable_reason("x" * 100_000) == "x" * queue_messages.MAXIMUM_REASON_CHARACTERS


@given(st.text(st.characters()))  # Lone surrogates, too.
@example("\0" * 1_000)
def test_any_text_becomes_a_short_and_printable_reason(text: str) -> None:
    reason = printable_reason(text)
    assert len(reason) <= queue_messages.MAXIMUM_REASON_CHARACTERS
    assert reason.isprintable()
    assert not NOT_FOR_SQS.search(reason)
