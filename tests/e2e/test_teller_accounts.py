"""`teller account`, `statement`, `transaction` and `profile` on the deployed stack, held against the tables."""

import csv
import itertools
import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from decimal import Decimal
from typing import Any

import pytest

from conditional_writes.items import from_dynamodb, to_dynamodb
from tests.checkers.statement_oracle import Journal, journals
from tests.support.command import Command
from tests.support.deployed import Bank, opening, payment, until
from tools.local_aws.tables import scan
from tools.teller import accounts


def posted(bank: Bank, account_id: str, *amounts: str) -> Journal:
    """The account's journal, once it is opened and the payments are posted."""
    bank.post(account_id, *amounts)
    return journal_of(bank, account_id)


def journal_of(bank: Bank, account_id: str) -> Journal:
    items = [
        [from_dynamodb(item) for item in scan(bank.stack.endpoint, bank.stack[output])]
        for output in ("AccountsTableName", "JournalTableName")
    ]
    return journals(*items)[account_id]


def sent_one_by_one(bank: Bank, account_id: str, *messages: dict[str, Any]) -> Journal:
    """The account's journal, once these messages of it are posted in this order."""
    for message in messages:
        bank.transactions.send([json.dumps(message | {"account_id": account_id})])
        bank.transactions.wait_until_drained()
    return journal_of(bank, account_id)


def hold(hold_id: str, amount: str, **fields: str) -> dict[str, Any]:
    return {"type": "hold", "transaction_id": hold_id, "amount": amount} | fields


def post(transaction_id: str, hold_id: str, **fields: Any) -> dict[str, Any]:
    return {"type": "post_hold", "transaction_id": transaction_id, "hold_id": hold_id} | fields


def reverse(transaction_id: str, of: str, **fields: str) -> dict[str, Any]:
    return {"type": "reverse", "transaction_id": transaction_id, "of_transaction_id": of} | fields


def without_next(answer: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in answer.items() if name != "next"}


def test_an_account_is_shown_to_people_and_to_programs(bank: Bank) -> None:
    command, journal = Command(bank.stack), posted(bank, "teller-1", "12.50")
    assert command.json("account", "teller-1") == journal.account_answer()
    assert "12.50" in command.shown("account", "teller-1")


def test_an_unknown_account_is_a_sentence_and_a_status(bank: Bank) -> None:
    for subcommand in ("account", "statement"):
        ended = Command(bank.stack).run(subcommand, "teller-nobody")
        assert (ended.status, ended.out) == (1, "")
        assert "no account 'teller-nobody' has been opened" in ended.err
        assert Command(bank.stack).json(subcommand, "teller-nobody", status=1)["error"]["code"] == "NOT_FOUND"


def test_a_statement_of_many_pages_is_that_of_the_journal(bank: Bank, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accounts, "MOST_ENTRIES", 4)
    command, name = Command(bank.stack), "teller-statement"
    journal = posted(bank, name, *(["1.25", "-1000", "-0.5"] * 5))
    assert command.json("statement", name) == without_next(journal.statement(journal.last(10), 10))
    assert command.json("statement", name, "--last", "4") == without_next(journal.statement(journal.last(4), 4))
    all_of_it = journal.statement(journal.last(16), 16)["entries"]
    assert command.json("statement", name, "--last", "99")["entries"] == all_of_it
    begin, end = (journal.entries[index]["posted_at"] for index in (2, 12))
    wanted = journal.between(*(accounts.moment(time) for time in (begin, end)))
    answer = command.json("statement", name, "--from", begin, "--to", end)
    assert without_next(journal.statement(wanted, 1000)) | {"final": answer["final"]} == answer
    shown = command.shown("statement", name, "--from", begin)
    assert [line.split()[0] for line in shown.splitlines() if " t-" in line] == [
        str(version) for version in journal.between(accounts.moment(begin), None)
    ]
    assert shown.count("balance") == 1, "the pages are one table"


def test_a_statement_as_csv_has_the_entries_of_the_journal(bank: Bank) -> None:
    command, journal = Command(bank.stack), posted(bank, "teller-csv", "20", "-90", "0.10")
    message = {
        "transaction_id": "t, 4",
        "account_id": "teller-csv",
        "amount": "1",
        "description": 'a "quote"\nand more',
    }
    bank.transactions.send([json.dumps(message)])
    bank.transactions.wait_until_drained()
    rows = list(csv.DictReader(command.run("statement", "teller-csv", "--csv").out.splitlines()))
    names = ("transaction_id", "amount", "balance_after", "reason", "posted_at")
    shown = [{name: row[name] or None for name in names} for row in rows]
    expected = journal.statement(journal.last(4), 4)["entries"]
    assert shown[:4] == [{name: entry.get(name) for name in names} for entry in expected]
    assert [rows[-1][name] for name in ("transaction_id", "amount", "balance_after")] == ["t, 4", "1", "21.1"]
    assert rows[-1]["description"] == 'a "quote"\\nand more'
    assert {row["type"] for row in rows} == {"open_account", "transaction"}


