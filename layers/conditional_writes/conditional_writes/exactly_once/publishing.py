"""Sends the messages in the records of exactly-once functions, from the stream of their table: each at least once."""

import functools
import json
import logging
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from botocore.exceptions import BotoCoreError, ClientError

from conditional_writes.core.client import SLOWEST_CALL_SECONDS, new_client
from conditional_writes.core.messages import ToBus, ToQueue, ToTopic
from conditional_writes.core.own_attributes import WRITE_ID
from conditional_writes.core.packing import packed
from conditional_writes.core.steps import Deadline, growing_pauses
from conditional_writes.exactly_once.outbox import MESSAGES, Outgoing, outgoing_in
from conditional_writes.exactly_once.record import ID

MAXIMUM_ENTRIES, MAXIMUM_BYTES = 10, 262_144
"""Of one request, as all three services take it. SQS and EventBridge take 1 MB by now, topics if it is configured."""
PATIENCE_SECONDS = 3600
"""A destination that refuses a message may be mended: the message waits so long, and all behind it. Then it is dead."""
_OF_THE_EVENT = {"InvalidArgument", "MalformedDetail", "RedactionFailure"}
"""EventBridge's codes that the same event always gets. Of the others InternalFailure and ThrottlingException go away:
https://docs.aws.amazon.com/eventbridge/latest/APIReference/API_PutEventsResultEntry.html"""
_REFUSALS = {*range(400, 500)} - {429}
"""HTTP's statuses of a request that isn't taken, but for too many requests."""

logger = logging.getLogger(__name__)


class _Failure(NamedTuple):
    """Why a message wasn't sent. `is_refusal`: its destination refuses it; `is_final`: it always will."""

    reason: str
    is_refusal: bool = False
    is_final: bool = False


_UNANSWERED = _Failure("the answer doesn't say that it was taken")
"""As of each message in the page of a proxy, which botocore reads as an answer without any message."""


