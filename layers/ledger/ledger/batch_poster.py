"""Posts the transactions of a batch: read, fold, commit.

The accounts of the batch are read together. The messages of each group of accounts are folded through the rules, in
memory and in order; then the group's accounts and journal entries commit in one DynamoDB transaction. After a conflict
the messages are folded again, from what DynamoDB found instead.
"""

import itertools
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
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
from conditional_writes.client import CONNECTIONS
from conditional_writes.own_attributes import VERSION_ID
from ledger.core.accounts import Account, account_from_item, account_item
from ledger.core.decisions import Status
from ledger.core.journal import EntryId, JournalEntry, Outcome, entry_from_item, entry_item, outcome_of
from ledger.core.transaction_types.base import Context, TransactionMessage
from ledger.dispositions import disposition_of
from ledger.idempotent_decision import decide_once
from ledger.tables import LedgerTables
from workers.batches import Measurement
from workers.queue_messages import Disposition, Done, QueueMessage

if TYPE_CHECKING:
    from types_boto3_dynamodb import DynamoDBClient

type TransactionsMessage = QueueMessage[TransactionMessage]


class BatchPoster(NamedTuple):
    """The ledger's tables, and the client that reads and writes them."""

    client: "DynamoDBClient"
    tables: LedgerTables

    def post(self, messages: Sequence[TransactionsMessage], deadline: Deadline) -> list[Measurement]:
        """Posts or rejects each transaction exactly once, whoever else is posting: each message gets its disposition.

        One read per 100 accounts, and one commit per group of accounts (and 100 items). If a group fails, its messages
        come again; no group waits for another.
        """
        try:
            observed = read(self.client, self._keys(messages), deadline)
        except (BotoCoreError, ClientError, DeadlinePassed) as error:
            for message in messages:
                message.disposition = disposition_of(message, error)
            return _measurements(messages, [])
        groups = grouped_by_account(messages)
        with ThreadPoolExecutor(min(len(groups), CONNECTIONS) or 1) as pool:
            commits = pool.map(lambda group: self._post_group(group, observed, deadline), groups)
            return _measurements(messages, list(itertools.chain.from_iterable(commits)))

    def _keys(self, messages: Iterable[TransactionsMessage]) -> list[Key]:
        """The accounts; the entries that a decision refers to; and, if a message was delivered before, its own."""
        keys = []
        for message in messages:
            transaction = message.decoded
            entries = transaction.referred_entries + (transaction.entry_ids if message.delivered_before else ())
            keys += [self.tables.account_key(account_id) for account_id in transaction.account_ids]
            keys += [self.tables.entry_key(entry_id) for entry_id in entries]
        return keys

    def _post_group(
        self, group: Sequence[TransactionsMessage], observed: Observed, deadline: Deadline
    ) -> list["Commit"]:
        """Commits as many messages as fit into one DynamoDB transaction, in order, until all are committed."""
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
                for message, disposition in fold.dispositions.items():
                    message.disposition = disposition
                milliseconds = (time.monotonic() - started) * 1000 if fold.new_entries else None
                commits.append(Commit(written.conflicts, milliseconds))
                pending = pending[len(fold.dispositions) :]
                observed = fold.observed
        except Exception as error:  # noqa: BLE001 (an error of any type is this group's alone)
            for message in pending:
                message.disposition = disposition_of(message, error)
        return commits

    def _plan(self, messages: Iterable[TransactionsMessage], observed: Observed, posted_at: str) -> Plan["_Fold"]:
        """Folds the messages that fit into one DynamoDB transaction: a pure function of what was observed."""
        fold = _Fold(self.tables, posted_at, observed, dict(observed))
        for message in messages:
            if not fold.has_room_for(message.decoded):
                break
            fold.add(message)
        return Plan(fold, fold.writes())


class Commit(NamedTuple):
    """How often another writer was first, and what the commit took; None if there was nothing to write."""

    conflicts: int
    milliseconds: float | None


class _Side(NamedTuple):
    """A transaction's effect on one of its accounts."""

    account: Account
    outcome: Outcome


