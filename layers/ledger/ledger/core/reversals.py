"""Reversals: how much of a posted transaction was reversed, in its journal entries and in the Reversals table.

The table has an item for each transaction that was ever reversed, under its first account. The item is written in the
commit of each reversal, under its version, so no two reversals can count on the same remainder:
docs/decisions/reversals.md.
"""

from decimal import Decimal
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ledger.core.values import attribute


class Reversal(Struct, frozen=True):
    """A reversal, as its journal entry has it: the `number`-th of its transaction, and the amount reversed since.

    The amount is that of the entry's account. If the reversal is rejected, number and amount are as they were before.
    `other_account_ids` are the other accounts of the reversal.
    """

    number: int
    reversed_after: Decimal
    other_account_ids: tuple[str, ...] = ()

    @property
    def is_of_many(self) -> bool:
        """Whether its transaction has more than two accounts. Such a one has amounts of different sizes, and is
        reversed whole.
        """
        return len(self.other_account_ids) > 1


class Reversed(Struct, frozen=True):
    """How much of a transaction was reversed on its first account, by how many reversals.

    `reversed_by` is the transaction id of the last one, and `account_version` the version that it made of the first
    account.
    """

    account_id: str
    transaction_id: str
    amount: Decimal = Decimal(0)
    number: int = 0
    reversed_by: str | None = None
    account_version: int = 0

    def of(self, original: Decimal, accounts: int) -> Decimal:
        """How much of it was reversed on an account, by this amount of the transaction there, of so many accounts."""
        if accounts <= 2:
            return self.amount
        return original.copy_abs() if self.number else Decimal(0)

    def after(self, reversal: Reversal, transaction_id: str, account_version: int) -> "Reversed":
        """After a reversal was posted, which made this version of the first account."""
        return replace(
            self,
            amount=reversal.reversed_after,
            number=reversal.number,
            reversed_by=transaction_id,
            account_version=account_version,
        )


def reversal_item(reversal: Reversal) -> dict[str, Any]:
    item = {"number": reversal.number, "reversed_after": reversal.reversed_after}
    return item | ({"other_account_ids": list(reversal.other_account_ids)} if reversal.other_account_ids else {})


def reversal_from_item(item: dict[str, Any]) -> Reversal:
    """The reversal in a journal entry. Raises KeyError, TypeError or ValueError."""
    others = attribute(item, "other_account_ids", list) if "other_account_ids" in item else []
    if not all(isinstance(account_id, str) for account_id in others):
        raise TypeError("other_account_ids: expected texts")
    return Reversal(attribute(item, "number", int), attribute(item, "reversed_after", Decimal), tuple(others))


def reversed_item(transaction: Reversed) -> dict[str, Any]:
    """The item of the Reversals table. Its `version` is the number of reversals."""
    return {
        "account_id": transaction.account_id,
        "transaction_id": transaction.transaction_id,
        "amount": transaction.amount,
        "version": transaction.number,
        "reversed_by": transaction.reversed_by,
        "account_version": transaction.account_version,
    }


def reversed_from_item(item: dict[str, Any]) -> Reversed:
    """Raises KeyError, TypeError or ValueError for an item that is none of the Reversals table."""
    amount, number = attribute(item, "amount", Decimal), attribute(item, "version", int)
    if amount <= 0 or number == 0:  # it is written with the first reversal; otherwise more than is left would be
        raise ValueError(f"amount, version: expected what was reversed, and how often, got {amount}, {number}")
    return Reversed(
        account_id=item["account_id"],
        transaction_id=item["transaction_id"],
        amount=amount,
        number=number,
        reversed_by=attribute(item, "reversed_by", str),
        account_version=attribute(item, "account_version", int),
    )