class Publisher:
    """Sends messages from Lambda's events of the records' stream: `publish` is what the handler returns.

    A message whose destination refuses it goes to the dead-letter queue, as an event that sends it again once the
    destination is mended. `client_of` makes the client of a service that messages go to: "sqs", "sns" or "events".
    """

    def __init__(self, dead_letter_queue_url: str, client_of: Callable[[str], Any] = new_client) -> None:
        self._dead_letter_queue_url, self._client_of = dead_letter_queue_url, functools.cache(client_of)

    def publish(self, event: Mapping[str, Any], context: Any) -> dict[str, list[dict[str, str]]]:
        """Sends all messages in the event. The answer names the first record that must come again, as Lambda's
        `ReportBatchItemFailures` has it.

        The records behind it come again, too: a message may be sent twice, and has the same id. A dead letter waits for
        the records before it. Raises ValueError for a stream without new images.
        """
        deadline = Deadline.of_invocation(context, SLOWEST_CALL_SECONDS)
        records = [record for record in event["Records"] if MESSAGES in _image_of(record)]
        failures = self._send_messages(records, deadline)
        alive = [number for number, failure in failures.items() if not _is_dead(records[number], failure)]
        first = min(alive, default=len(records))
        dead = [number for number in sorted(failures) if number < first]
        letters = [self._letter(records[number], failures[number]) for number in dead]
        for number, unsent in zip(dead, self._send_until(letters, deadline), strict=True):
            logger.error("dead: %s: %s", records[number]["dynamodb"]["Keys"], failures[number].reason)
            if unsent:
                failures[number] = _Failure(f"the dead-letter queue didn't take it: {unsent.reason}")
                first = min(first, number)
        if first == len(records):
            return {"batchItemFailures": []}
        again = records[first]["dynamodb"]
        logger.warning("not sent, and comes again: %s: %s", again["Keys"], failures[first].reason)
        return {"batchItemFailures": [{"itemIdentifier": again["SequenceNumber"]}]}

    def _send_messages(self, records: Sequence[Mapping[str, Any]], deadline: Deadline) -> dict[int, _Failure]:
        """The failure of each record with a message that wasn't sent. One that isn't final comes before one that is."""
        outgoing: list[tuple[int, Outgoing]] = []
        failures: dict[int, _Failure] = {}
        for number, record in enumerate(records):
            try:
                outgoing += [(number, each) for each in outgoing_in(record["dynamodb"]["NewImage"])]
            except Exception as error:  # noqa: BLE001 (another program may have written anything)
                failures[number] = _Failure(f"the record's messages can't be read: {error!r}", is_final=True)
        results = self._send_until([each for _, each in outgoing], deadline)
        for (number, _), failure in zip(outgoing, results, strict=True):
            if failure and (number not in failures or not failure.is_final):
                failures[number] = failure
        return failures

    def _letter(self, record: Mapping[str, Any], failure: _Failure) -> Outgoing:
        """Its body is the event that sends the record's messages again, with the reason."""
        image = {name: value for name, value in _image_of(record).items() if name in (ID, WRITE_ID, MESSAGES)}
        kept = {name: value for name, value in record["dynamodb"].items() if name != "OldImage"}
        again = {**record, "dynamodb": {**kept, "NewImage": image}}
        body = json.dumps({"Records": [again], "reason": failure.reason})
        return Outgoing(ToQueue(self._dead_letter_queue_url, body), "", body)

    def _send_until(self, outgoing: Sequence[Outgoing], deadline: Deadline) -> list[_Failure | None]:
        """The result of each message's last try. All are tried once, whatever the deadline is."""
        results = self._send(outgoing)
        for pause_seconds in growing_pauses():
            left = [number for number, each in enumerate(results) if each and not each.is_refusal]
            if not left or deadline.remaining_seconds < pause_seconds:
                break
            time.sleep(pause_seconds)
            for number, result in zip(left, self._send([outgoing[number] for number in left]), strict=True):
                results[number] = result
        return results

    def _send(self, outgoing: Sequence[Outgoing]) -> list[_Failure | None]:
        """Sends each message once, those to one destination in their order. None: it was sent."""
        by_destination: dict[tuple[str, str], list[int]] = defaultdict(list)
        for number, each in enumerate(outgoing):
            by_destination[each.service, each.message[0]].append(number)
        results: dict[int, _Failure | None] = {}
        for (service, _), numbers in by_destination.items():
            for request in packed(numbers, lambda number: _bytes_of(outgoing[number]), MAXIMUM_ENTRIES, MAXIMUM_BYTES):
                sent = _request(self._client_of(service), [outgoing[number] for number in request])
                results |= dict(zip(request, sent, strict=True))
        return [results[number] for number in range(len(outgoing))]


def _is_dead(record: Mapping[str, Any], failure: _Failure) -> bool:
    age_seconds = time.time() - record["dynamodb"].get("ApproximateCreationDateTime", 0)
    return failure.is_final or (failure.is_refusal and age_seconds > PATIENCE_SECONDS)


def _image_of(record: Mapping[str, Any]) -> Mapping[str, Any]:
    """The record as it is now; empty if it was deleted."""
    if record["eventName"] == "REMOVE":
        return {}
    if "NewImage" not in record["dynamodb"]:
        raise ValueError("the stream of the records' table has no new images: its StreamViewType must be NEW_IMAGE")
    image: Mapping[str, Any] = record["dynamodb"]["NewImage"]
    return image


def _bytes_of(outgoing: Outgoing) -> int:
    """A little more than the services count: an event has a source and a type, too."""
    return len(outgoing.text.encode()) + 1_024


