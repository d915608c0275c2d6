"""The flow of a batch: each message's disposition decides its end, its log line and its metric."""

import dataclasses
import io
import json
import sys
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any

import pytest
from aws_lambda_powertools import Logger
from aws_lambda_powertools.metrics import EphemeralMetrics
from botocore.exceptions import ReadTimeoutError

from conditional_writes import Deadline, Key, Observed, Put, key
from conditional_writes.core.client import SLOWEST_CALL_SECONDS
from conditional_writes.core.items import from_dynamodb
from conditional_writes.testing import Engine
from tests.support.clock import START, Clock, plenty
from tests.support.new_tables import definition
from tests.unit.stubs import Stubbed
from tools.local_aws.functions import Context, record
from workers import attempts as attempts_module
from workers import batches
from workers.attempts import Attempts
from workers.batches import Measurement, Queue, QueueWorker
from workers.invocation import RESERVED_SECONDS, SETTLING_SECONDS
from workers.queue_messages import Again, Dead, Disposition, Done, QueueMessage, Waiting

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
type Handler = Callable[[Messages, Deadline], list[Measurement]]


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


def given(dispositions: Mapping[str, Disposition]) -> Handler:
    """A handler that gives each message the disposition for its body."""

    def handle(messages: Messages, _: Deadline) -> list[Measurement]:
        for message in messages:
            message.disposition = dispositions[message.body]
        return []

    return handle


class Killed(BaseException):
    pass


def killed_by(killer: str) -> Handler:
    """A handler whose process ends as soon as it handles this body."""

    def handle(messages: Messages, deadline: Deadline) -> list[Measurement]:
        if any(message.body == killer for message in messages):
            raise Killed
        return all_done(messages, deadline)

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
        sent = {entry["MessageBody"] for entry in self.entries("SendMessageBatch")}
        assert sent.isdisjoint(self.recorded[-1]), "a message is recorded before its letter is sent"
        if self.recording_fails:
            raise ZeroDivisionError("division by zero")

    def tell(self, messages: Messages, _: Deadline) -> None:
        self.told.append([message.body for message, _ in messages])
        if self.telling_fails:
            raise ZeroDivisionError("division by zero")

    def process(self, records: Any, handle: Handler = all_done, context: Any = None, level: str = "DEBUG") -> list[str]:
        """Returns the ids that return to the queue."""
        log = io.StringIO()
        metrics = EphemeralMetrics(namespace="Orders", service="place_orders")
        queue = Queue(self.sqs.client, QUEUE_URL, DEAD_LETTER_URL, RETENTION_SECONDS, 900, MAXIMUM_WAITS)
        logger = Logger(service=f"worker-{uuid.uuid4()}", stream=log, level=level)
        outside = (self.attempts, logger, metrics, self.tell, self.record)
        worker = QueueWorker(decode, handle, disposition_of, queue, *outside)
        response = worker.process({"Records": list(records)}, context or Context())
        metrics.flush_metrics()
        self.batch, *self.lines = map(json.loads, log.getvalue().splitlines())
        self.metrics = self.published_metrics()
        assert response.keys() == {"batchItemFailures"}
        assert all(failure.keys() == {"itemIdentifier"} for failure in response["batchItemFailures"])
        return [failure["itemIdentifier"] for failure in response["batchItemFailures"]]

    def ended(self, dispositions: Mapping[str, Disposition], receive_count: int = 1, **fields: Any) -> list[str]:
        """The bodies of the messages that return to the queue, if the handler gives these dispositions by body."""
        return self.process(named(dispositions, receive_count), given(dispositions), **fields)

    def delivered(self, bodies: Iterable[str], receive_count: int, killer: str = "killer") -> list[str] | None:
        """The bodies that return to the queue; None if the function was killed."""
        try:
            return self.process(named(bodies, receive_count), killed_by(killer))
        except Killed:
            return None

    def published_metrics(self) -> Counter[tuple[str, ...]]:
        """The sums of all metrics, by name and by the values of their dimensions except for the service."""
        sums: Counter[tuple[str, ...]] = Counter()
        for line in map(json.loads, self.capsys.readouterr().out.splitlines()):
            [directive] = line["_aws"]["CloudWatchMetrics"]
            [dimensions] = directive["Dimensions"]
            assert (directive["Namespace"], line["service"]) == ("Orders", "place_orders")
            others = tuple(f"{name}={line[name]}" for name in dimensions if name != "service")
            for metric in directive["Metrics"]:
                sums[metric["Name"], *others] += sum(line[metric["Name"]])
        return sums

    def entries(self, operation: str) -> list[dict[str, Any]]:
        """Those of all requests for the operation."""
        requests = [request for each, request in self.sqs.requests if each == operation]
        return [entry for request in requests for entry in request["Entries"]]

    @property
    def acknowledged(self) -> list[str]:
        """The ids of the messages that were deleted by the function itself."""
        return [entry["ReceiptHandle"].removeprefix("of ") for entry in self.entries("DeleteMessageBatch")]

    def dead_letters(self) -> list[tuple[str, str, str]]:
        """The body, reason code and reason of each dead letter."""
        texts = ("reason_code", "reason")
        return [
            (entry["MessageBody"], *(entry["MessageAttributes"][text]["StringValue"] for text in texts))
            for entry in self.entries("SendMessageBatch")
        ]

    def requests_of_dead_letters(self) -> list[str]:
        """The request of each dead letter's origin."""
        origins = [entry["MessageAttributes"]["origin"] for entry in self.entries("SendMessageBatch")]
        return [json.loads(origin["StringValue"])["request_id"] for origin in origins]

    def attempt(self, message_id: str) -> dict[str, Any] | None:
        """The message's item in the table of attempts; None if it counts no attempt and no wait."""
        found = self.attempts.client.get_item(TableName="attempts", Key={"message_id": {"S": message_id}})
        item = from_dynamodb(found["Item"]) if "Item" in found else {}
        return item if item.get("begun") or item.get("waits") else None

    def has_begun(self, message_id: str, begun: object) -> None:
        item = {"begun": begun, "waits": 0, "waited_at": 0}
        self.attempts._write([Put(key("attempts", message_id=message_id), item)], plenty())


