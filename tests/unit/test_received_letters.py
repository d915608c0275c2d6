"""Letters are received, given back and redriven: what becomes of them if SQS repeats, hides, refuses or forgets."""

import contextlib
import itertools
import json
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Any

import pytest

from conditional_writes.testing import Clock
from tests.support.faults import Killed
from tests.support.sqs import Message, Sqs
from tools.teller import redriving
from tools.teller.dead_letters import drop
from tools.teller.failures import Failure
from tools.teller.letters import NO_CODE, QueueName, Received, look
from tools.teller.message_queues import MessageQueue
from tools.teller.operator import Operator
from tools.teller.redriving import redrive

pytestmark = pytest.mark.usefixtures("one_call_at_a_time")
MISSING = {"account_id": "a", "from_version": 2, "to_version": 3, "reason": "no entry"}
UNKNOWN = {"error": {"code": "UNKNOWN_ACCOUNT", "reason": "no account 'a'"}}


class Queues:
    """A deployment with the tests' own SQS, an output being the name of its queue. `before` each call may raise.

    Bodies in `refused` aren't taken by a queue, and if it is `forgetful` nothing is deleted.
    """

    def __init__(self, *bodies: str, queue: QueueName = QueueName.TRANSACTIONS) -> None:
        self.clock, self.calls, self.refused, self.forgetful = Clock(), 0, set[str](), False
        self._sqs, self._letters = Sqs(self.clock), queue.output
        self.before: Callable[[str], object] = lambda operation: None
        self.after: Callable[[str], object] = lambda operation: None
        for name in (*QueueName, *MessageQueue):
            self._sqs.answer("CreateQueue", {"QueueName": name.output}, "")
        for number, body in enumerate(bodies):
            self.put(body, number)
        self.clock.advance(60)

    def put(self, body: str, number: int) -> None:
        self._sqs.send(self._letters, body)
        self.messages(self._letters)[-1].message_id = f"l-{number}"

    def messages(self, output: str) -> list[Message]:
        return self._sqs.queues[output].messages

    @property
    def letters(self) -> dict[str, Message]:
        return {message.message_id: message for message in self.messages(self._letters)}

    @property
    def hidden(self) -> set[str]:
        return {name for name, message in self.letters.items() if message.visible_at > self.clock.time()}

    @property
    def sent(self) -> list[str]:
        return [message.body for message in self.messages("TransactionsQueueUrl")]

    def client(self, service: str) -> Any:
        return self

    def __getitem__(self, output: str) -> str:
        return output

    def __getattr__(self, operation: str) -> Callable[..., dict[str, Any]]:
        def call(**request: Any) -> dict[str, Any]:
            self.calls += 1
            self.before(operation)
            failed = [one for one in request.get("Entries", ()) if one.get("MessageBody") in self.refused]
            if self.forgetful and operation == "delete_message_batch":
                failed = request["Entries"]
            answer: dict[str, Any] = {}
            if taken := [one for one in request.get("Entries", ()) if one not in failed] or not failed:
                entries = {"Entries": taken} if taken else {}
                answer = self._sqs.answer(operation.title().replace("_", ""), request | entries, "")
            self.after(operation)
            date = format_datetime(datetime.fromtimestamp(self.clock.time(), UTC), usegmt=True)
            answer["Failed"] = [*answer.get("Failed", ()), *({"Id": one["Id"], "Code": "Refused"} for one in failed)]
            return answer | {"ResponseMetadata": {"HTTPHeaders": {"date": date}}}

        return call


def looked_at(queues: Any) -> list[str]:
    return [letter.body for letter in look(queues, "transactions")]


def redriven(queues: Any, queue: QueueName = QueueName.TRANSACTIONS) -> redriving.Redriven:
    return redrive(queues, queue, lambda letter: letter.body)