@contextmanager
def lost_entry(bank: Bank, account_id: str, transaction_id: str) -> Iterator[None]:
    dynamodb, table = bank.stack.endpoint.client("dynamodb"), bank.stack["JournalTableName"]
    key = to_dynamodb({"account_id": account_id, "transaction_id": transaction_id})
    item = dynamodb.delete_item(TableName=table, Key=key, ReturnValues="ALL_OLD")["Attributes"]
    try:
        yield
    finally:
        dynamodb.put_item(TableName=table, Item=item)


def test_a_statement_that_isnt_complete_says_so_and_has_the_rest(bank: Bank) -> None:
    command, journal = Command(bank.stack), posted(bank, "teller-gap", "1", "2", "3")
    [lost] = [entry for entry in journal.entries if entry["account_version"] == 3]
    with lost_entry(bank, "teller-gap", lost["transaction_id"]):
        answer = command.json("statement", "teller-gap", status=1)
        ended = command.run("statement", "teller-gap", "--last", "2")
    assert answer == without_next(journal.statement(journal.last(10), 10, unknown=[3]))
    assert ended.status == 1
    assert "isn't complete: no entry was found of version 3" in ended.err
    assert ended.out.count(" t-") == 1


def test_an_id_that_no_account_can_have_is_refused(bank: Bank) -> None:
    long = "x" * 129
    for arguments in (
        ["account", long],
        ["statement", long],
        ["transaction", long, "t"],
        ["outcomes", "republish", long],
    ):
        ended = Command(bank.stack).run(*arguments)
        assert (ended.status, ended.out) == (2, "")
        assert "account_id: expected" in ended.err


def test_a_statement_that_cant_be_meant_is_refused(bank: Bank) -> None:
    refusals = {
        ("--last", "0"): "--last",
        ("--from", "yesterday"): "--from': expected an ISO 8601 time",
        ("--to", "2026-01-01"): "--to needs --from",
        ("--from", "2026-02-01", "--to", "2026-01-01"): "--to: expected a time after --from",
        ("--from", "2026-02-01", "--last", "3"): "exclude each other",
        ("--csv", "--json"): "exclude each other",
    }
    for arguments, sentence in refusals.items():
        ended = Command(bank.stack).run("statement", "teller-1", *arguments)
        assert (ended.status, sentence in ended.err + ended.out) == (2, True), ended


def test_long_ids_and_amounts_are_shown_whole_in_80_columns(bank: Bank) -> None:
    name, amount = "teller-" + "x" * 120, "1" * 38
    posted(bank, name, amount)
    for subcommand in (["account", name], ["statement", name], ["transaction", name, "t-1"]):
        shown = Command(bank.stack).shown(*subcommand)
        assert sum(character == "1" for character in shown) >= 38
        assert sum(character == "x" for character in shown) >= (0 if subcommand[0] == "statement" else 120)


def test_what_became_of_a_transaction_is_told_whatever_it_is(bank: Bank) -> None:
    command, journal = Command(bank.stack), posted(bank, "teller-what", "5", "-90")
    for number, state in ((1, "posted"), (2, "rejected")):
        answer = command.json("transaction", "teller-what", f"t-{number}")
        assert answer["state"] == state
        assert answer["entry"] == journal.transaction(f"t-{number}")["entry"]
        assert f"was {state}" in command.shown("transaction", "teller-what", f"t-{number}")

    not_json = '{"transaction_id": "t-4", "account_id": "teller-what", "amount": 12,50}'
    bank.transactions.send([payment("teller-what", 3, "12,50"), not_json, payment("other-what", 3, "x")])
    bank.transactions.wait_until_drained()
    for number, reason in ((3, "amount: expected a decimal number"), (4, "body: expected JSON")):
        answer = command.json("transaction", "teller-what", f"t-{number}", status=1)
        [letter] = answer["dead_letters"]
        assert (answer["state"], letter["code"]) == ("dead", "INVALID_MESSAGE")
        assert letter["reason"].startswith(reason)
    ended = command.run("transaction", "teller-what", "t-4")
    assert (ended.status, "is dead" in ended.out, "body: expected JSON" in ended.out) == (1, True, True)
    assert "\nteller dead-letters redrive transactions --edit --about teller-what t-4\n" in ended.out
    bank.stack.endpoint.client("sqs").send_message(
        QueueUrl=bank.stack["TransactionsDeadLetterQueueUrl"],
        MessageBody=payment("teller-what", 6, "1"),
        MessageAttributes={"reason_code": {"DataType": "String", "StringValue": "UNKNOWN_ACCOUNT"}},
    )
    ended = command.run("transaction", "teller-what", "t-6")
    assert "send it again:\nteller dead-letters redrive transactions --about teller-what t-6\n" in ended.out
    left = [letter.body for letter in bank.transactions.take_dead_letters()]
    assert not_json in left, "the letters were looked at, and are there for others"

    answer = command.json("transaction", "teller-what", "t-5", status=1)
    assert (answer["state"], answer["account_exists"], answer["dead_letters"]) == ("not seen", True, [])


