"""A model of a batch: it predicts the messages' dispositions by the oracle's rules, without DynamoDB and faults."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from enum import Enum
from typing import Any, NamedTuple

from msgspec.structs import astuple

from ledger.core.journal import Outcome
from ledger.core.reason_codes import InvalidMessage
from ledger.core.transaction_types import decode
from ledger.core.transaction_types.base import TransactionMessage
from tests.checkers import oracle
from tests.checkers.books import Books, journal_of, name_of, pools_of, state_in, state_of
from tests.checkers.history import entries_of


class Expected(Enum):
    DONE = "posted or rejected, now or before"
    DEAD = "dead-lettered"
    AGAIN = "back on the queue to wait for its account, its hold or its transaction"
    EITHER = "dead-lettered, or back on the queue until it is"


class Delivery(NamedTuple):
    """A delivery of a body, the earlier ones of the message, and what the Attempts table has of them.

    `deliveries` and `waits` (in a row) count this delivery, too. `begun` counts the attempts that never ended.
    """

    body: str
    deliveries: int = 1
    waits: int = 1
    begun: int = 0


class Limits(NamedTuple):
    """A message is dead after so many waits in a row, and after so many attempts in a row that never ended."""

    waits: int
    begun: int


class Predicted(NamedTuple):
    """The expected disposition of each body; the accounts and new entries, in groups that are committed together."""

    dispositions: list[Expected]
    groups: list["Group"]


class Group(NamedTuple):
    accounts: dict[str, oracle.State]
    entries: dict[tuple[str, str], tuple[dict[str, Any], oracle.Effect]]


def predict(books: Books, batch: Sequence[Delivery], limits: Limits, first_shard: int = 0) -> Predicted:
    """Predicts the effect of a batch if no other worker is active. That of this worker begin with `first_shard`.

    Messages with an attempt that never ended are processed last, those with the fewest of them first.
    """
    dispositions = [Expected.DEAD] * len(batch)
    together, joined, journal = Group({}, {}), list[set[str]](), journal_of(books)
    for index, (body, deliveries, waits, begun) in sorted(enumerate(batch), key=lambda each: each[1].begun):
        try:
            message = decode(body)
        except InvalidMessage:
            continue
        if begun >= limits.begun:
            continue
        new_pools = {name: state["pool"] for name, state in together.accounts.items() if state["pool"]}
        placed = oracle.on_shards(message.canonical_payload(), pools_of(books) | new_pools, first_shard)
        account_ids = oracle.account_ids(placed, journal)
        expected = _post(books, journal, together, message, placed, again=deliveries > 1)
        is_last_wait = expected is Expected.AGAIN and waits >= limits.waits
        dispositions[index] = Expected.DEAD if is_last_wait else expected
        others = [names for names in joined if not names.isdisjoint(account_ids)]
        joined = [names for names in joined if names not in others] + [set(account_ids).union(*others)]
    groups = [
        Group(
            {name: account for name, account in together.accounts.items() if name in names},
            {key: entry for key, entry in together.entries.items() if key[0] in names},
        )
        for names in joined
    ]
    return Predicted(dispositions, groups)


def _post(
    books: Books, journal: oracle.Journal, group: Group, message: TransactionMessage, placed: Any, *, again: bool
) -> Expected:
    """Adds the effects to the group, and the new entries to the journal. The message is `placed` on its shards."""
    existing, request = entries_of(books), message.canonical_payload()
    keys = oracle.entry_ids(placed, journal)
    states = [_state_after(books, group, key[0]) for key in keys]
    staged = [group.entries[key][0] for key in keys if key in group.entries]
    before = [existing[key].request for key in keys if key in existing]
    try:
        effects = oracle.effects(placed, states, journal)
    except oracle.Invalid:
        return Expected.DEAD
    if effects is None and before and not staged and not again:
        return Expected.EITHER  # Its entries are read only if another message of the batch needs them.
    if before or staged:
        return Expected.DONE if all(each == request for each in before + staged) else Expected.DEAD
    if effects is None:
        return Expected.AGAIN
    for key, effect in zip(keys, effects, strict=True):
        group.accounts[key[0]] = effect.after
        group.entries[key] = (request, effect)
        journal.add(key[0], placed, effect.amount)
    return Expected.DONE


def _state_after(books: Books, group: Group, account_id: str) -> oracle.State | None:
    """A shard that isn't there yet is as its pool, which the group may have opened."""
    if state := group.accounts.get(account_id) or state_in(books, account_id):
        return state
    pool = group.accounts.get(name_of(account_id))
    return oracle.new_shard(pool) if pool else None


def _state(books: Books, account_id: str) -> oracle.State | None:
    account = books.accounts.get(account_id)
    return state_of(account) if account else None


def surprises(predicted: Predicted, before: Books, after: Books, *, whole: bool) -> Iterator[str]:
    """Yields a sentence for each account and entry that isn't as predicted.

    `whole` says that no fault stopped the invocation. Otherwise a group may be missing.
    """
    old, new = entries_of(before), entries_of(after)
    expected: set[oracle.EntryId] = set()
    for group in predicted.groups:
        missing = not whole and not any(key in new for key in group.entries)
        for account_id, account in group.accounts.items():
            should, found = _state(before, account_id) if missing else account, _state(after, account_id)
            if _comparable(found) != _comparable(should):
                yield f"{account_id} should be {should}, but is {found}"
        if missing:
            continue
        expected |= group.entries.keys()
        for key, (request, effect) in group.entries.items():
            entry = new.get(key)
            if entry is None or entry.request != request or _fields(entry.outcome) != _predicted_fields(effect):
                yield f"{key[0]}: {key[2]} should be {_predicted_fields(effect)}, but is {entry}"
    for key in new.keys() - old.keys() - expected:
        yield f"{key[0]}: {key[2]} shouldn't be posted, but is {new[key].outcome}"


def wrong_dispositions(
    predicted: Predicted, acknowledged: Mapping[str, bool], dead: Collection[str], *, whole: bool
) -> Iterator[str]:
    """Yields a sentence for each message with another disposition. `acknowledged` is in the order of the batch.

    `whole` says that no fault stopped the invocation. Otherwise each message may be back on its queue.
    """
    for (number, done), disposition in zip(acknowledged.items(), predicted.dispositions, strict=True):
        expected = disposition
        if expected is Expected.EITHER:
            expected = Expected.DEAD if done else Expected.AGAIN
        if whole and done != (expected is not Expected.AGAIN):
            yield f"message {number} should be {expected.value}, but was {'' if done else 'not '}acknowledged"
        elif done and expected is Expected.DEAD and number not in dead:
            yield f"message {number} should be {expected.value}, but was acknowledged only"
        elif whole and number in dead and expected is not Expected.DEAD:
            yield f"message {number} should be {expected.value}, but was dead-lettered"


def _comparable(state: oracle.State | None) -> oracle.State | None:
    """Interest, and what was used of limits, depend on the time of a posting, which the model doesn't know."""
    return state and {name: value for name, value in state.items() if name not in ("interest", "limits")}


def _fields(outcome: Outcome) -> tuple[object, ...]:
    reversal = outcome.reversal and oracle.Reversal(*astuple(outcome.reversal))
    amounts = outcome.amount, outcome.balance_after, outcome.held_after
    return outcome.status, outcome.reason, outcome.rejecting_account_id, *amounts, outcome.account_version, reversal


def _predicted_fields(effect: oracle.Effect) -> tuple[object, ...]:
    amounts = effect.amount, effect.after["balance"], effect.after["held"]
    return effect.status, effect.reason, effect.rejecting_account_id, *amounts, effect.after["version"], effect.reversal
