"""The line of a contended account: groups of messages commit in turn, instead of refusing each other.

A refused commit is billed in full: 200 write units for 99 transactions. So if a group has lost an account twice to
other writers, its worker marks the account as contended, and takes a ticket. While the mark lasts, each worker that
reads the account takes a ticket, too, and waits until the ticket before its own is served. A group's last commit notes
its ticket as served, in the update of the account that it makes in any case.

A ticket is advice, and no lock: the account's version decides, as without it. If the holder of a ticket dies, the line
goes on after PATIENCE_SECONDS. docs/decisions/hot-accounts.md
"""

import logging
import time
from decimal import Decimal
from typing import TYPE_CHECKING, NamedTuple, Self

from botocore.exceptions import BotoCoreError, ClientError

from conditional_writes import (
    Deadline,
    Item,
    Key,
    Observed,
    Plan,
    Update,
    absent,
    at_most,
    exists,
    key,
    less_than,
    write,
)
from conditional_writes.core.unconditional import read_one
from ledger.core.reason_codes import LineTooLong
from ledger.tables import ACCOUNT_ATTRIBUTES, CONTENDED_SECONDS, Line

if TYPE_CHECKING:
    from types_boto3_dynamodb import DynamoDBClient

logger = logging.getLogger(__name__)

PATIENCE_SECONDS = 0.3
"""How long a line may stand still for each ticket ahead. Then the holders of these tickets are taken for dead."""
SHARED_PATIENCE_SECONDS = 2.0
"""The same of the shared line, whose turns are those of whole batches."""
MOST_WAITED_FOR = 5
"""Of the tickets ahead, those that count for the patience."""
SHORTEST_TURN_SECONDS = 0.01
"""The pause before the account is read again, for each ticket ahead but one. A read and a commit hardly take less."""
LONGEST_PAUSE_SECONDS = 0.3
SERVED_ATTRIBUTES = ("lock_key", "ticket_served")
"""Those that a look at the shared line reads."""
LONGEST_LINE = 100
"""The tickets ahead of a new one, at most: so nobody waits until the deadline, after which a ticket is never served."""
LONGEST_LIVE_LINE = 1_000
"""The invocations that a queue may have at once, by template.yaml: with more tickets ahead, a record is damaged."""
RECORD_SECONDS = 14 * 24 * 3600
"""How long a line's record stays after its last ticket, until DynamoDB's TTL removes it. Then tickets begin anew."""


class Ticket(NamedTuple):
    """A place in an account's line.

    If tickets were ahead, `waited_seconds` says how long it waited for its turn, and `mark` has the attribute that
    keeps the account contended.
    """

    number: int
    waited_seconds: float | None = None
    mark: Item | None = None

    def served(self, line: Line) -> Item:
        """The account's attributes once the ticket is served. `line` is the account's line before.

        If a later ticket was served before, the number stays: the next in line had lost its patience. A number that is
        larger by more than the longest line is one of a record that was deleted: tickets have begun anew.
        """
        is_late = 0 < line.ticket_served - self.number <= LONGEST_LINE
        return {"ticket_served": line.ticket_served if is_late else self.number} | (self.mark or {})


class Mark(NamedTuple):
    """Keeps an account contended, without a ticket of its line."""

    contended_until: int

    @classmethod
    def from_now(cls) -> Self:
        return cls(**_contended_from_now())

    def served(self, _: Line) -> Item:
        return self._asdict()


