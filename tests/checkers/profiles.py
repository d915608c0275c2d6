"""Invariants of profiles, checked against the messages that were sent. No outcome that the product reports is used."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from conditional_writes.items import Item, from_dynamodb, same
from conditional_writes.upserts import REMOVED, MapEntry
from ledger.core.profile_messages import ProfileUpdate, decode
from ledger.profile_writer import map_entries
from tests.checkers.poison import is_invalid
from tools.local_aws.queues import DeadLetter
from tools.local_aws.server import Endpoint
from tools.local_aws.tables import scan

type Profiles = dict[str, Item]
"""The maps of each account, without the clocks and the library's other attributes."""

type Latest = dict[tuple[str, ...], MapEntry]
"""The map entry that must win, by account and path."""

NO_TIME = datetime(1, 1, 1, tzinfo=UTC)
"""The time of a message without `as_of`. All messages about one of its entries must agree, since none is the later."""


def read_profiles(endpoint: Endpoint, table: str) -> Profiles:
    items = [from_dynamodb(item) for item in scan(endpoint, table)]
    return {item["account_id"]: {name: item[name] for name in item if not _is_mark(name)} for item in items}


def _is_mark(attribute: str) -> bool:
    return attribute in {"account_id", "cw:write_id", "cw:item_bytes"} or attribute.startswith("cw:as_of [")


def latest(updates: Iterable[tuple[ProfileUpdate, datetime]]) -> Latest:
    """The winning entries of these messages, each with the time at which it was sent."""
    winners: Latest = {}
    for update, sent_at in updates:
        for entry in map_entries(update, sent_at):
            path = (update.account_id, *entry.path)
            if path not in winners or _time(winners[path]) <= _time(entry):
                winners[path] = entry
    return winners


def _time(entry: MapEntry) -> datetime:
    assert entry.as_of is not None
    return entry.as_of


def upserted(bodies: Iterable[str], letters: Iterable[DeadLetter]) -> Latest:
    """The winning entries of the valid messages that aren't in the dead-letter queue."""
    dead = {letter.body for letter in letters}
    return latest((decode(body), NO_TIME) for body in bodies if body not in dead and not is_invalid(decode, body))


CLAIMS = (
    "every profile entry is the latest sent",
    "no entry of another writer is lost",
    "every message is in its profile, or in the dead-letter queue with a reason",
)


def violations(profiles: Profiles, winners: Latest) -> Iterator[str]:
    """Yields a sentence for each entry that differs from its winner, and for each entry without a write."""
    for (account_id, *path), entry in winners.items():
        found = _follow(profiles.get(account_id, {}), path)
        where = f"{account_id}: {'.'.join(path)}"
        if entry.value is REMOVED and found is not REMOVED:
            yield f"{where} is {found!r}, but was removed as of {entry.as_of}"
        elif entry.value is not REMOVED and found is REMOVED:
            yield f"{where} is lost, expected {entry.value!r} as of {entry.as_of}"
        elif entry.value is not REMOVED and not same(found, entry.value):
            yield f"{where} is {found!r}, expected {entry.value!r} as of {entry.as_of}"
    for account_id, profile in profiles.items():
        yield from _unexpected((account_id,), profile, winners)


def _follow(item: Any, path: Sequence[str]) -> Any:
    """The value at the path, or REMOVED if there is none."""
    for name in path:
        if not isinstance(item, dict) or name not in item:
            return REMOVED
        item = item[name]
    return item


def _unexpected(path: tuple[str, ...], item: Item, winners: Latest) -> Iterator[str]:
    maps = {entry[:length] for entry in winners for length in range(1, len(entry))}
    for name, value in item.items():
        inner = (*path, name)
        if inner in maps:
            yield from _unexpected(inner, value, winners)
        elif inner not in winners:
            yield f"{path[0]}: {'.'.join(inner[1:])} is {value!r}, but no message wrote it"


def vanished(bodies: Iterable[str], letters: Sequence[DeadLetter]) -> Iterator[str]:
    """Yields a sentence for each invalid message that isn't dead-lettered, and each dead letter that isn't poison."""
    dead = {letter.body for letter in letters if letter.reason}
    for body in bodies:
        if body not in dead and is_invalid(decode, body):
            yield f"an invalid message vanished: {body}"
    for letter in letters:
        if not is_poison(letter):
            yield f"a dead letter isn't poison, or has no reason: {letter}"


def is_poison(letter: DeadLetter) -> bool:
    """Whether the dead letter has a reason, and no delivery could have upserted it."""
    reason = letter.reason or ""
    clashes = any(words in reason for words in ("expected a map", "expected an entry", "an item holds 400 kB"))
    return bool(reason) and (clashes or is_invalid(decode, letter.body))
