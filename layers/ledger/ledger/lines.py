"""The line in front of a contended account: its commits take turns, instead of refusing each other.

A refused commit is billed in full: 200 write units for 99 transactions. So a worker that has lost a commit to another
writer of an account marks the account as contended, and takes a ticket. While the account is contended, so does every
other worker that reads it. Commits follow the order of the tickets. Each notes its ticket as served, in the update of
the account, which it makes anyhow. Workers in line read the account; the read that ends the wait is what the commit
starts from.

The line is manners, and no lock: the account's version decides, as without a line. If the holder of a ticket dies, the
line goes on without it after PATIENCE_SECONDS. docs/decisions/hot-accounts.md
"""

import time
from typing import TYPE_CHECKING, NamedTuple

from conditional_writes import Deadline, Item, Key, Observed, Plan, Update, absent, at_most, exists, less_than, write
from conditional_writes.reading import read_one
from ledger.tables import ACCOUNT_ATTRIBUTES, CONTENDED_SECONDS, LedgerTables, Line

if TYPE_CHECKING:
    from types_boto3_dynamodb import DynamoDBClient

PATIENCE_SECONDS = 0.3
"""How long a line may stand still for each ticket ahead. Then the holders of these tickets are taken for dead."""
SHORTEST_TURN_SECONDS = 0.01
"""The pause before the account is read again, for each ticket ahead but one. A read and a commit hardly take less."""
MOST_WAITED_FOR = 5
"""The tickets ahead that are waited for while a line stands still."""
LONGEST_LINE = 100
"""The tickets ahead of a new one, at most. The messages of a commit beyond that return to their queue."""
RECORD_SECONDS = 14 * 24 * 3600
"""How long a line's record stays after its last ticket, until DynamoDB's TTL removes it. Then tickets begin anew."""


class LineTooLong(Exception):
    """So many commits wait for the account that the messages of the next one had better wait on their queue."""


class Ticket(NamedTuple):
    """A place in an account's line. `waited_seconds` is None if nobody was ahead."""

    number: int
    waited_seconds: float | None

    def served(self, line: Line) -> Item:
        """The attributes of the account once the ticket is served. `line` is the account's line before.

        If the next in line has lost its patience and was first, the line doesn't go back. If the line has begun anew,
        it does.
        """
        is_late = 0 < line.ticket_served - self.number <= LONGEST_LINE
        number = line.ticket_served if is_late else self.number
        return {"ticket_served": number} | (_contended() if self.waited_seconds is not None else {})


def _contended() -> Item:
    return {"contended_until": round((time.time() + CONTENDED_SECONDS) * 1000)}


class Lines(NamedTuple):
    """The lines of all accounts: their records are in the table Locks."""

    client: "DynamoDBClient"
    tables: LedgerTables

    def line_up(
        self, account_key: Key, account: Item | None, deadline: Deadline, *, lost: bool
    ) -> tuple[Ticket, Item | None]:
        """Takes a ticket and waits for its turn. Returns it with the account as it is then.

        `account` is the account as it was last seen. `lost` says whether the worker has just lost a commit of it: then
        the account is marked first. Costs a write unit, another one for a mark, and half a read unit for each look at
        the account. Raises LineTooLong, DeadlinePassed and botocore's errors.
        """
        if lost:
            account = self._mark(account_key, deadline)
        number = self._take_ticket(account_key, Line.of(account), deadline, any_length=lost)
        joined_at = moved_at = time.monotonic()
        waited_seconds = None
        while (ahead := number - Line.of(account).ticket_served - 1) > 0:
            if time.monotonic() - moved_at >= min(ahead, MOST_WAITED_FOR) * PATIENCE_SECONDS:
                break
            time.sleep(min((ahead - 1) * SHORTEST_TURN_SECONDS, PATIENCE_SECONDS))
            before, account = account, read_one(self.client, account_key, deadline, ACCOUNT_ATTRIBUTES)
            if (before or {}).get("version") != (account or {}).get("version"):
                moved_at = time.monotonic()
            waited_seconds = time.monotonic() - joined_at
        return Ticket(number, waited_seconds), account

    def _mark(self, account_key: Key, deadline: Deadline) -> Item | None:
        """Marks the account as contended. Returns it as it is now."""
        mark = Update(account_key, _contended(), exists("account_id"), return_new=True)
        return write(self.client, lambda _: Plan(None, [mark]), {}, deadline).found[account_key]

    def _take_ticket(self, account_key: Key, line: Line, deadline: Deadline, *, any_length: bool) -> int:
        """The number of a new ticket. With `any_length` it is taken however long the line is.

        A line may be long for tickets that nobody holds any more: those who lost a commit go on, and they end it.
        """
        # Not in the account's item: a write to it would get in the way of the transaction that is committing.
        record = self.tables.line_key(account_key)
        expiry = {"expires_at": int(time.time()) + RECORD_SECONDS}
        short = (
            None if any_length else absent("last_ticket") | at_most("last_ticket", line.ticket_served + LONGEST_LINE)
        )

        def plan(observed: Observed) -> Plan[None]:
            if record in observed:
                raise LineTooLong(f"{account_key}: more than {LONGEST_LINE} commits are ahead in its line")
            return Plan(None, [Update(record, expiry, short, added={"last_ticket": 1}, return_new=True)])

        found = write(self.client, plan, {}, deadline).found[record]
        assert found is not None, "the update returns the item"
        return int(found["last_ticket"])

    def leave(self, account_key: Key, ticket: Ticket, deadline: Deadline) -> None:
        """Gives up the turn of a ticket that no commit has served. One write unit."""
        is_next = exists("account_id") & (absent("ticket_served") | less_than("ticket_served", ticket.number))
        served = Update(account_key, ticket.served(Line()), is_next)
        # If the update is refused, a later ticket has been served, so that nobody waits for this one.
        write(self.client, lambda observed: Plan(None, [] if account_key in observed else [served]), {}, deadline)
