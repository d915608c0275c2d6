"""Writes: each alone, 25 in a batch, and as a part of a transaction."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from conditional_writes.testing import conditions, updates
from conditional_writes.testing.database import Answer, Database, Request
from conditional_writes.testing.errors import Refused, invalid, invalid_parameter
from conditional_writes.testing.placeholders import Placeholders
from conditional_writes.testing.store import Place
from conditional_writes.testing.tables import Table
from conditional_writes.testing.units import Units
from conditional_writes.testing.values import MAXIMUM_ITEM_BYTES, Item, checked, checked_item, item_bytes

MAXIMUM_BATCH = 25
LEGACY = {
    "AttributesToGet",
    "AttributeUpdates",
    "ConditionalOperator",
    "Expected",
    "KeyConditions",
    "QueryFilter",
    "ScanFilter",
}


@dataclass
class Write:
    """A write whose request was checked, as far as that goes without a table."""

    kind: str
    table_name: str
    key: Item | None
    condition: conditions.Condition | None
    hands_back: bool
    given: Placeholders
    item: Item | None = None
    update: updates.CheckedUpdate | None = None

    def place_in(self, table: Table) -> Place:
        """Raises Refused if the table has another key, or if the write is at odds with its keys."""
        if self.update is not None:
            _check_keys(self.update, table)
        table.check_paths(self.given.paths)
        if self.item is not None:
            table.check_item(self.item)
            return table.keys.place(self.item)
        if self.key is None:
            raise AssertionError(self.kind)
        return table.place_of_key(self.key)

    def check(self, before: Item | None) -> None:
        """Raises Refused if the condition doesn't hold."""
        if self.condition is not None and not self.condition.holds(before or {}, self.given):
            handed = {"Item": before} if self.hands_back and before is not None else {}
            raise Refused("ConditionalCheckFailedException", "The conditional request failed", **handed)

    def after(self, table: Table, before: Item | None) -> Item | None:
        """The item as the write leaves it, None for none. Raises Refused if it can't be made."""
        if self.kind in {"Put", "ConditionCheck"}:
            return self.item if self.kind == "Put" else before
        if self.kind == "Delete" or self.key is None:
            return None
        if self.update is None:
            return before if before is not None else checked_item(self.key)
        after = self.update.applied(before if before is not None else checked_item(self.key))
        if item_bytes(after) > MAXIMUM_ITEM_BYTES:
            raise invalid("Item size to update has exceeded the maximum allowed size")
        if fault := table.index_key_fault(after):
            raise invalid(_BAD_INDEX_KEYS[fault.kind] + fault.why)
        return after


def _check_keys(update: updates.CheckedUpdate, table: Table) -> None:
    for _, path, operand in update.actions:
        if path[0] in table.keys.names:
            raise invalid_parameter(f"Cannot update attribute {path[0]}. This attribute is part of the key")
        if len(path) == 1 and operand and (kind := operand.kind(update.given)):
            table.check_index_key(str(path[0]), kind)


_BAD_INDEX_KEYS = {
    "other type": "The update expression attempted to update the secondary index key to unsupported type",
    "empty": "One or more parameter values are not valid. The update expression attempted to update a secondary"
    " index key to a value that is not supported. ",
    "too large": "The update expression attempted to update the secondary index key beyond allowed size limits",
}


def put(request: Request) -> Write:
    given, condition = _condition(request)
    item = checked_item(request["Item"])
    given.check_all_used()
    if item_bytes(item) > MAXIMUM_ITEM_BYTES:
        raise invalid("Item size has exceeded the maximum allowed size")
    return _write("Put", request, condition, given=given, item=item)


def update(request: Request) -> Write:
    given = Placeholders(request, "UpdateExpression", "ConditionExpression")
    parsed = updates.parsed(request["UpdateExpression"]) if "UpdateExpression" in request else None
    text = request.get("ConditionExpression")
    parsed_condition = conditions.parsed("ConditionExpression", text) if text is not None else None
    update = parsed.checked(given) if parsed else None
    condition = parsed_condition.check(given) if parsed_condition else None
    given.check_all_used()
    return _write("Update", request, condition, given=given, update=update)