class Lines(NamedTuple):
    """The lines of all accounts. The table Locks has a record of each: the number of its last ticket.

    Groups with many contended accounts have a line that all of them share. The ticket that was served last has a record
    of its own: a new ticket must not cancel the commit that serves one.
    """

    client: "DynamoDBClient"
    locks_table: str

    @property
    def shared_key(self) -> Key:
        return key(self.locks_table, lock_key="lines")

    @property
    def shared_turn_key(self) -> Key:
        return key(self.locks_table, lock_key="lines served")

    def mark_as_contended(self, account_key: Key, deadline: Deadline) -> None:
        """Marks the account, for one write unit. Raises DeadlinePassed and botocore's errors."""
        self._update(Update(account_key, _contended_from_now(), exists("account_id")), deadline)

    def take_ticket(self, account_key: Key, line: Line, deadline: Deadline) -> Ticket | None:
        """A new ticket, for one write unit; None if the line's record is damaged or can't be written: then no turn.

        The line of a contended account is limited. Any other may be long for tickets that nobody holds any more.
        Raises LineTooLong and DeadlinePassed.
        """
        # Not in the account's item: each write to it may cancel a commit in progress.
        [(_, account_id)] = account_key.attributes
        record = key(self.locks_table, lock_key=f"line {account_id!s}")
        if account_key == self.shared_key:
            record = account_key
        is_short = absent("last_ticket") | at_most("last_ticket", line.ticket_served + LONGEST_LINE)
        condition = is_short if line.is_contended else None
        take = Update(record, _expiry(), condition, added={"last_ticket": 1}, return_new=True)
        try:
            is_taken, found = self._update(take, deadline)
        except (BotoCoreError, ClientError) as error:
            logger.warning("could not take a ticket of account %s: %s", account_id, error)
            return None
        match found:
            case {"last_ticket": Decimal() as number} if is_taken:
                return Ticket(int(number))
            case {"last_ticket": Decimal() as number} if number <= line.ticket_served + LONGEST_LIVE_LINE:
                raise LineTooLong(f"account {account_id!s}: more than {LONGEST_LINE} commits are ahead in its line")
        logger.warning("could not take a ticket of account %s: its record is damaged: %s", account_id, found)
        return None

    def wait(self, account_key: Key, ticket: Ticket, deadline: Deadline, *, losses: int) -> tuple[Ticket, Item | None]:
        """Waits for the ticket's turn, or until the line has stood still for too long.

        Returns the ticket, and the account as it is then. Costs a read unit for each look at the account. A group that
        has lost the account is the more patient, the higher its `losses`. Raises DeadlinePassed and botocore's errors.
        """
        seconds = SHARED_PATIENCE_SECONDS if account_key == self.shared_turn_key else PATIENCE_SECONDS
        patience_seconds = seconds * max(1, losses)
        began_at = moved_at = time.monotonic()
        account = self._look(account_key, deadline)
        while (ahead := ticket.number - Line.of(account).ticket_served - 1) > 0:
            if time.monotonic() - moved_at >= min(ahead, MOST_WAITED_FOR) * patience_seconds:
                break
            pause_seconds = min((ahead - 1) * SHORTEST_TURN_SECONDS, LONGEST_PAUSE_SECONDS)
            time.sleep(min(pause_seconds, max(0.0, deadline.remaining_seconds)))
            before, account = account, self._look(account_key, deadline)
            if account != before:
                moved_at = time.monotonic()
            ticket = Ticket(ticket.number, time.monotonic() - began_at, _contended_from_now())
        return ticket, account

    def wait_for_shared_turn(self, deadline: Deadline) -> Ticket | None:
        """Waits in the shared line. None if a record of it is damaged, or can't be read or written: then no turn.

        Raises LineTooLong and DeadlinePassed, and botocore's errors once it has a ticket.
        """
        try:
            served = self._look(self.shared_turn_key, deadline)
        except (BotoCoreError, ClientError):
            logger.warning("could not read the record of the shared line", exc_info=True)
            return None
        line = Line.of(served and served | _contended_from_now())
        ticket = self.take_ticket(self.shared_key, line, deadline)
        return ticket and self.wait(self.shared_turn_key, ticket, deadline, losses=1)[0]

    def leave(self, account_key: Key, ticket: Ticket, deadline: Deadline) -> None:
        """Ends the turn of a ticket that no commit has served. One write unit. Raises as `mark_as_contended`.

        If a later ticket was served before, nothing is written.
        """
        [(name, _)] = account_key.attributes
        is_later = exists(name) & (absent("ticket_served") | less_than("ticket_served", ticket.number))
        self._update(Update(account_key, {"ticket_served": ticket.number}, is_later), deadline)

    def end_of_shared_turn(self, turn: Ticket) -> Update:
        """The update that ends it, alone or in a commit. Its condition is false if a later turn was ended before."""
        served = {"ticket_served": turn.number} | _expiry()
        return Update(self.shared_turn_key, served, absent("ticket_served") | less_than("ticket_served", turn.number))

    def leave_shared_turn(self, turn: Ticket, deadline: Deadline) -> None:
        """Ends a turn that no commit has ended. One write unit. Raises as `mark_as_contended`."""
        self._update(self.end_of_shared_turn(turn), deadline)

    def _look(self, account_key: Key, deadline: Deadline) -> Item | None:
        attributes = SERVED_ATTRIBUTES if account_key == self.shared_turn_key else ACCOUNT_ATTRIBUTES
        return read_one(self.client, account_key, deadline, attributes)

    def _update(self, update: Update, deadline: Deadline) -> tuple[bool, Item | None]:
        """Whether the update was made; and the item as it is then, if the update returns it or was refused."""

        def plan(observed: Observed) -> Plan[bool]:
            return Plan(update.key not in observed, [] if update.key in observed else [update])

        written = write(self.client, plan, {}, deadline)
        return written.result, written.found.get(update.key)


def _expiry() -> Item:
    return {"expires_at": int(time.time()) + RECORD_SECONDS}


def _contended_from_now() -> Item:
    return {"contended_until": round((time.time() + CONTENDED_SECONDS) * 1000)}
