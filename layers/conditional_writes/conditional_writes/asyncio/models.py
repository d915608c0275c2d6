"""Tables whose items are models, by a client whose calls are awaited."""

import functools
from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import Any

from conditional_writes.asyncio.driver import awaitable
from conditional_writes.asyncio.table import AsyncVersionedTable, of_pages
from conditional_writes.core.items import Key
from conditional_writes.core.requests import Condition
from conditional_writes.core.steps import Deadline
from conditional_writes.models import Loaded, ModelTable
from conditional_writes.models.table import ModelWrites

# Methods whose results are named below: pyright would lose the model in what `awaitable` makes in the class.
_load, _get, _save = awaitable(ModelTable.load), awaitable(ModelTable.get), awaitable(ModelTable.save)
_load_many, _put_many = awaitable(ModelTable.load_many), awaitable(ModelTable.put_many)


class AsyncModelTable[Model](ModelWrites[Model, Any, AsyncVersionedTable]):
    """A `ModelTable` whose calls are awaited: `await flights.save(flight)`, `async for flight in flights.scan()`.

    Its parameters, its methods and their errors are those of `ModelTable`. `table` is an `AsyncVersionedTable`.
    """

    _kind_of_table = AsyncVersionedTable

    async def load(
        self, *key_values: str | int | Decimal | bytes, deadline: Deadline | None = None
    ) -> Loaded[Model] | None:
        """As `ModelTable.load`."""
        return await _load(self, *key_values, deadline=deadline)

    async def load_many(self, keys: Iterable[Key], *, deadline: Deadline | None = None) -> list[Loaded[Model] | None]:
        """As `ModelTable.load_many`."""
        return await _load_many(self, keys, deadline=deadline)

    async def get(self, *key_values: str | int | Decimal | bytes, deadline: Deadline | None = None) -> Loaded[Model]:
        """As `ModelTable.get`."""
        return await _get(self, *key_values, deadline=deadline)

    async def save(
        self,
        model: Model | Loaded[Model],
        *,
        when: Condition | None = None,
        checked: bool | None = None,
        deadline: Deadline | None = None,
    ) -> Loaded[Model]:
        """As `ModelTable.save`."""
        return await _save(self, model, when=when, checked=checked, deadline=deadline)

    async def put_many(self, models: Iterable[Model], *, deadline: Deadline | None = None) -> list[Loaded[Model]]:
        """As `ModelTable.put_many`."""
        return await _put_many(self, models, deadline=deadline)

    delete = awaitable(ModelTable[Model].delete)
    upsert = awaitable(ModelTable[Model].upsert)
    query = of_pages(ModelTable[Model].query)
    scan = of_pages(ModelTable[Model].scan)

    async def modify(
        self,
        *key_values: str | int | Decimal | bytes,
        change: Callable[[Model | None], Model],
        deadline: Deadline | None = None,
    ) -> Loaded[Model]:
        """As `ModelTable.modify`, one task after the other. `change` is a plain function."""
        change_item = functools.partial(self._changed, self.key(*key_values), change)
        return self.loaded(await self.table.modify(*key_values, change=change_item, deadline=deadline))
