"""The replay of entries on shards: on those that a worker can have chosen, and on others."""

from collections.abc import Mapping
from datetime import datetime

import pytest
from msgspec.structs import replace

from ledger.core.pools import opened_shard, shard_id
from ledger.core.replay import Replay
from ledger.core.transaction_types.base import TransactionMessage
from tests.checkers.books import Books
from tests.checkers.small_books import post_messages
from tests.support.replaying import Alone, Ledger
from tests.support.samples import ALICE, NOW, opening, transfer

OPENINGS = [
    opening(-9, account_id="payer"),
    opening(account_id="two", shards=2),
    opening(account_id="four", shards=4),
]
BOOKS = post_messages(Books({}, {}, {}), OPENINGS, posted_at=NOW)
POOLS = {name: account.pool for name, account in BOOKS.accounts.items() if account.pool}


def posted(message: TransactionMessage, numbers: Mapping[str, int]) -> Ledger:
    """The ledger after the message was posted on these shards."""
    shards = [opened_shard(shard_id(name, number), BOOKS.accounts[name]) for name, number in numbers.items()]
    before = Books(BOOKS.accounts | {shard.account_id: shard for shard in shards}, BOOKS.journal, {})
    ledger = Ledger.with_books(post_messages(before, [message.on_shards(numbers)], posted_at=NOW))
    entries = {
        entry_id: replace(entry, request=message.canonical_payload(), shards=numbers)
        for entry_id, entry in ledger.entries.items()
        if entry.transaction_id == message.transaction_id
    }
    return ledger._replace(entries=ledger.entries | entries)


def found(ledger: Ledger) -> set[tuple[str, str]]:
    """The mismatches, but for those of seals, each without its version and its transaction."""
    mismatches = [each for each in ledger.mismatches() if each.what != "broken seal"]
    return {(each.what, each.sentence.partition(", t-1: ")[2] or each.sentence) for each in mismatches}


INTO = transfer(1, from_account_id="payer", to_account_id="two")
BETWEEN = transfer(1, from_account_id="four", to_account_id="two")


@pytest.mark.parametrize("message", [INTO, BETWEEN], ids=["from an account", "from a pool"])
def test_the_shards_of_any_worker_are_sound(message: TransactionMessage) -> None:
    for first_shard in range(4):
        assert found(posted(message, message.shards_in(POOLS, first_shard))) == set()


@pytest.mark.parametrize(
    ("message", "numbers", "shown"),
    [
        (INTO, {"two": 5}, "5 of two"),
        (BETWEEN, {"four": 1, "two": 0}, "1 of four and 0 of two"),  # by its id the home's is 2
        (INTO, {"two": 1, "payer": 0}, "1 of two and 0 of payer"),
    ],
)
def test_a_shard_that_no_worker_can_have_chosen_is_found(
    message: TransactionMessage, numbers: Mapping[str, int], shown: str
) -> None:
    sentences = {sentence for what, sentence in found(posted(message, numbers)) if what == "wrong shard"}
    assert sentences == {f"it is on shard {shown}, which no worker can have chosen"}


@pytest.mark.parametrize(("numbers", "shown"), [({}, "none"), ({"two": 1, "four": 1}, "1 of two and 1 of four")])
def test_sides_that_name_different_shards_are_unlike(numbers: Mapping[str, int], shown: str) -> None:
    ledger = posted(INTO, {"two": 1})
    [other] = [entry for entry in ledger.entries.values() if entry.account_id == shard_id("two", 1)]
    damaged = ledger._replace(entries=ledger.entries | {other.entry_id: replace(other, shards=numbers)})
    assert ("unlike sides", f"here shards 1 of two, on teller:shard:1:two {shown}") in found(damaged)


def test_a_shard_of_an_account_that_is_no_pool_has_no_beginning() -> None:
    assert ("changed account", "the journal has no entry") in found(posted(INTO, {"two": 1, "payer": 0}))
    unopened = replace(ALICE, account_id=shard_id("nobody", 1), version=0)
    [mismatch] = Replay(unopened).mismatches([], 0, Alone(), datetime.fromisoformat(NOW))
    assert mismatch.sentence == "the journal has no entry"
