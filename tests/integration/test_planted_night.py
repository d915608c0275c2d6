"""Nights with long journals, a million entries in one of them, an unreadable account, and one of 380 KB."""

import json
import subprocess
import sys
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from conditional_writes.items import from_dynamodb, to_dynamodb
from conditional_writes.sizes import item_bytes
from ledger.checkpoints import Checkpoint
from ledger.core.accounts import Account, AccountStatus, account_item
from tests.support.night import EVENT, PAGE_BYTES, Night, entry
from tests.support.reporting import Say
from tools.local_aws.server import PROJECT, Endpoint
from tools.local_aws.tables import Tables, create_locks_table, create_tables

LAMBDA_MEGABYTES = 1024
MOST_MEGABYTES = 100
ENTRY_BYTES = item_bytes(from_dynamodb(entry("million", 1_000_000)))
DAY = datetime.fromisoformat(EVENT["scheduled_time"]).date()
ODD: dict[str, dict[str, Any]] = {"unreadable": {"balance": "12"}, "large": {"notes": "x" * 380_000}}


def plant(
    endpoint: Endpoint, prefix: str, planted: dict[str, int], checkpoints: dict[str, int] | None = None
) -> tuple[Tables, str]:
    """Accounts with journals of these lengths, which aren't in the Journal table, and others with a single entry.

    The accounts' `checkpoints` are of these versions, and from the day before.
    """
    tables, locks_table = create_tables(endpoint, prefix), create_locks_table(endpoint, prefix)
    client = endpoint.client("dynamodb")
    for name, entries in (planted | dict.fromkeys([*ODD, *(f"few-{number}" for number in range(40))], 1)).items():
        item = account_item(account(name, entries)) | ODD.get(name, {})
        client.put_item(TableName=tables.accounts, Item=to_dynamodb(item))
        if name not in planted:
            client.put_item(TableName=tables.journal, Item=entry(name, 1))
    for name, version in (checkpoints or {}).items():
        day_before = {"whole_on": (DAY - timedelta(days=1)).isoformat()}
        client.put_item(
            TableName=tables.checkpoints, Item=to_dynamodb(account_item(account(name, version)) | day_before)
        )
    return tables, locks_table


def account(name: str, version: int) -> Account:
    """The account after so many entries."""
    posted_at = entry(name, version)["posted_at"]["S"]
    return Account(name, Decimal(version - 1), Decimal(0), "EUR", AccountStatus.OPEN, version, posted_at)


def run_night(
    endpoint: Endpoint, tables: Tables, locks_table: str, planted: dict[str, int]
) -> tuple[Night, dict[str, Any]]:
    """A night in a process of its own, and its report."""
    names = [tables.accounts, tables.journal, tables.checkpoints, tables.reversals, locks_table]
    arguments = [endpoint.url, *names, json.dumps(planted)]
    ran = subprocess.run(
        [sys.executable, "-m", "tests.support.night", *arguments],
        cwd=PROJECT,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    key = to_dynamodb({"lock_key": f"{EVENT['job']} {EVENT['scheduled_time']}"})
    report = endpoint.client("dynamodb").get_item(TableName=locks_table, Key=key)["Item"]
    return Night(**json.loads(ran.stdout.splitlines()[-1])), from_dynamodb(report)


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_a_night_with_long_journals_checks_them_and_the_others_inside_1_gb(ministack: Endpoint, say: Say) -> None:
    """The journal of `most` is replayed page by page. The eight of `many` nearly fill the bounds in parallel."""
    planted = {"most": 240_000} | {f"many-{number}": 14_000 for number in range(8)}
    night, report = run_night(ministack, *plant(ministack, "most", planted), planted)
    say(
        f"{night.seconds:.0f} s in {len(night.outcomes)} invocations, {night.megabytes:.0f} MB at most,"
        f" requests: {night.requests}"
    )
    assert (report["accounts_checked"], report["mismatches"], report["accounts_skipped"]) == (49, 0, 2)
    reasons = dict(sentence.split(": ", 1) for sentence in report["first_skipped"])
    assert reasons["unreadable"].startswith("it can't be read: TypeError: balance")
    assert reasons["large"].startswith("its item has 380,")
    assert night.megabytes < LAMBDA_MEGABYTES


@pytest.mark.soak
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("since", [0, 100], ids=["whole", "from its checkpoint"])
def test_a_million_entries_are_replayed_in_constant_memory(ministack: Endpoint, say: Say, since: int) -> None:
    """The whole replay reads the index and then the table, the other one the index alone."""
    planted = {"million": 1_000_000}
    checkpoints = {"million": since} if since else {}
    assert not Checkpoint(account("million", 1), DAY - timedelta(days=1)).is_whole_due(DAY)
    tables, locks_table = plant(ministack, f"million-{since}", planted, checkpoints)
    night, report = run_night(ministack, tables, locks_table, planted)
    say(
        f"{night.seconds:.0f} s in {len(night.outcomes)} invocations, {night.megabytes:.0f} MB at most,"
        f" {night.idle_megabytes:.0f} MB before, {night.queries['million']} queries, requests: {night.requests}"
    )
    assert (report["accounts_checked"], report["mismatches"], report["accounts_skipped"]) == (41, 0, 2)
    assert report["accounts_replayed_whole"] == 40 + (not since)
    assert night.megabytes - night.idle_megabytes < MOST_MEGABYTES
    pages = 1_000_000 * ENTRY_BYTES / PAGE_BYTES
    assert night.queries["million"] < (1.1 if since else 2.2) * pages
