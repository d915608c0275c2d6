"""Damage to the tables of the deployed stack: by which run it is found, and what no proof is made of any more."""

import contextlib
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from conditional_writes import Item
from tests.support.bodies import opening, payment
from tests.support.command import Command
from tests.support.deployed import PARAMETERS, Bank
from tests.support.ledger import Ledger
from tests.support.planted import make_anew, publish_anew
from tools import check_proof
from tools.local_aws.tables import Tables, scan

TIMES = (f"2024-{month:02}-01T05:00:00+00:00" for month in range(1, 13))
"""Times of no other test. Each is used once."""
AMOUNTS = {"t-2": "100", "t-3": "-30", "t-4": "5", "t-5": "7"}
"""Of the payments, each one after the other: versions 2 to 5. The opening is version 1."""


def edit(ledger: Ledger, name: str) -> None:
    ledger.change_entry("t-2", name, amount=1_000)


def remove(ledger: Ledger, name: str) -> None:
    ledger.delete_entry("t-3", name)


def swap(ledger: Ledger, name: str) -> None:
    one, other = ledger.entry("t-4", name), ledger.entry("t-5", name)
    places = ("account_version", "posted_at")
    before = one["balance_after"] - one["amount"]
    ledger.put_entry(one | {each: other[each] for each in (*places, "balance_after")})
    ledger.put_entry(other | {each: one[each] for each in places} | {"balance_after": before + other["amount"]})


def number_anew(ledger: Ledger, name: str) -> None:
    """Without the withdrawal, and without a gap."""
    ledger.delete_entry("t-3", name)
    for transaction_id in ("t-4", "t-5"):
        entry = ledger.entry(transaction_id, name)
        ledger.put_entry(
            entry | {"account_version": entry["account_version"] - 1, "balance_after": entry["balance_after"] + 30}
        )
    account = ledger.account_item(name)
    ledger.change_account(name, version=account["version"] - 1, balance=account["balance"] + 30)


def copy_from_another(ledger: Ledger, name: str) -> None:
    copy, there = ledger.entry("t-2", "damaged-edit"), ledger.entry("t-3", name)
    ledger.put_entry(there | {each: copy[each] for each in ("request", "amount", "seal", "sent")})


def cut_off(ledger: Ledger, name: str) -> None:
    last, before = ledger.entry("t-5", name), ledger.entry("t-4", name)
    ledger.delete_entry("t-5", name)
    fields = {each: before[each] for each in ("posted_at", "seal")}
    ledger.change_account(name, version=4, balance=last["balance_after"] - 7, **fields)


def raise_balance(ledger: Ledger, name: str) -> None:
    """With an entry that says so, and without its seal."""
    entry, account = ledger.entry("t-5", name), ledger.account_item(name)
    request = entry["request"] | {"transaction_id": "t-6", "amount": "900"}
    balance, seal = account["balance"] + 900, "0" * 43
    new = {"transaction_id": "t-6", "request": request, "amount": 900, "account_version": 6, "seal": seal}
    ledger.put_entry(entry | new | {"balance_after": balance})
    ledger.change_account(name, version=6, balance=balance, seal=seal)


def describe(entries: list[Item]) -> None:
    entries[1]["request"]["description"] = "for nothing"


def with_checkpoint_and_root(ledger: Ledger, name: str) -> None:
    make_anew(ledger, name, describe, with_checkpoint=True)
    publish_anew(ledger)


NEXT_NIGHT: dict[str, tuple[Callable[[Ledger, str], Any], str]] = {
    "number-anew": (number_anew, "broken seal"),
    "cut-off": (cut_off, "wrong checkpoint"),
    "raised": (raise_balance, "broken seal"),
    "chain-anew": (lambda ledger, name: make_anew(ledger, name, describe), "wrong checkpoint"),
    "with-checkpoint-and-root": (with_checkpoint_and_root, "wrong root"),
}
WHOLE_REPLAY: dict[str, tuple[Callable[[Ledger, str], Any], str]] = {
    "edit": (edit, "broken seal"),
    "removal": (remove, "missing entry"),
    "swap": (swap, "broken seal"),
    "of-another-account": (copy_from_another, "wrong request"),
}
"""By the next run, or by the next one that replays the account whole; and what the run calls it."""
STILL_PROVEN = {"raised", "with-checkpoint-and-root"}
"""The first has its older entries as they were. The other is proven by a root that isn't the bucket's."""
ACCOUNTS = [f"damaged-{name}" for name in NEXT_NIGHT | WHOLE_REPLAY]


@pytest.fixture
def ledger(bank: Bank) -> Iterator[Ledger]:
    """With the accounts, as a night has seen them. In the end the tables are as they were."""
    bank.transactions.process(*map(opening, ACCOUNTS))
    for transaction_id, amount in AMOUNTS.items():
        bank.transactions.process(*(payment(transaction_id, amount, name) for name in ACCOUNTS))
    names = ("Accounts", "Journal", "Checkpoints", "Reversals")
    tables = Tables(*(bank.stack[f"{name}TableName"] for name in names))
    ledger = Ledger(bank.stack.endpoint, tables=tables, LOCKS_TABLE=bank.stack["LocksTableName"])
    assert run(bank) == set()
    before = {table: list(scan(ledger.dynamodb, table)) for table in (tables.accounts, tables.journal)}
    yield ledger
    mend(ledger, before)
    bank.take_unpublished()


def mend(ledger: Ledger, before: dict[str, list[dict[str, Any]]]) -> None:
    for table, items in before.items():
        for item in items:
            if item["account_id"]["S"] in ACCOUNTS:
                ledger.client.put_item(TableName=table, Item=item)
    with contextlib.suppress(KeyError):
        ledger.delete_entry("t-6", "damaged-raised")


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
    proof, teller, s3 = tmp_path / "proof.json", Command(bank.stack), bank.stack.endpoint.client("s3")
    for name in ACCOUNTS:
        proven = teller.json("prove", name, "t-2", "--out", str(proof))
    kept, of_bucket = tmp_path / "root.json", {"Bucket": str(PARAMETERS["LedgerRootsBucket"])}
    key = f"roots/{proven['scheduled_time'].replace(':', '').replace('+0000', 'Z')}.json"
    kept.write_bytes(s3.get_object(**of_bucket, Key=key)["Body"].read())
    checked = [sys.executable, "-I", "-S", check_proof.__file__, str(proof), str(kept)]
    assert subprocess.run(checked, capture_output=True, check=False).stdout.startswith(b"proven: account_id ")
    text = proof.read_bytes()
    for place in {len(text) * number // 200 for number in range(200)}:
        changed = bytearray(text)
        changed[place] ^= 1
        with contextlib.suppress(KeyError, TypeError, ValueError):
            assert check_proof.root_in(changed.decode())[0] != json.loads(kept.read_bytes())["root"]

    before = {table: list(scan(ledger.dynamodb, table)) for table in (ledger.tables.accounts, ledger.tables.journal)}
    for planted, options in ((NEXT_NIGHT, []), (WHOLE_REPLAY, ["--whole"])):
        for name, (plant, _) in planted.items():
            plant(ledger, f"damaged-{name}")
        for name in planted.keys() - STILL_PROVEN:
            refused = teller.json("prove", f"damaged-{name}", "t-2", "--out", str(proof), status=1)["error"]
            assert "run" in refused["reason"], refused
        found = run(bank, *options)
        assert expected(planted) <= found
        assert {where for where, _ in found} <= {where for where, _ in expected(planted)}
        mend(ledger, before)
        assert {what for _, what in run(bank)} <= {"wrong root"}, "what is mended is sound"
