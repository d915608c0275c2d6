"""Tables whose items are models: dataclasses, msgspec structs, pydantic models, or any class with a codec.

`ModelTable` stands beside `VersionedTable` and isn't a form of it. One class would have three type parameters: what a
call returns, what it takes, and what `change` is given are one type for dicts and three for models. Without defaults
for type parameters, which Python 3.12 lacks, every `VersionedTable` in an annotation would have to name them.
"""

import functools
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, get_origin, overload

from conditional_writes.core.items import Item, Key, same, to_dynamodb
from conditional_writes.core.loop import Observed
from conditional_writes.core.requests import Check, Condition, Delete, Put, Update, absent, all_of, version_of
from conditional_writes.core.steps import Deadline, Steps, blocking, steps
from conditional_writes.core.together import VersionedItem
from conditional_writes.models.codecs import Codec, Unfit, UnfitModel
from conditional_writes.models.kinds import codec_of
from conditional_writes.versioned import VersionedTable
from conditional_writes.versioned.queries import Pages
from conditional_writes.versioned.writes import VersionedWrites

if TYPE_CHECKING:
    from types_boto3_dynamodb import DynamoDBClient  # noqa: F401 (in the class's base)

    from conditional_writes.upserts import MapEntry, Upserted


@dataclass(frozen=True, slots=True)
class Loaded[Model]:
    """A model as it was loaded, and the item that it was made of.

    Change the model in place if it can be changed, or give a changed copy to `changed_to`, and save that. The item is
    kept beside the model and not found by it, because the copy of a frozen model is another object.

    `version` is the item's, 0 if it has none. `item` has the attributes that the model doesn't know, too.
    """

    model: Model
    version: int
    item: VersionedItem = field(repr=False)
    known: Item = field(repr=False, compare=False)
    """The item as the model encoded it when it was loaded, before any change in place."""

    def changed_to(self, model: Model) -> "Loaded[Model]":
        return replace(self, model=model)


class Misfit(ValueError):
    """An item that isn't what its model expects. `key` is the item's; the text names the field."""

    def __init__(self, key: Key, model: str, why: str) -> None:
        super().__init__(key, model, why)
        self.key = key

    def __str__(self) -> str:
        key, model, why = self.args
        return f"{key}: isn't a {model}: {why}"


