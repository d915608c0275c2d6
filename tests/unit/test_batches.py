"""The flow of a batch: each message's disposition decides its end, its log line and its metric."""

import dataclasses
import io
import json
import sys
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from types import SimpleNamespace
from typing import Any

import boto3
import pytest
from aws_lambda_powertools import Logger
from aws_lambda_powertools.metrics import EphemeralMetrics, MetricUnit
from botocore.exceptions import ReadTimeoutError
from moto import mock_aws

from conditional_writes import Deadline, Key, Observed, Put, key
from conditional_writes.client import SLOWEST_CALL_SECONDS
from conditional_writes.items import from_dynamodb
from tests.support.clock import START, Clock, plenty
from tests.unit.stubs import Stubbed
from tools.local_aws.functions import Context, record
from tools.local_aws.server import Endpoint
from workers import attempts as attempts_module
from workers import batches
from workers.attempts import Attempts
from workers.batches import Measurement, Queue, QueueWorker
from workers.invocation import RESERVED_SECONDS, SETTLING_SECONDS
from workers.queue_messages import Again, Dead, Disposition, Done, NotAnSqsEvent, QueueMessage, Waiting

QUEUE_URL = "https://sqs.us-east-1.amazonaws.com/000000000000/orders"
DEAD_LETTER_URL = "https://sqs.us-east-1.amazonaws.com/000000000000/dead-letters"
RETENTION_SECONDS = 7 * 86_400
MAXIMUM_WAITS = 4


class Code(StrEnum):
    NOT_AN_ORDER = "NOT_AN_ORDER"
    NO_SUCH_CUSTOMER = "NO_SUCH_CUSTOMER"


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
WAITING = Waiting(Code.NO_SUCH_CUSTOMER, "no such customer")
FAILED = Again.after(TimeoutError("timed out"))
DEAD = Dead(Code.NOT_AN_ORDER, "sold out")


type Messages = Sequence[QueueMessage[Order]]


def decode(body: str) -> Order:
    if body.startswith("not an order"):
        raise NotAnOrder(f"order: expected one, got {body}")
    if body == "breaks the decoder":
        raise ZeroDivisionError("division by zero")
    if body == "exits":
        sys.exit("a library's")
    return Order(body)


