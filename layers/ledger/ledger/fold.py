"""The fold: messages are decided in order, each on what the one before left behind. All of it becomes one commit.

Nothing here does I/O: a fold is a function of its messages and of the items as they were read. It is made again after
a conflict. Each transaction is decided once by Powertools' idempotency, whose record is the journal entry. Stock
Powertools writes its record apart from the effect; here they commit together: docs/decisions/staged-record.md
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple, Self, cast, override

from aws_lambda_powertools.utilities.idempotency.base import IdempotencyHandler
from aws_lambda_powertools.utilities.idempotency.config import IdempotencyConfig
from aws_lambda_powertools.utilities.idempotency.exceptions import IdempotencyItemAlreadyExistsError
from aws_lambda_powertools.utilities.idempotency.persistence.datarecord import STATUS_CONSTANTS, DataRecord
from msgspec import Struct
from msgspec.structs import replace

from conditional_writes import MAXIMUM_WRITES, Item, Key, Observed, Plan, Put, Write, absent
from conditional_writes.core.own_attributes import VERSION_ID
from conditional_writes.core.requests import replacing, unchanged
from ledger.core.accounts import Account, account_item, posting_time, sound_account
from ledger.core.currencies import MINOR_UNITS, no_minor_units
from ledger.core.journal import (
    EntryId,
    JournalEntry,
    Outcome,
    Sender,
    Sent,
    entry_from_item,
    entry_item,
    seal_of,
)
from ledger.core.pools import Pool, opened_shard, pool_of
from ledger.core.reason_codes import IdReused, InvalidMessage, UnknownHold
from ledger.core.reversals import Reversed, reversed_from_item, reversed_item
from ledger.core.rules import RULES, Status
from ledger.core.transaction_types.base import Context, TransactionMessage
from ledger.dispositions import disposition_of
from ledger.lines import Mark, Ticket
from ledger.tables import LedgerTables, Line
from workers.origins import ORIGIN, first_sending_of
from workers.queue_messages import Disposition, Done, QueueMessage

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.idempotency.persistence.base import BasePersistenceLayer

type QueuedTransaction = QueueMessage[TransactionMessage]

NO_ENTRY = absent("transaction_id")
NO_SHARDS: Mapping[str, int] = {}
OWN_ATTRIBUTES = frozenset((*Account.__struct_fields__, VERSION_ID))
"""Attributes of an account that a commit writes anew: one that the account has no more is removed. Each commit has a
version id of its own."""


class Commit(NamedTuple):
    """The content of one DynamoDB transaction: as many of the messages, in order, as it has room for.

    If it has room for all of them, it serves the tickets, which are those of accounts. `minor_units` says whether
    accounts are opened under the rule of minor units, `double_entry` whether no amount may have one side alone.
    `first_shard` is the first of the worker's own shards of each pool. `last_writes` are made together with the last of
    the messages, except those that were refused before: their items are among the observed.
    """

    tables: LedgerTables
    minor_units: bool
    messages: Sequence[QueuedTransaction]
    tickets: Mapping[Key, Ticket | Mark]
    now: datetime
    double_entry: bool = False
    first_shard: int = 0
    last_writes: Sequence[Write] = ()

    def plan(self, observed: Observed) -> Plan["Fold"]:
        """The writes of the fold. If a decision depends on items that weren't read, nothing is written."""
        pools = self.tables.pools_in(observed)
        fold = Fold(self.tables, self.minor_units, self.double_entry, self.now, observed, dict(observed), pools)
        last_writes = [each for each in self.last_writes if each.key not in observed]
        fold.room -= len(last_writes)
        once = Once(fold.decide, fold.replay)
        for message in self.messages:
            try:
                transaction, shards = message.decoded, NO_SHARDS
                if fold.pools:
                    shards = transaction.shards_in(fold.pools, self.first_shard)
                    transaction = transaction.on_shards(shards)
                request = message.decoded.canonical_payload()
                account_ids, entry = fold.find(transaction, request)
                if not fold.has_room_for(account_ids, transaction.reversed_ids):
                    break
                fold.stage(message, once.of(entry, message, transaction, request, account_ids, shards).handle())
            except NotRead as error:
                fold.unread += error.keys
            except BaseException as error:  # noqa: BLE001 (an error of any type is this message's alone)
                fold.dispositions[message] = disposition_of(error)
        if fold.unread:
            return Plan(fold)
        if len(fold.dispositions) == len(self.messages):
            fold.serve(self.tickets)
            fold.last_writes = last_writes if fold.new_entries else ()
        return Plan(fold, fold.writes())


