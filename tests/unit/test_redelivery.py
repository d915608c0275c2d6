"""Redelivery of messages after a delay of their own."""

from enum import StrEnum
from typing import Any

import pytest

from tests.unit.stubs import Stubbed
from tools.local_aws.functions import record
from workers.queue_messages import Again, Dead, QueueMessage, message_from_record
from workers.redelivery import LONGEST_DELAY_SECONDS, delay_redelivery, growing_delay_seconds

QUEUE_URL = "https://sqs.us-east-1.amazonaws.com/000000000000/transactions"
LONGEST_VISIBILITY_TIMEOUT_SECONDS = 12 * 3600
"""SQS's maximum visibility timeout, counted from the message's receipt."""


class Code(StrEnum):
    WAITING = "WAITING"


def message(delay_seconds: int | None, receipt_handle: str = "receipt") -> QueueMessage[Any]:
    made = message_from_record(record("{}") | {"receiptHandle": receipt_handle})
    made.disposition = Again(Code.WAITING, "not yet", delay_seconds)
    return made


def delayed(number: int) -> list[QueueMessage[Any]]:
    return [message(2 + n, f"receipt-{n}") for n in range(number)]


def test_messages_are_delayed_ten_at_a_time(stubbed_sqs: Stubbed) -> None:
    for _ in range(2):
        stubbed_sqs.answers("change_message_visibility_batch", {"Successful": [], "Failed": []})
    delay_redelivery(stubbed_sqs.client, QUEUE_URL, delayed(12))
    entries = [entry for request in stubbed_sqs.parameters for entry in request["Entries"]]
    assert [len(request["Entries"]) for request in stubbed_sqs.parameters] == [10, 2]
    assert [(entry["ReceiptHandle"], entry["VisibilityTimeout"]) for entry in entries] == [
        (f"receipt-{n}", 2 + n) for n in range(12)
    ]
    for request in stubbed_sqs.parameters:
        assert len({entry["Id"] for entry in request["Entries"]}) == len(request["Entries"])


def test_what_cannot_be_delayed_is_only_late(stubbed_sqs: Stubbed, caplog: pytest.LogCaptureFixture) -> None:
    stubbed_sqs.refuses("change_message_visibility_batch", "AccessDenied")
    stubbed_sqs.answers("change_message_visibility_batch", {"Successful": [], "Failed": []})
    delay_redelivery(stubbed_sqs.client, QUEUE_URL, delayed(12))
    assert "could not delay the redelivery of 10 messages" in caplog.text


def test_only_messages_with_a_delay_are_delayed(stubbed_sqs: Stubbed) -> None:
    stubbed_sqs.answers("change_message_visibility_batch", {"Successful": [], "Failed": []})
    dead, undecided = message(8), message(8)
    dead.disposition, undecided.disposition = Dead(Code.WAITING, "never"), None
    messages = [message(None), dead, message(0, "at once"), undecided, message(8, "later")]
    delay_redelivery(stubbed_sqs.client, QUEUE_URL, messages)
    [request] = stubbed_sqs.parameters
    assert [(entry["ReceiptHandle"], entry["VisibilityTimeout"]) for entry in request["Entries"]] == [
        ("at once", 0),
        ("later", 8),
    ]


def test_without_a_delay_there_is_no_request(stubbed_sqs: Stubbed) -> None:
    delay_redelivery(stubbed_sqs.client, QUEUE_URL, [message(None)])
    assert stubbed_sqs.operations == []


def test_delays_grow_to_a_quarter_of_an_hour() -> None:
    assert list(map(growing_delay_seconds, range(1, 9))) == [2, 8, 32, 128, 512, 900, 900, 900]
    assert growing_delay_seconds(999_999) == LONGEST_DELAY_SECONDS < LONGEST_VISIBILITY_TIMEOUT_SECONDS
