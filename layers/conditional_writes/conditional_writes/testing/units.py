"""The capacity units that calls consume, by the published rules.

https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/read-write-operations.html
"""

import math
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from conditional_writes.testing.tables import Index, Table, changes
from conditional_writes.testing.values import Item, item_bytes

READ_BYTES, WRITE_BYTES = 4096, 1024


class Units:
    """The capacity that one call has consumed, of tables and of their indexes.

    `of_transactions`: a transaction's answer says, too, which units are those of reads and which of writes.
    """

    def __init__(self, request: dict[str, Any], *, of_transactions: bool = False) -> None:
        self.wanted = request.get("ReturnConsumedCapacity", "NONE")
        self._factor = 2 if of_transactions else 1
        self._of_transactions = of_transactions
        self._of_tables: defaultdict[str, float] = defaultdict(float)
        self._of_indexes: defaultdict[str, dict[Index, float]] = defaultdict(dict)
        self._is_read = False

    def read(self, table: Table, size: int, *, is_consistent: bool, index: Index | None = None) -> None:
        """A read of so many bytes, of which those of one query count together."""
        self._is_read = True
        units = max(1, math.ceil(size / READ_BYTES)) * self._factor * (1 if is_consistent else 0.5)
        if index is None:
            self._of_tables[table.name] += units
        else:
            self._of_tables[table.name] += 0
            self._add(table, index, units)

    def write(self, table: Table, before: Item | None, after: Item | None) -> None:
        """A write counts the larger of the items before and after. So does each index, if its entry changes.

        A transaction counts twice in the table alone: its indexes are written once, after it.
        """
        if self.wanted == "NONE":
            return
        self._of_tables[table.name] += self._factor * _written(before, after)
        for index, old, new in changes(table, before, after):
            if old is not None and new is not None and index.keys.place(old) != index.keys.place(new):
                units = _written(old) + _written(new)
            else:
                units = _written(old, new)
            self._add(table, index, units)

    def _add(self, table: Table, index: Index, units: float) -> None:
        of_indexes = self._of_indexes[table.name]
        of_indexes[index] = of_indexes.get(index, 0) + units

    def of(self, table: Table) -> dict[str, Any]:
        """The part of an answer that has one table's units. Empty if they weren't asked for."""
        return {"ConsumedCapacity": self._described(table.name)} if self.wanted != "NONE" else {}

    def of_all(self) -> dict[str, Any]:
        """The part of an answer that has the units of each table."""
        if self.wanted == "NONE":
            return {}
        return {"ConsumedCapacity": [self._described(name) for name in self._of_tables]}

    def _described(self, table: str) -> dict[str, Any]:
        of_indexes = self._of_indexes[table]
        kind = "ReadCapacityUnits" if self._is_read else "WriteCapacityUnits"

        def described(units: float) -> dict[str, Any]:
            return {"CapacityUnits": units} | ({kind: units} if self._of_transactions else {})

        whole = {"TableName": table, **described(self._of_tables[table] + sum(of_indexes.values()))}
        if self.wanted != "INDEXES":
            return whole
        whole["Table"] = described(self._of_tables[table])
        for parameter, is_global in (("LocalSecondaryIndexes", False), ("GlobalSecondaryIndexes", True)):
            of_kind = {index: units for index, units in of_indexes.items() if index.is_global == is_global}
            if of_kind:
                whole[parameter] = {index.name: described(units) for index, units in of_kind.items()}
        return whole


def _written(*items: Item | None) -> int:
    return max(1, math.ceil(_largest(items) / WRITE_BYTES))


def _largest(items: Iterable[Item | None]) -> int:
    return max((item_bytes(item) for item in items if item is not None), default=0)