class _Fold(Struct):
    """A commit in the making: items as they were read, and as the commit leaves them."""

    tables: LedgerTables
    posted_at: str
    read: Observed
    observed: dict[Key, Item | None]
    changed_accounts: dict[Key, Item] = {}
    new_entries: dict[Key, Item] = {}
    dispositions: dict[TransactionsMessage, Disposition] = {}

    def has_room_for(self, transaction: TransactionMessage) -> bool:
        """Whether the commit has room for the transaction's entries, and for those of its accounts that are new."""
        account_keys = [self.tables.account_key(account_id) for account_id in transaction.account_ids]
        new_accounts = sum(account_key not in self.changed_accounts for account_key in account_keys)
        writes = len(self.changed_accounts) + len(self.new_entries)
        return writes + new_accounts + len(account_keys) <= MAXIMUM_WRITES

    def add(self, message: TransactionsMessage) -> None:
        try:
            self.dispositions[message] = Done(self._outcome(message.decoded))
        except Exception as error:  # noqa: BLE001 (an error of any type is this message's alone)
            self.dispositions[message] = disposition_of(message, error)

    def writes(self) -> list[Write]:
        """One write for each account, however many messages are about it: from what was read to what it is now."""
        accounts = [replacing(key, self.read[key], item) for key, item in self.changed_accounts.items()]
        return [*accounts, *(Put(key, item, absent("transaction_id")) for key, item in self.new_entries.items())]

    def _outcome(self, transaction: TransactionMessage) -> Outcome:
        """The outcome in the transaction's journal entry, if there is one; else it is decided, and its effect staged.

        The entries of a transfer commit together, one on each side, so either of them replays it. The outcome is the
        payer's, unless only the payee's entry was read. Raises Refusal and NotYet.
        """
        entry_ids = transaction.entry_ids
        accounts = [self._account(entry_id.account_id) for entry_id in entry_ids]
        context = Context({entry_id: self._entry(entry_id) for entry_id in transaction.referred_entries})
        request = transaction.canonical_payload()
        sides: list[_Side] = []

        def decide() -> Outcome:
            for before, decision in zip(accounts, transaction.decide(accounts, context), strict=True):
                after = transaction.next_account(before, decision)
                assert after is not None, "a decision is about an account that is there, or that it opens"
                assert decision.reason or after.balance >= after.overdraft_limit, f"{after} would be below its limit"
                sides.append(_Side(after, outcome_of(decision, after.version, self.posted_at)))
            return sides[0].outcome

        # Of two entries, the one of another request comes first.
        found = [entry for entry_id in entry_ids if (entry := self._entry(entry_id))]
        existing = min(found, key=lambda entry: entry.request == request, default=None)
        outcome, payload_hash = decide_once(request, existing, decide)
        if payload_hash is not None:
            for entry_id, side in zip(entry_ids, sides, strict=True):
                self._stage(side.account, JournalEntry(*entry_id, request, payload_hash, side.outcome))
        return outcome

    def _account(self, account_id: str) -> Account | None:
        item = self.observed[self.tables.account_key(account_id)]
        return account_from_item(item) if item else None

    def _entry(self, entry_id: EntryId) -> JournalEntry | None:
        item = self.observed.get(self.tables.entry_key(entry_id))
        return entry_from_item(item) if item else None

    def _stage(self, account: Account, entry: JournalEntry) -> None:
        account_key, entry_key = self.tables.account_key(account.account_id), self.tables.entry_key(entry.entry_id)
        changed = (self.observed[account_key] or {}) | account_item(account)
        changed.pop(VERSION_ID, None)  # this commit's will be another
        self.observed[account_key] = self.changed_accounts[account_key] = changed
        self.observed[entry_key] = self.new_entries[entry_key] = entry_item(entry)


def _measurements(messages: Sequence[TransactionsMessage], commits: Sequence[Commit]) -> list[Measurement]:
    outcomes = [message.disposition.outcome for message in messages if isinstance(message.disposition, Done)]
    new = [outcome for outcome in outcomes if isinstance(outcome, Outcome) and not outcome.replayed]
    times = [commit.milliseconds for commit in commits if commit.milliseconds is not None]
    reasons = Counter(outcome.reason for outcome in new if outcome.reason)
    return [
        Measurement("Posted", sum(outcome.status == Status.POSTED for outcome in new)),
        Measurement("Duplicates", len(outcomes) - len(new)),
        Measurement("Conflicts", sum(commit.conflicts for commit in commits)),
        *(Measurement("Rejected", count, dimension=("Reason", reason)) for reason, count in reasons.items()),
        # At 100 values of a metric Powertools publishes what there is, early.
        *(Measurement("CommitTime", milliseconds, MetricUnit.Milliseconds) for milliseconds in times[:99]),
    ]


def grouped_by_account(messages: Sequence[TransactionsMessage]) -> list[list[TransactionsMessage]]:
    """The messages, in order, in groups: messages that share an account, directly or through others, are together."""
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
    groups: dict[str, list[TransactionsMessage]] = {}
    for message in messages:
        groups.setdefault(root(message.decoded.account_ids[0]), []).append(message)
    return list(groups.values())
