"""The base of all transaction types: their common fields, and the way from a message to a decision to the next account.

A transaction type is a subclass in a module of its own, and a line in the registry (`transaction_types/__init__.py`).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum, StrEnum
from typing import Annotated, Any, ClassVar, NamedTuple, Self, final

import msgspec
from msgspec.structs import force_setattr, replace

from ledger.core.accounts import Account, AccountStatus
from ledger.core.currencies import MINOR_UNITS
from ledger.core.decoding import Id, Time
from ledger.core.journal import EntryId, JournalEntry, Outcome
from ledger.core.limits import Limits, Of, counted
from ledger.core.pools import NUMBERS_OF_SHARDS, Pool, on_shard, shards_of
from ledger.core.reason_codes import InvalidMessage, NotYet, UnknownAccount
from ledger.core.reversals import Reversed
from ledger.core.rules import Decision, RejectionReason, StandIn, all_rejected
from ledger.core.values import WIDE, decimal_places, exact, format_decimal

CURRENCY_PATTERN = r"^[A-Z]{3}\Z"
Currency = Annotated[str, msgspec.Meta(pattern=CURRENCY_PATTERN)]
Description = Annotated[str, msgspec.Meta(max_length=500)]
MetadataName = Annotated[str, msgspec.Meta(min_length=1, max_length=64)]
MetadataValue = Annotated[str, msgspec.Meta(max_length=256)]
Metadata = Annotated[dict[MetadataName, MetadataValue], msgspec.Meta(max_length=20)]
"""With the description at most 28 kB of UTF-8: 99 journal entries fit into DynamoDB's 4 MB a transaction."""


class NumberRange(Enum):
    """The range of a number in a message; the value says what is expected, for people."""

    ANY = "a number"
    NOT_ZERO = "a number other than zero"
    ABOVE_ZERO = "a number greater than zero"
    ZERO_OR_LESS = "zero or less: how far below zero the balance may go"
    SHARDS = f"a power of two from {NUMBERS_OF_SHARDS[0]} to {NUMBERS_OF_SHARDS[-1]}"
    RATE = 'a number from zero to 1, such as "0.12" for 12 %'

    def holds(self, number: Decimal) -> bool:
        match self:
            case NumberRange.ANY:
                return True
            case NumberRange.NOT_ZERO:
                return number != 0
            case NumberRange.ABOVE_ZERO:
                return number > 0
            case NumberRange.ZERO_OR_LESS:
                return number <= 0
            case NumberRange.SHARDS:
                return number in NUMBERS_OF_SHARDS
            case NumberRange.RATE:
                return 0 <= number <= 1


class Door(StrEnum):
    """The queue by which the messages of a type come. Each has its own senders."""

    TRANSACTIONS = "transactions"
    ADMINISTRATION = "administration"


def _no_entry(_: EntryId) -> None:
    return None


def _never_reversed(entry_id: EntryId) -> Reversed:
    return Reversed(*entry_id)


class Context(NamedTuple):
    """The facts that a decision may depend on, beside the message and its accounts.

    `find_entry` finds a journal entry by its id, None if it doesn't exist. `find_reversed` finds how much of a
    transaction was reversed, by the id of its entry on its home. `minor_units` gives the decimals of a
    currency, None for one without a rule. Only an opening looks at it. `posted_at` is that of the decision's entries:
    the periods of limits follow from it, and interest accrues until then.
    """

    find_entry: Callable[[EntryId], JournalEntry | None] = _no_entry
    find_reversed: Callable[[EntryId], Reversed] = _never_reversed
    minor_units: Callable[[str], int | None] = MINOR_UNITS.get
    posted_at: str = ""

    def entry(self, entry_id: EntryId, missing: NotYet) -> JournalEntry:
        """The entry. Raises `missing` if it doesn't exist: it may come later, so nothing can be decided without it."""
        entry = self.find_entry(entry_id)
        if entry is None:
            raise missing
        return entry


