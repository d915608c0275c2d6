"""The one loop of all writes: plan, write, and if a condition fails, plan again from the item that came back."""

import math
import random
import time
import uuid
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NamedTuple, overload

from botocore.exceptions import ClientError

from conditional_writes.core.items import Item, Key, from_dynamodb, no_key, same
from conditional_writes.core.messages import Message
from conditional_writes.core.own_attributes import VERSION_ID, WRITE_ID
from conditional_writes.core.requests import MAXIMUM_WRITES, Check, Delete, Put, Update, Write, as_request
from conditional_writes.core.steps import (
    Deadline,
    DeadlinePassed,
    NoTurn,
    Pause,
    Request,
    Steps,
    blocking,
    deadline_or_default,
    in_turn,
    items_of,
)
from conditional_writes.core.table_errors import explain

if TYPE_CHECKING:
    from types_boto3_dynamodb import DynamoDBClient

LONGEST_PAUSE_SECONDS = 1.0
CONFLICTS_BEFORE_PAUSE, CONFLICTS_BEFORE_PAUSE_IF_PACED = 2, 6
"""The conflicts after which a writer pauses first. A paced one has waited already, before its read: `pacing`."""

type Observed = Mapping[Key, Item | None]
"""Items by key, as they were last seen; None for an item that doesn't exist. A missing key was never looked at."""


class Plan[Result](NamedTuple):
    """Writes, and the result once they took effect. A plan without writes is done at once.

    At most 100 writes, which take effect together, or none does. With `once` a single write that was refused, and that
    may have taken effect before, isn't planned again: OutcomeUnknown is raised. Nor is one with an `expected` version.
    The SDK's own second try of a write that got no answer isn't refused if the condition holds still: what must be made
    once has a condition that it makes false, or is in a transaction.

    `messages` leave once the writes took effect. Only a function that is `exactly_once` may have them.
    """

    result: Result
    writes: Sequence[Write] = ()
    messages: Sequence[Message] = ()
    once: bool = False


class Written[Result](NamedTuple):
    """`result` is that of the plan that took effect, after so many `conflicts` with other writers.

    `write_id` is the mark that the plan left on its items. `found` has the items in DynamoDB's last answer.
    """

    result: Result
    conflicts: int
    write_id: str
    found: Observed


class OutcomeUnknown(Exception):
    """A write got no answer, and nothing in the item says whether it took effect.

    A transaction's outcome is unknown only at the deadline, or if an error ended its tries: it was still in progress,
    or a try of it got no answer. `key` is the item's; of a transaction, the first item's. `found` is the item as it is
    now; None if it is gone, or if it isn't known.
    """

    def __init__(self, key: Key, found: Item | None, why: str) -> None:
        super().__init__(key, found, why)
        self.key, self.found = key, found

    def __str__(self) -> str:
        key, _, why = self.args
        return f"{key}: a first try got no answer, and {why}; whether it took effect can't be known"


class UnsatisfiableCondition(Exception):
    """The plan's condition is false for the very item that the plan was made from, so no retry can help.

    `key` is the item's. `found` is the item as it is, None if it doesn't exist. Nothing was written.
    """

    def __init__(self, key: Key, found: Item | None) -> None:
        super().__init__(key, found)
        self.key, self.found = key, found

    def __str__(self) -> str:
        found = "there is no such item" if self.found is None else "the item is as the plan was given it"
        return f"{self.key}: the plan's condition doesn't hold, and {found}: the same plan would never be written"


class Stopped(NamedTuple):
    """The loop was stopped after so many `conflicts` with other writers, and nothing was written.

    `found` has the items in DynamoDB's last answer, `observed` all items as they were last seen.
    """

    conflicts: int
    found: Observed
    observed: Observed


@overload
def write[Result](
    client: "DynamoDBClient",
    plan: Callable[[Observed], Plan[Result]],
    observed: Observed,
    deadline: Deadline | None,
    *,
    conflicts_before_pause: int = CONFLICTS_BEFORE_PAUSE,
) -> Written[Result]: ...


@overload
def write[Result](
    client: "DynamoDBClient",
    plan: Callable[[Observed], Plan[Result]],
    observed: Observed,
    deadline: Deadline | None,
    *,
    stop: Callable[[Observed], bool],
) -> Written[Result] | Stopped: ...


