"""Posts the transactions of a batch: read, fold, commit.

The accounts of the batch are read together. The messages of each group of accounts are folded through the rules, in
memory and in order; then the group's accounts and journal entries commit in one DynamoDB transaction. After a conflict
the messages are folded again, from what DynamoDB found instead. Commits of a contended account take turns: `lines.py`.
"""

import itertools
import time
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from aws_lambda_powertools.metrics import MetricUnit
from msgspec import Struct

from conditional_writes import (
    MAXIMUM_WRITES,
    Deadline,
    Item,
    Key,
    Observed,
    Plan,
    Put,
    Write,
    Written,
    absent,
    read,
    replacing,
    write,
)
from conditional_writes.own_attributes import VERSION_ID
from conditional_writes.reading import MAXIMUM_KEYS, read_once
from ledger.core.accounts import Account, account_from_item, account_item
from ledger.core.journal import EntryId, JournalEntry, Outcome, entry_from_item, entry_item, outcome_of
from ledger.core.rules import Status
from ledger.core.transaction_types.base import Context, TransactionMessage
from ledger.dispositions import disposition_of, is_about_content
from ledger.idempotent_decision import decide_once
from ledger.lines import Lines, Ticket
from ledger.tables import ACCOUNT_ATTRIBUTES, LedgerTables, Line
from workers.batches import MAXIMUM_VALUES, Measurement
from workers.parallel import in_parallel
from workers.queue_messages import Disposition, Done, QueueMessage

if TYPE_CHECKING:
    from types_boto3_dynamodb import DynamoDBClient

type QueuedTransaction = QueueMessage[TransactionMessage]


