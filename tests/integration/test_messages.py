"""Messages that leave with the commit of an exactly-once function: what is sent, what comes again, and what is dead."""

import json
import time
from collections.abc import Callable, Iterator
from decimal import Decimal
from types import SimpleNamespace
from typing import Any
from unittest import mock

import boto3
import pytest
from botocore.exceptions import ClientError, EndpointConnectionError
from moto import mock_aws

from conditional_writes import Deadline, Plan, write
from conditional_writes.exactly_once import Records, ToBus, ToQueue, ToTopic, exactly_once
from conditional_writes.exactly_once.publishing import PATIENCE_SECONDS, Publisher
from conditional_writes.testing import Engine
from tests.support.in_process import Aws
from tests.support.new_tables import calls_of, definition
from tools.local_aws.functions import Context

URL = "https://sqs.us-east-1.amazonaws.com/000000000000/"
REGION: Any = {"region_name": "us-east-1", "aws_access_key_id": "test", "aws_secret_access_key": "test"}
DELIVERED: dict[str, Any] = {"batchItemFailures": []}


class Outbox:
    """A table of records with its stream, the queues `orders`, `small` and `dead`, a bus, and a publisher."""

    def __init__(self, engine: Engine) -> None:
        self.engine, self.aws = engine, Aws(engine)
        engine.others |= {"AmazonSQS": self.aws.answer, "AWSEvents": self.aws.answer}
        self.clients = {service: engine.attach(boto3.client(service, **REGION)) for service in ("sqs", "events")}
        self.make_queue("orders")
        self.make_queue("small", MaximumMessageSize="1024")
        self.make_queue("dead")
        self.records = Records(engine.client(), "Records")
        stream = {"StreamSpecification": {"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"}}
        self.records.client.create_table(**definition("Records", {"id": "S"}), **stream)
        self.publisher = Publisher(URL + "dead", self.clients.__getitem__)
        self.calls = calls_of(self.clients["sqs"])

    def make_queue(self, name: str, **attributes: str) -> None:
        self.aws.sqs.answer("CreateQueue", {"QueueName": name, "Attributes": attributes}, "")

    def commit(self, key: str, *messages: Any) -> None:
        exactly_once(self.records, key=str, prefix="send")(lambda request, observed: Plan(None, [], messages))(key)

    def event(self) -> dict[str, Any]:
        return {"Records": self.engine.stream_records("Records")}

    def publish(self, *, seconds: float = 60) -> dict[str, Any]:
        return self.publisher.publish(self.event(), Context(timeout_seconds=seconds))

    def sent(self, queue: str) -> list[Any]:
        return [json.loads(message.body) for message in self.aws.sqs.queues[queue].messages]


@pytest.fixture
def outbox() -> Iterator[Outbox]:
    with Engine() as engine, engine.simulated_time():
        yield Outbox(engine)


def order(number: int = 1, **fields: Any) -> ToQueue:
    return ToQueue(URL + "orders", {"order_id": f"o-{number}"} | fields)


def without_ids(bodies: list[Any]) -> list[Any]:
    return [{name: value for name, value in body.items() if name != "message_id"} for body in bodies]


# --- what is sent -----------------------------------------------------------------------------------------


def test_each_message_of_a_commit_is_sent_with_an_id_that_stays(outbox: Outbox) -> None:
    outbox.aws.bring("shop", bus="shop", queue="small")
    text = ToQueue(URL + "dead", '{"type": "payment", "note": "Grüße"}', group_id="alice")
    outbox.commit("k-1", order(), order(2), ToBus("shop", "shop", "OrderPlaced", {"order_id": "o-1"}), text)
    outbox.commit("k-1", order(3))  # a repetition, which writes nothing
    outbox.commit("k-2")
    assert outbox.publish() == DELIVERED
    first, second = outbox.sent("orders")
    [event] = outbox.sent("small")
    assert without_ids([first, second, event["detail"]]) == [{"order_id": f"o-{n}"} for n in (1, 2, 1)]
    assert (event["source"], event["detail-type"]) == ("shop", "OrderPlaced")
    ids = [each["message_id"] for each in (first, second, event["detail"])]
    assert len(set(ids)) == 3
    [as_it_is] = outbox.aws.sqs.queues["dead"].messages
    assert (as_it_is.body, as_it_is.group_id) == (text.body, "alice")
    assert outbox.publish() == DELIVERED
    assert [each["message_id"] for each in outbox.sent("orders")] == ids[:2] * 2


