"""The function with stock Powertools on one hot account, for the comparison in `contention`."""

from decimal import Decimal
from functools import partial

from benchmarks import stock
from benchmarks.deliveries import Loaded, deliver_for
from benchmarks.hot_account import Point, credits_of, summed
from benchmarks.workers import work_together
from tools.local_aws.server import Endpoint


def run(endpoint: Endpoint, prefix: str, workers: int, batch: int, seconds: float) -> Point:
    """Posts transactions to one account. Raises AssertionError if the balance isn't their sum."""
    tables = stock.create_tables(endpoint, prefix)
    accounts = stock.StockFunction(endpoint, tables).accounts
    accounts.put_item(Item={"account_id": "hot", "balance": Decimal(0), "overdraft_limit": Decimal(0), "version": 1})
    arguments = (partial(_load, endpoint, tables), partial(credits_of, "hot"), batch, seconds)
    point = summed(work_together(deliver_for, arguments, workers))
    balance = accounts.get_item(Key={"account_id": "hot"}, ConsistentRead=True)["Item"]["balance"]
    assert balance == point.transactions, f"after {point.transactions} transactions of 1 the balance is {balance}"
    return point


def _load(endpoint: Endpoint, tables: stock.Tables, _: int) -> Loaded:
    function = stock.StockFunction(endpoint, tables)
    for client in function.clients:
        client.describe_table(TableName=tables.accounts)  # Connects.
    return Loaded(function, function.clients)
