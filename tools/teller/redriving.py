"""Redriving: a dead message gets another chance. Its letter is deleted only after that, so nothing is ever lost.

A message of a queue is sent there again; that of a job with `"force": true`, because its time is long ago. For a
request to publish an outcome the function is invoked with it. Killed in between, the command redrives a letter twice.
That is harmless: messages and requests may all be repeated.
"""

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import msgspec

from conditional_writes import Deadline
from ledger.core import profile_messages
from ledger.core.decoding import MAXIMUM_BODY_BYTES
from ledger.core.reason_codes import InvalidMessage
from tools.teller.deployment import LONGEST_INVOCATION_SECONDS, Deployment
from tools.teller.failures import Failure
from tools.teller.job_records import JOBS
from tools.teller.job_runs import begin
from tools.teller.letters import NO_CODE, Letter, QueueName, Received
from tools.teller.message_queues import MessageQueue
from tools.teller.republishing import publish_again
from workers.dead_letters import MAXIMUM_ATTRIBUTES, OWN_ATTRIBUTES
from workers.failed_entries import until_deadline
from workers.sending import Message, send

HIDDEN_SECONDS = 2 * LONGEST_INVOCATION_SECONDS
SENDING_SECONDS = 30
"""In which messages that their queue refuses are sent again and again."""
STREAM_MARGIN = timedelta(minutes=15)
"""Workers' clocks differ, and it takes a posting some time until its entry is in the stream."""


@dataclass
class Redriven:
    """The number of letters that were redriven, by code. Those that stay have a sentence each, by their id.

    `not_deleted` were redriven, but SQS didn't delete them.
    """

    done: Counter[str] = field(default_factory=Counter)
    staying: dict[str, str] = field(default_factory=dict)
    not_deleted: int = 0


class Stays(Exception):
    """The letter can't be redriven. The text is a sentence."""


def redrive(
    deployment: Deployment,
    queue: QueueName,
    new_body: Callable[[Letter], str | None],
    progress: Callable[[int], None] = lambda number: None,
) -> Redriven:
    """Redrives the queue's letters for which `new_body` returns a body, and deletes them.

    `progress` is told how many letters were looked at. Raises Failure if a queue doesn't take the messages: they stay
    dead letters, as do those that come after them.
    """
    redriven = Redriven()
    with Received(deployment, queue, HIDDEN_SECONDS) as received:
        for letters in received.rounds():
            chosen = [(letter, body) for letter in letters if (body := new_body(letter)) is not None]
            if queue in MessageQueue:
                _send_again(deployment, received, chosen, redriven)
            else:
                _redrive_each(deployment, received, chosen, redriven)
            progress(len(letters))
    return redriven


def _send_again(
    deployment: Deployment, received: Received, chosen: list[tuple[Letter, str]], redriven: Redriven
) -> None:
    letters, messages = list[Letter](), list[Message]()
    for letter, body in chosen:
        try:
            messages.append(Message(as_of_its_origin(letter, body), _attributes(letter), letter.group_id))
        except Stays as error:
            redriven.staying[letter.message_id] = str(error)
        else:
            letters.append(letter)
    if not letters:
        return
    sqs, url = deployment.client("sqs"), deployment[MessageQueue(letters[0].queue).output]
    deadline = Deadline.after(SENDING_SECONDS)
    failures = until_deadline(lambda left: send(sqs, url, left, deadline), messages, deadline)
    sent = [letter for letter, failure in zip(letters, failures, strict=True) if failure is None]
    redriven.not_deleted += received.delete(sent)
    redriven.done.update(letter.code or NO_CODE for letter in sent)
    if refusals := list(filter(None, failures)):
        raise Failure(
            f"{redriven.done.total():,} letters were redriven. The queue didn't take the next {len(refusals)}, which "
            f"stay dead letters: {refusals[0]}"
        )


def _attributes(letter: Letter) -> dict[str, Any]:
    """The message attributes that the producer set, and the origin: the journal entry names the first sender, too."""
    given = [(name, value) for name, value in letter.message_attributes.items() if name not in OWN_ATTRIBUTES]
    if letter.origin is None:
        return dict(given)
    return dict(given[: MAXIMUM_ATTRIBUTES - 1]) | letter.origin.as_attribute()


def as_of_its_origin(letter: Letter, body: str) -> str:
    """The body that is sent again. A profile update without `as_of` gets the time at which it was first sent.

    Without it, it would be as new as the redrive, and win over what was written meanwhile. The other fields stay
    as they are spelled. Raises Stays if the body has no room for it.
    """
    if letter.queue is not QueueName.PROFILES:
        return body
    try:
        if profile_messages.decode(body).as_of is not None:
            return body
    except InvalidMessage:
        return body
    sent_at = letter.origin.first_sending.sent_at if letter.origin else letter.sent_at.isoformat()
    fields = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
    if fields.pop("as_of", None):  # it is null, and a body may not have a name twice
        body = msgspec.json.encode(fields).decode()
    with_it = f'{body.rstrip().removesuffix("}")}, "as_of": "{sent_at}"}}'
    if len(with_it.encode()) > MAXIMUM_BODY_BYTES:
        raise Stays(
            f"its body has no as_of, and with one it would have more than {MAXIMUM_BODY_BYTES:,} bytes: divide it with "
            f'"as_of": "{sent_at}" in each part, send the parts, and drop the letter'
        )
    return with_it


def _redrive_each(
    deployment: Deployment, received: Received, chosen: list[tuple[Letter, str]], redriven: Redriven
) -> None:
    for letter, body in chosen:
        try:
            _WAYS[letter.queue](deployment, body)
        except (Stays, Failure) as error:
            redriven.staying[letter.message_id] = str(error)
        else:
            redriven.not_deleted += received.delete([letter])
            redriven.done[letter.code or NO_CODE] += 1


def _publish_again(deployment: Deployment, body: str) -> None:
    """Has republish_outcomes answer the letter's event, and the `next` of its answers."""
    missing = publish_again(deployment, _republish_event(body))["missing_versions"]
    if missing:
        first = missing[0]
        versions = f" {first['from_version']} to {first['to_version']}" if "from_version" in first else ""
        raise Stays(f"{first['account_id']}: versions{versions} weren't published: {first['reason']}")


def _republish_event(body: str) -> dict[str, Any]:
    """The event for republish_outcomes: the letter's body, or that of a batch that Lambda gave up."""
    match _json(body):
        case {"republish": dict()} as event:
            return event
        case {
            "DDBStreamBatchInfo": {
                "approximateArrivalOfFirstRecord": str(first),
                "approximateArrivalOfLastRecord": str(last),
            }
        }:
            try:
                begin, end = datetime.fromisoformat(first) - STREAM_MARGIN, datetime.fromisoformat(last) + STREAM_MARGIN
            except (ValueError, OverflowError):
                raise Stays(f"expected the times of a batch's records, got {first} and {last}") from None
            return {"republish": {"from": begin.isoformat(), "to": end.isoformat()}}
        case {"key": dict()}:
            raise Stays(
                "a journal entry was changed, and nothing is published of it: docs/operations.md says what to do"
            )
    raise Stays(
        "its item has no version: restore the item's account_version, and run teller outcomes republish ACCOUNT"
    )


def _run_job(deployment: Deployment, body: str) -> None:
    match _json(body):
        case {"job": str(name)} as event if name in JOBS:
            begin(deployment, JOBS[name], event | {"force": True})
        case _:
            raise Stays("its body isn't a job's")


_WAYS = {
    QueueName.OUTCOMES: _publish_again,
    QueueName.JOBS: _run_job,
}


def _json(body: str) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None