def test_records_that_are_read_without_lambda_are_sent_and_a_refused_one_comes_again(outbox: Outbox) -> None:
    outbox.commit("k-1", order())
    outbox.commit("k-2", ToQueue(URL + "missing", {"order_id": "o-2"}))
    streams = outbox.engine.client("dynamodbstreams")
    [stream] = streams.list_streams(TableName="Records")["Streams"]
    [shard] = streams.describe_stream(StreamArn=stream["StreamArn"])["StreamDescription"]["Shards"]
    place = {"StreamArn": stream["StreamArn"], "ShardId": shard["ShardId"]}
    oldest = streams.get_shard_iterator(**place, ShardIteratorType="TRIM_HORIZON")["ShardIterator"]
    records = streams.get_records(ShardIterator=oldest)["Records"]
    for record in records:
        in_stream = record["dynamodb"]
        in_stream["ApproximateCreationDateTime"] = in_stream["ApproximateCreationDateTime"].timestamp()
    context = SimpleNamespace(get_remaining_time_in_millis=lambda: 1_000)
    [failed] = outbox.publisher.publish({"Records": records}, context)["batchItemFailures"]
    assert failed["itemIdentifier"] == records[1]["dynamodb"]["SequenceNumber"]
    assert without_ids(outbox.sent("orders")) == [{"order_id": "o-1"}]
    outbox.make_queue("missing")
    again = streams.get_shard_iterator(
        **place, ShardIteratorType="AT_SEQUENCE_NUMBER", SequenceNumber=failed["itemIdentifier"]
    )
    [record] = streams.get_records(ShardIterator=again["ShardIterator"])["Records"]
    assert outbox.publisher.publish({"Records": [record]}, context) == DELIVERED
    assert without_ids(outbox.sent("missing")) == [{"order_id": "o-2"}]
    assert outbox.sent("dead") == []


def test_a_key_that_is_new_again_has_messages_of_their_own_and_a_deleted_record_has_none(outbox: Outbox) -> None:
    outbox.records.client.update_time_to_live(
        TableName="Records", TimeToLiveSpecification={"AttributeName": "expiration", "Enabled": True}
    )
    for seconds in (30 * 24 * 3600, 1, 31 * 24 * 3600):  # the second is a repetition
        outbox.commit("k-1", order())
        outbox.engine.clock.advance(seconds)
    assert outbox.engine.delete_expired("Records") == 1
    assert [record["eventName"] for record in outbox.event()["Records"]] == ["INSERT", "MODIFY", "REMOVE"]
    assert outbox.publish() == DELIVERED
    assert len({each["message_id"] for each in outbox.sent("orders")}) == 2


def test_a_topic_and_a_fifo_queue_have_messages_with_their_ids(outbox: Outbox) -> None:
    topic, fifo_url = (
        "arn:aws:sns:us-east-1:123456789012:shop",
        "https://sqs.us-east-1.amazonaws.com/123456789012/l.fifo",
    )
    outbox.commit("k-1", ToTopic(topic, {"order_id": "o-1"}), ToQueue(fifo_url, {"order_id": "o-2"}, group_id="bob"))
    with mock_aws():
        sns, sqs = boto3.client("sns", **REGION), boto3.client("sqs", **REGION)
        assert sqs.create_queue(QueueName="l.fifo", Attributes={"FifoQueue": "true"})["QueueUrl"] == fifo_url
        heard_url = sqs.create_queue(QueueName="heard")["QueueUrl"]
        assert sns.create_topic(Name="shop")["TopicArn"] == topic
        endpoint, raw = "arn:aws:sqs:us-east-1:123456789012:heard", {"RawMessageDelivery": "true"}
        sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=endpoint, Attributes=raw)
        publisher = Publisher(URL + "dead", {"sns": sns, "sqs": sqs}.__getitem__)
        for _ in range(2):
            assert publisher.publish(outbox.event(), Context()) == DELIVERED

        def received(url: str) -> list[Any]:
            found = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10)
            return [json.loads(message["Body"]) for message in found["Messages"]]

        first, again = received(heard_url)
        assert first == again
        assert without_ids([first]) == [{"order_id": "o-1"}]
        assert without_ids(received(fifo_url)) == [{"order_id": "o-2"}]  # the queue knows the repetition


