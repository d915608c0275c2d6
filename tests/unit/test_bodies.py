"""Answers to reads: read without botocore, with the same result."""

from collections.abc import Iterator
from typing import Any

import pytest
from botocore.awsrequest import AWSResponse
from hypothesis import given
from hypothesis import strategies as st

from conditional_writes import Deadline, Item, dynamodb_client, key
from conditional_writes.core import reading
from conditional_writes.core.items import from_dynamodb, to_dynamodb
from conditional_writes.core.reading import read_one
from tests.support.answers import answer
from tests.unit.test_handed_back import items

ORDER = key("Orders", order_id="o-1")
FOUND = {"order_id": "o-1", "lines": [{"product": "tea", "pieces": 3}], "photo": b"\x00\xff", "tags": {"gift"}}


class Answers:
    """A client, each of whose requests is answered so."""

    def __init__(self) -> None:
        self.answer: tuple[int, dict[str, Any]] = (200, {})
        self.client = dynamodb_client()
        self.client.meta.events.register_first("before-send.dynamodb", self._answer)

    def _answer(self, request: Any, **_: Any) -> AWSResponse:
        return answer(request, *self.answer)


@pytest.fixture(scope="module", autouse=True)
def credentials() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patched:
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            patched.setenv(name, "test")
        patched.setenv("AWS_DEFAULT_REGION", "us-east-1")
        yield


@pytest.fixture(scope="module")
def answers() -> Answers:
    return Answers()


def read(answers: Answers) -> Item | None:
    return read_one(answers.client, ORDER, Deadline.after(10))


@given(st.data())
def test_any_item_is_read_as_botocore_and_boto3_read_it(answers: Answers, data: st.DataObject) -> None:
    """If this fails after an update of botocore: items are right, but cost more time. Mend `take_read_item`."""
    stored = to_dynamodb({"order_id": "o-1"} | data.draw(items))
    answers.answer = 200, {"Item": stored}
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(reading, "from_dynamodb", None)
        assert read(answers) == from_dynamodb(stored)


def test_whoever_counts_units_sees_them(answers: Answers) -> None:
    seen: list[dict[str, Any]] = []
    answers.client.meta.events.register("after-call.dynamodb", lambda parsed, **_: seen.append(parsed), unique_id="see")
    capacity = {"TableName": "Orders", "CapacityUnits": 0.5}
    answers.answer = 200, {"Item": to_dynamodb(FOUND), "ConsumedCapacity": capacity}
    assert read(answers) == FOUND
    answers.client.meta.events.unregister("after-call.dynamodb", unique_id="see")
    assert [each["ConsumedCapacity"] for each in seen] == [capacity]


def test_a_callers_own_request_is_left_alone(answers: Answers) -> None:
    answers.answer = 200, {"Item": to_dynamodb(FOUND)}
    read(answers)
    own = answers.client.get_item(TableName="Orders", Key={"order_id": {"S": "o-1"}})
    assert own["Item"] == to_dynamodb(FOUND)
