"""The one loop: plan, write, and where the assumption was wrong, plan again from what was found."""

import math
import random
import threading
import time
import uuid
import weakref
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NamedTuple

from botocore.exceptions import ClientError

from conditional_writes.deadline import Deadline
from conditional_writes.items import Item, Key, from_dynamodb
from conditional_writes.own_attributes import VERSION_ID, WRITE_ID
from conditional_writes.requests import (
    MAXIMUM_WRITES,
    Check,
    Delete,
    Put,
    Update,
    Write,
    as_request,
)

if TYPE_CHECKING:
    from types_boto3_dynamodb import DynamoDBClient

LONGEST_PAUSE_SECONDS = 1.0

type Observed = Mapping[Key, Item | None]
"""Items as they were last seen; None for one that wasn't there. A key that isn't in it was never looked at."""


class Plan[Result](NamedTuple):
    """What to write, and the result once it is written. Without writes there is nothing left to do.

    All the writes take effect together, or none does: at most 100. With `once` they must not be made a second time;
    writes that make versions never are.
    """

    result: Result
    writes: Sequence[Write] = ()
    once: bool = False


class Written[Result](NamedTuple):
    """The result of the plan that took effect, and how often another writer was first.

    `write_id` is the mark that it left; `found` has what DynamoDB handed back with its last answer.
    """

    result: Result
    conflicts: int
    write_id: str
    found: Observed


class OutcomeUnknown(Exception):
    """A write got no answer, was sent again, and by then it was too late to tell whether the first try took effect.

    `key` is the item's; `found` the item as it is now, None where it is gone, or where it wasn't handed back.
    """

    def __init__(self, key: Key, found: Item | None, why: str) -> None:
        super().__init__(key, found, why)
        self.key, self.found = key, found

    def __str__(self) -> str:
        key, _, why = self.args
        return f"{key}: a first try got no answer, and {why}; whether it took effect can't be known"


class UnsatisfiableCondition(Exception):
    """The plan's condition is false of the very item that the plan was made from: it would be refused again and again.

    `key` is the item's, `found` the item as it is, None where there is none. Nothing was written.
    """

    def __init__(self, key: Key, found: Item | None) -> None:
        super().__init__(key, found)
        self.key, self.found = key, found

    def __str__(self) -> str:
        found = "there is no such item" if self.found is None else "the item is as the plan was given it"
        return f"{self.key}: the plan's condition doesn't hold, and {found}: the same plan would never be written"


def write[Result](
    client: "DynamoDBClient",
    plan: Callable[[Observed], Plan[Result]],
    observed: Observed,
    deadline: Deadline,
) -> Written[Result]:
    """Writes what `plan` makes of `observed`, and plans again from what DynamoDB hands back until it holds.

    `plan` is called again after each conflict, so it must be a pure function of what it is given. A conflict costs
    the failed write and no read. When the response to a write was lost and the SDK sent it again, the condition
    fails on the write's own work: that is recognised by its id, and is a success.

    Raises DeadlinePassed when there is no time for another attempt, UnsatisfiableCondition where another can't help,
    OutcomeUnknown when a single write that must not be made twice may have been made already, ValueError for writes
    that no transaction takes, and botocore's own errors for what no retry can mend.
    """
    conflicts = 0
    answer = _DONE
    planned, write_id = plan(observed), uuid.uuid4().hex
    unanswered = False  # whether a try of this plan was: it may have taken effect
    while planned.writes:
        if unanswered and deadline.remaining_seconds <= 0:
            raise OutcomeUnknown(planned.writes[0].key, None, "no time is left for another")
        deadline.check(f"writing {planned.writes[0].key}, {conflicts} conflicts")
        sent_at = time.monotonic()
        answer = _send(client, planned.writes, write_id)
        if not answer.refused or answer.names(write_id):
            break
        # A transaction that is sent again bears the same token, so DynamoDB answers for its first try.
        unanswered |= answer.unanswered and len(planned.writes) == 1
        if unanswered:
            _check_known(planned, answer.found)
        for refused, item in answer.found.items():
            if refused in observed and observed[refused] == item:
                raise UnsatisfiableCondition(refused, item)
        conflicts += 1
        _back_off(conflicts, answer, time.monotonic() - sent_at, deadline)
        if answer.found:
            observed = {**observed, **answer.found}
            planned, write_id = plan(observed), uuid.uuid4().hex
            unanswered = False
    return Written(planned.result, conflicts, write_id, answer.found)


class _Answer(NamedTuple):
    """`found`: the items that DynamoDB handed back; of a refusal those whose condition failed, none where only the
    timing did. `throttled`: that was why. `unanswered`: a try before this one was."""

    refused: bool
    found: Observed
    throttled: bool
    unanswered: bool

    def names(self, write_id: str) -> bool:
        return any(
            item is not None and write_id in (item.get(WRITE_ID), item.get(VERSION_ID)) for item in self.found.values()
        )


_DONE = _Answer(refused=False, found={}, throttled=False, unanswered=False)


def _check_known(planned: Plan[Any], found: Observed) -> None:
    """Raises OutcomeUnknown for a refused write whose first try may have taken effect, and been overwritten since."""
    [refused] = planned.writes
    if refused.key not in found or not (planned.once or refused.expected):
        return
    item = found[refused.key]
    if not _was_never_made(refused, item):
        why = "the item is gone: by this write or by another" if item is None else "others have written since"
        raise OutcomeUnknown(refused.key, item, why)


