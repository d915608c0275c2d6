"""`teller outcomes tail` and `republish` on the deployed stack, beside a consumer of its bus."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest

from ledger.core.journal import JournalEntry
from tests.checkers.outcomes import violations
from tests.support.command import Command
from tests.support.deployed import Bank
from tools.local_aws.server import PROJECT
from tools.teller import tail
from tools.teller.deployment import Deployment


def posted(bank: Bank, account_id: str, *amounts: str) -> list[JournalEntry]:
    bank.post(account_id, *amounts)
    return list(bank.books().journal[account_id])


@dataclass
class Tail:
    """The command in a process of its own. It listens once it has said so."""

    process: subprocess.Popen[str]

    def lines(self, number: int) -> list[str]:
        assert self.process.stdout
        return [self.process.stdout.readline() for _ in range(number)]

    def end(self, which: signal.Signals) -> tuple[int, str]:
        """The exit status, and what was still printed."""
        self.process.send_signal(which)
        out, _ = self.process.communicate(timeout=20)
        return self.process.returncode, out


@contextmanager
def tailing(bank: Bank, *arguments: str) -> Iterator[Tail]:
    command = [sys.executable, "-m", "tools.teller", "outcomes", "tail", "--stack", bank.stack.name, *arguments]
    environment = os.environ | bank.stack.endpoint.environment
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=PROJECT, env=environment, stdout=pipe, stderr=pipe, text=True) as process:
        try:
            assert process.stderr
            assert "Listening" in process.stderr.readline()
            yield Tail(process)
        finally:
            process.kill()


def left(bank: Bank) -> tuple[list[str], list[str]]:
    """The names of the rules and the queues of tails."""
    rules = bank.stack.endpoint.client("events").list_rules(
        EventBusName=bank.stack["OutcomesBusName"], NamePrefix=tail.PREFIX
    )["Rules"]
    urls = bank.stack.endpoint.client("sqs").list_queues(QueueNamePrefix=tail.PREFIX).get("QueueUrls", [])
    return [rule["Name"] for rule in rules], [url.rpartition("/")[2] for url in urls]


@pytest.mark.usefixtures("interruptible")
def test_a_tail_prints_the_events_of_an_account_and_leaves_nothing(bank: Bank) -> None:
    with tailing(bank, "--account", "tail-1", "--json") as tailed:
        bank.transactions.take_dead_letters()
        posted(bank, "tail-2")
        entries = posted(bank, "tail-1", "5", "-90")
        bank.transactions.send(['{"transaction_id": "t-3", "account_id": "tail-1", "amount": "x"}'])
        events = [json.loads(line) for line in tailed.lines(4)]
        assert tailed.end(signal.SIGINT) == (0, "")
    outcomes = [event for event in events if event["detail-type"] != "TransactionRefused"]
    assert violations(entries, outcomes) == []
    [refused] = [event for event in events if event["detail-type"] == "TransactionRefused"]
    assert refused["detail"]["account_ids"] == ["tail-1"]
    assert left(bank) == ([], [])
    bank.transactions.wait_until_drained()
    assert len(bank.transactions.take_dead_letters()) == 1


def test_a_killed_tail_is_removed_by_one_of_the_next_day(bank: Bank) -> None:
    with tailing(bank) as tailed:
        tailed.end(signal.SIGKILL)
    rules, queues = left(bank)
    assert (len(rules), rules) == (1, queues)
    deployment = Deployment(bank.stack.name, bank.stack.endpoint.url)
    tail.remove_leftovers(deployment, datetime.now(UTC) + timedelta(hours=24))
    assert left(bank) == (rules, queues), "it might still be at work"
    tail.remove_leftovers(deployment, datetime.now(UTC) + timedelta(hours=26))
    assert left(bank) == ([], [])
    with tailing(bank) as tailed:
        entries = posted(bank, "tail-3", "5")
        shown = "".join(tailed.lines(len(entries)))
        assert tailed.end(signal.SIGTERM) == (0, "")
    assert all(
        f"{entry.account_id}#{entry.outcome.account_version}  {entry.transaction_id}" in shown for entry in entries
    )
    assert left(bank) == ([], [])


def test_a_range_of_versions_is_published_again(bank: Bank) -> None:
    command, consumer = Command(bank.stack), bank.new_consumer("teller-republish", {"source": ["teller"]})
    entries = posted(bank, "again-1", "1", "2", "3", "4")
    before = [event for event in consumer.take_until_heard(entries) if event["detail"].get("account_id") == "again-1"]
    answer = command.json("outcomes", "republish", "again-1", "--from", "2", "--to", "3")
    assert answer == {"published": 2, "dead_lettered": 0, "missing_versions": []}
    again = consumer.take_until_heard(entries[1:3])
    assert {event["detail"]["account_version"] for event in again} == {2, 3}
    assert violations(entries, before + again) == [], "what comes again is what came before"
    assert "5 outcomes of again-1 were published again" in command.shown("outcomes", "republish", "again-1")
    assert len(consumer.take_until_heard(entries)) == 5
    since = entries[-1].outcome.posted_at
    assert command.json("outcomes", "republish", "--from", since)["published"] >= 1
    heard = consumer.take_until_heard(entries[-1:])
    assert "again-1#5" in {event["detail"]["id"] for event in heard}


@pytest.mark.exhaustive
def test_versions_without_an_entry_are_named(bank: Bank) -> None:
    posted(bank, "again-2", "1")
    dynamodb, table = bank.stack.endpoint.client("dynamodb"), bank.stack["JournalTableName"]
    key = {"account_id": {"S": "again-2"}, "transaction_id": {"S": "open"}}
    item = dynamodb.delete_item(TableName=table, Key=key, ReturnValues="ALL_OLD")["Attributes"]
    try:
        ended = Command(bank.stack).run("outcomes", "republish", "again-2")
        answer = Command(bank.stack).json("outcomes", "republish", "again-2", status=1)
    finally:
        dynamodb.put_item(TableName=table, Item=item)
    assert (ended.status, "1 outcome of again-2 was" in ended.out) == (1, True)
    assert "not published: version 1 of again-2, because the journal has no entry" in " ".join(ended.err.split())
    assert [missing["from_version"] for missing in answer["missing_versions"]] == [1]


@pytest.mark.parametrize(
    ("arguments", "status", "sentence"),
    [
        (["again-nobody"], 1, "no account 'again-nobody' has been opened"),
        (["again-1", "--from", "3", "--to", "2"], 2, "to_version: expected"),
        (["again-1", "--from", "yesterday"], 2, "expected a version, such as 7, or an ISO 8601 time"),
        ([], 2, "name an account"),
    ],
)
def test_a_request_that_cant_be_meant_is_refused(bank: Bank, arguments: list[str], status: int, sentence: str) -> None:
    ended = Command(bank.stack).run("outcomes", "republish", *arguments)
    assert (ended.status, ended.out, sentence in ended.err) == (status, "", True), ended