@pytest.mark.exhaustive
def test_a_transaction_that_waits_for_its_account_is_on_the_queue(bank: Bank) -> None:
    command, name = Command(bank.stack), "teller-later"
    bank.transactions.wait_until_drained()
    bank.transactions.send([payment(name, 1, "5")])
    until(bank.transactions.waiting, "the message waits")
    answer = command.json("transaction", name, "t-1", status=1)
    ended = command.run("transaction", name, "t-1")
    assert (answer["state"], answer["account_exists"], sum(answer["queue"].values())) == ("not seen", False, 1)
    assert "hasn't been seen" in ended.out
    assert f"No account '{name}' has been opened" in ended.out
    bank.transactions.send([opening(name)])
    bank.transactions.wait_until_drained()
    assert command.json("transaction", name, "t-1")["state"] == "posted"


def test_open_holds_are_shown_with_what_remains_of_them(bank: Bank) -> None:
    command, name = Command(bank.stack), "teller-holds"
    posted(bank, name, "100")
    journal = sent_one_by_one(
        bank,
        name,
        hold("h-1", "40"),
        hold("h-2", "12.75", expires_at="2096-11-29T12:00:00Z"),
        hold("h-3", "47.26"),
        hold("h-4", "47.25"),
        post("p-1", "h-1", amount="15", final=False),
        {"type": "void_hold", "transaction_id": "v-1", "hold_id": "h-4"},
    )
    answer = command.json("account", name)
    assert answer == journal.account_answer()
    assert (answer["balance"], answer["held"], answer["available"]) == ("85", "37.75", "47.25")
    shown = command.shown("account", name).split("open hold", 1)[1]
    rows = [line.split() for line in shown.splitlines()[2:] if line.strip()]
    assert rows == [["h-2", "12.75", "2096-11-29", "12:00:00"], ["h-1", "25.00", "never"]]

    statement = command.json("statement", name)
    assert statement == without_next(journal.statement(journal.last(10), 10))
    held = [entry["held_after"] for entry in statement["entries"]]
    assert held == ["0", "0", "40", "52.75", "52.75", "100", "85", "37.75"]
    shown = " ".join(command.shown("statement", name).split())
    for words in (
        "h-1 hold of 40.00 0.00 100.00",
        "h-3 hold (47.26) 100.00 OVERDRAFT_LIMIT",
        "p-1 post_hold of h-1 -15.00 85.00",
        "v-1 void_hold of h-4 0.00 85.00",
    ):
        assert words in shown
    found = [word for before, word in itertools.pairwise(shown.split()) if before == "held"]
    assert [Decimal(word) for word in found] == [Decimal(amount) for amount in held[2:]]
    rows = list(csv.DictReader(command.run("statement", name, "--csv").out.splitlines()))
    assert [row["held_after"] for row in rows] == held
    assert [(row["transaction_id"], row["hold_id"]) for row in rows[-2:]] == [("p-1", "h-1"), ("v-1", "h-4")]

    for transaction_id, state in (("h-1", "posted"), ("h-3", "rejected"), ("p-1", "posted")):
        answer = command.json("transaction", name, transaction_id)
        placed = answer.pop("hold")
        assert answer == journal.transaction(transaction_id) | {"state": state}
        assert (placed is not None) == (transaction_id == "h-1")
    assert "OVERDRAFT_LIMIT" in command.shown("transaction", name, "h-3")
    assert "25.00 EUR of it is held, without an end." in command.shown("transaction", name, "h-1")
    voided = command.json("transaction", name, "h-4")["hold"]
    assert (voided["state"], voided["ended_by"], voided["amount"]) == ("voided", "v-1", "47.25")


