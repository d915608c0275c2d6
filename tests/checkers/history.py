"""The history of messages (sent, delivered, acknowledged, in order) and the invariants between it and the tables.

A message is acknowledged when it is deleted from its queue. If its invocation gave no answer, the message is delivered
again, and its outcome is unknown until then.
"""

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, NamedTuple

from ledger.core.journal import JournalEntry
from ledger.core.reason_codes import InvalidMessage
from ledger.core.transaction_types import decode
from ledger.core.transaction_types.base import TransactionMessage
from tests.checkers import oracle
from tests.checkers.books import Books, journal_of, on_shards
from tools.local_aws.queues import DeadLetter

type Entries = Mapping[tuple[str, str], JournalEntry]
"""Journal entries by account id and transaction id."""


class Sent(NamedTuple):
    """A message that was sent.

    `first_delivered` and `acknowledged` are points in the history's count of events, or None. `deliveries` is the
    queue's count.
    """

    number: str
    body: str
    sent_at: datetime
    deliveries: int = 0
    first_delivered: int | None = None
    acknowledged: int | None = None


class History:
    """The messages by number, and all dead letters with their messages' numbers."""

    def __init__(self) -> None:
        self.messages: dict[str, Sent] = {}
        self.letters: list[tuple[str, DeadLetter]] = []
        self._now = 0

    def sent(self, number: str, body: str, at: datetime) -> None:
        self.messages[number] = Sent(number, body, at)

    def delivered(self, number: str) -> Sent:
        self._now += 1
        message = self.messages[number]
        first = self._now if message.first_delivered is None else message.first_delivered
        return self._change(message, deliveries=message.deliveries + 1, first_delivered=first)

    def acknowledged(self, number: str) -> None:
        self._now += 1
        message = self.messages[number]
        if message.acknowledged is None:
            self._change(message, acknowledged=self._now)

    def _change(self, message: Sent, **changes: Any) -> Sent:
        changed = self.messages[message.number] = message._replace(**changes)
        return changed


CLAIMS = (
    "a journal entry never changes",
    "nothing is posted that wasn't delivered",
    "if a message was acknowledged before another was delivered, it has the lower version",
)


def entries_of(books: Books) -> Entries:
    return {id_of(entry): entry for entry in books.entries}


def id_of(entry: JournalEntry) -> oracle.EntryId:
    return entry.account_id, entry.home_account_id, entry.transaction_id


def flipped(seen: Entries, books: Books) -> Iterator[str]:
    """Yields a sentence for each entry that was seen before, and is now missing or different."""
    now = entries_of(books)
    for (account_id, home, transaction_id), entry in seen.items():
        found = now.get((account_id, home, transaction_id))
        if found is None:
            yield f"{account_id}: {transaction_id} was {entry.outcome}, and is missing"
        elif found != entry:
            yield f"{account_id}: {transaction_id} was {entry}, and is {found}"


def unasked(before: Books, after: Books, delivered: Iterable[str]) -> Iterator[str]:
    """Yields a sentence for each new entry of which none of these delivered bodies has the request."""
    old, requests = entries_of(before), [message.canonical_payload() for message in map(_valid, delivered) if message]
    for key, entry in entries_of(after).items():
        if key not in old and entry.request not in requests:
            yield f"{entry.account_id}: {entry.transaction_id} was posted, but never delivered: {entry.request}"


def out_of_order(messages: Iterable[Sent], books: Books, letters: Collection[tuple[str, DeadLetter]]) -> Iterator[str]:
    """Yields a sentence for each pair of entries whose versions contradict the order of their messages."""
    dead = {number for number, _ in letters}
    started: dict[oracle.EntryId, float] = defaultdict(lambda: math.inf)
    acknowledged: dict[oracle.EntryId, float] = defaultdict(lambda: math.inf)
    now, journal = entries_of(books), journal_of(books)
    for message in messages:
        decoded = _valid(message.body)
        for key in oracle.entry_ids(on_shards(decoded.canonical_payload(), books), journal) if decoded else ():
            assert decoded
            if key not in now or now[key].request != decoded.canonical_payload():
                continue
            if message.first_delivered is not None:
                started[key] = min(started[key], message.first_delivered)
            if message.acknowledged is not None and message.number not in dead:
                acknowledged[key] = min(acknowledged[key], message.acknowledged)
    for account_id, entries in books.journal.items():
        earliest, later = math.inf, ""
        for entry in reversed(entries):
            key = id_of(entry)
            if earliest < started[key] < math.inf:
                yield (
                    f"{account_id}: {later} was acknowledged before {entry.transaction_id} was delivered, but"
                    f" {entry.transaction_id} has the lower version, {entry.outcome.account_version}"
                )
            if acknowledged[key] < earliest:
                earliest, later = acknowledged[key], entry.transaction_id


def _valid(body: str) -> TransactionMessage | None:
    try:
        return decode(body)
    except InvalidMessage:
        return None
