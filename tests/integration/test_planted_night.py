"""A night with accounts that are too much for it: a million journal entries, an unreadable account, one of 380 KB."""

import json
import subprocess
import sys
from decimal import Decimal
from typing import Any

import pytest

from conditional_writes.items import from_dynamodb, to_dynamodb
from ledger import reconciler
from ledger.core.accounts import Account, AccountStatus, account_item
from tests.support.night import EVENT, Night, entry
from tests.support.reporting import Say
from tools.local_aws.server import PROJECT, Endpoint
from tools.local_aws.tables import Tables, create_locks_table, create_tables

LAMBDA_MEGABYTES = 1024
ODD: dict[str, dict[str, Any]] = {"unreadable": {"balance": "12"}, "large": {"notes": "x" * 380_000}}


def plant(endpoint: Endpoint, prefix: str, planted: dict[str, int]) -> tuple[Tables, str]:
    """Accounts with journals of these lengths, which aren't in the Journal table, and others with a single entry."""
    tables, locks_table = create_tables(endpoint, prefix), create_locks_table(endpoint, prefix)
    client = endpoint.client("dynamodb")
    for name, entries in (planted | dict.fromkeys([*ODD, *(f"few-{number}" for number in range(40))], 1)).items():
        state = Account(name, Decimal(entries - 1), Decimal(0), "EUR", AccountStatus.OPEN, entries)
        item = account_item(state) | ODD.get(name, {})
        client.put_item(TableName=tables.accounts, Item=to_dynamodb(item))
        if name not in planted:
            client.put_item(TableName=tables.journal, Item=entry(name, 1))
    return tables, locks_table


def run_night(
    endpoint: Endpoint, tables: Tables, locks_table: str, planted: dict[str, int]
) -> tuple[Night, dict[str, Any]]:
    """A night in a process of its own, and its report."""
    arguments = [endpoint.url, tables.accounts, tables.journal, locks_table, json.dumps(planted)]
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


@pytest.mark.exhaustive
@pytest.mark.timeout(900)
def test_a_night_with_a_million_entries_checks_the_others_inside_1_gb(ministack: Endpoint, say: Say) -> None:
    """The journal of `most` nearly fills the bounds for an account alone, and the eight of `many` those in parallel."""
    planted = {"million": 1_000_000, "most": 240_000} | {f"many-{number}": 14_000 for number in range(8)}
    night, report = run_night(ministack, *plant(ministack, "million", planted), planted)
    say(
        f"{night.seconds:.0f} s in {len(night.outcomes)} invocations, {night.megabytes:.0f} MB at most,"
        f" {night.queries['million']} queries of the million, requests: {night.requests}"
    )
    assert (report["accounts_checked"], report["mismatches"], report["accounts_skipped"]) == (49, 0, 3)
    reasons = dict(sentence.split(": ", 1) for sentence in report["first_skipped"])
    assert reasons["million"].startswith("its journal has more than 250,000 entries or 100 MB: ")
    assert reasons["unreadable"].startswith("it can't be read: TypeError: balance")
    assert reasons["large"].startswith("its item has 380,")
    assert night.queries["million"] <= reconciler.MAX_PARALLEL * reconciler.IN_PARALLEL.pages + reconciler.ALONE.pages
    assert night.megabytes < LAMBDA_MEGABYTES
