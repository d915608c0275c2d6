"""Handles batches in a new process. Prints the CPU seconds of each batch, as a JSON list in the last line.

Its arguments are a side of benchmarks/tls.py, the names of the side's two tables, the prefix and the number of the
accounts, the prefix and the number of the batches. Each batch has a transaction for each account.
"""

import contextlib
import importlib
import io
import json
import os
import sys
import time
from typing import Any


def load(side: str, tables: list[str]) -> Any:
    """The function after a cold start. Its tables are on the AWS that the environment variables name."""
    if side == "stock":
        stock, server = map(importlib.import_module, ("benchmarks.stock", "tools.local_aws.server"))
        return stock.StockFunction(server.Endpoint(os.environ["AWS_ENDPOINT_URL"]), stock.Tables(*tables))
    if side == "botocore's":
        make_connections_as_botocore_does()
    os.environ["ACCOUNTS_TABLE"], os.environ["JOURNAL_TABLE"] = tables
    return importlib.import_module("app")


def make_connections_as_botocore_does() -> None:
    """Has each of 32 connections load the file of authorities."""
    client: Any = importlib.import_module("conditional_writes.core.client")
    client._load_authorities_once = lambda _: None
    client.CONNECTIONS = 32
    client.CONFIG = client.CONFIG.merge(client.Config(max_pool_connections=client.CONNECTIONS))


side, *tables, account, accounts, batch, batches = sys.argv[1:]
function = load(side, tables)

from tools.local_aws.functions import invoke, record  # noqa: E402 (not before the function, which imports what it needs)

taken = []
for number in range(int(batches)):
    records = [
        record({"transaction_id": f"{batch}-{number}", "account_id": f"{account}-{each}", "amount": "1"})
        for each in range(int(accounts))
    ]
    started = time.process_time()
    with contextlib.redirect_stdout(io.StringIO()):
        returned = invoke(function, records)
    taken.append(time.process_time() - started)
    assert not returned, f"{len(returned)} messages returned to the queue, so the times are wrong"
print(json.dumps(taken))
