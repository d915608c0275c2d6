"""Tables whose items are models, by a client whose calls are awaited."""

import functools
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from conditional_writes.asyncio.driver import awaitable
from conditional_writes.asyncio.table import AsyncVersionedTable, of_pages
from conditional_writes.core.steps import Deadline
from conditional_writes.models import Loaded, ModelTable
from conditional_writes.models.table import ModelWrites


class AsyncModelTable[Model](ModelWrites[Model, Any, AsyncVersionedTable]):
    """A `ModelTable` whose calls are awaited: `await flights.save(flight)`, `async for flight in flights.scan()`.

    Its parameters, its methods and their errors are those of `ModelTable`. `table` is an `AsyncVersionedTable`.
    """

    _kind_of_table = AsyncVersionedTable

    load = awaitable(ModelTable[Model].load)
    load_many = awaitable(ModelTable[Model].load_many)
    get = awaitable(ModelTable[Model].get)
    save = awaitable(ModelTable[Model].save)
    put_many = awaitable(ModelTable[Model].put_many)
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
