"""What the product assumes of SQS's standard queues. Each test is one assumption, and names the page that states it."""

import json
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.assumptions.conftest import rests_on
from tests.assumptions.places import Place, queue, queue_arn

GUIDE = "https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/"
API = "https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/"
VISIBILITY = GUIDE + "sqs-visibility-timeout.html"
QUOTAS = GUIDE + "quotas-messages.html"
BATCHES = API + "API_SendMessageBatch.html"


class Queue:
    """A queue whose messages are hidden for two seconds."""

    def __init__(self, place: Place, url: str) -> None:
        self.place, self.sqs, self.url = place, place.client("sqs"), url

    def send(self, body: str = "body", **more: Any) -> str:
        return self.sqs.send_message(QueueUrl=self.url, MessageBody=body, **more)["MessageId"]

    def receive(self) -> list[dict[str, Any]]:
        """What is there, at once."""
        everything = {"MessageSystemAttributeNames": ["All"], "MessageAttributeNames": ["All"]}
        answer = self.sqs.receive_message(QueueUrl=self.url, MaxNumberOfMessages=10, **everything)
        return answer.get("Messages", [])

    def receive_one(self) -> dict[str, Any]:
        """A message, as soon as one is there."""
        [message] = self.place.eventually(self.receive)
        return message

    def hide(self, receipt: str, seconds: int) -> None:
        self.sqs.change_message_visibility(QueueUrl=self.url, ReceiptHandle=receipt, VisibilityTimeout=seconds)


@pytest.fixture
def a_queue(place: Place) -> Iterator[Queue]:
    with queue(place, VisibilityTimeout="2") as url:
        yield Queue(place, url)


@rests_on(API + "API_ReceiveMessage.html")
def test_a_queue_without_messages_answers_with_none(a_queue: Queue) -> None:
    assert a_queue.receive() == []


@rests_on(API + "API_ReceiveMessage.html")
def test_a_message_that_is_received_again_has_its_id_its_sent_time_its_sender_and_one_receive_more(
    a_queue: Queue,
) -> None:
    message_id = a_queue.send()
    first, second = a_queue.receive_one(), a_queue.receive_one()
    assert first["MessageId"] == second["MessageId"] == message_id
    same = ("SentTimestamp", "SenderId", "ApproximateFirstReceiveTimestamp")
    assert [first["Attributes"][name] for name in same] == [second["Attributes"][name] for name in same]
    counts = [each["Attributes"]["ApproximateReceiveCount"] for each in (first, second)]
    assert counts == ["1", "2"]


@rests_on(VISIBILITY)
def test_a_received_message_is_hidden_from_others(a_queue: Queue) -> None:
    a_queue.send()
    a_queue.receive_one()
    assert a_queue.receive() == []


@rests_on(VISIBILITY)
def test_a_hidden_message_can_be_shown_at_once_and_hidden_for_longer(a_queue: Queue) -> None:
    a_queue.send()
    a_queue.hide(a_queue.receive_one()["ReceiptHandle"], 0)
    a_queue.hide(a_queue.receive_one()["ReceiptHandle"], 60)
    a_queue.place.wait(3)
    assert a_queue.receive() == []


@rests_on(VISIBILITY)
@pytest.mark.parametrize(("seconds", "taken"), [(43_200, True), (43_201, False)])
def test_a_message_is_hidden_for_twelve_hours_at_most(a_queue: Queue, seconds: int, *, taken: bool) -> None:
    a_queue.send()
    receipt = a_queue.receive_one()["ReceiptHandle"]
    with nullcontext() if taken else pytest.raises(ClientError):
        a_queue.hide(receipt, seconds)


@rests_on(API + "API_ChangeMessageVisibilityBatch.html")
def test_a_batch_of_times_names_those_that_it_did_not_set(a_queue: Queue) -> None:
    a_queue.send()
    receipt = a_queue.receive_one()["ReceiptHandle"]
    entries = [
        {"Id": "good", "ReceiptHandle": receipt, "VisibilityTimeout": 30},
        {"Id": "bad", "ReceiptHandle": receipt, "VisibilityTimeout": 43_201},
    ]
    answer = a_queue.sqs.change_message_visibility_batch(QueueUrl=a_queue.url, Entries=entries)
    assert [each["Id"] for each in answer["Successful"]] == ["good"]
    assert [each["Id"] for each in answer["Failed"]] == ["bad"]


