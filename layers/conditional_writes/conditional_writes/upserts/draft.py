"""An upsert's request while it is put together: its new values, and its conditions."""

from typing import Any

from conditional_writes.conditions import AttributePath, Condition, all_of, any_of
from conditional_writes.items import Key
from conditional_writes.requests import Update


class Draft:
    """The fields of an Update. The item must meet all `required` conditions, and none of the `forbidden` ones."""

    def __init__(self) -> None:
        self.values: dict[AttributePath, Any] = {}
        self.removed: list[tuple[str, ...]] = []
        self.added: dict[str, int] = {}
        self.required: list[Condition] = []
        self.forbidden: list[Condition] = []

    def update(self, key: Key) -> Update:
        refused = [~any_of(self.forbidden)] if self.forbidden else []
        return Update(key, self.values, all_of([*self.required, *refused]), self.removed, self.added)