def named(bodies: Iterable[str], receive_count: int = 1) -> list[dict[str, Any]]:
    """A record of each body, which is its id, too."""
    return [record(body, receive_count) | {"messageId": body, "receiptHandle": f"of {body}"} for body in bodies]


@pytest.fixture
def working(sqs: Stubbed, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Working]:
    # A function's environment has these. A metric with a dimension of its own is made from them.
    monkeypatch.setenv("POWERTOOLS_METRICS_NAMESPACE", "Orders")
    monkeypatch.setenv("POWERTOOLS_SERVICE_NAME", "place_orders")
    with Engine() as engine:
        client = engine.client()
        client.create_table(**definition("attempts", {"message_id": "S"}))
        yield Working(sqs, Attempts(client, "attempts"), capsys)


def last_hours() -> datetime:
    """The time at which a message was sent that SQS deletes in two hours."""
    return datetime.now(UTC) - timedelta(seconds=RETENTION_SECONDS - batches.LAST_SECONDS)


def test_a_message_that_the_handler_forgets_or_raises_an_error_at_comes_again(working: Working) -> None:
    def handle(messages: Messages, _: Deadline) -> list[Measurement]:
        messages[0].disposition = DONE
        raise ZeroDivisionError("division by zero")

    assert working.process(named("ab"), handle) == ["b"]
    assert [line["message"] for line in working.lines] == ["placed", "returned to the queue"]
    assert working.lines[1]["exception"].endswith("ZeroDivisionError: division by zero")
    assert working.process(named("a"), lambda *_: []) == ["a"]
    assert working.lines[0]["reason"] == "it was given no disposition"


@pytest.mark.parametrize("bodies", ["", "ab"], ids=["empty", "two messages"])
def test_a_batch_that_is_done_asks_sqs_for_nothing_and_counts_zeros(working: Working, bodies: str) -> None:
    assert working.ended(dict.fromkeys(bodies, DONE)) == []
    assert working.sqs.operations == working.told == working.recorded == []
    working.metrics.pop(("MessageAge",), None)
    zeros = {("Waiting",): 0, ("ReturnedToQueue",): 0, ("DeadLettered",): 0, ("ReturnedAge",): 0}
    assert dict(working.metrics) == zeros