def _was_never_made(refused: Write, found: Item | None) -> bool:
    """Its version is another's, or still the one before: the item would say so, had there been another in between."""
    if found is None or refused.expected is None:
        return False
    before, attribute, before_id = refused.expected
    version = found.get(attribute, 0)
    match refused:
        case Put(item=values) | Update(values=values) if version == values[attribute]:
            return True
        case Delete() if isinstance(version, Decimal) and version > (before or 0):
            return True
    return bool(version == (before or 0)) and found.get(VERSION_ID) == before_id


def _send(client: "DynamoDBClient", writes: Sequence[Write], write_id: str) -> _Answer:
    if len(writes) > MAXIMUM_WRITES:
        raise ValueError(f"{len(writes)} writes: a transaction of DynamoDB's takes at most {MAXIMUM_WRITES}")
    if len({write.key for write in writes}) < len(writes):
        [(twice, _)] = Counter(write.key for write in writes).most_common(1)
        raise ValueError(f"{twice}: two writes to one item, and a transaction of DynamoDB's takes one: make them one")
    _listen_for_silence(client)
    try:
        if len(writes) == 1 and not isinstance(writes[0], Check):
            return _send_alone(client, writes[0], write_id)
        _send_together(client, writes, write_id)
    except ClientError as error:
        refusal = _refusal(error, writes)
        if refusal is None:
            raise
        return refusal
    return _DONE


def _send_alone(client: "DynamoDBClient", write: Put | Update | Delete, write_id: str) -> _Answer:
    """Half the write units of a transaction."""
    request = as_request(write, write_id)
    match write:
        case Put():
            client.put_item(**request)
        case Delete():
            client.delete_item(**request)
        case Update(return_new=True):
            response = client.update_item(**request, ReturnValues="ALL_NEW")
            return _DONE._replace(found={write.key: from_dynamodb(response["Attributes"])})
        case Update():
            client.update_item(**request)
    return _DONE


_ACTIONS = {Put: "Put", Update: "Update", Delete: "Delete", Check: "ConditionCheck"}


def _send_together(client: "DynamoDBClient", writes: Sequence[Write], write_id: str) -> None:
    client.transact_write_items(
        TransactItems=[{_ACTIONS[type(write)]: as_request(write, write_id)} for write in writes],  # type: ignore[misc]
        # A new plan, a new token; the SDK's own retries send it again, and DynamoDB answers them as it did the first.
        ClientRequestToken=write_id,
    )


_THROTTLED = {"ThrottlingError", "ProvisionedThroughputExceeded"}
_TIMING = {"TransactionConflict", *_THROTTLED}
"""Reasons that say nothing of the items: botocore retries none of them inside a cancelled transaction."""


def _refusal(error: ClientError, writes: Sequence[Write]) -> _Answer | None:
    """What DynamoDB said of the items, or None where the error isn't about conditions or contention."""
    response: Any = error.response
    match response["Error"]["Code"]:
        case "TransactionCanceledException":
            # One reason for each write, in order. No error is the string "None".
            reasons = response["CancellationReasons"]
        case "ConditionalCheckFailedException":
            reasons = [{"Code": "ConditionalCheckFailed", "Item": response.get("Item")}]
        case "TransactionConflictException":
            reasons = [{"Code": "TransactionConflict"}]
        case _:
            return None
    if any(reason["Code"] not in {"None", "ConditionalCheckFailed", *_TIMING} for reason in reasons):
        return None
    return _Answer(
        refused=True,
        found={
            write.key: from_dynamodb(reason["Item"]) if reason.get("Item") else None
            for write, reason in zip(writes, reasons, strict=True)
            if reason["Code"] == "ConditionalCheckFailed"
        },
        throttled=any(reason["Code"] in _THROTTLED for reason in reasons),
        unanswered=_silence.heard,
    )


_silence = threading.local()
_listened_to: "weakref.WeakSet[DynamoDBClient]" = weakref.WeakSet()


def _listen_for_silence(client: "DynamoDBClient") -> None:
    """Notes, for this thread's call, whether a try of the SDK's got no answer, or none that says what became of it.

    That a call was tried again says nothing: a throttled one had no effect.
    """
    _silence.heard = False
    if client not in _listened_to:
        client.meta.events.register("needs-retry.dynamodb", _note_silence)
        _listened_to.add(client)


def _note_silence(response: tuple[Any, Any] | None, **_: object) -> None:
    if response is None or response[0].status_code >= 500:
        _silence.heard = True


def _back_off(conflicts: int, answer: _Answer, request_seconds: float, deadline: Deadline) -> None:
    """Full jitter over many times what the request took, after the 2nd, 6th, 12th, 20th, … conflict; else none.

    The loser of a conflict holds the newest item, and what it holds ages: sent at once, its next plan loses only to
    one that is on its way already; sent after a pause, almost surely to all that was written meanwhile. So pauses that
    start short and grow, the usual advice, keep everybody's item stale. Here one who lost twice steps aside for long
    enough that others commit dozens of times, and the few that remain hand the item to each other without a pause.
    What comes back is stale once: that write is refused, and stands in for the read that its next, immediate try needs.
    From pause to pause there are two tries more, so that who has lost longest insists most, and nobody starves.
    Where the table is throttled every try waits. Measured with 8 workers on one account, and with 8 writers on one
    item: `make bench`.
    """
    tries = math.isqrt(conflicts)
    if tries * (tries + 1) != conflicts and not answer.throttled:
        return
    longest = min(64 * request_seconds, LONGEST_PAUSE_SECONDS, max(0.0, deadline.remaining_seconds))
    time.sleep(random.uniform(0, longest))