class BatchPoster(NamedTuple):
    """The ledger's tables, and the client that reads and writes them."""

    client: "DynamoDBClient"
    tables: LedgerTables

    @property
    def _lines(self) -> Lines:
        return Lines(self.client, self.tables)

    def post(self, messages: Sequence[QueuedTransaction], deadline: Deadline) -> list[Measurement]:
        """Posts or rejects each transaction exactly once, whoever else is posting. Sets each message's disposition.

        One read per 100 accounts, and one commit per group of accounts (and 100 items). If a group's items can't be
        read, or AWS can't commit it, its messages come again, and no other group's. After DeadlinePassed nothing of a
        commit was written; if a commit got no answer, the next delivery finds its journal entries, and replays them.
        """
        observed: dict[Key, Item | None] = {}
        unread: dict[Key, Disposition] = {}
        for keys in itertools.batched(dict.fromkeys(self._keys(messages)), MAXIMUM_KEYS, strict=False):
            try:
                observed |= read_once(self.client, keys, deadline, self._attributes)
            except Exception as error:  # noqa: BLE001 (it costs the groups with these keys)
                unread |= dict.fromkeys(keys, disposition_of(error))
        groups = []
        for group in grouped_by_account(messages):
            failed = next((unread[key] for key in self._keys(group) if key in unread), None)
            if failed:
                _give(failed, group)
            else:
                groups.append(group)
        # Those that read first, or wait in a line, come last: they may take all the time that there is, and threads.
        groups.sort(
            key=lambda group: any(key not in observed or _is_contended(observed, key) for key in self._keys(group))
        )
        commits = in_parallel(lambda group: self._post_group(group, observed, deadline), groups)
        return _measurements(messages, list(itertools.chain.from_iterable(commits)))

    @property
    def _attributes(self) -> dict[str, Sequence[str]]:
        """The attributes that are read, by table."""
        return {self.tables.accounts: ACCOUNT_ATTRIBUTES}

    def _own_part(self, key: Key, item: Item | None) -> Item | None:
        """The item as it would be read. A refused commit hands it back whole."""
        names = self._attributes.get(key.table)
        return item if item is None or names is None else {name: item[name] for name in names if name in item}

    def _keys(self, messages: Iterable[QueuedTransaction]) -> list[Key]:
        """The keys of the messages' accounts, of the journal entries that decisions refer to, and of the own entries of
        messages that were delivered before: only those may be posted already."""
        keys = []
        for message in messages:
            transaction = message.decoded
            entries = transaction.referred_entries + (transaction.entry_ids if message.delivered_before else ())
            keys += [self.tables.account_key(account_id) for account_id in transaction.account_ids]
            keys += [self.tables.entry_key(entry_id) for entry_id in entries]
        return keys

    def _post_group(self, group: Sequence[QueuedTransaction], observed: Observed, deadline: Deadline) -> list["Commit"]:
        """Commits the messages in order, as many at a time as fit into one DynamoDB transaction.

        If a commit fails for something in it, its messages are committed in two halves, and so on down to one message:
        one at fault among n costs 2 log n further tries at most, n at fault cost 2 n. AWS's own trouble ends them all.
        """
        commits = []
        tickets: dict[Key, Ticket] = {}
        served: Collection[Key] = ()
        batches = [group]  # the next one is the last
        try:
            keys = self._keys(group)
            left = read(self.client, [key for key in keys if key not in observed], deadline, self._attributes)
            observed = {key: left[key] if key in left else observed[key] for key in keys}
            contended = [key for key in observed if _is_contended(observed, key)]
            observed = self._line_up(contended, observed, tickets, deadline, lost=False)
            while batches:
                messages = batches.pop()
                try:
                    commit, fold = self._commit(messages, observed, tickets, deadline, is_last=not batches)
                except Exception as error:
                    if not is_about_content(error):
                        raise
                    if len(messages) == 1:
                        _give(disposition_of(error), messages)
                    else:
                        half = len(messages) // 2
                        batches += [messages[half:], messages[:half]]
                    continue
                for message, disposition in fold.dispositions.items():
                    message.disposition = disposition
                commits.append(commit)
                observed, served = fold.observed, fold.served
                if rest := messages[len(fold.dispositions) :]:
                    batches.append(rest)
            for key in tickets.keys() - served:
                self._lines.leave(key, tickets[key], deadline)
        except Exception as error:  # noqa: BLE001 (AWS's trouble is this group's alone)
            _give(disposition_of(error), (message for message in group if message.disposition is None))
        return commits + [Commit(waited_seconds=ticket.waited_seconds) for ticket in tickets.values()]

    def _commit(
        self,
        messages: Sequence[QueuedTransaction],
        observed: Observed,
        tickets: dict[Key, Ticket],
        deadline: Deadline,
        *,
        is_last: bool,
    ) -> tuple["Commit", "_Fold"]:
        """Commits the first messages, as many as fit; the last commit serves the tickets. Raises what `write` raises.

        If another writer was first in an account, the next try waits in the account's line. While it is the turn of
        this group in another account's line, the next try is made at once, and only the one after that waits.
        """
        conflicts, losses = 0, Counter[Key]()
        while True:
            started = time.monotonic()
            try:
                written = self._write(messages, observed, tickets if is_last else {}, deadline)
            except _Overtaken as overtaken:
                losses.update(overtaken.accounts)
                conflicts += 1
                lost = [key for key in overtaken.accounts if key not in tickets and (not tickets or losses[key] > 1)]
                observed = self._line_up(lost, overtaken.observed, tickets, deadline, lost=True)
            else:
                fold = written.result
                assert fold.dispositions, "a transaction has more accounts than one commit has room for"
                milliseconds = round((time.monotonic() - started) * 1000, 1) if fold.new_entries else None
                return Commit(conflicts + written.conflicts, milliseconds), fold

    def _line_up(
        self,
        accounts: Collection[Key],
        observed: Observed,
        tickets: dict[Key, Ticket],
        deadline: Deadline,
        *,
        lost: bool,
    ) -> Observed:
        """Adds a ticket of each account once its turn has come. Returns the items as they are then.

        All workers line up for several accounts in the same order. If that took time, the other items are read again.
        """
        newest = dict(observed)
        for key in sorted(accounts):
            tickets[key], newest[key] = self._lines.line_up(key, observed[key], deadline, lost=lost)
        if any(tickets[key].waited_seconds is not None for key in accounts):
            newest |= read(self.client, [key for key in newest if key not in tickets], deadline, self._attributes)
        return newest

    def _write(
        self,
        messages: Sequence[QueuedTransaction],
        observed: Observed,
        tickets: Mapping[Key, Ticket],
        deadline: Deadline,
    ) -> Written["_Fold"]:
        """Writes the plan. If another writer was first in an account, raises _Overtaken instead of planning again."""
        posted_at = datetime.now(UTC).isoformat(timespec="milliseconds")

        def plan(seen: Observed) -> Plan["_Fold"]:
            planned = self._plan(messages, seen, tickets, posted_at)
            changed = [key for key in seen if key.table == self.tables.accounts and seen[key] is not observed[key]]
            if changed and planned.writes:
                raise _Overtaken(changed, seen)
            return planned

        return write(self.client, plan, observed, deadline)

    def _plan(
        self, messages: Sequence[QueuedTransaction], observed: Observed, tickets: Mapping[Key, Ticket], posted_at: str
    ) -> Plan["_Fold"]:
        """Folds the messages that fit into one DynamoDB transaction: a pure function of the observed items.

        If all of them fit, it serves the tickets.
        """
        observed = {key: self._own_part(key, item) for key, item in observed.items()}
        fold = _Fold(self.tables, posted_at, observed, dict(observed))
        for message in messages:
            if not fold.has_room_for(message.decoded):
                break
            fold.add(message)
        if len(fold.dispositions) == len(messages):
            fold.serve(tickets)
        return Plan(fold, fold.writes())


