"""The one loop: plan, write, and where the assumption was wrong, plan again from what was found."""

import random
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from botocore.exceptions import ClientError

from conditional_writes.deadline import Deadline
from conditional_writes.items import Item, Key, from_dynamodb
from conditional_writes.requests import MAXIMUM_WRITES, Put, Write, as_request

if TYPE_CHECKING:
    from types_boto3_dynamodb import DynamoDBClient

LONGEST_PAUSE_SECONDS = 1.0

type Observed = Mapping[Key, Item | None]
"""Items as they were last seen; None for one that wasn't there. A key that isn't in it was never looked at."""


class Plan[Result](NamedTuple):
    """What to write, and the result once it is written. Without writes there is nothing left to do.

    All the writes take effect together, or none does: at most 100.
    """

    result: Result
    writes: Sequence[Write] = ()


class Written[Result](NamedTuple):
    """The result of the plan that took effect, and how often another writer was first."""

    result: Result
    conflicts: int


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

    Raises DeadlinePassed when there is no time for another attempt, and botocore's ClientError for what no retry
    can mend.
    """
    conflicts = 0
    planned, write_id = plan(observed), uuid.uuid4().hex
    while planned.writes:
        deadline.check(f"writing, {conflicts} conflicts")
        sent_at = time.monotonic()
        refusal = _send(client, planned.writes, write_id)
        if refusal is None or refusal.names(write_id):
            break
        conflicts += 1
        _back_off(conflicts, time.monotonic() - sent_at, deadline)
        if refusal.found:
            observed = {**observed, **refusal.found}
            planned, write_id = plan(observed), uuid.uuid4().hex
    return Written(planned.result, conflicts)


class _Refusal(NamedTuple):
    """A write that DynamoDB refused. `found` has the items whose condition failed: none where only the timing did."""

    found: Observed

    def names(self, write_id: str) -> bool:
        return any(item is not None and item.get("write_id") == write_id for item in self.found.values())


def _send(client: "DynamoDBClient", writes: Sequence[Write], write_id: str) -> _Refusal | None:
    assert len(writes) <= MAXIMUM_WRITES, f"{len(writes)} writes in a plan: DynamoDB takes {MAXIMUM_WRITES}"
    try:
        if len(writes) == 1:
            _send_alone(client, writes[0], write_id)
        else:
            _send_together(client, writes, write_id)
    except ClientError as error:
        refusal = _refusal(error, writes)
        if refusal is None:
            raise
        return refusal
    return None


def _send_alone(client: "DynamoDBClient", write: Write, write_id: str) -> None:
    """Half the write units of a transaction."""
    request = as_request(write, write_id)
    if isinstance(write, Put):
        client.put_item(**request)
    else:
        client.update_item(**request)


def _send_together(client: "DynamoDBClient", writes: Sequence[Write], write_id: str) -> None:
    client.transact_write_items(
        TransactItems=[
            {"Put" if isinstance(write, Put) else "Update": as_request(write, write_id)}  # type: ignore[misc]
            for write in writes
        ],
        # A new plan, a new token; the SDK's own retries send it again, and DynamoDB answers them as it did the first.
        ClientRequestToken=write_id,
    )


_TIMING = {"TransactionConflict", "ThrottlingError", "ProvisionedThroughputExceeded"}
"""Reasons that say nothing of the items: botocore retries none of them inside a cancelled transaction."""


def _refusal(error: ClientError, writes: Sequence[Write]) -> _Refusal | None:
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
    return _Refusal(
        {
            write.key: from_dynamodb(reason["Item"]) if reason.get("Item") else None
            for write, reason in zip(writes, reasons, strict=True)
            if reason["Code"] == "ConditionalCheckFailed"
        }
    )


def _back_off(conflicts: int, request_seconds: float, deadline: Deadline) -> None:
    """After a first conflict none; after a second in a row, full jitter over many times what the request took.

    The loser of a conflict holds the newest item, and what it holds ages: sent at once, its next plan loses only to
    one that is on its way already; sent after a pause, almost surely to all that was written meanwhile. So pauses that
    start short and grow, the usual advice, keep everybody's item stale. Here one who lost twice steps aside for long
    enough that others commit dozens of times, and the few that remain hand the item to each other without a pause.
    What comes back is stale once: that write is refused, and stands in for the read that its next, immediate try needs.
    Measured with 8 workers on one account: `make bench`.
    """
    if conflicts % 2:
        return
    longest = min(64 * request_seconds, LONGEST_PAUSE_SECONDS, max(0.0, deadline.remaining_seconds))
    time.sleep(random.uniform(0, longest))
