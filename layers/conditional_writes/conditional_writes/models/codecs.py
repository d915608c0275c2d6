"""Models as items and items as models: what a codec is, what one knows of a class, and why there may be none."""

import dataclasses
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, NamedTuple, get_origin

from conditional_writes.core.items import Item


@dataclasses.dataclass(frozen=True, slots=True)
class Codec[Model]:
    """Two functions for any model: `encode` makes an item of a model, `decode` a model of an item.

    Items are as DynamoDB has them: text, bytes, bool, None, int, Decimal, and lists, sets and maps of them. `decode`
    gets the whole item with its version, 0 if it has none, but without the library's own attributes. Numbers that were
    stored are Decimals. It must take what `encode` makes. If it raises an error, the item doesn't fit the model.
    """

    encode: Callable[[Model], Item]
    decode: Callable[[Item], Model]


class Fields(NamedTuple):
    """A class's fields by the names of their attributes. `defaults` has those that are None or an empty set.

    `computed` names attributes that are written and never read. `tags` has names and values by which the members of
    unions are told from each other.
    """

    names: frozenset[str]
    defaults: Mapping[str, Any]
    computed: frozenset[str] = frozenset()
    tags: frozenset[tuple[str, Any]] = frozenset()

    def without_defaults(self, item: Item) -> Item:
        """The item without attributes that the model's default brings back: None and empty sets.

        DynamoDB has no empty set, and an index refuses None for its key.
        """
        return {name: value for name, value in item.items() if not self._is_default(name, value)}

    def _is_default(self, name: str, value: Any) -> bool:
        if name not in self.defaults:
            return False
        return value is None if self.defaults[name] is None else value in ([], set())


def makes_empty_set(factory: Any) -> bool:
    """Whether a field's `default_factory` is one as `set`, or `set[str]`."""
    return (get_origin(factory) or factory) in {set, frozenset}


class UnfitModel(TypeError):
    """A class that no codec can be made for. The text says why."""


UNFIT_KEYS = "has keys that an item doesn't have: give it keys of texts or whole numbers"


class Unfit(ValueError):
    """An item that a model can't be made of. The text names its fields, and says what was expected of each."""


def with_whole_numbers(value: Any) -> Any:
    """A deep copy with an int for each whole Decimal, because no model takes a Decimal for an int."""
    if isinstance(value, str):
        return value
    if isinstance(value, Decimal):
        return int(value) if value.is_finite() and value == value.to_integral_value() else value
    match value:
        case dict():
            return {name: with_whole_numbers(element) for name, element in value.items()}
        case list():
            return [with_whole_numbers(element) for element in value]
        case set():
            return {with_whole_numbers(element) for element in value}
    return value
