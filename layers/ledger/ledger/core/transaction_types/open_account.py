"""Opens an account, at balance 0."""

from collections.abc import Sequence
from decimal import Decimal
from typing import ClassVar, override

from msgspec.structs import replace

from ledger.core.accounts import Account, AccountStatus
from ledger.core.pools import LOWEST_LIMIT, MOST_POOL_ID_CHARACTERS, Pool
from ledger.core.rules import Decision, RejectionReason, posted, rejected
from ledger.core.transaction_types.base import AccountMessage, Context, Currency, Door, NumberRange


class Opening(AccountMessage, frozen=True):
    """The base of the types that open an account."""

    door = Door.ADMINISTRATION
    is_of_pool: ClassVar[bool] = True  # a pool that exists, too, is a reason for a rejection
    numbers: ClassVar[tuple[tuple[str, NumberRange], ...]] = (("overdraft_limit", NumberRange.ZERO_OR_LESS),)

    currency: Currency
    overdraft_limit: Decimal = Decimal(0)

    def decide(self, accounts: Sequence[Account | None], context: Context) -> tuple[Decision, ...]:
        [account] = accounts
        if account is not None:
            return (rejected(account, RejectionReason.ACCOUNT_EXISTS),)
        decimal_places = context.minor_units(self.currency)
        opened = self.opened_account(decimal_places)
        self._check_decimals([opened])
        return (replace(posted(opened), decimal_places=decimal_places),)

    def opened_account(self, decimal_places: int | None) -> Account:
        return Account(
            account_id=self.account_id,
            balance=Decimal(0),
            overdraft_limit=self.overdraft_limit,
            currency=self.currency,
            status=AccountStatus.OPEN,
            version=0,
            decimal_places=decimal_places,
        )


class OpenAccount(Opening, frozen=True, tag="open_account"):
    """With `shards` the account is a pool, which has no overdraft limit: it never lacks money."""

    numbers = (*Opening.numbers, ("shards", NumberRange.SHARDS))
    posted_event = "AccountOpened"

    shards: Decimal | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.shards and self.overdraft_limit:
            raise ValueError("overdraft_limit: an account with shards has none: it never lacks money")
        if self.shards and len(self.account_id) > MOST_POOL_ID_CHARACTERS:
            raise ValueError(f"account_id: expected at most {MOST_POOL_ID_CHARACTERS} characters with shards")

    @override
    def opened_account(self, decimal_places: int | None) -> Account:
        opened = super().opened_account(decimal_places)
        if self.shards is None:
            return opened
        return replace(opened, overdraft_limit=LOWEST_LIMIT, pool=Pool(int(self.shards), int(self.shards)))
