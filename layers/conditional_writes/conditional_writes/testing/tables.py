"""Tables: their keys, their indexes, their items, and the stream of what changed."""

import copy
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

from conditional_writes.testing.errors import Refused, invalid, invalid_parameter
from conditional_writes.testing.expressions import Path
from conditional_writes.testing.store import Place, Store, position
from conditional_writes.testing.values import Item, Value, checked, item_bytes, kind_of, scalar

REGION, ACCOUNT = "us-east-1", "000000000000"
NO_THROUGHPUT = {"ReadCapacityUnits": 0, "WriteCapacityUnits": 0}
"""That of a table which is paid per request."""
MAXIMUM_HASH_BYTES, MAXIMUM_RANGE_BYTES = 2048, 1024


class Keys(NamedTuple):
    """The names of a key's attributes. `range` is None if the key has one attribute."""

    hash: str
    range: str | None

    @property
    def names(self) -> tuple[str, ...]:
        return (self.hash,) if self.range is None else (self.hash, self.range)

    @classmethod
    def of(cls, schema: Sequence[Mapping[str, str]]) -> "Keys":
        by_type = {each["KeyType"]: each["AttributeName"] for each in schema}
        return cls(by_type["HASH"], by_type.get("RANGE"))

    def place(self, item: Mapping[str, Value]) -> Place:
        partition = scalar(item[self.hash])
        if self.range is None:
            return position(partition), partition
        return position(partition), partition, scalar(item[self.range])


@dataclass(eq=False)
class Index:
    """A secondary index. `attributes` are what it has of an item, None for all. `lagging`: as it is read."""

    name: str
    keys: Keys
    is_global: bool
    attributes: frozenset[str] | None
    definition: dict[str, Any]
    store: Store = field(default_factory=Store)
    lagging: Store | None = None

    def has(self, item: Item) -> bool:
        return all(name in item for name in self.keys.names)

    def entry(self, item: Item | None) -> Item | None:
        """The index's part of the item, None if the item isn't in the index."""
        if item is None or not self.has(item):
            return None
        if self.attributes is None:
            return item
        return {name: value for name, value in item.items() if name in self.attributes}


class IndexKey(NamedTuple):
    """An attribute that is a key of this index, and its type there."""

    name: str
    kind: str
    of: Index

    def fault(self, value: Value) -> "IndexKeyFault | None":
        if (found := kind_of(value)) != self.kind:
            return self.other_type(found)
        if value[self.kind] == "":
            what = "string" if self.kind == "S" else "binary"
            why = f"The AttributeValue for a key attribute cannot contain an empty {what} value."
            refused = (
                f"One or more parameter values are not valid. A value specified for a secondary index key is not"
                f" supported. {why} IndexName: {self.of.name}, IndexKey: {self.name}"
            )
            return IndexKeyFault("empty", invalid(refused), why)
        if too_large := _too_large(value, is_hash=self.name == self.of.keys.hash):
            return IndexKeyFault("too large", too_large)
        return None

    def other_type(self, found: str) -> "IndexKeyFault":
        wrong = f"Expected: {self.kind} Actual: {found} IndexName: {self.of.name}"
        return IndexKeyFault("other type", invalid_parameter(f"Type mismatch for Index Key {self.name} {wrong}"))


class IndexKeyFault(NamedTuple):
    """Why an index's key can't have a value. `refused` is a put's refusal. An empty value has its sentence, too."""

    kind: Literal["other type", "empty", "too large"]
    refused: Refused
    why: str = ""


class Record(NamedTuple):
    """A change in a table's stream. Both items are None if they aren't there.

    `is_expiry`: the item's time to live was over.
    """

    number: int
    seconds: float
    before: Item | None
    after: Item | None
    is_expiry: bool = False


