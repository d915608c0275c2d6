"""A stack that has a Locks table and nothing else, for the command about jobs. Its clock stands still."""

import itertools
from datetime import UTC, datetime
from typing import Any

from conditional_writes import Item
from conditional_writes.core.items import to_dynamodb
from conditional_writes.locks import Locks
from tests.support.clock import Clock
from tools.local_aws.server import Endpoint
from tools.local_aws.tables import create_locks_table

_numbers = itertools.count(1)


class LocksStack:
    def __init__(self, dynamodb: Endpoint) -> None:
        self._client, self.clock = dynamodb.client("dynamodb"), Clock()
        self.table = create_locks_table(dynamodb, f"locks-{next(_numbers)}")
        self.locks = Locks(self._client, self.table, now=self.clock)

    def __getitem__(self, output: str) -> str:
        return {"LocksTableName": self.table}[output]

    def client(self, _service: str) -> Any:
        return self._client

    @property
    def now(self) -> datetime:
        return datetime.fromtimestamp(self.clock.seconds, UTC)

    def put(self, item: Item) -> None:
        self._client.put_item(TableName=self.table, Item=to_dynamodb(item))