def test_in_the_last_hours_of_its_retention_a_message_is_dead(working: Working) -> None:
    later = last_hours() + timedelta(minutes=1)
    records = [record("a", 60, last_hours()), record("b", 2, later), record("c", 60, last_hours())]
    assert working.process(records, given({"a": FAILED, "b": FAILED, "c": WAITING})) == [records[1]["messageId"]]
    assert working.dead_letters() == [
        ("a", "RETRIES_EXHAUSTED", "not processed in 6.9 days on the queue: timed out"),
        ("c", Code.NO_SUCH_CUSTOMER, "not found in 6.9 days on the queue: no such customer"),
    ]


def test_what_waits_in_too_many_deliveries_in_a_row_is_dead_with_its_code(working: Working) -> None:
    for receive_count in range(1, MAXIMUM_WAITS):
        assert working.ended({"a": WAITING}, receive_count) == ["a"]
        assert working.attempt("a")["waits"] == receive_count
    assert set(working.sqs.operations) == {"ChangeMessageVisibilityBatch"}
    assert len(working.sqs.operations) == MAXIMUM_WAITS - 1, "none of them hides it: it is no suspect"
    assert working.ended({"a": WAITING}, MAXIMUM_WAITS) == []
    reason = f"waited through {MAXIMUM_WAITS} deliveries: no such customer"
    assert working.dead_letters() == [("a", Code.NO_SUCH_CUSTOMER, reason)]
    assert working.attempt("a") is None


def test_a_delivery_that_did_not_find_the_message_waiting_begins_the_waits_anew(working: Working) -> None:
    """The message that it waits for may have been held up by the same outage."""
    ends = [WAITING] * (MAXIMUM_WAITS - 1) + [FAILED] * 50 + [WAITING] * (MAXIMUM_WAITS - 1)
    for receive_count, end in enumerate(ends, 1):
        assert working.ended({"a": end}, receive_count) == ["a"]


def test_dead_messages_are_recorded_before_their_letters_are_sent_and_name_their_request(working: Working) -> None:
    context = Context()
    working.ended({"a": DONE, "b": DEAD, "c": FAILED, "d": DEAD, "e": WAITING}, context=context)
    assert working.recorded == working.told == [["b", "d"]]
    assert working.requests_of_dead_letters() == [context.aws_request_id] * 2


def test_a_telling_that_fails_is_logged_and_changes_no_disposition(working: Working) -> None:
    working.telling_fails = True
    assert working.ended({"a": DEAD, "b": FAILED, "c": DONE}) == ["b"]
    line = working.lines[-1]
    assert (line["level"], line["message"]) == ("WARNING", "could not tell of dead letters")
    assert line["exception_name"] == "ZeroDivisionError"
    assert working.metrics[("DeadLettered",)] == 1


def test_what_cannot_be_recorded_comes_again_without_a_letter(working: Working) -> None:
    working.recording_fails = True
    assert working.ended({"a": DEAD, "b": DONE}) == ["a"]
    assert working.dead_letters() == working.told == []
    first, *_ = working.lines
    assert first["reason"] == "NOT_AN_ORDER, and it couldn't be recorded: division by zero"


def test_what_sqs_would_delete_soon_is_dead_even_without_a_record(working: Working) -> None:
    working.recording_fails = True
    assert working.process([record("not an order", 2, last_hours())]) == []
    assert [body for body, *_ in working.dead_letters()] == ["not an order"]


def test_a_batch_is_a_line_and_each_message_is_another_at_debug_those_that_are_done_too(working: Working) -> None:
    ends = {"a": DONE, "b": DEAD, "c": WAITING, "d": FAILED, "e": DONE, "f": FAILED}
    working.ended(ends, level="INFO")
    assert (working.batch["level"], working.batch["message"], working.batch["messages"]) == ("INFO", "batch", 6)
    counts = {name: working.batch[name] for name in ("placed", "dead_lettered", "waiting", "returned")}
    assert counts == {"placed": 2, "dead_lettered": 1, "waiting": 1, "returned": 2}
    assert [(line["message_id"], line["order"]) for line in working.lines] == [(name, name) for name in "bcdf"]
    fields = ("level", "message", "reason_code", "reason", "exception_name", "exception")
    raised = ("TimeoutError", "TimeoutError: timed out")
    assert [tuple(line.get(field) for field in fields) for line in working.lines] == [
        ("WARNING", "dead-lettered", Code.NOT_AN_ORDER, "sold out", None, None),
        ("WARNING", "waiting", Code.NO_SUCH_CUSTOMER, "no such customer", None, None),
        ("ERROR", "returned to the queue", None, "timed out", *raised),
        ("ERROR", "returned to the queue", None, "timed out", None, None),  # the first line has the same traceback
    ]
    working.ended({"a": DONE})
    [done] = working.lines
    assert (done["level"], done["message"], done["order"], done["number"]) == ("DEBUG", "placed", "a", 7)


