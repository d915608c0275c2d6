"""Writes the profile updates of a batch: all updates of a profile in one request, and all profiles in parallel."""

import itertools
from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from msgspec import Struct

from conditional_writes import Deadline, key
from conditional_writes.upserts import REMOVED, ItemTooLarge, MapEntry, NotAMap, NotAnEntry, Upserted, upsert
from ledger.core.profile_messages import ProfileUpdate
from ledger.core.reason_codes import ReasonCode
from ledger.dispositions import disposition_of
from workers.batches import Measurement
from workers.parallel import in_parallel
from workers.queue_messages import Dead, Done, QueueMessage

if TYPE_CHECKING:
    from types_boto3_dynamodb import DynamoDBClient

type QueuedUpdate = QueueMessage[ProfileUpdate]

_MISFITS: dict[type[Exception], ReasonCode] = {
    NotAMap: ReasonCode.NOT_A_MAP,
    NotAnEntry: ReasonCode.NOT_AN_ENTRY,
    ItemTooLarge: ReasonCode.ITEM_TOO_LARGE,
}
"""A valid message may still not fit its profile."""


class ProfileWritten(Struct, frozen=True):
    """The outcome of a message whose entries, or later ones, are in its profile."""

    label: ClassVar[str] = "upserted"
    log_fields: ClassVar[dict[str, object]] = {}


class ProfileWriter(NamedTuple):
    """The table of profiles, and the client that writes it."""

    client: "DynamoDBClient"
    table: str

    def write(self, messages: Sequence[QueuedUpdate], deadline: Deadline) -> list[Measurement]:
        """Upserts the entries of each message, and sets its disposition. Any order and any repetition gives one result.

        One request per profile and 100 entries. If a profile fails, its messages come again, and no other profile's.
        """
        profiles: dict[str, list[QueuedUpdate]] = defaultdict(list)
        for message in messages:
            profiles[message.decoded.account_id].append(message)
        written = in_parallel(lambda of_profile: self._write_profile(of_profile, deadline), list(profiles.values()))
        upserts = list(itertools.chain.from_iterable(written))
        return [
            Measurement("Upserted", sum(upserted.written for upserted in upserts)),
            Measurement("Superseded", sum(upserted.superseded for upserted in upserts)),
            Measurement("Conflicts", sum(upserted.conflicts for upserted in upserts)),
        ]

    def _write_profile(self, messages: Sequence[QueuedUpdate], deadline: Deadline) -> list[Upserted]:
        """Writes all messages together; or each by itself, if one of them doesn't fit the profile."""
        profile = key(self.table, account_id=messages[0].decoded.account_id)
        entries = [entry for message in messages for entry in map_entries(message.decoded, message.sent_at)]
        try:
            upserted = upsert(self.client, profile, entries, deadline=deadline)
        except tuple(_MISFITS) as misfit:
            if len(messages) > 1:
                return [upserted for message in messages for upserted in self._write_profile([message], deadline)]
            messages[0].disposition = Dead(_MISFITS[type(misfit)], str(misfit))
        except Exception as error:  # noqa: BLE001 (an error of any type is this profile's alone)
            for message in messages:
                message.disposition = disposition_of(error)
        else:
            for message in messages:
                message.disposition = Done(ProfileWritten())
            # `upsert` counts one entry per path, the latest of the batch: the others are superseded, too.
            return [upserted._replace(superseded=len(entries) - upserted.written)]
        return []


def map_entries(update: ProfileUpdate, sent_at: datetime) -> list[MapEntry]:
    """The entries and removals of an update. Without `as_of` their time is that at which the message was sent."""
    values = update.entries | dict.fromkeys(update.removed, REMOVED)
    as_of = update.as_of or sent_at
    return [MapEntry((*update.path, name), value, as_of) for name, value in values.items()]