class TransactionMessage(
    msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True, omit_defaults=True, tag_field="type"
):
    """A request that changes accounts. Its `transaction_id` is unique on its home, which makes a repetition harmless.

    The home is the first of its accounts.

    `account_fields` names the fields that hold account ids, and `numbers` those that hold numbers, with their ranges.
    `nested` names those that hold several things with numbers of their own: a list, or a map by id.
    Fields that are optional may be absent from a message. `posted_event` is the detail type of the events that tell of
    a posting. If a job sends the type, its messages have ids that begin with `job_prefix`, and no others have. `door`
    is the queue that takes the type. A type of whose messages another queue takes some says so in `own_door`.
    `pool_fields` are those of the account fields that may name a pool: the transaction is then one of a shard. A type
    that `is_of_pool` is about the pool itself.
    """

    door: ClassVar[Door] = Door.TRANSACTIONS
    account_fields: ClassVar[tuple[str, ...]]
    pool_fields: ClassVar[tuple[str, ...]] = ()
    is_of_pool: ClassVar[bool] = False
    posted_event: ClassVar[str] = "TransactionPosted"
    job_prefix: ClassVar[str] = ""
    numbers: ClassVar[tuple[tuple[str, NumberRange], ...]] = ()
    nested: ClassVar[tuple[str, ...]] = ()

    transaction_id: Id
    occurred_at: Time | None = None
    description: Description | None = None
    metadata: Metadata | None = None

    def __post_init__(self) -> None:
        """Raises ValueError for a message that no account can make valid: the sentence is the refusal's.

        A type with a rule between two of its fields has it here, after those of its base.
        """
        for field, given, expected in self._given_numbers():
            number = exact(field, given)
            if not expected.holds(number):
                raise ValueError(f"{field}: expected {expected.value}")
            force_setattr(self, field, number)
        if self.metadata == {}:
            force_setattr(self, "metadata", None)  # an empty object says as much as none

    @property
    def own_door(self) -> Door:
        """The queue that takes this message."""
        return self.door

    @property
    def is_counted(self) -> bool:
        """Whether limits count its amounts, and its reversal gives them back."""
        return self.own_door is not Door.ADMINISTRATION

    @property
    def account_ids(self) -> tuple[str, ...]:
        """The accounts that the message names. They are read, decided on and changed together."""
        named = [getattr(self, field) for field in self.account_fields]
        return tuple(named if None not in named else filter(None, named))

    def shards_in(self, pools: Mapping[str, Pool], first_shard: int) -> Mapping[str, int]:
        """The numbers of its shards, by their pools, for a worker whose own shards begin with `first_shard`.

        Raises InvalidMessage for a pool where the type takes none.
        """
        possible = {name: pools[name] for name in self.possible_pools if name in pools}
        for account_id in self.account_ids:
            if account_id in pools and account_id not in possible and not self.is_of_pool:
                raise self._not_of_a_pool(account_id)
        return shards_of(self.account_ids, self.transaction_id, possible, first_shard)

    def on_shards(self, numbers: Mapping[str, int]) -> Self:
        """The message that is decided: it names shards in place of their pools."""
        if not numbers:
            return self
        named = ((field, getattr(self, field)) for field in self.pool_fields)
        return replace(self, **{field: on_shard(name, numbers) for field, name in named})

    @property
    def possible_pools(self) -> tuple[str, ...]:
        """Those of the ids in the message that may be a pool's."""
        return tuple(filter(None, (getattr(self, field) for field in self.pool_fields)))

    @property
    def home_entry_id(self) -> EntryId:
        """The id of its journal entry on its home."""
        return EntryId(self.account_ids[0], self.transaction_id)

    def all_account_ids(self, context: Context) -> tuple[str, ...]:
        """The accounts that the message names, and after them those that only an entry names to which it refers.

        Raises NotYet if such an entry doesn't exist.
        """
        return self.account_ids

    @property
    def log_fields(self) -> dict[str, object]:
        """Names the message in a log line: never its payload."""
        return {"transaction_id": self.transaction_id, "account_ids": self.account_ids}

    @property
    def referred_entries(self) -> tuple[EntryId, ...]:
        """The earlier journal entries that every decision depends on. They are read with the accounts.

        An entry that only some decisions depend on is read when such a decision asks its context for it.
        """
        return ()

    @property
    def reversed_ids(self) -> tuple[EntryId, ...]:
        """The ids, on their homes, of the transactions that it reverses. How much was reversed is read with them."""
        return ()

    @property
    def missing_side(self) -> str | None:
        """The missing field of a message that moves money of one account alone. None if it moves none, or none alone.

        Such a message is refused where the books are in double entry.
        """
        return None

    @property
    def of_job(self) -> Self | None:
        """The job's own message about the same thing; None if there is none, or if no job sends the type."""
        return None

    def canonical_payload(self) -> dict[str, Any]:
        """The message in one spelling, whatever its producer's. A journal entry has it, and a repetition must match."""
        fields: dict[str, Any] = msgspec.to_builtins(self, builtin_types=(Decimal, datetime))
        return {name: _canonical(value) for name, value in fields.items()}

    def decide(self, accounts: Sequence[Account | None], context: Context) -> tuple[Decision, ...]:
        """A decision for each account, in the order of `all_account_ids`. A pure function: it is called again after a
        conflict, and by the journal replay.

        `accounts` has None for an account that doesn't exist. Raises NotYet, and InvalidMessage if an amount has more
        decimals than an account's.
        """
        known = self._known(accounts, context)
        self._check_decimals(known)
        for account in known:
            if account.status is AccountStatus.CLOSED:
                return all_rejected(known, RejectionReason.ACCOUNT_CLOSED, account)
        return self.decide_for(known, context)

    def decide_for(self, accounts: Sequence[Account], context: Context) -> tuple[Decision, ...]:
        """The type's own rule: a decision for each of these accounts, all of which are open. Raises NotYet."""
        raise NotImplementedError

    def opened_account(self, decimal_places: int | None) -> Account | None:
        """The account at version 0 that this transaction opens; None if it opens none."""
        return None

    def changes(self, account: Account) -> Mapping[str, Any]:
        """The fields of this account, beside the balance, that the transaction sets when it is posted.

        `account` has its new balance. Each of the transaction's accounts is asked. A pure function, as `decide` is.
        """
        return {}

    def stand_in(self, account: Account, mine: Outcome) -> StandIn | None:
        """A stand-in for this account in the replay of another one's entry: it does what that entry's outcome, `mine`,
        says that it did.
        """
        return plain_stand_in(account, mine)

    def limits_after(self, account: Account, amount: Decimal, context: Context) -> Limits:
        """The account's limits after a posting with this effect on its balance."""
        if not self.is_counted or not amount:
            return account.limits
        return counted(account.limits, Of.DEBITS if amount < 0 else Of.CREDITS, amount.copy_abs())

    @final
    def outcomes_on(self, accounts: Sequence[Account | None], context: Context) -> list[tuple[Account, Outcome]]:
        """The accounts as the decision leaves them, each with its outcome. Raises what `decide` raises, and
        UnsoundDecision.
        """
        accounts = [account and account.at(context.posted_at) for account in accounts]
        decisions, outcomes = self.decide(accounts, context), []
        for before, decision in zip(accounts, decisions, strict=True):
            after = self.next_account(before, decision, context)
            assert after is not None, "a decision is about an account that exists, or that it opens"
            outcomes.append((after, outcome_of(decision, after)))
        check_effects(decisions, accounts, [account for account, _ in outcomes])
        return outcomes

    @final
    def next_account(self, before: Account | None, decision: Decision, context: Context) -> Account | None:
        """The account one version on, as the decision leaves it, with the interest until then. None if no account
        exists, and none is opened.
        """
        account = before or self.opened_account(decision.decimal_places)
        if account is None:
            return None
        after = replace(
            account.at(context.posted_at),
            balance=decision.balance,
            version=account.version + 1,
            posted_at=context.posted_at,
        )
        if decision.reason:
            return after
        changes = self.changes(after)
        if after.limits:
            changes = {"limits": self.limits_after(after, decision.amount, context), **changes}
        return replace(after, **changes)

    def _given_numbers(self) -> Iterator[tuple[str, Decimal, NumberRange]]:
        for field, expected in self.numbers:
            if (number := getattr(self, field)) is not None:
                yield field, number, expected

    def _check_decimals(self, accounts: Sequence[Account]) -> None:
        """Raises InvalidMessage for an amount with more decimals than that of an account may have."""
        for account in accounts:
            for field, number, expected in self._given_numbers():
                if expected not in (NumberRange.RATE, NumberRange.SHARDS):
                    check_decimals(field, number, account)

    def _known(self, accounts: Sequence[Account | None], context: Context) -> list[Account]:
        known = []
        for account_id, account in zip(self.all_account_ids(context), accounts, strict=True):
            if account is None:
                raise UnknownAccount(f"{self._field_of(account_id)}: no account {account_id!r} has been opened")
            if account.pool and not self.is_of_pool:
                raise self._not_of_a_pool(account_id)
            known.append(account.at(context.posted_at))
        return known

    def _not_of_a_pool(self, account_id: str) -> InvalidMessage:
        what = f"{account_id!r} is a pool, which takes no {self.__struct_config__.tag!r}"
        return InvalidMessage(f"{self._field_of(account_id)}: {what}")

    def _field_of(self, account_id: str) -> str:
        """The field that names the account."""
        fields = (field for field in self.account_fields if getattr(self, field) == account_id)
        return next(fields, "its other account")