class NotRead(Exception):
    """A decision depends on these items, which weren't read."""

    def __init__(self, keys: Sequence[Key]) -> None:
        super().__init__(keys)
        self.keys = keys


class Side(NamedTuple):
    """A transaction's effect on one account: the account as it is afterwards, and the new journal entry."""

    account: Account
    entry: JournalEntry


class Decided(NamedTuple):
    """A transaction's outcome and, if it is new, its sides, and what had been reversed when it was decided."""

    outcome: Outcome
    sides: Sequence[Side] = ()
    reversed_before: Mapping[Key, Reversed] = {}


class Fold(Struct):
    """Items `before` the commit, as DynamoDB has them, and `after` it.

    `accounts` are those of `after` that were parsed. `changed` has the accounts and the items of the Reversals table
    that it changes, `reversals` the keys of those items of the latter on which a decision depends. `served_accounts`
    are the accounts whose tickets it serves. If items are `unread`, it is none to commit. It has `room` for so many
    writes beside the `last_writes`.
    """

    tables: LedgerTables
    minor_units: bool
    double_entry: bool
    now: datetime
    before: Observed
    after: dict[Key, Item | None]
    pools: dict[str, Pool]
    accounts: dict[Key, Account] = {}
    changed: dict[Key, Item] = {}
    new_entries: dict[Key, Item] = {}
    reversals: set[Key] = set()
    dispositions: dict[QueuedTransaction, Disposition] = {}
    served_accounts: set[Key] = set()
    unread: list[Key] = []
    room: int = MAXIMUM_WRITES
    last_writes: Sequence[Write] = ()

    def has_room_for(self, account_ids: Sequence[str], reversed_ids: Sequence[EntryId]) -> bool:
        """Whether the commit has room for a transaction of these accounts that reverses these transactions: for its
        entries, and for those of the other items that are new.
        """
        keys = [*map(self.tables.account_key, account_ids), *map(self.tables.reversed_key, reversed_ids)]
        new = len(account_ids) + sum(key not in self.changed and key not in self.reversals for key in keys)
        writes = len(self.changed) + len(self.new_entries) + len(self.reversals.difference(self.changed))
        return writes + new <= self.room

    def find(
        self, transaction: TransactionMessage, request: dict[str, Any]
    ) -> tuple[Sequence[str], JournalEntry | None]:
        """The ids of the transaction's accounts, and its own entry if it has one.

        The entries of two accounts commit together, so either of them says that the transaction was decided. That on
        its home is returned, unless only the other one was read.

        Raises IdReused if the entry is of another request, NotYet, and NotRead.
        """
        account_ids: Sequence[str] = transaction.account_ids
        entry = self._own_entry(transaction, account_ids)
        if entry is None and transaction.referred_entries:
            account_ids = transaction.all_account_ids(Context(self._entry))
            entry = self._own_entry(transaction, account_ids)
        if entry and entry.request != request:
            raise _id_reused(entry, request)
        return account_ids, entry

    def replay(self, entry: JournalEntry) -> Decided:
        """The answer to a repetition."""
        return Decided(entry.outcome.as_replayed())

    def decide(
        self,
        message: QueuedTransaction,
        transaction: TransactionMessage,
        request: dict[str, Any],
        account_ids: Sequence[str],
        shards: Mapping[str, int],
    ) -> Decided:
        """The decision on a new transaction, and what it does. Raises Refusal, NotYet and NotRead.

        `transaction` is the message's, on its shards.
        """
        reversed_before: dict[Key, Reversed] = {}

        def find_reversed(entry_id: EntryId) -> Reversed:
            key = self.tables.reversed_key(entry_id)
            item = self._item(key)
            reversed_before[key] = reversed_from_item(item) if item else Reversed(*entry_id)
            return reversed_before[key]

        minor_units = MINOR_UNITS.get if self.minor_units else no_minor_units
        accounts = self._accounts(account_ids)
        context = Context(self._entry, find_reversed, minor_units, posting_time(self.now, accounts))
        home_id, sender = transaction.home_entry_id, _sender_of(message)
        try:
            if self.double_entry and len(accounts) == 1:
                _check_sides(transaction)
            outcomes = transaction.outcomes_on(accounts, context)
        except (InvalidMessage, UnknownHold):
            # Without a new entry no commit meets the transaction's own, from which a repetition is answered.
            self._entry(home_id)
            raise
        sides = []
        for account, outcome in outcomes:
            entry = JournalEntry(account.account_id, *home_id, request, outcome, sender, RULES, shards=shards)
            seal = seal_of(account.seal, entry)
            sides.append(Side(replace(account, seal=seal), replace(entry, seal=seal)))
        return Decided(sides[0].entry.outcome, sides, reversed_before)

    def stage(self, message: QueuedTransaction, decided: Decided) -> None:
        """Sets the message's disposition, and stages what its transaction does: whole, or not at all after an error."""
        changed = dict(map(self._changed_account, decided.sides)) | dict(self._changed_reversals(decided))
        accounts = {self.tables.account_key(side.account.account_id): side.account for side in decided.sides}
        entries = {self.tables.entry_key(entry.entry_id): entry_item(entry) for _, entry in decided.sides}
        self.accounts |= accounts
        self.changed |= changed
        self.new_entries |= entries
        self.reversals |= decided.reversed_before.keys()
        self.after |= changed | entries
        self.pools |= {account.account_id: account.pool for account, _ in decided.sides if account.pool}
        self.dispositions[message] = Done(decided.outcome)

    def serve(self, tickets: Mapping[Key, Ticket | Mark]) -> None:
        """Notes the tickets as served in those of their accounts that the commit changes."""
        for key in tickets.keys() & self.changed.keys():
            served = self.changed[key] | tickets[key].served(Line.of(self.before[key]))
            self.changed[key] = self.after[key] = served
            self.served_accounts.add(key)

    def writes(self) -> list[Write]:
        """One write for each item that it changes, however many messages change it, and one for each journal entry.

        An item of the Reversals table on which only rejections depend is checked: nobody has changed it since.
        """
        return [
            *[replacing(key, self.before[key], item) for key, item in self.changed.items()],
            *[Put(key, item, NO_ENTRY) for key, item in self.new_entries.items()],
            *[unchanged(key, self.before[key]) for key in sorted(self.reversals.difference(self.changed))],
            *self.last_writes,
        ]

    def _own_entry(self, transaction: TransactionMessage, account_ids: Sequence[str]) -> JournalEntry | None:
        """The first of the transaction's entries that was read. The first account is its home."""
        for account_id in account_ids:
            entry_id = EntryId.on(account_id, account_ids[0], transaction.transaction_id)
            if item := self.after.get(self.tables.entry_key(entry_id)):
                return entry_from_item(item)
        return None

    def _accounts(self, account_ids: Sequence[str]) -> list[Account | None]:
        keys = [self.tables.account_key(account_id) for account_id in account_ids]
        if unread := [key for key in keys if key not in self.after]:
            raise NotRead(unread)
        for account_id, key in zip(account_ids, keys, strict=True):
            if key in self.accounts:
                continue
            if item := self.after[key]:
                self.accounts[key] = sound_account(item)
            elif (pool_id := pool_of(account_id)) and (pool := self._accounts([pool_id])[0]):
                self.accounts[key] = opened_shard(account_id, pool)
        return list(map(self.accounts.get, keys))

    def _entry(self, entry_id: EntryId) -> JournalEntry | None:
        item = self._item(self.tables.entry_key(entry_id))
        return entry_from_item(item) if item else None

    def _item(self, key: Key) -> Item | None:
        if key not in self.after:
            raise NotRead([key])
        return self.after[key]

    def _changed_account(self, side: Side) -> tuple[Key, Item]:
        key = self.tables.account_key(side.account.account_id)
        before = self.after[key] or {}
        of_others = {name: value for name, value in before.items() if name not in OWN_ATTRIBUTES}
        return key, of_others | account_item(side.account)

    def _changed_reversals(self, decided: Decided) -> Iterator[tuple[Key, Item]]:
        """The reversed amounts, as the decision leaves them. A rejection leaves it as it was."""
        for key, before in decided.reversed_before.items():
            for _, entry in decided.sides:
                outcome = entry.outcome
                if outcome.reversal and outcome.status == Status.POSTED and entry.account_id == before.account_id:
                    after = before.after(outcome.reversal, entry.transaction_id, outcome.account_version)
                    yield key, reversed_item(after)


