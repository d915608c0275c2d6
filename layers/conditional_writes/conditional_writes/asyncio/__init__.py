"""The library's calls, to be awaited: by aiobotocore's client of DynamoDB, or another whose calls are awaited.

What a call plans, sends and retries is the same code as without asyncio. Names are those of the package; the classes
begin with Async. All that makes no request is the package's own: plans, writes, conditions, deadlines, errors.
"""

from conditional_writes import upserts
from conditional_writes.asyncio.client import async_dynamodb_client
from conditional_writes.asyncio.driver import awaitable
from conditional_writes.asyncio.exactly_once import AsyncExactlyOnce
from conditional_writes.asyncio.locks import AsyncLock, AsyncLocks
from conditional_writes.asyncio.models import AsyncModelTable
from conditional_writes.asyncio.table import AsyncVersionedTable
from conditional_writes.core import loop, together, unconditional

__all__ = [
    "AsyncExactlyOnce",
    "AsyncLock",
    "AsyncLocks",
    "AsyncModelTable",
    "AsyncVersionedTable",
    "async_dynamodb_client",
    "erase",
    "read",
    "upsert",
    "write",
    "write_together",
]

read = awaitable(unconditional.read)
write = awaitable(loop.write)
write_together = awaitable(together.write_together)
upsert = awaitable(upserts.upsert)
erase = awaitable(upserts.erase)
