"""The records of a DynamoDB stream: the new items, and a clear refusal of any other event."""

from decimal import Decimal
from typing import Any

import pytest

from tools.local_aws.functions import record, stream_record
from workers.stream_records import NotAStreamEvent, records_of


def test_a_record_has_the_new_item_and_its_number() -> None:
    records = [stream_record({"account_id": {"S": name}, "version": {"N": "1.50"}}) for name in ("a", "b")]
    found = records_of({"Records": records})
    assert [each.sequence_number for each in found] == [each["dynamodb"]["SequenceNumber"] for each in records]
    assert [each.item for each in found] == [
        {"account_id": "a", "version": Decimal("1.50")},
        {"account_id": "b", "version": Decimal("1.50")},
    ]


@pytest.mark.parametrize(
    "attribute", [{"N": "x"}, {"B": "eA=="}, {"X": "unknown"}, {}, None, "text", {"M": {"inner": {"N": "x"}}}]
)
def test_an_attribute_that_cannot_be_read_is_none_and_the_others_are_read(attribute: Any) -> None:
    [found] = records_of({"Records": [stream_record({"account_id": {"S": "a"}, "odd": attribute})]})
    assert found.item == {"account_id": "a", "odd": None}


@pytest.mark.parametrize("event", [None, [], "x", {}, {"Records": None}, {"Records": {}}])
def test_an_event_without_a_list_of_records_is_refused(event: Any) -> None:
    with pytest.raises(NotAStreamEvent, match=r"^Records: expected a list of a stream's records$"):
        records_of(event)


def without(field: str) -> dict[str, Any]:
    of_a_stream = stream_record({"account_id": {"S": "secret"}})
    del of_a_stream["dynamodb"][field]
    return of_a_stream


@pytest.mark.parametrize(
    "other",
    [None, "secret", {}, {"dynamodb": None}, record("secret"), without("NewImage"), without("SequenceNumber")],
    ids=["None", "a text", "nothing", "no dynamodb", "a record of SQS's", "no new image", "no number"],
)
def test_a_record_that_is_none_of_a_stream_is_named_by_its_number_and_not_quoted(other: Any) -> None:
    with pytest.raises(NotAStreamEvent, match=r"^Records\[1\]\.dynamodb: expected a SequenceNumber and a NewImage$"):
        records_of({"Records": [stream_record({"account_id": {"S": "a"}}), other]})


def test_an_empty_batch_has_no_records() -> None:
    assert records_of({"Records": []}) == []
