"""The journal replay: each decision made again, in version order, and compared with what the journal records.

An entry is judged by its own account alone. If the transaction has other accounts, the replay takes from the entry what
those did: they took their amounts, or one of them, which the entry names, rejected the transaction for the entry's
reason. The other accounts' entries must say the same, and the replays of those accounts judge whether that was right.

How much of a transaction was reversed before a reversal follows from the reversal's own entry. The item of the
Reversals table says how much was reversed since, and `ReversalSum` compares the two over a whole journal.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from decimal import Decimal
from itertools import groupby, islice
from typing import Any, NamedTuple, Protocol

from msgspec import Struct, ValidationError, convert
from msgspec.structs import replace

from ledger.core.accounts import CLOCK_SKEW, Account, AccountStatus, time_of
from ledger.core.decoding import MOST_ID_CHARACTERS
from ledger.core.journal import EntryId, JournalEntry, Outcome, seal_of
from ledger.core.mismatches import Mismatch, difference, quoted, quoted_id, why_unreadable
from ledger.core.pools import opened_shard, pool_of
from ledger.core.reason_codes import InvalidMessage, NotYet, Refusal
from ledger.core.reversals import Reversal, Reversed
from ledger.core.rules import RULES, Decision, RejectionReason, Status
from ledger.core.totals import ReversalSum
from ledger.core.transaction_types import RULE_SETS
from ledger.core.transaction_types.base import Context, TransactionMessage, outcome_of
from ledger.core.transaction_types.hold_resolution import HoldResolution
from ledger.core.transaction_types.import_account import ImportAccount
from ledger.core.values import WIDE


class Surroundings(Protocol):
    """The inputs of decisions on an account, beside the account and the entry: None if it isn't there, or unreadable.

    The replay asks for it in the order of the entries.
    """

    def account(self, account_id: str) -> Account | None:
        """The account as it is now."""

    def entry(self, entry_id: EntryId) -> JournalEntry | None: ...

    def reversed(self, entry_id: EntryId) -> Reversed | None:
        """How much was reversed of a transaction by now, by the id of its entry on its home."""


def other_account_ids(entry: JournalEntry) -> tuple[str, ...]:
    """The other accounts of the entry's transaction, as the entry names them.

    A damaged entry may name anything: an id that no account can have isn't looked for.
    """
    others = (account_id for account_id in entry.account_ids if account_id != entry.account_id)
    return tuple(account_id for account_id in others if 0 < len(account_id) <= MOST_ID_CHARACTERS)


def _referred_entry_ids(entry: JournalEntry) -> tuple[EntryId, ...]:
    """The entries that the replay of this one asks for: none, for most types, or if the request can't be read."""
    message_type = RULE_SETS.get(entry.rules, {}).get(str(entry.request.get("type")))
    if message_type is None:
        return ()
    is_of_hold = issubclass(message_type, HoldResolution) and entry.outcome.reason == RejectionReason.HOLD_NOT_OPEN
    if not is_of_hold and message_type.referred_entries is TransactionMessage.referred_entries:
        return ()
    try:
        message = _message_in(entry)
    except UNREADABLE:
        return ()
    of_hold = [EntryId(message.account_id, message.hold_id)] if isinstance(message, HoldResolution) else []
    return (*message.referred_entries, *of_hold)


UNREADABLE = (ValidationError, KeyError, TypeError)
"""Errors of a request that is none."""


def from_payload(payload: dict[str, Any], rules: int = RULES) -> TransactionMessage:
    """The transaction whose `canonical_payload()` this is, to be decided by the rule set of this number."""
    return convert(payload, RULE_SETS[rules][payload["type"]])


def _message_in(entry: JournalEntry) -> TransactionMessage:
    """The message that was decided. Raises UNREADABLE."""
    return from_payload(entry.request, entry.rules).on_shards(entry.shards)


def _readable(entry: JournalEntry | None) -> JournalEntry | None:
    """The entry, if its request can be read."""
    try:
        return entry if entry and _message_in(entry) else None
    except UNREADABLE:
        return None


