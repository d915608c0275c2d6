"""Tables are restored to one second, as docs/restoring.md says, and the stack goes on with them.

ministack 1.5.33 restores a table as it is at the call, whatever the second that is asked for. So the restoration is
called at that second, and the stack goes on with its own tables afterwards, as if it had been called later.
"""

import json
import random
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from ledger.core.journal import JournalEntry
from tests.checkers import outcomes, profiles
from tests.checkers.books import Books, vanished, violations
from tests.support.bodies import opening
from tests.support.deployed import PARAMETERS, Bank, until
from tests.support.template import resources
from tools import restore
from tools.local_aws import stack
from tools.local_aws.day import believable_day
from tools.local_aws.profiles_day import believable_updates
from tools.local_aws.scheduler import run_job
from tools.local_aws.tables import scan
from tools.teller.deployment import Deployment
from tools.teller.failures import WrongUse


def deployment_of(bank: Bank) -> Deployment:
    return Deployment(bank.stack.name, bank.stack.endpoint.url)


def test_each_restored_table_is_like_the_stacks_own(
    bank: Bank, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As in prod: restored tables are protected from deletion."""
    monkeypatch.setattr(Deployment, "is_prod", True)
    dynamodb = bank.stack.endpoint.client("dynamodb")
    asked = ["--stack", bank.stack.name, "--endpoint-url", bank.stack.endpoint.url]
    second = datetime.now(UTC).replace(microsecond=0).isoformat()
    for _ in range(2):  # the command was interrupted, and is given again
        assert restore.main(["tables", *asked, "--to", second, "--prefix", "like"]) == 0
    label = capsys.readouterr().out.split()[-1].removeprefix("RestoredJournalStreamLabel=")
    template = resources("AWS::DynamoDB::Table")
    assert {f"{table}Table" for table in restore.TABLES} == template.keys()
    for table in restore.TABLES:
        own, restored = bank.stack[f"{table}TableName"], f"like-{table}"
        assert settings(dynamodb, restored) == settings(dynamodb, own)
        assert dynamodb.describe_table(TableName=restored)["Table"]["DeletionProtectionEnabled"] is True
        backups = dynamodb.describe_continuous_backups(TableName=restored)["ContinuousBackupsDescription"]
        assert backups["PointInTimeRecoveryDescription"]["PointInTimeRecoveryStatus"] == "ENABLED"
        expiry = dynamodb.describe_time_to_live(TableName=restored)["TimeToLiveDescription"].get("AttributeName")
        assert expiry == template[f"{table}Table"].get("TimeToLiveSpecification", {}).get("AttributeName")
        assert by_text(scan(bank.stack.endpoint, restored)) == by_text(scan(bank.stack.endpoint, own))
    assert dynamodb.describe_table(TableName="like-Journal")["Table"]["LatestStreamLabel"] == label


def by_text(items: Any) -> list[str]:
    return sorted(map(json.dumps, items))


def settings(dynamodb: Any, table: str) -> list[Any]:
    """A table's settings by the template, without expiry and recovery: ministack 1.5.33 leaves the stack's off."""
    described = dynamodb.describe_table(TableName=table)["Table"]
    return [
        described["KeySchema"],
        described["BillingModeSummary"]["BillingMode"],
        [(index["IndexName"], index["KeySchema"]) for index in described.get("GlobalSecondaryIndexes", [])],
        described.get("StreamSpecification"),
    ]


@pytest.mark.parametrize("text", ["yesterday", "2026-11-21T20:45:00"])
def test_a_time_that_is_no_second_gets_a_sentence(
    text: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(restore, "Deployment", lambda *_: None)
    assert restore.main(["tables", "--stack", "no-stack", "--to", text, "--prefix", "prefix"]) == 2
    assert capsys.readouterr().err.startswith("--to: expected a second with its offset, such as")


def test_messages_wait_while_their_delivery_is_stopped(bank: Bank) -> None:
    restore.deliver(deployment_of(bank), is_wanted=False)
    try:
        bank.transactions.send(opening("stopped"))
        time.sleep(2)  # the local AWS polls several times
        assert "stopped" not in bank.books().accounts
    finally:
        restore.deliver(deployment_of(bank), is_wanted=True)
    until(lambda: "stopped" in bank.books().accounts, "the account is open")


def reconciled(bank: Bank, at: datetime) -> dict[str, Any]:
    """The report of a reconciliation for this time that replayed all journals whole."""
    return run_job(bank.stack, "reconcile_accounts", at, whole=True)


def damage(bank: Bank) -> None:
    """A program of somebody's sets balances, changes entries, and deletes a half of the profiles."""
    choose, dynamodb = random.Random(7), bank.stack.endpoint.client("dynamodb")
    for item in scan(bank.stack.endpoint, bank.stack["AccountsTableName"]):
        dynamodb.put_item(TableName=bank.stack["AccountsTableName"], Item=item | {"balance": {"N": "1000000"}})
    for item in scan(bank.stack.endpoint, bank.stack["JournalTableName"]):
        if choose.random() < 0.1:
            dynamodb.put_item(TableName=bank.stack["JournalTableName"], Item=item | {"amount": {"N": "7"}})
    for item in scan(bank.stack.endpoint, bank.stack["ProfilesTableName"]):
        if choose.random() < 0.5:
            key = {"account_id": item["account_id"]}
            dynamodb.delete_item(TableName=bank.stack["ProfilesTableName"], Key=key)


def entries_since(before: Books, books: Books) -> list[JournalEntry]:
    known = {entry.entry_id for entry in before.entries}
    return [entry for entry in books.entries if entry.entry_id not in known]


@pytest.mark.exhaustive
@pytest.mark.timeout(1200)
def test_after_a_restore_and_all_messages_since_then_everything_is_posted_once(own_bank: Bank) -> None:
    bank, consumer = own_bank, own_bank.new_consumer("everything")
    day, updates = believable_day(600, accounts=30), believable_updates(200)
    noon = len(day) // 2
    second = datetime.now(UTC).replace(microsecond=0)
    bank.transactions.process(*day[:noon])
    bank.profiles.process(*updates[:100])
    heard_before = consumer.take_until_heard(bank.books().entries)
    assert reconciled(bank, second)["mismatches"] == 0
    at_noon = bank.books()
    label = restore.restore(deployment_of(bank), "restored", datetime.now(UTC).replace(microsecond=0))

    bank.transactions.process(*day[noon:])
    bank.profiles.process(*updates[100:])
    void = consumer.take_until_heard(entries_since(at_noon, bank.books()))
    damage(bank)
    damaged = bank.stack
    assert reconciled(bank, second + timedelta(minutes=1))["mismatches"] > 0

    restore.deliver(deployment_of(bank), is_wanted=False)
    parameters = PARAMETERS | {"RestoredTables": "restored", "RestoredJournalStreamLabel": label}
    bank = Bank(stack.deploy(bank.stack.endpoint, **parameters), bank.pid, bank.log)
    assert bank.stack["JournalTableName"] == "restored-Journal" != damaged["JournalTableName"]
    assert bank.books() == at_noon
    assert reconciled(bank, second + timedelta(minutes=2))["mismatches"] == 0
    restore.deliver(deployment_of(bank), is_wanted=True)

    bank.transactions.process(*day[noon - 100 :])  # some minutes more than needed
    bank.profiles.process(*updates[50:])
    books = bank.books()
    assert violations(books) == []
    assert list(vanished(day, books, bank.transactions.take_dead_letters())) == []
    winners = profiles.upserted([*updates, *updates[50:]], [])
    assert list(profiles.violations(bank.read_profiles(), winners)) == []
    assert reconciled(bank, second + timedelta(minutes=3))["mismatches"] == 0

    with pytest.raises(WrongUse, match="name another prefix"):
        restore.restore(deployment_of(bank), "restored", second)
    bank.republish({"from": (second - timedelta(minutes=15)).isoformat()})
    heard = consumer.take_until_heard(books.entries)
    assert len(void) > 100
    assert outcomes.violations(books.entries, [*heard_before, *heard]) == []
