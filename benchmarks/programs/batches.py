"""Handles batches in a new process. Prints the CPU seconds of each batch, as a JSON list in the last line.

Its arguments are a side of benchmarks/tls.py, and in JSON the names of the side's two tables, and a list of batches.
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
    client: Any = importlib.import_module("conditional_writes.client")
    client._load_authorities_once = lambda _: None
    client.CONNECTIONS = 32
    client.CONFIG = client.CONFIG.merge(client.Config(max_pool_connections=client.CONNECTIONS))


side, tables, batches = sys.argv[1], json.loads(sys.argv[2]), json.loads(sys.argv[3])
function = load(side, tables)

from tools.local_aws.functions import invoke, record  # noqa: E402 (not before the function, which imports what it needs)

taken = []
for batch in batches:
    records = [record(message) for message in batch]
    started = time.process_time()
    with contextlib.redirect_stdout(io.StringIO()):
        returned = invoke(function, records)
    taken.append(time.process_time() - started)
    assert not returned, f"{len(returned)} messages returned to the queue, so the times are wrong"
print(json.dumps(taken))