@blocking
def write[Result](  # noqa: PLR0913 (by name, all but the first four)
    client: "DynamoDBClient",
    plan: Callable[[Observed], Plan[Result]],
    observed: Observed,
    deadline: Deadline | None,
    *,
    conflicts_before_pause: int = CONFLICTS_BEFORE_PAUSE,
    stop: Callable[[Observed], bool] = lambda _: False,
) -> Steps[Written[Result] | Stopped]:
    """Writes the plan for `observed`. After each conflict the next plan is made from the items that came back.

    `plan` must be a pure function of its argument, because it is called again after each conflict. A conflict costs the
    refused write, and no read. If the response to a write was lost and the SDK sent the write again, its condition
    fails on its own effect: the item has the write's id, so the write counts as done. A transaction that is still in
    progress is sent again until DynamoDB says how it ended.

    `stop` is asked after a conflict, with the items that came back: if it says so, no other plan is made.

    Raises DeadlinePassed if no time is left for another try and nothing was written, UnsatisfiableCondition if another
    try can't help, OutcomeUnknown if a single write that must not be made twice may have been made already, or if no
    time is left and a write may have taken effect, ValueError for writes that no transaction takes, NoSuchTable,
    WrongKey, and botocore's other errors for what no retry can mend. If the call is interrupted, as by
    KeyboardInterrupt or a cancelled task, and a write may have taken effect, OutcomeUnknown is the cause.
    """
    deadline = deadline_or_default(deadline)
    conflicts, answer = 0, _DONE
    sending = _Sending(client, plan(observed), deadline)
    with in_turn():
        while sending.plan.writes:
            sending.check_time(conflicts)
            sent_at = time.monotonic()
            answer = yield from sending.send(sending.request())
            if sending.took_effect(answer):
                break
            sending.note_refusal(answer)
            _check_satisfiable(observed, answer.found)
            conflicts += not answer.in_progress
            if _is_turn_to_pause(conflicts, conflicts_before_pause) or answer.throttled or answer.in_progress:
                yield from sending.pause(time.monotonic() - sent_at)
            if not answer.found:
                sending.begin_next_try()
                continue
            observed = {**observed, **answer.found}
            if stop(answer.found):
                return Stopped(conflicts, answer.found, observed)
            sending = _Sending(client, plan(observed), deadline)
    return Written(sending.plan.result, conflicts, sending.write_id, answer.found)


def checked[Result](planned: Plan[Result]) -> Plan[Result]:
    """The plan. Raises TypeError for what is none, or has no list of writes."""
    if not isinstance(planned, Plan):
        raise TypeError(f"returned {planned!r}, expected a Plan with its result and its writes")
    writes: Any = planned.writes
    if isinstance(writes, _KINDS) or not isinstance(writes, Sequence):
        raise TypeError(f"a plan's writes are {writes!r}, expected a list of writes")
    for each in writes:
        if not isinstance(each, _KINDS):
            raise TypeError(f"a plan's writes have {each!r}, expected Put, Update, Delete or Check")
        if not isinstance(each.key, Key):
            raise no_key(each.key)
    return planned


_KINDS = (Put, Update, Delete, Check)


class _Answer(NamedTuple):
    """DynamoDB's answer to a write.

    `found` has the items in the answer. If the write was `refused`, these are the items whose condition failed: none if
    another write to an item was in progress, or if the write was `throttled`. `in_progress`: DynamoDB hasn't finished
    an earlier try of this transaction. `unanswered`: an earlier try got no answer.
    """

    refused: bool
    found: Observed
    throttled: bool = False
    in_progress: bool = False
    unanswered: bool = False

    def has_mark_of(self, write_id: str) -> bool:
        return any(
            item is not None and write_id in (item.get(WRITE_ID), item.get(VERSION_ID)) for item in self.found.values()
        )


_DONE = _Answer(refused=False, found={})


