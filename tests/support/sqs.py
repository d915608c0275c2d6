"""SQS in the process, beside the library's engine and on its clock: what functions, tests and tools ask of queues.

https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/Welcome.html
"""

import itertools
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from hashlib import md5
from typing import Any

from conditional_writes.testing import Clock

ACCOUNT = "000000000000"
ARN = f"arn:aws:sqs:us-east-1:{ACCOUNT}:"
MAXIMUM_BATCH = 10
MAXIMUM_BYTES = 1024 * 1024
"""Of a message, and of a batch:
https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-messages.html
"""
MAXIMUM_ATTRIBUTES = 10
LONGEST_VISIBILITY_SECONDS, LONGEST_DELAY_SECONDS = 43_200, 900
MAXIMUM_IN_FLIGHT = 120_000
"""Of a standard queue: https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-queues.html"""
DEFAULTS = {
    "VisibilityTimeout": "30",
    "DelaySeconds": "0",
    "MessageRetentionPeriod": "345600",
    "MaximumMessageSize": str(MAXIMUM_BYTES),
    "ReceiveMessageWaitTimeSeconds": "0",
}

NOT_FOR_SQS = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that SQS refuses in a body or an attribute."""

type Request = dict[str, Any]
type Answer = dict[str, Any]


class SqsError(Exception):
    """`query_code` is what boto3 gives as the error's code, if it isn't the name of the error's shape."""

    def __init__(self, name: str, message: str, query_code: str = "") -> None:
        super().__init__(message)
        self.name, self.query_code = name, query_code or name


@dataclass
class Message:
    message_id: str
    body: str
    attributes: Mapping[str, Any]
    sent_at: float
    visible_at: float
    group_id: str | None = None
    receives: int = 0
    first_received_at: float = 0
    receipt: str = ""


@dataclass
class Queue:
    name: str
    attributes: dict[str, str]
    made_at: float
    messages: list[Message] = field(default_factory=list)

    def redrive(self) -> tuple[str, int] | None:
        """The name of the dead-letter queue, and the deliveries after which a message goes there."""
        if not (policy := json.loads(self.attributes.get("RedrivePolicy") or "{}")):
            return None
        return policy["deadLetterTargetArn"].removeprefix(ARN), int(policy["maxReceiveCount"])


