"""`teller dead-letters` on the deployed stack: letters are seen, mended, sent again, dropped, and none is lost.

tests/unit/test_letters.py and test_received_letters.py have every form of it.
"""

import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.bodies import opening, payment
from tests.support.command import Command
from tests.support.deployed import Bank, until
from tools.local_aws.queues import take_dead_letters
from tools.teller import letters
from tools.teller.letters import QueueName

EDITOR = """#!/bin/sh
sed -i 's/"12,50"/"12.50"/' "$1"
"""


@pytest.fixture
def command(bank: Bank, monkeypatch: pytest.MonkeyPatch) -> Iterator[Command]:
    """The command, on a stack without dead letters. It doesn't wait for letters: the local AWS has but one server."""
    monkeypatch.setattr(letters, "POLL_SECONDS", 0)
    _tidy(bank)
    yield Command(bank.stack)
    _tidy(bank)


def _tidy(bank: Bank) -> None:
    for queue in (bank.transactions, bank.profiles):
        queue.wait_until_drained()
    for name in QueueName:
        take_dead_letters(bank.stack.endpoint, bank.stack[name.output])


def put_letters(bank: Bank, queue: str, *bodies: str, **attributes: str) -> None:
    """Puts letters on a dead-letter queue, as if messages had died."""
    texts = {name: {"DataType": "String", "StringValue": text} for name, text in attributes.items()}
    for batch in itertools.batched(bodies, 10, strict=False):
        entries = [{"Id": str(n), "MessageBody": body, "MessageAttributes": texts} for n, body in enumerate(batch)]
        bank.stack.endpoint.client("sqs").send_message_batch(
            QueueUrl=bank.stack[QueueName(queue).output], Entries=entries
        )


def visible(bank: Bank, queue: str = "transactions") -> int:
    url, name = bank.stack[QueueName(queue).output], "ApproximateNumberOfMessages"
    found = bank.stack.endpoint.client("sqs").get_queue_attributes(QueueUrl=url, AttributeNames=[name])
    return int(found["Attributes"][name])


def test_a_dead_message_is_found_mended_in_an_editor_and_posted(
    bank: Bank, command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    poison = json.dumps(payment("t-1", "12,50", "mended"))
    bank.transactions.send(opening("mended"))
    trace = {"trace": {"DataType": "String", "StringValue": "x-1"}}
    sent = bank.transactions.sqs.send_message(
        QueueUrl=bank.transactions.queue_url, MessageBody=poison, MessageAttributes=trace
    )
    until(lambda: visible(bank), "it is dead")
    [row] = command.json("dead-letters")["dead_letters"]
    assert (row["queue"], row["code"], row["letters"]) == ("transactions", "INVALID_MESSAGE", 1)
    [letter] = command.json("dead-letters", "show", "transactions")["dead_letters"]
    assert (letter["body"], letter["attributes"]) == (poison, {"trace": "x-1"})
    assert letter["reason"].startswith("amount: expected a decimal number")
    assert letter["origin"]["message_id"] == sent["MessageId"]
    assert letter["origin"]["sent_at"] < letter["dead_since"]
    assert sent["MessageId"] in command.shown("dead-letters", "show", "--id", sent["MessageId"])

    editor = tmp_path / "editor"
    editor.write_text(EDITOR)
    editor.chmod(0o755)
    monkeypatch.setenv("EDITOR", str(editor))
    answer = command.json("dead-letters", "redrive", "transactions", "--edit")
    assert answer == {"redriven": {"INVALID_MESSAGE": 1}, "staying": [], "not_found": 0, "not_deleted": 0}
    bank.transactions.wait_until_drained()
    assert command.json("account", "mended")["balance"] == "12.5"
    entry = command.json("transaction", "mended", "t-1")["entry"]
    assert entry["first_sent"] == {name: letter["origin"][name] for name in entry["sent"]}, "the first sender"
    assert entry["sent"]["message_id"] != sent["MessageId"], "that of the operator's message"
    assert "no dead letters" in command.shown("dead-letters")


def test_letters_are_chosen_dropped_and_visible_to_others_after_a_look(bank: Bank, command: Command) -> None:
    put_letters(bank, "transactions", "a", "b", *(f"junk {n}" for n in range(23)), reason_code="INVALID_MESSAGE")
    put_letters(bank, "transactions", "c", reason_code="FUNCTION_KILLED")
    put_letters(bank, "transactions", "d")
    counts = {row["code"]: row["letters"] for row in command.json("dead-letters", "transactions")["dead_letters"]}
    assert counts == {"INVALID_MESSAGE": 25, "FUNCTION_KILLED": 1, "none": 1}
    assert visible(bank) == 27

    def would_redrive(*options: str) -> Any:
        return command.json("dead-letters", "redrive", "transactions", "--dry-run", *options)["would_redrive"]

    shown = command.json("dead-letters", "show", "transactions")["dead_letters"]
    ids = {letter["body"]: letter["id"] for letter in shown}
    assert would_redrive() == {"INVALID_MESSAGE": 25, "none": 1}
    assert would_redrive("--code", "FUNCTION_KILLED") == {"FUNCTION_KILLED": 1}
    assert would_redrive("--id", ids["a"], "--id", ids["c"]) == {"INVALID_MESSAGE": 1, "FUNCTION_KILLED": 1}
    assert visible(bank) == 27
    dropped = command.json("dead-letters", "drop", "transactions", "--id", ids["a"])["dropped"]
    assert [letter["body"] for letter in dropped] == ["a"]
    assert "dropped 1 dead letter (none 1)" in command.shown("dead-letters", "drop", "transactions", "--code", "none")
    [received] = bank.transactions.sqs.receive_message(
        QueueUrl=bank.transactions.dead_letter_queue_url, VisibilityTimeout=60
    )["Messages"]
    assert "someone else has just received them: 1 more" in " ".join(command.run("dead-letters").err.split())
    bank.transactions.sqs.change_message_visibility(
        QueueUrl=bank.transactions.dead_letter_queue_url, ReceiptHandle=received["ReceiptHandle"], VisibilityTimeout=0
    )
    assert len(bank.transactions.take_dead_letters()) == 25


def test_outcomes_are_published_jobs_are_run_and_what_can_be_neither_stays(bank: Bank, command: Command) -> None:
    bank.transactions.process(opening("unheard"))
    consumer = bank.new_consumer("redriven", {"detail": {"account_id": ["unheard"]}})
    wanted, none = (
        json.dumps({"republish": {"account_id": account_id, "from_version": 1, "to_version": 1}})
        for account_id in ("unheard", "unheard-of")
    )
    put_letters(bank, "outcomes", wanted, none, "{}", reason_code="EVENT_REFUSED")
    answer = command.json("dead-letters", "redrive", "outcomes", status=1)
    assert answer["redriven"] == {"EVENT_REFUSED": 1}
    reasons = " ".join(each["reason"] for each in answer["staying"])
    assert "unheard-of" in reasons
    assert "account_version" in reasons
    until(consumer.take, "the outcome is heard of")
    assert {letter.body for letter in bank.take_unpublished()} == {none, "{}"}

    event = {"job": "expire_holds", "scheduled_time": "2024-02-03T04:05:00Z", "force": True}
    put_letters(bank, "jobs", json.dumps(event), json.dumps({"job": "no_such_job"}), ERROR_CODE="THROTTLED")
    answer = command.json("dead-letters", "redrive", "jobs", status=1)
    assert answer["redriven"] == {"THROTTLED": 1}
    assert [each["reason"] for each in answer["staying"]] == ["its body isn't a job's"]
    assert visible(bank, "jobs") == 1