class _Sending:
    """One plan, sent until an answer says what became of it.

    `write_id` marks the items that it writes. Tries of a transaction with one `token` have one effect. `unanswered`: a
    try got no answer, so the plan may have taken effect.
    """

    def __init__(self, client: "DynamoDBClient", plan: Plan[Any], deadline: Deadline) -> None:
        self.plan = checked(plan)
        if plan.messages:
            raise TypeError("a plan has messages, and no record to keep them: only functions that are exactly_once do")
        self._client, self._deadline = client, deadline
        self.write_id = self.token = uuid.uuid4().hex
        self.unanswered = False

    def check_time(self, conflicts: int) -> None:
        """Raises DeadlinePassed, or OutcomeUnknown if the plan may have taken effect."""
        if self._deadline.remaining_seconds > 0:
            return
        if self.unanswered:
            raise self._unknown("no time is left for another")
        raise DeadlinePassed(f"no time is left: writing {self.plan.writes[0].key}, {conflicts} conflicts")

    def request(self) -> Request:
        """A write alone costs half of a transaction's write units. Raises ValueError for what no transaction takes."""
        writes, alone = self.plan.writes, _sent_alone(self.plan.writes)
        if alone is None:
            _check_transaction(writes)
            transaction = {
                "TransactItems": [{_ACTIONS[type(each)]: as_request(each, self.write_id)} for each in writes],
                "ClientRequestToken": self.token,  # The SDK's retries repeat it.
            }
            return Request(self._client, "transact_write_items", transaction, self._deadline)
        request = as_request(alone, self.write_id)
        if isinstance(alone, Update) and alone.return_new:
            request["ReturnValues"] = "ALL_NEW"
        return Request(self._client, _METHODS[type(alone)], request, self._deadline)

    def send(self, request: Request) -> Steps[_Answer]:
        """Raises errors that aren't about conditions."""
        try:
            answer = yield request
        except ClientError as error:
            refusal = _refusal(error, self.plan.writes, unanswered=request.unanswered)
            if refusal is None:
                self._raise_if_unanswered(error, request)
                explain(self._client, error, [write.key for write in self.plan.writes])
                raise
            return refusal
        except NoTurn:  # at the deadline
            return _Answer(refused=True, found={}, unanswered=request.unanswered)
        except Exception:
            raise
        except BaseException as interruption:
            raise interruption from self._unknown("it was interrupted")
        alone = _sent_alone(self.plan.writes)
        if isinstance(alone, Update) and alone.return_new:
            return _DONE._replace(found={alone.key: from_dynamodb(answer["Attributes"])})
        return _DONE

    def pause(self, request_seconds: float) -> Steps[None]:
        """A random pause, up to 64 times as long as the request took, and at most a second."""
        longest = min(64 * request_seconds, LONGEST_PAUSE_SECONDS, max(0.0, self._deadline.remaining_seconds))
        try:
            yield Pause(random.uniform(0, longest))
        except BaseException as interruption:
            if self.unanswered:
                raise interruption from self._unknown("it was interrupted")
            raise

    def _raise_if_unanswered(self, error: ClientError, request: Request) -> None:
        """Raises OutcomeUnknown if DynamoDB says that this try wrote nothing, and an earlier one got no answer."""
        wrote_nothing = error.response["ResponseMetadata"].get("HTTPStatusCode") == 400
        if wrote_nothing and (self.unanswered or request.unanswered):
            raise self._unknown(f"another ended in {error}") from error

    def _unknown(self, why: str) -> OutcomeUnknown:
        return OutcomeUnknown(self.plan.writes[0].key, None, why)

    def took_effect(self, answer: _Answer) -> bool:
        """Also if its condition failed on its own effect: then the item has its mark."""
        return not answer.refused or answer.has_mark_of(self.write_id)

    def note_refusal(self, answer: _Answer) -> None:
        """Notes whether the plan may have taken effect after all.

        Raises OutcomeUnknown if it is a single write that may have taken effect, and may have been overwritten since.
        """
        alone = _sent_alone(self.plan.writes)
        # A refusal says nothing of an earlier try that may still be on its way, be it one with the same token.
        self.unanswered |= answer.unanswered
        if not self.unanswered or alone is None or alone.key not in answer.found:
            return
        item = answer.found[alone.key]
        if (self.plan.once or alone.expected) and not _was_never_made(alone, item):
            why = "the item is gone: by this write or by another" if item is None else "others have written since"
            raise OutcomeUnknown(alone.key, item, why)

    def begin_next_try(self) -> None:
        """With a token of its own, unless the try before may have taken effect.

        DynamoDB may repeat its answer to a token for ten minutes, be it a cancellation: botocore's model,
        ClientRequestToken. The mark stays: should an earlier try take effect after all, it has this plan's mark.
        """
        if not self.unanswered:
            self.token = uuid.uuid4().hex


