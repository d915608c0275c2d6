"""Versioned items, by a client whose calls are awaited."""

import asyncio
import contextlib
import functools
from collections.abc import AsyncIterator, Callable
from decimal import Decimal
from typing import Any, Concatenate, cast, override
from weakref import WeakValueDictionary

from conditional_writes.asyncio.driver import awaitable
from conditional_writes.core.items import Item, Key
from conditional_writes.core.steps import Deadline, DeadlinePassed, deadline_or_default
from conditional_writes.core.together import VersionedItem
from conditional_writes.versioned import queries
from conditional_writes.versioned.table import VersionedTable
from conditional_writes.versioned.writes import VersionedWrites

_read_page, _modify = awaitable(queries.Pages.read_page), awaitable(VersionedTable.modify)


class AsyncPages[Element](queries.PagesToRead[Element], AsyncIterator[Element]):
    """`Pages`, whose items come by `async for`, and whose `page()` is awaited."""

    _kind_of_turn = asyncio.Lock

    def each[Other](self, make: Callable[[Element], Other]) -> "AsyncPages[Other]":
        """As `Pages.each`."""
        return AsyncPages(*self._making(make))

    @override
    async def __anext__(self) -> Element:
        async with self._turn:
            while True:
                for item in self._left:
                    return self._made(item)
                if self._following is None:
                    raise StopAsyncIteration
                await _read_page(self)

    async def page(self) -> queries.Page[Element]:
        """As `Pages.page`."""
        async with self._turn:
            page = self._rest()
            if not page.items:
                await _read_page(self)
                page = self._rest()
            return page


def of_pages[First, **Parameters, Element](
    function: Callable[Concatenate[First, Parameters], queries.Pages[Element]],
) -> Callable[Concatenate[Any, Parameters], AsyncPages[Element]]:
    """The method itself: it returns what the table's own `_found` makes."""
    return cast("Callable[Concatenate[Any, Parameters], AsyncPages[Element]]", function)


class AsyncVersionedTable(VersionedWrites[Any]):
    """A `VersionedTable` whose calls are awaited: `await orders.save(order)`, `async for order in orders.scan()`.

    Its parameters, its methods and their errors are those of `VersionedTable`. `saving`, `deleting`, `checking` and all
    other methods that make no request are as there.

    Tasks of one event loop that modify an item do it one after the other: they would refuse each other's writes.
    """

    @functools.cached_property
    def _lines(self) -> WeakValueDictionary[tuple[int, Key], asyncio.Lock]:
        return WeakValueDictionary()

    @contextlib.asynccontextmanager
    async def _turn(self, key: Key, deadline: Deadline) -> AsyncIterator[None]:
        """A turn at the item, among the tasks of this event loop."""
        line = self._lines.setdefault((id(asyncio.get_running_loop()), key), asyncio.Lock())
        try:
            async with asyncio.timeout(deadline.remaining_seconds):
                await line.acquire()
        except TimeoutError:
            raise DeadlinePassed(f"no time is left: {key}, other tasks were first") from None
        try:
            yield
        finally:
            line.release()

    async def modify(
        self,
        *key_values: str | int | Decimal | bytes,
        change: Callable[[VersionedItem | None], Item],
        deadline: Deadline | None = None,
    ) -> VersionedItem:
        """As `VersionedTable.modify`, one task after the other. `change` is a plain function."""
        deadline = deadline_or_default(deadline)
        async with self._turn(self.key(*key_values), deadline):
            return await _modify(self, *key_values, change=change, deadline=deadline)

    load = awaitable(VersionedTable.load)
    load_many = awaitable(VersionedTable.load_many)
    get = awaitable(VersionedTable.get)
    save = awaitable(VersionedTable.save)
    put_many = awaitable(VersionedTable.put_many)
    update = awaitable(VersionedTable.update)
    add = awaitable(VersionedTable.add)
    delete = awaitable(VersionedTable.delete)
    upsert = awaitable(VersionedTable.upsert)
    query = of_pages(VersionedTable.query)
    scan = of_pages(VersionedTable.scan)

    def _found(
        self, operation: queries.Operation, request: dict[str, Any], deadline: Deadline | None
    ) -> AsyncPages[VersionedItem]:
        return AsyncPages(self._client, operation, request, deadline, self.fits, self._made(request))