class Needs(NamedTuple):
    """The keys of what the replay of an entry asks its surroundings for, whatever the replay finds."""

    account_ids: Sequence[str]
    entry_ids: Sequence[EntryId]
    reversed_ids: Sequence[EntryId]

    @classmethod
    def of(cls, entry: JournalEntry) -> "Needs":
        other_ids, reversal, reversed_ids = other_account_ids(entry), entry.outcome.reversal, _reversed_ids(entry)
        entry_ids = [*map(entry.on, other_ids), *_referred_entry_ids(entry)]
        if reversal and reversal.is_of_many:
            entry_ids += [EntryId.on(name, *each) for each in reversed_ids for name in entry.account_ids]
        return cls([*other_ids, *entry.shards], entry_ids, reversed_ids)


def _reversed_ids(entry: JournalEntry) -> tuple[EntryId, ...]:
    """The id under which the Reversals table has the transaction that the entry reverses. None for any other entry, or
    if the request can't be read.
    """
    if entry.outcome.reversal is None:
        return ()
    try:
        return _message_in(entry).reversed_ids
    except UNREADABLE:
        return ()


class Replay(Struct):
    """The replay of an account's journal, or of a page of it.

    `target` is the account as it was read, before its entries. `account` is the account as the entries so far give it:
    None before the first one. `saved` is the account as its checkpoint has it: if the replay comes past that version,
    it compares the two. `reversals` has the posted reversals so far of those transactions whose first account this is.
    """

    target: Account
    account: Account | None = None
    saved: Account | None = None
    reversals: ReversalSum = ReversalSum()
    is_known: bool = True
    """After a version that is missing, or twice, the later states are unknown, and versions alone are checked."""
    version: int = 0

    def __post_init__(self) -> None:
        self.version = self.account.version if self.account else 0

    def mismatches(
        self, entries: Iterable[JournalEntry], through: int, around: Surroundings, now: datetime
    ) -> Iterator[Mismatch]:
        """The mismatches of the entries `through` this version, in their order: at the end, with the account itself."""
        if self.account is None and (pool_id := pool_of(self.target.account_id)):
            self.account = _opened_shard(self.target, around.account(pool_id))
        for version, of_one_version in groupby(entries, key=lambda entry: entry.outcome.account_version):
            entry, *others = of_one_version
            yield from self._missing(version)
            self.version = version
            if others:
                names = " and ".join(quoted_id(each.transaction_id) for each in (entry, others[0]))
                more = f", and {len(others) - 1:,} more" if len(others) > 1 else ""
                yield _mismatch(entry, "entries twice", f"of one version are {names}{more}")
                self.is_known = False
            if self.is_known:
                yield from self._wrong_entry(entry, around, now)
            if self.is_known and self.saved and self.saved.version == version and self.saved != self.account:
                yield _mismatch(entry, "wrong checkpoint", difference(self.saved, self.account))
        yield from self._missing(through + 1)
        if self.is_known and through == self.target.version and self.target != self.account:
            yield Mismatch(self.target.account_id, "changed account", 0, difference(self.target, self.account))

    def _missing(self, version: int) -> Iterator[Mismatch]:
        """The versions before this one that the entries so far don't have."""
        for missing in range(self.version + 1, version):
            self.is_known = False
            sentence = f"version {missing} has no entry, and the account is at version {self.target.version}"
            yield Mismatch(self.target.account_id, "missing entry", missing, sentence)

    def _wrong_entry(self, entry: JournalEntry, around: Surroundings, now: datetime) -> Iterator[Mismatch]:
        """An entry's own mismatches. The account is then as the entry leaves it, right or wrong."""
        before, outcome = self.account, entry.outcome
        yield from _wrong_seal(entry, before.seal if before else "")
        yield from _wrong_time(entry, time_of(before.posted_at or "") if before else None, now)
        try:
            message = _message_in(entry)
        except UNREADABLE as error:
            yield _mismatch(entry, "unreadable entry", why_unreadable(entry.request, error))
            self.is_known = False
            return
        if before and before.status is AccountStatus.HISTORIC and isinstance(message, ImportAccount):
            if not message.follows(before):
                sentence = (
                    f"it doesn't follow the historic entry of version {before.version}, of the seal {before.seal}"
                )
                yield _mismatch(entry, "wrong request", f"{sentence}, with the balance {quoted(before.balance)}")
            before = None
        yield from _wrong_decision(entry, message, before, around)
        if outcome.reversal:
            yield from self._wrong_reversal(entry, outcome.reversal, message, around)
        context = Context(lambda entry_id: _readable(around.entry(entry_id)), posted_at=outcome.posted_at)
        self.account = message.next_account(before, _as_recorded(outcome), context)
        if self.account:
            self.account = replace(self.account, seal=entry.seal)
        if self.account and self.account.currency != outcome.currency:
            found, expected = quoted(outcome.currency), quoted(self.account.currency)
            yield _mismatch(entry, "wrong currency", f"it is {found}, expected {expected}")

    def _wrong_reversal(
        self, entry: JournalEntry, reversal: Reversal, message: TransactionMessage, around: Surroundings
    ) -> Iterator[Mismatch]:
        """The mismatches of a reversal with the item of the Reversals table, which may be of a later reversal."""
        outcome = entry.outcome
        for referred in filter(None, map(around.entry, message.referred_entries)):
            first = referred.home_entry_id
            is_posted, is_first = outcome.status == Status.POSTED, first.account_id == self.target.account_id
            if is_posted and is_first:
                self.reversals = self.reversals.with_reversal(first.transaction_id, reversal, outcome.amount)
            found = around.reversed(first) or Reversed(*first)
            same_amount = reversal.reversed_after == found.amount or (reversal.is_of_many and not is_first)
            same = reversal.number == found.number and same_amount
            if same and is_posted:
                version = outcome.account_version if is_first else found.account_version
                same = (found.reversed_by, found.account_version) == (entry.transaction_id, version)
            is_after = not is_first or found.account_version > outcome.account_version
            if not same and not (is_after and found.number > reversal.number):
                of = f"of {quoted_id(first.transaction_id)} on {quoted_id(first.account_id)}"
                has = f"the table Reversals has {_shown_reversed(found)}"
                yield _mismatch(entry, "wrong reversal", f"{of} it is {_shown_reversal(reversal)}, {has}")


