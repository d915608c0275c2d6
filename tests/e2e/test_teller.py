"""`teller send`, `account`, `statement`, `transaction`, `profile`, `status` and `outcomes` on the deployed stack.

Their output is held against the tables. tests/unit/test_teller_* have every form of it.
"""

import csv
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from conditional_writes.core.items import from_dynamodb, to_dynamodb
from tests.checkers.outcomes import violations
from tests.checkers.statement_oracle import Journal, journals
from tests.support.bodies import hold, opening, payment, post_hold, reverse
from tests.support.command import COLUMNS, Command
from tests.support.deployed import Bank, until
from tests.support.samples import IMPORTED
from tools.local_aws.server import PROJECT
from tools.local_aws.tables import scan
from tools.teller import exporting, importing, letters, statement, tail
from tools.teller.deployment import Deployment


@pytest.fixture
def command(bank: Bank, monkeypatch: pytest.MonkeyPatch) -> Command:
    """The command. It doesn't wait for dead letters: the local AWS has but one server."""
    monkeypatch.setattr(letters, "POLL_SECONDS", 0)
    return Command(bank.stack)


def journal_of(bank: Bank, account_id: str) -> Journal:
    accounts_and_journal = (
        [from_dynamodb(item) for item in scan(bank.stack.endpoint, bank.stack[f"{table}TableName"])]
        for table in ("Accounts", "Journal")
    )
    return journals(*accounts_and_journal)[account_id]


def without_next(answer: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in answer.items() if name != "next"}


# --- A file ------------------------------------------------------------------------------------------------------


def test_a_file_is_checked_sent_to_its_queues_and_posted_once(bank: Bank, command: Command, tmp_path: Path) -> None:
    update = {"account_id": "sent", "path": ["preferences"], "entries": {"theme": "dark"}}
    file, wrong = tmp_path / "day.jsonl", tmp_path / "wrong.jsonl"
    lines = [opening("sent", "-1"), *(payment(f"t-{n}", "0.01", "sent") for n in range(25)), update]
    file.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    wrong.write_text('{"transaction_id": "t", "account_id": "unsent"}')
    ended = command.run("send", str(wrong))
    assert (ended.status, "line 1: body: object missing required field `amount`" in ended.err) == (1, True)
    valid = {"administration": 1, "transactions": 25, "profiles": 1}
    assert command.json("send", str(file), "--dry-run") == {"valid": valid}
    assert bank.transactions.waiting() == 0
    assert command.json("send", str(file)) == {"sent": valid}
    assert "sent: 27 messages (transactions 25, administration 1, profiles 1)" in command.shown("send", str(file))
    bank.transactions.wait_until_drained()
    bank.profiles.wait_until_drained()
    assert command.json("account", "sent")["balance"] == "0.25"
    assert command.json("profile", "sent")["profile"] == {"preferences": {"theme": "dark"}}
    assert set(tmp_path.iterdir()) == {file, wrong}, "the place is removed"


