"""Proofs of entries by the root of a night, and what a night finds of tables that an administrator has changed."""

import contextlib
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import boto3
import pytest
from moto import mock_aws

from conditional_writes import Item
from ledger.checkpoints import RECORD, Root
from ledger.core.journal import EntryId
from ledger.core.totals import CHARACTERS, HashTree, hash_of, hash_of_values
from ledger.published_roots import PublishedRoots
from tests.checkers import seals
from tests.support.bodies import opening, payment
from tests.support.planted import BOOKS, HELD_BOOKS, make_anew, publish_anew
from tests.support.reconciling import Reconciled, event, filled, mismatches
from tools import check_proof
from tools.teller.failures import Failure
from tools.teller.operator import Operator
from tools.teller.prove import proof_of

MOST_BYTES = 2048
HASH_CHARACTERS = 43


@pytest.fixture
def ledger(reconciled: Reconciled) -> Reconciled:
    """After a night. On the next ones no account is due for a whole replay."""
    ledger = filled(reconciled, [*BOOKS, *HELD_BOOKS])
    assert mismatches(ledger.run(ledger.quiet_night())) == ""
    return ledger


@pytest.fixture
def night(ledger: Reconciled) -> int:
    return ledger.quiet_night() + 1


def operator_of(ledger: Reconciled) -> Operator:
    outputs = {
        "AccountsTableName": ledger.tables.accounts,
        "JournalTableName": ledger.tables.journal,
        "CheckpointsTableName": ledger.tables.checkpoints,
        "LocksTableName": ledger.locks_table,
    }

    class Deployment(dict[str, str]):
        def client(self, _: str) -> Any:
            return ledger.client

    return cast("Operator", SimpleNamespace(deployment=Deployment(outputs)))


def prove(ledger: Reconciled, transaction_id: str, account_id: str) -> str:
    _, proof = proof_of(operator_of(ledger), EntryId(account_id, transaction_id))
    return proof


def check(proof: str | bytes, root: str, tmp_path: Path) -> tuple[int, str]:
    """The exit status and the output of the checker in a Python that has its standard library alone."""
    path = tmp_path / "proof.json"
    path.write_bytes(proof.encode() if isinstance(proof, str) else proof)
    command = [sys.executable, "-I", "-S", check_proof.__file__, str(path), root]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    return ran.returncode, ran.stdout + ran.stderr


def test_each_entry_is_proven_in_2_kb_by_the_root_of_the_report(ledger: Reconciled) -> None:
    """Beside the entry and 30 hashes, those of a million accounts with a thousand entries each, it has 202 bytes."""
    root = ledger.report(ledger.quiet_night())["root"]
    items = ledger.items(ledger.tables.journal)
    assert len(items) > 30
    for item in items:
        proof = prove(ledger, item["transaction_id"], item["account_id"])
        found, entry = check_proof.root_in(proof)
        assert found == root
        form = check_proof.as_json(entry).encode()
        assert form == seals.canonical_form(item)
        hashes = sum(len(json.loads(proof)[name]) for name in ("seals", "accounts", "ranges"))
        assert len(proof.encode()) - hashes - len(form) <= 202
        assert len(form) + 202 + 30 * HASH_CHARACTERS <= MOST_BYTES