def test_the_age_of_a_message_is_the_time_since_it_was_sent(working: Working) -> None:
    """SQS's own metric of the oldest message leaves out what was received three times."""
    now = datetime.now(UTC)
    minutes = {"a": 2, "b": 60, "c": 120}
    records = [record(body, 1, now - timedelta(minutes=ago)) for body, ago in minutes.items()]
    working.process(records, given({"a": DONE, "b": FAILED, "c": WAITING}))
    assert working.metrics[("MessageAge",)] == pytest.approx(120_000, abs=60_000)
    assert working.metrics[("ReturnedAge",)] == pytest.approx(3_600_000, abs=60_000)


def test_a_killer_whose_dead_letter_is_refused_is_not_processed_again(working: Working) -> None:
    working.has_begun("killer", 5)
    working.sqs.refuses("send_message_batch", "AccessDenied")
    assert working.delivered(["killer"], 8) == ["killer"]
    assert working.attempt("killer")["begun"] == 5


@pytest.mark.parametrize(("begun", "receive_count"), [(0, 3), (4, 7)])
def test_an_attempt_that_cannot_be_begun_changes_no_count(
    working: Working, monkeypatch: pytest.MonkeyPatch, begun: int, receive_count: int
) -> None:
    """Else a killer would be processed together with its neighbours again."""
    if begun:
        working.has_begun("killer", begun)
    written, write = iter([True]), attempts_module.write

    def fails_after_it_took_effect(*arguments: Any) -> None:
        write(*arguments)
        for _ in written:
            raise TimeoutError("no answer")

    monkeypatch.setattr(attempts_module, "write", fails_after_it_took_effect)
    assert working.delivered(["killer"], receive_count) == ["killer"]
    assert (working.attempt("killer") or {"begun": 0})["begun"] == begun


def test_a_message_that_is_twice_in_a_batch_is_begun_once(working: Working) -> None:
    working.has_begun("b", 1)
    assert working.delivered(["a", "a", "b", "b"], 3) == []
    assert [working.attempt("a"), working.attempt("b")] == [None, None]


def test_what_was_done_together_is_reported_before_a_suspect_may_kill_the_function(working: Working) -> None:
    working.has_begun("killer", 1)
    assert working.delivered(["a", "killer"], 3) is None
    assert ("MessageAge",) in working.published_metrics()
    assert working.acknowledged == ["a"]


def test_what_is_dead_is_told_of_before_a_suspect_may_kill_the_function(working: Working) -> None:
    working.has_begun("not an order, alone", 1)
    working.has_begun("killer", 2)
    assert working.delivered(["killer", "not an order, alone", "not an order"], 3) is None
    assert working.told == [["not an order"], ["not an order, alone"]]
    assert working.acknowledged == ["not an order", "not an order, alone"]


def test_the_attempt_of_a_suspect_that_is_done_beside_a_new_message_has_ended(working: Working) -> None:
    assert working.process([*named(["suspect"], 3), *named(["new"])]) == []
    assert [working.attempt(body) for body in ("suspect", "new")] == [None, None]


def test_without_its_attempts_a_redelivered_message_comes_again_and_a_new_one_is_processed(working: Working) -> None:
    working.attempts = Attempts(working.attempts.client, "no-such-table")
    assert working.process([*named(["old"], 2), *named(["new"])]) == ["old"]
    [failed] = [line for line in working.lines if line["level"] == "ERROR"]
    assert failed["reason"].startswith("its attempt couldn't be begun: there is no table ")