class ModelWrites[Model, Client, Table: VersionedWrites[Any]]:
    """A table's models, and the writes of them: what `ModelTable` and `AsyncModelTable` have in common."""

    _kind_of_table: type[Table]

    def __init__(  # noqa: PLR0913 (by name, all but the first two)
        self,
        client: Client,
        name: str,
        *key_names: str,
        model: type[Model] | Codec[Model],
        templates: Mapping[str, str] = {},
        version: str = "version",
        checked: bool = True,
        ttl: str | None = None,
    ) -> None:
        self.table = self._kind_of_table(
            client, name, *key_names, templates=templates, version=version, checked=checked
        )
        self._table_name, self._version = name, version
        self._model: type[Any] | None = None if isinstance(model, Codec) else get_origin(model) or model
        self._codec, self._fields = codec_of(model)
        self._tags = self._fields.tags if self._fields is not None else frozenset()
        self._ttl = ttl
        if ttl is not None and (self._fields is None or ttl not in self._fields.names):
            raise UnfitModel(f"{self._table_name}: {self._name} has no field {ttl}, which was to be the time to live")
        self._not_decoded = {*key_names} - (self._fields.names if self._fields is not None else {*key_names})
        for each in self.table._key_fields:
            if self._fields is not None and each not in self._fields.names:
                raise UnfitModel(
                    f"{self._table_name}: {self._name} has no field {each}, which is part of the table's key"
                )

    @property
    def _name(self) -> str:
        return "model" if self._model is None else self._model.__name__

    def key(self, *values: str | int | Decimal | bytes) -> Key:
        """As VersionedTable's."""
        return self.table.key(*values)

    def within(self, *values: str | int) -> Condition:
        """As VersionedTable's."""
        return self.table.within(*values)

    def load_from(self, observed: Observed, *key_values: str | int | Decimal | bytes) -> Loaded[Model] | None:
        """The model of the item as a plan's `observed` has it, None if it doesn't exist."""
        item = self.table.load_from(observed, *key_values)
        return None if item is None else self.loaded(item)

    def get_from(self, observed: Observed, *key_values: str | int | Decimal | bytes) -> Loaded[Model]:
        """As `load_from`, but raises NoSuchItem if the item doesn't exist."""
        return self.loaded(self.table.get_from(observed, *key_values))

    def loaded(self, item: VersionedItem) -> Loaded[Model]:
        """The model of an item from elsewhere, as from `Conflict.found`."""
        key = self.table.key_of(item)
        if not self.table.fits(item):
            raise Misfit(key, self._name, "its key is of another kind")
        model = self._decoded(key, item)
        return Loaded(model, version_of(key, item, self._version), item, self._encoded(model))

    def saving(
        self, model: Model | Loaded[Model], *, when: Condition | None = None, checked: bool | None = None
    ) -> Put | Update:
        """The write of a `save`, for `write_together` or a plan of your own."""
        item = self._item(model)
        return self.table.saving(item, when=_with_absent(item, when), checked=checked)

    def deleting(self, loaded: Loaded[Model], *, when: Condition | None = None, checked: bool | None = None) -> Delete:
        """The write of a `delete`, for the same."""
        return self.table.deleting(self._loaded_item(loaded), when=when, checked=checked)

    def checking(self, loaded: Loaded[Model], *, when: Condition | None = None) -> Check:
        """A check for a transaction that only read the model: the item still has the version that was loaded."""
        return self.table.checking(self._loaded_item(loaded), when=when)

    def _loaded_item(self, loaded: Loaded[Model]) -> VersionedItem:
        if not isinstance(loaded, Loaded):
            raise TypeError(f"{self._table_name}: expected a loaded {self._name}, got {loaded!r}")
        return loaded.item

    def _item(self, model: Model | Loaded[Model]) -> Item:
        """The item to save: a new one, or the loaded one with the model's changes. Raises Misfit before it is sent."""
        encoded = self._encoded(model.model if isinstance(model, Loaded) else model)
        if not isinstance(model, Loaded):
            item = encoded
        else:
            item = model.item.copy()
            item.clear()
            item.update(laid_over(model.item, model.known, encoded, self._tags))
        self._check_comes_back(self.table.key_of(item), item, encoded)
        return item

    def _check_comes_back(self, key: Key, item: Item, encoded: Item) -> None:
        """Raises Misfit if the item would be loaded as another model. A codec of the user's may write what it likes."""
        decoded = self._decoded(key, item)
        if self._fields is None:
            return
        written, read = (
            {name: value for name, value in each.items() if name not in self._fields.computed}
            for each in (encoded, self._encoded(decoded))
        )
        lost = _lost("", item, written, read)
        if lost is not None:
            to_dynamodb(item)  # raises an error of its own for a float, or for a number that DynamoDB can't hold
            raise Misfit(key, self._name, f"{lost} would be loaded as another value than the one that is saved")

    def _encoded(self, model: Model) -> Item:
        if self._model is not None and type(model) is not self._model:
            raise TypeError(f"{self._table_name}: expected a {self._name}, or a loaded one; got {model!r}")
        item = self._codec.encode(model)
        if not isinstance(item, dict):
            raise TypeError(f"{self._table_name}: `encode` returned {item!r}, expected an item")
        item.pop(self._version, None)
        if self._ttl is not None and item.get(self._ttl) is not None:
            item[self._ttl] = self._seconds(item[self._ttl])
        return item

    def _seconds(self, text: Any) -> int:
        """A time as DynamoDB's TTL has it. Raises TypeError for what is none, or has no offset from UTC."""
        at = datetime.fromisoformat(text) if isinstance(text, str) else None
        if at is None or at.tzinfo is None:
            raise TypeError(f"{self._table_name}: {self._ttl} is {text!r}, expected a datetime with its time zone")
        return math.floor(at.timestamp())

    def _decoded(self, key: Key, item: Item) -> Model:
        if self._fields is None or self._version in self._fields.names:
            item = {self._version: 0, **item}
        else:
            item = {name: value for name, value in item.items() if name != self._version}
        if self._not_decoded:  # they are made of fields
            item = {name: value for name, value in item.items() if name not in self._not_decoded}
        if self._ttl is not None and isinstance(item.get(self._ttl), Decimal | int):
            try:
                item = item | {self._ttl: datetime.fromtimestamp(int(item[self._ttl]), UTC).isoformat()}
            except (ValueError, OverflowError):
                why = f"{self._ttl}: {item[self._ttl]}, expected seconds since the epoch, up to the year 9999"
                raise Misfit(key, self._name, why) from None
        try:
            return self._codec.decode(item)
        except Unfit as error:
            raise Misfit(key, self._name, str(error)) from None
        except Exception as error:
            raise Misfit(key, self._name, repr(error)) from error

    def _changed(self, key: Key, change: Callable[[Model | None], Model], found: VersionedItem | None) -> Item:
        """The item as `change` makes it. Raises TypeError if that is no model."""
        before = None if found is None else self.loaded(found)
        after = change(None if before is None else before.model)
        if after is None or (self._model is not None and type(after) is not self._model):
            raise TypeError(f"{key}: `change` returned {after!r}, expected the {self._name} as it should be")
        return self._item(after if before is None else before.changed_to(after))