def _check_sides(transaction: TransactionMessage) -> None:
    """Raises InvalidMessage if the transaction, which has one account, would move money of it."""
    if missing := transaction.missing_side:
        raise InvalidMessage(f"{missing}: in double entry no amount is on one account alone")


def _sender_of(message: QueuedTransaction) -> Sender:
    first = first_sending_of(message) if ORIGIN in message.attributes else None
    return Sender(Sent(*message.sending), Sent(*first) if first else None)


class Once[**Facts, Answer](IdempotencyHandler):
    """Powertools' handler of a function that decides a transaction, for many transactions and one thread:
    `once.of(entry, *facts).handle()`.

    `handle` returns what `decide` makes of the facts, or if the transaction has its entry already, what `replay` makes
    of that. It raises what `decide` raises.
    """

    # Not `idempotent_function`: if POWERTOOLS_IDEMPOTENCY_DISABLED is set, it looks for no record.

    def __init__(self, decide: Callable[Facts, Answer], replay: Callable[[JournalEntry], Answer]) -> None:
        self._journal = _Journal()
        super().__init__(
            function=decide,
            function_payload=None,  # the fold has compared the requests by then: nothing has to be copied and hashed
            config=IdempotencyConfig(response_hook=lambda entry, _: replay(cast("JournalEntry", entry))),
            persistence_store=cast("BasePersistenceLayer", self._journal),
        )

    def of(self, entry: JournalEntry | None, *facts: Facts.args, **named: Facts.kwargs) -> Self:
        """For one transaction. `entry` is its own in the journal, None if it has none yet."""
        self._journal.entry, self.fn_args, self.fn_kwargs = entry, facts, named
        return self