def _as_recorded(outcome: Outcome) -> Decision:
    """The decision in the entry, right or wrong: the replay goes on from it, so one mistake is one mismatch."""
    reason = None if outcome.status == Status.POSTED else outcome.reason or outcome.status
    return Decision(outcome.amount, outcome.balance_after, reason, outcome.decimal_places)


def _mismatch(entry: JournalEntry, what: str, sentence: str) -> Mismatch:
    version = entry.outcome.account_version
    return Mismatch(
        entry.account_id, what, version, f"version {version}, {quoted_id(entry.transaction_id)}: {sentence}"
    )


def _wrong_seal(entry: JournalEntry, before: str) -> Iterator[Mismatch]:
    """`before` is the seal of the version before."""
    try:
        seal = seal_of(before, entry)
    except (TypeError, ValueError):  # a request of values that no message has
        seal = "none"
    if seal != entry.seal:
        sentence = f"it is {quoted(entry.seal)}, the entry and the seal before give {seal}"
        yield _mismatch(entry, "broken seal", sentence)


def _wrong_time(entry: JournalEntry, before: datetime | None, now: datetime) -> Iterator[Mismatch]:
    """`before` is when the version before was posted, None if that isn't known."""
    posted_at = time_of(entry.outcome.posted_at)
    if posted_at is None:
        why = "expected an ISO 8601 time with its offset"
    elif posted_at - now > CLOCK_SKEW:
        why = f"and now it is {now.isoformat()}"
    elif before and before - posted_at > CLOCK_SKEW:
        why = f"and the version before at {before.isoformat()}"
    else:
        return
    yield _mismatch(entry, "wrong time", f"posted at {quoted(entry.outcome.posted_at)}, {why}")


