"""How records end: poison in the dead-letter queue with its reason, and at the last delivery all that isn't done."""

import io
import json
import uuid
from typing import Any

from aws_lambda_powertools import Logger
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord
from conditional_writes.settling import Counts, GivenUp, Settling, receive_count

from tests.unit.stubs import Stubbed
from tools.local_aws.functions import record
from workers.sending import NotSent

QUEUE = "https://sqs.us-east-1.amazonaws.com/000000000000/dead-letters"


class Poison(Exception):
    pass


def settling(sqs: Stubbed | None = None, log: io.StringIO | None = None) -> Settling:
    client: Any = sqs.client if sqs else None
    return Settling(client, QUEUE, 6, (Poison,), Logger(service=f"settling-{uuid.uuid4()}", stream=log))


def records(*receive_counts: int) -> list[SQSRecord]:
    return [SQSRecord(record(f"body {number}", count)) for number, count in enumerate(receive_counts)]


def test_until_the_last_delivery_nothing_is_given_up() -> None:
    results = ["done", Poison(), LookupError(), TimeoutError()]
    assert settling().given_up(records(5, 5, 5, 1), results) == results


def test_at_the_last_delivery_what_is_not_done_is_given_up_with_the_reason() -> None:
    results = ["done", None, poison := Poison(), LookupError("not there yet"), TimeoutError()]
    done, none, still, *given_up = settling().given_up(records(6, 7, 6, 6, 7), results)
    assert (done, none, still) == ("done", None, poison)
    assert [(type(one), str(one)) for one in given_up] == [
        (GivenUp, "not processed in 6 deliveries: not there yet"),
        (GivenUp, "given up after 7 deliveries: TimeoutError()"),
    ]


def test_poison_and_what_is_given_up_is_dead_lettered_and_done_then(stubbed_sqs: Stubbed) -> None:
    stubbed_sqs.answers("send_message_batch", {"Successful": [], "Failed": []})
    waiting = LookupError()
    results = ["done", Poison("no map"), waiting, GivenUp("given up")]
    assert settling(stubbed_sqs).settle(records(1, 1, 1, 6), results) == ["done", None, waiting, None]
    sent = [
        (entry["MessageBody"], entry["MessageAttributes"]["reason"]["StringValue"])
        for entry in stubbed_sqs.parameters[0]["Entries"]
    ]
    assert sent == [("body 1", "no map"), ("body 3", "given up")]


def test_what_could_not_be_dead_lettered_goes_back_to_the_queue_and_is_logged(stubbed_sqs: Stubbed) -> None:
    log = io.StringIO()
    failed = {"Id": "0", "SenderFault": False, "Code": "InternalError"}
    stubbed_sqs.answers("send_message_batch", {"Successful": [], "Failed": [failed]})
    batch = records(1, 1)
    first, second = settling(stubbed_sqs, log).settle(batch, [Poison(), Poison()])
    assert isinstance(first, NotSent)
    assert second is None
    [line] = map(json.loads, log.getvalue().splitlines())
    assert (line["level"], line["message"], line["message_id"]) == ("ERROR", "not dead-lettered", batch[0].message_id)


def test_a_batch_without_poison_asks_for_nothing(stubbed_sqs: Stubbed) -> None:
    assert settling(stubbed_sqs).settle(records(1), ["done"]) == ["done"]
    assert stubbed_sqs.operations == []


def test_a_failure_is_one_line_with_its_reason_or_with_where_it_failed() -> None:
    log = io.StringIO()
    function = settling(log=log)
    for failure in (Poison("no map"), GivenUp("given up"), LookupError("not there")):
        function.log_failure(failure, {"message_id": "m-1"}, "not done")
    poison, given_up, failed = map(json.loads, log.getvalue().splitlines())
    assert (poison["level"], poison["message"], poison["reason"]) == ("WARNING", "Poison", "no map")
    assert (given_up["level"], given_up["message"], given_up["reason"]) == ("WARNING", "GivenUp", "given up")
    assert (failed["level"], failed["message"], failed["exception_name"]) == ("ERROR", "not done", "LookupError")
    assert {line["message_id"] for line in (poison, given_up, failed)} == {"m-1"}


def test_each_result_counts_once() -> None:
    results = ["done", None, Poison(), GivenUp(), LookupError(), LookupError(), LookupError()]
    assert settling().counts(results) == Counts(done=2, poison=1, given_up=1, back=3)


def test_a_record_tells_how_often_it_was_delivered() -> None:
    assert list(map(receive_count, records(1, 4))) == [1, 4]
