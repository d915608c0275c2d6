"""`teller dead-letters` on the deployed stack: every letter is seen once, none is lost, and nothing is posted twice."""

import itertools
import json
import os
import re
import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.checkers.books import violations
from tests.support.command import Command
from tests.support.deployed import Bank, opening, payment, until
from tests.support.faults import Fault, Faults, Killed, one_call_at_a_time
from tools.local_aws.queues import take_dead_letters
from tools.local_aws.server import PROJECT
from tools.teller import letters, redriving
from tools.teller.deployment import Deployment
from tools.teller.letters import QueueName, look
from tools.teller.redriving import redrive

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


def put_letters(bank: Bank, queue: str, bodies: list[str], **attributes: str) -> None:
    """Puts letters on a dead-letter queue, as if messages had died."""
    sqs = bank.stack.endpoint.client("sqs")
    texts = {name: {"DataType": "String", "StringValue": text} for name, text in attributes.items()}
    for batch in itertools.batched(bodies, 10, strict=False):
        entries = [
            {"Id": str(index), "MessageBody": body, "MessageAttributes": texts} for index, body in enumerate(batch)
        ]
        sqs.send_message_batch(QueueUrl=bank.stack[QueueName(queue).output], Entries=entries)


def visible(bank: Bank, queue: str = "transactions") -> int:
    url = bank.stack[QueueName(queue).output]
    names = ["ApproximateNumberOfMessages"]
    attributes = bank.stack.endpoint.client("sqs").get_queue_attributes(QueueUrl=url, AttributeNames=names)
    return int(attributes["Attributes"][names[0]])


def balance(bank: Bank, account_id: str) -> str:
    return Command(bank.stack).json("account", account_id)["balance"]