def _wrong_decision(
    entry: JournalEntry, message: TransactionMessage, before: Account | None, around: Surroundings
) -> Iterator[Mismatch]:
    other_ids = other_account_ids(entry)
    accounts = {name: account for name in other_ids if (account := around.account(name))}
    found = (around.entry(entry.on(name)) for name in accounts)
    others = [other for other in found if other]
    context = Context(
        lambda entry_id: _earlier([entry, *others], around.entry(entry_id)),
        lambda entry_id: _reversed_before(entry, entry_id),
        lambda _: entry.outcome.decimal_places,
        entry.outcome.posted_at,
    )
    missing = [*set(other_ids) - {other.account_id for other in others}]
    if wrong := _wrong_accounts(entry, message, other_ids, sorted(missing), context):
        yield wrong
        return
    yield from islice(_unlike_sides(entry, others), 1)
    if entry.shards:
        yield from _wrong_shards(entry, around)
    account_ids = message.all_account_ids(context)
    sides = [
        before if name == entry.account_id else message.stand_in(accounts[name], entry.outcome) for name in account_ids
    ]
    expected = _decided(message, sides, account_ids.index(entry.account_id), context)
    if _decision_in(entry.outcome) != expected:
        yield _mismatch(entry, "wrong decision", f"it is {_shown(entry.outcome)}, expected {_shown(expected)}")


def _wrong_accounts(
    entry: JournalEntry,
    message: TransactionMessage,
    other_ids: Sequence[str],
    one_sided: Sequence[str],
    context: Context,
) -> Mismatch | None:
    """The mismatch of an entry whose accounts aren't those of its request, or can't be known."""
    account_ids, missing = message.account_ids, ""
    try:
        account_ids = message.all_account_ids(context)
    except (NotYet, Refusal) as error:
        missing = str(error)
    is_another = message.home_entry_id != entry.home_entry_id
    if is_another or (entry.account_id not in account_ids and not missing):
        of = f"{quoted_id(message.transaction_id)} on {_named(account_ids)}"
        return _mismatch(entry, "wrong request", f"its request is that of {of}")
    if one_sided:
        return _mismatch(entry, "one-sided transfer", f"on {_named(one_sided)} no entry of it can be read")
    if missing:
        return _mismatch(entry, "wrong decision", f"it is {_shown(entry.outcome)}, expected nothing: {missing}")
    if set(account_ids) != {entry.account_id, *other_ids}:
        expected = _named([name for name in account_ids if name != entry.account_id])
        sentence = f"its other account is {_named(other_ids)}, expected {expected}"
        return _mismatch(entry, "one-sided transfer", sentence)
    return None


def _opened_shard(target: Account, pool: Account | None) -> Account | None:
    """None if no such pool is known: then the first entry was made on no account."""
    return opened_shard(target.account_id, pool) if pool and pool.pool else None


def _wrong_shards(entry: JournalEntry, around: Surroundings) -> Iterator[Mismatch]:
    """A shard that doesn't depend on the worker must be that one. Of another pool it may be any."""
    found = {name: account.pool for name in entry.shards if (account := around.account(name))}
    pools = {name: pool for name, pool in found.items() if pool}
    message = from_payload(entry.request, entry.rules)
    try:
        by_one, by_another = (message.shards_in(pools, first_shard) for first_shard in (0, 1))
    except InvalidMessage:
        by_one = by_another = {}
    if entry.shards.keys() != by_one.keys() or any(
        number not in (range(pools[name].shards) if by_one[name] != by_another[name] else (by_one[name],))
        for name, number in entry.shards.items()
    ):
        yield _mismatch(entry, "wrong shard", f"it is on shard {_shown_shards(entry)}, which no worker can have chosen")


def _named(account_ids: Sequence[str]) -> str:
    return " and ".join(map(quoted_id, account_ids)) or "none"


def _earlier(decided: Sequence[JournalEntry], referred: JournalEntry | None) -> JournalEntry | None:
    """The referred entry, if it is on an account of the decided ones, and was there when they were decided."""
    for entry in decided:
        if referred and referred.account_id == entry.account_id:
            return referred if referred.outcome.account_version < entry.outcome.account_version else None
    return None


def _reversed_before(entry: JournalEntry, reversed_entry: EntryId) -> Reversed:
    """The part that was reversed before, by the reversal that the entry has. Nothing, if there can't have been one."""
    reversal = entry.outcome.reversal
    if reversal is None:
        return Reversed(*reversed_entry)
    number = reversal.number - (entry.outcome.status == Status.POSTED)
    amount = WIDE.subtract(reversal.reversed_after, entry.outcome.amount.copy_abs())
    return Reversed(*reversed_entry, amount, number) if number > 0 and amount > 0 else Reversed(*reversed_entry)