class Table:
    """A table. Items are put and removed with all that follows from it: indexes, and the stream.

    `lagging` is what eventually consistent readers see, None if they see all.
    """

    def __init__(self, request: Mapping[str, Any], seconds: float) -> None:
        self.name: str = request["TableName"]
        self.keys = Keys.of(request["KeySchema"])
        self.types = {each["AttributeName"]: each["AttributeType"] for each in request["AttributeDefinitions"]}
        self.created_seconds, self.id = seconds, str(uuid.uuid4())
        self.billing = request.get("BillingMode", "PROVISIONED")
        self.throughput = request.get("ProvisionedThroughput", NO_THROUGHPUT)
        self.is_protected = bool(request.get("DeletionProtectionEnabled"))
        self.time_to_live: str | None = None
        self.view: str | None = None
        self.stream_began = ""
        self.store, self.lagging = Store(), None
        self.records: list[Record] = []
        self.indexes: dict[str, Index] = {}
        for parameter, is_global in (("LocalSecondaryIndexes", False), ("GlobalSecondaryIndexes", True)):
            for definition in request.get(parameter) or ():
                self.indexes[definition["IndexName"]] = self._index(definition, is_global=is_global)
        self._index_keys = [
            IndexKey(name, self.types[name], index)
            for index in self.indexes.values()
            for name in index.keys.names
            if name not in self.keys.names
        ]
        self.set_stream(request.get("StreamSpecification"), seconds)

    lagging: Store | None

    def copy(self) -> "Table":
        """A table with the same items, which changes apart from this one. Items are never changed in place."""
        copied = copy.copy(self)
        copied.store, copied.records = self.store.copy(), self.records.copy()
        copied.lagging = self.lagging and self.lagging.copy()
        copied.indexes = {
            name: replace(index, store=index.store.copy(), lagging=index.lagging and index.lagging.copy())
            for name, index in self.indexes.items()
        }
        return copied

    def set_stream(self, specification: Mapping[str, Any] | None, seconds: float) -> None:
        if specification and specification["StreamEnabled"]:
            self.view, self.stream_began, self.records = specification["StreamViewType"], f"{seconds:.3f}", []
        elif specification:
            self.view = None

    def _index(self, definition: dict[str, Any], *, is_global: bool) -> Index:
        keys, projection = Keys.of(definition["KeySchema"]), definition["Projection"]
        attributes = None
        if projection.get("ProjectionType") != "ALL":
            attributes = frozenset([*self.keys.names, *keys.names, *projection.get("NonKeyAttributes", ())])
        return Index(definition["IndexName"], keys, is_global, attributes, definition)

    @property
    def arn(self) -> str:
        return f"arn:aws:dynamodb:{REGION}:{ACCOUNT}:table/{self.name}"

    @property
    def stream_arn(self) -> str:
        return f"{self.arn}/stream/{self.stream_began}"

    def key_of(self, item: Mapping[str, Value]) -> Item:
        return {name: item[name] for name in self.keys.names}

    def place_of_key(self, key: Mapping[str, Value]) -> Place:
        """The place of the item with this key, which was sent. Raises Refused if it is none of this table's."""
        keys = self.keys
        if len(key) != len(keys.names):
            raise invalid("The provided key element does not match the schema")
        for name in keys.names:
            self._check_key_value(key, name)
        return keys.place(key)

    def _check_key_value(self, key: Mapping[str, Value], name: str) -> None:
        kind = self.types[name]
        if name not in key or kind not in key[name]:
            raise invalid("The provided key element does not match the schema")
        checked(key[name])
        if key[name][kind] == "":
            what = "string" if kind == "S" else "binary"
            raise invalid(
                "One or more parameter values are not valid. The AttributeValue for a key attribute cannot contain an"
                f" empty {what} value. Key: {name}"
            )
        check_size(key[name], is_hash=name == self.keys.hash)

    def check_paths(self, paths: Iterable[Path]) -> None:
        """Raises Refused for a path into a key's attribute, or into that of an index's key."""
        for path in paths:
            if len(path) > 1 and path[0] in self.types:
                key = "Key" if path[0] in self.keys.names else "IndexKey"
                raise invalid(
                    "Key attributes must be scalars; list random access '[]' and map lookup '.' are not allowed:"
                    f" {key}: {path[0]}"
                )

    def check_item(self, item: Item) -> None:
        """Raises Refused if the item has no key of this table's, or if an index can't have it."""
        for name in self.keys.names:
            kind = self.types[name]
            if name not in item:
                raise invalid_parameter(f"Missing the key {name} in the item")
            if kind not in item[name]:
                raise invalid_parameter(f"Type mismatch for key {name} expected: {kind} actual: {kind_of(item[name])}")
            self._check_key_value(item, name)
        if fault := self.index_key_fault(item):
            raise fault.refused

    def index_key_fault(self, item: Item) -> IndexKeyFault | None:
        """The first value that the key of an index can't have."""
        faults = (key.fault(item[key.name]) for key in self._index_keys if key.name in item)
        return next(filter(None, faults), None)

    def check_index_key(self, attribute: str, found: str) -> None:
        """Raises Refused if the attribute is a key of an index, and values of this type can't be."""
        for key in self._index_keys:
            if key.name == attribute and key.kind != found:
                raise key.other_type(found).refused

    def get(self, place: Place, *, is_consistent: bool) -> Item | None:
        store = self.store if is_consistent or self.lagging is None else self.lagging
        return store.items.get(place)

    def write(self, place: Place, item: Item | None, seconds: float, *, is_expiry: bool = False) -> None:
        """Puts the item at this place, or removes the one that is there if it is None."""
        before = self.store.items.get(place)
        if item is None:
            self.store.remove(place)
        else:
            self.store.put(place, item)
        for index in self.indexes.values():
            self._write_to(index, place, before, item)
        if self.view is not None and before != item:
            self.records.append(Record(len(self.records) + 1, seconds, before, item, is_expiry))

    @staticmethod
    def _write_to(index: Index, place: Place, before: Item | None, after: Item | None) -> None:
        old = (*index.keys.place(before), place) if before is not None and index.has(before) else None
        new = (*index.keys.place(after), place) if after is not None and index.has(after) else None
        if old is not None and old != new:
            index.store.remove(old)
        entry = index.entry(after)
        if new is not None and entry is not None:
            index.store.put(new, entry)

    def index(self, name: str) -> Index:
        """Raises Refused if there is none of this name."""
        if name not in self.indexes:
            raise invalid(f"The table does not have the specified index: {name}")
        return self.indexes[name]

    def description(self, status: str = "ACTIVE") -> dict[str, Any]:
        items = self.store.items.values()
        described: dict[str, Any] = {
            "TableName": self.name,
            "TableArn": self.arn,
            "TableId": self.id,
            "TableStatus": status,
            "CreationDateTime": self.created_seconds,
            "KeySchema": _schema(self.keys),
            "AttributeDefinitions": [
                {"AttributeName": name, "AttributeType": kind} for name, kind in self.types.items()
            ],
            "ItemCount": len(items),
            "TableSizeBytes": sum(map(item_bytes, items)),
            "ProvisionedThroughput": {"NumberOfDecreasesToday": 0, **self.throughput},
            "DeletionProtectionEnabled": self.is_protected,
        }
        if self.billing == "PAY_PER_REQUEST":
            described["BillingModeSummary"] = {"BillingMode": self.billing}
        for parameter, is_global in (("LocalSecondaryIndexes", False), ("GlobalSecondaryIndexes", True)):
            of_kind = [index for index in self.indexes.values() if index.is_global == is_global]
            if of_kind:
                described[parameter] = [self._index_description(index) for index in of_kind]
        if self.view is not None:
            described["StreamSpecification"] = {"StreamEnabled": True, "StreamViewType": self.view}
            described["LatestStreamArn"] = self.stream_arn
            described["LatestStreamLabel"] = self.stream_began
        return described

    def _index_description(self, index: Index) -> dict[str, Any]:
        entries = index.store.items.values()
        described: dict[str, Any] = {
            "IndexName": index.name,
            "IndexArn": f"{self.arn}/index/{index.name}",
            "KeySchema": _schema(index.keys),
            "Projection": index.definition["Projection"],
            "ItemCount": len(entries),
            "IndexSizeBytes": sum(map(item_bytes, entries)),
        }
        if index.is_global:
            throughput = index.definition.get("ProvisionedThroughput", self.throughput)
            described |= {
                "IndexStatus": "ACTIVE",
                "ProvisionedThroughput": {"NumberOfDecreasesToday": 0, **throughput},
            }
        return described


