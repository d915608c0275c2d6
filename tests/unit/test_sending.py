"""Sending messages to a queue: all are sent, or the error says how many weren't."""

from types import SimpleNamespace

import pytest

from conditional_writes import Deadline
from tests.support.clock import plenty
from tests.unit.stubs import Stubbed
from workers import sending
from workers.sending import TRIES, Message, NotSent, send_all

QUEUE = "https://sqs.us-east-1.amazonaws.com/000000000000/transactions"


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The bounds of the random pauses, which take no time."""
    made: list[object] = []
    monkeypatch.setattr(sending, "random", SimpleNamespace(uniform=lambda least, most: (least, most)))
    monkeypatch.setattr(sending, "time", SimpleNamespace(sleep=made.append))
    return made


def messages(number: int) -> list[Message]:
    return [Message(f"body {index}") for index in range(number)]


def test_a_message_of_a_group_is_sent_with_it_and_another_without(sqs: Stubbed) -> None:
    send_all(sqs.client, QUEUE, [Message("body", group_id="expire_holds"), Message("body")], plenty())
    [parameters] = sqs.parameters
    [grouped, alone] = parameters["Entries"]
    assert grouped == {"Id": "0", "MessageBody": "body", "MessageGroupId": "expire_holds"}
    assert alone == {"Id": "1", "MessageBody": "body"}


def test_what_the_queue_does_not_take_is_sent_again_and_nothing_else(sqs: Stubbed) -> None:
    sqs.takes_messages_but(1, 3)
    sqs.takes_messages_but(10)  # The last message of twelve, in the second request.
    sqs.takes_messages_but(2)  # The last of those three.
    send_all(sqs.client, QUEUE, messages(12), plenty())
    again = [[entry["MessageBody"] for entry in parameters["Entries"]] for parameters in sqs.parameters[2:]]
    assert again == [["body 1", "body 3", "body 10"], ["body 10"]]


def test_what_the_answer_does_not_name_is_sent_again(sqs: Stubbed) -> None:
    """As in the page of a proxy."""
    sqs.answers("send_message_batch", {"Successful": [], "Failed": []})
    send_all(sqs.client, QUEUE, messages(2), plenty())
    assert [len(parameters["Entries"]) for parameters in sqs.parameters] == [2, 2]


def test_what_the_queue_never_takes_is_an_error_that_says_why(sqs: Stubbed, pauses: list[object]) -> None:
    sqs.takes_messages_but(1, 2)
    for _ in range(TRIES - 1):
        sqs.takes_messages_but(0, 1)
    with pytest.raises(NotSent, match=r"^2 messages weren't sent in 3 tries: InternalError$"):
        send_all(sqs.client, QUEUE, messages(3), plenty())
    assert pauses == [(0, sending.LONGEST_PAUSE_SECONDS)] * (TRIES - 1)


def test_after_the_deadline_or_without_messages_no_request_is_sent(sqs: Stubbed) -> None:
    with pytest.raises(NotSent, match="DeadlinePassed"):
        send_all(sqs.client, QUEUE, messages(1), Deadline.after(0))
    send_all(sqs.client, QUEUE, [], plenty())
    assert sqs.operations == []
