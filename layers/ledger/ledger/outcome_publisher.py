"""Publishes the outcomes in journal entries on the bus: each at least once.

An entry commits with its effect, and the table's stream carries it here. An entry that can never be published goes to
the dead-letter queue, and holds up no other; so does an entry that was changed. After any other failure an entry comes
again from the stream, for hours: docs/decisions/outcomes.md.
"""

import json
import logging
from collections.abc import Sequence
from decimal import Decimal
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from msgspec import Struct

from conditional_writes import Deadline, Item
from conditional_writes.core.client import SLOWEST_CALL_SECONDS
from ledger.core.outcome_events import NotAJournalEntry, OutcomeEvent, outcome_event
from ledger.core.republish_requests import RepublishAccount, republish_event
from ledger.tables import LARGEST
from workers.dead_letters import reason_attributes
from workers.event_bus import EventBus
from workers.failed_entries import until_deadline
from workers.queue_messages import printable_reason
from workers.sending import Message, send
from workers.stream_records import REMOVE, StreamRecord

if TYPE_CHECKING:
    from types_boto3_sqs import SQSClient

logger = logging.getLogger(__name__)


class UnpublishedCode(StrEnum):
    """Why an entry can never be published: the attribute `reason_code` of its dead letter."""

    NOT_AN_ENTRY = "NOT_AN_ENTRY"
    """The item is no journal entry: another program wrote or damaged it, or a later release of Teller wrote it."""
    EVENT_REFUSED = "EVENT_REFUSED"
    """EventBridge doesn't take the event."""
    BROKEN_SEAL = "BROKEN_SEAL"
    """The entry that is to be published again isn't as it was sealed, or the one before it isn't."""
    ENTRY_CHANGED = "ENTRY_CHANGED"
    """A journal entry was overwritten. Teller never does that."""
    ENTRY_REMOVED = "ENTRY_REMOVED"
    """A journal entry was deleted. Teller never does that."""


LARGEST_LETTER = 250_000
"""In bytes: SQS takes 262,144 with the attributes. The images of larger entries are left out."""


class _Unpublishable(NamedTuple):
    reason_code: UnpublishedCode
    reason: str


_UNSEALED = _Unpublishable(
    UnpublishedCode.BROKEN_SEAL, "its seal doesn't follow from it and the entry before: one of them was changed"
)


class ChangedEntry(NamedTuple):
    """A journal entry that was overwritten or deleted. `body` is that of its dead letter: key and images, as JSON."""

    ids: dict[str, str]
    body: str
    why: _Unpublishable

    @classmethod
    def of(cls, record: StreamRecord) -> Self:
        """From a record of a modification or a removal."""
        key, before, after = record.key, record.old_image, record.new_image
        if record.change == REMOVE:
            why = _Unpublishable(UnpublishedCode.ENTRY_REMOVED, "the journal entry was deleted")
        else:
            names = (before or {}).keys() | (after or {}).keys()
            different = sorted(name for name in names if (before or {}).get(name) != (after or {}).get(name))
            reason = f"the journal entry was overwritten: {', '.join(different)}"[:300]
            why = _Unpublishable(UnpublishedCode.ENTRY_CHANGED, reason)
        body = json.dumps({"key": key, "old_image": before, "new_image": after})
        if len(body) > LARGEST_LETTER:
            body = json.dumps({"key": key})
        ids = {name: str((key.get(name) or {}).get("S")) for name in ("account_id", "transaction_id")}
        return cls(ids, body, why)


class UnsealedEntry(NamedTuple):
    """An item of the journal whose seal doesn't follow from it and the entry before."""

    item: Item


class Published(NamedTuple):
    """The results of entries, in their order: None, or why an entry must be published again.

    Of those with None, `dead_lettered` went to the dead-letter queue.
    """

    failures: Sequence[str | None]
    dead_lettered: int

    @property
    def number(self) -> int:
        """The number of events that are on the bus."""
        return self.failures.count(None) - self.dead_lettered


