"""`teller prove`: the proof of a journal entry, which tools/check_proof.py checks against the root of a night."""

import itertools
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from conditional_writes import Deadline, Item
from ledger.checkpoints import Root, Roots, leaf_of, range_hash
from ledger.core.journal import EntryId, canonical_form, entry_from_item
from ledger.core.totals import CHARACTERS, HashTree, hash_of, node
from ledger.table_reading import JournalVersions
from ledger.tables import LedgerTables
from tools import check_proof
from tools.teller.accounts import AccountId
from tools.teller.failures import Failure, NotFound
from tools.teller.operator import Operator, subcommand
from tools.teller.progress import at_work
from tools.teller.transaction import HomeOption, TransactionId

OutOption = Annotated[Path, typer.Option("--out", help="The file.", metavar="FILE")]

READING_SECONDS = 3600
MOST_PAGES = 1_000_000
"""Of a journal, of 1 MB each: all that there are."""
AGAIN = "`teller jobs run reconcile_accounts` makes a new root"


class Night(NamedTuple):
    """The newest root, and the hashes of the accounts of one range, whose place among all is `range_place`.

    `place` is the account's in its range, from 0 on, and `version` its version of that night.
    """

    root: Root
    range_place: int
    accounts: Sequence[str]
    place: int
    version: int


def add_to(app: typer.Typer) -> None:
    subcommand(app)(prove)


def prove(
    operator: Operator,
    account_id: AccountId,
    transaction_id: TransactionId,
    home: HomeOption = None,
    out: OutOption = Path("proof.json"),
) -> None:
    """Write the proof that an entry was in the journal when reconcile_accounts ran last.

    An id is unique on the account that the message names first, which pays in a transfer. For the side of another
    account, name that account by --home. A keeper of that run's root checks the proof by
    tools/check_proof.py, with nothing else. The account's whole journal is read. Exit status 1:
    there is no such entry, it is newer than the run, or what the run has seen isn't there any more.
    """
    with at_work(operator, f"Proving {transaction_id} on {account_id}"):
        night, proof = proof_of(operator, EntryId.on(account_id, home or account_id, transaction_id))
    out.write_text(proof, encoding="utf-8")
    size = len(proof.encode())
    operator.show(
        {
            "scheduled_time": night.root.scheduled_time,
            "root": night.root.root,
            "file": str(out),
            "bytes": size,
        },
        f"{out} has the proof of {transaction_id} on {account_id}, of {size:,} bytes, by this root:",
        night.root.root,
        f"It is that of the run for {night.root.scheduled_time}.",
    )


def proof_of(operator: Operator, entry_id: EntryId) -> tuple[Night, str]:
    """The newest night, and the entry's proof by its root. Raises NotFound and Failure."""
    night = _night(operator, entry_id.account_id)
    items = list(_items(operator, entry_id.account_id))
    found = next((item for item in items if item["transaction_id"] == entry_id.transaction_id), None)
    if found is None:
        raise NotFound(
            f"the account {entry_id.account_id!r} has no entry of the transaction. If the message names another "
            "account first, name that one by --home; for a pool, name its shard"
        )
    try:
        items.sort(key=lambda item: item["account_version"])
        entry = entry_from_item(found)
        number, form = entry.outcome.account_version, canonical_form(entry)
        if number > night.version:
            raise Failure(f"the entry is newer than the run for {night.root.scheduled_time}. {AGAIN}")
        seals = ["", *(item["seal"] for item in items[: night.version])]
        proof = {
            "entry": json.loads(form),
            "seal_before": seals[number - 1],
            "seals": siblings(seals[1:], number - 1),
            "version": night.version,
            "accounts": siblings(night.accounts, night.place),
            "index": night.place,
            "size": len(night.accounts),
            "ranges": siblings(night.root.ranges, night.range_place),
            "scheduled_time": night.root.scheduled_time,
        }
        text = check_proof.as_json(proof) + "\n"
        root, _ = check_proof.root_in(text)
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise Failure(f"the account's journal can't be read: {type(error).__name__}: {error}") from None
    if root != night.root.root:
        raise Failure(
            f"the account's entries up to version {night.version:,} aren't those of the run for "
            f"{night.root.scheduled_time}: one was changed, removed or added since. `teller jobs run "
            "reconcile_accounts --whole` finds which"
        )
    return night, text


def siblings(leaves: Sequence[str], index: int) -> str:
    """The hashes beside the leaf's way up to the top, from below."""
    found: list[str] = []
    while len(leaves) > 1:
        found += leaves[index ^ 1 : (index ^ 1) + 1]
        pairs = itertools.batched(leaves, 2, strict=False)
        leaves, index = [node(*pair) if len(pair) == 2 else pair[0] for pair in pairs], index // 2
    return "".join(found)


def _night(operator: Operator, account_id: str) -> Night:
    deployment = operator.deployment
    roots = Roots(deployment.client("dynamodb"), deployment["CheckpointsTableName"], deployment["LocksTableName"])
    root = roots.newest()
    if root is None or root.is_pending:
        raise Failure(f"there is no root: no run of reconcile_accounts is finished, or one is at work. {AGAIN}")
    if not root.scheduled_time:
        raise Failure(f"the record of the last root can't be read, which the next run reports. {AGAIN}")
    account_hash = hash_of(account_id)
    accounts, place, checkpoint = list[str](), None, dict[str, Any]()
    for item in roots.of_range(account_hash[0]):
        if item["account_hash"] == account_hash:
            place, checkpoint = len(accounts), item
        accounts.append(leaf_of(item))
    range_place = CHARACTERS.index(account_hash[0])
    is_published = root.ranges[range_place : range_place + 1] == [range_hash(HashTree().with_leaves(accounts))]
    if not is_published or Root.of(root.scheduled_time, root.ranges) != root:
        raise Failure(
            f"the table Checkpoints isn't as the run for {root.scheduled_time} left it: a run is at work, or somebody "
            f"has changed it, which the next run reports. {AGAIN}"
        )
    if place is None:
        raise NotFound(
            f"the run for {root.scheduled_time} has no account {account_id!r}: it was opened later, was skipped, or "
            f"wasn't sound. {AGAIN}"
        )
    return Night(root, range_place, accounts, place, int(checkpoint["version"]))


def _items(operator: Operator, account_id: str) -> Iterator[Item]:
    deployment = operator.deployment
    tables = LedgerTables(deployment["AccountsTableName"], deployment["JournalTableName"])
    journal, until = JournalVersions(deployment.client("dynamodb"), tables), Deadline.after(READING_SECONDS)
    for page in journal.table_pages(account_id, until, MOST_PAGES):
        yield from page.items
