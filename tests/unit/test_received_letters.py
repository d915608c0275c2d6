"""Letters are received, given back and redriven: what becomes of them if SQS repeats, hides, refuses or forgets."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Any

import pytest

from tests.support.faults import Killed
from tools.teller import redriving
from tools.teller.failures import Failure
from tools.teller.letters import QueueName, Received, look
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


def test_a_letter_that_comes_again_during_a_long_look_is_seen_once_and_given_back() -> None:
    queues = Queues(*map(str, range(25)))

    def visible_again() -> None:
        if queues.receipts.get("l-24") and queues.receipts["l-0"] < 3:
            del queues.hidden["l-0"]

    queues.before_receiving = visible_again
    assert sorted(looked_at(queues), key=int) == [str(number) for number in range(25)]
    assert queues.receipts["l-0"] == 3
    assert queues.hidden == {}


def test_what_was_deleted_is_not_given_back_and_what_was_not_is_counted() -> None:
    queues: Any = Queues("a", "b")
    with Received(queues, QueueName.TRANSACTIONS) as received:
        [letters] = received.rounds()
        assert received.delete([letter for letter in letters if letter.body == "a"]) == 0
        queues.forgetful = True
        assert received.delete([letter for letter in letters if letter.body == "b"]) == 1
    assert [message["Body"] for message in queues.letters.values()] == ["b"]


class KilledAt(Queues):
    """The process is killed before or after its call number `at`, from 1 on. `calls` counts them."""

    CALLS = ("receive_message", "send_message_batch", "delete_message_batch", "change_message_visibility_batch")

    def __init__(self, at: int, *bodies: str, after: bool) -> None:
        super().__init__(*bodies)
        self.calls = 0
        for name in self.CALLS:
            setattr(self, name, self._killing(getattr(self, name), at, after=after))

    def _killing(self, call: Callable[..., Any], at: int, *, after: bool) -> Callable[..., Any]:
        def made(**parameters: Any) -> Any:
            self.calls += 1
            if self.calls == at and not after:
                raise Killed
            answer = call(**parameters)
            if self.calls == at:
                raise Killed
            return answer

        return made


def test_a_redrive_that_is_killed_at_any_call_loses_no_letter_and_leaves_none() -> None:
    bodies = [str(number) for number in range(25)]
    unharmed = KilledAt(0, *bodies, after=False)
    redriven(unharmed)
    assert (sorted(unharmed.sent), unharmed.letters) == (sorted(bodies), {})
    for at in range(1, unharmed.calls + 1):
        for after in (False, True):
            queues = KilledAt(at, *bodies, after=after)
            with pytest.raises(Killed):
                redriven(queues)
            queues.hidden.clear()  # the visibility timeout ends
            redriven(queues)
            assert (set(queues.sent), queues.letters) == (set(bodies), {})


def test_what_its_queue_refuses_stays_a_letter_and_the_rest_is_redriven_in_its_group(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(redriving, "SENDING_SECONDS", 0.2)
    queues = Queues("a", "b", "c")
    queues.refused = {"b"}
    queues.letters["l-0"]["Attributes"]["MessageGroupId"] = "tenant-7"
    with pytest.raises(Failure, match=r"^2 letters were redriven\. .* the next 1, which stay dead letters: Refused"):
        redriven(queues)
    assert (queues.sent, queues.groups) == (["a", "c"], ["tenant-7", None])
    assert [message["Body"] for message in queues.letters.values()] == ["b"]
    assert queues.hidden == {}


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


BATCH = {
    "approximateArrivalOfFirstRecord": "2026-02-28T11:00:00.000Z",
    "approximateArrivalOfLastRecord": "2026-02-28T11:20:00.000Z",
}
AROUND = {"republish": {"from": "2026-02-28T10:45:00+00:00", "to": "2026-02-28T11:35:00+00:00"}}
CHARGE = {"job": "charge_overdraft_interest", "scheduled_time": "2026-02-28T00:00:00Z"}
REPUBLISHES, CHARGES = "RepublishOutcomesFunctionName", "ChargeOverdraftInterestFunctionName"
DONE = {"outcome": "Done"}


OUTCOMES, JOBS, SCHEDULES = QueueName.OUTCOMES, QueueName.JOBS, QueueName.SCHEDULES
AGAIN = [(REPUBLISHES, republish(1)), (REPUBLISHES, republish(4))]
GIVEN_UP = {"version": "1.0", "DDBStreamBatchInfo": BATCH}


@pytest.mark.parametrize(
    ("queue", "body", "answers", "invoked"),
    [
        pytest.param(OUTCOMES, republish(1), [published(republish(4)), published()], AGAIN, id="until nothing is left"),
        pytest.param(OUTCOMES, GIVEN_UP, [published()], [(REPUBLISHES, AROUND)], id="a batch, and around it"),
        pytest.param(JOBS, CHARGE, [DONE], [(CHARGES, CHARGE)], id="the event of a job"),
        pytest.param(SCHEDULES, CHARGE, [DONE], [(CHARGES, CHARGE)], id="the event of a schedule"),
        pytest.param(JOBS, CHARGE, [Killed(), DONE], [(CHARGES, CHARGE)] * 2, id="again, after a kill"),
    ],
)
def test_the_function_of_a_letter_is_invoked(queue: QueueName, body: Any, answers: list[Any], invoked: Any) -> None:
    functions = Functions(json.dumps(body), answers=[*answers])
    if isinstance(answers[0], Killed):
        with pytest.raises(Killed):
            redriven(functions, queue)
        functions.hidden.clear()  # the visibility timeout ends
    assert redriven(functions, queue).done.total() == 1
    assert (functions.invoked, functions.letters) == (invoked, {})


MISSING = {"account_id": "a", "from_version": 2, "to_version": 3, "reason": "no entry"}
UNKNOWN = {"error": {"code": "UNKNOWN_ACCOUNT", "reason": "no account 'a'"}}


@pytest.mark.parametrize(
    ("queue", "body", "answers", "reason"),
    [
        (OUTCOMES, republish(1), [published(missing=[MISSING])], "a: versions 2 to 3 weren't published: no entry"),
        (OUTCOMES, republish(1), [UNKNOWN], "no account 'a'"),
        (OUTCOMES, {"account_id": "a"}, [], "its item has no version"),
        (OUTCOMES, "junk", [], "its item has no version"),
        (JOBS, {"job": "reconcile_accounts"}, [Failure("the function failed")], "the function failed"),
        (SCHEDULES, {"job": "sweep"}, [], "its body isn't the event of a job"),
        (JOBS, [], [], "its body isn't the event of a job"),
    ],
)
def test_a_letter_that_its_function_cannot_handle_stays_with_a_sentence(
    queue: QueueName, body: Any, answers: list[Any], reason: str
) -> None:
    functions = Functions(body if isinstance(body, str) else json.dumps(body), answers=[*answers])
    found = redriven(functions, queue)
    assert (found.done, list(functions.letters), functions.hidden) == ({}, ["l-0"], {})
    assert found.staying["l-0"].startswith(reason)


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
