"""The Accounts table page by page: a scan that can go on in another invocation."""

import threading
from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

from conditional_writes import Deadline, Item
from conditional_writes.core.items import from_dynamodb, to_dynamodb
from conditional_writes.core.reading import projection
from ledger.core.accounts import Account

if TYPE_CHECKING:
    from types_boto3_dynamodb import DynamoDBClient


ITEMS_OF_A_PAGE = 100
"""The accounts that one Scan reads."""


class AccountPage(NamedTuple):
    """Items of accounts, in the table's order. The next page begins after the account `after`; None: no more pages."""

    items: list[Item]
    after: str | None


def account_page(
    client: "DynamoDBClient", accounts_table: str, after: str | None, limit: int, **filters: Any
) -> AccountPage:
    """The next `limit` accounts, as they are now. From page to page, each account is read once.

    One strongly consistent request. `filters` has further parameters of DynamoDB's Scan: an account that they leave out
    counts towards `limit`. Raises botocore's errors.
    """
    start: dict[str, Any] = {} if after is None else {"ExclusiveStartKey": to_dynamodb({"account_id": after})}
    response = client.scan(TableName=accounts_table, ConsistentRead=True, Limit=limit, **filters, **start)
    last = response.get("LastEvaluatedKey")
    items = [from_dynamodb(item) for item in response["Items"]]
    return AccountPage(items, from_dynamodb(last)["account_id"] if last else None)


class AccountsInTurn:
    """The accounts that come after one in the table's order. Threads take them one by one.

    `taken` is the id of the account that was taken last; at first, of the one before them. None is the beginning of the
    table.
    """

    def __init__(self, client: "DynamoDBClient", accounts_table: str, after: str | None) -> None:
        self.taken = after
        self._client, self._accounts_table = client, accounts_table
        self._items: deque[Item] = deque()
        self._is_last_page = False
        self._lock = threading.Lock()

    @property
    def is_empty(self) -> bool:
        return self._is_last_page and not self._items

    def take(self, deadline: Deadline) -> Item | None:
        """The next account's item, with an account's attributes; None: there are no more.

        Raises DeadlinePassed and botocore's errors.
        """
        with self._lock:
            while not self._items:
                if self._is_last_page:
                    return None
                deadline.check("reading accounts")
                only = projection(Account.__struct_fields__)
                page = account_page(self._client, self._accounts_table, self.taken, ITEMS_OF_A_PAGE, **only)
                self._items.extend(page.items)
                self._is_last_page = page.after is None
            deadline.check("beginning an account")
            item = self._items.popleft()
            self.taken = item["account_id"]
            return item
