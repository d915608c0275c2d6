"""The consumer in docs/events.md, unchanged, with the functions that it invokes and a bus that loses events."""

import io
import json
import random
import re
from collections import defaultdict
from typing import Any
from unittest import mock

from tools.local_aws.consumers import new_consumer
from tools.local_aws.functions import (
    Context,
    invoke,
    process_transactions,
    publish_outcomes,
    read_accounts,
    record,
    stream_record,
)
from tools.local_aws.server import PROJECT, Endpoint
from tools.local_aws.tables import create_tables, scan

[EXAMPLE] = re.findall(r"^```python\n(.*?)^```", (PROJECT / "docs" / "events.md").read_text(), re.DOTALL | re.MULTILINE)


def test_the_pages_consumer_closes_its_gaps(ministack: Endpoint) -> None:
    tables = create_tables(ministack, "page-of-events")
    openings = [
        {"type": "open_account", "transaction_id": "open", "account_id": name, "currency": "EUR"} for name in "ab"
    ]
    payments = [{"transaction_id": f"t-{n}", "account_id": "ab"[n % 2], "amount": f"{n}.5"} for n in range(1, 25)]
    assert not invoke(process_transactions(ministack, tables), map(record, [*openings, *payments]))
    publisher, reader = publish_outcomes(ministack, tables), read_accounts(ministack, tables)
    queue = new_consumer(ministack, publisher.bus.name, "page-of-events")
    handlers = {"publish": publisher.lambda_handler, "read": reader.lambda_handler}

    def invoked(FunctionName: str, Payload: str) -> dict[str, Any]:  # noqa: N803 (boto3's names)
        answer = handlers[FunctionName](json.loads(Payload), Context())
        return {"Payload": io.BytesIO(json.dumps(answer).encode())}

    names: dict[str, Any] = {"READ_ACCOUNTS": "read", "PUBLISH_OUTCOMES": "publish"}
    with mock.patch("boto3.client", return_value=mock.Mock(invoke=invoked)):
        exec(EXAMPLE, names)
    applied = defaultdict[str, list[dict[str, Any]]](list)
    consumer = names["InOrder"](lambda outcome: applied[outcome["account_id"]].append(outcome))

    publisher.lambda_handler({"Records": list(map(stream_record, scan(ministack, tables.journal)))}, Context())
    events = queue.take()
    assert len(events) == 26
    for event in random.Random(7).sample(events, 9):
        consumer.take(event)
    for account_id in "ab":
        for _ in range(13):
            consumer.close_gap(account_id)
            for event in queue.take():
                consumer.take(event)
        assert [outcome["account_version"] for outcome in applied[account_id]] == list(range(1, 14))
    told = {event["detail"]["id"]: event["detail"] for event in events}
    assert [outcome for outcomes in applied.values() for outcome in outcomes] == [
        told[f"{account_id}#{version}"] for account_id in applied for version in range(1, 14)
    ]