class _Overtaken(Exception):
    """Another writer has changed the `accounts` before the commit. `observed` has them as they are now."""

    def __init__(self, accounts: Sequence[Key], observed: Observed) -> None:
        super().__init__(accounts)
        self.accounts, self.observed = accounts, observed


class Commit(NamedTuple):
    """How often another writer was first; and how long the commit took, None if it had nothing to write.

    `waited_seconds` is the time in an account's line, None if nobody was ahead.
    """

    conflicts: int = 0
    milliseconds: float | None = None
    waited_seconds: float | None = None


class _Effect(NamedTuple):
    """A transaction's effect on one of its accounts: the account afterwards, and the new journal entry."""

    account: Account
    entry: JournalEntry


class _Fold(Struct):
    """A commit in the making. `before` has the items as DynamoDB has them, `observed` as the commit leaves them.

    `served` has the accounts whose tickets it serves.
    """

    tables: LedgerTables
    posted_at: str
    before: Observed
    observed: dict[Key, Item | None]
    changed_accounts: dict[Key, Item] = {}
    new_entries: dict[Key, Item] = {}
    dispositions: dict[QueuedTransaction, Disposition] = {}
    served: set[Key] = set()

    def has_room_for(self, transaction: TransactionMessage) -> bool:
        """Whether the commit has room for the transaction's entries, and for those of its accounts that are new."""
        account_keys = [self.tables.account_key(account_id) for account_id in transaction.account_ids]
        new_accounts = sum(account_key not in self.changed_accounts for account_key in account_keys)
        writes = len(self.changed_accounts) + len(self.new_entries)
        return writes + new_accounts + len(account_keys) <= MAXIMUM_WRITES

    def add(self, message: QueuedTransaction) -> None:
        """Sets the message's disposition, and stages its effect: whole, or not at all if no decision can be made."""
        try:
            outcome, effects = self._decided(message.decoded)
            accounts = dict(map(self._changed_account, effects))
            entries = {self.tables.entry_key(entry.entry_id): entry_item(entry) for _, entry in effects}
        except BaseException as error:  # noqa: BLE001 (an error of any type is this message's alone)
            self.dispositions[message] = disposition_of(error)
            return
        self.observed |= accounts | entries
        self.changed_accounts |= accounts
        self.new_entries |= entries
        self.dispositions[message] = Done(outcome)

    def serve(self, tickets: Mapping[Key, Ticket]) -> None:
        """Notes the tickets as served in those of their accounts that the commit changes."""
        self.served |= tickets.keys() & self.changed_accounts.keys()
        for key in self.served:
            self.changed_accounts[key] |= tickets[key].served(Line.of(self.before[key]))

    def writes(self) -> list[Write]:
        """One write for each account, however many messages change it, and one for each journal entry."""
        accounts = [replacing(key, self.before[key], item) for key, item in self.changed_accounts.items()]
        return [*accounts, *(Put(key, item, absent("transaction_id")) for key, item in self.new_entries.items())]

    def _decided(self, transaction: TransactionMessage) -> tuple[Outcome, list[_Effect]]:
        """The outcome in the transaction's journal entry if one was observed, else that of a new decision.

        With it the effects on the accounts, in the order of `account_ids`; a replayed transaction has none. A
        transfer's entries commit together, one on each side, so either of them replays it. The outcome is the payer's,
        unless only the payee's entry was observed. Raises Refusal and NotYet.
        """
        entry_ids = transaction.entry_ids
        accounts = [self._account(entry_id.account_id) for entry_id in entry_ids]
        context = Context({entry_id: self._entry(entry_id) for entry_id in transaction.referred_entries})
        request = transaction.canonical_payload()
        sides: list[tuple[Account, Outcome]] = []

        def decide() -> Outcome:
            for before, decision in zip(accounts, transaction.decide(accounts, context), strict=True):
                after = transaction.next_account(before, decision)
                assert after is not None, "a decision is about an account that exists, or that it opens"
                assert decision.reason or after.balance >= after.overdraft_limit, f"{after} would be below its limit"
                sides.append((after, outcome_of(decision, after.version, self.posted_at)))
            return sides[0][1]

        # An entry of another request comes first: it refuses this one.
        found = [entry for entry_id in entry_ids if (entry := self._entry(entry_id))]
        existing = min(found, key=lambda entry: entry.request == request, default=None)
        outcome, payload_hash = decide_once(request, existing, decide)
        effects = []
        if payload_hash is not None:
            effects = [
                _Effect(account, JournalEntry(*entry_id, request, payload_hash, recorded))
                for entry_id, (account, recorded) in zip(entry_ids, sides, strict=True)
            ]
        return outcome, effects

    def _account(self, account_id: str) -> Account | None:
        item = self.observed[self.tables.account_key(account_id)]
        return account_from_item(item) if item else None

    def _entry(self, entry_id: EntryId) -> JournalEntry | None:
        item = self.observed.get(self.tables.entry_key(entry_id))
        return entry_from_item(item) if item else None

    def _changed_account(self, effect: _Effect) -> tuple[Key, Item]:
        key = self.tables.account_key(effect.account.account_id)
        changed = (self.observed[key] or {}) | account_item(effect.account)
        changed.pop(VERSION_ID, None)  # of the commit before: this one writes its own
        return key, changed


