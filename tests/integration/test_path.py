"""A transaction's way through the code is short, and as docs/extending.md describes it."""

import re

from tests.support.tracing import traced
from tools.local_aws.functions import Context, invoke, process_transactions, record
from tools.local_aws.server import PROJECT, Endpoint
from tools.local_aws.tables import create_tables


def test_a_posted_transaction_goes_through_few_modules_and_calls_and_as_the_docs_say(aws: Endpoint) -> None:
    function = process_transactions(aws, create_tables(aws, "path"), POWERTOOLS_LOG_LEVEL="CRITICAL")
    opening = {"type": "open_account", "transaction_id": "open", "account_id": "a", "currency": "EUR"}
    assert not invoke(function, [record(opening)])
    event = {"Records": [record({"transaction_id": "t", "account_id": "a", "amount": 5})]}
    trace = traced(lambda: function.lambda_handler(event, Context()))
    print(trace)  # shown if a bound is passed
    modules, calls, frames = trace.numbers
    assert modules <= 22
    assert calls <= 55
    assert frames <= 14
    page = (PROJECT / "docs" / "extending.md").read_text()
    listed = re.findall(r"^\| \d+ \| `(.*?)` \|", page, re.MULTILINE)
    called = dict.fromkeys([trace.modules[0], *(function.module for function in trace.calls)])
    assert listed == [module for module in called if module in listed]
