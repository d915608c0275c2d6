"""Posts transactions: accounts and their journal entries, each group of accounts in one commit.

Fetch, fold, commit. The accounts of a batch are read together, each group's messages are folded through the rules in
memory, and the group's accounts and journal entries commit in one transaction; a conflict folds again from what
DynamoDB found instead.
"""

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, cast

from aws_lambda_powertools.utilities.idempotency import IdempotencyConfig, idempotent_function
from aws_lambda_powertools.utilities.idempotency.exceptions import IdempotencyValidationError
from aws_lambda_powertools.utilities.idempotency.persistence.datarecord import DataRecord
from aws_lambda_powertools.utilities.idempotency.serialization.custom_dict import CustomDictSerializer
from botocore.exceptions import BotoCoreError, ClientError
from msgspec import Struct
from msgspec.structs import replace

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
    key,
    read,
    replacing,
    write,
)
from conditional_writes.client import CONNECTIONS
from conditional_writes.idempotency import StagedRecord
from conditional_writes.own_attributes import VERSION_ID
from ledger.accounts import Account, account_from_item, account_item
from ledger.journal import (
    Entry,
    Outcome,
    completed_record,
    entry_from_item,
    entry_item,
    outcome_from_json,
    outcome_to_json,
)
from ledger.messages import Message
from ledger.rules import Decision, UnknownAccount, decide

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.idempotency import IdempotentHookFunction
    from types_boto3_dynamodb import DynamoDBClient


type Result = Outcome | Exception
"""What became of a delivery. PayloadChanged never can be posted; UnknownAccount not yet; after any other exception
the delivery wasn't posted, and should come again."""


class PayloadChanged(Exception):
    """The transaction id was used before on one of its accounts, with another payload; the text names what differs."""


class Delivery(Struct, frozen=True):
    """A message, and whether it was delivered before: then it may have been posted, and its entry is read too."""

    message: Message
    delivered_before: bool = False


class Posted(Struct):
    """A result for each delivery, in their order; how often another writer was first; what each commit took."""

    results: list[Result]
    conflicts: int = 0
    commit_milliseconds: list[float] = []


def _as_replayed(outcome: Outcome, _: DataRecord) -> Outcome:
    return replace(outcome, replayed=True)


def idempotency_config() -> IdempotencyConfig:
    """Powertools' settings for a transaction. The handler registers its context in it, as always."""
    return IdempotencyConfig(
        event_key_jmespath="[account_id || from_account_id, transaction_id]",
        payload_validation_jmespath="@",
        raise_on_no_idempotency_key=True,
        hash_function="sha256",
        response_hook=cast("IdempotentHookFunction", _as_replayed),
    )


_outcomes = CustomDictSerializer(
    to_dict=cast("Any", outcome_to_json),
    from_dict=cast("Any", outcome_from_json),
)


class Ledger(Struct, frozen=True):
    """The two tables, and the way to them."""

    client: "DynamoDBClient"
    accounts_table: str
    journal_table: str
    idempotency: IdempotencyConfig

    def post(self, deliveries: Sequence[Delivery], deadline: Deadline) -> Posted:
        """Posts or rejects each delivery exactly once, whoever else is posting meanwhile.

        One read per 100 accounts, one commit per group of accounts (and 100 items). A group that fails has its
        exception as the results; it never holds up another.
        """
        posted = Posted(results=[DeadlinePassed()] * len(deliveries))
        try:
            observed = read(self.client, self._keys(deliveries), deadline)
        except (BotoCoreError, ClientError, DeadlinePassed) as error:
            posted.results = [error] * len(deliveries)
            return posted

        def post_group(group: list[int]) -> Posted:
            members = [deliveries[index] for index in group]
            found = {wanted: observed[wanted] for wanted in self._keys(members)}
            return self._post_group([delivery.message for delivery in members], found, deadline)

        groups = grouped_by_account([delivery.message for delivery in deliveries])
        with ThreadPoolExecutor(min(len(groups), CONNECTIONS) or 1) as pool:
            for group, done in zip(groups, pool.map(post_group, groups), strict=True):
                for index, result in zip(group, done.results, strict=True):
                    posted.results[index] = result
                posted.conflicts += done.conflicts
                posted.commit_milliseconds += done.commit_milliseconds
        return posted

    def _keys(self, deliveries: Sequence[Delivery]) -> list[Key]:
        accounts = [self._account_key(name) for delivery in deliveries for name in delivery.message.account_ids]
        entries = [
            self._entry_key(name, delivery.message.transaction_id)
            for delivery in deliveries
            if delivery.delivered_before
            for name in delivery.message.account_ids
        ]
        return accounts + entries

    def _account_key(self, account_id: str) -> Key:
        return key(self.accounts_table, account_id=account_id)

    def _entry_key(self, account_id: str, transaction_id: str) -> Key:
        return key(self.journal_table, account_id=account_id, transaction_id=transaction_id)

    def _post_group(self, messages: Sequence[Message], observed: Observed, deadline: Deadline) -> Posted:
        """Commits as many messages as fit one transaction, in order, until all are."""
        posted = Posted(results=[])
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        try:
            while pending := messages[len(posted.results) :]:
                started = time.monotonic()
                written = write(
                    self.client,
                    lambda observed, pending=pending: self._plan(pending, observed, now),  # type: ignore[misc]
                    observed,
                    deadline,
                )
                observed = written.result.observed
                posted.results += written.result.results
                posted.conflicts += written.conflicts
                if written.result.writes:
                    posted.commit_milliseconds.append((time.monotonic() - started) * 1000)
        except Exception as error:  # noqa: BLE001 (whatever it is, it is this group's alone)
            posted.results += [error] * (len(messages) - len(posted.results))
        return posted

    def _plan(self, messages: Sequence[Message], observed: Observed, now: str) -> Plan["_Fold"]:
        """Folds the messages that fit one transaction: a pure function of what was observed."""
        fold = _Fold(observed, dict(observed))
        for message in messages:
            if not fold.has_room([self._account_key(name) for name in message.account_ids]):
                break
            fold.results.append(self._fold_one(fold, message, now))
        return Plan(fold, list(fold.writes.values()))

    def _fold_one(self, fold: "_Fold", message: Message, now: str) -> Result:
        """One message through Powertools: replayed from its entry where there is one, else decided and staged.

        A transfer has an entry on each side, and they commit together: either one replays it. Its outcome is the
        payer's, unless only the payee's entry was found.
        """
        account_keys = [self._account_key(name) for name in message.account_ids]
        entry_keys = [self._entry_key(name, message.transaction_id) for name in message.account_ids]
        request = message.request()
        existing = fold.existing_entry(entry_keys, request)
        store = StagedRecord(completed_record(existing) if existing else None)
        decisions: list[Decision] = []
        try:
            accounts = [fold.account(account_key) for account_key in account_keys]
        except Exception as error:  # noqa: BLE001 (an item that is no account: others of its group needn't wait for it)
            return error

        def decide_now(*, request: dict[str, Any]) -> Outcome:
            decisions.extend(decide(message, *accounts))
            return _outcome(decisions[0], now)

        once = idempotent_function(
            decide_now,
            data_keyword_argument="request",
            persistence_store=store,
            config=self.idempotency,
            output_serializer=_outcomes,
            key_prefix="journal",
        )
        try:
            outcome: Outcome = once(request=request)
        except UnknownAccount as error:
            return error
        except IdempotencyValidationError:
            assert existing is not None
            return _payload_changed(existing, request)
        if not outcome.replayed:
            assert store.completed is not None, "an outcome that wasn't replayed has a record to commit"
            payload_hash = store.completed.payload_hash
            for account_key, entry_key, decision in zip(account_keys, entry_keys, decisions, strict=True):
                account_id, side = decision.account.account_id, _outcome(decision, now)
                fold.stage_account(account_key, decision.account)
                fold.stage_entry(entry_key, Entry(account_id, message.transaction_id, request, payload_hash, side))
        return outcome


