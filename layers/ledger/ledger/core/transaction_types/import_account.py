"""Opens an account as another system left it: with its balance, which may be below its limit, and its open holds.

The balance comes from another account, or from outside of the ledger.
"""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Annotated, Any, override

import msgspec
from msgspec.structs import force_setattr, replace

from ledger.core.accounts import Account, AccountStatus
from ledger.core.decoding import Id, Time
from ledger.core.holds import MOST_OPEN_HOLDS, Holds, OpenHold, expiry, fit, total
from ledger.core.journal import Outcome
from ledger.core.reason_codes import InvalidMessage, UnknownAccount
from ledger.core.rules import Decision, StandIn, Status, all_rejected, forced
from ledger.core.transaction_types.base import Context, NumberRange, check_decimals
from ledger.core.transaction_types.open_account import Opening
from ledger.core.values import exact

Reference = Annotated[str, msgspec.Meta(min_length=1, max_length=256)]


class ImportedHold(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """`amount` is what remains of the hold, above 0."""

    amount: Decimal
    expires_at: Time | None = None


class History(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The last of the account's historic entries, which are in the journal: its version and its seal."""

    version: Annotated[str, msgspec.Meta(pattern=r"^[1-9][0-9]{0,8}\Z")]
    seal: Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9_-]{43}\Z")]


ImportedHolds = Annotated[dict[Id, ImportedHold], msgspec.Meta(max_length=MOST_OPEN_HOLDS)]
"""By the hold's id, by which a message resolves it."""


class ImportAccount(Opening, kw_only=True, frozen=True, tag="import_account"):
    """`source_reference` names the account in the other system, `as_of` is when it had the balance there.

    With a `history` its entry follows the last one of that.
    """

    account_fields = ("account_id", "from_account_id")
    pool_fields = ("from_account_id",)
    numbers = (("balance", NumberRange.ANY), *Opening.numbers)
    nested = ("holds",)
    posted_event = "AccountImported"

    balance: Decimal
    source_reference: Reference
    as_of: Time
    from_account_id: Id | None = None
    holds: ImportedHolds | None = None
    history: History | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.from_account_id == self.account_id:
            raise ValueError("from_account_id: expected another account than account_id")
        holds = {name: self._exact(name, hold) for name, hold in (self.holds or {}).items()}
        if holds and not fit({name: OpenHold(hold.amount) for name, hold in holds.items()}):
            raise ValueError("holds: their sum would need more than 38 digits")
        force_setattr(self, "holds", holds or None)

    @property
    @override
    def missing_side(self) -> str | None:
        return "from_account_id: expected one" if self.balance else None

    @override
    def decide(self, accounts: Sequence[Account | None], context: Context) -> tuple[Decision, ...]:
        """Raises InvalidMessage if the other account can't give the balance: no account would be opened, so there is
        none on which a rejection could be recorded.
        """
        account, *sources = accounts
        if None in sources:
            raise UnknownAccount(f"from_account_id: no account {self.from_account_id!r} has been opened")
        [decision] = super().decide([account], context)
        if account and decision.reason:
            return all_rejected([account, *filter(None, sources)], decision.reason, account)
        opened = replace(decision, amount=self.balance, balance=self.balance)
        return (opened, *(self._taken_from(source) for source in filter(None, sources)))

    @override
    def opened_account(self, decimal_places: int | None) -> Account:
        account = super().opened_account(decimal_places)
        return replace(account, version=int(self.history.version), seal=self.history.seal) if self.history else account

    def follows(self, account: Account | None) -> bool:
        """Whether the account is as its historic entries leave it, before this import."""
        if account is None:
            return self.history is None
        last = History(str(account.version), account.seal) if account.status is AccountStatus.HISTORIC else None
        return (last, account.balance, account.currency) == (self.history, self.balance, self.currency)

    @override
    def stand_in(self, account: Account, mine: Outcome) -> StandIn | None:
        """None for the account that was opened: there was none before."""
        is_opened = account.account_id == self.account_id and mine.status == Status.POSTED
        return None if is_opened else super().stand_in(account, mine)

    @override
    def changes(self, account: Account) -> Mapping[str, Any]:
        if account.account_id != self.account_id:
            return {}
        holds = _open(self.holds or {})
        return {"holds": holds, "held": total(holds)} if holds else {}

    @override
    def _check_decimals(self, accounts: Sequence[Account]) -> None:
        super()._check_decimals(accounts)
        for account in accounts:
            for name, hold in (self.holds or {}).items():
                check_decimals(f"holds: {name}: amount", hold.amount, account)

    def _taken_from(self, source: Account) -> Decision:
        """The limit doesn't matter: the administration says so."""
        self._check_decimals([source])
        decision = forced(source, self.balance.copy_negate())
        if source.currency != self.currency:
            why = f"its currency is {source.currency}"
        elif source.status is AccountStatus.CLOSED:
            why = "it is closed"
        elif decision.reason:
            why = "its balance would need more than 38 digits"
        else:
            return decision
        raise InvalidMessage(f"from_account_id: {source.account_id!r} can't give the balance: {why}")

    @staticmethod
    def _exact(name: str, hold: ImportedHold) -> ImportedHold:
        amount = exact(f"holds: {name}: amount", hold.amount)
        if amount <= 0:
            raise ValueError(f"holds: {name}: amount: expected {NumberRange.ABOVE_ZERO.value}")
        return replace(hold, amount=amount)


def _open(holds: Mapping[str, ImportedHold]) -> Holds:
    return {name: OpenHold(hold.amount, expiry(hold.expires_at)) for name, hold in holds.items()}
