"""Redelivery of messages after a delay of their own, and the end of those that need none."""

import random
from typing import Any

import pytest

from tests.support.clock import plenty
from tests.unit.stubs import Stubbed
from tools.local_aws.functions import record
from workers import redelivery
from workers.queue_messages import Again, QueueMessage, Waiting, message_from_record
from workers.redelivery import FLOOD, acknowledge, delay_after_kill_seconds, delay_redelivery, growing_delay_seconds

QUEUE_URL = "https://sqs.us-east-1.amazonaws.com/000000000000/transactions"


def messages(number: int) -> list[QueueMessage[Any]]:
    return [message_from_record(record("{}") | {"receiptHandle": f"receipt-{n}"}) for n in range(number)]


def delays(number: int) -> dict[QueueMessage[Any], int]:
    return {message: 2 + n for n, message in enumerate(messages(number))}


def test_messages_are_delayed_and_acknowledged_ten_at_a_time(sqs: Stubbed) -> None:
    delay_redelivery(sqs.client, QUEUE_URL, delays(12), plenty())
    acknowledge(sqs.client, QUEUE_URL, messages(12), plenty())
    *delaying, first, second = [request["Entries"] for request in sqs.parameters]
    assert list(map(len, delaying)) == [10, 2]
    assert {entry["ReceiptHandle"]: entry["VisibilityTimeout"] for entries in delaying for entry in entries} == {
        f"receipt-{n}": 2 + n for n in range(12)
    }
    assert {entry["ReceiptHandle"] for entry in first + second} == {f"receipt-{n}" for n in range(12)}
    for request in sqs.parameters:
        assert request["QueueUrl"] == QUEUE_URL
        assert len({entry["Id"] for entry in request["Entries"]}) == len(request["Entries"])


def test_what_cannot_be_delayed_or_acknowledged_is_only_late(sqs: Stubbed, caplog: pytest.LogCaptureFixture) -> None:
    sqs.refuses("change_message_visibility_batch", "AccessDenied")
    delay_redelivery(sqs.client, QUEUE_URL, delays(20), plenty())
    sqs.refuses("delete_message_batch", "AccessDenied")
    acknowledge(sqs.client, QUEUE_URL, messages(2), plenty())
    assert "could not delay the redelivery of 10 messages" in caplog.text
    assert "could not acknowledge 2 messages" in caplog.text


@pytest.fixture
def bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """A random delay is the pair of its bounds."""
    monkeypatch.setattr(random, "randint", lambda least, most: (least, most))


@pytest.mark.usefixtures("bounds")
def test_delays_grow_to_the_longest_the_first_two_alike_and_the_others_scattered() -> None:
    delays = [2, 8, (3, 32), (9, 128), (33, 512), (129, 900), (855, 900), (855, 900)]
    assert [growing_delay_seconds(failures, 900) for failures in range(1, 9)] == delays
    short = [2, 6, (3, 6), (6, 6), (6, 6), (6, 6), (6, 6)]
    assert [growing_delay_seconds(failures, 6) for failures in range(1, 8)] == short


def test_a_killer_comes_again_soon_after_its_invocation_would_have_timed_out() -> None:
    assert {delay_after_kill_seconds(150, 900) for _ in range(2000)} == set(range(151, 211))
    assert delay_after_kill_seconds(150, 100) == 100


@pytest.mark.usefixtures("bounds")
@pytest.mark.parametrize(("waiting", "delay"), [(FLOOD - 1, 2), (FLOOD, (9, 128))])
def test_a_flood_of_waiting_messages_scatters_and_what_failed_beside_it_comes_soon(waiting: int, delay: object) -> None:
    batch = messages(waiting + FLOOD)
    for number, message in enumerate(batch):
        message.disposition = Waiting("UNKNOWN_ACCOUNT", "x") if number < waiting else Again("x")
    drawn = list(redelivery.delays_seconds_of(batch, 900).values())
    assert set(drawn[:waiting]) == {delay}
    assert set(drawn[waiting:]) == {2}