def test_a_request_has_ten_messages_and_as_many_bytes_as_each_service_takes(outbox: Outbox) -> None:
    outbox.commit("k-1", *(order(number) for number in range(12)))
    for number, size in enumerate((130_048, 130_048, 130_049, 130_048, 261_120)):
        outbox.commit(f"large-{number}", ToQueue(URL + "dead", "x" * size))
    before = time.time()
    assert outbox.publish() == DELIVERED
    assert time.time() == before  # without a pause
    assert outbox.calls == ["SendMessageBatch"] * 6  # 10 and 2; 2, and the others alone
    assert [len(outbox.aws.sqs.queues[name].messages) for name in ("orders", "dead")] == [12, 5]


# --- what comes again, and what is dead ----------------------------------------------------------------------


def again(record: dict[str, Any]) -> dict[str, Any]:
    return {"batchItemFailures": [{"itemIdentifier": record["dynamodb"]["SequenceNumber"]}]}


def failing(outbox: Outbox, *, times: int, entries: Callable[[Any], list[Any]] | None = None) -> Any:
    """The first requests to SQS fail: without an answer, or each of these `entries` by an internal error."""
    client, left = outbox.clients["sqs"], [times]
    send = client.send_message_batch

    def send_or_fail(**request: Any) -> Any:
        left[0] -= 1
        if left[0] < 0:
            return send(**request)
        if entries is None:
            raise EndpointConnectionError(endpoint_url=URL)
        failed = entries(request["Entries"])
        others = [entry for entry in request["Entries"] if entry not in failed]
        answer = send(**{**request, "Entries": others}) if others else {}
        error = {"Code": "InternalError", "SenderFault": False}
        return answer | {"Failed": answer.get("Failed", []) + [{"Id": entry["Id"]} | error for entry in failed]}

    return mock.patch.object(client, "send_message_batch", send_or_fail)


def test_messages_that_failed_are_sent_again_and_the_others_are_not(outbox: Outbox) -> None:
    outbox.commit("k-1", order(1), order(2), order(3))
    with failing(outbox, times=2, entries=lambda entries: entries[:1]):
        assert outbox.publish() == DELIVERED
    assert sorted(each["order_id"] for each in outbox.sent("orders")) == ["o-1", "o-2", "o-3"]


@pytest.mark.parametrize("finally_refused_first", [True, False])
def test_a_record_comes_again_whole_if_one_of_its_messages_may_still_be_sent(
    outbox: Outbox, *, finally_refused_first: bool
) -> None:
    messages = [ToQueue(URL + "small", "x" * 2000), order(1)]
    outbox.commit("k-1", *(messages if finally_refused_first else messages[::-1]))
    of_orders = lambda entries: [each for each in entries if each["MessageBody"].startswith('{"order_id')]  # noqa: E731
    with failing(outbox, times=1000, entries=of_orders):
        assert outbox.publish(seconds=0) == again(*outbox.event()["Records"])
    assert outbox.sent("dead") == []
    assert outbox.publish() == DELIVERED
    assert (len(outbox.sent("orders")), len(outbox.sent("dead"))) == (1, 1)


