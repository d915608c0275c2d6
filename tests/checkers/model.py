"""What must become of a batch of transactions: a model that knows the oracle's rules, neither DynamoDB nor faults."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from enum import Enum
from typing import Any, NamedTuple

from ledger.core.journal import Outcome
from ledger.core.reason_codes import InvalidMessage
from ledger.core.transaction_types import decode
from ledger.core.transaction_types.base import TransactionMessage
from tests.checkers import oracle
from tests.checkers.books import Books, state_of
from tests.checkers.history import entries_of


class Fate(Enum):
    DONE = "posted or rejected, now or before"
    DEAD = "dead-lettered"
    WAITS = "back on the queue for its account"
    EITHER = "dead-lettered, or back on the queue until it is"


class Predicted(NamedTuple):
    """For each body its fate; the accounts and new entries that it leaves, in groups that are committed as one."""

    fates: list[Fate]
    groups: list["Group"]


class Group(NamedTuple):
    accounts: dict[str, oracle.State]
    entries: dict[tuple[str, str], tuple[dict[str, Any], oracle.Effect]]


def predict(books: Books, bodies: Sequence[tuple[str, int]], maximum_deliveries: int) -> Predicted:
    """Of bodies in their order, each with how often it was delivered by now, where nobody else is at work."""
    fates, together, joined = [], Group({}, {}), list[set[str]]()
    for body, deliveries in bodies:
        try:
            message = decode(body)
        except InvalidMessage:
            fates.append(Fate.DEAD)
            continue
        fate = _post(books, together, message, delivered_before=deliveries > 1)
        fates.append(Fate.DEAD if fate is Fate.WAITS and deliveries >= maximum_deliveries else fate)
        others = [names for names in joined if not names.isdisjoint(message.account_ids)]
        joined = [names for names in joined if names not in others] + [set(message.account_ids).union(*others)]
    groups = [
        Group(
            {name: account for name, account in together.accounts.items() if name in names},
            {key: entry for key, entry in together.entries.items() if key[0] in names},
        )
        for names in joined
    ]
    return Predicted(fates, groups)


def _post(books: Books, group: Group, message: TransactionMessage, *, delivered_before: bool) -> Fate:
    existing = entries_of(books)
    keys = [(account_id, message.transaction_id) for account_id in message.account_ids]
    states = [group.accounts.get(name, _state(books, name)) for name in message.account_ids]
    staged = [group.entries[key][0] for key in keys if key in group.entries]
    before = [existing[key].request for key in keys if key in existing]
    if None in states and before and not staged and not delivered_before:
        return Fate.EITHER  # its entries weren't read for itself, maybe for another of the batch
    if before or staged:
        return Fate.DONE if all(request == message.canonical_payload() for request in before + staged) else Fate.DEAD
    effects = oracle.effects(message.canonical_payload(), states)
    if effects is None:
        return Fate.WAITS
    for key, effect in zip(keys, effects, strict=True):
        group.accounts[key[0]] = effect.after
        group.entries[key] = (message.canonical_payload(), effect)
    return Fate.DONE


def _state(books: Books, account_id: str) -> oracle.State | None:
    account = books.accounts.get(account_id)
    return state_of(account) if account else None


def surprises(predicted: Predicted, before: Books, after: Books, *, whole: bool) -> Iterator[str]:
    """A sentence for each account and entry that isn't as predicted. Unless it is `whole`, a group may be missing."""
    old, new = entries_of(before), entries_of(after)
    expected: set[tuple[str, str]] = set()
    for group in predicted.groups:
        missing = not whole and not any(key in new for key in group.entries)
        for account_id, account in group.accounts.items():
            should, found = _state(before, account_id) if missing else account, _state(after, account_id)
            if found != should:
                yield f"{account_id} should be {should}, and is {found}"
        if missing:
            continue
        expected |= group.entries.keys()
        for key, (request, effect) in group.entries.items():
            entry = new.get(key)
            if entry is None or entry.request != request or _said(entry.outcome) != _as_said(effect):
                yield f"{': '.join(key)} should be {_as_said(effect)}, and is {entry}"
    for account_id, transaction_id in new.keys() - old.keys() - expected:
        yield f"{account_id}: {transaction_id} shouldn't be posted, and is {new[account_id, transaction_id].outcome}"


def wrong_fates(
    predicted: Predicted, acknowledged: Mapping[str, bool], dead: Collection[str], *, whole: bool
) -> Iterator[str]:
    """A sentence for each message that didn't end as predicted. `acknowledged` is in the order of the batch.

    Unless it is `whole`, each may be back on its queue, or given up.
    """
    for (number, done), predicted_fate in zip(acknowledged.items(), predicted.fates, strict=True):
        fate = predicted_fate
        if fate is Fate.EITHER:
            fate = Fate.DEAD if done else Fate.WAITS
        if whole and done != (fate is not Fate.WAITS):
            yield f"message {number} should be {fate.value}, and was {'' if done else 'not '}acknowledged"
        elif done and fate is Fate.DEAD and number not in dead:
            yield f"message {number} should be {fate.value}, and was acknowledged without that"
        elif whole and number in dead and fate is not Fate.DEAD:
            yield f"message {number} should be {fate.value}, and was dead-lettered"


def _said(outcome: Outcome) -> tuple[object, ...]:
    return outcome.status, outcome.reason, outcome.amount, outcome.balance_after, outcome.account_version


def _as_said(effect: oracle.Effect) -> tuple[object, ...]:
    return effect.status, effect.reason, effect.amount, effect.after["balance"], effect.after["version"]
