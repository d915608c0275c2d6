"""Letters are received, given back and redriven: what becomes of them if SQS repeats, hides, refuses or forgets."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest

from tests.support.faults import Killed
from tools.teller import redriving
from tools.teller.failures import Failure
from tools.teller.letters import MOST_ROUNDS_WITHOUT_NEW, Letter, QueueName, Received, look
from tools.teller.redriving import redrive

NOW = datetime(2026, 2, 28, 12, tzinfo=UTC)

pytestmark = pytest.mark.usefixtures("one_call_at_a_time")


class Queues:
    """A deployment with a dead-letter queue and the queue beside it. Receipt handles count the receipts of a letter."""

    def __init__(self, *bodies: str) -> None:
        self.letters = {f"l-{number}": self.message(f"l-{number}", body) for number, body in enumerate(bodies)}
        self.hidden: dict[str, str] = {}
        self.receipts: dict[str, int] = {}
        self.sent: list[str] = []
        self.groups: list[str | None] = []
        self.refused: set[str] = set()
        self.forgetful = False
        self.before_receiving: Callable[[], None] = lambda: None

    @staticmethod
    def message(message_id: str, body: str, sent_at: datetime = NOW) -> dict[str, Any]:
        sent = {"SentTimestamp": str(round(sent_at.timestamp() * 1000))}
        code = {"reason_code": {"DataType": "String", "StringValue": "X"}}
        return {"MessageId": message_id, "Body": body, "Attributes": sent, "MessageAttributes": code}

    def client(self, service: str) -> Any:
        return self

    def __getitem__(self, output: str) -> str:
        return output

    def get_queue_attributes(self, **_: Any) -> dict[str, Any]:
        return {"ResponseMetadata": {"HTTPHeaders": {"date": format_datetime(NOW, usegmt=True)}}}

    def receive_message(self, **_: Any) -> dict[str, Any]:
        self.before_receiving()
        found = [self.letters[each] for each in self.letters if each not in self.hidden][:10]
        for message in found:
            number = self.receipts[message["MessageId"]] = self.receipts.get(message["MessageId"], 0) + 1
            self.hidden[message["MessageId"]] = f"{message['MessageId']} {number}"
        return {"Messages": [message | {"ReceiptHandle": self.hidden[message["MessageId"]]} for message in found]}

    def change_message_visibility_batch(self, Entries: list[dict[str, Any]], **_: Any) -> dict[str, Any]:  # noqa: N803
        for message_id in self._with_newest_handles(Entries):
            del self.hidden[message_id]
        return {}

    def delete_message_batch(self, Entries: list[dict[str, Any]], **_: Any) -> dict[str, Any]:  # noqa: N803
        if self.forgetful:
            return {"Failed": [{"Id": entry["Id"]} for entry in Entries]}
        for message_id in self._with_newest_handles(Entries):
            del self.hidden[message_id], self.letters[message_id]
        return {}

    def send_message_batch(self, Entries: list[dict[str, Any]], QueueUrl: str) -> dict[str, Any]:  # noqa: N803
        assert QueueUrl == "TransactionsQueueUrl"
        failed = [entry for entry in Entries if entry["MessageBody"] in self.refused]
        self.sent += [entry["MessageBody"] for entry in Entries if entry not in failed]
        self.groups += [entry.get("MessageGroupId") for entry in Entries if entry not in failed]
        return {"Failed": [{"Id": entry["Id"], "Code": "Refused"} for entry in failed]}

    def _with_newest_handles(self, entries: list[dict[str, Any]]) -> list[str]:
        by_handle = {handle: message_id for message_id, handle in self.hidden.items()}
        return [by_handle[entry["ReceiptHandle"]] for entry in entries if entry["ReceiptHandle"] in by_handle]


def looked_at(queues: Any) -> list[str]:
    return [letter.body for letter in look(queues, "transactions")]


def redriven(queues: Any, queue: QueueName = QueueName.TRANSACTIONS) -> redriving.Redriven:
    return redrive(queues, queue, lambda letter: letter.body)


def test_each_letter_is_seen_once_and_visible_again_at_the_end() -> None:
    queues = Queues(*map(str, range(300)))
    assert looked_at(queues) == [str(number) for number in range(300)]
    assert queues.hidden == {}


def test_a_letter_that_comes_again_during_a_long_look_is_seen_once_and_given_back() -> None:
    queues = Queues(*map(str, range(25)))

    def visible_again() -> None:
        if queues.receipts.get("l-24") and queues.receipts["l-0"] < 3:
            del queues.hidden["l-0"]

    queues.before_receiving = visible_again
    assert sorted(looked_at(queues), key=int) == [str(number) for number in range(25)]
    assert queues.receipts["l-0"] == 3
    assert queues.hidden == {}


def test_letters_that_come_in_meanwhile_are_left_out_and_given_back_and_end_the_look() -> None:
    queues, later = Queues("a", "b"), NOW + timedelta(seconds=2)

    def one_more() -> None:
        message_id = f"later-{len(queues.letters)}"
        queues.letters[message_id] = queues.message(message_id, "later", later)

    queues.before_receiving = one_more
    assert looked_at(queues) == ["a", "b"]
    assert queues.hidden == {}
    assert len(queues.letters) <= 3 + MOST_ROUNDS_WITHOUT_NEW


def test_what_was_deleted_is_not_given_back_and_what_was_not_is_counted() -> None:
    queues: Any = Queues("a", "b")
    with Received(queues, QueueName.TRANSACTIONS) as received:
        [letters] = received.rounds()
        assert received.delete([letter for letter in letters if letter.body == "a"]) == 0
        queues.forgetful = True
        assert received.delete([letter for letter in letters if letter.body == "b"]) == 1
    assert [message["Body"] for message in queues.letters.values()] == ["b"]


def test_what_its_queue_refuses_stays_a_letter_and_the_rest_is_redriven(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redriving, "SENDING_SECONDS", 0.2)
    queues = Queues("a", "b", "c")
    queues.refused = {"b"}
    with pytest.raises(Failure, match=r"^2 letters were redriven\. .* the next 1, which stay dead letters: Refused"):
        redriven(queues)
    assert queues.sent == ["a", "c"]
    assert [message["Body"] for message in queues.letters.values()] == ["b"]
    assert queues.hidden == {}


def test_a_redriven_message_is_in_the_group_that_it_was_sent_in() -> None:
    queues = Queues("a", "b")
    queues.letters["l-0"]["Attributes"]["MessageGroupId"] = "tenant-7"
    redriven(queues)
    assert dict(zip(queues.sent, queues.groups, strict=True)) == {"a": "tenant-7", "b": None}


def test_a_letter_that_sqs_does_not_delete_is_counted() -> None:
    queues = Queues("a")
    queues.forgetful = True
    found = redriven(queues)
    assert (found.done, found.not_deleted) == ({"X": 1}, 1)
    assert queues.sent == ["a"]


class Functions(Queues):
    """Its functions answer in turn: an answer, or an error."""

    def __init__(self, *bodies: str, answers: list[Any]) -> None:
        super().__init__(*bodies)
        self.answers, self.invoked = answers, list[tuple[str, Any]]()

    def invoke(self, output: str, event: Any) -> Any:
        self.invoked.append((output, event))
        answer = self.answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return answer


def published(*following: Any, missing: Any = ()) -> dict[str, Any]:
    return {"published": 1, "dead_lettered": 0, "next": list(following), "missing_versions": list(missing)}


def republish(version: int) -> dict[str, Any]:
    return {"republish": {"account_id": "a", "from_version": version, "to_version": 9}}


def test_an_outcome_is_published_until_nothing_is_left() -> None:
    functions = Functions(json.dumps(republish(1)), answers=[published(republish(4)), published()])
    assert redriven(functions, QueueName.OUTCOMES).done == {"X": 1}
    assert functions.invoked == [("RepublishOutcomesFunctionName", republish(version)) for version in (1, 4)]
    assert functions.letters == {}


def test_the_entries_of_a_batch_that_lambda_gave_up_are_published_with_a_quarter_of_an_hour_around() -> None:
    times = {
        "approximateArrivalOfFirstRecord": "2026-02-28T11:00:00.000Z",
        "approximateArrivalOfLastRecord": "2026-02-28T11:20:00.000Z",
    }
    functions = Functions(json.dumps({"version": "1.0", "DDBStreamBatchInfo": times}), answers=[published()])
    redriven(functions, QueueName.OUTCOMES)
    [(_, event)] = functions.invoked
    assert event == {"republish": {"from": "2026-02-28T10:45:00+00:00", "to": "2026-02-28T11:35:00+00:00"}}


@pytest.mark.parametrize(
    ("queue", "body", "answers", "reason"),
    [
        (
            QueueName.OUTCOMES,
            json.dumps(republish(1)),
            [published(missing=[{"account_id": "a", "from_version": 2, "to_version": 3, "reason": "no entry"}])],
            "a: versions 2 to 3 weren't published: no entry",
        ),
        (
            QueueName.OUTCOMES,
            json.dumps(republish(1)),
            [{"error": {"code": "UNKNOWN_ACCOUNT", "reason": "no account 'a'"}}],
            "no account 'a'",
        ),
        (QueueName.OUTCOMES, '{"account_id": "a"}', [], "its item has no version"),
        (QueueName.OUTCOMES, "junk", [], "its item has no version"),
        (QueueName.JOBS, '{"job": "reconcile_accounts"}', [Failure("the function failed")], "the function failed"),
        (QueueName.SCHEDULES, '{"job": "sweep"}', [], "its body isn't the event of a job"),
        (QueueName.JOBS, "[]", [], "its body isn't the event of a job"),
    ],
)
def test_a_letter_that_its_function_cannot_handle_stays_with_a_sentence(
    queue: QueueName, body: str, answers: list[Any], reason: str
) -> None:
    functions = Functions(body, answers=answers)
    found = redriven(functions, queue)
    assert found.done == {}
    assert found.staying["l-0"].startswith(reason)
    assert list(functions.letters) == ["l-0"]
    assert functions.hidden == {}


def test_the_events_of_jobs_and_schedules_are_run() -> None:
    for queue in (QueueName.JOBS, QueueName.SCHEDULES):
        event = {"job": "charge_overdraft_interest", "scheduled_time": "2026-02-28T00:00:00Z"}
        functions = Functions(json.dumps(event), answers=[{"outcome": "Done"}])
        assert redriven(functions, queue).done.total() == 1
        assert functions.invoked == [("ChargeOverdraftInterestFunctionName", event)]


@pytest.mark.parametrize(
    ("queue", "event", "answer"),
    [
        (QueueName.OUTCOMES, republish(1), published()),
        (QueueName.JOBS, {"job": "reconcile_accounts"}, {"outcome": "Done"}),
    ],
)
def test_a_redrive_that_is_killed_before_it_deletes_the_letter_invokes_the_function_again(
    queue: QueueName, event: Any, answer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(**_: Any) -> None:
        raise Killed

    functions = Functions(json.dumps(event), answers=[Killed(), answer, answer])
    with pytest.raises(Killed):
        redriven(functions, queue)
    with monkeypatch.context() as patches:
        patches.setattr(functions, "delete_message_batch", killed)
        with pytest.raises(Killed):
            redriven(functions, queue)
    functions.hidden.clear()  # the visibility timeout ends
    assert redriven(functions, queue).done.total() == 1
    assert [invoked for _, invoked in functions.invoked] == [event] * 3
    assert functions.letters == {}


def test_an_interruption_while_it_receives_hides_nothing() -> None:
    queues, calls = Queues(*map(str, range(40))), iter(range(100))

    def interrupt() -> None:
        if next(calls) == 3:
            raise KeyboardInterrupt

    queues.before_receiving = interrupt
    with pytest.raises(KeyboardInterrupt):
        looked_at(queues)
    assert len(queues.receipts) > 10
    assert queues.hidden == {}


def test_the_letter_of_a_message_is_as_sqs_gives_it() -> None:
    queues: Any = Queues("a")
    [letter] = look(queues, "transactions")
    assert letter == Letter(
        "a",
        {"reason_code": "X"},
        "l-0",
        NOW,
        QueueName.TRANSACTIONS,
        "l-0 1",
        {"reason_code": {"DataType": "String", "StringValue": "X"}},
    )
