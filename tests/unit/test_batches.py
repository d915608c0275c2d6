"""The flow of a batch: each message's disposition decides its end, its log line and its metric."""

import dataclasses
import io
import json
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any

import pytest
from aws_lambda_powertools import Logger
from aws_lambda_powertools.metrics import EphemeralMetrics, MetricUnit

from conditional_writes import Deadline
from tests.unit.stubs import Stubbed
from tools.local_aws.functions import Context, record
from tools.local_aws.server import Endpoint
from workers.batches import Measurement, Queue, QueueWorker
from workers.invocation import RESERVED_SECONDS
from workers.queue_messages import Again, Dead, Disposition, Done, NotAnSqsEvent, QueueMessage

QUEUE_URL = "https://sqs.us-east-1.amazonaws.com/000000000000/orders"
DEAD_LETTER_URL = "https://sqs.us-east-1.amazonaws.com/000000000000/dead-letters"
MAXIMUM_DELIVERIES = 6


class Code(StrEnum):
    NOT_AN_ORDER = "NOT_AN_ORDER"
    NO_SUCH_CUSTOMER = "NO_SUCH_CUSTOMER"
    FAILED = "FAILED"


class NotAnOrder(Exception):
    pass


@dataclasses.dataclass
class Order:
    name: str

    @property
    def log_fields(self) -> Mapping[str, object]:
        return {"order": self.name}


class Placed:
    label = "placed"
    log_fields: Mapping[str, object] = {"number": 7}


DONE = Done(Placed())
WAITING = Again(Code.NO_SUCH_CUSTOMER, "no such customer", delay_seconds=8)
FAILED = Again(Code.FAILED, "timed out", error=TimeoutError("timed out"))
DEAD = Dead(Code.NOT_AN_ORDER, "sold out")

type Messages = Sequence[QueueMessage[Order]]


def decode(body: str) -> Order:
    if body.startswith("not an order"):
        raise NotAnOrder(f"order: expected one, got {body}")
    if body == "breaks the decoder":
        raise ZeroDivisionError("division by zero")
    return Order(body)


def disposition_of(message: QueueMessage[Order], error: Exception) -> Again | Dead:
    if isinstance(error, NotAnOrder):
        return Dead(Code.NOT_AN_ORDER, str(error))
    return Again(Code.FAILED, str(error), error=error)


def all_done(messages: Messages, _: Deadline) -> list[Measurement]:
    return given(dict.fromkeys((message.body for message in messages), DONE))(messages, _)


def given(dispositions: Mapping[str, Disposition]) -> Callable[[Messages, Deadline], list[Measurement]]:
    """A handler that gives each message the disposition for its body."""

    def handle(messages: Messages, _: Deadline) -> list[Measurement]:
        for message in messages:
            message.disposition = dispositions[message.body]
        return []

    return handle


@dataclasses.dataclass
class Working:
    """A worker whose answers, log lines and metrics are recorded."""

    sqs: Stubbed
    capsys: pytest.CaptureFixture[str]
    returned: list[str] = dataclasses.field(default_factory=list)
    lines: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    metrics: Counter[tuple[str, ...]] = dataclasses.field(default_factory=Counter)

    def process(
        self,
        records: Iterable[Any],
        handle: Callable[[Messages, Deadline], Iterable[Measurement]] = all_done,
        context: Any = None,
    ) -> list[str]:
        """Returns the ids that return to the queue."""
        log = io.StringIO()
        metrics = EphemeralMetrics(namespace="Orders", service="place_orders")
        queue = Queue(self.sqs.client, QUEUE_URL, DEAD_LETTER_URL, MAXIMUM_DELIVERIES)
        logger = Logger(service=f"worker-{uuid.uuid4()}", stream=log)
        worker = QueueWorker(decode, handle, disposition_of, queue, logger, metrics)
        response = worker.process({"Records": list(records)}, context or Context())
        metrics.flush_metrics()
        self.lines = list(map(json.loads, log.getvalue().splitlines()))
        self.metrics = counted(map(json.loads, self.capsys.readouterr().out.splitlines()))
        assert response.keys() == {"batchItemFailures"}
        assert all(failure.keys() == {"itemIdentifier"} for failure in response["batchItemFailures"])
        return [failure["itemIdentifier"] for failure in response["batchItemFailures"]]

    def ended(self, dispositions: Mapping[str, Disposition], receive_count: int = 1) -> list[str]:
        """The bodies of the messages that return to the queue, if the handler gives these dispositions by body."""
        records = [record(body, receive_count) | {"messageId": body} for body in dispositions]
        return self.process(records, given(dispositions))

    def dead_letters(self) -> list[tuple[str, str, str]]:
        """The body, reason code and reason of each dead letter."""
        sent = [
            entry
            for operation, request in self.sqs.requests
            if operation == "SendMessageBatch"
            for entry in request["Entries"]
        ]
        return [
            (
                entry["MessageBody"],
                entry["MessageAttributes"]["reason_code"]["StringValue"],
                entry["MessageAttributes"]["reason"]["StringValue"],
            )
            for entry in sent
        ]


