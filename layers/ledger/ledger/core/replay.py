"""The journal replay: each decision made again, in version order, and compared with what the journal records.

Pure functions. Of a transfer's other side the replay knows the journal entry, and the account as it is now. If several
earlier states of the other account are possible, a decision that follows from any of them is accepted. Whether a payer
had the money is judged on the payer's own side.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Context as DecimalContext
from decimal import Decimal
from itertools import product
from typing import Protocol

from msgspec import Struct, ValidationError
from msgspec.structs import replace

from ledger.core.accounts import Account, AccountStatus
from ledger.core.journal import EntryId, JournalEntry, Outcome, payload_hash_of
from ledger.core.money import EXACT, format_decimal
from ledger.core.reason_codes import NotYet
from ledger.core.rules import Decision, Status
from ledger.core.transaction_types import TRANSACTION_TYPES, from_payload
from ledger.core.transaction_types.base import Context, TransactionMessage


class Mismatch(Struct, frozen=True):
    """A difference: `what` is wrong, at which `version` of the account (0: the account as a whole), and a sentence."""

    account_id: str
    what: str
    version: int
    sentence: str

    def is_like(self, other: "Mismatch") -> bool:
        """The same difference, however far the account has moved on in between."""
        return (self.account_id, self.what, self.version) == (other.account_id, other.what, other.version)


class OtherSide(Struct, frozen=True):
    """The other account of a transfer as it is now, and its journal entry of the transfer; None if they don't exist."""

    account: Account | None
    entry: JournalEntry | None


class OtherSides(Protocol):
    """The other sides of an account's transfers, which the replay asks for in version order. A dict is one."""

    def get(self, transaction_id: str, /) -> OtherSide | None:
        """The other side of this transfer."""


def other_account_id(entry: JournalEntry) -> str | None:
    """The other account of the entry's transaction. None if it has no other, or if the request can't be read."""
    message_type = TRANSACTION_TYPES.get(str(entry.request.get("type")))
    sides = [entry.request.get(field) for field in message_type.account_fields] if message_type else []
    return next((side for side in sides if isinstance(side, str) and side != entry.account_id), None)


def mismatches(
    account: Account, entries: Iterable[JournalEntry], other_sides: OtherSides, now: datetime
) -> Iterator[Mismatch]:
    """All mismatches between the account and its journal. `entries`, in any order, were read after the account."""
    by_version: dict[int, list[JournalEntry]] = defaultdict(list)
    for entry in entries:
        by_version[entry.outcome.account_version].append(entry)
    yield from _wrong_versions(account, by_version)
    replayed: Account | None = None
    posted_at: datetime | None = None
    earlier: dict[EntryId, JournalEntry | None] = {}
    for version in range(1, account.version + 1):
        if len(by_version[version]) != 1:
            return  # was reported, and the account's later states are unknown
        [entry] = by_version[version]
        if payload_hash_of(entry.request) != entry.payload_hash:
            yield _mismatch(entry, "changed request", "its payload_hash is not that of its request")
        before, posted_at = posted_at, _time(entry.outcome.posted_at)
        yield from _wrong_time(entry, posted_at, before, now)
        try:
            message = from_payload(entry.request)
        except (ValidationError, KeyError, TypeError) as error:
            yield _mismatch(entry, "unreadable entry", f"its request: {error}")
            return
        yield from _wrong_decision(entry, message, replayed, other_sides, Context(earlier))
        replayed = message.next_account(replayed, _as_recorded(entry.outcome), entry.outcome.posted_at)
        earlier[entry.entry_id] = entry
    if replayed != account:
        sentence = f"the account is {account}, its journal gives {replayed}"
        yield Mismatch(account.account_id, "changed account", 0, sentence)


def _as_recorded(outcome: Outcome) -> Decision:
    """The decision in the entry, right or wrong: the replay goes on from it, so one mistake is one mismatch."""
    reason = None if outcome.status == Status.POSTED else outcome.reason or outcome.status
    return Decision(outcome.amount, outcome.balance_after, reason)


