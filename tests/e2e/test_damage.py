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
PROVEN, *LATER = ("100", "5", "7", "30")
"""Amounts of the payments. The opening is version 1, the proven payment version 2. The later ones come in any order."""


def entries(ledger: Ledger, name: str) -> list[Item]:
    """The account's, in their order."""
    found = (item for item in ledger.items(ledger.tables.journal) if item["account_id"] == name)
    return sorted(found, key=lambda item: item["account_version"])


def delete(ledger: Ledger, entry: Item) -> None:
    key = {each: entry[each] for each in ("account_id", "transaction_id")}
    ledger.client.delete_item(TableName=ledger.tables.journal, Key=to_dynamodb(key))


def edit(ledger: Ledger, name: str) -> None:
    ledger.put_entry(entries(ledger, name)[1] | {"amount": 1_000})


def remove(ledger: Ledger, name: str) -> None:
    delete(ledger, entries(ledger, name)[2])


def swap(ledger: Ledger, name: str) -> None:
    *_, before, one, other = entries(ledger, name)
    places = ("account_version", "posted_at")
    balance = before["balance_after"] + other["amount"]
    ledger.put_entry(one | {each: other[each] for each in (*places, "balance_after")})
    ledger.put_entry(other | {each: one[each] for each in places} | {"balance_after": balance})


def number_anew(ledger: Ledger, name: str) -> None:
    """Without a payment, and without a gap."""
    _, _, left_out, *later = entries(ledger, name)
    delete(ledger, left_out)
    for entry in later:
        version, balance = entry["account_version"] - 1, entry["balance_after"] - left_out["amount"]
        ledger.put_entry(entry | {"account_version": version, "balance_after": balance})
    ledger.change_account(name, version=version, balance=balance)


def copy_from_another(ledger: Ledger, name: str) -> None:
    copy, there = entries(ledger, "damaged-edit")[2], entries(ledger, name)[2]
    ledger.put_entry(there | {each: copy[each] for each in ("request", "amount", "seal", "sent")})


def cut_off(ledger: Ledger, name: str) -> None:
    *_, before, last = entries(ledger, name)
    delete(ledger, last)
    fields = {each: before[each] for each in ("posted_at", "seal")}
    ledger.change_account(name, version=4, balance=before["balance_after"], **fields)


def raise_balance(ledger: Ledger, name: str) -> None:
    """With an entry that says so, and without its seal."""
    entry = entries(ledger, name)[-1]
    request = entry["request"] | {"transaction_id": RAISED, "amount": "900"}
    balance, seal = entry["balance_after"] + 900, "0" * 43
    new = {"transaction_id": RAISED, "request": request, "amount": 900, "account_version": 6, "seal": seal}
    ledger.put_entry(entry | new | {"balance_after": balance})
    ledger.change_account(name, version=6, balance=balance, seal=seal)


def describe(found: list[Item]) -> None:
    found[1]["request"]["description"] = "for nothing"


def with_checkpoint_and_root(ledger: Ledger, name: str) -> None:
    make_anew(ledger, name, describe, with_checkpoint=True)
    publish_anew(ledger)


type Planted = dict[str, tuple[Callable[[Ledger, str], Any], str]]
"""For each kind of damage the function that plants it, and the mismatch that the run reports."""

NEXT_NIGHT: Planted = {
    "number-anew": (number_anew, "broken seal"),
    "cut-off": (cut_off, "wrong checkpoint"),
    "raised": (raise_balance, "broken seal"),
    "chain-anew": (lambda ledger, name: make_anew(ledger, name, describe), "wrong checkpoint"),
    "with-checkpoint-and-root": (with_checkpoint_and_root, "wrong root"),
}
WHOLE_REPLAY: Planted = {
    "edit": (edit, "broken seal"),
    "removal": (remove, "missing entry"),
    "swap": (swap, "broken seal"),
    "of-another-account": (copy_from_another, "wrong request"),
}
"""Found by the next run, or by the next one that replays the account whole."""
SAMPLE = {"cut-off", "chain-anew", "with-checkpoint-and-root", "edit"}
"""Without `--all`: some of each run, and those of which the bucket is a part. In the process every kind is planted."""
STILL_PROVEN = {"raised", "with-checkpoint-and-root"}
"""The first has its older entries as they were. The other is proven by a root that isn't the bucket's."""
RAISED = "t-900"


@pytest.fixture
def kinds(every_case: bool) -> list[Planted]:
    chosen = NEXT_NIGHT | WHOLE_REPLAY if every_case else SAMPLE
    return [{name: found[name] for name in found if name in chosen} for found in (NEXT_NIGHT, WHOLE_REPLAY)]


@pytest.fixture
def ledger(bank: Bank, kinds: list[Planted]) -> Iterator[Ledger]:
    """With an account for each kind, as a night has seen them. In the end the tables are as they were."""
    accounts = [f"damaged-{name}" for planted in kinds for name in planted]
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
    delete(ledger, {"account_id": "damaged-raised", "transaction_id": RAISED})
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
    bank: Bank, ledger: Ledger, kinds: list[Planted], tmp_path: Path
) -> None:
    proof, kept, teller = tmp_path / "proof.json", tmp_path / "root.json", Command(bank.stack)
    proven = teller.json("prove", "damaged-edit", f"t-{PROVEN}", "--out", str(proof))
    key = f"roots/{proven['scheduled_time'].replace(':', '').replace('+0000', 'Z')}.json"
    of_bucket = {"Bucket": ROOTS_BUCKET, "Key": key}
    kept.write_bytes(bank.stack.endpoint.client("s3").get_object(**of_bucket)["Body"].read())
    checker = [sys.executable, "-I", "-S", check_proof.__file__, str(proof), str(kept)]
    assert subprocess.run(checker, capture_output=True, check=False).stdout.startswith(b"proven: account_id ")

    found = set[tuple[str, str]]()
    for planted, options in zip(kinds, ([], ["--whole"]), strict=True):
        for name, (plant, _) in planted.items():
            plant(ledger, f"damaged-{name}")
        for name in planted.keys() - STILL_PROVEN:
            refused = teller.json("prove", f"damaged-{name}", f"t-{PROVEN}", "--out", str(proof), status=1)["error"]
            assert "run" in refused["reason"], refused
        found |= run(bank, *options)
        assert expected(planted) <= found
    assert {where for where, _ in found} <= {where for where, _ in expected(kinds[0] | kinds[1])}