def counted(lines: Iterable[dict[str, Any]]) -> Counter[tuple[str, ...]]:
    """The sums of all metrics, by name and by the values of their dimensions except for the service."""
    sums: Counter[tuple[str, ...]] = Counter()
    for line in lines:
        [directive] = line["_aws"]["CloudWatchMetrics"]
        assert directive["Namespace"] == "Orders"
        [dimensions] = directive["Dimensions"]
        assert line["service"] == "place_orders"
        others = tuple(f"{name}={line[name]}" for name in dimensions if name != "service")
        for metric in directive["Metrics"]:
            sums[metric["Name"], *others] += sum(line[metric["Name"]])
    return sums


@pytest.fixture
def working(stubbed_sqs: Stubbed, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Working:
    # A function's environment has these. A metric with a dimension of its own is made from them.
    monkeypatch.setenv("POWERTOOLS_METRICS_NAMESPACE", "Orders")
    monkeypatch.setenv("POWERTOOLS_SERVICE_NAME", "place_orders")
    return Working(stubbed_sqs, capsys)


def takes_dead_letters(sqs: Stubbed) -> None:
    sqs.answers("send_message_batch", {"Successful": [], "Failed": []})


def delays(sqs: Stubbed) -> None:
    sqs.answers("change_message_visibility_batch", {"Successful": [], "Failed": []})


def test_a_message_to_come_again_goes_back_and_no_other(working: Working, stubbed_sqs: Stubbed) -> None:
    takes_dead_letters(stubbed_sqs)
    delays(stubbed_sqs)
    assert working.ended({"a": DONE, "b": WAITING, "c": DEAD, "d": FAILED}) == ["b", "d"]


def test_a_batch_of_which_nothing_is_done_goes_back_message_by_message(working: Working) -> None:
    assert working.ended({"a": FAILED, "b": FAILED}) == ["a", "b"]


def test_the_handler_gets_the_messages_of_a_batch_together_and_decoded(working: Working) -> None:
    batches: list[list[Order]] = []

    def handle(messages: Messages, deadline: Deadline) -> list[Measurement]:
        batches.append([message.decoded for message in messages])
        return all_done(messages, deadline)

    assert working.process(map(record, ("a", "b", "c")), handle) == []
    assert batches == [[Order("a"), Order("b"), Order("c")]]


def test_the_handler_has_the_invocations_time_but_for_what_its_last_request_may_take(working: Working) -> None:
    remaining: list[float] = []

    def handle(messages: Messages, deadline: Deadline) -> list[Measurement]:
        remaining.append(deadline.remaining_seconds)
        return all_done(messages, deadline)

    working.process([record("a")], handle, Context(timeout_seconds=30))
    assert remaining == [pytest.approx(30 - RESERVED_SECONDS, abs=1)]


def test_a_handler_must_give_each_message_its_disposition(working: Working) -> None:
    with pytest.raises(AssertionError, match=r"^message-\d+ was given no disposition$"):
        working.process([record("not an order"), record("a")], lambda *_: [])  # the stub refuses every call


def test_what_cannot_be_decoded_is_not_handled_and_holds_up_no_other(working: Working, stubbed_sqs: Stubbed) -> None:
    takes_dead_letters(stubbed_sqs)
    handled: list[str] = []

    def handle(messages: Messages, deadline: Deadline) -> list[Measurement]:
        handled.extend(message.body for message in messages)
        return all_done(messages, deadline)

    broken = record("breaks the decoder")
    assert working.process([record("a"), record("not an order"), broken, record("b")], handle) == [broken["messageId"]]
    assert handled == ["a", "b"]
    assert working.dead_letters() == [
        ("not an order", Code.NOT_AN_ORDER, "order: expected one, got not an order"),
    ]


def test_an_empty_batch_is_handled(working: Working, stubbed_sqs: Stubbed) -> None:
    assert working.process([]) == []
    assert stubbed_sqs.operations == []


UNREADABLE_FIELDS: dict[str, dict[str, Any]] = {
    "receiptHandle: expected a text": {"receiptHandle": None},
    "body: expected a text": {"body": {"amount": 1}},
    "attributes.ApproximateReceiveCount: expected": {"attributes": None},
    "messageAttributes: expected": {"messageAttributes": []},
}


@pytest.mark.parametrize(("problem", "fields"), UNREADABLE_FIELDS.items())
def test_a_record_that_is_none_of_sqs_goes_back_and_holds_up_no_other(
    problem: str, fields: dict[str, Any], working: Working, caplog: pytest.LogCaptureFixture
) -> None:
    unreadable = record("secret") | fields
    assert working.process([record("a"), unreadable, record("b")]) == [unreadable["messageId"]]
    assert [line["order"] for line in working.lines] == ["a", "b"]
    assert f"message {unreadable['messageId']} is left on its queue: {problem}" in caplog.text
    assert "secret" not in caplog.text


@pytest.mark.parametrize(
    "unnamed", [None, "x", [], {}, record("x") | {"messageId": ""}, record("x") | {"messageId": 1}]
)
def test_an_event_with_a_record_that_has_no_id_is_refused_whole(working: Working, unnamed: Any) -> None:
    with pytest.raises(NotAnSqsEvent, match=r"^Records\[1\]: expected a record of SQS's, with its messageId$"):
        working.process([record("a"), unnamed], lambda *_: pytest.fail("handled"))


@pytest.mark.parametrize("event", [None, [], "x", {}, {"Records": None}, {"Records": {"0": record("x")}}])
def test_an_event_without_a_list_of_records_is_refused(stubbed_sqs: Stubbed, event: Any) -> None:
    nobody: Any = None
    queue = Queue(stubbed_sqs.client, QUEUE_URL, DEAD_LETTER_URL, MAXIMUM_DELIVERIES)
    worker = QueueWorker(decode, all_done, disposition_of, queue, nobody, nobody)
    context: Any = Context()
    with pytest.raises(NotAnSqsEvent, match=r"^Records: expected a list of SQS's records$"):
        worker.process(event, context)


@pytest.mark.parametrize("receive_count", [1, MAXIMUM_DELIVERIES - 1])
def test_until_the_last_delivery_no_retries_are_exhausted(
    working: Working, stubbed_sqs: Stubbed, receive_count: int
) -> None:
    delays(stubbed_sqs)
    assert working.ended({"a": WAITING, "b": FAILED, "c": DONE}, receive_count) == ["a", "b"]
    assert working.dead_letters() == []


@pytest.mark.parametrize("receive_count", [MAXIMUM_DELIVERIES, MAXIMUM_DELIVERIES + 1])
def test_after_the_last_delivery_what_is_not_done_is_dead_with_the_code_and_the_reason_why_it_waited(
    working: Working, stubbed_sqs: Stubbed, receive_count: int
) -> None:
    takes_dead_letters(stubbed_sqs)
    assert working.ended({"a": DONE, "b": DEAD, "c": WAITING, "d": FAILED}, receive_count) == []
    assert working.dead_letters() == [
        ("b", Code.NOT_AN_ORDER, "sold out"),
        ("c", Code.NO_SUCH_CUSTOMER, f"not processed in {receive_count} deliveries: no such customer"),
        ("d", Code.FAILED, f"not processed in {receive_count} deliveries: timed out"),
    ]


def test_what_the_dead_letter_queue_refuses_goes_back_to_the_queue_and_is_logged(
    working: Working, stubbed_sqs: Stubbed
) -> None:
    failed = {"Id": "0", "SenderFault": False, "Code": "InternalError"}
    stubbed_sqs.answers("send_message_batch", {"Successful": [], "Failed": [failed]})
    assert working.ended({"a": DEAD, "b": WAITING, "c": DONE}, MAXIMUM_DELIVERIES) == ["a"]
    assert [body for body, *_ in working.dead_letters()] == ["a", "b"]
    first, *_ = working.lines
    assert (first["level"], first["message"], first["message_id"]) == ("ERROR", "returned to the queue", "a")
    assert first["reason"] == "the dead-letter queue didn't take it: InternalError; sold out"
    assert first["exception_name"] == "NotSent"
    assert first["exception"].endswith("the dead-letter queue didn't take it: InternalError")
    assert working.metrics == {
        ("ReturnedToQueue",): 1,
        ("DeadLettered", f"ReasonCode={Code.NO_SUCH_CUSTOMER}"): 1,
    }


def test_a_batch_that_is_done_asks_sqs_for_nothing(working: Working, stubbed_sqs: Stubbed) -> None:
    assert working.ended({"a": DONE, "b": DONE}) == []
    assert stubbed_sqs.operations == []


def test_only_a_message_with_a_delay_is_redelivered_after_it(working: Working, stubbed_sqs: Stubbed) -> None:
    delays(stubbed_sqs)
    working.ended({"a": FAILED, "b": WAITING, "c": DONE})
    [parameters] = stubbed_sqs.parameters
    assert parameters["QueueUrl"] == QUEUE_URL
    assert [entry["VisibilityTimeout"] for entry in parameters["Entries"]] == [8]


def test_each_message_is_one_line_with_its_ids_and_its_reason_or_its_error(
    working: Working, stubbed_sqs: Stubbed
) -> None:
    takes_dead_letters(stubbed_sqs)
    delays(stubbed_sqs)
    working.ended({"a": DONE, "b": DEAD, "c": WAITING, "d": FAILED})
    assert [(line["message_id"], line["order"]) for line in working.lines] == [(name, name) for name in "abcd"]
    done, dead, waiting, failed = working.lines
    assert (done["level"], done["message"], done["number"]) == ("INFO", "placed", 7)
    assert (dead["level"], dead["message"]) == ("WARNING", "dead-lettered")
    assert (dead["reason_code"], dead["reason"]) == (Code.NOT_AN_ORDER, "sold out")
    assert (waiting["level"], waiting["message"]) == ("WARNING", "returned to the queue")
    assert (waiting["reason_code"], waiting["reason"]) == (Code.NO_SUCH_CUSTOMER, "no such customer")
    assert (failed["level"], failed["message"]) == ("ERROR", "returned to the queue")
    assert (failed["reason_code"], failed["reason"]) == (Code.FAILED, "timed out")
    assert (failed["exception_name"], failed["exception"]) == ("TimeoutError", "TimeoutError: timed out")


def test_a_message_that_cannot_be_decoded_is_a_line_with_its_id_alone(working: Working, stubbed_sqs: Stubbed) -> None:
    takes_dead_letters(stubbed_sqs)
    working.process([record("not an order") | {"messageId": "m-1"}])
    [line] = working.lines
    assert (line["message"], line["message_id"], line["reason_code"]) == ("dead-lettered", "m-1", Code.NOT_AN_ORDER)
    assert "order" not in line


def test_a_reason_is_printable_in_the_log_and_in_the_dead_letter(working: Working, stubbed_sqs: Stubbed) -> None:
    takes_dead_letters(stubbed_sqs)
    delays(stubbed_sqs)
    hostile = "no \0 map"
    working.ended({"a": DEAD._replace(reason=hostile), "b": WAITING._replace(reason=hostile)})
    assert [line["reason"] for line in working.lines] == [r"no \x00 map"] * 2
    assert working.dead_letters() == [("a", Code.NOT_AN_ORDER, r"no \x00 map")]


def test_each_message_counts_once_and_dead_letters_by_their_reason_code(working: Working, stubbed_sqs: Stubbed) -> None:
    takes_dead_letters(stubbed_sqs)
    delays(stubbed_sqs)
    working.process(
        [
            *map(record, ("done", "dead", "dead", "not an order", "waiting", "failed", "breaks the decoder")),
            record("waiting", MAXIMUM_DELIVERIES),
        ],
        given({"done": DONE, "dead": DEAD, "waiting": WAITING, "failed": FAILED}),
    )
    assert working.metrics == {
        ("ReturnedToQueue",): 3,
        ("DeadLettered", f"ReasonCode={Code.NOT_AN_ORDER}"): 3,
        ("DeadLettered", f"ReasonCode={Code.NO_SUCH_CUSTOMER}"): 1,
    }


def test_a_batch_of_which_nothing_goes_back_counts_a_zero(working: Working) -> None:
    working.ended({"a": DONE})
    assert working.metrics == {("ReturnedToQueue",): 0}
    assert ("ReturnedToQueue",) in working.metrics


def test_what_the_handler_measured_is_published(working: Working) -> None:
    def handle(messages: Messages, deadline: Deadline) -> list[Measurement]:
        return [
            *all_done(messages, deadline),
            Measurement("Placed", len(messages)),
            Measurement("Time", 12.5, MetricUnit.Milliseconds),
            Measurement("Time", 2.5, MetricUnit.Milliseconds),
            Measurement("Refused", 4, dimension=("Reason", "SOLD_OUT")),
        ]

    working.process([record("a"), record("b")], handle)
    assert working.metrics == {
        ("Placed",): 2,
        ("Time",): 15,
        ("Refused", "Reason=SOLD_OUT"): 4,
        ("ReturnedToQueue",): 0,
    }


def test_a_queue_is_as_the_functions_environment_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    named = {"QUEUE_URL": QUEUE_URL, "DEAD_LETTER_QUEUE_URL": DEAD_LETTER_URL, "MAX_RECEIVE_COUNT": "6"}
    for name, value in (Endpoint("http://127.0.0.1:9").environment | named).items():
        monkeypatch.setenv(name, value)
    assert Queue.from_environment()[1:] == (QUEUE_URL, DEAD_LETTER_URL, 6)
