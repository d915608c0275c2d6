"""All that the engine has: tables, transactions' tokens, and what a test wants to be refused."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from conditional_writes.testing import definitions
from conditional_writes.testing.clock import Clock
from conditional_writes.testing.errors import Refused, no_such_table
from conditional_writes.testing.store import Place
from conditional_writes.testing.tables import Table

TOKEN_SECONDS = 600
"""How long a transaction's ClientRequestToken is known: botocore's model, ClientRequestToken."""

type Request = Mapping[str, Any]
type Answer = dict[str, Any]


class Taken(NamedTuple):
    """A transaction that took effect: its request, and when."""

    request: Request
    seconds: float


@dataclass
class Refusal:
    """Calls that a test wants refused: so many more that touch this table, this item of it, or this index."""

    code: str
    table: str
    place: Place | None
    index: str | None
    times: float

    def hits(self, table: str, place: Place | None, index: str | None, *, is_read: bool) -> bool:
        return (
            self.times > 0
            and self.table == table
            and not (is_read and self.code == CONFLICT)  # DynamoDB reads the item as it was before the transaction
            and (self.place is None or self.place == place)
            and self.index == index
        )


@dataclass
class Database:
    clock: Clock
    tables: dict[str, Table] = field(default_factory=dict)
    taken: dict[str, Taken] = field(default_factory=dict)
    refusals: list[Refusal] = field(default_factory=list)

    def table(self, name: str) -> Table:
        """The table of this name or ARN. Raises Refused if there is none."""
        table = self.tables.get(name) or self.tables.get(name.rpartition("table/")[2])
        if table is None:
            if not name.startswith("arn:"):
                definitions.check_name(name)
            raise no_such_table()
        return table

    def refusal(
        self, table: Table, place: Place | None = None, index: str | None = None, *, is_read: bool = False
    ) -> str | None:
        """The error's code if a test wants this call refused. Counts it. A read, unless a transaction's, meets no
        conflict."""
        for refusal in self.refusals:
            if refusal.hits(table.name, place, index, is_read=is_read):
                refusal.times -= 1
                return refusal.code
        return None

    def check_refusals(
        self, table: Table, place: Place | None = None, index: str | None = None, *, is_read: bool = False
    ) -> None:
        """Raises Refused if a test wants this call refused."""
        if self.refusals and (code := self.refusal(table, place, index, is_read=is_read)):
            raise Refused(code, REFUSALS[code])

    def taken_by(self, token: str) -> Taken | None:
        """The token's first request, unless its time is over. The oldest tokens whose time is over are forgotten."""
        over = self.clock.time() - TOKEN_SECONDS
        while self.taken and self.taken[oldest := next(iter(self.taken))].seconds <= over:
            del self.taken[oldest]
        taken = self.taken.get(token)
        return taken if taken and taken.seconds > over else None


CONFLICT = "TransactionConflictException"
THROTTLED = "ThrottlingException"
EXCEEDED = "ProvisionedThroughputExceededException"
REFUSALS = {
    CONFLICT: "Transaction is ongoing for the item",
    THROTTLED: "Throughput exceeds the current capacity of your table or index. DynamoDB is automatically scaling your"
    " table or index so please try again shortly.",
    EXCEEDED: "The level of configured provisioned throughput for the table was exceeded. Consider increasing your"
    " provisioning level with the UpdateTable API.",
}
REASONS = {CONFLICT: "TransactionConflict", THROTTLED: "ThrottlingError", EXCEEDED: "ProvisionedThroughputExceeded"}
"""The codes of the same refusals inside of a cancelled transaction."""