def test_accounts_are_imported_once_and_proved_by_currency_and_each_that_differs_is_named(
    bank: Bank, command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, other = tmp_path / "accounts.jsonl", tmp_path / "accounts.csv"
    rows = [
        IMPORTED | {"account_id": f"imported-{number}", "currency": currency, "balance": f"{number}.25"}
        for number, currency in enumerate(["EUR", "USD", "GBP"] * 4)
    ]
    file.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    refused = command.run("import", str(file), "--totals", "EUR=19,USD=23.00,GBP=27.00,CHF=1")
    sentences = ["CHF: expected 1, got none", "EUR:"]
    assert (refused.status, [sentence in refused.err for sentence in sentences]) == (1, [True, False])
    assert bank.transactions.waiting() == 0
    totals = {"EUR": "19", "GBP": "27", "USD": "23"}
    named = ("--totals", ",".join(f"{currency}={total}" for currency, total in totals.items()))
    imported = {"imported": 12, "different": 0, "totals": totals}
    assert command.json("import", str(file), "--dry-run") == {"valid": 12, "totals": totals}
    assert command.json("import", str(file), *named) == imported
    assert command.json("import", str(file), *named) == imported
    assert set(tmp_path.iterdir()) == {file}, "the place is removed"
    assert command.json("account", "imported-0")["available"] == "2.75"
    other.write_text(
        "account_id,currency,balance,source_reference,as_of\nimported-0,EUR,-2.75,core/other,2026-01-30T23:00:00Z\n"
    )
    ended = command.run("import", str(other), "--totals", "EUR=-2.75")
    assert (ended.status, "line 2: account_id: the stack has 'imported-0' already" in ended.err) == (1, True)
    other.write_text(other.read_text().replace("imported-0", "late"))
    with monkeypatch.context() as patch:
        patch.setattr(importing, "_check_new", lambda *_: bank.transactions.process(opening("late")))
        ended = command.run("import", str(other), "--totals", "EUR=-2.75")
    assert (ended.status, "line 2: account 'late': REJECTED, ACCOUNT_EXISTS" in ended.err) == (1, True)


# --- Accounts, statements, transactions, profiles ---------------------------------------------------------------


@pytest.fixture(scope="module")
def store(bank: Bank) -> Journal:
    """The journal of the account `store`, with holds and reversals, and what is dead of it."""
    for stage in (
        [opening("store")],
        [payment("t-1", "100", "store"), payment("t-3", "12,50", "store"), payment("t, 4", "1", "store")],
        [payment("t-2", "-30", "store"), hold("h-1", "40", "store")],
        [
            post_hold("p-1", "15", "store", "h-1", final=False),
            hold("h-2", "1000", "store"),
            reverse("r-1", "10.5", "store", "t-2"),
        ],
    ):
        bank.transactions.process(*stage)
    return journal_of(bank, "store")


def test_an_account_and_its_statement_are_those_of_the_tables(
    command: Command, store: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(statement, "MOST_ENTRIES", 4)  # so a statement has pages
    account = command.json("account", "store")
    assert account == store.account_answer() | {"interest": None}
    assert (account["balance"], account["held"], account["available"]) == ("66.5", "25", "41.5")
    assert command.json("statement", "store") == without_next(store.statement(store.last(10), 10))
    assert command.json("statement", "store", "--last", "3") == without_next(store.statement(store.last(3), 3))
    begin, end = (store.entries[index]["posted_at"] for index in (1, 6))
    wanted = store.between(*(statement.moment(time) for time in (begin, end)))
    answer = command.json("statement", "store", "--from", begin, "--to", end)
    assert without_next(store.statement(wanted, 1000)) | {"final": answer["final"]} == answer
    shown = command.shown("statement", "store")
    assert (shown.count("balance"), shown.count("h-1")) == (1, 2), "the pages are one table"
    rows = list(csv.DictReader(command.run("statement", "store", "--csv").out.splitlines()))
    entries = store.statement(store.last(99), 99)["entries"]
    names = ("transaction_id", "amount", "balance_after", "held_after", "reason", "posted_at")
    assert [{name: row[name] or None for name in names} for row in rows] == [
        {name: entry.get(name) for name in names} for entry in entries
    ]


def test_an_export_has_the_tables_and_is_asked(
    bank: Bank, command: Command, store: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exporting, "SEGMENTS", 2)
    monkeypatch.setattr(exporting, "LONGEST_POSTING", -timedelta(minutes=1))  # what was posted just now, too
    manifest, books = command.json("export", str(tmp_path / "books")), bank.books()
    assert (manifest["rows"]["journal"], manifest["rows"]["accounts"]) == (len(books.entries), len(books.accounts))
    assert manifest["sums"]["journal"] == manifest["sums"]["accounts"]
    asked = ("query", "year_of_account", str(tmp_path / "books"), "--set", "account_id=store", "--set")
    [month] = command.json(*asked, f"year={datetime.now(UTC):%Y}")["rows"]
    assert month["balance"] == store.account_answer()["balance"]
    ended = command.run("export", str(tmp_path / "books"))
    assert (ended.status, "has a whole export: name another directory" in ended.err) == (1, True)


@contextmanager
def lost_entry(bank: Bank, account_id: str, transaction_id: str) -> Iterator[None]:
    dynamodb, table = bank.stack.endpoint.client("dynamodb"), bank.stack["JournalTableName"]
    key = to_dynamodb({"account_id": account_id, "transaction_id": transaction_id})
    item = dynamodb.delete_item(TableName=table, Key=key, ReturnValues="ALL_OLD")["Attributes"]
    try:
        yield
    finally:
        dynamodb.put_item(TableName=table, Item=item)


def test_a_statement_that_isnt_complete_says_so_and_has_the_rest(bank: Bank, command: Command, store: Journal) -> None:
    lost = next(entry for entry in store.entries if entry["account_version"] == 3)
    with lost_entry(bank, "store", lost["transaction_id"]):
        answer = command.json("statement", "store", status=1)
        ended = command.run("outcomes", "republish", "store", "--to", "3")
    assert answer == without_next(store.statement(store.last(10), 10, unknown=[3]))
    assert (ended.status, "not published: version 3 of store" in ended.err) == (1, True)


def test_what_became_of_a_transaction_is_told_whatever_it_is(bank: Bank, command: Command, store: Journal) -> None:
    states = {"t-1": "posted", "h-2": "rejected", "t-2": "posted", "r-1": "posted", "p-1": "posted"}
    for transaction_id, state in states.items():
        answer = command.json("transaction", "store", transaction_id)
        assert answer == store.transaction(transaction_id) | {"state": state, "hold": None}
    assert command.json("transaction", "store", "h-1")["hold"]["remaining"] == "25"
    shown = " ".join(command.shown("transaction", "store", "t-2").split())
    assert "10.50 EUR of its 30.00 EUR has been reversed, by 1 reversal, the last of which is r-1." in shown
    dead = command.json("transaction", "store", "t-3", status=1)
    [letter] = dead["dead_letters"]
    assert (dead["state"], letter["code"]) == ("dead", "INVALID_MESSAGE")
    ended = command.run("transaction", "store", "t-3")
    assert "\nteller dead-letters redrive transactions --edit --about store t-3\n" in ended.out
    never = command.json("transaction", "store", "t-9", status=1)
    assert (never["state"], never["account_exists"], never["dead_letters"]) == ("not seen", True, [])
    assert never["queues"].keys() == {"transactions", "administration"}
    assert json.dumps(payment("t-3", "12,50", "store")) in [
        letter.body for letter in bank.transactions.take_dead_letters()
    ]
    for subcommand in ("account", "statement"):
        assert command.json(subcommand, "nobody", status=1)["error"]["code"] == "NOT_FOUND"
        assert "no account 'nobody' has been opened" in command.run(subcommand, "nobody").err


def test_an_open_hold_that_an_account_was_imported_with_is_told(bank: Bank, command: Command) -> None:
    account = {"account_id": "moved", "currency": "EUR", "balance": "60", "holds": {"hotel-9": {"amount": "8"}}}
    source = {"source_reference": "core/00417", "as_of": "2026-11-19T23:00:00Z"}
    bank.transactions.process({"type": "import_account", "transaction_id": "import"} | account | source)
    ended = command.run("transaction", "moved", "hotel-9")
    told = "it is an open hold that the account was imported with, without an end. Of it 8 is held."
    assert (ended.status, told in " ".join(ended.out.split())) == (1, True)


def test_a_profile_is_shown_with_its_times_and_removals_and_an_erased_one_as_erased(
    bank: Bank, command: Command
) -> None:
    as_of, later = "2026-11-20T08:00:00+00:00", "2026-11-21T08:00:00+00:00"
    update = {"account_id": "shown", "path": ["preferences"], "as_of": as_of}
    entries = {"theme": "dark", "rate": 0.25, "of": {"a": [1, None, True]}, "big": 12345678901234567890}
    bank.profiles.process(update | {"entries": entries, "removed": ["fax"]})
    answer = command.json("profile", "shown")
    assert answer["profile"] == {"preferences": entries | {"big": "12345678901234567890"}}
    paths = {tuple(entry["path"]): (entry["as_of"], entry.get("removed", False)) for entry in answer["entries"]}
    assert paths == {("preferences", name): (as_of, name == "fax") for name in [*entries, "fax"]}
    shown = command.shown("profile", "shown")
    assert (shown.count("(removed)"), shown.count("2026-11-20 08:00:00")) == (1, 5)
    bank.profiles.process({"type": "erase_profile", "account_id": "shown", "as_of": later})
    erased = command.json("profile", "shown")
    assert (erased["profile"], erased["entries"]) == ({}, [])
    assert datetime.fromisoformat(erased["erased_as_of"]) == datetime.fromisoformat(later)
    missing = command.json("profile", "nobody", status=1)
    assert missing["error"] == {"code": "NOT_FOUND", "reason": "no profile 'nobody' has been written"}


# --- The status --------------------------------------------------------------------------------------------------


@contextmanager
def ringing(bank: Bank, alarm: str) -> Iterator[None]:
    """Makes an alarm of the stack ring."""
    described = bank.stack.endpoint.client("cloudformation").describe_stack_resource(
        StackName=bank.stack.name, LogicalResourceId=alarm
    )
    name, cloudwatch = described["StackResourceDetail"]["PhysicalResourceId"], bank.stack.endpoint.client("cloudwatch")
    cloudwatch.set_alarm_state(AlarmName=name, StateValue="ALARM", StateReason="a test")
    try:
        yield
    finally:
        cloudwatch.set_alarm_state(AlarmName=name, StateValue="INSUFFICIENT_DATA", StateReason="a test")


def test_the_screen_says_what_waits_what_is_dead_what_rings_and_what_became_of_messages(
    bank: Bank, command: Command
) -> None:
    bank.transactions.wait_until_drained()
    bank.transactions.take_dead_letters()
    before = command.json_of_any_status("status")["became_in_the_last_hour"]["transactions"]
    bank.transactions.process("not JSON", "nor this")
    with ringing(bank, "OutcomesLateAlarm"):
        answer, ended = command.json("status", status=1), command.run("status")
    assert (answer["dead_letters"]["transactions"], answer["queues"]["transactions"]["waiting"]) == (2, 0)
    assert answer["queues"]["transactions"]["oldest_seconds"] is None, "a local AWS doesn't know"
    assert [alarm["name"] for alarm in answer["alarms"]["ringing"]] == ["OutcomesLateAlarm"]
    assert "OutcomesLateAlarm rings" in " ".join(answer["not_well"])
    assert "2 dead letters of transactions: teller dead-letters transactions" in ended.out
    assert (len(ended.out.splitlines()) <= 40, max(map(len, ended.out.splitlines())) <= COLUMNS) == (True, True)

    def are_counted() -> bool:
        after = command.json_of_any_status("status")["became_in_the_last_hour"]["transactions"]
        if after["DeadLettered"] - before["DeadLettered"] >= 2:
            return True
        bank.transactions.process("not JSON")  # a local AWS may hold lines back until the next invocation
        return False

    until(are_counted, "the dead letters are counted")
    assert len(bank.transactions.take_dead_letters()) >= 2, "the letters weren't touched"
    ended = command.run("status", "--stack", "nobody")
    assert (ended.status, ended.out, "there is no stack 'nobody' in" in ended.err) == (1, "", True)


# --- Outcomes ----------------------------------------------------------------------------------------------------


@contextmanager
def tailing(bank: Bank, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """The command in a process of its own, which is ended by signals. It listens once it has said so."""
    command = [sys.executable, "-m", "tools.teller", "outcomes", "tail", "--stack", bank.stack.name, *arguments]
    environment = os.environ | bank.stack.endpoint.environment
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=PROJECT, env=environment, stdout=pipe, stderr=pipe, text=True) as process:
        try:
            assert process.stderr
            assert "Listening" in process.stderr.readline()
            yield process
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
def test_a_tail_prints_the_events_of_an_account_and_leaves_nothing_but_a_killed_one(bank: Bank) -> None:
    deployment = Deployment(bank.stack.name, bank.stack.endpoint.url)
    killed = tail.tail(deployment, None, datetime.now(UTC))
    killed.__enter__()  # and never exited
    rules, queues = left(bank)
    assert (len(rules), rules) == (1, queues)
    tail.remove_leftovers(deployment, datetime.now(UTC) + timedelta(hours=24))
    assert left(bank) == (rules, queues), "it might still be at work"
    tail.remove_leftovers(deployment, datetime.now(UTC) + timedelta(hours=26))
    assert left(bank) == ([], [])
    with tailing(bank, "--account", "tailed", "--json") as process:
        bank.transactions.process(opening("tailed"), opening("another"))
        entries = bank.post(payment("t-1", "5", "tailed"), payment("t-2", "x", "tailed"), about="tailed")
        assert process.stdout
        events = [json.loads(process.stdout.readline()) for _ in range(3)]
        process.send_signal(signal.SIGINT)
        assert (process.communicate(timeout=20)[0], process.returncode) == ("", 0)
    [refused] = [event for event in events if event["detail-type"] == "TransactionRefused"]
    assert refused["detail"]["account_ids"] == ["tailed"]
    assert violations(entries, [event for event in events if event is not refused]) == []
    assert left(bank) == ([], [])
    assert len(bank.transactions.take_dead_letters()) == 1


def test_a_range_of_versions_is_published_again(bank: Bank, command: Command, store: Journal) -> None:
    consumer = bank.new_consumer("teller-republish", {"detail": {"account_id": ["store"]}})
    answer = command.json("outcomes", "republish", "store", "--from", "2", "--to", "3")
    assert answer == {"published": 2, "dead_lettered": 0, "missing_versions": []}
    entries = bank.books().journal["store"]
    assert violations(entries[1:3], consumer.take_until_heard(entries[1:3])) == []
    assert f"{len(entries)} outcomes of store were" in command.shown("outcomes", "republish", "store")
    assert command.json("outcomes", "republish", "--from", entries[-1].outcome.posted_at)["published"] >= 1
