"""The journal replay: each decision made again, in version order, and compared with what the journal records.

Of a transfer's other side the replay knows the journal entry, and the account as it is now. If several earlier states
of the other account are possible, a decision that follows from any of them is accepted. Whether a payer had the money
is judged on the payer's own side.
"""

from collections.abc import Iterable, Iterator
from datetime import datetime
from decimal import Context as DecimalContext
from decimal import Decimal
from itertools import groupby, product
from typing import Protocol

from msgspec import Struct, ValidationError
from msgspec.structs import replace

from ledger.core.accounts import Account, AccountStatus
from ledger.core.journal import EntryId, JournalEntry, Outcome, payload_hash_of
from ledger.core.mismatches import Mismatch, difference, quoted, quoted_id, why_unreadable
from ledger.core.money import EXACT
from ledger.core.posting_time import CLOCK_SKEW, time_of
from ledger.core.reason_codes import NotYet
from ledger.core.rules import Decision, Status
from ledger.core.transaction_types import TRANSACTION_TYPES, from_payload
from ledger.core.transaction_types.base import Context, TransactionMessage


class OtherSide(Struct, frozen=True):
    """The other account of a transfer as it is now, and its journal entry of the transfer; None if they don't exist."""

    account: Account | None
    entry: JournalEntry | None


class Surroundings(Protocol):
    """The items that the decisions on an account depend on, beside the account and the entry."""

    def other_side(self, entry: JournalEntry) -> OtherSide | None:
        """The other side of this transfer. The replay asks for them in version order."""

    def referred_entry(self, entry_id: EntryId) -> JournalEntry | None:
        """A journal entry that a request refers to; None if it doesn't exist."""


def other_account_id(entry: JournalEntry) -> str | None:
    """The other account of the entry's transaction. None if it has no other, or if the request can't be read."""
    message_type = TRANSACTION_TYPES.get(str(entry.request.get("type")))
    sides = [entry.request.get(field) for field in message_type.account_fields] if message_type else []
    return next((side for side in sides if isinstance(side, str) and side != entry.account_id), None)


def referred_entry_ids(entry: JournalEntry) -> tuple[EntryId, ...]:
    """The entries that the entry's request refers to: none, for most types, or if the request can't be read."""
    message_type = TRANSACTION_TYPES.get(str(entry.request.get("type")))
    if message_type is None or message_type.referred_entries is TransactionMessage.referred_entries:
        return ()
    try:
        return from_payload(entry.request).referred_entries
    except (ValidationError, KeyError, TypeError):
        return ()


class Replay(Struct):
    """The replay of an account's journal, in one go or in parts.

    `target` is the account as it was read, before its entries. `account` is the account as the entries so far give it:
    None before the first one, or that of a checkpoint, from which the replay goes on. If the replay comes past the
    version of a `checkpoint`, it compares the two.
    """

    target: Account
    account: Account | None = None
    checkpoint: Account | None = None
    is_known: bool = True
    """After a version that is missing, or twice, the later states are unknown, and versions alone are checked."""
    version: int = 0

    def __post_init__(self) -> None:
        self.version = self.account.version if self.account else 0

    def mismatches(self, entries: Iterable[JournalEntry], around: Surroundings, now: datetime) -> Iterator[Mismatch]:
        """The mismatches of the next entries. They are in version order."""
        for version, of_one_version in groupby(entries, key=lambda entry: entry.outcome.account_version):
            entry, *others = of_one_version
            if version > self.target.version:
                yield _mismatch(entry, "entry beyond", f"the account is at version {self.target.version}")
                continue
            yield from self.missing(version)
            self.version = version
            if others:
                names = " and ".join(quoted_id(each.transaction_id) for each in (entry, others[0]))
                more = f", and {len(others) - 1:,} more" if len(others) > 1 else ""
                yield _mismatch(entry, "entries twice", f"of one version are {names}{more}")
                self.is_known = False
            if self.is_known:
                yield from self._wrong_entry(entry, around, now)
                yield from self._wrong_checkpoint(entry)

    def last_mismatches(self) -> Iterator[Mismatch]:
        """After the last entry: the mismatches of the account with its journal."""
        account_id = self.target.account_id
        yield from self.missing(self.target.version + 1)
        if not self.is_known:
            return
        if sentence := _difference(self.target, self.account):
            yield Mismatch(account_id, "changed account", 0, sentence)
        if self.checkpoint and self.checkpoint.version > self.target.version:
            sentence = f"it is of version {self.checkpoint.version}, the account is at version {self.target.version}"
            yield Mismatch(account_id, "wrong checkpoint", 0, sentence)

    def missing(self, version: int) -> Iterator[Mismatch]:
        """The versions before this one that the entries so far don't have."""
        for missing in range(self.version + 1, version):
            self.is_known = False
            sentence = f"the account is at version {self.target.version}, and this one has no entry"
            yield Mismatch(self.target.account_id, "missing entry", missing, sentence)

    def _wrong_entry(self, entry: JournalEntry, around: Surroundings, now: datetime) -> Iterator[Mismatch]:
        """An entry's own mismatches. The account is then as the entry leaves it, right or wrong."""
        before = self.account
        if payload_hash_of(entry.request) != entry.payload_hash:
            yield _mismatch(entry, "changed request", "its payload_hash is not that of its request")
        yield from _wrong_time(entry, time_of(before.posted_at or "") if before else None, now)
        try:
            message = from_payload(entry.request)
        except (ValidationError, KeyError, TypeError) as error:
            yield _mismatch(entry, "unreadable entry", why_unreadable(entry.request, error))
            self.is_known = False
            return
        yield from _wrong_decision(entry, message, before, around)
        self.account = message.next_account(before, _as_recorded(entry.outcome), entry.outcome.posted_at)

    def _wrong_checkpoint(self, entry: JournalEntry) -> Iterator[Mismatch]:
        checkpoint = self.checkpoint
        if checkpoint and checkpoint.version == self.version and (sentence := _difference(checkpoint, self.account)):
            yield _mismatch(entry, "wrong checkpoint", sentence)


