"""A night with accounts that are too much for it: a million journal entries, an unreadable account, one of 380 KB."""

import itertools
import json
import subprocess
import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from typing import Any

import pytest

from conditional_writes.items import from_dynamodb, to_dynamodb
from ledger import reconciler
from ledger.core.accounts import Account, AccountStatus, account_item
from tests.support.night import EVENT, Night
from tests.support.reporting import Say
from tools.local_aws.server import PROJECT, Endpoint
from tools.local_aws.tables import Tables, create_locks_table, create_tables

LAMBDA_MEGABYTES = 1024


def account(name: str, entries: int, **changes: Any) -> dict[str, Any]:
    """The account after an opening and payments of 1."""
    state = Account(name, Decimal(entries - 1), Decimal(0), "EUR", AccountStatus.OPEN, entries)
    return to_dynamodb(account_item(state) | changes)


def journal(name: str, entries: int) -> Iterator[dict[str, Any]]:
    """The account's journal entries, as `process_transactions` writes them, in DynamoDB's JSON."""
    for version in range(1, entries + 1):
        transaction_id = f"t-{version:08}"
        payment = {"type": "transaction", "amount": "1", "currency": "EUR", "description": "x" * 40}
        opening = {"type": "open_account", "currency": "EUR", "overdraft_limit": "0"}
        request = {"transaction_id": transaction_id, "account_id": name} | (payment if version > 1 else opening)
        yield {
            "account_id": {"S": name},
            "transaction_id": {"S": transaction_id},
            "request": {"M": {field: {"S": value} for field, value in request.items()}},
            "payload_hash": {"S": "b" * 64},
            "status": {"S": "POSTED"},
            "amount": {"N": "1" if version > 1 else "0"},
            "balance_after": {"N": str(version - 1)},
            "account_version": {"N": str(version)},
            "posted_at": {"S": "2026-11-21T21:01:34.704+00:00"},
            "cw:write_id": {"S": "c" * 32},
        }


def put_all(endpoint: Endpoint, table: str, items: Iterable[dict[str, Any]]) -> None:
    client = endpoint.client("dynamodb", parameter_validation=False)

    def put(batch: tuple[dict[str, Any], ...]) -> None:
        response = client.batch_write_item(RequestItems={table: [{"PutRequest": {"Item": item}} for item in batch]})
        assert not response["UnprocessedItems"]

    with ThreadPoolExecutor(4) as pool:
        for batches in itertools.batched(itertools.batched(items, 25, strict=False), 400, strict=False):
            list(pool.map(put, batches))


def run_night(endpoint: Endpoint, tables: Tables, locks_table: str) -> tuple[Night, dict[str, Any]]:
    """A night in a process of its own, and its report."""
    ran = subprocess.run(
        [sys.executable, "-m", "tests.support.night", endpoint.url, tables.accounts, tables.journal, locks_table],
        cwd=PROJECT,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    key = to_dynamodb({"lock_key": f"{EVENT['job']} {EVENT['scheduled_time']}"})
    report = endpoint.client("dynamodb").get_item(TableName=locks_table, Key=key)["Item"]
    return Night(**json.loads(ran.stdout.splitlines()[-1])), from_dynamodb(report)


@pytest.mark.exhaustive
@pytest.mark.timeout(1800)
def test_a_night_with_a_million_entries_checks_the_others_inside_1_gb(dynamodb_local: Endpoint, say: Say) -> None:
    tables, locks_table = create_tables(dynamodb_local, "million"), create_locks_table(dynamodb_local, "million")
    journals = {"million": 1_000_000, "most": 200_000, "unreadable": 1, "large": 1}
    journals |= {f"many-{number}": 14_000 for number in range(8)} | {f"few-{number}": 10 for number in range(40)}
    odd: dict[str, dict[str, Any]] = {"unreadable": {"balance": "12"}, "large": {"notes": "x" * 380_000}}
    put_all(dynamodb_local, tables.accounts, (account(*each, **odd.get(each[0], {})) for each in journals.items()))
    put_all(dynamodb_local, tables.journal, itertools.chain.from_iterable(itertools.starmap(journal, journals.items())))
    night, report = run_night(dynamodb_local, tables, locks_table)
    say(
        f"{sum(journals.values()):,} entries: {night.seconds:.0f} s, {night.megabytes:.0f} MB at most,"
        f" {night.requests}, {night.queries['million']} queries of the million"
    )
    assert (report["accounts_checked"], report["mismatches"], report["accounts_skipped"]) == (49, 0, 3)
    reasons = dict(sentence.split(": ", 1) for sentence in report["first_skipped"])
    assert reasons["million"].startswith("its journal has more than 250,000 entries or 100 MB: ")
    assert reasons["unreadable"].startswith("it can't be read: TypeError: balance")
    assert reasons["large"].startswith("its item has 380,")
    assert night.queries["million"] <= reconciler.IN_PARALLEL.pages + reconciler.ALONE.pages
    assert night.megabytes < LAMBDA_MEGABYTES