def _unlike_sides(one: JournalEntry, others: Sequence[JournalEntry]) -> Iterator[Mismatch]:
    mine, sums = one.outcome, {one.outcome.currency: one.outcome.amount}
    for other in others:
        theirs, account_id = other.outcome, quoted_id(other.account_id)
        sums[theirs.currency] = WIDE.add(sums.get(theirs.currency, Decimal(0)), theirs.amount)
        if (one.request, *_in_common(mine)) != (other.request, *_in_common(theirs)):
            yield _mismatch(one, "unlike sides", f"here {_shown(mine)}, on {account_id} {_shown(theirs)}")
        elif one.shards != other.shards:
            shards = f"here shards {_shown_shards(one)}, on {account_id} {_shown_shards(other)}"
            yield _mismatch(one, "unlike sides", shards)
        elif mine.posted_at != theirs.posted_at:
            times = f"here {quoted(mine.posted_at)}, on {account_id} {quoted(theirs.posted_at)}"
            yield _mismatch(one, "unlike sides", times)
    for currency, amount in sums.items():
        if others and amount:
            yield _mismatch(one, "unlike sides", f"the amounts in {quoted(currency)} sum to {quoted(amount)}")


def _in_common(outcome: Outcome) -> tuple[object, ...]:
    """The fields that the outcomes of all sides have alike, but for the time."""
    reversal = outcome.reversal
    amount = reversal.reversed_after if reversal and not reversal.is_of_many else None
    return outcome.status, outcome.reason, outcome.rejecting_account_id, reversal and reversal.number, amount


class _NoDecision(NamedTuple):
    """The rules can make no decision, for this reason."""

    reason: str


def _decided(
    message: TransactionMessage, accounts: Sequence[Account | None], mine: int, context: Context
) -> Outcome | _NoDecision:
    """The decision for the account `mine` of these, as `_decision_in` gives the recorded one."""
    try:
        decision = message.decide(accounts, context)[mine]
        after = message.next_account(accounts[mine], decision, Context())
    except (NotYet, Refusal) as error:
        return _NoDecision(str(error))
    except (ArithmeticError, ValueError) as error:  # the entries before may have been damaged in any way
        return _NoDecision(f"no decision can be made, {type(error).__name__}")
    assert after is not None, "a decision is about an account that exists, or that it opens"
    return _decision_in(outcome_of(decision, after))


def _decision_in(outcome: Outcome) -> Outcome:
    """The outcome without what doesn't follow from the rules."""
    return replace(outcome, account_version=0, posted_at="", currency="")


def _shown(outcome: Outcome | _NoDecision) -> str:
    if isinstance(outcome, _NoDecision):
        return f"nothing: {outcome.reason}"
    by = f" by {quoted_id(outcome.rejecting_account_id)}" if outcome.rejecting_account_id else ""
    exceeded = outcome.exceeded
    of = f" of {quoted(exceeded.limit)}, left {quoted(exceeded.left)}" if exceeded else ""
    because = f"{quoted(outcome.reason)}{of}{by}, " if outcome.reason else ""
    held = f", held {quoted(outcome.held_after)}" if outcome.held_after else ""
    places = f", {quoted(Decimal(outcome.decimal_places))} decimals" if outcome.decimal_places is not None else ""
    return (
        f"{quoted(outcome.status)} {quoted(outcome.amount)}, {because}balance {quoted(outcome.balance_after)}{held}"
        f"{places}{f', {_shown_reversal(outcome.reversal)}' if outcome.reversal else ''}"
    )


def _shown_reversal(reversal: Reversal) -> str:
    others = f", with {_named(reversal.other_account_ids)}" if reversal.other_account_ids else ""
    return f"reversal {quoted(Decimal(reversal.number))}, reversed {quoted(reversal.reversed_after)}{others}"


def _shown_shards(entry: JournalEntry) -> str:
    return " and ".join(f"{number} of {quoted_id(name)}" for name, number in entry.shards.items()) or "none"


def _shown_reversed(found: Reversed) -> str:
    if found == Reversed(found.account_id, found.transaction_id):
        return "none"
    return (
        f"reversal {quoted(Decimal(found.number))}, reversed {quoted(found.amount)}, by {quoted(found.reversed_by)} of"
        f" version {quoted(Decimal(found.account_version))}"
    )
