"""The records of a DynamoDB stream: the changed items, and a clear refusal of any other event."""

from typing import Any

import pytest

from tools.local_aws.functions import SAMPLE_JOURNAL, record, stream_record
from workers.stream_records import NotAStreamEvent, StreamRecord
from workers.stream_records import records_of as records_of_table

OF_ANOTHER = f"Records[1]: expected a record of the stream of the table {SAMPLE_JOURNAL}"
INCOMPLETE = "Records[1]: expected an eventName, a SequenceNumber and Keys, and of an INSERT a NewImage"


def records_of(event: Any) -> list[StreamRecord]:
    return records_of_table(event, SAMPLE_JOURNAL)


@pytest.mark.parametrize(
    "attribute", [{"N": "x"}, {"B": "eA=="}, {"X": "unknown"}, {}, None, "text", {"M": {"inner": {"N": "x"}}}]
)
def test_an_attribute_that_cannot_be_read_is_none_and_the_others_are_read(attribute: Any) -> None:
    [found] = records_of({"Records": [stream_record({"account_id": {"S": "a"}, "odd": attribute})]})
    assert found.item == {"account_id": "a", "odd": None}


def test_a_record_of_a_deletion_has_no_new_item() -> None:
    [found] = records_of({"Records": [without("NewImage") | {"eventName": "REMOVE"}]})
    assert found.item == {}


@pytest.mark.parametrize("event", [None, [], "x", {}, {"Records": None}, {"Records": {}}])
def test_an_event_without_a_list_of_records_is_refused(event: Any) -> None:
    with pytest.raises(NotAStreamEvent, match=r"^Records: expected a list of a stream's records$"):
        records_of(event)


def without(field: str) -> dict[str, Any]:
    of_a_stream = stream_record({"account_id": {"S": "secret"}})
    of_a_stream["dynamodb"].pop(field, None)
    of_a_stream.pop(field, None)
    return of_a_stream


@pytest.mark.parametrize(
    ("other", "sentence"),
    [
        (None, OF_ANOTHER),
        ("secret", OF_ANOTHER),
        ({"dynamodb": {}}, OF_ANOTHER),
        (record("secret"), OF_ANOTHER),
        (without("eventSource"), OF_ANOTHER),
        (stream_record({}) | {"eventSource": "aws:sqs"}, OF_ANOTHER),
        (stream_record({}) | {"eventSourceARN": "arn:aws:dynamodb:eu-west-1:1:table/others/stream/1"}, OF_ANOTHER),
        (stream_record({}) | {"eventName": "secret"}, INCOMPLETE),
        (without("x") | {"dynamodb": without("x")["dynamodb"] | {"SequenceNumber": ""}}, INCOMPLETE),
        *((without(field), INCOMPLETE) for field in ("NewImage", "SequenceNumber", "Keys", "dynamodb", "eventName")),
    ],
)
def test_a_record_that_is_none_of_the_stream_is_named_by_its_number_and_not_quoted(other: Any, sentence: str) -> None:
    with pytest.raises(NotAStreamEvent) as refused:
        records_of({"Records": [stream_record({"account_id": {"S": "a"}}), other]})
    assert str(refused.value) == sentence
