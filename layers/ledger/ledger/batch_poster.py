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
from typing import TYPE_CHECKING, Any, NamedTuple

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
    Update,
    Write,
    absent,
    read,
    replacing,
    write,
)
from conditional_writes.client import CONNECTIONS
from conditional_writes.own_attributes import VERSION_ID
from ledger.core.accounts import Account
from ledger.core.decisions import Status
from ledger.core.journal import JournalEntry, Outcome, outcome_of
from ledger.core.transaction_types.base import Context, EntryId, TransactionMessage
from ledger.dispositions import disposition_of
from ledger.idempotent_decision import decide_once
from ledger.tables import LedgerTables, account_from_item, account_item, entry_from_item, entry_item
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
                commits.append(Commit(written.conflicts, (time.monotonic() - started) * 1000 if fold.writes else None))
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
        return Plan(fold, list(fold.writes.values()))


class Commit(NamedTuple):
    """How often another writer was first, and what the commit took; None if there was nothing to write."""

    conflicts: int
    milliseconds: float | None


class _Side(NamedTuple):
    """A transaction's effect on one of its accounts."""

    account: Account
    outcome: Outcome


class _Fold(Struct):
    """A commit in the making: items as they were read, as the commit leaves them, and the writes that it makes."""

    tables: LedgerTables
    posted_at: str
    read: Observed
    observed: dict[Key, Item | None]
    writes: dict[Key, Write] = {}
    dispositions: dict[TransactionsMessage, Disposition] = {}

    def has_room_for(self, transaction: TransactionMessage) -> bool:
        """Whether the commit has room for the transaction's entries, and for those of its accounts that are new."""
        account_keys = [self.tables.account_key(account_id) for account_id in transaction.account_ids]
        new_accounts = sum(account_key not in self.writes for account_key in account_keys)
        return len(self.writes) + new_accounts + len(account_keys) <= MAXIMUM_WRITES

    def add(self, message: TransactionsMessage) -> None:
        try:
            self.dispositions[message] = Done(self._outcome(message.decoded))
        except Exception as error:  # noqa: BLE001 (an error of any type is this message's alone)
            self.dispositions[message] = disposition_of(message, error)

    def _outcome(self, transaction: TransactionMessage) -> Outcome:
        """The outcome in the transaction's journal entry, if there is one; else it is decided, and its writes staged.

        The entries of a transfer commit together, one on each side, so either of them replays it. The outcome is the
        payer's, unless only the payee's entry was read. Raises Refusal and NotYet.
        """
        accounts = [self._account(account_id) for account_id in transaction.account_ids]
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

        existing = self._existing_entry(transaction, request)
        decided = decide_once(transaction.entry_ids[0], request, existing, decide)
        if decided.payload_hash is not None:
            self._stage(transaction, request, decided.payload_hash, sides)
        return decided.outcome

    def _account(self, account_id: str) -> Account | None:
        item = self.observed[self.tables.account_key(account_id)]
        return account_from_item(item) if item else None

    def _entry(self, entry_id: EntryId) -> JournalEntry | None:
        item = self.observed.get(self.tables.entry_key(entry_id))
        return entry_from_item(item) if item else None

    def _existing_entry(self, transaction: TransactionMessage, request: dict[str, Any]) -> JournalEntry | None:
        """The transaction's own entry, if there is one. Of two, the one of another request comes first."""
        found = [entry for entry_id in transaction.entry_ids if (entry := self._entry(entry_id))]
        return min(found, key=lambda entry: entry.request == request, default=None)

    def _stage(
        self, transaction: TransactionMessage, request: dict[str, Any], payload_hash: str, sides: Iterable[_Side]
    ) -> None:
        """The writes of all sides, or, if one can't be made, of none."""
        staged: list[tuple[Put | Update, Item]] = []
        for entry_id, (account, outcome) in zip(transaction.entry_ids, sides, strict=True):
            account_key, entry_key = self.tables.account_key(entry_id.account_id), self.tables.entry_key(entry_id)
            # One write, however many messages are about the account: from what was read to what it is now.
            after = (self.observed[account_key] or {}) | account_item(account)
            after.pop(VERSION_ID, None)  # this commit's will be another
            staged.append((replacing(account_key, self.read[account_key], after), after))
            entry = entry_item(JournalEntry(*entry_id, request, payload_hash, outcome))
            staged.append((Put(entry_key, entry, absent("transaction_id")), entry))
        for staged_write, item in staged:
            self.writes[staged_write.key] = staged_write
            self.observed[staged_write.key] = item


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
