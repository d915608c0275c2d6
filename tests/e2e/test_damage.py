"""Damage to the tables of the deployed stack: by which run it is found, and what no proof is made of any more."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

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
PROVEN, *LATER = ("100", "5", "7", "30")
"""Amounts of the payments. The opening is version 1, the proven payment version 2. The later ones come in any order."""


def entries(ledger: Ledger, name: str) -> list[Item]:
    """The account's, in their order."""
    found = (item for item in ledger.items(ledger.tables.journal) if item["account_id"] == name)
    return sorted(found, key=lambda item: item["account_version"])


def edit(ledger: Ledger, name: str) -> None:
    ledger.put_entry(entries(ledger, name)[1] | {"amount": 1_000})


def describe(found: list[Item]) -> None:
    found[1]["request"]["description"] = "for nothing"


def with_checkpoint_and_root(ledger: Ledger, name: str) -> None:
    make_anew(ledger, name, describe, with_checkpoint=True)
    publish_anew(ledger)


type Planted = dict[str, tuple[Callable[[Ledger, str], Any], str]]
"""For each kind of damage the function that plants it, and the mismatch that the run reports."""

NEXT_NIGHT: Planted = {
    "chain-anew": (lambda ledger, name: make_anew(ledger, name, describe), "wrong checkpoint"),
    "with-checkpoint-and-root": (with_checkpoint_and_root, "wrong root"),
}
WHOLE_REPLAY: Planted = {"edit": (edit, "broken seal")}
"""Found by the next run, or by the next one that replays the account whole. In the process every kind is planted."""
KINDS = (NEXT_NIGHT, WHOLE_REPLAY)
STILL_PROVEN = {"with-checkpoint-and-root"}
"""By a root that isn't the bucket's."""


@pytest.fixture
def ledger(bank: Bank) -> Iterator[Ledger]:
    """With an account for each kind, as a night has seen them. In the end the tables are as they were."""
    accounts = [f"damaged-{name}" for planted in KINDS for name in planted]
    bank.transactions.process(*map(opening, accounts))
    bank.transactions.process(*(payment(f"t-{PROVEN}", PROVEN, name) for name in accounts))
    bank.transactions.process(*(payment(f"t-{each}", each, name) for each in LATER for name in accounts))
    names = ("Accounts", "Journal", "Checkpoints", "Reversals")
    tables = Tables(*(bank.stack[f"{name}TableName"] for name in names))
    ledger = Ledger(bank.stack.endpoint, tables=tables, LOCKS_TABLE=bank.stack["LocksTableName"])
    before = {table: list(scan(ledger.dynamodb, table)) for table in (tables.accounts, tables.journal)}
    assert run(bank) == set()
    yield ledger
    for table, items in before.items():
        for item in items:
            if item["account_id"]["S"] in accounts:
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


def expected(planted: Planted) -> set[tuple[str, str]]:
    return {
        ("table Checkpoints" if what == "wrong root" else f"damaged-{name}", what)
        for name, (_, what) in planted.items()
    }


def test_each_damage_is_found_in_its_time_and_what_was_damaged_is_proven_no_more(
    bank: Bank, ledger: Ledger, tmp_path: Path
) -> None:
    proof, kept, teller = tmp_path / "proof.json", tmp_path / "root.json", Command(bank.stack)
    proven = teller.json("prove", "damaged-edit", f"t-{PROVEN}", "--out", str(proof))
    key = f"roots/{proven['scheduled_time'].replace(':', '').replace('+0000', 'Z')}.json"
    of_bucket = {"Bucket": ROOTS_BUCKET, "Key": key}
    kept.write_bytes(bank.stack.endpoint.client("s3").get_object(**of_bucket)["Body"].read())
    checker = [sys.executable, "-I", "-S", check_proof.__file__, str(proof), str(kept)]
    assert subprocess.run(checker, capture_output=True, check=False).stdout.startswith(b"proven: account_id ")

    found = set[tuple[str, str]]()
    for planted, options in zip(KINDS, ([], ["--whole"]), strict=True):
        for name, (plant, _) in planted.items():
            plant(ledger, f"damaged-{name}")
        for name in planted.keys() - STILL_PROVEN:
            refused = teller.json("prove", f"damaged-{name}", f"t-{PROVEN}", "--out", str(proof), status=1)["error"]
            assert "run" in refused["reason"], refused
        found |= run(bank, *options)
        assert expected(planted) <= found
    assert {where for where, _ in found} <= {where for where, _ in expected(NEXT_NIGHT | WHOLE_REPLAY)}