def test_a_letter_that_comes_again_during_a_long_look_is_seen_once_and_given_back() -> None:
    queues = Queues(*map(str, range(25)))

    def visible_again(_: str) -> None:
        if queues.letters["l-24"].receives and queues.letters["l-0"].receives < 3:
            queues.letters["l-0"].visible_at = 0

    queues.before = visible_again
    assert sorted(looked_at(queues), key=int) == [str(number) for number in range(25)]
    assert queues.letters["l-0"].receives == 3
    assert queues.hidden == set()


def test_what_was_deleted_is_not_given_back_and_what_was_not_is_counted() -> None:
    queues: Any = Queues("a", "b")
    with Received(queues, QueueName.TRANSACTIONS) as received:
        [letters] = received.rounds()
        assert received.delete([letter for letter in letters if letter.body == "a"]) == 0
        queues.forgetful = True
        assert received.delete([letter for letter in letters if letter.body == "b"]) == 1
    assert list(queues.letters) == ["l-1"]


def killing(bodies: Iterable[str], at: int, when: str) -> Queues:
    """The queues of these letters, whose user is killed "before" or "after" this call."""
    queues = Queues(*bodies)

    def kill(_: str) -> None:
        if queues.calls == at:
            raise Killed

    setattr(queues, when, kill)
    return queues


def test_a_redrive_that_is_killed_at_any_call_loses_no_letter_and_leaves_none() -> None:
    bodies = [str(number) for number in range(25)]
    unharmed = Queues(*bodies)
    redriven(unharmed)
    assert (sorted(unharmed.sent), unharmed.letters) == (sorted(bodies), {})
    for at, when in itertools.product(range(1, unharmed.calls + 1), ("before", "after")):
        queues = killing(bodies, at, when)
        with pytest.raises(Killed):
            redriven(queues)
        queues.clock.advance(3600)  # the visibility timeout ends
        redriven(queues)
        assert (set(queues.sent), queues.letters) == (set(bodies), {})


def test_letters_are_dropped_after_the_answer_has_them_however_it_is_killed(capsys: pytest.CaptureFixture[str]) -> None:
    def dropped(queues: Queues) -> list[str]:
        operator = Operator("teller-dev", None, as_json=True)
        operator.__dict__["deployment"] = queues
        with contextlib.suppress(Killed):
            drop(operator, QueueName.TRANSACTIONS, code=NO_CODE, yes=True)
        out = capsys.readouterr().out
        return [letter["body"] for letter in json.loads(out)["dropped"]] if out else []

    bodies = [str(number) for number in range(25)]
    unharmed = Queues(*bodies)
    assert (sorted(dropped(unharmed)), unharmed.letters) == (sorted(bodies), {})
    for at, when in itertools.product(range(1, unharmed.calls + 1), ("before", "after")):
        queues = killing(bodies, at, when)
        assert {*dropped(queues), *(letter.body for letter in queues.letters.values())} == set(bodies)


def test_what_its_queue_refuses_stays_a_letter_and_the_rest_is_redriven(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redriving, "SENDING_SECONDS", 0.2)
    queues = Queues("a", "b", "c")
    queues.refused = {"b"}
    queues.letters["l-0"].group_id = "tenant-7"
    with pytest.raises(Failure, match=r"^2 letters were redriven\. .* the next 1, which stay dead letters: Refused"):
        redriven(queues)
    sent = queues.messages("TransactionsQueueUrl")
    assert [(message.body, message.group_id) for message in sent] == [("a", "tenant-7"), ("c", None)]
    assert (list(queues.letters), queues.hidden) == (["l-1"], set())


class Functions(Queues):
    """Its functions answer in turn: an answer, or an error."""

    def __init__(self, body: str, queue: QueueName, answers: list[Any]) -> None:
        super().__init__(body, queue=queue)
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


ARRIVED = "approximateArrivalOf{}Record"
BATCH = {ARRIVED.format("First"): "2026-02-28T11:00:00.000Z", ARRIVED.format("Last"): "2026-02-28T11:20:00.000Z"}
AROUND = {"republish": {"from": "2026-02-28T10:45:00+00:00", "to": "2026-02-28T11:35:00+00:00"}}
REPUBLISHES = "RepublishOutcomesFunctionName"
OUTCOMES, JOBS = QueueName.OUTCOMES, QueueName.JOBS
AGAIN = [(REPUBLISHES, republish(1)), (REPUBLISHES, republish(4))]
GIVEN_UP = {"version": "1.0", "DDBStreamBatchInfo": BATCH}


