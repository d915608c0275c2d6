"""Writes the updates and erasures of a batch: all of a profile together, and all profiles in parallel."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from msgspec import Struct

from conditional_writes import Deadline, key
from conditional_writes.upserts import REMOVED, ItemTooLarge, MapEntry, NotAMap, Progress, UpsertInRequests, erasure
from ledger.core.profile_messages import EraseProfile, ProfileMessage, check_as_of
from ledger.core.reason_codes import ReasonCode
from ledger.dispositions import disposition_of, is_about_content
from workers.batches import Measurement
from workers.parallel import in_parallel
from workers.queue_messages import Dead, Done, QueueMessage

if TYPE_CHECKING:
    from types_boto3_dynamodb import DynamoDBClient

type QueuedUpdate = QueueMessage[ProfileMessage]

_MISFITS: dict[type[Exception], ReasonCode] = {
    NotAMap: ReasonCode.NOT_A_MAP,
    ItemTooLarge: ReasonCode.ITEM_TOO_LARGE,
}
"""A valid message may still not fit its profile."""

REMOVALS_REMEMBERED = timedelta(days=30)
"""Longer than a message may be on its way: 7 days on the queue, 14 as a dead letter, and 7 on the queue again."""


class ProfileWritten(Struct, frozen=True):
    """The outcome of a message whose entries, or later ones, are in its profile: "superseded" if all are later ones.

    Of an erasure: nothing is in the profile that isn't later; "superseded" if an erasure as late as this one was there.
    """

    label: str
    log_fields: ClassVar[dict[str, object]] = {}


UPSERTED, ERASED, SUPERSEDED = ProfileWritten("upserted"), ProfileWritten("erased"), ProfileWritten("superseded")


class ProfileWriter(NamedTuple):
    """The table of profiles, and the client that writes it."""

    client: "DynamoDBClient"
    table: str

    def write(self, messages: Sequence[QueuedUpdate], deadline: Deadline) -> list[Measurement]:
        """Writes each message, and sets its disposition. Any order and any repetition gives one result.

        One request per profile and 100 entries, and one more for erasures. If a profile fails, its messages come again,
        but not those that were done before, and no other profile's.
        """
        profiles: dict[str, list[QueuedUpdate]] = defaultdict(list)
        for message in messages:
            try:
                check_as_of(message.decoded, message.sent_at)
            except Exception as error:  # noqa: BLE001 (an error of any type is this message's alone)
                message.disposition = disposition_of(error)
            else:
                profiles[message.decoded.account_id].append(message)
        written = in_parallel(lambda of_profile: self._write_profile(of_profile, deadline), list(profiles.values()))
        return [
            Measurement("Upserted", sum(counts.upserted for counts in written)),
            Measurement("Erased", sum(counts.erased for counts in written)),
            Measurement("Superseded", sum(counts.superseded for counts in written)),
            Measurement("Conflicts", sum(counts.conflicts for counts in written)),
        ]

    def _write_profile(self, messages: Sequence[QueuedUpdate], deadline: Deadline) -> "_Counts":
        """Writes all messages together. If one of them can't be written, the unfinished ones are written singly."""
        updates = [_Update(message) for message in messages]
        conflicts = self._write_together(updates, deadline)
        left = [update for update in updates if update.message.disposition is None]
        left.sort(key=lambda update: not update.makes_room)  # for others
        conflicts += sum(self._write_together([update], deadline) for update in left)
        return _Counts(
            sum(each.written for each in updates if not each.is_erasure),
            sum(each.written for each in updates if each.is_erasure),
            sum(each.superseded for each in updates),
            conflicts,
        )

    def _write_together(self, updates: Sequence["_Update"], deadline: Deadline) -> int:
        """The number of conflicts. Sets each message's disposition, unless one of several can't be written."""
        profile = key(self.table, account_id=updates[0].message.decoded.account_id)
        entries = [entry for update in updates for entry in update.pending.values()]
        by_path = _by_path(updates)
        conflicts = 0
        try:
            for progress in UpsertInRequests(
                self.client, profile, entries, forget_after=REMOVALS_REMEMBERED, deadline=deadline
            ):
                conflicts += progress.conflicts
                _note(progress, by_path)
        except tuple(_MISFITS) as misfit:
            if len(updates) == 1:
                updates[0].message.disposition = Dead(_MISFITS[type(misfit)], str(misfit))
        except Exception as error:  # noqa: BLE001 (an error of any type is this profile's alone)
            if len(updates) == 1 or not is_about_content(error):
                disposition = disposition_of(error)
                for update in updates:
                    update.message.disposition = update.message.disposition or disposition
        return conflicts


class _Counts(NamedTuple):
    upserted: int
    erased: int
    superseded: int
    conflicts: int


class _Update:
    """A message, and which of its entries are pending. If none is, the message has its disposition.

    An erasure is a message with one entry, whose path is empty.
    """

    def __init__(self, message: QueuedUpdate) -> None:
        self.message = message
        self.pending = {entry.path: entry for entry in map_entries(message.decoded, message.sent_at)}
        self.written = self.superseded = 0
        self.is_erasure = isinstance(message.decoded, EraseProfile)

    @property
    def makes_room(self) -> bool:
        return any(entry.value is REMOVED for entry in self.pending.values())

    def note(self, done: MapEntry, *, is_written: bool) -> None:
        """The update's entry with this path is done. If it isn't this one itself, it is superseded by it."""
        mine = self.pending.pop(done.path)
        if is_written and mine is done:
            self.written += 1
        else:
            self.superseded += 1
        if not self.pending:
            self.message.disposition = Done(self._outcome)

    @property
    def _outcome(self) -> ProfileWritten:
        if not self.written:
            return SUPERSEDED
        return ERASED if self.is_erasure else UPSERTED


def _by_path(updates: Iterable[_Update]) -> dict[tuple[str, ...], list[_Update]]:
    """The updates that set or remove an entry at each path: a profile may have a thousand of them."""
    by_path: dict[tuple[str, ...], list[_Update]] = defaultdict(list)
    for update in updates:
        for path in update.pending:
            by_path[path].append(update)
    return by_path


def _note(progress: Progress, by_path: Mapping[tuple[str, ...], Sequence[_Update]]) -> None:
    for done, is_written in ((progress.written, True), (progress.superseded, False)):
        for entry in done:
            for update in by_path[entry.path]:
                update.note(entry, is_written=is_written)


def map_entries(message: ProfileMessage, sent_at: datetime) -> list[MapEntry]:
    """The entries and removals of a message. Without `as_of` their time is that at which the message was sent."""
    as_of = message.as_of or sent_at
    if isinstance(message, EraseProfile):
        return [erasure(as_of)]
    values = message.entries | dict.fromkeys(message.removed, REMOVED)
    return [MapEntry((*message.path, name), value, as_of) for name, value in values.items()]
