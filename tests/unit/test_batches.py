"""Batches worked on whole: each record's result is its own, and what waits comes back when it was told to."""

from collections.abc import Callable
from typing import Any

import pytest
from aws_lambda_powertools.utilities.batch import process_partial_response
from aws_lambda_powertools.utilities.batch.exceptions import UnexpectedBatchTypeError
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord
from conditional_writes.batches import WholeBatchProcessor, postpone

from tests.unit.stubs import Stubbed
from tools.local_aws.functions import Context, record

QUEUE_URL = "https://sqs.us-east-1.amazonaws.com/000000000000/transactions"


def process(records: list[dict[str, Any]], handle: Callable[..., list[object]]) -> Any:
    return process_partial_response(
        event={"Records": records}, record_handler=handle, processor=WholeBatchProcessor(), context=Context()
    )


def failures(results: dict[str, object]) -> list[str]:
    """The messages that go back to the queue, where each body has this result."""
    records = [record(body) | {"messageId": body} for body in results]

    response = process(records, lambda batch, _: [results[each.body] for each in batch])
    return [failure["itemIdentifier"] for failure in response["batchItemFailures"]]


def test_an_exception_sends_its_own_record_back_and_no_other() -> None:
    assert failures({"a": "done", "b": LookupError(), "c": None, "d": ValueError()}) == ["b", "d"]


def test_a_batch_in_which_nothing_succeeded_goes_back_record_by_record() -> None:
    assert failures({"a": LookupError(), "b": LookupError()}) == ["a", "b"]


def test_the_handler_gets_the_records_of_a_batch_together() -> None:
    batches: list[list[str]] = []

    def handle(batch: list[SQSRecord], _: object) -> list[object]:
        batches.append([each.body for each in batch])
        return list(batch)

    process([record(body) for body in ("a", "b", "c")], handle)
    assert batches == [["a", "b", "c"]]


def test_a_handler_must_have_a_result_for_each_record() -> None:
    with pytest.raises(ValueError, match="shorter"):
        process([record("a"), record("b")], lambda *_: [None])


WITHOUT: dict[str, dict[str, Any]] = {
    "receiptHandle: expected a text": {"receiptHandle": None},
    "body: expected a text": {"body": {"amount": 1}},
    "attributes.ApproximateReceiveCount: expected": {"attributes": None},
    "messageAttributes: expected": {"messageAttributes": []},
}
COUNTS = [None, 1, "", "0", "-1", "x", "1.0", "\u0661", "9999999", "1\n"]
TIMES = [None, 1, "", "-1", "1e3", "9" * 15, "9" * 5_000]
ATTRIBUTES = [None, "x", {}, {"dataType": "String"}, {"dataType": "Binary", "binaryValue": "%"}, {"stringValue": "x"}]


def with_attribute(name: str, value: object) -> dict[str, Any]:
    return {"attributes": record("x")["attributes"] | {name: value}}


UNSOUND = [
    *WITHOUT.items(),
    *[("attributes.ApproximateReceiveCount", with_attribute("ApproximateReceiveCount", value)) for value in COUNTS],
    *[("attributes.SentTimestamp", with_attribute("SentTimestamp", value)) for value in TIMES],
    *[("messageAttributes", {"messageAttributes": {"x": value}}) for value in ATTRIBUTES],
]


@pytest.mark.parametrize(("problem", "fields"), UNSOUND)
def test_a_record_that_is_none_of_sqs_goes_back_and_holds_up_no_other(
    problem: str, fields: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    handled: list[str] = []
    unsound = record("secret") | fields
    response = process(
        [record("a"), unsound, record("b")],
        lambda batch, _: [handled.append(each.body) for each in batch],  # type: ignore[func-returns-value]
    )
    assert handled == ["a", "b"]
    assert response == {"batchItemFailures": [{"itemIdentifier": unsound["messageId"]}]}
    assert f"message {unsound['messageId']} is left on its queue: {problem}" in caplog.text
    assert "secret" not in caplog.text


@pytest.mark.parametrize(
    "unnamed", [None, "x", [], {}, record("x") | {"messageId": ""}, record("x") | {"messageId": 1}]
)
def test_an_event_with_a_record_that_has_no_id_is_refused_whole(unnamed: Any) -> None:
    with pytest.raises(UnexpectedBatchTypeError, match=r"Records\[1\]: expected a record of SQS's, with its messageId"):
        process([record("a"), unnamed], lambda *_: pytest.fail("handled"))


def pauses(number: int) -> list[tuple[SQSRecord, int]]:
    return [(SQSRecord(record("{}") | {"receiptHandle": f"receipt-{n}"}), 2 + n) for n in range(number)]


def test_records_are_postponed_ten_at_a_time(stubbed_sqs: Stubbed) -> None:
    for _ in range(2):
        stubbed_sqs.answers("change_message_visibility_batch", {"Successful": [], "Failed": []})
    postpone(stubbed_sqs.client, QUEUE_URL, pauses(12))
    entries = [entry for request in stubbed_sqs.parameters for entry in request["Entries"]]
    assert [len(request["Entries"]) for request in stubbed_sqs.parameters] == [10, 2]
    assert [(entry["ReceiptHandle"], entry["VisibilityTimeout"]) for entry in entries] == [
        (f"receipt-{n}", 2 + n) for n in range(12)
    ]


def test_what_cannot_be_postponed_is_only_late(stubbed_sqs: Stubbed, caplog: pytest.LogCaptureFixture) -> None:
    stubbed_sqs.refuses("change_message_visibility_batch", "AccessDenied")
    stubbed_sqs.answers("change_message_visibility_batch", {"Successful": [], "Failed": []})
    postpone(stubbed_sqs.client, QUEUE_URL, pauses(12))
    assert "could not postpone 10 records" in caplog.text