class _Fold(Struct):
    """A commit in the making: items as they were seen, as they'll be afterwards, and the writes that make them so."""

    seen: Observed
    observed: dict[Key, Item | None]
    writes: dict[Key, Write] = {}
    results: list[Result] = []

    def has_room(self, account_keys: Sequence[Key]) -> bool:
        """Whether a message for these accounts fits the transaction: an entry each, and those that are new in it."""
        new_accounts = sum(account_key not in self.writes for account_key in account_keys)
        return len(self.writes) + new_accounts + len(account_keys) <= MAXIMUM_WRITES

    def account(self, account_key: Key) -> Account | None:
        item = self.observed[account_key]
        return account_from_item(item) if item else None

    def existing_entry(self, entry_keys: Sequence[Key], request: dict[str, Any]) -> Entry | None:
        """The entry to answer from, where there is one: of several, one of another request than this comes first."""
        found = [entry_from_item(item) for entry_key in entry_keys if (item := self.observed.get(entry_key))]
        return min(found, key=lambda entry: entry.request == request, default=None)

    def stage_account(self, account_key: Key, account: Account) -> None:
        """One write, however many messages are about the account: from what was seen to what it is now."""
        before = self.seen[account_key]
        after = (self.observed[account_key] or {}) | account_item(account)
        after.pop(VERSION_ID, None)  # this commit's will be another
        self.writes[account_key] = replacing(account_key, before, after)
        self.observed[account_key] = after

    def stage_entry(self, entry_key: Key, entry: Entry) -> None:
        item = entry_item(entry)
        self.writes[entry_key] = Put(entry_key, item, absent("transaction_id"))
        self.observed[entry_key] = item


def _outcome(decision: Decision, now: str) -> Outcome:
    return Outcome(
        status=str(decision.status),
        reason=str(decision.reason) if decision.reason else None,
        amount=decision.amount,
        balance_after=decision.account.balance,
        account_version=decision.account.version,
        posted_at=now,
    )


def _payload_changed(existing: Entry, request: dict[str, Any]) -> PayloadChanged:
    names = sorted(existing.request.keys() | request.keys())
    different = [name for name in names if existing.request.get(name) != request.get(name)]
    return PayloadChanged(
        f"transaction_id: {existing.transaction_id!r} was used before on account {existing.account_id!r}"
        f" with another {', '.join(different)}"
    )


def grouped_by_account(messages: Sequence[Message]) -> list[list[int]]:
    """The messages' indices, in order, those joined by an account together: a set of accounts is in one group only."""
    parents: dict[str, str] = {}

    def root(account_id: str) -> str:
        while (parent := parents.setdefault(account_id, account_id)) != account_id:
            parents[account_id] = parents[parent]
            account_id = parent
        return account_id

    for message in messages:
        first, *others = message.account_ids
        for other in others:
            parents[root(other)] = root(first)
    groups: dict[str, list[int]] = {}
    for index, message in enumerate(messages):
        groups.setdefault(root(message.account_ids[0]), []).append(index)
    return list(groups.values())