def _difference(account: Account, replayed: Account | None) -> str:
    """The attributes of the account that aren't as the replay gives them, in words. Empty if all are.

    An earlier release writes no `posted_at` to an account. If it runs beside this one, it leaves there that of an entry
    before. That may be the later one of the two, but by no more than clocks differ.
    """
    if replayed and _may_be_left(account.posted_at, replayed.posted_at):
        account = replace(account, posted_at=replayed.posted_at)
    return difference(account, replayed)


def _may_be_left(posted_at: str | None, last: str | None) -> bool:
    """Whether an account may have this time if its last entry was posted at `last`, by an earlier release."""
    left, posted = time_of(posted_at or ""), time_of(last or "")
    return posted_at is None or bool(left and posted and left - posted <= CLOCK_SKEW)


def _as_recorded(outcome: Outcome) -> Decision:
    """The decision in the entry, right or wrong: the replay goes on from it, so one mistake is one mismatch."""
    reason = None if outcome.status == Status.POSTED else outcome.reason or outcome.status
    return Decision(outcome.amount, outcome.balance_after, reason)


def _mismatch(entry: JournalEntry, what: str, sentence: str) -> Mismatch:
    version = entry.outcome.account_version
    return Mismatch(
        entry.account_id, what, version, f"version {version}, {quoted_id(entry.transaction_id)}: {sentence}"
    )


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
    if entry.entry_id not in message.entry_ids:
        of = f"{quoted_id(message.transaction_id)} on {' and '.join(map(quoted_id, message.account_ids))}"
        yield _mismatch(entry, "wrong request", f"its request is that of {of}")
        return
    others: Iterable[Account | None] = [None]
    if len(message.account_ids) > 1:
        other = around.other_side(entry)
        if other is None or other.account is None or other.entry is None:
            yield _mismatch(
                entry, "one-sided transfer", f"on {quoted_id(str(other_account_id(entry)))} no entry of it can be read"
            )
            return
        yield from _unlike_sides(entry, other.entry)
        others = _possible_others(other.account, other.entry.outcome)
    context = Context(
        {entry_id: _earlier(entry, around.referred_entry(entry_id)) for entry_id in message.referred_entries}
    )
    expected = {_decided(message, entry.account_id, before, other, context) for other in others}
    if _shown(entry.outcome) not in expected:
        sentence = f"it is {_shown(entry.outcome)}, expected {' or '.join(sorted(expected))}"
        yield _mismatch(entry, "wrong decision", sentence)


def _earlier(entry: JournalEntry, referred: JournalEntry | None) -> JournalEntry | None:
    """The referred entry, if it is one of the same account, and was there when this entry was decided."""
    if referred is None or referred.account_id != entry.account_id:
        return None
    return referred if referred.outcome.account_version < entry.outcome.account_version else None


def _unlike_sides(one: JournalEntry, other: JournalEntry) -> Iterator[Mismatch]:
    mine, theirs, account_id = one.outcome, other.outcome, quoted_id(other.account_id)
    same = (one.request, mine.status, mine.reason) == (other.request, theirs.status, theirs.reason)
    if not same or mine.amount != theirs.amount.copy_negate():
        yield _mismatch(one, "unlike sides", f"here {_shown(mine)}, on {account_id} {_shown(theirs)}")
    elif mine.posted_at != theirs.posted_at:
        yield _mismatch(
            one, "unlike sides", f"here {quoted(mine.posted_at)}, on {account_id} {quoted(theirs.posted_at)}"
        )


_WIDE = DecimalContext(prec=300)
"""Enough digits for the difference of any two numbers in DynamoDB."""
_NO_LIMIT = Decimal(f"-1E+{EXACT.Emax + 1}")


def _possible_others(account: Account, outcome: Outcome) -> Iterator[Account]:
    """The states that the other account may have had before the transaction.

    Its balance follows from its entry, and its currency never changes. An account that is open now was never closed.
    Its limit at the time is unknown: of the two that are tried, one refuses every debit, and one allows every debit.
    """
    balance = _WIDE.subtract(outcome.balance_after, outcome.amount)
    for status, limit in product({AccountStatus.OPEN, account.status}, (balance, _NO_LIMIT)):
        yield replace(account, balance=balance, status=status, overdraft_limit=limit)


def _decided(
    message: TransactionMessage, account_id: str, before: Account | None, other: Account | None, context: Context
) -> str:
    """This account's side of the decision, spelled as `_shown` spells the recorded outcome."""
    accounts = [before if name == account_id else other for name in message.account_ids]
    try:
        decisions = message.decide(accounts, context)
    except NotYet:
        return "nothing: no account was open"
    decision = decisions[message.account_ids.index(account_id)]
    return _spelled(decision.status, decision.reason, decision.amount, decision.balance)


def _shown(outcome: Outcome) -> str:
    return _spelled(outcome.status, outcome.reason, outcome.amount, outcome.balance_after)


def _spelled(status: str, reason: str | None, amount: Decimal, balance: Decimal) -> str:
    because = f"{quoted(reason)}, " if reason else ""
    return f"{quoted(status)} {quoted(amount)}, {because}balance {quoted(balance)}"
