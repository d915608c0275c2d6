"""The function with stock Powertools on one hot account, for the comparison in `contention`."""

import json
import time
from decimal import Decimal

from benchmarks import stock
from benchmarks.plot import Point
from benchmarks.workers import Batches, work_together
from tools.local_aws.functions import invoke, record
from tools.local_aws.meter import Meter
from tools.local_aws.server import Endpoint

TRANSACTIONS = 320
"""Fewer transactions than with Teller: each takes four requests, and two more per conflict."""


def run(endpoint: Endpoint, prefix: str, workers: int, batch: int, added_seconds: float) -> Point:
    """Posts the transactions with this number of workers. Raises AssertionError if the balance isn't their sum."""
    tables = stock.create_tables(endpoint, prefix)
    accounts = stock.StockFunction(endpoint, tables).accounts
    account = {"account_id": "hot", "balance": Decimal(0), "overdraft_limit": Decimal(0), "version": 1}
    accounts.put_item(Item=account)
    worked = work_together(_work, (endpoint, tables, batch, added_seconds), TRANSACTIONS // batch, workers)
    balance = accounts.get_item(Key={"account_id": "hot"}, ConsistentRead=True)["Item"]["balance"]
    assert balance == TRANSACTIONS, f"after {TRANSACTIONS} transactions of 1 the balance is {balance}"
    return Point(workers, TRANSACTIONS / worked.seconds, sum(worked.results) / TRANSACTIONS)


def _work(batches: Batches, endpoint: Endpoint, tables: stock.Tables, batch: int, added_seconds: float) -> float:
    """Posts batches and returns their write units. A record that returns to the queue is redelivered at once."""
    function = stock.StockFunction(endpoint, tables)
    meter = Meter(*function.clients)
    for client in function.clients:
        client.describe_table(TableName=tables.accounts)  # Connects.
        client.meta.events.register("before-send.dynamodb", lambda **_: time.sleep(added_seconds))
    meter.reset()
    for number in batches:
        messages = [
            {"transaction_id": f"{number}-{index}", "account_id": "hot", "amount": "1"} for index in range(batch)
        ]
        records = [record(json.dumps(message)) for message in messages]
        while records:
            failed = invoke(function, records)
            records = [each for each in records if each["messageId"] in failed]
    return meter.write_units
