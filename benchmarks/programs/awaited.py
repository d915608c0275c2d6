"""Read-modify-writes by calls that block and by calls that are awaited, in turn, in one process. Prints JSON.

The first argument is a table, whose key is `order_id`. botocore's and aiobotocore's clients make such requests, too:
what they take isn't the library's.
"""

import asyncio
import json
import resource
import sys
import time
from collections.abc import Awaitable, Callable
from statistics import median
from typing import Any

from aiobotocore.session import get_session

from conditional_writes import Deadline, VersionedTable, dynamodb_client
from conditional_writes.asyncio import AsyncVersionedTable, async_dynamodb_client

ROUNDS, EACH_ROUND, AT_ONCE = 15, 40, 1000
TABLE = sys.argv[1]
ITEM = {"count": 1, "note": "x" * 240}
READ = {"TableName": TABLE, "ConsistentRead": True}
WRITE = {
    "TableName": TABLE,
    "UpdateExpression": "SET #2=:2,#0=:3,#1=:4",
    "ConditionExpression": "(#0 <> :0) AND (#1 <> :1)",
    "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
    "ExpressionAttributeNames": {"#0": "version", "#1": "cw:version_id", "#2": "count"},
    "ExpressionAttributeValues": {
        ":0": {"N": "0"},
        ":1": {"S": "0" * 32},
        ":2": {"N": "2"},
        ":3": {"N": "2"},
        ":4": {"S": "1" * 32},
    },
}
"""The parameters of a `modify`'s requests, whose condition holds again and again."""

type Way = Callable[[str], Awaitable[None]]


def one_more(order: Any) -> Any:
    return order | {"count": order["count"] + 1}


async def at_once(way: Way, ids: list[str]) -> None:
    await asyncio.gather(*map(way, ids))


async def in_turn(way: Way, ids: list[str]) -> None:
    for order_id in ids:
        await way(order_id)


async def main() -> None:
    blocking = dynamodb_client()
    orders = VersionedTable(blocking, TABLE, "order_id")
    ids = [f"order-{number}" for number in range(AT_ONCE)]
    orders.put_many({"order_id": order_id, **ITEM} for order_id in ids)

    async def modify(order_id: str) -> None:
        orders.modify(order_id, change=one_more)

    async def by_botocore(order_id: str) -> None:
        key = {"order_id": {"S": order_id}}
        blocking.get_item(Key=key, **READ)
        blocking.update_item(Key=key, **WRITE)

    def modifying(client: Any) -> Way:
        table = AsyncVersionedTable(client, TABLE, "order_id")

        async def modify(order_id: str) -> None:
            await table.modify(order_id, change=one_more, deadline=Deadline.after(600))

        return modify

    async with async_dynamodb_client() as awaited, get_session().create_client("dynamodb") as of_aiobotocore:

        async def by_aiobotocore(order_id: str) -> None:
            key = {"order_id": {"S": order_id}}
            await awaited.get_item(Key=key, **READ)
            await awaited.update_item(Key=key, **WRITE)

        ways: dict[str, tuple[Any, Way]] = {
            "`modify`, blocking": (in_turn, modify),
            "`modify`, awaited, at once": (at_once, modifying(awaited)),
            "`modify`, awaited, one after another": (in_turn, modifying(awaited)),
            "the same, aiobotocore's settings, at once": (at_once, modifying(of_aiobotocore)),
            "the same, one after another": (in_turn, modifying(of_aiobotocore)),
            "botocore's client": (in_turn, by_botocore),
            "aiobotocore's client, at once": (at_once, by_aiobotocore),
            "aiobotocore's client, one after another": (in_turn, by_aiobotocore),
        }
        times: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(ROUNDS + 1):
            for name, (take, way) in ways.items():
                started = time.process_time()
                await take(way, ids[:EACH_ROUND])
                times[name].append((time.process_time() - started) / EACH_ROUND * 1000)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        await at_once(modifying(awaited), ids)
        kilobytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    milliseconds = {name: median(each[1:]) for name, each in times.items()}
    print(json.dumps({"milliseconds": milliseconds, "megabytes": kilobytes / 1000}))


asyncio.run(main())
