"""The items of the Reversals table, compared with the reversals of a whole journal, in constant memory."""

from typing import TYPE_CHECKING, Any, NamedTuple

from conditional_writes import Deadline, Item
from conditional_writes.items import from_dynamodb, to_dynamodb
from conditional_writes.reading import projection, read_one
from ledger.core.accounts import Account, account_from_item
from ledger.core.mismatches import Mismatch, quoted_id
from ledger.core.reversal_sums import ReversalSum
from ledger.core.reversals import Reversed, reversed_from_item
from ledger.tables import ACCOUNT_ATTRIBUTES, LedgerTables

if TYPE_CHECKING:
    from types_boto3_dynamodb import DynamoDBClient


class _Found(NamedTuple):
    """The account's items as a sum: those that were there at the version of the account, and the `newer` ones.

    A newer one says nothing of that version, but that its transaction had been reversed no more often than by now.
    `newest` is the item of the highest version.
    """

    then: ReversalSum = ReversalSum()
    newer: int = 0
    newest: Reversed | None = None


class ReversalItems(NamedTuple):
    """The ledger's tables, and the client that reads them."""

    client: "DynamoDBClient"
    tables: LedgerTables

    def mismatches(self, account: Account, journals: ReversalSum, deadline: Deadline) -> list[Mismatch]:
        """The mismatch of the items with the account's whole journal, if there is one. `journals` is the journal's sum.

        One request per 1 MB of items, and at least one. Raises DeadlinePassed and botocore's errors.
        """
        found, after = _Found(), None
        while True:
            items, after = self._page(account.account_id, after, deadline)
            for item in items:
                try:
                    found = _with(found, reversed_from_item(item), account.version)
                except (KeyError, TypeError, ValueError) as error:
                    why = f"{type(error).__name__}: {error}"
                    return _mismatch(
                        account, f"an item of {quoted_id(item['transaction_id'])} that can't be read: {why}"
                    )
            if after is None:
                return self._compared(account, journals, found, deadline)

    def _compared(self, account: Account, journals: ReversalSum, found: _Found, deadline: Deadline) -> list[Mismatch]:
        if found.newest is None:
            if found.then == journals:
                return []
            if found.then.number == journals.number:
                return _mismatch(account, f"{journals.number:,} {OF_ITS}, but of other amounts than the journal gives")
            return _mismatch(account, f"{found.then.number:,} {OF_ITS}, the journal gives {journals.number:,}")
        present = read_one(self.client, self.tables.account_key(account.account_id), deadline, ACCOUNT_ATTRIBUTES)
        present_version = account_from_item(present).version if present else account.version
        if found.newest.account_version > present_version:
            of = f"an item of {quoted_id(found.newest.transaction_id)} of version {found.newest.account_version}"
            return _mismatch(account, f"{of}, the account is at version {present_version}")
        if found.then.number <= journals.number <= found.then.number + found.newer:
            return []
        between = f"{found.then.number:,} to {found.then.number + found.newer:,}"
        return _mismatch(account, f"{between} {OF_ITS}, the journal gives {journals.number:,}")

    def _page(self, account_id: str, after: str | None, deadline: Deadline) -> tuple[list[Item], str | None]:
        """Up to 1 MB of the account's items, strongly consistent, and the transaction id after which the next begin."""
        deadline.check("reading the reversals")
        start: Any = {}
        if after is not None:
            start = {"ExclusiveStartKey": to_dynamodb({"account_id": account_id, "transaction_id": after})}
        response = self.client.query(
            TableName=self.tables.reversals,
            KeyConditionExpression="account_id = :account_id",
            ExpressionAttributeValues=to_dynamodb({":account_id": account_id}),
            ConsistentRead=True,
            **projection(ATTRIBUTES),
            **start,
        )
        last = response.get("LastEvaluatedKey")
        return list(map(from_dynamodb, response["Items"])), from_dynamodb(last)["transaction_id"] if last else None


OF_ITS = "reversals of its transactions"
ATTRIBUTES = ("account_id", "transaction_id", "amount", "version", "reversed_by", "account_version")


def _with(found: _Found, item: Reversed, version: int) -> _Found:
    if item.account_version <= version:
        return found._replace(then=found.then.with_item(item))
    is_newest = found.newest is None or item.account_version > found.newest.account_version
    return found._replace(newer=found.newer + item.number, newest=item if is_newest else found.newest)


def _mismatch(account: Account, sentence: str) -> list[Mismatch]:
    return [Mismatch(account.account_id, "wrong reversals", 0, f"the table Reversals has {sentence}")]