def _wrong_versions(account: Account, by_version: Mapping[int, Sequence[JournalEntry]]) -> Iterator[Mismatch]:
    expected = range(1, account.version + 1)
    for version in expected:
        if version not in by_version:
            sentence = f"the account is at version {account.version}, and this one has no entry"
            yield Mismatch(account.account_id, "missing entry", version, sentence)
    for version, entries in sorted(by_version.items()):
        if version not in expected:
            yield _mismatch(entries[0], "entry beyond", f"the account is at version {account.version}")
        elif len(entries) > 1:
            names = ", ".join(entry.transaction_id for entry in entries)
            yield _mismatch(entries[0], "entries twice", f"of one version are {names}")


def _mismatch(entry: JournalEntry, what: str, sentence: str) -> Mismatch:
    version = entry.outcome.account_version
    return Mismatch(entry.account_id, what, version, f"version {version}, {entry.transaction_id}: {sentence}")


CLOCK_SKEW = timedelta(minutes=10)
"""How much earlier than the version before an entry may be posted: workers' clocks differ, and each reads its own when
it begins to post, up to a minute before it commits. Also how far in the future."""


def _time(posted_at: str) -> datetime | None:
    """None for a text that is no ISO 8601 time with an offset."""
    try:
        time = datetime.fromisoformat(posted_at)
    except ValueError:
        return None
    return time if time.tzinfo else None


def _wrong_time(
    entry: JournalEntry, posted_at: datetime | None, before: datetime | None, now: datetime
) -> Iterator[Mismatch]:
    """`before` is when the version before was posted, None if that isn't known."""
    if posted_at is None:
        why = "expected an ISO 8601 time with its offset"
    elif posted_at - now > CLOCK_SKEW:
        why = f"and now it is {now.isoformat()}"
    elif before and before - posted_at > CLOCK_SKEW:
        why = f"and the version before at {before.isoformat()}"
    else:
        return
    yield _mismatch(entry, "wrong time", f"posted at {entry.outcome.posted_at}, {why}")


def _wrong_decision(
    entry: JournalEntry,
    message: TransactionMessage,
    before: Account | None,
    other_sides: OtherSides,
    context: Context,
) -> Iterator[Mismatch]:
    if entry.entry_id not in message.entry_ids:
        of = f"{message.transaction_id} on {' and '.join(message.account_ids)}"
        yield _mismatch(entry, "wrong request", f"its request is that of {of}")
        return
    others: Iterable[Account | None] = [None]
    if len(message.account_ids) > 1:
        other = other_sides.get(entry.transaction_id)
        if other is None or other.account is None or other.entry is None:
            yield _mismatch(entry, "one-sided transfer", f"on {other_account_id(entry)} no entry of it can be read")
            return
        yield from _unlike_sides(entry, other.entry)
        others = _possible_others(other.account, other.entry.outcome)
    expected = {_decided(message, entry.account_id, before, other, context) for other in others}
    if _shown(entry.outcome) not in expected:
        sentence = f"it is {_shown(entry.outcome)}, expected {' or '.join(sorted(expected))}"
        yield _mismatch(entry, "wrong decision", sentence)


def _unlike_sides(one: JournalEntry, other: JournalEntry) -> Iterator[Mismatch]:
    mine, theirs = one.outcome, other.outcome
    same = (one.request, mine.status, mine.reason) == (other.request, theirs.status, theirs.reason)
    if not same or mine.amount != theirs.amount.copy_negate():
        yield _mismatch(one, "unlike sides", f"here {_shown(mine)}, on {other.account_id} {_shown(theirs)}")
    elif mine.posted_at != theirs.posted_at:
        yield _mismatch(one, "unlike sides", f"here {mine.posted_at}, on {other.account_id} {theirs.posted_at}")


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
    return f"{status} {format_decimal(amount)}, {f'{reason}, ' if reason else ''}balance {format_decimal(balance)}"