class OutcomePublisher(NamedTuple):
    """The bus, and the queue of entries that can't be published."""

    bus: EventBus
    queue_client: "SQSClient"
    dead_letter_queue_url: str

    def publish(self, items: Sequence[Item | ChangedEntry | UnsealedEntry], deadline: Deadline) -> Published:
        """Publishes the entries in items of the journal, until the deadline. Changed and unsealed ones are dead.

        If the function dies, or a request gets no answer, an event may have been published: it is published again.
        An entry's dead letter waits for the entries before it: a stream brings all entries again from the first that
        failed on, and an outage of EventBridge would send the dead letter again and again. The log has a changed entry
        at once.
        """
        entries = [_Entry.of(item) for item in items]
        self._put_on_bus([entry for entry in entries if entry.event], deadline.earlier_by(SLOWEST_CALL_SECONDS))
        _hold_back(entries)
        dead = [(entry, why) for entry in entries if (why := entry.unpublishable) and not entry.failure]
        self._dead_letter(dead, deadline)
        return Published([entry.failure for entry in entries], sum(entry.failure is None for entry, _ in dead))

    def _put_on_bus(self, entries: Sequence["_Entry"], deadline: Deadline) -> None:
        found = self.bus.publish([entry.event for entry in entries if entry.event], deadline)
        for entry, failure in zip(entries, found, strict=True):
            if failure and failure.is_final:
                entry.unpublishable = _Unpublishable(UnpublishedCode.EVENT_REFUSED, failure.reason)
            elif failure:
                entry.failure = failure.reason

    def _dead_letter(self, dead: Sequence[tuple["_Entry", _Unpublishable]], deadline: Deadline) -> None:
        letters = [_letter(entry.item, why) for entry, why in dead]
        refusals = until_deadline(
            lambda left: send(self.queue_client, self.dead_letter_queue_url, left, deadline), letters, deadline
        )
        for (entry, why), refusal in zip(dead, refusals, strict=True):
            if refusal:
                entry.failure = f"the dead-letter queue didn't take it: {refusal}; {why.reason_code}: {why.reason}"
            else:
                logger.warning("dead-lettered: %s: %s: %s", _ids(entry.item), *why)


class _Entry(Struct):
    """An item of the journal on its way to the bus: its event, or why there can never be one.

    With a `failure` it comes again.
    """

    item: Item | ChangedEntry
    event: OutcomeEvent | None = None
    unpublishable: _Unpublishable | None = None
    failure: str | None = None

    @classmethod
    def of(cls, item: Item | ChangedEntry | UnsealedEntry) -> Self:
        if isinstance(item, ChangedEntry):
            logger.error("a journal entry was changed: %s: %s: %s", item.ids, *item.why)
            return cls(item, unpublishable=item.why)
        entry = item.item if isinstance(item, UnsealedEntry) else item
        try:
            event = outcome_event(entry)
        except NotAJournalEntry as error:
            return cls(entry, unpublishable=_Unpublishable(UnpublishedCode.NOT_AN_ENTRY, str(error)))
        return cls(entry, unpublishable=_UNSEALED) if isinstance(item, UnsealedEntry) else cls(entry, event)


def _hold_back(entries: Sequence[_Entry]) -> None:
    """Dead letters behind the first entry that failed come again with it."""
    first_failure: str | None = None
    for entry in entries:
        first_failure = first_failure or entry.failure
        if entry.unpublishable and first_failure:
            entry.failure = f"an entry before it isn't published: {first_failure}"


def _letter(item: Item | ChangedEntry, why: _Unpublishable) -> Message:
    """Its body is the event that publishes the entry again, once it is mended; else the entry's key.

    That of a changed entry has its images.
    """
    attributes = reason_attributes(why.reason_code, printable_reason(why.reason))
    if isinstance(item, ChangedEntry):
        return Message(item.body, attributes)
    ids = _ids(item)
    body: dict[str, Any] = ids
    match item.get("account_version"):
        case Decimal() as version if 1 <= version < LARGEST and version % 1 == 0:
            number = int(version)
            again = RepublishAccount(account_id=ids["account_id"], from_version=number, to_version=number)
            body = republish_event(again)
    return Message(json.dumps(body), attributes)


def _ids(item: Item | ChangedEntry) -> dict[str, str]:
    if isinstance(item, ChangedEntry):
        return item.ids
    return {name: str(item.get(name)) for name in ("account_id", "transaction_id")}