def test_a_transaction_is_shown_with_its_reversals_and_a_reversal_with_its_transaction(bank: Bank) -> None:
    command, name = Command(bank.stack), "teller-reversals"
    posted(bank, name, "100", "-30")
    journal = sent_one_by_one(
        bank,
        name,
        reverse("r-1", "t-2", amount="10.5"),
        reverse("r-2", "t-2", amount="19.51"),
        reverse("r-3", "t-2", amount="4.5"),
    )
    sentences = {
        "t-2": "15.00 EUR of its 30.00 EUR has been reversed, by 2 reversals, the last of which is r-3.",
        "r-1": "It is reversal 1 of t-2. 10.50 EUR of t-2 had been reversed after it.",
        "r-2": "10.50 EUR of t-2 had been reversed before, by 1 reversal.",
        "r-3": "It is reversal 2 of t-2. 15.00 EUR of t-2 had been reversed after it.",
    }
    for transaction_id, sentence in sentences.items():
        answer = command.json("transaction", name, transaction_id)
        state = "rejected" if transaction_id == "r-2" else "posted"
        assert answer == journal.transaction(transaction_id) | {"state": state, "hold": None}
        assert sentence in " ".join(command.shown("transaction", name, transaction_id).split())
    assert "reversed," not in command.shown("transaction", name, "t-1")

    assert command.json("account", name) == journal.account_answer()
    assert command.json("statement", name) == without_next(journal.statement(journal.last(10), 10))
    shown = " ".join(command.shown("statement", name).split())
    for words in (
        "r-1 reverse of t-2 10.50 80.50",
        "r-2 reverse of t-2 (19.51) 80.50 REVERSAL_EXCEEDED",
        "r-3 reverse of t-2 4.50 85.00",
    ):
        assert words in shown
    rows = csv.DictReader(command.run("statement", name, "--csv").out.splitlines())
    of = {row["transaction_id"]: row["of_transaction_id"] for row in rows if row["of_transaction_id"]}
    assert of == dict.fromkeys(("r-1", "r-2", "r-3"), "t-2")


def test_a_profile_is_shown_with_its_times_and_removals(bank: Bank) -> None:
    command, as_of = Command(bank.stack), "2026-11-20T08:00:00+00:00"
    update = {"account_id": "teller-profile", "path": ["preferences"], "as_of": as_of}
    entries = {"theme": "dark", "days": 30, "rate": 0.25, "of": {"a": [1, None, True]}, "big": 12345678901234567890}
    deeper = update | {"path": ["preferences", "by"], "entries": {"mail": "x" * 200}, "removed": ["fax"]}
    bank.profiles.send([json.dumps(update | {"entries": entries}), json.dumps(deeper)])
    bank.profiles.wait_until_drained()
    answer = command.json("profile", "teller-profile")
    inner = {**entries, "big": "12345678901234567890", "by": {"mail": "x" * 200}}
    assert answer["profile"] == {"preferences": inner}
    paths = {tuple(entry["path"]): entry.get("removed", False) for entry in answer["entries"]}
    names = [*entries, ("by", "mail"), ("by", "fax")]
    expected = [("preferences", name) if isinstance(name, str) else ("preferences", *name) for name in names]
    assert paths == {path: path[-1] == "fax" for path in expected}
    assert {entry["as_of"] for entry in answer["entries"]} == {as_of}
    shown = command.shown("profile", "teller-profile")
    assert (shown.count("x"), shown.count("(removed)"), shown.count("2026-11-20 08:00:00")) == (201, 1, 7)


def test_an_erased_profile_is_shown_as_erased(bank: Bank) -> None:
    command, as_of = Command(bank.stack), "2026-11-21T08:00:00+00:00"
    update = {"account_id": "teller-erased", "path": ["preferences"], "entries": {"theme": "dark"}}
    erasure = {"type": "erase_profile", "account_id": "teller-erased", "as_of": as_of}
    bank.profiles.send([json.dumps(update | {"as_of": "2026-11-20T08:00:00Z"}), json.dumps(erasure)])
    bank.profiles.wait_until_drained()
    answer = command.json("profile", "teller-erased")
    assert (answer["profile"], answer["entries"]) == ({}, [])
    assert datetime.fromisoformat(answer["erased_as_of"]) == datetime.fromisoformat(as_of)
    assert "erased as of 2026-11-21 08:00:00" in command.run("profile", "teller-erased").err


def test_an_unknown_profile_is_a_sentence_and_a_status(bank: Bank) -> None:
    answer = Command(bank.stack).json("profile", "teller-nobody", status=1)
    assert answer["error"] == {"code": "NOT_FOUND", "reason": "no profile 'teller-nobody' has been written"}