def disposition_of(error: BaseException) -> Again | Dead:
    if isinstance(error, NotAnOrder):
        return Dead(Code.NOT_AN_ORDER, str(error))
    return Again.after(error)


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
    """A worker whose answers, log lines and metrics are recorded.

    `told` has the dead messages of each telling, `recorded` those of each recording.
    """

    sqs: Stubbed
    attempts: Attempts
    capsys: pytest.CaptureFixture[str]
    batch: dict[str, Any] = dataclasses.field(default_factory=dict)
    lines: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    metrics: Counter[tuple[str, ...]] = dataclasses.field(default_factory=Counter)
    told: list[list[str]] = dataclasses.field(default_factory=list)
    telling_fails: bool = False
    recorded: list[list[str]] = dataclasses.field(default_factory=list)
    recording_fails: bool = False

    def record(self, messages: Messages, _: Deadline) -> None:
        self.recorded.append([message.body for message, _ in messages])
        sent = {entry["MessageBody"] for entry in self.letters_sent()}
        assert sent.isdisjoint(self.recorded[-1]), "a message is recorded before its letter is sent"
        if self.recording_fails:
            raise ZeroDivisionError("division by zero")

    def tell(self, messages: Messages, _: Deadline) -> None:
        self.told.append([message.body for message, _ in messages])
        if self.telling_fails:
            raise ZeroDivisionError("division by zero")

    def process(
        self,
        records: Iterable[Any],
        handle: Callable[[Messages, Deadline], Iterable[Measurement]] = all_done,
        context: Any = None,
        log_level: str = "DEBUG",
    ) -> list[str]:
        """Returns the ids that return to the queue."""
        log = io.StringIO()
        metrics = EphemeralMetrics(namespace="Orders", service="place_orders")
        queue = Queue(self.sqs.client, QUEUE_URL, DEAD_LETTER_URL, RETENTION_SECONDS, 900, MAXIMUM_WAITS)
        logger = Logger(service=f"worker-{uuid.uuid4()}", stream=log, level=log_level)
        worker = QueueWorker(
            decode, handle, disposition_of, queue, self.attempts, logger, metrics, self.tell, self.record
        )
        response = worker.process({"Records": list(records)}, context or Context())
        metrics.flush_metrics()
        self.batch, *self.lines = map(json.loads, log.getvalue().splitlines())
        self.metrics = counted(map(json.loads, self.capsys.readouterr().out.splitlines()))
        assert response.keys() == {"batchItemFailures"}
        assert all(failure.keys() == {"itemIdentifier"} for failure in response["batchItemFailures"])
        return [failure["itemIdentifier"] for failure in response["batchItemFailures"]]

    def ended(self, dispositions: Mapping[str, Disposition], receive_count: int = 1) -> list[str]:
        """The bodies of the messages that return to the queue, if the handler gives these dispositions by body."""
        records = [record(body, receive_count) | {"messageId": body} for body in dispositions]
        return self.process(records, given(dispositions))

    def letters_sent(self) -> list[dict[str, Any]]:
        return [
            entry
            for operation, request in self.sqs.requests
            if operation == "SendMessageBatch"
            for entry in request["Entries"]
        ]

    def requests_of_dead_letters(self) -> list[str]:
        """The request of each dead letter's origin."""
        origins = [entry["MessageAttributes"]["origin"]["StringValue"] for entry in self.letters_sent()]
        return [json.loads(origin)["request_id"] for origin in origins]

    def dead_letters(self) -> list[tuple[str, str, str]]:
        """The body, reason code and reason of each dead letter."""
        return [
            (
                entry["MessageBody"],
                entry["MessageAttributes"]["reason_code"]["StringValue"],
                entry["MessageAttributes"]["reason"]["StringValue"],
            )
            for entry in self.letters_sent()
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
def attempts(monkeypatch: pytest.MonkeyPatch) -> Iterator[Attempts]:
    for name, value in Endpoint("http://127.0.0.1:9").environment.items():
        if not name.startswith("AWS_ENDPOINT_URL"):
            monkeypatch.setenv(name, value)
    with mock_aws():
        client = boto3.client("dynamodb")
        client.create_table(
            TableName="attempts",
            BillingMode="PAY_PER_REQUEST",
            AttributeDefinitions=[{"AttributeName": "message_id", "AttributeType": "S"}],
            KeySchema=[{"AttributeName": "message_id", "KeyType": "HASH"}],
        )
        yield Attempts(client, "attempts")


@pytest.fixture
def working(
    stubbed_sqs: Stubbed,
    attempts: Attempts,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Working:
    # A function's environment has these. A metric with a dimension of its own is made from them.
    monkeypatch.setenv("POWERTOOLS_METRICS_NAMESPACE", "Orders")
    monkeypatch.setenv("POWERTOOLS_SERVICE_NAME", "place_orders")
    return Working(stubbed_sqs, attempts, capsys)


def takes_dead_letters(sqs: Stubbed) -> None:
    sqs.answers("send_message_batch", {"Successful": [], "Failed": []})


def delays(sqs: Stubbed, times: int = 1) -> None:
    for _ in range(times):
        sqs.answers("change_message_visibility_batch", {"Successful": [], "Failed": []})


def test_a_message_to_come_again_goes_back_and_no_other(working: Working, stubbed_sqs: Stubbed) -> None:
    takes_dead_letters(stubbed_sqs)
    delays(stubbed_sqs)
    assert working.ended({"a": DONE, "b": WAITING, "c": DEAD, "d": FAILED}) == ["b", "d"]


def test_a_batch_of_which_nothing_is_done_goes_back_message_by_message(working: Working, stubbed_sqs: Stubbed) -> None:
    delays(stubbed_sqs)
    assert working.ended({"a": FAILED, "b": FAILED}) == ["a", "b"]


def test_the_handler_gets_the_messages_of_a_batch_together_and_decoded(working: Working) -> None:
    batches: list[list[Order]] = []

    def handle(messages: Messages, deadline: Deadline) -> list[Measurement]:
        batches.append([message.decoded for message in messages])
        return all_done(messages, deadline)

    assert working.process(map(record, ("a", "b", "c")), handle) == []
    assert batches == [[Order("a"), Order("b"), Order("c")]]


def test_the_handler_has_the_invocations_time_but_for_two_slow_requests(working: Working) -> None:
    remaining: list[float] = []

    def handle(messages: Messages, deadline: Deadline) -> list[Measurement]:
        remaining.append(deadline.remaining_seconds)
        return all_done(messages, deadline)

    working.process([record("a")], handle, Context(timeout_seconds=90))
    assert remaining == [pytest.approx(90 - RESERVED_SECONDS - SETTLING_SECONDS, abs=1)]


def test_a_message_that_the_handler_forgets_or_raises_an_error_at_comes_again(
    working: Working, stubbed_sqs: Stubbed
) -> None:
    def handle(messages: Messages, _: Deadline) -> list[Measurement]:
        messages[0].disposition = DONE
        raise ZeroDivisionError("division by zero")

    delays(stubbed_sqs, 2)
    assert len(working.process([record("a"), record("b")], handle)) == 1
    assert [line["message"] for line in working.lines] == ["placed", "returned to the queue"]
    assert working.lines[1]["exception"].endswith("ZeroDivisionError: division by zero")
    assert len(working.process([record("a")], lambda *_: [])) == 1
    assert working.lines[0]["reason"] == "it was given no disposition"


def test_what_cannot_be_decoded_is_not_handled_and_holds_up_no_other(working: Working, stubbed_sqs: Stubbed) -> None:
    takes_dead_letters(stubbed_sqs)
    delays(stubbed_sqs)
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


def test_one_message_of_a_hundred_that_ends_its_decoder_comes_again_and_the_others_are_done(
    working: Working, stubbed_sqs: Stubbed
) -> None:
    delays(stubbed_sqs)
    records = [record("exits" if number == 7 else f"order {number}") for number in range(100)]
    assert working.process(records) == [records[7]["messageId"]]
    [failed] = [line for line in working.lines if line["level"] == "ERROR"]
    assert (failed["reason"], failed["exception_name"]) == ("a library's", "SystemExit")
    assert working.batch["placed"] == 99


def test_an_error_that_ends_the_function_while_it_handles_messages_ends_it(working: Working) -> None:
    """It may be the function's end, as when it is killed. So it isn't a message's."""

    def handle(messages: Messages, _: Deadline) -> list[Measurement]:
        sys.exit("now")

    with pytest.raises(SystemExit):
        working.process([record("a")], handle)


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
def test_an_event_without_a_list_of_records_is_refused(event: Any) -> None:
    nobody: Any = None
    worker = QueueWorker(decode, all_done, disposition_of, nobody, nobody, nobody, nobody)
    context: Any = Context()
    with pytest.raises(NotAnSqsEvent, match=r"^Records: expected a list of SQS's records$"):
        worker.process(event, context)


@pytest.mark.parametrize("receive_count", [1, 2, 61, 1000])
def test_what_aws_could_not_do_comes_again_however_often(
    working: Working, stubbed_sqs: Stubbed, receive_count: int
) -> None:
    delays(stubbed_sqs, 2)
    assert working.ended({"a": FAILED, "b": DONE}, receive_count) == ["a"]
    assert working.dead_letters() == []
    stubbed_sqs.forgets_the_rest()


def test_in_the_last_hours_of_its_retention_a_message_is_dead(working: Working, stubbed_sqs: Stubbed) -> None:
    takes_dead_letters(stubbed_sqs)
    delays(stubbed_sqs)
    now = datetime.now(UTC)
    last_hours = now - timedelta(seconds=RETENTION_SECONDS - batches.LAST_SECONDS)
    records = [record("a", 60, last_hours), record("b", 2, last_hours + timedelta(minutes=1))]
    assert working.process(records, given({"a": FAILED, "b": FAILED})) == [records[1]["messageId"]]
    assert working.dead_letters() == [("a", "RETRIES_EXHAUSTED", "not processed in 6.9 days on the queue: timed out")]


def test_what_waits_is_dead_in_the_last_hours_too(working: Working, stubbed_sqs: Stubbed) -> None:
    takes_dead_letters(stubbed_sqs)
    last_hours = datetime.now(UTC) - timedelta(seconds=RETENTION_SECONDS - batches.LAST_SECONDS)
    assert working.process([record("a", 60, last_hours)], given({"a": WAITING})) == []
    assert [code for _, code, _ in working.dead_letters()] == [Code.NO_SUCH_CUSTOMER]
    stubbed_sqs.forgets_the_rest()


def test_what_waits_in_too_many_deliveries_in_a_row_is_dead_with_its_code(
    working: Working, stubbed_sqs: Stubbed
) -> None:
    delays(stubbed_sqs, MAXIMUM_WAITS - 1)
    takes_dead_letters(stubbed_sqs)
    for receive_count in range(1, MAXIMUM_WAITS):
        assert working.ended({"a": WAITING}, receive_count) == ["a"]
    assert working.ended({"a": WAITING}, MAXIMUM_WAITS) == []
    reason = f"waited through {MAXIMUM_WAITS} deliveries: no such customer"
    assert working.dead_letters() == [("a", Code.NO_SUCH_CUSTOMER, reason)]
    assert attempt(working, "a") is None


def test_a_dead_letter_names_the_request_that_gave_the_message_up(working: Working, stubbed_sqs: Stubbed) -> None:
    takes_dead_letters(stubbed_sqs)
    context = Context()
    assert working.process([record("a")], given({"a": Dead(Code.NOT_AN_ORDER, "no map")}), context) == []
    assert working.requests_of_dead_letters() == [context.aws_request_id]


def test_a_delivery_that_did_not_find_the_message_waiting_begins_the_waits_anew(
    working: Working, stubbed_sqs: Stubbed
) -> None:
    """The message that it waits for may have been held up by the same outage."""
    takes_dead_letters(stubbed_sqs)
    delays(stubbed_sqs, 100)
    ends = [WAITING] * (MAXIMUM_WAITS - 1) + [FAILED] * 50 + [WAITING] * (MAXIMUM_WAITS - 1)
    for receive_count, end in enumerate(ends, 1):
        assert working.ended({"a": end}, receive_count) == ["a"]
    stubbed_sqs.forgets_the_rest()


def test_what_the_dead_letter_queue_refuses_goes_back_to_the_queue_and_is_logged(
    working: Working, stubbed_sqs: Stubbed
) -> None:
    failed = {"Id": "0", "SenderFault": False, "Code": "InternalError"}
    stubbed_sqs.answers("send_message_batch", {"Successful": [], "Failed": [failed]})
    delays(stubbed_sqs)
    assert working.ended({"a": DEAD, "b": DEAD, "c": DONE}) == ["a"]
    assert [body for body, *_ in working.dead_letters()] == ["a", "b"]
    first, *_ = working.lines
    assert (first["level"], first["message"], first["message_id"]) == ("ERROR", "returned to the queue", "a")
    assert first["reason"] == "the dead-letter queue didn't take it: InternalError; NOT_AN_ORDER: sold out"
    assert "exception" not in first  # nothing was raised
    assert working.metrics[("ReturnedToQueue",)] == working.metrics[("DeadLettered",)] == 1


def test_dead_messages_are_told_of_once_and_no_others(working: Working, stubbed_sqs: Stubbed) -> None:
    takes_dead_letters(stubbed_sqs)
    delays(stubbed_sqs)
    working.ended({"a": DONE, "b": DEAD, "c": FAILED, "d": DEAD, "e": WAITING})
    assert working.told == [["b", "d"]]


def test_what_the_dead_letter_queue_refuses_is_not_told_of(working: Working, stubbed_sqs: Stubbed) -> None:
    failed = [{"Id": "0", "SenderFault": False, "Code": "InternalError"}]
    stubbed_sqs.answers("send_message_batch", {"Successful": [], "Failed": failed})
    delays(stubbed_sqs)
    assert working.ended({"a": DEAD, "b": DEAD}) == ["a"]
    assert working.told == [["b"]]


def test_without_dead_messages_nobody_is_told(working: Working) -> None:
    assert working.ended({"a": DONE}) == []
    assert working.told == []


def test_a_telling_that_fails_is_logged_and_changes_no_disposition(working: Working, stubbed_sqs: Stubbed) -> None:
    takes_dead_letters(stubbed_sqs)
    delays(stubbed_sqs)
    working.telling_fails = True
    assert working.ended({"a": DEAD, "b": FAILED, "c": DONE}) == ["b"]
    line = working.lines[-1]
    assert (line["level"], line["message"]) == ("WARNING", "could not tell of dead letters")
    assert line["exception_name"] == "ZeroDivisionError"
    assert working.metrics[("DeadLettered",)] == 1


def test_dead_messages_are_recorded_before_their_letters_are_sent(working: Working, stubbed_sqs: Stubbed) -> None:
    takes_dead_letters(stubbed_sqs)
    delays(stubbed_sqs)
    working.ended({"a": DONE, "b": DEAD, "c": FAILED, "d": DEAD, "e": WAITING})
    assert working.recorded == [["b", "d"]]


def test_what_cannot_be_recorded_comes_again_without_a_letter(working: Working, stubbed_sqs: Stubbed) -> None:
    delays(stubbed_sqs)
    working.recording_fails = True
    assert working.ended({"a": DEAD, "b": DONE}) == ["a"]
    assert working.letters_sent() == working.told == []
    first, *_ = working.lines
    assert first["reason"] == "NOT_AN_ORDER, and it couldn't be recorded: division by zero"


def test_what_sqs_would_delete_soon_is_dead_even_without_a_record(working: Working, stubbed_sqs: Stubbed) -> None:
    takes_dead_letters(stubbed_sqs)
    working.recording_fails = True
    last_hours = datetime.now(UTC) - timedelta(seconds=RETENTION_SECONDS - batches.LAST_SECONDS)
    assert working.process([record("not an order", 2, last_hours)]) == []
    assert [body for body, *_ in working.dead_letters()] == ["not an order"]


def test_a_batch_that_is_done_asks_sqs_for_nothing(working: Working, stubbed_sqs: Stubbed) -> None:
    assert working.ended({"a": DONE, "b": DONE}) == []
    assert stubbed_sqs.operations == []


def test_what_comes_again_comes_after_a_delay_that_grows_with_its_own_deliveries_or_waits(
    working: Working, stubbed_sqs: Stubbed
) -> None:
    delays(stubbed_sqs, 3)
    working.ended({"a": FAILED, "b": WAITING, "c": DONE})
    working.ended({"a": FAILED, "b": WAITING}, 6)
    first, hidden, second = (
        [entry["VisibilityTimeout"] for entry in parameters["Entries"]] for parameters in stubbed_sqs.parameters
    )
    assert first == [2, 2]
    assert [90 < each <= 150 for each in hidden] == [True, True]  # until the invocation would have timed out
    assert 855 <= second[0] <= 900
    assert second[1] == 2


def test_a_batch_is_a_line_and_each_message_that_is_not_done_is_another(working: Working, stubbed_sqs: Stubbed) -> None:
    takes_dead_letters(stubbed_sqs)
    delays(stubbed_sqs)
    ends = {"a": DONE, "b": DEAD, "c": WAITING, "d": FAILED, "e": DONE, "f": FAILED}
    records = [record(body) | {"messageId": body} for body in ends]
    working.process(records, given(ends), log_level="INFO")
    assert (working.batch["level"], working.batch["message"], working.batch["messages"]) == ("INFO", "batch", 6)
    counts = {name: working.batch[name] for name in ("placed", "dead_lettered", "waiting", "returned")}
    assert counts == {"placed": 2, "dead_lettered": 1, "waiting": 1, "returned": 2}
    assert [(line["message_id"], line["order"]) for line in working.lines] == [(name, name) for name in "bcdf"]
    dead, waiting, failed, failed_too = working.lines
    assert (dead["level"], dead["message"]) == ("WARNING", "dead-lettered")
    assert (dead["reason_code"], dead["reason"]) == (Code.NOT_AN_ORDER, "sold out")
    assert (waiting["level"], waiting["message"]) == ("WARNING", "waiting")
    assert (waiting["reason_code"], waiting["reason"]) == (Code.NO_SUCH_CUSTOMER, "no such customer")
    assert (failed["level"], failed["message"], failed["reason"]) == ("ERROR", "returned to the queue", "timed out")
    assert (failed["exception_name"], failed["exception"]) == ("TimeoutError", "TimeoutError: timed out")
    assert failed_too["reason"] == "timed out"
    assert "exception" not in failed_too  # the same error's traceback is in the first line


def test_at_debug_a_message_that_is_done_is_a_line_too(working: Working) -> None:
    working.ended({"a": DONE})
    [done] = working.lines
    assert (done["level"], done["message"], done["order"], done["number"]) == ("DEBUG", "placed", "a", 7)


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


def test_each_message_counts_once_and_dead_letters_also_by_their_reason_code(
    working: Working, stubbed_sqs: Stubbed
) -> None:
    takes_dead_letters(stubbed_sqs)
    delays(stubbed_sqs)
    working.process(
        list(map(record, ("done", "dead", "dead", "not an order", "waiting", "failed", "breaks the decoder"))),
        given({"done": DONE, "dead": DEAD, "waiting": WAITING, "failed": FAILED}),
    )
    assert 0 <= working.metrics.pop(("MessageAge",)) < 60_000
    assert 0 <= working.metrics.pop(("ReturnedAge",)) < 60_000
    assert working.metrics == {
        ("Waiting",): 1,
        ("ReturnedToQueue",): 2,
        ("DeadLettered",): 3,
        ("DeadLettered", f"ReasonCode={Code.NOT_AN_ORDER}"): 3,
    }


def test_a_batch_of_which_nothing_goes_back_counts_zeros(working: Working) -> None:
    working.ended({"a": DONE})
    del working.metrics[("MessageAge",)]
    zeros = {("Waiting",): 0, ("ReturnedToQueue",): 0, ("DeadLettered",): 0, ("ReturnedAge",): 0}
    assert dict(working.metrics) == zeros


def test_the_age_of_a_message_is_the_time_since_it_was_sent(working: Working, stubbed_sqs: Stubbed) -> None:
    """SQS's own metric of the oldest message leaves out what was received three times."""
    delays(stubbed_sqs)
    now = datetime.now(UTC)
    records = [record("a", 1, now - timedelta(minutes=2))]
    records += [record(body, 1, now - timedelta(hours=hours)) for hours, body in enumerate(("b", "c"), 1)]
    working.process(records, given({"a": DONE, "b": FAILED, "c": WAITING}))
    assert working.metrics[("MessageAge",)] == pytest.approx(120_000, abs=10_000)
    assert working.metrics[("ReturnedAge",)] == pytest.approx(3_600_000, abs=10_000)


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
    measured = {("Placed",): 2, ("Time",): 15, ("Refused", "Reason=SOLD_OUT"): 4}
    assert working.metrics.items() >= measured.items()


class Killed(BaseException):
    pass


def killed_by(*killers: str) -> Callable[[Messages, Deadline], list[Measurement]]:
    """A handler whose process ends as soon as it handles one of these bodies."""

    def handle(messages: Messages, deadline: Deadline) -> list[Measurement]:
        for message in messages:
            if message.body in killers:
                raise Killed
        return all_done(messages, deadline)

    return handle


def attempt(working: Working, message_id: str) -> dict[str, Any] | None:
    """The message's item in the table of attempts; None if it counts no attempt and no wait."""
    found = working.attempts.client.get_item(TableName="attempts", Key={"message_id": {"S": message_id}})
    item = from_dynamodb(found["Item"]) if "Item" in found else {}
    return item if item.get("begun") or item.get("waits") else None


def delivered(working: Working, bodies: Iterable[str], receive_count: int, *killers: str) -> list[str] | None:
    """The bodies that return to the queue; None if the function was killed."""
    records = [record(body, receive_count) | {"messageId": body, "receiptHandle": f"of {body}"} for body in bodies]
    try:
        return working.process(records, killed_by(*killers))
    except Killed:
        return None


def acknowledged(sqs: Stubbed) -> list[str]:
    """The receipts of messages that were deleted by the function itself."""
    return [
        entry["ReceiptHandle"]
        for operation, request in sqs.requests
        if operation == "DeleteMessageBatch"
        for entry in request["Entries"]
    ]


def test_a_message_that_kills_its_function_each_time_is_dead_and_its_neighbours_are_done(
    working: Working, stubbed_sqs: Stubbed
) -> None:
    bodies = ["a", "killer", "b"]
    assert delivered(working, bodies, 1, "killer") is None
    assert delivered(working, bodies, 2, "killer") is None
    assert stubbed_sqs.operations == []  # so far anything may have killed it
    delays(stubbed_sqs)
    assert delivered(working, bodies, 3, "killer") is None
    assert [attempt(working, body)["begun"] for body in bodies] == [1, 1, 1]  # type: ignore[index]
    delays(stubbed_sqs)
    for _ in range(2):
        stubbed_sqs.answers("delete_message_batch", {"Successful": [], "Failed": []})
    assert delivered(working, bodies, 4, "killer") is None
    assert len(acknowledged(stubbed_sqs)) < 3
    # The killer may have been the first of the three that were processed alone.
    alive = [body for body in bodies if f"of {body}" not in acknowledged(stubbed_sqs)]
    stubbed_sqs.forgets_the_rest()
    for receive_count in (5, 6, 7):
        delays(stubbed_sqs)
        for _ in range(3):
            stubbed_sqs.answers("delete_message_batch", {"Successful": [], "Failed": []})
        assert delivered(working, alive, receive_count, "killer") is None
        stubbed_sqs.forgets_the_rest()
        alive = ["killer"]
        assert {"of a", "of b"} <= set(acknowledged(stubbed_sqs))
    assert [attempt(working, body) for body in ("a", "b")] == [None, None]
    delays(stubbed_sqs)
    takes_dead_letters(stubbed_sqs)
    stubbed_sqs.answers("delete_message_batch", {"Successful": [], "Failed": []})
    assert delivered(working, alive, 8, "killer") == []
    reason = "each of 5 attempts to process it killed its function: exit, memory or timeout"
    assert working.dead_letters() == [("killer", "FUNCTION_KILLED", reason)]
    assert all(working.requests_of_dead_letters()), "the letter of a message processed alone names its request, too"
    assert attempt(working, "killer") is None


def test_a_killer_whose_dead_letter_is_refused_is_not_processed_again(working: Working, stubbed_sqs: Stubbed) -> None:
    working.attempts._write(
        [Put(key("attempts", message_id="killer"), {"begun": 5, "waits": 0, "waited_at": 0})], plenty()
    )
    delays(stubbed_sqs)
    stubbed_sqs.refuses("send_message_batch", "AccessDenied")
    delays(stubbed_sqs)
    assert delivered(working, ["killer"], 8, "killer") == ["killer"]
    assert attempt(working, "killer")["begun"] == 5  # type: ignore[index]


def has_begun(working: Working, message_id: str, begun: int) -> None:
    item = {"begun": begun, "waits": 0, "waited_at": 0}
    working.attempts._write([Put(key("attempts", message_id=message_id), item)], plenty())


@pytest.mark.parametrize(("begun", "receive_count"), [(0, 3), (4, 7)])
def test_an_attempt_that_cannot_be_begun_changes_no_count(
    working: Working, stubbed_sqs: Stubbed, monkeypatch: pytest.MonkeyPatch, begun: int, receive_count: int
) -> None:
    """Else a killer would be processed together with its neighbours again."""
    if begun:
        has_begun(working, "killer", begun)
    written = iter([True])

    def fails_after_it_took_effect(*arguments: Any) -> None:
        write(*arguments)
        for _ in written:
            raise TimeoutError("no answer")

    write = attempts_module.write
    monkeypatch.setattr(attempts_module, "write", fails_after_it_took_effect)
    delays(stubbed_sqs, 2)
    stubbed_sqs.answers("delete_message_batch", {"Successful": [], "Failed": []})
    assert delivered(working, ["killer"], receive_count, "killer") == ["killer"]
    assert (attempt(working, "killer") or {"begun": 0})["begun"] == begun
    stubbed_sqs.forgets_the_rest()


def test_a_message_that_is_twice_in_a_batch_is_begun_once(working: Working, stubbed_sqs: Stubbed) -> None:
    has_begun(working, "b", 1)
    delays(stubbed_sqs, 4)
    for _ in range(4):
        stubbed_sqs.answers("delete_message_batch", {"Successful": [], "Failed": []})
    assert delivered(working, ["a", "a", "b", "b"], 3) == []
    assert [attempt(working, "a"), attempt(working, "b")] == [None, None]
    stubbed_sqs.forgets_the_rest()


def test_what_was_done_together_is_reported_before_a_suspect_may_kill_the_function(
    working: Working, stubbed_sqs: Stubbed, capsys: pytest.CaptureFixture[str]
) -> None:
    has_begun(working, "killer", 1)
    delays(stubbed_sqs)
    stubbed_sqs.answers("delete_message_batch", {"Successful": [], "Failed": []})
    assert delivered(working, ["a", "killer"], 3, "killer") is None
    assert counted(map(json.loads, capsys.readouterr().out.splitlines()))[("MessageAge",)] >= 0
    assert acknowledged(stubbed_sqs) == ["of a"]


def test_what_is_dead_is_told_of_before_a_suspect_may_kill_the_function(working: Working, stubbed_sqs: Stubbed) -> None:
    has_begun(working, "not an order, alone", 1)
    has_begun(working, "killer", 2)
    delays(stubbed_sqs)
    for _ in range(2):
        takes_dead_letters(stubbed_sqs)
        stubbed_sqs.answers("delete_message_batch", {"Successful": [], "Failed": []})
    assert delivered(working, ["killer", "not an order, alone", "not an order"], 3, "killer") is None
    assert working.told == [["not an order"], ["not an order, alone"]]


def test_an_attempt_that_ends_is_no_kill_whatever_its_end(working: Working, stubbed_sqs: Stubbed) -> None:
    """An outage of any length condemns nobody."""
    for receive_count in range(1, 20):
        delays(stubbed_sqs, 2)
        assert working.ended({"a": FAILED}, receive_count) == ["a"]
        assert attempt(working, "a") is None
        stubbed_sqs.forgets_the_rest()


def test_without_its_attempts_a_redelivered_message_comes_again_and_a_new_one_is_processed(
    working: Working, stubbed_sqs: Stubbed
) -> None:
    working.attempts = Attempts(working.attempts.client, "no-such-table")
    delays(stubbed_sqs)
    old, new = record("old", 2), record("new", 1)
    assert working.process([old, new]) == [old["messageId"]]
    [failed] = [line for line in working.lines if line["level"] == "ERROR"]
    assert failed["reason"].startswith("its attempt couldn't be begun: there is no table ")


def test_an_attempt_that_is_left_unread_or_is_corrupt_costs_its_own_message_only(
    working: Working, stubbed_sqs: Stubbed, monkeypatch: pytest.MonkeyPatch
) -> None:
    bodies = [f"order {number}" for number in range(100)]
    stuck, corrupt = bodies[3], bodies[5]
    working.attempts._write([Put(key("attempts", message_id=corrupt), {"begun": "often"})], plenty())
    read_once = attempts_module.read_once

    def leaves_one(client: Any, keys: Iterable[Key], deadline: Deadline) -> Observed:
        found = dict(read_once(client, keys, deadline))
        del found[key("attempts", message_id=stuck)]
        return found

    monkeypatch.setattr(attempts_module, "read_once", leaves_one)
    delays(stubbed_sqs, 11)
    assert delivered(working, bodies, 3) == [stuck, corrupt]
    reasons = {line["message_id"]: line["reason"] for line in working.lines if line["level"] == "ERROR"}
    assert reasons[stuck] == "its attempt couldn't be begun: DynamoDB left it unread"
    assert reasons[corrupt].startswith("its attempt couldn't be begun: invalid literal for int()")


def test_attempts_that_cannot_be_begun_cost_no_message_that_is_no_suspect(
    working: Working, stubbed_sqs: Stubbed, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any) -> None:
        raise TimeoutError("no answer")

    monkeypatch.setattr(Attempts, "begin", fails)
    delays(stubbed_sqs)
    suspect, second, first = record("a", 3), record("b", 2), record("c", 1)
    assert working.process([suspect, second, first]) == [suspect["messageId"]]


def test_a_slow_table_of_attempts_holds_up_first_deliveries_for_seconds_only(
    working: Working, stubbed_sqs: Stubbed, monkeypatch: pytest.MonkeyPatch
) -> None:
    def throttled(_: object, __: object, deadline: Deadline) -> None:
        while True:
            deadline.check("reading")
            time.sleep(0.01)

    monkeypatch.setattr(attempts_module, "read_once", throttled)
    monkeypatch.setattr(batches, "BEGIN_SECONDS", 0.1)
    delays(stubbed_sqs)
    old, new = record("old", 2), record("new", 1)
    remaining: list[float] = []

    def handle(messages: Messages, deadline: Deadline) -> list[Measurement]:
        remaining.append(deadline.remaining_seconds)
        return all_done(messages, deadline)

    assert working.process([old, new], handle, Context(timeout_seconds=59)) == [old["messageId"]]
    assert remaining[0] > 1


def test_a_slow_table_of_attempts_returns_no_suspect_that_holds_up_nobody(
    working: Working, stubbed_sqs: Stubbed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A try to read or to write takes three seconds, and the first one to write times out."""
    now = 1000.0

    def slow(answer: Callable[..., Any], tries: int) -> Callable[..., Any]:
        def call(client: Any, wanted: Any, *rest: Any) -> Any:
            nonlocal now
            for _ in range(tries):
                rest[-1].check("calling")
                now += 3
            return answer(client, wanted, *rest)

        return call

    monkeypatch.setattr("conditional_writes.deadline.time", SimpleNamespace(monotonic=lambda: now))
    monkeypatch.setattr(attempts_module, "read_once", slow(attempts_module.read_once, 1))
    monkeypatch.setattr(attempts_module, "write", slow(attempts_module.write, 2))
    for _ in range(2):
        delays(stubbed_sqs)
    suspects = [record(f"order {number}", 3) for number in range(5)]
    assert working.process([*suspects, record("new")]) == [suspect["messageId"] for suspect in suspects]
    assert working.process(suspects) == []
    stubbed_sqs.forgets_the_rest()


@pytest.mark.parametrize("work_seconds", [0.0, 90 - RESERVED_SECONDS - SETTLING_SECONDS + SLOWEST_CALL_SECONDS])
@pytest.mark.parametrize("receive_count", [1, 3])
def test_while_sqs_hangs_99_poison_messages_and_a_good_one_are_over_within_the_timeout(
    working: Working, monkeypatch: pytest.MonkeyPatch, work_seconds: float, receive_count: int
) -> None:
    """Each request to SQS takes the longest time that a call can take, and gets no answer."""
    clock = Clock()

    def hang(*_: object, **__: object) -> None:
        clock.sleep(SLOWEST_CALL_SECONDS)
        raise ReadTimeoutError(endpoint_url=QUEUE_URL)

    def handle(messages: Messages, deadline: Deadline) -> list[Measurement]:
        clock.sleep(work_seconds)
        return all_done(messages, deadline)

    monkeypatch.setattr("conditional_writes.deadline.time", SimpleNamespace(monotonic=clock))
    for module in ("redelivery", "sending"):
        monkeypatch.setattr(f"workers.{module}.in_parallel", clock.side_by_side)
    for operation in ("send_message_batch", "change_message_visibility_batch", "delete_message_batch"):
        monkeypatch.setattr(working.sqs.client, operation, hang)
    records = [record(f"not an order {number}", receive_count) for number in range(99)] + [record("a", receive_count)]
    returned = working.process(records, handle, Context(timeout_seconds=90))
    assert returned == [one["messageId"] for one in records[:99]]
    assert SLOWEST_CALL_SECONDS < clock.seconds - START < 90


def test_while_a_telling_takes_as_long_as_it_can_suspects_are_over_within_the_timeout(
    working: Working, stubbed_sqs: Stubbed, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0

    def tell(messages: Messages, deadline: Deadline) -> None:
        nonlocal now
        now += SLOWEST_CALL_SECONDS if deadline.remaining_seconds > 0 else 0

    monkeypatch.setattr("conditional_writes.deadline.time", SimpleNamespace(monotonic=lambda: now))
    monkeypatch.setattr(working, "tell", tell)
    for operation in ("send_message_batch", "change_message_visibility_batch", "delete_message_batch"):
        monkeypatch.setattr(stubbed_sqs.client, operation, lambda **_: {"Successful": []})
    records = [record(f"not an order {number}", 4) for number in range(20)]
    for each in records[1:]:
        has_begun(working, each["messageId"], 1)
    returned = working.process(records, context=Context(timeout_seconds=90))
    assert 0 < len(returned) < 20, "some were dead before time was short, and the others come again"
    assert SLOWEST_CALL_SECONDS < now - 1000 < 90


def test_a_message_that_waits_is_no_suspect(working: Working, stubbed_sqs: Stubbed) -> None:
    delays(stubbed_sqs, 3)
    for receive_count in (1, 2, 3):  # three requests: none of them hides a suspect
        assert working.ended({"a": WAITING}, receive_count) == ["a"]
    assert attempt(working, "a")["waits"] == 3  # type: ignore[index]


def test_a_queue_is_as_the_functions_environment_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = {"RETENTION_SECONDS": "604800", "LONGEST_REDELIVERY_SECONDS": "900", "MAXIMUM_WAITS": "8"}
    named = {"QUEUE_URL": QUEUE_URL, "DEAD_LETTER_QUEUE_URL": DEAD_LETTER_URL} | numbers
    for name, value in (Endpoint("http://127.0.0.1:9").environment | named).items():
        monkeypatch.setenv(name, value)
    assert Queue.from_environment()[1:] == (QUEUE_URL, DEAD_LETTER_URL, 604_800, 900, 8)
