"""A cut-over as docs/migrating.md says: accounts with a history, in three currencies. The import is killed twice.

ministack has no ImportTable: the files' items are written to the new table by batches.
"""

import csv
import gzip
import json
import os
import re
import subprocess
import sys
import time
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import batched
from pathlib import Path
from typing import Any
from unittest import mock

import jmespath
import pytest
from botocore.config import Config

from conditional_writes.core import client
from tests.support.bodies import payment
from tests.support.command import Command
from tests.support.deployed import PARAMETERS, Bank, until
from tests.support.reporting import Say
from tools import restore
from tools.local_aws import functions, stack
from tools.local_aws.scheduler import read_report
from tools.local_aws.server import PROJECT
from tools.local_aws.tables import Tables
from tools.teller import exporting
from tools.teller.deployment import Deployment
from tools.teller.places import path_of

ACCOUNTS = int(os.environ.get("TELLER_CUT_OVER_ACCOUNTS", "2000"))
"""`make soak` has 20,000."""
COLUMNS = ["account_id", "currency", "balance", "overdraft_limit", "source_reference", "as_of", "holds"]
CURRENCIES = ("EUR", "USD", "JPY")


def write_files(directory: Path) -> dict[str, Decimal]:
    """Files of the accounts and of three transactions of each. Returns the totals."""
    totals: dict[str, Decimal] = defaultdict(Decimal)
    with (directory / "accounts.csv").open("w", newline="") as one, (directory / "history.csv").open("w") as other:
        accounts = csv.writer(one)
        accounts.writerow(COLUMNS)
        other.write("account_id,transaction_id,amount,posted_at\n")
        for number in range(ACCOUNTS):
            name, currency = f"moved-{number}", CURRENCIES[number % 3]
            amounts = [number, -2 * number, 500 if number % 2 else 0]  # half of them end below their limit, but for 0
            for entry, amount in enumerate(amounts):
                other.write(f"{name},core-{entry},{amount},2025-0{entry + 1}-01T12:00:00Z\n")
            holds = json.dumps({"h-1": {"amount": "5"}}) if number % 10 == 0 else ""
            accounts.writerow([name, currency, sum(amounts), 0, f"core/{number}", "2025-12-31T23:00:00Z", holds])
            totals[currency] += sum(amounts)
    return totals


def load(bank: Bank, journal: Path) -> None:
    """What DynamoDB's import does: a new table like the stack's own journal, with the items of the files."""
    dynamodb = bank.stack.endpoint.client("dynamodb")
    [query] = re.findall('JOURNAL --query "(.*?)"', (PROJECT / "docs" / "migrating.md").read_text(), re.DOTALL)
    own = dynamodb.describe_table(TableName=bank.stack["JournalTableName"])
    dynamodb.create_table(**jmespath.search(query.replace("PREFIX", "moved"), own))
    items = (
        json.loads(line)["Item"]
        for path in sorted(journal.iterdir())
        for line in gzip.decompress(path.read_bytes()).splitlines()
    )
    for batch in batched(items, 25, strict=False):
        requests = [{"PutRequest": {"Item": item}} for item in batch]
        assert not dynamodb.batch_write_item(RequestItems={"moved-Journal": requests}).get("UnprocessedItems")


def begin(bank: Bank, *arguments: str) -> "subprocess.Popen[bytes]":
    environment = os.environ | bank.stack.endpoint.environment | {"TELLER_STACK": bank.stack.name}
    return subprocess.Popen([sys.executable, "-m", "tools.teller", *arguments], env=environment, cwd=PROJECT)


def sent(file: Path) -> int:
    place = path_of(file)
    return int(json.loads(place.read_bytes())["messages"]) if place.exists() else 0