def check_size(value: Value, *, is_hash: bool) -> None:
    """Raises Refused for a value that is too large for a key."""
    if too_large := _too_large(value, is_hash=is_hash):
        raise too_large


def _too_large(value: Value, *, is_hash: bool) -> Refused | None:
    if kind_of(value) == "N":
        return None
    content = scalar(value)
    size = len(content if isinstance(content, bytes) else str(content).encode())
    if is_hash and size > MAXIMUM_HASH_BYTES:
        return invalid_parameter("Size of hashkey has exceeded the maximum size limit of2048 bytes")
    if not is_hash and size > MAXIMUM_RANGE_BYTES:
        return invalid_parameter("Aggregated size of all range keys has exceeded the size limit of 1024 bytes")
    return None


def _schema(keys: Keys) -> list[dict[str, str]]:
    return [{"AttributeName": name, "KeyType": kind} for name, kind in zip(keys.names, ("HASH", "RANGE"), strict=False)]


def in_use(name: str) -> Refused:
    return Refused("ResourceInUseException", f"Table already exists: {name}")


def changes(table: Table, before: Item | None, after: Item | None) -> Iterator[tuple[Index, Item | None, Item | None]]:
    """The index's entries before and after, of each index that changes with the item."""
    for index in table.indexes.values():
        old, new = index.entry(before), index.entry(after)
        if old != new:
            yield index, old, new