def test_a_dead_message_is_found_mended_in_an_editor_and_posted(
    bank: Bank, command: Command, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    sqs, poison = bank.stack.endpoint.client("sqs"), payment("mended", 1, "12,50")
    bank.transactions.send([opening("mended")])
    trace = {"trace": {"DataType": "String", "StringValue": "x-1"}}
    sent = sqs.send_message(QueueUrl=bank.transactions.queue_url, MessageBody=poison, MessageAttributes=trace)
    until(lambda: visible(bank), "it is dead")
    [row] = command.json("dead-letters")["dead_letters"]
    assert (row["queue"], row["code"], row["letters"]) == ("transactions", "INVALID_MESSAGE", 1)
    assert "INVALID_MESSAGE" in command.shown("dead-letters", "transactions")
    [letter] = command.json("dead-letters", "show", "transactions")["dead_letters"]
    assert (letter["body"], letter["attributes"]) == (poison, {"trace": "x-1"})
    assert letter["reason"].startswith("amount: expected a decimal number")
    assert letter["origin"]["message_id"] == sent["MessageId"]
    assert letter["origin"]["sent_at"] < letter["dead_since"]
    request_id = letter["origin"]["request_id"]
    until(
        lambda: request_id in {line.get("function_request_id") for line in bank.transactions.logged()}, "it is logged"
    )
    assert sent["MessageId"] in command.shown("dead-letters", "show", "--id", sent["MessageId"])

    editor = tmp_path / "editor"
    editor.write_text(EDITOR)
    editor.chmod(0o755)
    monkeypatch.setenv("EDITOR", str(editor))
    answer = command.json("dead-letters", "redrive", "transactions", "--edit")
    assert answer == {"redriven": {"INVALID_MESSAGE": 1}, "staying": [], "not_found": 0, "not_deleted": 0}
    bank.transactions.wait_until_drained()
    assert balance(bank, "mended") == "12.5"
    assert command.json("dead-letters")["dead_letters"] == []
    assert "no dead letters" in command.shown("dead-letters")


def test_an_editor_that_changes_nothing_sends_nothing(
    bank: Bank, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_letters(bank, "transactions", ["junk", payment("nobody", 1)], reason_code="INVALID_MESSAGE")
    for editor, status in (("true", 0), ("false", 1), ("/no/such/editor", 1), ("sed -i s/junk/jank/", 1)):
        monkeypatch.setenv("EDITOR", editor)
        ended = command.run("dead-letters", "redrive", "transactions", "--edit")
        assert ended.status == status, ended
        assert ("No message was changed." in ended.err) == (editor == "true")
        assert visible(bank) == 2
    assert "line 1: body: expected JSON" in ended.err or "line 2: body: expected JSON" in ended.err
    [kept] = re.findall(r"Your edits are kept in (\S+)\.", ended.err)
    assert "jank" in Path(kept).read_text()
    shutil.rmtree(Path(kept).parent)


def test_what_is_only_looked_at_is_visible_again_even_if_the_looking_breaks_off(bank: Bank, command: Command) -> None:
    put_letters(bank, "transactions", [f"junk {number}" for number in range(25)], reason_code="INVALID_MESSAGE")
    for arguments in (["dead-letters"], ["dead-letters", "show"], ["dead-letters", "show", "--code", "OTHER"]):
        command.run(*arguments)
        assert visible(bank) == 25
    for change in ("redrive", "drop"):
        command.json("dead-letters", change, "transactions", "--code", "INVALID_MESSAGE", "--dry-run")
        assert visible(bank) == 25
    deployment = Deployment(bank.stack.name, bank.stack.endpoint.url)
    with pytest.raises(KeyboardInterrupt):  # noqa: PT012 (the interruption comes while the generator is in use)
        for _ in look(deployment, "transactions"):
            raise KeyboardInterrupt
    assert visible(bank) == 25


def test_letters_that_someone_else_has_received_are_counted(bank: Bank, command: Command) -> None:
    put_letters(bank, "jobs", ["junk"], reason_code="X")
    sqs, url = bank.stack.endpoint.client("sqs"), bank.stack["JobsDeadLetterQueueUrl"]
    [received] = sqs.receive_message(QueueUrl=url, VisibilityTimeout=60)["Messages"]
    for arguments in (["dead-letters", "jobs"], ["dead-letters", "show", "jobs"]):
        ended = command.run(*arguments)
        assert ended.out == "no dead letters\n"
        assert " ".join(ended.err.split()) == "Hidden, because someone else has just received them: 1 more of jobs."
    sqs.delete_message(QueueUrl=url, ReceiptHandle=received["ReceiptHandle"])


def test_a_look_that_is_ended_from_outside_hides_no_letter(bank: Bank, command: Command) -> None:
    """At the end it waits for a second whether more letters come."""
    put_letters(bank, "transactions", [f"junk {number}" for number in range(150)], reason_code="INVALID_MESSAGE")
    environment = os.environ | bank.stack.endpoint.environment | {"TELLER_STACK": bank.stack.name}
    arguments = [str(PROJECT / ".venv/bin/teller"), "dead-letters", "show", "transactions"]
    with subprocess.Popen(arguments, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as looking:
        until(lambda: visible(bank) < 150, "it has received letters")
        looking.terminate()
    assert looking.returncode != 0
    assert visible(bank) == 150


def test_letters_are_chosen_by_code_and_id_and_killers_stay_unless_they_are_named(bank: Bank, command: Command) -> None:
    put_letters(bank, "transactions", ["a", "b"], reason_code="INVALID_MESSAGE")
    put_letters(bank, "transactions", ["c"], reason_code="FUNCTION_KILLED")
    put_letters(bank, "transactions", ["d"])
    counts = {row["code"]: row["letters"] for row in command.json("dead-letters", "transactions")["dead_letters"]}
    assert counts == {"INVALID_MESSAGE": 2, "FUNCTION_KILLED": 1, "none": 1}

    def would_redrive(*options: str) -> Any:
        return command.json("dead-letters", "redrive", "transactions", "--dry-run", *options)["would_redrive"]

    assert would_redrive() == {"INVALID_MESSAGE": 2, "none": 1}
    assert would_redrive("--code", "FUNCTION_KILLED") == {"FUNCTION_KILLED": 1}
    assert would_redrive("--code", "none") == {"none": 1}
    shown = command.json("dead-letters", "show", "transactions")["dead_letters"]
    ids = {letter["body"]: letter["id"] for letter in shown}
    assert would_redrive("--id", ids["a"], "--id", ids["c"]) == {"INVALID_MESSAGE": 1, "FUNCTION_KILLED": 1}
    remark = command.run("dead-letters", "redrive", "transactions", "--dry-run").err
    assert "Left alone: 1 letter with the code FUNCTION_KILLED" in " ".join(remark.split())
    dropped = command.json("dead-letters", "drop", "transactions", "--id", ids["a"])["dropped"]
    assert [letter["body"] for letter in dropped] == ["a"]
    assert "dropped 1 dead letter (none 1)" in command.shown("dead-letters", "drop", "transactions", "--code", "none")
    assert {letter.body for letter in bank.transactions.take_dead_letters()} == {"b", "c"}


@pytest.mark.parametrize(
    ("arguments", "status", "sentence"),
    [
        (["letters"], 2, "'letters' is not one of 'transactions', 'profiles'"),
        (["redrive"], 2, "Missing argument 'QUEUE'"),
        (["redrive", "bus"], 2, "the bus's letters can't be redriven"),
        (["redrive", "jobs", "--edit"], 2, "the letters of jobs aren't messages that can be mended"),
        (["drop", "transactions"], 2, "name the letters with --code, --id or --about"),
        (["drop", "transactions", "--code", "X"], 1, "no visible dead letter of transactions has the code X"),
        (["redrive", "transactions", "--id", "x"], 1, "no visible dead letter of transactions has the id x"),
        (["show", "--code", "X", "--id", "x"], 1, "no visible dead letter has the code X and has the id x"),
        (["show", "--about", "a", "t"], 1, "no visible dead letter is about t on a"),
    ],
)
def test_wrong_use_is_a_sentence_and_a_status(
    command: Command, arguments: list[str], status: int, sentence: str
) -> None:
    ended = command.run("dead-letters", *arguments)
    assert ended.status == status, ended
    assert sentence in " ".join(ended.err.replace("│", " ").split())


def test_in_prod_nothing_is_changed_before_it_is_agreed_to(
    bank: Bank, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Deployment, "is_prod", True)
    put_letters(bank, "transactions", ["junk"], reason_code="INVALID_MESSAGE")
    for change in (["redrive", "transactions"], ["drop", "transactions", "--code", "INVALID_MESSAGE"]):
        ended = command.run("dead-letters", *change)
        assert ended.status == 2
        sentence = f"{change[0]} 1 dead letter (INVALID_MESSAGE 1) of transactions, add --yes"
        assert sentence in " ".join(ended.err.split())
    assert visible(bank) == 1
    assert command.json("dead-letters", *change, "--yes")["dropped"][0]["body"] == "junk"


def test_an_update_that_was_dead_for_an_hour_does_not_win_over_what_came_meanwhile(
    bank: Bank, command: Command
) -> None:
    hour_ago = (datetime.now(UTC) - timedelta(hours=1)).isoformat()
    update: dict[str, Any] = {"account_id": "late-letter", "path": ["preferences"]}
    bank.profiles.send([json.dumps(update | {"entries": {"theme": "new"}})])
    bank.profiles.wait_until_drained()
    old = json.dumps(update | {"entries": {"theme": "old", "size": 1.50}})
    origin = json.dumps({"message_id": "m", "sent_at": hour_ago, "request_id": "r"})
    put_letters(bank, "profiles", [old], reason_code="RETRIES_EXHAUSTED", origin=origin)
    assert command.json("dead-letters", "redrive", "profiles")["redriven"] == {"RETRIES_EXHAUSTED": 1}
    bank.profiles.wait_until_drained()
    profile = bank.read_profiles()["late-letter"]
    assert profile["preferences"]["theme"] == "new"
    assert profile["preferences"]["size"] == 1.5


def test_an_outcome_that_was_not_published_is_published_and_one_that_is_missing_stays(
    bank: Bank, command: Command
) -> None:
    bank.take_unpublished()
    bank.transactions.send([opening("unheard")])
    bank.transactions.wait_until_drained()
    consumer = bank.new_consumer("redriven", {"detail": {"account_id": ["unheard"]}})
    wanted = {"republish": {"account_id": "unheard", "from_version": 1, "to_version": 1}}
    none = {"republish": {"account_id": "unheard-of", "from_version": 1, "to_version": 1}}
    now = datetime.now(UTC).isoformat()
    batch = {"DDBStreamBatchInfo": {"approximateArrivalOfFirstRecord": now, "approximateArrivalOfLastRecord": now}}
    put_letters(bank, "outcomes", [json.dumps(wanted), json.dumps(none), "{}"], reason_code="EVENT_REFUSED")
    put_letters(bank, "outcomes", [json.dumps(batch)])
    answer = command.json("dead-letters", "redrive", "outcomes", status=1)
    assert answer["redriven"] == {"EVENT_REFUSED": 1, "none": 1}
    reasons = " ".join(each["reason"] for each in answer["staying"])
    assert "unheard-of" in reasons
    assert "account_version" in reasons
    until(lambda: len(consumer.take()) >= 1, "the outcome is heard of")
    assert {letter.body for letter in bank.take_unpublished()} == {json.dumps(none), "{}"}


def test_the_event_of_a_job_is_run_and_another_body_stays(bank: Bank, command: Command) -> None:
    event = {"job": "reconcile_accounts", "scheduled_time": "2024-02-03T04:05:00Z", "force": True}
    put_letters(bank, "jobs", [json.dumps(event)], ErrorCode="200", ErrorMessage="it was killed")
    put_letters(bank, "schedules", [json.dumps({"job": "no_such_job"})], ERROR_CODE="THROTTLED")
    assert command.json("dead-letters", "redrive", "jobs")["redriven"] == {"200": 1}
    answer = command.json("dead-letters", "redrive", "schedules", status=1)
    assert [each["reason"] for each in answer["staying"]] == ["its body isn't the event of a job"]
    assert command.json("dead-letters", "drop", "schedules", "--code", "THROTTLED")["dropped"]
    assert visible(bank, "jobs") == 0


def test_a_redrive_that_is_killed_at_any_call_loses_nothing_and_nothing_is_posted_twice(
    bank: Bank, command: Command, monkeypatch: pytest.MonkeyPatch, every_case: bool
) -> None:
    """Each run has a dead-letter queue of its own. A second run finds what the first one left, hidden at first."""
    monkeypatch.setattr(redriving, "HIDDEN_SECONDS", 1)
    monkeypatch.setattr(letters, "CONNECTIONS", 2)
    sqs = bank.stack.endpoint.client("sqs")
    bank.transactions.send([opening("redriven")])
    bank.transactions.wait_until_drained()
    numbers, runs, expected = itertools.count(), list[Deployment](), 0

    def new_run() -> Deployment:
        deployment = Deployment(bank.stack.name, bank.stack.endpoint.url)
        url = sqs.create_queue(QueueName=f"redriven-{next(numbers)}")["QueueUrl"]
        deployment.outputs = {**deployment.outputs, QueueName.TRANSACTIONS.output: url}
        first = 12 * len(runs)
        for batch in itertools.batched(range(first, first + 12), 10, strict=False):
            entries = [{"Id": str(number), "MessageBody": payment("redriven", number)} for number in batch]
            sqs.send_message_batch(QueueUrl=url, Entries=entries)
        runs.append(deployment)
        return deployment

    def redriven(deployment: Deployment, faults: Faults) -> None:
        with one_call_at_a_time(), faults.on(deployment.client("sqs")), suppress(Killed):
            redrive(deployment, QueueName.TRANSACTIONS, lambda letter: letter.body)

    unharmed = Faults()
    redriven(new_run(), unharmed)
    assert Counter(unharmed.calls)["SendMessageBatch"] >= 2
    for at in range(1, len(unharmed.calls) + 1, 1 if every_case else 3):
        for fault in (Fault.KILLED_BEFORE, Fault.KILLED_AFTER):
            faults = Faults(fault, at)
            redriven(new_run(), faults)
            assert faults.injected[fault] == 1
    time.sleep(1.1)
    for deployment in runs:
        redriven(deployment, Faults())
        expected += 12
        assert sqs.receive_message(QueueUrl=deployment[QueueName.TRANSACTIONS.output]).get("Messages", []) == []
    bank.transactions.wait_until_drained()
    books = bank.books()
    assert violations(books) == []
    posted = [entry.transaction_id for entry in books.journal["redriven"] if entry.transaction_id != "open"]
    assert sorted(posted) == sorted(f"t-{number}" for number in range(expected))


@pytest.mark.exhaustive
def test_letters_by_the_thousand_are_redriven_once_each_though_they_come_back_at_once(
    bank: Bank, command: Command
) -> None:
    put_letters(bank, "transactions", [f"junk {number}" for number in range(1200)], reason_code="INVALID_MESSAGE")
    answer = command.json("dead-letters", "redrive", "transactions")
    assert answer["redriven"] == {"INVALID_MESSAGE": 1200}
    bank.transactions.wait_until_drained()
    bodies = Counter(letter.body for letter in bank.transactions.take_dead_letters())
    assert len(bodies) == 1200