class _Journal:
    """The persistence layer, with the methods that Powertools' handler calls. None of them makes a request.

    The entries were read with the batch, and a decision's entries are written by its commit. So no record is ever in
    progress, and a decision that fails leaves none behind.
    """

    entry: JournalEntry | None = None

    def configure(self, **_: object) -> None:
        """Nothing is configured: an entry is found by its primary key."""

    def save_inprogress(self, **_: object) -> None:
        if self.entry is not None:
            raise IdempotencyItemAlreadyExistsError(old_data_record=_CompletedRecord(self.entry))

    def save_success(self, **_: object) -> None:
        """The decision has its entries."""

    def delete_record(self, **_: object) -> None:
        """No record was saved."""


class _CompletedRecord(DataRecord):
    """An entry as a record that never expires. Its response is the entry itself, which nobody has to parse."""

    def __init__(self, entry: JournalEntry) -> None:
        super().__init__(f"{entry.account_id}#{entry.transaction_id}", STATUS_CONSTANTS["COMPLETED"])
        self.entry = entry

    @override
    def response_json_as_dict(self) -> Any:
        return self.entry


def _id_reused(entry: JournalEntry, request: dict[str, Any]) -> IdReused:
    names = sorted(entry.request.keys() | request.keys())
    different = [name for name in names if entry.request.get(name) != request.get(name)]
    return IdReused(
        f"transaction_id: {entry.transaction_id!r} was used before on account {entry.home_account_id!r}"
        f" with another {', '.join(different)}",
        entry.outcome.status,
    )
