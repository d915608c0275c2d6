"""The base of all transaction types: their common fields, and the way from a message to a decision to the next account.

A transaction type is a subclass in a module of its own, and a line in the registry (`transaction_types/__init__.py`).
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, ClassVar, NamedTuple, final

import msgspec
from msgspec.structs import force_setattr, replace

from ledger.core.accounts import Account
from ledger.core.decoding import Id, Time
from ledger.core.journal import EntryId, JournalEntry
from ledger.core.money import exact, format_decimal
from ledger.core.reason_codes import NotYet, UnknownAccount
from ledger.core.rules import Decision, common_rejection

CURRENCY_PATTERN = r"^[A-Z]{3}\Z"
Currency = Annotated[str, msgspec.Meta(pattern=CURRENCY_PATTERN)]
Description = Annotated[str, msgspec.Meta(max_length=500)]
MetadataName = Annotated[str, msgspec.Meta(min_length=1, max_length=64)]
MetadataValue = Annotated[str, msgspec.Meta(max_length=256)]
Metadata = Annotated[dict[MetadataName, MetadataValue], msgspec.Meta(max_length=20)]
"""With the description at most 28 kB of UTF-8: 99 journal entries fit into DynamoDB's 4 MB a transaction."""


class Range(Enum):
    """The range of a number in a message; the value says what is expected, for people."""

    NOT_ZERO = "a number other than zero"
    ABOVE_ZERO = "a number greater than zero"
    ZERO_OR_LESS = "zero or less: how far below zero the balance may go"
    RATE = 'a number above zero and at most 1, such as "0.12" for 12 %'

    def holds(self, number: Decimal) -> bool:
        match self:
            case Range.NOT_ZERO:
                return number != 0
            case Range.ABOVE_ZERO:
                return number > 0
            case Range.ZERO_OR_LESS:
                return number <= 0
            case Range.RATE:
                return 0 < number <= 1


class Context(NamedTuple):
    """The journal entries that a message refers to: its decision may depend on them, beside the accounts.

    An entry that doesn't exist is None or missing.
    """

    entries: Mapping[EntryId, JournalEntry | None] = {}

    def entry(self, entry_id: EntryId, missing: NotYet) -> JournalEntry:
        """The entry. Raises `missing` if it doesn't exist: it may come later, so nothing can be decided without it."""
        entry = self.entries.get(entry_id)
        if entry is None:
            raise missing
        return entry


class TransactionMessage(
    msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True, omit_defaults=True, tag_field="type"
):
    """A request that changes accounts. `transaction_id` is unique per account, which makes a repetition harmless.

    `account_fields` names the fields that hold account ids, and `numbers` those that hold numbers, with their ranges.
    `posted_event` is the detail type of the events that tell of a posting.
    """

    account_fields: ClassVar[tuple[str, ...]]
    posted_event: ClassVar[str] = "TransactionPosted"
    numbers: ClassVar[tuple[tuple[str, Range], ...]] = ()

    transaction_id: Id
    occurred_at: Time | None = None
    description: Description | None = None
    metadata: Metadata | None = None

    def __post_init__(self) -> None:
        for field, expected in self.numbers:
            number = exact(field, getattr(self, field))
            if not expected.holds(number):
                raise ValueError(f"{field}: expected {expected.value}")
            force_setattr(self, field, number)

    @property
    def account_ids(self) -> tuple[str, ...]:
        """The accounts that are read, decided on and changed together."""
        return tuple(getattr(self, field) for field in self.account_fields)

    @property
    def entry_ids(self) -> tuple[EntryId, ...]:
        """The journal entries that this transaction makes, one on each account."""
        return tuple(EntryId(account_id, self.transaction_id) for account_id in self.account_ids)

    @property
    def log_fields(self) -> dict[str, object]:
        """Names the message in a log line: never its payload."""
        return {"transaction_id": self.transaction_id, "account_ids": self.account_ids}

    @property
    def referred_entries(self) -> tuple[EntryId, ...]:
        """The earlier journal entries that the decision depends on: they are read, and given to it as its context."""
        return ()

    def canonical_payload(self) -> dict[str, Any]:
        """The message in one spelling, whatever its producer's. A journal entry has it, and a repetition must match."""
        fields: dict[str, Any] = msgspec.to_builtins(self, builtin_types=(Decimal, datetime))
        return {name: _canonical(value) for name, value in fields.items()}

    def decide(self, accounts: Sequence[Account | None], context: Context) -> tuple[Decision, ...]:
        """A decision for each account, in the order of `account_ids`. A pure function: it is called again after a
        conflict, and by the journal replay.

        `accounts` has None for an account that doesn't exist. Raises NotYet.
        """
        known = self._known(accounts)
        return common_rejection(known) or self.decide_for(known, context)

    def decide_for(self, accounts: Sequence[Account], context: Context) -> tuple[Decision, ...]:
        """The type's own rule: a decision for each of these accounts, all of which are open. Raises NotYet."""
        raise NotImplementedError

    def opened_account(self) -> Account | None:
        """The account at version 0 that this transaction opens; None if it opens none."""
        return None

    def changes(self, account: Account) -> Mapping[str, Any]:
        """The fields of this account, beside the balance, that the transaction sets when it is posted.

        `account` has its new balance. Each side of a transfer is asked. A pure function, as `decide` is.
        """
        return {}

    @final
    def next_account(self, before: Account | None, decision: Decision, posted_at: str) -> Account | None:
        """The account one version on, as the decision leaves it. None if no account exists, and none is opened."""
        account = before or self.opened_account()
        if account is None:
            return None
        after = replace(account, balance=decision.balance, version=account.version + 1, posted_at=posted_at)
        return after if decision.reason else replace(after, **self.changes(after))

    def _known(self, accounts: Sequence[Account | None]) -> list[Account]:
        known = []
        for field, account_id, account in zip(self.account_fields, self.account_ids, accounts, strict=True):
            if account is None:
                raise UnknownAccount(f"{field}: no account {account_id!r} has been opened")
            known.append(account)
        return known


class AccountMessage(TransactionMessage, frozen=True):
    """A transaction of one account."""

    account_fields = ("account_id",)

    account_id: Id


def _canonical(value: Any) -> Any:
    match value:
        case Decimal():
            return format_decimal(value)
        case datetime():
            return value.astimezone(UTC).isoformat()
        case _:
            return value