@pytest.mark.parametrize(
    ("queue", "body", "answers", "invoked"),
    [
        pytest.param(OUTCOMES, republish(1), [published(republish(4)), published()], AGAIN, id="until nothing is left"),
        pytest.param(OUTCOMES, GIVEN_UP, [published()], [(REPUBLISHES, AROUND)], id="a batch, and around it"),
        pytest.param(OUTCOMES, GIVEN_UP, [Killed(), published()], [(REPUBLISHES, AROUND)] * 2, id="after a kill"),
    ],
)
def test_the_function_of_a_letter_is_invoked(queue: QueueName, body: Any, answers: list[Any], invoked: Any) -> None:
    functions = Functions(json.dumps(body), queue, [*answers])
    if isinstance(answers[0], Killed):
        with pytest.raises(Killed):
            redriven(functions, queue)
        functions.clock.advance(3600)  # the visibility timeout ends
    assert redriven(functions, queue).done.total() == 1
    assert (functions.invoked, functions.letters) == (invoked, {})


def test_the_message_of_a_job_is_sent_to_its_queue_for_a_run_whatever_its_time() -> None:
    body, sent = json.dumps({"job": "expire_holds", "scheduled_time": "then"}), list[Any]()
    queues: Any = Queues(body, queue=JOBS)
    queues.send_message = lambda **message: sent.append(message) or {"MessageId": "m-1"}
    assert redriven(queues, JOBS).done.total() == 1
    [message] = sent
    assert message["QueueUrl"] == "ExpireHoldsQueueUrl"
    assert json.loads(message["MessageBody"]) == {"job": "expire_holds", "scheduled_time": "then", "force": True}
    assert queues.letters == {}


def test_the_letter_of_a_job_stays_if_the_answer_does_not_name_its_message() -> None:
    """As in the page of a proxy."""
    queues: Any = Queues(json.dumps({"job": "expire_holds"}), queue=JOBS)
    queues.send_message = lambda **_: {}
    [why] = redriven(queues, JOBS).staying.values()
    assert (why, list(queues.letters)) == ("the queue ExpireHoldsQueueUrl didn't say that it took the message", ["l-0"])


@pytest.mark.parametrize(
    ("queue", "body", "answers", "reason"),
    [
        (OUTCOMES, republish(1), [published(missing=[MISSING])], "a: versions 2 to 3 weren't published: no entry"),
        (OUTCOMES, republish(1), [UNKNOWN], "no account 'a'"),
        (OUTCOMES, {"account_id": "a"}, [], "its item has no version"),
        (OUTCOMES, "junk", [], "its item has no version"),
        (JOBS, {"job": "sweep"}, [], "its body isn't a job's"),
        (JOBS, [], [], "its body isn't a job's"),
    ],
)
def test_a_letter_that_its_function_cannot_handle_stays_with_a_sentence(
    queue: QueueName, body: Any, answers: list[Any], reason: str
) -> None:
    functions = Functions(body if isinstance(body, str) else json.dumps(body), queue, [*answers])
    found = redriven(functions, queue)
    assert (found.done, list(functions.letters), functions.hidden) == ({}, ["l-0"], set())
    assert found.staying["l-0"].startswith(reason)


def test_an_interruption_while_it_receives_hides_nothing() -> None:
    queues, calls = Queues(*map(str, range(40))), iter(range(100))

    def interrupt(operation: str) -> None:
        if operation == "receive_message" and next(calls) == 3:
            raise KeyboardInterrupt

    queues.before = interrupt
    with pytest.raises(KeyboardInterrupt):
        looked_at(queues)
    assert sum(message.receives for message in queues.letters.values()) > 10
    assert queues.hidden == set()
