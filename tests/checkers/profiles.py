"""Invariants of profiles, checked against the messages that were sent. No outcome that the product reports is used."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from conditional_writes.core.items import Item, from_dynamodb
from conditional_writes.upserts import REMOVED
from ledger.core.profile_messages import EraseProfile, ProfileMessage, decode
from tests.checkers.poison import is_invalid
from tests.checkers.profile_oracle import EVERYTHING, Path, Write, differences, is_mark, standing
from tools.local_aws.queues import DeadLetter
from tools.local_aws.server import Endpoint
from tools.local_aws.tables import scan

type Profiles = dict[str, Item]
"""The maps of each account, without the clocks and the library's other attributes."""

type Latest = dict[str, dict[Path, Any]]
"""The values that must be in the profiles, by account and path."""

NO_TIME = datetime(9999, 12, 31, tzinfo=UTC)
"""The time of a message without `as_of`: it was sent later than any erasure says. All messages about one of its entries
must agree, since none is the later."""

FUTURE = timedelta(minutes=5)
"""A message may be as of so much later than it was sent."""


def read_profiles(endpoint: Endpoint, table: str) -> Profiles:
    items = [from_dynamodb(item) for item in scan(endpoint, table)]
    return {item["account_id"]: {name: item[name] for name in item if not is_mark(name)} for item in items}


def writes_of(message: ProfileMessage, sent_at: datetime) -> list[Write]:
    time = message.as_of or sent_at
    if isinstance(message, EraseProfile):
        return [Write(EVERYTHING, REMOVED, time)]
    values = message.entries | dict.fromkeys(message.removed, REMOVED)
    return [Write((*message.path, name), value, time) for name, value in values.items()]


def latest(messages: Iterable[tuple[ProfileMessage, datetime]]) -> Latest:
    """The values that stand after these messages, each with the time at which it was sent."""
    writes: dict[str, list[Write]] = {}
    for message, sent_at in messages:
        writes.setdefault(message.account_id, []).extend(writes_of(message, sent_at))
    return {account_id: standing(of_one) for account_id, of_one in writes.items()}


def upserted(bodies: Iterable[str], letters: Iterable[DeadLetter]) -> Latest:
    """The values that stand after the valid messages that aren't in the dead-letter queue."""
    dead = {letter.body for letter in letters}
    return latest((decode(body), NO_TIME) for body in bodies if body not in dead and not is_refused(body))


CLAIMS = (
    "every profile entry is the latest sent",
    "no entry of another writer is lost",
    "every message is in its profile, or in the dead-letter queue with a reason",
)


def violations(profiles: Profiles, expected: Latest) -> Iterator[str]:
    """Yields a sentence for each value that is missing or wrong, and for each that no message put there."""
    for account_id in expected.keys() | profiles.keys():
        for sentence in differences(expected.get(account_id, {}), profiles.get(account_id, {})):
            yield f"{account_id}: {sentence}"


def vanished(bodies: Iterable[str], letters: Sequence[DeadLetter]) -> Iterator[str]:
    """Yields a sentence for each invalid message that isn't dead-lettered, and each dead letter that isn't poison."""
    dead = {letter.body for letter in letters if letter.reason}
    for body in bodies:
        if body not in dead and is_refused(body):
            yield f"an invalid message vanished: {body}"
    for letter in letters:
        if not is_poison(letter):
            yield f"a dead letter isn't poison, or has no reason: {letter}"


def is_poison(letter: DeadLetter) -> bool:
    """Whether the dead letter has a reason, and no delivery could have upserted it."""
    reason = letter.reason or ""
    return bool(reason) and ("an item holds 400 kB" in reason or is_refused(letter.body))


def is_refused(body: str) -> bool:
    """Whether the message is invalid, or as of a time that is still to come."""
    if is_invalid(decode, body):
        return True
    as_of = decode(body).as_of
    return as_of is not None and as_of > datetime.now(UTC) + FUTURE