def outcome_of(decision: Decision, after: Account) -> Outcome:
    """A decision as its journal entry records it. `after` is the account as the decision leaves it."""
    return Outcome(
        status=str(decision.status),
        reason=str(decision.reason) if decision.reason else None,
        amount=decision.amount,
        balance_after=decision.balance,
        account_version=after.version,
        posted_at=after.posted_at or "",
        currency=after.currency,
        held_after=after.held,
        decimal_places=decision.decimal_places,
        reversal=decision.reversal,
        rejecting_account_id=decision.rejecting_account_id,
        exceeded=decision.exceeded,
    )


class UnsoundDecision(Exception):
    """A decision that no rule may make. The text says why, and has no amounts."""


def check_effects(decisions: Sequence[Decision], before: Sequence[Account | None], after: Sequence[Account]) -> None:
    """Raises UnsoundDecision unless each balance changes by the decision's amount, the amounts on several accounts sum
    to zero in each currency, and no account is left below its limit with less available than before, but for interest
    that was due.

    A guard against a wrong rule: what an account below its limit gets is posted, and what it has may not become less.
    An account that is opened may be below its limit: it may be imported so.
    """
    sums: dict[str, Decimal] = {}
    for decision, one, other in zip(decisions, before, after, strict=True):
        sums[other.currency] = WIDE.add(sums.get(other.currency, Decimal(0)), decision.amount)
        balance = one.balance if one else Decimal(0)
        if decision.balance != WIDE.add(balance, decision.amount):
            raise UnsoundDecision(f"account {other.account_id!r}: its balance wouldn't change by the entry's amount")
        lowest = min(one.available, Decimal(0)) if one else other.available
        if decision.is_forced:
            continue
        if other.available < lowest and other.available < WIDE.subtract(lowest, _interest_charged(one, other)):
            raise UnsoundDecision(f"account {other.account_id!r} would be below its limit, with less than before")
    if len(decisions) > 1 and any(sums.values()):
        raise UnsoundDecision("the amounts on the transaction's accounts wouldn't sum to zero in each currency")


