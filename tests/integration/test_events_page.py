"""Runs the samples of docs/events.md, unchanged: the consumer, its template and the patterns of rules."""

import io
import json
import random
import re
from collections import defaultdict
from types import ModuleType
from typing import Any
from unittest import mock

from tools.local_aws.consumers import Consumer, new_consumer
from tools.local_aws.functions import (
    Context,
    invoke,
    process_transactions,
    publish_outcomes,
    read_accounts,
    record,
    republish_outcomes,
    stream_record,
)
from tools.local_aws.server import PROJECT, Endpoint
from tools.local_aws.tables import Tables, create_tables, scan

PAGE = (PROJECT / "docs" / "events.md").read_text()


def sample(language: str) -> str:
    [text] = re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    return str(text)


def publish_all(publisher: ModuleType, ministack: Endpoint, tables: Tables) -> None:
    """Invokes the function with the journal, as its stream would."""
    publisher.lambda_handler({"Records": list(map(stream_record, scan(ministack, tables.journal)))}, Context())


def opening(account_id: str) -> dict[str, Any]:
    return {"type": "open_account", "transaction_id": "open", "account_id": account_id, "currency": "EUR"}


def test_the_pages_consumer_closes_its_gaps(ministack: Endpoint) -> None:
    tables = create_tables(ministack, "page-of-events")
    payments = [{"transaction_id": f"t-{n}", "account_id": "ab"[n % 2], "amount": f"{n}.5"} for n in range(1, 25)]
    assert not invoke(process_transactions(ministack, tables), map(record, [opening("a"), opening("b"), *payments]))
    publisher, reader = publish_outcomes(ministack), read_accounts(ministack, tables)
    republisher = republish_outcomes(ministack, tables, OUTCOMES_BUS=publisher.bus.name)
    queue = new_consumer(ministack, publisher.bus.name, "page-of-events")
    handlers = {"republish": republisher.lambda_handler, "read": reader.lambda_handler}

    def invoked(FunctionName: str, Payload: str) -> dict[str, Any]:  # noqa: N803 (boto3's names)
        answer = handlers[FunctionName](json.loads(Payload), Context())
        return {"Payload": io.BytesIO(json.dumps(answer).encode())}

    names: dict[str, Any] = {"READ_ACCOUNTS": "read", "REPUBLISH_OUTCOMES": "republish"}
    with mock.patch("boto3.client", return_value=mock.Mock(invoke=invoked)):
        exec(sample("python"), names)
    applied = defaultdict[str, list[dict[str, Any]]](list)
    consumer = names["InOrder"](lambda outcome: applied[outcome["account_id"]].append(outcome))

    publish_all(publisher, ministack, tables)
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


def test_the_pages_patterns_select_what_they_say(ministack: Endpoint) -> None:
    tables = create_tables(ministack, "patterns")
    openings = [opening(f"acc-{n}") for n in (1, 2, 3)]
    transfers = [
        {"type": "transfer", "transaction_id": "t-1", "from_account_id": "acc-1", "to_account_id": "acc-3", "amount": n}
        for n in range(2)
    ]
    publisher = publish_outcomes(ministack)
    bus = publisher.bus.name
    function = process_transactions(ministack, tables, OUTCOMES_BUS=bus)
    rows = re.findall(r"^\| `(\{.*?)` \|", PAGE.split("\n## To subscribe\n")[1].split("\n## ")[0], re.MULTILINE)
    consumers = [new_consumer(ministack, bus, f"pattern-{n}", json.loads(row)) for n, row in enumerate(rows)]
    assert not invoke(function, map(record, [*openings, *transfers]))
    publish_all(publisher, ministack, tables)
    everything, undone, of_accounts, of_transfers = (
        sorted(event["detail"].get("account_id", event["detail-type"]) for event in consumer.take())
        for consumer in consumers
    )
    assert everything == ["TransactionRefused", "acc-1", "acc-1", "acc-2", "acc-3", "acc-3"]
    assert undone == ["TransactionRefused", "acc-1", "acc-3"]
    assert of_accounts == ["acc-1", "acc-1", "acc-2"]
    assert of_transfers == ["acc-1", "acc-3"]


def test_the_pages_template_brings_outcomes_to_its_queue(ministack: Endpoint) -> None:
    tables = create_tables(ministack, "template-of-a-consumer")
    publisher = publish_outcomes(ministack)
    ministack.client("cloudformation").create_stack(
        StackName="consumer",
        TemplateBody=sample("yaml"),
        Parameters=[{"ParameterKey": "OutcomesBusName", "ParameterValue": publisher.bus.name}],
    )
    ministack.client("cloudformation").get_waiter("stack_create_complete").wait(
        StackName="consumer", WaiterConfig={"Delay": 1}
    )
    described = ministack.client("cloudformation").describe_stack_resource(
        StackName="consumer", LogicalResourceId="Outcomes"
    )
    queue_url = described["StackResourceDetail"]["PhysicalResourceId"]
    assert not invoke(process_transactions(ministack, tables), [record(opening("a"))])
    publish_all(publisher, ministack, tables)
    [event] = Consumer(ministack, queue_url).take()
    assert event["detail-type"] == "AccountOpened"