@overload
def one_of[A, B](
    one: ModelWrites[A, Any, Any], two: ModelWrites[B, Any, Any], /
) -> Callable[[VersionedItem], Loaded[A] | Loaded[B]]: ...


@overload
def one_of[A, B, C](
    one: ModelWrites[A, Any, Any], two: ModelWrites[B, Any, Any], three: ModelWrites[C, Any, Any], /
) -> Callable[[VersionedItem], Loaded[A] | Loaded[B] | Loaded[C]]: ...


@overload
def one_of(*tables: ModelWrites[Any, Any, Any]) -> Callable[[VersionedItem], Loaded[Any]]: ...


def one_of(*tables: ModelWrites[Any, Any, Any]) -> Callable[[VersionedItem], Loaded[Any]]:
    """Makes models of several kinds of items: `shop.query(…).each(one_of(customers, orders))`.

    Each item is loaded by the first table whose templates its key fits. Raises Misfit if there is none. Type checkers
    know the models of up to three tables.
    """

    def loaded(item: VersionedItem) -> Loaded[Any]:
        for table in tables:
            if table.table.fits(item):
                return table.loaded(item)
        raise Misfit(tables[0].table.key_of(item), " or ".join(each._name for each in tables), "its key is of no kind")

    return loaded


class ModelTable[Model](ModelWrites[Model, "DynamoDBClient", VersionedTable]):
    """A VersionedTable whose items are models: `ModelTable(client, "Flights", "flight_id", model=Flight)`.

    `model` is a dataclass, a Struct of msgspec's, a model of pydantic's, or a Codec. `table` is the same table without
    models, for what a model can't say. With `templates`, as VersionedTable's, a model has the fields that these name,
    and needn't have the key's own.

    A save writes the attributes in which the model changed. Attributes that the model doesn't know stay as they are,
    also in its nested models, and so does a stored text that says the same in other words. An element of a list that
    changed is written as the model has it. If the model has a field with the version's name, it is filled with the
    version, 0 if there is none, and its value isn't saved.

    `ttl` names a field with a datetime that is stored as DynamoDB's time to live: a number, in whole seconds since the
    epoch. Fractions of a second are dropped, and it is loaded in UTC.

    A field that is None, or an empty set, is no attribute if that is its default. Elsewhere None is DynamoDB's NULL,
    and an empty set is an empty list, because DynamoDB has none.

    Every call may raise Misfit, for an item that doesn't fit the model, and what VersionedTable's call of the same name
    raises. A model that doesn't fit isn't written. Making the table raises UnfitModel if no item can be such a model.
    """

    _kind_of_table = VersionedTable

    @blocking
    def load(
        self, *key_values: str | int | Decimal | bytes, deadline: Deadline | None = None
    ) -> Steps[Loaded[Model] | None]:
        """The model of the item as it is now (a consistent read), None if it doesn't exist."""
        item = yield from steps(VersionedTable.load)(self.table, *key_values, deadline=deadline)
        return None if item is None else self.loaded(item)

    @blocking
    def get(self, *key_values: str | int | Decimal | bytes, deadline: Deadline | None = None) -> Steps[Loaded[Model]]:
        """As `load`, but raises NoSuchItem if the item doesn't exist."""
        return self.loaded((yield from steps(VersionedTable.get)(self.table, *key_values, deadline=deadline)))

    @blocking
    def load_many(self, keys: Iterable[Key], *, deadline: Deadline | None = None) -> Steps[list[Loaded[Model] | None]]:
        """The models of these keys, in their order; None for each that doesn't exist. As VersionedTable's."""
        items = yield from steps(VersionedTable.load_many)(self.table, keys, deadline=deadline)
        return [None if item is None else self.loaded(item) for item in items]

    @blocking
    def put_many(self, models: Iterable[Model], *, deadline: Deadline | None = None) -> Steps[list[Loaded[Model]]]:
        """Creates the models that aren't there yet, and returns those that were. As VersionedTable's.

        If one that was there doesn't fit, Misfit is raised after the others were created.
        """
        there = yield from steps(VersionedTable.put_many)(self.table, map(self._item, models), deadline=deadline)
        return [*map(self.loaded, there)]

    def query(  # noqa: PLR0913 (as VersionedTable's)
        self,
        condition: Condition,
        *,
        index: str | None = None,
        matching: Condition | None = None,
        consistent: bool = False,
        descending: bool = False,
        page_size: int | None = None,
        after: Key | str | None = None,
        deadline: Deadline | None = None,
    ) -> Pages[Loaded[Model]]:
        """As VersionedTable's, with values as the item has them: a datetime as its text. The models can be saved.

        If an index doesn't project an attribute, the field has its default, or the item is a Misfit. If you change such
        a field, the save is a Conflict if the item has the attribute after all.
        """
        items = self.table.query(
            condition,
            index=index,
            matching=matching,
            consistent=consistent,
            descending=descending,
            page_size=page_size,
            after=after,
            deadline=deadline,
        )
        return items.each(self.loaded)

    def scan(  # noqa: PLR0913 (as VersionedTable's)
        self,
        *,
        index: str | None = None,
        matching: Condition | None = None,
        consistent: bool = False,
        page_size: int | None = None,
        after: Key | str | None = None,
        segment: tuple[int, int] | None = None,
        deadline: Deadline | None = None,
    ) -> Pages[Loaded[Model]]:
        """As VersionedTable's. The models can be saved, as those of `query`."""
        items = self.table.scan(
            index=index,
            matching=matching,
            consistent=consistent,
            page_size=page_size,
            after=after,
            segment=segment,
            deadline=deadline,
        )
        return items.each(self.loaded)

    @blocking
    def upsert(
        self,
        *key_values: str | int | Decimal | bytes,
        entries: "Iterable[MapEntry]",
        forget_after: timedelta | None = None,
        deadline: Deadline | None = None,
    ) -> "Steps[Upserted]":
        """As VersionedTable's: entries are written without the model, so they aren't held against it."""
        return steps(VersionedTable.upsert)(
            self.table, *key_values, entries=entries, forget_after=forget_after, deadline=deadline
        )

    @blocking
    def save(
        self,
        model: Model | Loaded[Model],
        *,
        when: Condition | None = None,
        checked: bool | None = None,
        deadline: Deadline | None = None,
    ) -> Steps[Loaded[Model]]:
        """Saves a model that was loaded, or creates an item of one that wasn't. Returns it with its new version.

        Raises Conflict, and ValueError for a model that can't be saved. If a save is unchecked, Misfit may be raised
        after it was made: for what other writers changed in the item.
        """
        item = self._item(model)
        saving = steps(VersionedTable.save)(
            self.table, item, when=_with_absent(item, when), checked=checked, deadline=deadline
        )
        return self.loaded((yield from saving))

    @blocking
    def modify(
        self,
        *key_values: str | int | Decimal | bytes,
        change: Callable[[Model | None], Model],
        deadline: Deadline | None = None,
    ) -> Steps[Loaded[Model]]:
        """Reads the model, changes it and saves it; after each conflict it changes and saves the newer one.

        `change` gets the model, None if there is no item, and returns the model as it should be: a copy, or the same
        one changed in place. It is called again after each conflict, and otherwise as VersionedTable's.
        """
        change_item = functools.partial(self._changed, self.key(*key_values), change)
        modifying = steps(VersionedTable.modify)(self.table, *key_values, change=change_item, deadline=deadline)
        return self.loaded((yield from modifying))

    @blocking
    def delete(
        self,
        loaded: Loaded[Model],
        *,
        when: Condition | None = None,
        checked: bool | None = None,
        deadline: Deadline | None = None,
    ) -> Steps[None]:
        """Deletes what was loaded. Raises as VersionedTable's."""
        item = self._loaded_item(loaded)
        return steps(VersionedTable.delete)(self.table, item, when=when, checked=checked, deadline=deadline)


