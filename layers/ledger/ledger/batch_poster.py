"""Posts the transactions of a batch: read, fold, commit.

The accounts of the batch are read together. The messages of each group of accounts are folded through the rules, in
memory and in order; then the group's accounts and journal entries commit in one DynamoDB transaction. After a conflict
the messages are folded again, from what DynamoDB found instead.
"""

import itertools
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from aws_lambda_powertools.metrics import MetricUnit
from botocore.exceptions import BotoCoreError, ClientError
from msgspec import Struct

from conditional_writes import (
    MAXIMUM_WRITES,
    Deadline,
    DeadlinePassed,
    Item,
    Key,
    Observed,
    Plan,
    Put,
    Write,
    absent,
    read,
    replacing,
    write,
)
from conditional_writes.own_attributes import VERSION_ID
from ledger.core.accounts import Account, account_from_item, account_item
from ledger.core.journal import EntryId, JournalEntry, Outcome, entry_from_item, entry_item, outcome_of
from ledger.core.rules import Status
from ledger.core.transaction_types.base import Context, TransactionMessage
from ledger.dispositions import disposition_of
from ledger.idempotent_decision import decide_once
from ledger.tables import LedgerTables
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

    def post(self, messages: Sequence[QueuedTransaction], deadline: Deadline) -> list[Measurement]:
        """Posts or rejects each transaction exactly once, whoever else is posting. Sets each message's disposition.

        One read per 100 accounts, and one commit per group of accounts (and 100 items). If a group fails, its messages
        come again, and no other group's. After DeadlinePassed nothing of a commit was written; if a commit got no
        answer, the next delivery finds its journal entries, and replays them.
        """
        try:
            observed = read(self.client, self._keys(messages), deadline)
        except (BotoCoreError, ClientError, DeadlinePassed) as error:
            for message in messages:
                message.disposition = disposition_of(error)
            return _measurements(messages, [])
        groups = grouped_by_account(messages)
        commits = in_parallel(lambda group: self._post_group(group, observed, deadline), groups)
        return _measurements(messages, list(itertools.chain.from_iterable(commits)))

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
        """Commits the messages in order, as many at a time as fit into one DynamoDB transaction."""
        commits = []
        pending = list(group)
        observed = {key: observed[key] for key in self._keys(group)}
        posted_at = datetime.now(UTC).isoformat(timespec="milliseconds")
        try:
            while pending:
                started = time.monotonic()
                written = write(
                    self.client,
                    lambda observed: self._plan(pending, observed, posted_at),  # noqa: B023 (called before the next turn)
                    observed,
                    deadline,
                )
                fold = written.result
                assert fold.dispositions, "a transaction has more accounts than one commit has room for"
                for message, disposition in fold.dispositions.items():
                    message.disposition = disposition
                milliseconds = round((time.monotonic() - started) * 1000, 1) if fold.new_entries else None
                commits.append(Commit(written.conflicts, milliseconds))
                pending = pending[len(fold.dispositions) :]
                observed = fold.observed
        except Exception as error:  # noqa: BLE001 (an error of any type is this group's alone)
            for message in pending:
                message.disposition = disposition_of(error)
        return commits

    def _plan(self, messages: Iterable[QueuedTransaction], observed: Observed, posted_at: str) -> Plan["_Fold"]:
        """Folds the messages that fit into one DynamoDB transaction: a pure function of the observed items."""
        fold = _Fold(self.tables, posted_at, observed, dict(observed))
        for message in messages:
            if not fold.has_room_for(message.decoded):
                break
            fold.add(message)
        return Plan(fold, fold.writes())


class Commit(NamedTuple):
    """How often another writer was first; and how long the commit took, None if it had nothing to write."""

    conflicts: int
    milliseconds: float | None


class _Effect(NamedTuple):
    """A transaction's effect on one of its accounts: the account afterwards, and the new journal entry."""

    account: Account
    entry: JournalEntry


class _Fold(Struct):
    """A commit in the making. `before` has the items as DynamoDB has them, `observed` as the commit leaves them."""

    tables: LedgerTables
    posted_at: str
    before: Observed
    observed: dict[Key, Item | None]
    changed_accounts: dict[Key, Item] = {}
    new_entries: dict[Key, Item] = {}
    dispositions: dict[QueuedTransaction, Disposition] = {}

    def has_room_for(self, transaction: TransactionMessage) -> bool:
        """Whether the commit has room for the transaction's entries, and for those of its accounts that are new."""
        account_keys = [self.tables.account_key(account_id) for account_id in transaction.account_ids]
        new_accounts = sum(account_key not in self.changed_accounts for account_key in account_keys)
        writes = len(self.changed_accounts) + len(self.new_entries)
        return writes + new_accounts + len(account_keys) <= MAXIMUM_WRITES

    def add(self, message: QueuedTransaction) -> None:
        """Sets the message's disposition, and stages its effect. If no decision can be made, nothing is staged."""
        try:
            outcome, effects = self._decided(message.decoded)
        except Exception as error:  # noqa: BLE001 (an error of any type is this message's alone)
            self.dispositions[message] = disposition_of(error)
            return
        # Not in the `try`: an error between the two sides of a transfer must fail the commit, not leave half of it.
        for effect in effects:
            self._stage(effect)
        self.dispositions[message] = Done(outcome)

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

    def _stage(self, effect: _Effect) -> None:
        account, entry = effect
        account_key, entry_key = self.tables.account_key(account.account_id), self.tables.entry_key(entry.entry_id)
        changed = (self.observed[account_key] or {}) | account_item(account)
        changed.pop(VERSION_ID, None)  # of the commit before: this one writes its own
        self.observed[account_key] = self.changed_accounts[account_key] = changed
        self.observed[entry_key] = self.new_entries[entry_key] = entry_item(entry)


def _measurements(messages: Sequence[QueuedTransaction], commits: Sequence[Commit]) -> list[Measurement]:
    outcomes = [message.disposition.outcome for message in messages if isinstance(message.disposition, Done)]
    new = [outcome for outcome in outcomes if isinstance(outcome, Outcome) and not outcome.replayed]
    times = [commit.milliseconds for commit in commits if commit.milliseconds is not None]
    reasons = Counter(outcome.reason for outcome in new if outcome.reason)
    return [
        Measurement("Posted", sum(outcome.status == Status.POSTED for outcome in new)),
        Measurement("Rejected", reasons.total()),
        Measurement("Duplicates", len(outcomes) - len(new)),
        Measurement("Conflicts", sum(commit.conflicts for commit in commits)),
        *(Measurement("Rejected", count, dimension=("Reason", reason)) for reason, count in reasons.items()),
        *(Measurement("CommitTime", milliseconds, MetricUnit.Milliseconds) for milliseconds in times[:MAXIMUM_VALUES]),
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
