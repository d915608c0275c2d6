"""Transactions: all of their writes take effect, or none does."""

from collections.abc import Callable, Sequence
from typing import Any

from conditional_writes.testing import writes
from conditional_writes.testing.database import REASONS, REFUSALS, Answer, Database, Request, Taken
from conditional_writes.testing.errors import Refused, invalid
from conditional_writes.testing.reads import checked_projection, projected
from conditional_writes.testing.store import Place
from conditional_writes.testing.tables import Table
from conditional_writes.testing.units import Units
from conditional_writes.testing.values import Item, item_bytes
from conditional_writes.testing.writes import Write

MAXIMUM_BYTES = 4 * 1024 * 1024

_MAKERS: dict[str, Callable[[Request], Write]] = {
    "Put": writes.put,
    "Update": writes.update,
    "Delete": writes.delete,
    "ConditionCheck": writes.condition_check,
}
_NONE = {"Code": "None"}


def transact_write_items(database: Database, request: dict[str, Any]) -> Answer:
    planned = [_made(action) for action in request["TransactItems"]]
    placed = [(database.table(write.table_name), write) for write in planned]
    token = request.get("ClientRequestToken")
    if token is not None and (taken := database.taken_by(token)):
        return _repeated(taken.request, request, placed)
    done = _all_or_none(database, placed)
    units = Units(request, of_transactions=True)
    for table, place, before, after, write in done:
        units.write(table, before, after)
        if write.kind != "ConditionCheck":
            table.write(place, after, database.clock.time())
    if token is not None:
        database.taken[token] = Taken(request, database.clock.time())
    return units.of_all()


def _made(action: dict[str, Any]) -> Write:
    if len(action) != 1:
        raise invalid("TransactItems can only contain one of Check, Put, Update or Delete")
    [(kind, request)] = action.items()
    return _MAKERS[kind](request)


def _repeated(first: Request, request: dict[str, Any], placed: Sequence[tuple[Table, Write]]) -> Answer:
    """The answer to a second request with one token. It consumes what reading the items would."""
    if first != request:
        raise Refused(
            "IdempotentParameterMismatchException",
            "Idempotent parameter mismatch: the request's token was used with other parameters",
        )
    units = Units(request, of_transactions=True)
    for table, write in placed:
        item = table.store.items.get(write.place_in(table))
        units.read(table, item_bytes(item or {}), is_consistent=True)
    return units.of_all()


type Placed = tuple[Table, Place, Item | None, Item | None, Write]


def _all_or_none(database: Database, placed: Sequence[tuple[Table, Write]]) -> list[Placed]:
    """Each write with its item before and after. Raises Refused, with one reason for each, if one can't be done."""
    reasons: list[dict[str, Any]] = []
    done: list[Placed] = []
    seen: set[tuple[str, Place]] = set()
    total = 0
    for table, write in placed:
        reason, is_second = _NONE, False
        try:
            place = write.place_in(table)
            is_second = (table.name, place) in seen
            seen.add((table.name, place))
            before = table.store.items.get(place)
            refusal = database.refusal(table, place) if database.refusals else None
            if refusal:
                reason = {"Code": REASONS[refusal], "Message": REFUSALS[refusal]}
            else:
                write.check(before)
                after = write.after(table, before)
                total += item_bytes(after or before or {})
                done.append((table, place, before, after, write))
        except Refused as refused:
            code = refused.code.removesuffix("Exception").replace("Validation", "ValidationError")
            reason = {"Code": code, "Message": refused.message, **refused.fields}
        if is_second:
            raise invalid("Transaction request cannot include multiple operations on one item")
        reasons.append(reason)
    if total > MAXIMUM_BYTES:
        raise _too_large()
    if any(reason is not _NONE for reason in reasons):
        raise cancelled(reasons)
    return done


def _too_large() -> Refused:
    return invalid("Transaction size has exceeded the maximum allowed size of 4 MB")


def cancelled(reasons: Sequence[dict[str, Any]]) -> Refused:
    codes = ", ".join(reason["Code"] for reason in reasons)
    return Refused(
        "TransactionCanceledException",
        f"Transaction cancelled, please refer cancellation reasons for specific reasons [{codes}]",
        CancellationReasons=list(reasons),
    )


def transact_get_items(database: Database, request: dict[str, Any]) -> Answer:
    gets = [action["Get"] for action in request["TransactItems"]]
    projections = [checked_projection(get) for get in gets]
    units, seen, total = Units(request, of_transactions=True), set(), 0
    answers: list[dict[str, Any]] = []
    reasons: list[dict[str, Any]] = []
    for get, paths in zip(gets, projections, strict=True):
        table = database.table(get["TableName"])
        reason, place = _NONE, None
        try:
            table.check_paths(paths)
            place = table.place_of_key(get["Key"])
        except Refused as refused:
            reason = {"Code": "ValidationError", "Message": refused.message}
        if place is not None and (table.name, place) in seen:
            raise invalid("Transaction request cannot include multiple operations on one item")
        seen.add((table.name, place))
        refusal = database.refusal(table, place) if database.refusals else None
        if refusal:
            reason = {"Code": REASONS[refusal], "Message": REFUSALS[refusal]}
        reasons.append(reason)
        item = table.store.items.get(place) if place is not None else None
        size = item_bytes(item or {})
        total += size
        units.read(table, size, is_consistent=True)
        answers.append({"Item": projected(paths, item)} if item is not None else {})
    if total > MAXIMUM_BYTES:
        raise _too_large()
    if any(reason is not _NONE for reason in reasons):
        raise cancelled(reasons)
    return {"Responses": answers} | units.of_all()