class Sqs:
    """`queues` by name. Calls aren't safe for threads: whoever passes them on lets one at a time.

    `order` is that of deliveries: AWS promises none.
    """

    def __init__(self, clock: Clock) -> None:
        self.queues: dict[str, Queue] = {}
        self.order: Callable[[Message], float] = lambda message: message.visible_at
        self._clock, self._numbers = clock, itertools.count(1)

    def answer(self, operation: str, request: Request, endpoint: str) -> Answer:
        """The answer to a call such as SendMessage of a client whose address is the endpoint."""
        handle: Callable[[Request], Answer] | None = getattr(self, "_" + _snake(operation), None)
        if handle is None:
            raise NotImplementedError(f"this SQS has no {operation}")
        answer = handle(request)
        for name in ("QueueUrl", "QueueUrls"):
            if name in answer:
                url = f"{endpoint.rstrip('/')}/{ACCOUNT}/"
                answer[name] = url + answer[name] if name == "QueueUrl" else [url + each for each in answer[name]]
        return answer

    def send(self, queue_name: str, body: str) -> None:
        """What another service sends."""
        self._put(self.queues[queue_name], {"MessageBody": body})

    def _queue(self, request: Request) -> Queue:
        found = self.queues.get(request["QueueUrl"].rpartition("/")[2])
        if found is None:
            code = "AWS.SimpleQueueService.NonExistentQueue"
            raise SqsError("QueueDoesNotExist", "The specified queue does not exist.", code)
        return found

    def _create_queue(self, request: Request) -> Answer:
        name, given = request["QueueName"], request.get("Attributes", {})
        if not re.fullmatch(r"[\w-]{1,80}", name, re.ASCII):
            raise SqsError(
                "InvalidParameterValue", "Can only include alphanumeric characters, hyphens, or underscores."
            )
        queue = self.queues.setdefault(name, Queue(name, DEFAULTS | given, self._clock.time()))
        if any(queue.attributes.get(each) != value for each, value in given.items()):
            raise SqsError("QueueNameExists", "A queue already exists with the same name and a different value.")
        return {"QueueUrl": name}

    def _get_queue_url(self, request: Request) -> Answer:
        return {"QueueUrl": self._queue({"QueueUrl": request["QueueName"]}).name}

    def _list_queues(self, request: Request) -> Answer:
        return {"QueueUrls": [name for name in self.queues if name.startswith(request.get("QueueNamePrefix", ""))]}

    def _delete_queue(self, request: Request) -> Answer:
        del self.queues[self._queue(request).name]
        return {}

    def _set_queue_attributes(self, request: Request) -> Answer:
        self._queue(request).attributes.update(request["Attributes"])
        return {}

    def _get_queue_attributes(self, request: Request) -> Answer:
        queue, now = self._queue(request), self._clock.time()
        hidden = [message for message in queue.messages if message.visible_at > now]
        delayed = sum(not message.receives for message in hidden)
        found = queue.attributes | {
            "QueueArn": ARN + queue.name,
            "CreatedTimestamp": str(int(queue.made_at)),
            "ApproximateNumberOfMessages": str(len(queue.messages) - len(hidden)),
            "ApproximateNumberOfMessagesNotVisible": str(len(hidden) - delayed),
            "ApproximateNumberOfMessagesDelayed": str(delayed),
        }
        names = request.get("AttributeNames", [])
        return {"Attributes": {name: value for name, value in found.items() if name in names or "All" in names}}

    def _put(self, queue: Queue, request: Request) -> Answer:
        body, attributes = request["MessageBody"], request.get("MessageAttributes", {})
        if not body:
            raise SqsError("MissingParameter", "The request must contain the parameter MessageBody.")
        if NOT_FOR_SQS.search(body + "".join(one.get("StringValue", "") for one in attributes.values())):
            raise SqsError("InvalidMessageContents", "Invalid characters were found in the message body.")
        if len(attributes) > MAXIMUM_ATTRIBUTES:
            raise SqsError("InvalidParameterValue", f"Number of message attributes [{len(attributes)}] exceeds 10.")
        if _bytes_of(request) > int(queue.attributes["MaximumMessageSize"]):
            raise SqsError("InvalidParameterValue", "One or more parameters are invalid. Message is too long.")
        delay = int(request.get("DelaySeconds", queue.attributes["DelaySeconds"]))
        _check_range("DelaySeconds", delay, LONGEST_DELAY_SECONDS)
        now, message_id = self._clock.time(), f"sqs-{next(self._numbers)}"
        queue.messages.append(Message(message_id, body, attributes, now, now + delay, request.get("MessageGroupId")))
        return {"MessageId": message_id, "MD5OfMessageBody": _md5(body)}

    def _send_message(self, request: Request) -> Answer:
        return self._put(self._queue(request), request)

    def _receive_message(self, request: Request) -> Answer:
        queue, now = self._queue(request), self._clock.time()
        most = request.get("MaxNumberOfMessages", 1)
        if not 1 <= most <= MAXIMUM_BATCH:
            raise SqsError("InvalidParameterValue", f"Value {most} for parameter MaxNumberOfMessages is invalid.")
        visibility = int(request.get("VisibilityTimeout", queue.attributes["VisibilityTimeout"]))
        _check_range("VisibilityTimeout", visibility, LONGEST_VISIBILITY_SECONDS)
        in_flight = sum(message.receives > 0 and message.visible_at > now for message in queue.messages)
        most = min(most, MAXIMUM_IN_FLIGHT - in_flight)  # no error: as with long polling
        received: list[Message] = []
        visible = [message for message in queue.messages if message.visible_at <= now]
        for message in sorted(visible, key=self.order):
            redrive = queue.redrive()
            if redrive and message.receives >= redrive[1]:
                queue.messages.remove(message)
                message.receives, message.receipt = 0, ""
                self.queues[redrive[0]].messages.append(message)
            elif len(received) < most:
                message.receives += 1
                message.first_received_at = message.first_received_at or now
                message.visible_at = now + visibility
                message.receipt = f"{queue.name} {message.message_id} {message.receives}"
                received.append(message)
        return {"Messages": [_received(message, request) for message in received]} if received else {}

    def _of_receipt(self, queue: Queue, receipt: str) -> Message | None:
        """The message, unless it is deleted or was received again."""
        if not receipt.startswith(f"{queue.name} "):
            raise SqsError("ReceiptHandleIsInvalid", f'The input receipt handle "{receipt}" is not valid.')
        return next((message for message in queue.messages if message.receipt == receipt), None)

    def _delete_message(self, request: Request) -> Answer:
        queue = self._queue(request)
        if message := self._of_receipt(queue, request["ReceiptHandle"]):
            queue.messages.remove(message)
        return {}

    def _change_message_visibility(self, request: Request) -> Answer:
        _check_range("VisibilityTimeout", request["VisibilityTimeout"], LONGEST_VISIBILITY_SECONDS)
        message, now = self._of_receipt(self._queue(request), request["ReceiptHandle"]), self._clock.time()
        if message is None or message.visible_at <= now:
            raise SqsError("MessageNotInflight", "The message referred to isn't in flight.")
        message.visible_at = now + request["VisibilityTimeout"]
        return {}

    def _batch(self, request: Request, one: Callable[[Request], Answer]) -> Answer:
        entries = request["Entries"]
        if not entries:
            raise _batch_error("EmptyBatchRequest", "The batch has no entries.")
        if len(entries) > MAXIMUM_BATCH:
            sentence = f"Maximum number of entries per request are 10. You have sent {len(entries)}."
            raise _batch_error("TooManyEntriesInBatchRequest", sentence)
        if len({entry["Id"] for entry in entries}) < len(entries):
            raise _batch_error("BatchEntryIdsNotDistinct", "Two or more batch entries in the request have the same Id.")
        self._queue(request)
        answer: dict[str, Any] = {"Successful": [], "Failed": []}
        for entry in entries:
            try:
                done = one(entry | {"QueueUrl": request["QueueUrl"]})
                answer["Successful"].append({"Id": entry["Id"]} | done)
            except SqsError as error:
                failure = {"Code": error.query_code, "Message": str(error), "SenderFault": True}
                answer["Failed"].append({"Id": entry["Id"]} | failure)
        return answer

    def _send_message_batch(self, request: Request) -> Answer:
        if sum(map(_bytes_of, request["Entries"])) > MAXIMUM_BYTES:
            raise _batch_error("BatchRequestTooLong", "Batch requests cannot be longer than 1048576 bytes.")
        return self._batch(request, self._send_message)

    def _delete_message_batch(self, request: Request) -> Answer:
        return self._batch(request, self._delete_message)

    def _change_message_visibility_batch(self, request: Request) -> Answer:
        return self._batch(request, self._change_message_visibility)


