"""Whether an account is what its journal says: each decision made again, in version order, from the account's first.

Pure functions. Of the other side of a transfer they know its entry, and what the account is now: where that leaves open
what it was then, they accept what it can have been. Whether a payer had the money is judged on the payer's own side.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Context, Decimal
from itertools import product

from msgspec import Struct, ValidationError
from msgspec.structs import replace

from ledger.accounts import Account, AccountStatus
from ledger.journal import Entry, Outcome
from ledger.messages import CloseAccount, Message, OpenAccount, SetOverdraftLimit, Transfer, from_request, plain
from ledger.rules import Status, UnknownAccount, decide


class Mismatch(Struct, frozen=True):
    """`what` is wrong at which `version` of the account (0: of all), and a sentence about it."""

    account_id: str
    what: str
    version: int
    sentence: str

    def is_like(self, other: "Mismatch") -> bool:
        """The same, whatever has become of the account in between."""
        return (self.account_id, self.what, self.version) == (other.account_id, other.what, other.version)


class OtherSide(Struct, frozen=True):
    """The other account of a transfer, as it is now, and the transfer's entry on it; None where there is none."""

    account: Account | None
    entry: Entry | None


type OtherSides = Mapping[str, OtherSide]
"""By transaction id."""


def other_account_id(entry: Entry) -> str | None:
    """The account on the other side of a transfer; None for an entry of anything else."""
    sides = [entry.request.get(field) for field in Transfer.account_fields]
    return next((side for side in sides if isinstance(side, str) and side != entry.account_id), None)


def mismatches(account: Account, entries: Iterable[Entry], other_sides: OtherSides) -> Iterator[Mismatch]:
    """All that is wrong with the account and its journal. The entries, in any order, were read after the account."""
    by_version: dict[int, list[Entry]] = defaultdict(list)
    for entry in entries:
        by_version[entry.outcome.account_version].append(entry)
    yield from _wrong_versions(account, by_version)
    replayed: Account | None = None
    for version in range(1, account.version + 1):
        if len(by_version[version]) != 1:
            return  # was reported, and from here on nobody knows what the account was like
        [entry] = by_version[version]
        try:
            message = from_request(entry.request)
        except (ValidationError, KeyError, TypeError) as error:
            yield _mismatch(entry, "unreadable entry", f"its request: {error}")
            return
        yield from _wrong_decision(entry, message, replayed, other_sides)
        replayed = _as_recorded(replayed, message, entry.outcome)
    if replayed != account:
        sentence = f"the account is {account}, its journal gives {replayed}"
        yield Mismatch(account.account_id, "changed account", 0, sentence)


def _wrong_versions(account: Account, by_version: Mapping[int, Sequence[Entry]]) -> Iterator[Mismatch]:
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


def _mismatch(entry: Entry, what: str, sentence: str) -> Mismatch:
    version = entry.outcome.account_version
    return Mismatch(entry.account_id, what, version, f"version {version}, {entry.transaction_id}: {sentence}")


def _wrong_decision(
    entry: Entry, message: Message, before: Account | None, other_sides: OtherSides
) -> Iterator[Mismatch]:
    if message.transaction_id != entry.transaction_id or entry.account_id not in message.account_ids:
        of = f"{message.transaction_id} on {' and '.join(message.account_ids)}"
        yield _mismatch(entry, "wrong request", f"its request is that of {of}")
        return
    others: Iterable[Account | None] = [None]
    if isinstance(message, Transfer):
        other = other_sides.get(entry.transaction_id)
        if other is None or other.account is None or other.entry is None:
            yield _mismatch(entry, "one-sided transfer", f"on {other_account_id(entry)} there is no entry of it")
            return
        yield from _unlike_sides(entry, other.entry)
        others = _as_it_can_have_been(other.account, other.entry.outcome, message)
    expected = {_decided(message, entry.account_id, before, other) for other in others}
    if _shown(entry.outcome) not in expected:
        sentence = f"it is {_shown(entry.outcome)}, expected {' or '.join(sorted(expected))}"
        yield _mismatch(entry, "wrong decision", sentence)


def _unlike_sides(one: Entry, other: Entry) -> Iterator[Mismatch]:
    mine, theirs = one.outcome, other.outcome
    same = (one.request, mine.status, mine.reason) == (other.request, theirs.status, theirs.reason)
    if not same or mine.amount != theirs.amount.copy_negate():
        yield _mismatch(one, "unlike sides", f"here {_shown(mine)}, on {other.account_id} {_shown(theirs)}")


_WIDE = Context(prec=300)
"""Enough for the difference of any two numbers that DynamoDB holds."""


def _as_it_can_have_been(account: Account, outcome: Outcome, transfer: Transfer) -> Iterator[Account]:
    """The other account before the transfer. Its currency never changes, and who is open now was never closed."""
    balance = _WIDE.subtract(outcome.balance_after, outcome.amount)
    statuses = {AccountStatus.OPEN, account.status}
    limits = balance, _WIDE.subtract(balance, transfer.amount)  # one that refuses it, and one that allows it
    for status, limit in product(statuses, limits):
        yield replace(account, balance=balance, status=status, overdraft_limit=limit)


def _decided(message: Message, account_id: str, before: Account | None, other: Account | None) -> str:
    """This account's side of the decision, to be compared with what is recorded."""
    try:
        decisions = decide(message, *[before if name == account_id else other for name in message.account_ids])
    except UnknownAccount:
        return "nothing: no account was open"
    [decision] = [side for side, name in zip(decisions, message.account_ids, strict=True) if name == account_id]
    return _spelled(decision.status, decision.reason, decision.amount, decision.account.balance)


def _shown(outcome: Outcome) -> str:
    return _spelled(outcome.status, outcome.reason, outcome.amount, outcome.balance_after)


def _spelled(status: str, reason: str | None, amount: Decimal, balance: Decimal) -> str:
    return f"{status} {plain(amount)}, {f'{reason}, ' if reason else ''}balance {plain(balance)}"


def _as_recorded(before: Account | None, message: Message, outcome: Outcome) -> Account | None:
    """The account after the entry, as the entry says, right or wrong: so one wrong decision isn't reported twice."""
    if isinstance(message, OpenAccount) and before is None:
        [opened] = decide(message, None)
        before = opened.account
    if before is None:
        return None
    after = replace(before, balance=outcome.balance_after, version=outcome.account_version)
    match message:
        case SetOverdraftLimit() if outcome.status == Status.POSTED:
            return replace(after, overdraft_limit=message.overdraft_limit)
        case CloseAccount() if outcome.status == Status.POSTED:
            return replace(after, status=AccountStatus.CLOSED)
    return after
