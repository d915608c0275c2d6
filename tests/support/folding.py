"""The batch poster's plans without AWS: messages are folded into writes, and the writes into items."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from conditional_writes import Check, Key, Observed, Put, Write
from ledger.core.accounts import Account, account_item
from ledger.core.journal import EntryId, Outcome
from ledger.core.transaction_types.base import TransactionMessage
from ledger.fold import Commit, QueuedTransaction
from ledger.tables import LedgerTables
from tests.support.samples import ALICE, BOB, NOW
from workers.queue_messages import Disposition, Done, QueueMessage

NOBODY: Any = None
TABLES = LedgerTables("accounts", "journal", "reversals")
AT = datetime.fromisoformat(NOW)


def message_of(transaction: TransactionMessage, receive_count: int = 1) -> QueuedTransaction:
    sent_at = datetime(2026, 1, 31, tzinfo=UTC)
    return QueueMessage("m-1", "receipt-1", "{}", receive_count, sent_at, {}, "AROAEXAMPLE:api", content=transaction)


def items_of(*accounts: Account) -> dict[Key, Any]:
    return {TABLES.account_key(account.account_id): account_item(account) for account in accounts}


ALICE_AND_BOB = items_of(ALICE, BOB)


def entry_of(items: Observed, account_id: str, transaction_id: str = "t-1", home: str | None = None) -> Any:
    return items[TABLES.entry_key(EntryId.on(account_id, home or account_id, transaction_id))]


class Folded(NamedTuple):
    """A plan's writes, the items afterwards, and the dispositions of the messages that fit into it."""

    writes: Sequence[Write]
    after: Observed
    dispositions: list[Disposition]

    @property
    def outcomes(self) -> list[Outcome]:
        """The outcomes, if all messages are done."""
        return list(map(outcome_of, self.dispositions))


def outcome_of(disposition: Disposition | None) -> Outcome:
    assert isinstance(disposition, Done), disposition
    assert isinstance(disposition.effect, Outcome)
    return disposition.effect


def planned(
    transactions: Iterable[TransactionMessage], observed: Observed, now: datetime = AT, *, minor_units: bool = True
) -> Folded:
    """One plan. Items that aren't in `observed`, and that a decision depends on, don't exist."""
    messages = list(map(message_of, transactions))
    commit = Commit(TABLES, minor_units, messages, {}, now)
    plan = commit.plan(observed)
    while plan.result.unread:
        assert not plan.writes
        assert not observed.keys() & set(plan.result.unread), "nothing is read twice"
        observed = {**observed, **dict.fromkeys(plan.result.unread)}
        plan = commit.plan(observed)
    fold = plan.result
    assert len(plan.writes) != 1, "a write that is alone is no transaction, and the function's role denies it"
    assert list(fold.dispositions) == messages[: len(fold.dispositions)], "the messages that fit, in order"
    assert all(message.disposition is None for message in messages), "messages have no disposition before the commit"
    return Folded(plan.writes, fold.after, list(fold.dispositions.values()))


def fold(
    transactions: Sequence[TransactionMessage], observed: Observed | None = None, *, minor_units: bool = True
) -> Folded:
    """One plan. Accounts that aren't in `observed` don't exist."""
    absent = {TABLES.account_key(name): None for transaction in transactions for name in transaction.account_ids}
    return planned(transactions, absent | dict(observed or {}), minor_units=minor_units)


def folded_in_batches(
    transactions: Sequence[TransactionMessage], observed: Observed, size: int = 1_000
) -> tuple[dict[Key, Any], list[Folded]]:
    """The items afterwards, and the plans. Batches have this size, and each takes as many plans as it needs."""
    plans, items = [], dict(observed)
    for start in range(0, len(transactions), size):
        pending = transactions[start : start + size]
        while pending:
            plans.append(fold(pending, items))
            items = as_written(plans[-1].writes, items)
            pending = pending[len(plans[-1].dispositions) :]
    return items, plans


def dispositions(plans: Sequence[Folded]) -> list[Disposition]:
    return [disposition for plan in plans for disposition in plan.dispositions]


def as_written(writes: Sequence[Write], before: Observed) -> dict[Key, Any]:
    """The items after the writes."""
    items = dict(before)
    for each in writes:
        if not isinstance(each, Check):
            items[each.key] = each.item if isinstance(each, Put) else (items[each.key] or {}) | each.values
    return items
