"""Takes the run's own dead letters from a dead-letter queue. Letters of others stay, and are soon visible again."""

from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from typing import Any, NamedTuple

from botocore.exceptions import ClientError

from tools.teller.failures import Failure
from tools.teller.verify.run import USUAL_SECONDS, Run

HIDDEN_SECONDS = 60
"""How long a letter of another's is hidden at most, should the command be killed."""
MOST_FOREIGN_LETTERS = 20_000


class Letter(NamedTuple):
    body: str
    attributes: Mapping[str, str]


def take_own(run: Run, queue: str, number: int, seconds: float = USUAL_SECONDS) -> list[Letter]:
    """Waits for so many letters of the run's own, by the queue `Transactions` or `Profiles`, and deletes them.

    Raises TimeIsUp if there are fewer, and Failure if the queue has too many letters of others.
    """
    taken: list[Letter] = []

    def all_taken() -> bool:
        taken.extend(_take(run, run.deployment[f"{queue}DeadLetterQueueUrl"]))
        return len(taken) >= number

    run.wait(all_taken, lambda: f"{queue}: expected {number} dead letters, got {len(taken)}", seconds)
    return taken


def take_leftovers(run: Run, queue: str) -> list[Letter]:
    """Deletes the letters of the run's own that are there now."""
    return _take(run, run.deployment[f"{queue}DeadLetterQueueUrl"])


def _take(run: Run, queue_url: str) -> list[Letter]:
    sqs, own = run.client("sqs"), []
    with ExitStack() as hidden:
        foreign, empty_answers = 0, 0
        while empty_answers < 2:
            answer = sqs.receive_message(
                QueueUrl=queue_url,
                MaxNumberOfMessages=10,
                MessageAttributeNames=["All"],
                VisibilityTimeout=HIDDEN_SECONDS,
                WaitTimeSeconds=0 if run.deployment.is_local else 2,  # AWS looks at all its servers then
            )
            messages = answer.get("Messages", [])
            empty_answers = 0 if messages else empty_answers + 1
            for message in messages:
                if run.name in message["Body"]:
                    sqs.delete_message(QueueUrl=queue_url, ReceiptHandle=message["ReceiptHandle"])
                    own.append(_letter(message))
                    run.dead_letters.append(len(message["Body"].encode()))
                else:
                    foreign += 1
                    hidden.callback(_shower(sqs, queue_url, message["ReceiptHandle"]))
            if foreign > MOST_FOREIGN_LETTERS:
                raise Failure(f"{queue_url} has more than {MOST_FOREIGN_LETTERS:,} dead letters: redrive or drop them")
    return own


def _shower(sqs: Any, queue_url: str, receipt_handle: str) -> Callable[[], None]:
    """Makes a letter of another's visible again. One whose time is over is visible by itself."""

    def show() -> None:
        with suppress(ClientError):
            sqs.change_message_visibility(QueueUrl=queue_url, ReceiptHandle=receipt_handle, VisibilityTimeout=0)

    return show


def _letter(message: Mapping[str, Any]) -> Letter:
    given = message.get("MessageAttributes", {})
    return Letter(message["Body"], {name: value.get("StringValue", "") for name, value in given.items()})
