"""The tests' own SQS and EventBridge: what the flow rests on, as AWS documents it."""

import itertools
import json
from typing import Any

import pytest
from botocore.exceptions import ClientError

from conditional_writes.testing import Clock
from tests.support.event_bus import matches
from tests.support.in_process import Aws
from tools.local_aws.consumers import new_consumer
from tools.local_aws.queues import messages_in_flight, waiting_messages
from tools.local_aws.server import Endpoint

_names = (f"of-the-tests-{number}" for number in itertools.count(1))


@pytest.fixture
def sqs(aws: Endpoint) -> Any:
    return aws.client("sqs")


@pytest.fixture
def clock(services: Aws, aws: Endpoint) -> Clock:
    return services.engine.clock


@pytest.fixture
def queue(sqs: Any) -> dict[str, str]:
    return {"QueueUrl": sqs.create_queue(QueueName=next(_names))["QueueUrl"]}


def test_a_received_message_is_hidden_for_its_time_and_counts_its_deliveries(
    sqs: Any, queue: dict[str, str], clock: Clock
) -> None:
    sqs.send_message(**queue, MessageBody="one")

    def counts() -> list[str]:
        messages = sqs.receive_message(**queue, AttributeNames=["All"]).get("Messages", [])
        return [message["Attributes"]["ApproximateReceiveCount"] for message in messages]

    assert (counts(), counts(), messages_in_flight(sqs, queue["QueueUrl"])) == (["1"], [], 1)
    clock.advance(30)
    assert (counts(), counts(), waiting_messages(sqs, queue["QueueUrl"])) == (["2"], [], 1)


def test_its_visibility_may_be_changed_while_it_is_in_flight(sqs: Any, queue: dict[str, str], clock: Clock) -> None:
    sqs.send_message(**queue, MessageBody="one")
    [message] = sqs.receive_message(**queue)["Messages"]
    handle = {"ReceiptHandle": message["ReceiptHandle"]}
    sqs.change_message_visibility(**queue, **handle, VisibilityTimeout=900)
    clock.advance(899)
    assert "Messages" not in sqs.receive_message(**queue)
    clock.advance(1)
    with pytest.raises(ClientError, match="MessageNotInflight"):
        sqs.change_message_visibility(**queue, **handle, VisibilityTimeout=0)


def test_a_batch_may_fail_in_part(sqs: Any, queue: dict[str, str]) -> None:
    entries = [{"Id": "a", "MessageBody": "one"}, {"Id": "b", "MessageBody": "\x00"}]
    answer = sqs.send_message_batch(**queue, Entries=entries)
    assert [one["Id"] for one in answer["Successful"]] == ["a"]
    assert [(one["Id"], one["Code"]) for one in answer["Failed"]] == [("b", "InvalidMessageContents")]
    [message] = sqs.receive_message(**queue)["Messages"]
    handles = {"a": message["ReceiptHandle"], "b": "of another queue"}
    entries = [{"Id": name, "ReceiptHandle": handle} for name, handle in handles.items()]
    answer = sqs.delete_message_batch(**queue, Entries=entries)
    assert [(one["Id"], one["Code"]) for one in answer["Failed"]] == [("b", "ReceiptHandleIsInvalid")]
    assert not waiting_messages(sqs, queue["QueueUrl"])


@pytest.mark.parametrize(
    ("ids", "code"),
    [
        ([], "EmptyBatchRequest"),
        (list(map(str, range(11))), "TooManyEntriesInBatchRequest"),
        (["a", "a"], "BatchEntryIdsNotDistinct"),
    ],
)
def test_a_batch_has_one_to_ten_entries_of_distinct_ids(
    sqs: Any, queue: dict[str, str], ids: list[str], code: str
) -> None:
    with pytest.raises(ClientError, match=code):
        sqs.send_message_batch(**queue, Entries=[{"Id": each, "MessageBody": "one"} for each in ids])


def test_a_message_that_was_received_too_often_is_a_dead_letter(sqs: Any, queue: dict[str, str], clock: Clock) -> None:
    dead = {"QueueUrl": sqs.create_queue(QueueName=next(_names))["QueueUrl"]}
    arn = sqs.get_queue_attributes(**dead, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    policy = json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": 2})
    sqs.set_queue_attributes(**queue, Attributes={"RedrivePolicy": policy})
    sent = sqs.send_message(**queue, MessageBody="one")["MessageId"]
    for _ in range(2):
        assert sqs.receive_message(**queue)["Messages"]
        clock.advance(30)
    assert "Messages" not in sqs.receive_message(**queue)
    assert [message["MessageId"] for message in sqs.receive_message(**dead)["Messages"]] == [sent]


def test_events_come_to_the_queues_whose_patterns_they_match_and_others_fail_one_by_one(aws: Endpoint) -> None:
    events, bus = aws.client("events"), next(_names)
    events.create_event_bus(Name=bus)
    all_of_it, openings_only = (
        new_consumer(aws, bus, next(_names), pattern)
        for pattern in ({"source": ["me"]}, {"detail-type": [{"prefix": "Account"}]})
    )
    entries: list[Any] = [
        {"Source": "me", "DetailType": "AccountOpened", "Detail": '{"n": 1}', "EventBusName": bus},
        {"Source": "me", "DetailType": "TransactionPosted", "Detail": '{"n": 2}', "EventBusName": bus},
        {"Source": "me", "DetailType": "TransactionPosted", "Detail": "{", "EventBusName": bus},
    ]
    answer = events.put_events(Entries=entries)
    assert [one.get("ErrorCode") for one in answer["Entries"]] == [None, None, "MalformedDetail"]
    assert answer["FailedEntryCount"] == 1
    taken = [[json.loads(m["Body"])["detail"]["n"] for m in received(each)] for each in (all_of_it, openings_only)]
    assert taken == [[1, 2], [1]]


def received(consumer: Any) -> list[Any]:
    sqs = consumer.endpoint.client("sqs")
    return list(sqs.receive_message(QueueUrl=consumer.queue_url, MaxNumberOfMessages=10)["Messages"])


@pytest.mark.parametrize(
    ("pattern", "does_match"),
    [
        ({"detail": {"status": ["POSTED", "REJECTED"]}}, True),
        ({"detail": {"status": ["REJECTED"]}}, False),
        ({"detail": {"reason": [{"exists": False}]}}, True),
        ({"detail": {"status": [{"anything-but": ["POSTED"]}]}}, False),
        ({"detail": {"version": [{"numeric": [">", 1, "<=", 7]}]}}, True),
        ({"detail": {"version": ["7"]}}, False),
    ],
)
def test_a_pattern_matches_by_eventbridges_rules(pattern: dict[str, Any], does_match: bool) -> None:
    assert matches(pattern, {"detail": {"status": "POSTED", "version": 7}}) is does_match
