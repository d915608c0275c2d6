"""Tables whose items are models, by a client whose calls are awaited."""

import functools
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from conditional_writes.asyncio.driver import awaitable
from conditional_writes.asyncio.table import AsyncVersionedTable, of_pages
from conditional_writes.core.deadline import Deadline
from conditional_writes.core.requests import Condition
from conditional_writes.models import Codec, Loaded, ModelTable
from conditional_writes.models.table import ModelWrites

_load, _get, _save = awaitable(ModelTable.load), awaitable(ModelTable.get), awaitable(ModelTable.save)


class AsyncModelTable[Model](ModelWrites[Model]):
    """A `ModelTable` whose calls are awaited: `await flights.save(flight)`, `async for flight in flights.scan()`.

    Its parameters, its methods and their errors are those of `ModelTable`. `table` is an `AsyncVersionedTable`.
    """

    def __init__(  # noqa: PLR0913 (by name, all but the first two)
        self,
        client: Any,
        name: str,
        *key_names: str,
        model: type[Model] | Codec[Model],
        version: str = "version",
        checked: bool = True,
        ttl: str | None = None,
    ) -> None:
        self.table = AsyncVersionedTable(client, name, *key_names, version=version, checked=checked)
        super().__init__(self.table, model, ttl)

    async def load(
        self, *key_values: str | int | Decimal | bytes, deadline: Deadline | None = None
    ) -> Loaded[Model] | None:
        """As `ModelTable.load`."""
        return await _load(self, *key_values, deadline=deadline)

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