def test_during_an_outage_the_first_record_comes_again_and_what_is_dead_behind_it_waits(outbox: Outbox) -> None:
    outbox.commit("k-0")
    outbox.commit("k-1", order(1))
    outbox.commit("k-2", ToQueue(URL + "small", "x" * 2000))
    outbox.commit("k-3", order(3))
    [_, first, *_] = outbox.event()["Records"]
    with failing(outbox, times=1000):
        assert outbox.publish() == again(first)
    assert outbox.sent("dead") == []
    assert outbox.publish() == DELIVERED
    assert (len(outbox.sent("orders")), len(outbox.sent("dead"))) == (2, 1)


def test_a_message_that_its_queue_refuses_is_dead_and_holds_up_no_other(outbox: Outbox) -> None:
    outbox.commit("k-1")
    outbox.engine.clock.advance(31 * 24 * 3600)  # the key is new again, and the stream has an old image, too
    outbox.commit("k-1", ToQueue(URL + "small", "x" * 2000), order(1))
    outbox.commit("k-2", ToQueue(URL + "small", "y"), order(2))
    assert outbox.publish() == DELIVERED
    assert without_ids(outbox.sent("orders")) == [{"order_id": "o-1"}, {"order_id": "o-2"}]
    assert [message.body for message in outbox.aws.sqs.queues["small"].messages] == ["y"]
    [letter] = outbox.sent("dead")
    assert "Message is too long" in letter["reason"]
    assert letter["Records"][0]["dynamodb"]["NewImage"].keys() == {"id", "cw:write_id", "messages"}
    assert "OldImage" not in letter["Records"][0]["dynamodb"]


AGAIN, DEAD = "again", "dead"