def _check_satisfiable(observed: Observed, found: Observed) -> None:
    """Raises UnsatisfiableCondition if an item came back as the plan was given it."""
    for refused, item in found.items():
        if refused in observed and same(observed[refused], item):
            raise UnsatisfiableCondition(refused, item)


def _was_never_made(refused: Write, found: Item | None) -> bool:
    """Whether the item shows that no try took effect. Versions have no gaps, so a write in between would show.

    An item that others deleted, made again and saved, all of it between two tries of one write, isn't noticed.
    """
    if found is None or refused.expected is None:
        return False
    before, attribute, id_before = refused.expected
    if isinstance(refused, Delete) and not before:
        return False  # an item that was made anew since has no other version either
    version = found.get(attribute, 0)
    match refused:
        case Put(item=values) | Update(values=values) if version == values[attribute]:
            return True  # the version that it would have made is another write's
        case Delete() if isinstance(version, Decimal) and before and version > before:
            return True  # the item wasn't deleted: another write made the next version
    # Nothing was written at all. `update` knows the version alone.
    return bool(version == (before or 0)) and id_before in (None, found.get(VERSION_ID))


def _sent_alone(writes: Sequence[Write]) -> Put | Update | Delete | None:
    """The single write that is sent without a transaction, and so without a token. None: a transaction."""
    if len(writes) != 1:
        return None
    match writes[0]:
        case Check():
            return None
        case Update() as update if update.counts_once:
            return None
        case write:
            return write


_METHODS = {Put: "put_item", Update: "update_item", Delete: "delete_item"}
_ACTIONS = {Put: "Put", Update: "Update", Delete: "Delete", Check: "ConditionCheck"}


def _check_transaction(writes: Sequence[Write]) -> None:
    """Raises ValueError for writes that no transaction takes."""
    if len(writes) > MAXIMUM_WRITES:
        raise ValueError(f"{len(writes)} writes: a transaction of DynamoDB's takes at most {MAXIMUM_WRITES}")
    if len({write.key for write in writes}) < len(writes):
        [(twice, _)] = Counter(write.key for write in writes).most_common(1)
        raise ValueError(f"{twice}: two writes to one item, and a transaction of DynamoDB's takes one: make them one")


_THROTTLING_REASONS = {"ThrottlingError", "ProvisionedThroughputExceeded"}
_TIMING_REASONS = {"TransactionConflict", *_THROTTLING_REASONS}
"""Reasons that say nothing of the items. botocore retries none of them inside a cancelled transaction."""


def _refusal(error: ClientError, writes: Sequence[Write], *, unanswered: bool) -> _Answer | None:
    """The answer in the error, or None if the error isn't about conditions or contention."""
    response: Any = error.response
    match response["Error"]["Code"]:
        case "TransactionCanceledException":
            # One reason for each write, in order. No error is the string "None".
            reasons = response["CancellationReasons"]
        case "ConditionalCheckFailedException":
            reasons = [{"Code": "ConditionalCheckFailed", "Item": response.get("Item")}]
        case "TransactionConflictException":
            reasons = [{"Code": "TransactionConflict"}]
        case "TransactionInProgressException":
            # An earlier try got no answer, and DynamoDB is still at it. botocore's standard mode sends it again, but
            # three attempts may be over in less than the five seconds that DynamoDB needs to finish a transaction that
            # was left lying: botocore's model, TransactionInProgressException.
            return _Answer(refused=True, found={}, in_progress=True, unanswered=True)
        case _:
            return None
    items = items_of(response, reasons)
    if any(reason["Code"] not in {"None", "ConditionalCheckFailed", *_TIMING_REASONS} for reason in reasons):
        return None
    return _Answer(
        refused=True,
        found={
            write.key: item
            for write, item, reason in zip(writes, items, reasons, strict=True)
            if reason["Code"] == "ConditionalCheckFailed"
        },
        throttled=any(reason["Code"] in _THROTTLING_REASONS for reason in reasons),
        unanswered=unanswered,
    )


def _is_turn_to_pause(conflicts: int, conflicts_before_pause: int) -> bool:
    """After the 2nd, 6th, 12th, 20th, … conflict, but not after fewer than `conflicts_before_pause`.

    Pauses that start short and grow would make every writer's item stale: docs/decisions/back-off.md.
    """
    root = math.isqrt(conflicts)  # 2 is 1 * 2, 6 is 2 * 3, 12 is 3 * 4
    return root * (root + 1) == conflicts and conflicts >= conflicts_before_pause
