"""The tests' own stream delivers as Lambda's documentation says."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from tests.support.faults import Killed
from tools.local_aws.functions import Place, Stream, stream_record

type Handler = Callable[[list[int]], list[int]]


class Consumer:
    """A function that notes the numbers in each batch. `handle` returns those that failed."""

    def __init__(self, handle: Handler) -> None:
        self.handle = handle
        self.batches: list[list[int]] = []
        self.function: Any = SimpleNamespace(lambda_handler=self.lambda_handler)

    def lambda_handler(self, event: dict[str, Any], _: object) -> dict[str, Any]:
        numbers = [int(record["dynamodb"]["NewImage"]["number"]["N"]) for record in event["Records"]]
        self.batches.append(numbers)
        failed = self.handle(numbers)
        return {
            "batchItemFailures": [
                {"itemIdentifier": record["dynamodb"]["SequenceNumber"]}
                for record, number in zip(event["Records"], numbers, strict=True)
                if number in failed
            ]
        }


def stream_of(number: int, **settings: int) -> Stream:
    return Stream([stream_record({"number": {"N": str(each)}}) for each in range(number)], **settings)


def test_from_the_first_failure_on_a_batch_comes_again_before_the_next() -> None:
    failing = iter([[3, 1], [1], []])
    consumer = Consumer(lambda numbers: next(failing, []))
    stream_of(6, batch_size=4).deliver_until_quiet(consumer.function)
    assert consumer.batches == [[0, 1, 2, 3], [1, 2, 3], [1, 2, 3], [4, 5]]


def killed_by(*killers: int) -> Handler:
    def handle(numbers: list[int]) -> list[int]:
        if {*killers} & {*numbers}:
            raise Killed
        return []

    return handle


def test_a_batch_that_kills_the_function_comes_again_in_halves_and_the_killer_is_given_up_alone() -> None:
    consumer = Consumer(killed_by(2))
    stream = stream_of(5, batch_size=4, maximum_retries=2)
    numbers = [record["dynamodb"]["SequenceNumber"] for record in stream.records]
    stream.deliver_until_quiet(consumer.function, Killed)
    assert consumer.batches == [[0, 1, 2, 3], [0, 1], [2, 3], [2], [2], [2], [3], [4]]
    assert stream.given_up == [Place(numbers[2], numbers[2])]
    assert stream.is_quiet


def test_what_fails_each_time_is_given_up_with_all_that_follow_in_its_batch() -> None:
    consumer = Consumer(lambda numbers: [1] if 1 in numbers else [])
    stream = stream_of(4, batch_size=3, maximum_retries=2)
    numbers = [record["dynamodb"]["SequenceNumber"] for record in stream.records]
    stream.deliver_until_quiet(consumer.function)
    assert consumer.batches == [[0, 1, 2], [1, 2], [1, 2], [3]]
    assert stream.given_up == [Place(numbers[1], numbers[2])]