def _with_absent(item: Item, when: Condition | None) -> Condition | None:
    """`when`, and that the item lacks what its index lacks: else a model's default would pass for what was there."""
    if not isinstance(item, VersionedItem) or item.index is None:
        return when
    conditions = [absent(name) for name in item if name not in item.loaded]
    return all_of([*conditions, when] if when is not None else conditions) if conditions else when


def _lost(path: str, stored: Any, written: Any, read: Any) -> str | None:
    """The path of a value that the model wrote and would read as another one; None if there is none.

    `stored` is what both are about. It may lack what the model reads as its default.
    """
    match stored, written, read:
        case dict(), dict(), dict():
            for name in written.keys() | read.keys():
                if name in written and name not in stored:
                    continue
                below = f"{path}.{name}" if path else name
                if name not in written or name not in read:
                    return below
                lost = _lost(below, stored[name], written[name], read[name])
                if lost is not None:
                    return lost
            return None
        case list(), list() | tuple(), list() | tuple() if len(stored) == len(written) == len(read):
            lost_ones = (
                _lost(f"{path}[{i}]", *three) for i, three in enumerate(zip(stored, written, read, strict=True))
            )
            return next((lost for lost in lost_ones if lost is not None), None)
    return None if same(written, read) else path


def laid_over(stored: Item, known: Item, after: Item, tags: Collection[tuple[str, Any]] = ()) -> Item:
    """`stored` with the model's changes from `known` to `after`. All else stays as it is stored.

    A map whose tag changes is another model's from then on, and nothing of it stays.
    """
    changed = {name: value for name, value in stored.items() if name not in known or name in after}
    for name, value in after.items():
        if name not in known:
            changed[name] = value
        elif not same(known[name], value):
            changed[name] = _laid_over(stored[name], known[name], value, tags) if name in stored else value
    return changed


def _laid_over(stored: Any, known: Any, after: Any, tags: Collection[tuple[str, Any]]) -> Any:
    match stored, known, after:
        case dict(), dict(), dict():
            is_another = any(known.get(name) == value != after.get(name) for name, value in tags)
            return after if is_another else laid_over(stored, known, after, tags)
        case list(), list() | tuple(), list() | tuple() if len(stored) == len(known):
            first = _same_from_start(known, after)
            last = min(_same_from_start(known[::-1], after[::-1]), len(known) - first, len(after) - first)
            return [*stored[:first], *after[first : len(after) - last], *stored[len(stored) - last :]]
    return after


def _same_from_start(one: Sequence[Any], other: Sequence[Any]) -> int:
    """How many elements both lists begin with."""
    pairs = zip(one, other, strict=False)
    return next((count for count, (a, b) in enumerate(pairs) if not same(a, b)), min(len(one), len(other)))
