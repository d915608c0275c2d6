"""`teller send` on the deployed stack: a file is checked, sent and posted, also if the command is killed meanwhile."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.checkers.books import violations
from tests.support.command import Command
from tests.support.deployed import Bank, opening, payment
from tests.support.reporting import Say
from tools.local_aws.server import PROJECT
from tools.teller.deployment import Deployment
from tools.teller.places import path_of


def written(path: Path, bodies: Iterable[str]) -> Path:
    path.write_text("".join(f"{body}\n" for body in bodies))
    return path


def payments(account_id: str, number: int) -> list[str]:
    return [payment(account_id, n, "0.01") for n in range(number)]


def test_transactions_and_profile_updates_of_a_file_go_to_their_queues(bank: Bank, tmp_path: Path) -> None:
    command = Command(bank.stack)
    update = {"account_id": "sent", "path": ["preferences"], "entries": {"theme": "dark"}}
    file = written(tmp_path / "day.jsonl", [opening("sent"), *payments("sent", 25), json.dumps(update)])
    valid = {"transactions": 26, "profiles": 1}
    assert command.json("send", str(file), "--dry-run") == {"valid": valid}
    assert bank.transactions.waiting() == 0
    assert command.json("send", str(file)) == {"sent": valid}
    bank.transactions.wait_until_drained()
    bank.profiles.wait_until_drained()
    assert command.json("account", "sent")["balance"] == "0.25"
    assert bank.read_profiles()["sent"]["preferences"] == {"theme": "dark"}
    assert list(tmp_path.iterdir()) == [file], "the place is removed"
    assert "sent: 27 messages (transactions 26, profiles 1)" in command.shown("send", str(file))
    bank.transactions.wait_until_drained()
    assert command.json("account", "sent")["balance"] == "0.25"


def test_a_file_with_a_wrong_line_is_not_sent(bank: Bank, tmp_path: Path) -> None:
    file = written(tmp_path / "day.jsonl", [opening("unsent"), '{"transaction_id": "t", "account_id": "unsent"}'])
    for options in ([], ["--dry-run"]):
        ended = Command(bank.stack).run("send", str(file), *options)
        assert ended.status == 1
        assert "nothing was sent. Wrong lines: 1" in " ".join(ended.err.split())
        assert "line 2: body: object missing required field `amount`" in ended.err
    assert bank.transactions.waiting() == 0
    assert list(tmp_path.iterdir()) == [file]


def test_a_file_that_was_changed_since_a_break_is_refused(bank: Bank, tmp_path: Path) -> None:
    file = written(tmp_path / "day.jsonl", [opening("changed")])
    place = {"sha256": "of another content", "queue_urls": {}, "messages": 7}
    place["queue_urls"] = {name: bank.stack[f"{name.title()}QueueUrl"] for name in ("transactions", "profiles")}
    path_of(file).write_text(json.dumps(place))
    ended = Command(bank.stack).run("send", str(file))
    assert ended.status == 1
    assert "was changed after 7 of its messages were sent" in ended.err
    assert bank.transactions.waiting() == 0


def test_in_prod_nothing_is_sent_before_it_is_agreed_to(
    bank: Bank, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Deployment, "is_prod", True)
    file = written(tmp_path / "day.jsonl", [opening("unsent")])
    ended = Command(bank.stack).run("send", str(file))
    assert ended.status == 2
    assert "to send 1 message (transactions 1), add --yes" in " ".join(ended.err.split())
    assert bank.transactions.waiting() == 0


@pytest.mark.parametrize("name", ["no-such-file", "."])
def test_a_file_that_is_none_is_wrong_use(bank: Bank, tmp_path: Path, name: str) -> None:
    assert Command(bank.stack).run("send", str(tmp_path / name)).status == 2


@pytest.mark.usefixtures("interruptible")
@pytest.mark.exhaustive
@pytest.mark.timeout(600)
def test_killed_and_started_again_it_goes_on_and_each_message_is_posted_once(
    bank: Bank, tmp_path: Path, say: Say
) -> None:
    number = 12_000
    file = written(tmp_path / "day.jsonl", [opening("sent-killed"), *payments("sent-killed", number)])
    command = [str(PROJECT / ".venv/bin/teller"), "send", str(file)]
    environment = os.environ | bank.stack.endpoint.environment | {"TELLER_STACK": bank.stack.name}
    places = []
    for wanted, which in ((2_000, signal.SIGKILL), (5_000, signal.SIGINT)):
        running = subprocess.Popen(command, env=environment, start_new_session=True, stderr=subprocess.PIPE, text=True)
        while (sent := messages_sent(file)) < wanted:
            assert running.poll() is None, "it is killed before it ends"
            time.sleep(0.01)
        os.killpg(running.pid, which)
        remarks = running.communicate()[1]
        places.append(sent)
    assert running.returncode == 1, remarks
    assert "of 12,001 messages were sent; the same command goes on after them" in remarks
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert "going on after" in ended.stderr
    assert not path_of(file).exists()
    bank.transactions.wait_until_drained()
    books = bank.books()
    assert violations(books) == []
    posted = [entry.transaction_id for entry in books.journal["sent-killed"]]
    assert sorted(posted) == sorted(["open", *(f"t-{n}" for n in range(number))])
    say(f"{number:,} messages were sent in three runs, two of them ended after {places}: each was posted once")


def messages_sent(file: Path) -> int:
    try:
        return int(json.loads(path_of(file).read_text())["messages"])
    except FileNotFoundError:
        return 0


SENDER = """
import resource, sys
from pathlib import Path
from tools.teller import send
from tools.teller.message_files import checked
from tools.teller.deployment import Deployment
from tools.teller.places import Place

class Queue:
    sent = 0
    def new_client(self, service, **config):
        return self
    def send_message_batch(self, QueueUrl, Entries):
        Queue.sent += len(Entries)
        return {}

file = Path(sys.argv[1])
found = checked(file)
urls = {"transactions": "https://t", "profiles": "https://p"}
send.send_from(Queue(), file, Place(found.sha256, urls), send._time_of_change(file), lambda number: None)
print(Queue.sent, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def sent_and_memory(file: Path) -> tuple[int, float]:
    """The number of messages that a process of its own sends to a stub, and its largest memory in MB."""
    command = [sys.executable, "-c", SENDER, str(file)]
    ended = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=True)
    sent, kilobytes = map(int, ended.stdout.split())
    return sent, kilobytes / 1024


@pytest.mark.exhaustive
def test_a_million_messages_take_no_more_memory_than_ten_thousand(tmp_path: Path, say: Say) -> None:
    message = {"account_id": "a", "amount": "12.50", "description": "x" * 100}
    few, many = 10_000, 1_000_000
    sent_few, memory_few = sent_and_memory(
        written(tmp_path / "few.jsonl", (json.dumps({"transaction_id": f"t-{n}"} | message) for n in range(few)))
    )
    file = tmp_path / "many.jsonl"
    with file.open("w") as out:
        out.writelines(json.dumps({"transaction_id": f"t-{n}"} | message) + "\n" for n in range(many))
    started = time.monotonic()
    sent_many, memory_many = sent_and_memory(file)
    seconds = time.monotonic() - started
    assert (sent_few, sent_many) == (few, many)
    assert memory_many < memory_few + 10
    say(f"a million messages were checked and sent to a stub in {seconds:.0f} s with {memory_many:.0f} MB")