def _batch_error(name: str, message: str) -> SqsError:
    return SqsError(name, message, f"AWS.SimpleQueueService.{name}")


def _snake(operation: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", operation).lower()


def _md5(text: str) -> str:
    return md5(text.encode(), usedforsecurity=False).hexdigest()


def _bytes_of(entry: Request) -> int:
    """The body, and the attributes' names, types and values."""
    attributes = entry.get("MessageAttributes", {})
    texts = [name + one["DataType"] + one.get("StringValue", "") for name, one in attributes.items()]
    return sum(len(text.encode()) for text in (entry["MessageBody"], *texts))


def _check_range(name: str, value: int, most: int) -> None:
    if not 0 <= value <= most:
        raise SqsError("InvalidParameterValue", f"Value {value} for parameter {name} is invalid. Reason: 0 to {most}.")


def _received(message: Message, request: Request) -> Answer:
    system = {
        "ApproximateReceiveCount": str(message.receives),
        "SentTimestamp": str(int(message.sent_at * 1000)),
        "SenderId": ACCOUNT,
        "ApproximateFirstReceiveTimestamp": str(int(message.first_received_at * 1000)),
        **({"MessageGroupId": message.group_id} if message.group_id else {}),
    }
    wanted = {*request.get("MessageSystemAttributeNames", ()), *request.get("AttributeNames", ())}
    names = set(request.get("MessageAttributeNames", ()))
    given = {name: one for name, one in message.attributes.items() if name in names or names & {"All", ".*"}}
    system = {name: value for name, value in system.items() if name in wanted or "All" in wanted}
    return {
        "MessageId": message.message_id,
        "ReceiptHandle": message.receipt,
        "Body": message.body,
        "MD5OfBody": _md5(message.body),
        **({"Attributes": system} if system else {}),
        **({"MessageAttributes": given} if given else {}),
    }