def _is_contended(observed: Observed, key: Key) -> bool:
    return Line.of(observed[key]).is_contended


def _give(disposition: Disposition, messages: Iterable[QueuedTransaction]) -> None:
    for message in messages:
        message.disposition = disposition


def _measurements(messages: Sequence[QueuedTransaction], commits: Sequence[Commit]) -> list[Measurement]:
    outcomes = [message.disposition.outcome for message in messages if isinstance(message.disposition, Done)]
    new = [outcome for outcome in outcomes if isinstance(outcome, Outcome) and not outcome.replayed]
    times = [commit.milliseconds for commit in commits if commit.milliseconds is not None]
    waits = [commit.waited_seconds for commit in commits if commit.waited_seconds is not None]
    reasons = Counter(outcome.reason for outcome in new if outcome.reason)
    return [
        Measurement("Posted", sum(outcome.status == Status.POSTED for outcome in new)),
        Measurement("Rejected", reasons.total()),
        Measurement("Duplicates", len(outcomes) - len(new)),
        Measurement("Conflicts", sum(commit.conflicts for commit in commits)),
        *(Measurement("Rejected", count, dimension=("Reason", reason)) for reason, count in reasons.items()),
        *(Measurement("CommitTime", milliseconds, MetricUnit.Milliseconds) for milliseconds in times[:MAXIMUM_VALUES]),
        *(Measurement("LineTime", round(each * 1000, 1), MetricUnit.Milliseconds) for each in waits[:MAXIMUM_VALUES]),
    ]


def grouped_by_account(messages: Sequence[QueuedTransaction]) -> list[list[QueuedTransaction]]:
    """Groups of messages, in order: messages that share an account, directly or through others, are in one group."""
    parents: dict[str, str] = {}

    def root(account_id: str) -> str:
        while (parent := parents.setdefault(account_id, account_id)) != account_id:
            parents[account_id] = parents[parent]
            account_id = parent
        return account_id

    for message in messages:
        first, *others = message.decoded.account_ids
        for other in others:
            parents[root(other)] = root(first)
    groups: dict[str, list[QueuedTransaction]] = {}
    for message in messages:
        groups.setdefault(root(message.decoded.account_ids[0]), []).append(message)
    return list(groups.values())