def test_an_unread_or_corrupt_attempt_costs_its_message_only(working: Working, monkeypatch: pytest.MonkeyPatch) -> None:
    bodies = [f"order {number}" for number in range(100)]
    stuck, corrupt = bodies[3], bodies[5]
    working.has_begun(corrupt, "often")
    read_once = attempts_module.read_once

    def leaves_one(client: Any, keys: Iterable[Key], deadline: Deadline) -> Observed:
        found = dict(read_once(client, keys, deadline))
        del found[key("attempts", message_id=stuck)]
        return found

    monkeypatch.setattr(attempts_module, "read_once", leaves_one)
    assert working.delivered(bodies, 3) == [stuck, corrupt]
    reasons = {line["message_id"]: line["reason"] for line in working.lines if line["level"] == "ERROR"}
    assert reasons[stuck] == "its attempt couldn't be begun: DynamoDB left it unread"
    assert reasons[corrupt].startswith("its attempt couldn't be begun: invalid literal for int()")
    assert working.attempt(corrupt)["begun"] == "often"


def test_attempts_that_cannot_be_begun_cost_suspects_alone(working: Working, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any) -> None:
        raise TimeoutError("no answer")

    monkeypatch.setattr(Attempts, "begin", fails)
    assert working.process([*named("a", 3), *named("b", 2), *named("c", 1)]) == ["a"]


def test_a_slow_table_of_attempts_holds_up_first_deliveries_for_seconds_only(
    working: Working, monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    def throttled(_: object, __: object, deadline: Deadline) -> None:
        while True:
            deadline.check("reading")
            clock.sleep(1)

    monkeypatch.setattr(attempts_module, "read_once", throttled)
    assert working.process([*named(["old"], 2), *named(["new"])]) == ["old"]
    assert clock.seconds == START + batches.BEGIN_SECONDS


def test_a_slow_table_of_attempts_returns_no_suspect_that_holds_up_nobody(
    working: Working, monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    """A try to read or to write takes three seconds, and the first one to write times out."""

    def slow(answer: Callable[..., Any], tries: int) -> Callable[..., Any]:
        def call(client: Any, wanted: Any, *rest: Any) -> Any:
            for _ in range(tries):
                rest[-1].check("calling")
                clock.sleep(3)
            return answer(client, wanted, *rest)

        return call

    monkeypatch.setattr(attempts_module, "read_once", slow(attempts_module.read_once, 1))
    monkeypatch.setattr(attempts_module, "write", slow(attempts_module.write, 2))
    assert working.process([*named("abcde", 3), *named(["new"])]) == [*"abcde"]
    assert working.process(named("abcde", 3)) == []


@pytest.mark.parametrize("work_seconds", [0.0, 90 - RESERVED_SECONDS - SETTLING_SECONDS + SLOWEST_CALL_SECONDS])
@pytest.mark.parametrize("receive_count", [1, 3])
def test_while_sqs_hangs_99_poison_messages_and_a_good_one_are_over_within_the_timeout(
    working: Working, monkeypatch: pytest.MonkeyPatch, clock: Clock, work_seconds: float, receive_count: int
) -> None:
    """Each request to SQS takes the longest time that a call can take, and gets no answer."""

    def hang(*_: object, **__: object) -> None:
        clock.sleep(SLOWEST_CALL_SECONDS)
        raise ReadTimeoutError(endpoint_url=QUEUE_URL)

    def handle(messages: Messages, deadline: Deadline) -> list[Measurement]:
        clock.sleep(work_seconds)
        return all_done(messages, deadline)

    for module in ("redelivery", "sending"):
        monkeypatch.setattr(f"workers.{module}.in_parallel", clock.side_by_side)
    for operation in ("send_message_batch", "change_message_visibility_batch", "delete_message_batch"):
        monkeypatch.setattr(working.sqs.client, operation, hang)
    poison = [f"not an order {number}" for number in range(99)]
    returned = working.process(named([*poison, "a"], receive_count), handle, Context(timeout_seconds=90))
    assert returned == poison
    assert SLOWEST_CALL_SECONDS < clock.seconds - START < 90


def test_while_a_telling_takes_as_long_as_it_can_suspects_are_over_within_the_timeout(
    working: Working, monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    def tell(messages: Messages, deadline: Deadline) -> None:
        clock.sleep(SLOWEST_CALL_SECONDS if deadline.remaining_seconds > 0 else 0)

    monkeypatch.setattr(working, "tell", tell)
    records = named([f"not an order {number}" for number in range(20)], 4)
    for each in records[1:]:
        working.has_begun(each["messageId"], 1)
    returned = working.process(records, context=Context(timeout_seconds=90))
    assert 0 < len(returned) < 20, "some were dead before time was short, and the others come again"
    assert SLOWEST_CALL_SECONDS < clock.seconds - START < 90
