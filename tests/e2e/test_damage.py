"""Damage to the tables of the deployed stack: by which run it is found, and what no proof is made of any more."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from conditional_writes import Item
from tests.support.bodies import opening, payment
from tests.support.command import Command
from tests.support.deployed import ROOTS_BUCKET, Bank
from tests.support.ledger import Ledger
from tests.support.planted import make_anew, publish_anew
from tools import check_proof
from tools.local_aws.tables import Tables, scan

TIMES = (f"2024-{month:02}-01T05:00:00+00:00" for month in range(1, 13))
"""Times of no other test. Each is used once."""
EDITED, ANEW, WITH_ROOT = ACCOUNTS = ("damaged-edit", "damaged-chain", "damaged-chain-and-root")


@pytest.fixture
def ledger(bank: Bank) -> Iterator[Ledger]:
    """With these accounts, as a night has seen them. In the end the tables are as they were."""
    bank.transactions.process(*map(opening, ACCOUNTS))
    bank.transactions.process(*(payment("proven", 100, name) for name in ACCOUNTS))
    bank.transactions.process(*(payment(f"t-{amount}", amount, name) for amount in (5, 7, 30) for name in ACCOUNTS))
    tables = Tables(*(bank.stack[f"{name}TableName"] for name in ("Accounts", "Journal", "Checkpoints", "Reversals")))
    ledger = Ledger(bank.stack.endpoint, tables=tables, LOCKS_TABLE=bank.stack["LocksTableName"])
    before = {table: list(scan(ledger.dynamodb, table)) for table in (tables.accounts, tables.journal)}
    assert run(bank) == set()
    yield ledger
    for table, items in before.items():
        for item in items:
            if item["account_id"]["S"] in ACCOUNTS:
                ledger.client.put_item(TableName=table, Item=item)
    run(bank)
    bank.take_unpublished()


def run(bank: Bank, *options: str) -> set[tuple[str, str]]:
    """What a run has found, and where."""
    at = ("--for", next(TIMES), "--force")
    answer = Command(bank.stack).json_of_any_status("jobs", "run", "reconcile_accounts", *at, *options)
    report = answer["report"]
    assert report["accounts_skipped"] == 0
    return {tuple(sentence.split(": ")[:2]) for sentence in report["first_mismatches"]}


def describe(entries: list[Item]) -> None:
    entries[1]["request"]["description"] = "for nothing"


def test_each_damage_is_found_in_its_time_and_what_was_damaged_is_proven_no_more(
    bank: Bank, ledger: Ledger, tmp_path: Path
) -> None:
    """By the next run, or by the next one that replays the account whole. In the process every kind is planted."""
    proof, kept, teller = tmp_path / "proof.json", tmp_path / "root.json", Command(bank.stack)
    proven = teller.json("prove", EDITED, "proven", "--out", str(proof))
    key = f"roots/{proven['scheduled_time'].replace(':', '').replace('+0000', 'Z')}.json"
    root = bank.stack.endpoint.client("s3").get_object(Bucket=ROOTS_BUCKET, Key=key)
    kept.write_bytes(root["Body"].read())
    checker = [sys.executable, "-I", "-S", check_proof.__file__, str(proof), str(kept)]
    assert subprocess.run(checker, capture_output=True, check=False).stdout.startswith(b"proven: account_id ")

    def proven_no_more(name: str) -> None:
        refused = teller.json("prove", name, "proven", "--out", str(proof), status=1)["error"]
        assert "run" in refused["reason"], refused

    make_anew(ledger, ANEW, describe)
    proven_no_more(ANEW)
    make_anew(ledger, WITH_ROOT, describe, with_checkpoint=True)
    publish_anew(ledger)
    at_once = {(ANEW, "wrong checkpoint"), ("table Checkpoints", "wrong root")}
    assert run(bank) == at_once
    ledger.change_entry("proven", EDITED, amount=1_000)
    proven_no_more(EDITED)
    found = run(bank, "--whole")
    assert (EDITED, "broken seal") in found
    assert {where for where, _ in found} <= {EDITED, *(where for where, _ in at_once)}
