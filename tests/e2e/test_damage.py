"""Damage to the tables of the deployed stack: by which run it is found, and what no proof is made of any more."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from conditional_writes import Item
from conditional_writes.core.items import to_dynamodb
from tests.support.bodies import opening, payment
from tests.support.command import Command
from tests.support.deployed import ROOTS_BUCKET, Bank
from tests.support.ledger import Ledger
from tests.support.planted import make_anew, publish_anew
from tools import check_proof
from tools.local_aws.tables import Tables, scan

TIMES = (f"2024-{month:02}-01T05:00:00+00:00" for month in range(1, 13))
"""Times of no other test. Each is used once."""
AMOUNTS = ("100", "5", "7")
"""Of the payments, which are posted in any order: versions 2 to 4. The opening is version 1."""


def entries(ledger: Ledger, name: str) -> list[Item]:
    """The account's, in their order."""
    found = (item for item in ledger.items(ledger.tables.journal) if item["account_id"] == name)
    return sorted(found, key=lambda item: item["account_version"])


def delete(ledger: Ledger, entry: Item) -> None:
    key = {each: entry[each] for each in ("account_id", "transaction_id")}
    ledger.client.delete_item(TableName=ledger.tables.journal, Key=to_dynamodb(key))


def remove(ledger: Ledger, name: str) -> None:
    delete(ledger, entries(ledger, name)[2])


def cut_off(ledger: Ledger, name: str) -> None:
    *_, before, last = entries(ledger, name)
    delete(ledger, last)
    fields = {each: before[each] for each in ("posted_at", "seal")}
    ledger.change_account(name, version=3, balance=before["balance_after"], **fields)


def describe(found: list[Item]) -> None:
    found[1]["request"]["description"] = "for nothing"


def with_checkpoint_and_root(ledger: Ledger, name: str) -> None:
    make_anew(ledger, name, describe, with_checkpoint=True)
    publish_anew(ledger)


NEXT_NIGHT: dict[str, tuple[Callable[[Ledger, str], Any], str]] = {
    "cut-off": (cut_off, "wrong checkpoint"),
    "chain-anew": (lambda ledger, name: make_anew(ledger, name, describe), "wrong checkpoint"),
    "with-checkpoint-and-root": (with_checkpoint_and_root, "wrong root"),
}
WHOLE_REPLAY: dict[str, tuple[Callable[[Ledger, str], Any], str]] = {"removal": (remove, "missing entry")}
"""By the next run, or by the next one that replays the account whole; and what the run calls it.

tests/support/planted.py and tests/integration/test_proofs.py have every kind. Here are some of each run, and those of
which the bucket is a part.
"""
STILL_PROVEN = {"with-checkpoint-and-root"}
"""By a root that isn't the bucket's."""
ACCOUNTS = [f"damaged-{name}" for name in NEXT_NIGHT | WHOLE_REPLAY]


@pytest.fixture
def ledger(bank: Bank) -> Iterator[Ledger]:
    """With the accounts, as a night has seen them. In the end the tables are as they were."""
    bank.transactions.process(*map(opening, ACCOUNTS))
    bank.transactions.process(*(payment(f"t-{each}", each, name) for each in AMOUNTS for name in ACCOUNTS))
    names = ("Accounts", "Journal", "Checkpoints", "Reversals")
    tables = Tables(*(bank.stack[f"{name}TableName"] for name in names))
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


def expected(planted: dict[str, tuple[Callable[[Ledger, str], Any], str]]) -> set[tuple[str, str]]:
    return {
        ("table Checkpoints" if what == "wrong root" else f"damaged-{name}", what)
        for name, (_, what) in planted.items()
    }


def test_each_damage_is_found_in_its_time_and_what_was_damaged_is_proven_no_more(
    bank: Bank, ledger: Ledger, tmp_path: Path
) -> None:
    proof, kept, teller = tmp_path / "proof.json", tmp_path / "root.json", Command(bank.stack)
    proven = teller.json("prove", "damaged-removal", "t-100", "--out", str(proof))
    key = f"roots/{proven['scheduled_time'].replace(':', '').replace('+0000', 'Z')}.json"
    of_bucket = {"Bucket": ROOTS_BUCKET, "Key": key}
    kept.write_bytes(bank.stack.endpoint.client("s3").get_object(**of_bucket)["Body"].read())
    checker = [sys.executable, "-I", "-S", check_proof.__file__, str(proof), str(kept)]
    assert subprocess.run(checker, capture_output=True, check=False).stdout.startswith(b"proven: account_id ")

    found = set[tuple[str, str]]()
    for planted, options in ((NEXT_NIGHT, []), (WHOLE_REPLAY, ["--whole"])):
        for name, (plant, _) in planted.items():
            plant(ledger, f"damaged-{name}")
        for name in planted.keys() - STILL_PROVEN:
            refused = teller.json("prove", f"damaged-{name}", "t-100", "--out", str(proof), status=1)["error"]
            assert "run" in refused["reason"], refused
        found |= run(bank, *options)
        assert expected(planted) <= found
    assert {where for where, _ in found} <= {where for where, _ in expected(NEXT_NIGHT | WHOLE_REPLAY)}
