"""What the product assumes of EventBridge. Each test is one assumption, and names the page that states it."""

import json
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.assumptions.conftest import rests_on
from tests.assumptions.places import Place, heard

GUIDE = "https://docs.aws.amazon.com/eventbridge/latest/userguide/"
API = "https://docs.aws.amazon.com/eventbridge/latest/APIReference/"
ALL = {"source": ["teller"]}


def entry(bus: str, **detail: Any) -> dict[str, Any]:
    return {"EventBusName": bus, "Source": "teller", "DetailType": "TransactionPosted", "Detail": json.dumps(detail)}


def bodies(place: Place, url: str, count: int) -> list[dict[str, Any]]:
    """The events that the rule brought: so many, or all that came in time."""
    sqs, found = place.client("sqs"), []

    def receive() -> bool:
        answer = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10, VisibilityTimeout=300)
        found.extend(json.loads(message["Body"]) for message in answer.get("Messages", []))
        return len(found) >= count

    place.eventually(receive)
    return found


@rests_on(GUIDE + "eb-events-structure.html")
def test_a_rule_brings_an_event_to_a_queue_with_an_id_its_source_its_type_and_its_detail(place: Place) -> None:
    with heard(place, ALL) as (bus, url):
        [put] = place.client("events").put_events(Entries=[entry(bus, amount="12.50")])["Entries"]
        [event] = bodies(place, url, 1)
    assert event["id"] == put["EventId"]
    assert (event["source"], event["detail-type"]) == ("teller", "TransactionPosted")
    assert event["detail"] == {"amount": "12.50"}


@rests_on(GUIDE + "eb-event-patterns-content-based-filtering.html")
def test_a_pattern_tells_events_by_their_details(place: Place) -> None:
    pattern = {"detail": {"amount_number": [{"numeric": [">", 100]}], "status": ["POSTED"]}}
    with heard(place, pattern) as (bus, url):
        entries = [entry(bus, amount_number=number, status="POSTED") for number in (99, 101)]
        entries.append(entry(bus, amount_number=102, status="REJECTED"))
        place.client("events").put_events(Entries=entries)
        assert [event["detail"]["amount_number"] for event in bodies(place, url, 1)] == [101]


@rests_on(API + "API_PutEvents.html")
def test_a_request_takes_ten_events_and_no_more(place: Place) -> None:
    with heard(place, ALL) as (bus, _):
        events = place.client("events")
        assert events.put_events(Entries=[entry(bus)] * 10)["FailedEntryCount"] == 0
        with pytest.raises(ClientError):
            events.put_events(Entries=[entry(bus)] * 11)


@rests_on(API + "API_PutEvents.html")
def test_an_event_whose_detail_is_no_json_fails_alone_and_in_its_place(place: Place) -> None:
    with heard(place, ALL) as (bus, _):
        entries = [entry(bus), entry(bus) | {"Detail": "no JSON"}, entry(bus)]
        answer = place.client("events").put_events(Entries=entries)
    assert answer["FailedEntryCount"] == 1
    assert ["EventId" in each for each in answer["Entries"]] == [True, False, True]
    assert answer["Entries"][1]["ErrorCode"] == "MalformedDetail"