def test_a_changed_byte_is_found_at_each_of_200_places(ledger: Reconciled, tmp_path: Path) -> None:
    root = ledger.report(ledger.quiet_night())["root"]
    proof = prove(ledger, "t-7", "bob").encode()
    status, said = check(proof, root, tmp_path)
    assert (status, said.startswith("proven: account_id 'bob', account_version 3, amount '-120', ")) == (0, True), said
    places = {len(proof) * number // 200 for number in range(200)}
    assert len(places) == 200
    for place in places:
        changed = bytearray(proof)
        changed[place] ^= 1
        with contextlib.suppress(KeyError, TypeError, ValueError):
            assert check_proof.root_in(changed.decode())[0] != root
    assert check(changed, root, tmp_path)[0] == 1
    assert check(proof, root[::-1], tmp_path) == (1, f"not proven: the root would be {root}\n")
    refused = (1, 'not proven: "its fields aren\'t those of a proof"\n')
    others = {"index": False, "accounts": [], "seals": {}, "entry": [], "another": 1}
    for other in ({}, [], *(json.loads(proof) | {name: value} for name, value in others.items())):
        assert check(f"{check_proof.as_json(other)}\n", root, tmp_path) == refused
    nobody = json.loads(proof) | {"entry": {"account_id": 1, "account_version": 1}, "version": 1, "seals": ""}
    assert check(check_proof.as_json(nobody) + "\n", root, tmp_path)[1].startswith("not proven: ")
    assert check(b"[" * 9_000, root, tmp_path)[0] == 1


def swap(ledger: Reconciled) -> None:
    versions = {name: ledger.entry(name, "bob")["account_version"] for name in ("t-6", "t-7")}
    ledger.change_entry("t-6", "bob", account_version=versions["t-7"])
    ledger.change_entry("t-7", "bob", account_version=versions["t-6"])


BROKEN: dict[str, tuple[Callable[[Reconciled], Any], str]] = {
    "an entry changed": (lambda ledger: ledger.change_entry("t-7", "bob", amount=Decimal(121)), "t-7"),
    "an entry removed": (lambda ledger: ledger.delete_entry("t-7", "bob"), "t-12"),
    "two entries swapped": (swap, "t-12"),
    "an entry of another account copied here": (
        lambda ledger: ledger.put(ledger.tables.journal, ledger.entry("t-4") | {"account_id": "bob"}),
        "t-12",
    ),
    "an entry without its version": (lambda ledger: ledger.change_entry("t-7", "bob", account_version=None), "t-12"),
}


@pytest.mark.parametrize("damage", BROKEN)
def test_a_proof_is_refused_after_damage(ledger: Reconciled, damage: str) -> None:
    plant, transaction_id = BROKEN[damage]
    plant(ledger)
    with pytest.raises(Failure, match="the account's "):
        prove(ledger, transaction_id, "bob")


def test_an_entry_of_a_pool_is_proven_by_its_shard(ledger: Reconciled) -> None:
    ledger.post(opening("fees", shards=4), payment("fee", 7, "fees"))
    ledger.run(ledger.quiet_night())
    [shard] = [name for name in ledger.by_account(ledger.tables.accounts) if name.endswith(":fees")]
    entry = json.loads(prove(ledger, "fee", shard))["entry"]
    assert (entry["account_id"], entry["amount"], entry["shards"]) == (shard, "7", {"fees": int(shard.split(":")[2])})
    with pytest.raises(Failure, match="for a pool, name its shard"):
        prove(ledger, "fee", "fees")


def test_an_account_that_was_opened_after_the_run_has_no_proof(ledger: Reconciled) -> None:
    ledger.post(opening("new", transaction_id="open-new"))
    with pytest.raises(Failure, match="no account 'new': it was opened later, was skipped, or wasn't sound"):
        prove(ledger, "open-new", "new")


def test_a_root_follows_from_the_accounts_alone_in_any_pages(ledger: Reconciled, night: int) -> None:
    """By docs/seals.md. A page has one checkpoint, and an invocation has time for two steps at most."""
    ledger.index.limits = {"checkpoints": 1}
    ledger.query_seconds = 100
    assert ledger.run_until_done(night).count("Continued") >= len(ledger.checkpoints)
    leaves = {
        hash_of(name): hash_of_values(name, int(item["version"]), HashTree(int(item["version"]), item["peaks"]).top)
        for name, item in ledger.checkpoints.items()
    }
    ranges = list[str]()
    for first in CHARACTERS:
        of_range = [leaves[name] for name in sorted(leaves) if name[0] == first]
        ranges.append(hash_of_values(len(of_range), HashTree().with_leaves(of_range).top))
    top = HashTree().with_leaves(ranges).top
    report = ledger.report(night)
    assert (report["root"], report["root_before"]) == (hash_of_values(event(night)["scheduled_time"], top), "confirmed")


# --- what an administrator may do -------------------------------------------------------------------------


def describe(entries: list[Item]) -> None:
    """The rules don't look at it."""
    entries[1]["request"]["description"] = "for nothing"


def and_its_checkpoint(ledger: Reconciled) -> None:
    make_anew(ledger, "bob", describe, with_checkpoint=True)


def without_its_checkpoint(ledger: Reconciled) -> None:
    make_anew(ledger, "bob", describe)
    ledger.delete_checkpoint("bob")


def without_its_last_entry(ledger: Reconciled) -> None:
    """The account as it was before: its last entry was rejected or opened nothing."""
    before = ledger.entry("t-11", "bob")
    ledger.delete_entry("t-12", "bob")
    fields = {name: before[name] for name in ("posted_at", "seal")}
    ledger.change_account("bob", version=before["account_version"], balance=before["balance_after"], **fields)


def without_the_account(ledger: Reconciled) -> None:
    ledger.delete(ledger.tables.accounts, "bob")


DAMAGE: dict[str, tuple[Callable[[Reconciled], None], str]] = {
    "a chain made anew": (lambda ledger: make_anew(ledger, "bob", describe), "bob: wrong checkpoint"),
    "a chain made anew, and its checkpoint": (and_its_checkpoint, "table Checkpoints: wrong root"),
    "a chain made anew without its checkpoint": (without_its_checkpoint, "table Checkpoints: wrong root"),
    "the newest entry removed, and the account set back": (without_its_last_entry, "bob: wrong checkpoint"),
    "an account removed": (without_the_account, "table Checkpoints: missing accounts"),
    "peaks alone": (
        lambda ledger: ledger.change_checkpoint("bob", peaks=["a", "b", "c"]),
        "table Checkpoints: wrong root",
    ),
}


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("posted", [[], [payment("n-1", 1, "bob")]], ids=["quiet", "new entries"])
def test_what_no_seal_shows_the_next_night_finds_and_no_proof_is_made(
    ledger: Reconciled, night: int, damage: str, posted: list[Any]
) -> None:
    plant, expected = DAMAGE[damage]
    plant(ledger)
    if "missing accounts" not in expected:
        with pytest.raises(Failure):
            prove(ledger, "t-12", "bob")
    ledger.post(*posted)
    report = ledger.run(night)
    assert expected in mismatches(report).split("; ")
    if "wrong root" in expected:
        [said] = [each for each in report["first_mismatches"] if "wrong root" in each]
        of_bob = "no account" if "without" in damage else "bob"
        assert said.endswith(f"; other ranges: {hash_of('bob')[0]!r} has {of_bob}"), said


@pytest.mark.parametrize("changes", [{"root": None}, {"scheduled_time": 4}, {"ranges": "text"}], ids=str)
def test_a_record_of_the_last_root_that_can_not_be_read_ends_no_run(
    ledger: Reconciled, night: int, changes: dict[str, Any]
) -> None:
    ledger.change(ledger.locks_table, {"lock_key": RECORD}, **changes)
    with pytest.raises(Failure, match="the record of the last root can't be read"):
        prove(ledger, "t-12", "bob")
    report = ledger.run(night)
    assert (report["root_before"], mismatches(report)) == ("changed", "table Checkpoints: wrong root")
    assert report["first_mismatches"][0].endswith(", the record of the last one can't be read")
    assert ledger.run(night + 1)["root_before"] == "confirmed"


def test_no_proof_is_made_by_a_checkpoint_without_a_version(ledger: Reconciled) -> None:
    ledger.change_checkpoint("bob", version=None)
    with pytest.raises(Failure, match="the table Checkpoints isn't as"):
        prove(ledger, "t-12", "bob")


# --- roots in a bucket ------------------------------------------------------------------------------------


BUCKET = "roots-of-the-ledger"


@pytest.fixture
def published(ledger: Reconciled, night: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """S3, by moto, after a night that has put its root into a bucket with Object Lock."""
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    with mock_aws():
        client = boto3.client("s3")
        client.create_bucket(Bucket=BUCKET, ObjectLockEnabledForBucket=True)
        ledger.published, ledger._process = PublishedRoots.of(BUCKET), None
        assert ledger.run(night)["root_before"] == "confirmed"
        yield client


def key_of_night(night: int) -> str:
    return f"roots/2026-03-{night + 1:02}T020000Z.json"


def put(client: Any, night: int, root: Root) -> None:
    client.put_object(Bucket=BUCKET, Key=key_of_night(night), Body=json.dumps(root._asdict()).encode())


def test_each_night_puts_its_root_and_a_proof_is_checked_by_the_object(
    ledger: Reconciled, night: int, published: Any, tmp_path: Path
) -> None:
    calls = list[Any]()
    ledger.published.client.meta.events.register("before-call.s3", lambda model, **_: calls.append(model.name))
    report = ledger.run(night + 1)
    assert (report["root_before"], mismatches(report)) == ("confirmed", "")
    assert len(calls) == 5, calls
    kept = published.list_objects_v2(Bucket=BUCKET)["Contents"]
    assert [each["Key"] for each in kept] == [key_of_night(night), key_of_night(night + 1)]
    path = tmp_path / "root.json"
    path.write_bytes(published.get_object(Bucket=BUCKET, Key=key_of_night(night + 1))["Body"].read())
    assert json.loads(path.read_text())["root"] == report["root"]
    proof = prove(ledger, "t-7", "bob")
    assert check(proof, str(path), tmp_path) == check(proof, report["root"], tmp_path)
    assert check(proof, str(path), tmp_path)[0] == 0


def and_its_root(ledger: Reconciled) -> Root:
    """All that an administrator of the tables can make anew: the chain, its checkpoint, and the newest root."""
    and_its_checkpoint(ledger)
    return publish_anew(ledger)


@pytest.mark.parametrize("more", ["nothing", "a new version", "a deletion and a new object", "no record"])
def test_a_root_that_was_made_anew_is_found_by_the_oldest_version_of_its_object(
    ledger: Reconciled, night: int, published: Any, more: str
) -> None:
    made = and_its_root(ledger)
    if more == "no record":
        ledger.client.delete_item(TableName=ledger.locks_table, Key={"lock_key": {"S": RECORD}})
    if more == "a deletion and a new object":
        published.delete_object(Bucket=BUCKET, Key=key_of_night(night))
    if more.startswith("a "):
        put(published, night, made)
    report = ledger.run(night + 1)
    assert (report["root_before"], mismatches(report)) == ("changed", "table Checkpoints: wrong root")
    assert f"; other ranges: {hash_of('bob')[0]!r} has bob" in report["first_mismatches"][0]


def test_without_a_bucket_a_root_that_was_made_anew_is_confirmed(ledger: Reconciled, night: int) -> None:
    """Only who kept it elsewhere sees it: what the bucket is for."""
    ledger.run(night)
    and_its_root(ledger)
    assert ledger.run(night + 1)["root_before"] == "confirmed"


@pytest.mark.parametrize("body", [None, b"{}", b"no JSON", b"[" * 20_000], ids=range(4))
def test_an_object_that_is_there_before_the_run_is_reported_and_stays(
    ledger: Reconciled, night: int, published: Any, body: bytes | None
) -> None:
    kept = {"Bucket": BUCKET, "Key": key_of_night(night + 1)}
    other = json.dumps(Root("2026-03-01T02:00:00+00:00", "another")._asdict()).encode()
    published.put_object(**kept, Body=other if body is None else body)
    report = ledger.run(night + 1)
    assert report["root_before"] == "changed"
    [of_last, of_this] = report["first_mismatches"]
    assert "wrong root: it is" in of_last
    assert of_this.endswith(f"the bucket has {'unreadable' if body else 'another'} for this run since before")
    assert len(published.list_object_versions(Bucket=BUCKET, Prefix=kept["Key"])["Versions"]) == 1


@pytest.mark.parametrize("name", ["scheduled_time", "root"])
def test_a_root_of_half_a_megabyte_ends_no_run(ledger: Reconciled, night: int, published: Any, name: str) -> None:
    """A text of its object would be quoted in the report, of which DynamoDB takes 400 KB."""
    root = Root("2026-03-01T02:00:00+00:00", "another")._replace(**{name: "a" * 500_000})
    put(published, night + 1, root)
    report = ledger.run(night + 1)
    assert (report["root_before"], mismatches(report)) == ("changed", "table Checkpoints: wrong root")


def test_a_run_that_was_killed_after_it_put_its_root_puts_it_once(
    ledger: Reconciled, night: int, published: Any
) -> None:
    ledger.calls.clear()
    ledger.run(night + 1)
    assert ledger.calls[-1].startswith("TransactWriteItems")
    ledger.kill_at = len(ledger.calls)
    ledger.calls.clear()
    puts = list[Any]()
    ledger.published.client.meta.events.register("before-call.s3.PutObject", lambda **call: puts.append(call))
    assert ledger.run_until_done(night + 2) == ["Killed", "Done"]
    assert len(puts) == 2
    report = ledger.report(night + 2)
    assert (report["root_before"], mismatches(report)) == ("confirmed", "")
    assert len(published.list_object_versions(Bucket=BUCKET)["Versions"]) == 3


def test_roots_are_confirmed_from_night_to_night_and_a_run_that_is_not_finished_leaves_none(
    ledger: Reconciled, night: int
) -> None:
    assert ledger.report(night - 1)["root_before"] == "unknown"
    ledger.post(payment("n-1", 1, "bob"))
    reports = [ledger.run(night + number) for number in range(2)]
    assert [report["root_before"] for report in reports] == ["confirmed"] * 2
    assert len({report["root"] for report in reports}) == 2, "the time is part of it"