def _request(client: Any, outgoing: Sequence[Outgoing]) -> list[_Failure | None]:
    """One request with messages to one destination. If it is refused, each message has a request of its own."""
    try:
        return list(_SENDING[type(outgoing[0].message)](client, outgoing))
    except ClientError as error:
        status = error.response["ResponseMetadata"].get("HTTPStatusCode")
        is_refusal = status in _REFUSALS and not _is_throttling(error.response["Error"]["Code"])
        if is_refusal and len(outgoing) > 1:
            alone = [result for each in outgoing for result in _request(client, [each])]
            # If the destination takes the others, the fault is the message's own.
            return [each and each._replace(is_final=each.is_refusal and None in alone) for each in alone]
        return [_Failure(str(error), is_refusal)] * len(outgoing)
    except BotoCoreError as error:
        return [_Failure(str(error))] * len(outgoing)


def _is_throttling(code: str) -> bool:
    return "Throttl" in code


def _to_queue(client: Any, outgoing: Sequence[Outgoing]) -> Iterator[_Failure | None]:
    entries = [{"Id": str(number), "MessageBody": each.text, **_group(each)} for number, each in enumerate(outgoing)]
    answer = client.send_message_batch(QueueUrl=outgoing[0].message[0], Entries=entries)
    return _of_batch(answer, len(outgoing))


def _to_topic(client: Any, outgoing: Sequence[Outgoing]) -> Iterator[_Failure | None]:
    entries = [{"Id": str(number), "Message": each.text, **_group(each)} for number, each in enumerate(outgoing)]
    answer = client.publish_batch(TopicArn=outgoing[0].message[0], PublishBatchRequestEntries=entries)
    return _of_batch(answer, len(outgoing))


def _group(outgoing: Outgoing) -> dict[str, str]:
    """The group, and what FIFO queues and topics know a repetition by. Others take no such id."""
    message: Any = outgoing.message
    group = {"MessageGroupId": message.group_id} if message.group_id else {}
    is_fifo = message[0].endswith(".fifo")
    return group | ({"MessageDeduplicationId": outgoing.message_id} if is_fifo else {})


def _of_batch(answer: Mapping[str, Any], number: int) -> Iterator[_Failure | None]:
    """An answer of SQS's or SNS's. What is wrong with the key of an encrypted queue is the queue's fault."""
    taken: dict[int, _Failure | None] = {int(each["Id"]): None for each in answer.get("Successful", [])}
    failed = {
        int(each["Id"]): _failure(
            each, is_refusal=each["SenderFault"], is_final=not each["Code"].lower().startswith("kms")
        )
        for each in answer.get("Failed", [])
    }
    results = taken | failed
    return (results.get(each, _UNANSWERED) for each in range(number))


def _to_bus(client: Any, outgoing: Sequence[Outgoing]) -> Iterator[_Failure | None]:
    events: list[Any] = [each.message for each in outgoing]
    entries = [
        {"EventBusName": event.bus, "Source": event.source, "DetailType": event.detail_type, "Detail": each.text}
        for event, each in zip(events, outgoing, strict=True)
    ]
    results = client.put_events(Entries=entries).get("Entries", [])
    return map(_of_event, results) if len(results) == len(entries) else iter([_UNANSWERED] * len(entries))


def _of_event(result: Mapping[str, Any]) -> _Failure | None:
    code = result.get("ErrorCode")
    if not code:
        return None
    failed = {"Code": code, "Message": result.get("ErrorMessage")}
    return _failure(failed, is_refusal=code != "InternalFailure", is_final=code in _OF_THE_EVENT)


def _failure(failed: Mapping[str, Any], *, is_refusal: bool, is_final: bool) -> _Failure:
    is_refusal = is_refusal and not _is_throttling(failed["Code"])
    return _Failure(f"{failed['Code']}: {failed.get('Message')}", is_refusal, is_refusal and is_final)


_SENDING: Mapping[type, Callable[[Any, Sequence[Outgoing]], Iterator[_Failure | None]]] = {
    ToQueue: _to_queue,
    ToTopic: _to_topic,
    ToBus: _to_bus,
}