def reconciled(bank: Bank) -> dict[str, Any]:
    """The report of a replay of all journals, in this process.

    ministack takes six seconds for a page of 20,000 checkpoints, and a deployed function waits for two.
    """
    tables = Tables(*(bank.stack[f"{name}TableName"] for name in ("Accounts", "Journal", "Checkpoints", "Reversals")))
    with mock.patch.object(client, "CONFIG", client.CONFIG.merge(Config(read_timeout=60))):
        function = functions.reconcile_accounts(bank.stack.endpoint, tables, bank.stack["LocksTableName"])
    now = datetime.now(UTC)
    body = {"job": "reconcile_accounts", "scheduled_time": now.isoformat(), "whole": True, "force": True}
    assert functions.run_job(function, body, functions.Context(timeout_seconds=3600)) == "Done"
    return read_report(bank.stack, now)


@pytest.mark.exhaustive
@pytest.mark.timeout(2400 + ACCOUNTS / 4)
def test_accounts_with_a_history_are_moved_by_an_import_that_is_killed_twice(
    own_bank: Bank, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, say: Say
) -> None:
    began = time.monotonic()

    def done(step: str) -> None:
        say(f"after {time.monotonic() - began:,.0f} s: {step}")

    bank, totals, made = own_bank, write_files(tmp_path), tmp_path / "history"
    files = [str(tmp_path / name) for name in ("accounts.csv", "history.csv")]
    assert begin(bank, "import", files[0], "--history", files[1], "--into", str(made)).wait() == 0
    done("the history's files are made")
    load(bank, made / "journal")
    done("the history is in a new table")
    deployment = Deployment(bank.stack.name, bank.stack.endpoint.url)
    restore.deliver(deployment, is_wanted=False)
    label = restore.restore(deployment, "moved", datetime.now(UTC).replace(microsecond=0))
    parameters = PARAMETERS | {"RestoredTables": "moved", "RestoredJournalStreamLabel": label}
    bank = Bank(stack.deploy(bank.stack.endpoint, **parameters), bank.pid, bank.log)
    restore.deliver(deployment, is_wanted=True)
    done("the stack uses it")

    named = ",".join(f"{currency}={total}" for currency, total in totals.items())
    importing = ("import", str(made / "accounts.jsonl"), "--totals", named)
    for part in (1, 2):
        killed = begin(bank, *importing)
        until(lambda part=part: sent(made / "accounts.jsonl") >= part * ACCOUNTS / 3, "a part was sent", ACCOUNTS)
        killed.kill()
        assert killed.wait() < 0
        done(f"killed, {part} of 2")
    command = Command(bank.stack)
    answer = command.json(*importing)
    assert (answer["imported"], answer["different"]) == (ACCOUNTS, 0)
    assert {currency: Decimal(total) for currency, total in answer["totals"].items()} == totals
    done("the sums are proved")

    bank.transactions.process(payment("t-1", 100, "moved-9"), payment("core-1", -1, "moved-9"))
    [letter] = bank.transactions.take_dead_letters()
    assert "'core-1' was used before" in letter.reason
    books = bank.books()
    assert len(books.entries) == 4 * ACCOUNTS + 1
    assert {account.version for name, account in books.accounts.items() if name != "moved-9"} == {4}
    report = reconciled(bank)
    assert (report["accounts_checked"], report["accounts_skipped"], report["mismatches"]) == (ACCOUNTS, 0, 0)
    assert bank.take_unpublished() == []
    done("all is replayed")

    monkeypatch.setattr(exporting, "LONGEST_POSTING", -timedelta(minutes=1))  # what was posted just now, too
    manifest = command.json("export", str(tmp_path / "books"))
    assert (manifest["rows"]["journal"], manifest["rows"]["accounts"]) == (4 * ACCOUNTS + 1, ACCOUNTS)
    assert {each: Decimal(total) for each, total in manifest["sums"]["accounts"].items()} == {
        currency: total + (100 if currency == "EUR" else 0) for currency, total in totals.items()
    }
    assert manifest["sums"]["journal"] == manifest["sums"]["accounts"]
    done("all is exported")
    asked = command.json("query", "trial_balance", str(tmp_path / "books"), "--set", "day=2025-02-01")
    assert {row["currency"]: Decimal(row["balance"]) for row in asked["rows"]} == {
        currency: sum(-number for number in range(index, ACCOUNTS, 3)) for index, currency in enumerate(CURRENCIES)
    }