def error(code: str, status: int) -> ClientError:
    response: Any = {"Error": {"Code": code, "Message": "no"}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return ClientError(response, "SendMessageBatch")


def failed(code: str, *, sender_fault: bool) -> dict[str, Any]:
    return {"Failed": [{"Id": "0", "Code": code, "Message": "no", "SenderFault": sender_fault}]}


def unpublished(code: str) -> dict[str, Any]:
    return {"FailedEntryCount": 1, "Entries": [{"ErrorCode": code, "ErrorMessage": "no"}]}


@pytest.mark.parametrize(
    ("answer", "at_first", "after_an_hour"),
    [
        (error("AccessDenied", 403), AGAIN, DEAD),
        (error("Teapot", 400), AGAIN, DEAD),
        (error("RequestThrottled", 403), AGAIN, AGAIN),
        (error("Many", 429), AGAIN, AGAIN),
        (error("InternalFailure", 500), AGAIN, AGAIN),
        (EndpointConnectionError(endpoint_url=URL), AGAIN, AGAIN),
        (failed("InvalidMessageContents", sender_fault=True), DEAD, DEAD),
        (failed("KMS.DisabledException", sender_fault=True), AGAIN, DEAD),
        (failed("KmsThrottled", sender_fault=True), AGAIN, AGAIN),
        (failed("InternalError", sender_fault=False), AGAIN, AGAIN),
        ({}, AGAIN, AGAIN),  # as botocore reads the page of a proxy
        (unpublished("MalformedDetail"), DEAD, DEAD),
        (unpublished("NotAuthorizedForSourceException"), AGAIN, DEAD),
        (unpublished("ThrottlingException"), AGAIN, AGAIN),
        (unpublished("InternalFailure"), AGAIN, AGAIN),
        ({"FailedEntryCount": 0, "Entries": []}, AGAIN, AGAIN),
    ],
    ids=str,
)
def test_what_may_be_mended_comes_again_for_an_hour_and_what_goes_away_for_as_long_as_it_takes(
    outbox: Outbox, answer: Any, at_first: str, after_an_hour: str
) -> None:
    is_bus = isinstance(answer, dict) and "Entries" in answer
    outbox.commit("k-1", ToBus("shop", "shop", "Placed", {}) if is_bus else order())
    [record] = outbox.event()["Records"]
    service, send = ("events", "put_events") if is_bus else ("sqs", "send_message_batch")
    dead, real = [], getattr(outbox.clients[service], send)

    def answered(**request: Any) -> Any:
        if request.get("QueueUrl") == URL + "dead":
            return real(**request)
        if isinstance(answer, Exception):
            raise answer
        return answer

    for expected, seconds in ((at_first, 0), (after_an_hour, PATIENCE_SECONDS + 1)):
        outbox.engine.clock.advance(seconds)
        with mock.patch.object(outbox.clients[service], send, answered):
            assert outbox.publish(seconds=0) == (again(record) if expected == AGAIN else DELIVERED)
        dead.append(DEAD if outbox.sent("dead") else AGAIN)
        assert all("no" in letter["reason"] for letter in outbox.sent("dead"))
        outbox.aws.sqs.queues["dead"].messages.clear()
    assert dead == [at_first, after_an_hour]


@pytest.mark.parametrize(
    ("wrong", "together", "alone", "sent", "dead"),
    [(1, 400, 400, 1, 1), (2, 400, 400, 0, 0), (1, 400, 500, 1, 0), (1, 500, 500, 0, 0)],
)
def test_of_a_request_that_is_refused_the_message_at_fault_is_dead_alone(
    outbox: Outbox, wrong: int, together: int, alone: int, sent: int, dead: int
) -> None:
    """Unless the destination takes none of them: then it may be the one at fault. A service that fails refuses none."""
    for number in range(2):
        outbox.commit(f"k-{number}", ToTopic("arn:aws:sns:r:1:t", "wrong" if number < wrong else "right", "alice"))
    published: list[str] = []

    def publish_batch(TopicArn: str, PublishBatchRequestEntries: list[Any]) -> Any:  # noqa: N803 (SNS's names)
        if any(entry["Message"] == "wrong" for entry in PublishBatchRequestEntries):
            raise error("Wrong", together if len(PublishBatchRequestEntries) > 1 else alone)
        published.extend(entry["MessageGroupId"] for entry in PublishBatchRequestEntries)
        return {"Successful": [{"Id": entry["Id"]} for entry in PublishBatchRequestEntries]}

    clients = outbox.clients | {"sns": mock.Mock(publish_batch=publish_batch)}
    first = outbox.event()["Records"][0]
    answer = Publisher(URL + "dead", clients.__getitem__).publish(outbox.event(), Context(timeout_seconds=0))
    assert answer == (DELIVERED if dead else again(first))
    assert (len(published), len(outbox.sent("dead"))) == (sent, dead)


def test_a_dead_letter_is_the_event_that_sends_the_message_again(outbox: Outbox) -> None:
    outbox.commit("k-1", ToQueue(URL + "later", {"order_id": "o-1"}))
    [record] = outbox.event()["Records"]
    assert outbox.publish() == again(record)
    assert outbox.calls == ["SendMessageBatch"]
    outbox.engine.clock.advance(PATIENCE_SECONDS + 1)
    with failing(outbox, times=0):
        assert outbox.publish() == DELIVERED
    [letter] = outbox.sent("dead")
    assert "does not exist" in letter["reason"]
    assert outbox.publisher.publish(letter, Context()) == DELIVERED
    assert outbox.sent("dead") == [letter, letter]
    outbox.make_queue("later")
    assert outbox.publisher.publish(letter, Context()) == DELIVERED
    assert without_ids(outbox.sent("later")) == [{"order_id": "o-1"}]


def test_a_record_comes_again_if_the_dead_letter_queue_does_not_take_it(outbox: Outbox) -> None:
    outbox.commit("k-1", ToQueue(URL + "small", "x" * 2000))
    [record] = outbox.event()["Records"]
    del outbox.aws.sqs.queues["dead"]
    assert outbox.publish() == again(record)


OF_ANOTHER = [f'["sqs",{fields}]' for fields in ('7,"x"', f'"{URL}orders",7', f'"{URL}orders","\\ud800"', '"u","x",7')]


@pytest.mark.parametrize("written", [*OF_ANOTHER, '["s3","bucket","x"]'])
def test_a_message_of_another_programs_is_dead_and_holds_up_no_other(outbox: Outbox, written: str) -> None:
    outbox.commit("k-1", order(1))
    [record] = outbox.event()["Records"]
    record["dynamodb"]["NewImage"]["messages"] = {"S": f"[{written}]"}
    outbox.commit("k-2", order(2))
    [_, healthy] = outbox.event()["Records"]
    assert outbox.publisher.publish({"Records": [record, healthy]}, Context()) == DELIVERED
    assert (len(outbox.sent("orders")), len(outbox.sent("dead"))) == (1, 1)


def test_messages_that_cannot_be_read_are_dead_and_a_stream_without_new_images_is_refused(outbox: Outbox) -> None:
    outbox.records.client.put_item(TableName="Records", Item={"id": {"S": "k"}, "messages": {"S": "[[1"}})
    assert outbox.publish() == DELIVERED
    [letter] = outbox.sent("dead")
    assert "can't be read" in letter["reason"]
    outbox.records.client.update_table(TableName="Records", StreamSpecification={"StreamEnabled": False})
    keys = {"StreamEnabled": True, "StreamViewType": "KEYS_ONLY"}
    outbox.records.client.update_table(TableName="Records", StreamSpecification=keys)
    outbox.commit("k-2", order())
    with pytest.raises(ValueError, match="its StreamViewType must be NEW_IMAGE"):
        outbox.publish()


# --- what can't be a message ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("messages", "says"),
    [
        (order(), "expected a list of messages"),
        (iter([order()]), "expected a list of messages"),
        ([{"order_id": 1}], r"messages\[0\]: .* expected ToQueue, ToTopic or ToBus"),
        ([order(), ToQueue("", "x")], r"messages\[1\]\.queue_url: '', expected a text"),
        ([order(amount=Decimal(3))], r"messages\[0\]: Decimal\('3'\) is no JSON: send an int, or a text by str\(\)"),
        ([order(rate=float("nan"))], "nan"),
        ([order(message_id="m")], "has a message_id, which is added: name it otherwise, or send a text"),
        ([ToQueue(URL + "orders", "")], r"body: the text is empty"),
        ([ToQueue(URL + "orders", "\x00")], r"a character that SQS refuses"),
        ([ToQueue(URL + "a.fifo", "x")], r"a\.fifo is FIFO, and its messages have a group_id"),
        *(
            ([ToQueue(URL + "orders", "x", group)], r"group_id: .*, expected 1 to 128 of ASCII's characters, no blank")
            for group in (7, "", "é", "a b", "x" * 129)
        ),
        ([ToTopic("arn:aws:sns:r:1:t", 3)], r"3, expected a dict, or a text"),
        ([ToBus("shop", "shop", 7, {})], "an event has a detail_type and a source"),
        ([ToBus("shop", None, "Placed", {})], "an event has a detail_type and a source"),
        ([ToBus("shop", "aws.s3", "Placed", {})], "a source, which is none of AWS's own"),
        ([ToBus("shop", "shop", "Placed", "x")], "'x', expected a dict$"),
        ([ToQueue(URL + "orders", "x" * 261_121)], "261,121 bytes, and a message has at most 261,120"),
    ],
)
def test_what_no_service_takes_is_refused_before_anything_is_written(outbox: Outbox, messages: Any, says: str) -> None:
    send = exactly_once(outbox.records, key=str, prefix="send")(lambda request, observed: Plan(None, [], messages))
    with pytest.raises((TypeError, ValueError), match=f"^send: .*{says}"):
        send("k-1")
    assert outbox.event() == {"Records": []}


def test_only_a_function_that_is_exactly_once_may_have_messages(outbox: Outbox) -> None:
    with pytest.raises(TypeError, match="a plan has messages, and no record to keep them"):
        write(outbox.records.client, lambda _: Plan(None, [], [order()]), {}, Deadline.after(5))