@rests_on(API + "API_DeleteMessage.html")
def test_a_deleted_message_does_not_come_again(a_queue: Queue) -> None:
    a_queue.send()
    receipt = a_queue.receive_one()["ReceiptHandle"]
    for _ in range(2):  # the second time is no error
        a_queue.sqs.delete_message(QueueUrl=a_queue.url, ReceiptHandle=receipt)
    a_queue.place.wait(3)
    assert a_queue.receive() == []


@rests_on(QUOTAS)
def test_a_message_has_at_most_a_mebibyte(a_queue: Queue) -> None:
    a_queue.send("x" * 1024 * 1024)
    with pytest.raises(ClientError):
        a_queue.send("x" * (1024 * 1024 + 1))


@rests_on(API + "API_SendMessage.html")
@pytest.mark.parametrize("character", ["\x00", "\x1b", "￾"], ids=["NUL", "ESC", "U+FFFE"])
def test_a_body_with_a_character_that_xml_lacks_is_refused(a_queue: Queue, character: str) -> None:
    with pytest.raises(ClientError) as caught:
        a_queue.send(f"a{character}b")
    assert caught.value.response["Error"]["Code"] == "InvalidMessageContents"


@rests_on(GUIDE + "sqs-message-metadata.html")
def test_a_message_has_its_attributes_ten_at_most(a_queue: Queue) -> None:
    attributes = {f"name{number}": {"DataType": "String", "StringValue": str(number)} for number in range(11)}
    ten = dict(list(attributes.items())[:10])
    a_queue.send(MessageAttributes=ten)
    assert a_queue.receive_one()["MessageAttributes"] == ten
    with pytest.raises(ClientError):
        a_queue.send(MessageAttributes=attributes)


@rests_on(BATCHES)
def test_a_batch_says_of_each_message_whether_it_was_taken(a_queue: Queue) -> None:
    entries = [{"Id": "good", "MessageBody": "good"}, {"Id": "bad", "MessageBody": "\x00"}]
    answer = a_queue.sqs.send_message_batch(QueueUrl=a_queue.url, Entries=entries)
    assert [each["Id"] for each in answer["Successful"]] == ["good"]
    assert [(each["Id"], each["SenderFault"]) for each in answer["Failed"]] == [("bad", True)]


@rests_on(BATCHES)
@pytest.mark.parametrize("ids", ["0123456789a", "00"], ids=["eleven", "an id twice"])
def test_a_batch_refuses(a_queue: Queue, ids: str) -> None:
    entries = [{"Id": each, "MessageBody": "body"} for each in ids]
    with pytest.raises(ClientError):
        a_queue.sqs.send_message_batch(QueueUrl=a_queue.url, Entries=entries)


@rests_on(GUIDE + "sqs-fair-queues.html")
def test_a_standard_queue_takes_a_group_id(a_queue: Queue) -> None:
    message_id = a_queue.send(MessageGroupId="nightly")
    message = a_queue.receive_one()
    assert (message["MessageId"], message["Attributes"].get("MessageGroupId")) == (message_id, "nightly")


@rests_on(GUIDE + "sqs-dead-letter-queues.html")
def test_a_message_that_is_received_too_often_goes_to_the_dead_letter_queue_with_its_id_and_sender(
    place: Place,
) -> None:
    with queue(place) as dead_letters:
        policy = json.dumps({"deadLetterTargetArn": queue_arn(place, dead_letters), "maxReceiveCount": 1})
        with queue(place, VisibilityTimeout="1", RedrivePolicy=policy) as url:
            main, dead = Queue(place, url), Queue(place, dead_letters)
            message_id, sender = main.send(), main.receive_one()["Attributes"]["SenderId"]

            def moved() -> list[dict[str, Any]]:
                assert main.receive() == []
                return dead.receive()

            main.place.wait(2)
            [message] = place.eventually(moved)
            assert (message["MessageId"], message["Attributes"]["SenderId"]) == (message_id, sender)