def _interest_charged(before: Account | None, after: Account) -> Decimal:
    """The amount that was due, and is no longer."""
    due = before.at(after.posted_at or "").interest.due if before else Decimal(0)
    return max(WIDE.subtract(due, after.interest.due), Decimal(0))


def check_decimals(field: str, number: Decimal, account: Account) -> None:
    """Raises InvalidMessage for a number with more decimals than an amount of this account may have."""
    most = account.decimal_places
    if most is not None and (found := decimal_places(number)) > most:
        raise InvalidMessage(f"{field}: {found} decimals, expected at most {most}, as many as {account.currency} has")


def plain_stand_in(account: Account, mine: Outcome) -> StandIn:
    """It takes each amount, or rejects for the entry's reason if the entry names the account."""
    return StandIn.of(account, mine.reason if mine.rejecting_account_id == account.account_id else None)


class AccountMessage(TransactionMessage, frozen=True):
    """A transaction of one account."""

    account_fields: ClassVar[tuple[str, ...]] = ("account_id",)

    account_id: Id


def _canonical(value: Any) -> Any:
    match value:
        case str():  # most are
            return value
        case Decimal():
            return format_decimal(value)
        case datetime():
            return value.astimezone(UTC).isoformat()
        case dict():
            return {name: _canonical(each) for name, each in value.items()}
        case list() | tuple():
            return [_canonical(each) for each in value]
        case _:
            return value