def delete(request: Request) -> Write:
    given, condition = _condition(request)
    given.check_all_used()
    return _write("Delete", request, condition, given=given)


def condition_check(request: Request) -> Write:
    given, condition = _condition(request)
    given.check_all_used()
    return _write("ConditionCheck", request, condition, given=given)


def _condition(request: Request) -> tuple[Placeholders, conditions.Condition | None]:
    given = Placeholders(request, "ConditionExpression")
    text = request.get("ConditionExpression")
    return given, conditions.parsed("ConditionExpression", text).check(given) if text is not None else None


def _write(kind: str, request: Request, condition: conditions.Condition | None, **made: Any) -> Write:
    refuse_legacy(request)
    key = {name: checked(value) for name, value in request["Key"].items()} if "Key" in request else None
    hands_back = request.get("ReturnValuesOnConditionCheckFailure") == "ALL_OLD"
    return Write(kind, request["TableName"], key, condition, hands_back, **made)


def refuse_legacy(request: Request) -> None:
    """Raises NotImplementedError for parameters older than expressions, and Refused if both are there."""
    legacy = ", ".join(sorted(LEGACY & request.keys()))
    expressions = ", ".join(name for name in request if name.endswith("Expression"))
    if legacy and expressions:
        raise invalid(
            "Can not use both expression and non-expression parameters in the same request:"
            f" Non-expression parameters: {{{legacy}}} Expression parameters: {{{expressions}}}"
        )
    if legacy:
        raise NotImplementedError(f"{legacy}: this engine has expressions alone")


def _alone(make: Callable[[Request], Write]) -> Callable[[Database, dict[str, Any]], Answer]:
    def call(database: Database, request: dict[str, Any]) -> Answer:
        write, returned = make(request), request.get("ReturnValues") or "NONE"
        if write.kind != "Update" and returned not in {"ALL_OLD", "NONE"}:
            raise invalid("ReturnValues can only be ALL_OLD or NONE")
        table = database.table(write.table_name)
        place = write.place_in(table)
        database.check_refusals(table, place)
        before = table.store.items.get(place)
        write.check(before)
        after = write.after(table, before)
        units = Units(request)
        units.write(table, before, after)
        table.write(place, after, database.clock.time())
        return _returned(returned, write.update, before, after) | units.of(table)

    return call


def _returned(wanted: str, update: updates.CheckedUpdate | None, before: Item | None, after: Item | None) -> Answer:
    if wanted == "NONE":
        return {}
    item = before if wanted.endswith("OLD") else after
    if wanted.startswith("UPDATED"):
        item = update.shown(item) if item and update else None
    return {"Attributes": item} if item else {}


put_item, update_item, delete_item = _alone(put), _alone(update), _alone(delete)


def batch_write_item(database: Database, request: dict[str, Any]) -> Answer:
    wanted: dict[str, list[dict[str, Any]]] = request["RequestItems"]
    if sum(map(len, wanted.values())) > MAXIMUM_BATCH:
        raise invalid("Too many items requested for the BatchWriteItem call")
    writes = [(name, each, _batched(name, each)) for name, all_of_one in wanted.items() for each in all_of_one]
    placed, seen = [], set()
    for name, each, write in writes:
        table = database.table(name)
        place = write.place_in(table)
        if (table.name, place) in seen:
            raise invalid("Provided list of item keys contains duplicates")
        seen.add((table.name, place))
        placed.append((table, place, each, write))
    units = Units(request)
    unprocessed: dict[str, list[dict[str, Any]]] = {}
    for table, place, each, write in placed:
        if database.refusal(table, place):
            unprocessed.setdefault(table.name, []).append(each)
            continue
        before = table.store.items.get(place)
        units.write(table, before, write.item)
        table.write(place, write.item, database.clock.time())
    return {"UnprocessedItems": unprocessed} | units.of_all()


def _batched(name: str, each: dict[str, Any]) -> Write:
    if len(each) != 1:
        wrong = "has more than one datatypes set" if each else "is empty"
        raise invalid(f"Supplied AttributeValue {wrong}, must contain exactly one of the supported datatypes")
    if "PutRequest" in each:
        return put({"TableName": name, **each["PutRequest"]})
    return delete({"TableName": name, **each["DeleteRequest"]})
