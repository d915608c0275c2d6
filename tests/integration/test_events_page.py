"""Runs the samples of docs/events.md, unchanged: the consumer, its template and the patterns of rules."""

import io
import json
import random
import re
from collections import defaultdict
from types import ModuleType
from typing import Any
from unittest import mock

import pytest

from tests.support.bodies import openings, payment, transfer
from tests.support.ledger import Ledger
from tools.local_aws.consumers import Consumer, new_consumer
from tools.local_aws.functions import Context, publish_outcomes, read_accounts, republish_outcomes, stream_record
from tools.local_aws.server import PROJECT, Endpoint
from tools.local_aws.tables import scan

PAGE = (PROJECT / "docs" / "events.md").read_text()


def sample(language: str) -> str:
    [text] = re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    return str(text)


def publish_all(publisher: ModuleType, ledger: Ledger) -> None:
    records = list(map(stream_record, scan(ledger.dynamodb, ledger.tables.journal)))
    publisher.lambda_handler({"Records": records}, Context())


@pytest.mark.parametrize("seed", range(2))
def test_the_pages_consumer_applies_each_outcome_once_in_order_whatever_is_lost(aws: Endpoint, seed: int) -> None:
    choose = random.Random(seed)
    ledger = Ledger(aws)
    payments = (payment(f"t-{number}", f"{number}.5", "ab"[number % 2]) for number in range(1, 25))
    ledger.post(*openings("a", "b"), *payments)
    publisher, reader = publish_outcomes(aws), read_accounts(aws, ledger.tables)
    republisher = republish_outcomes(aws, ledger.tables, OUTCOMES_BUS=publisher.bus.name)
    queue = new_consumer(aws, publisher.bus.name, publisher.bus.name)
    handlers = {"republish": republisher.lambda_handler, "read": reader.lambda_handler}

    def invoked(FunctionName: str, Payload: str) -> dict[str, Any]:  # noqa: N803 (boto3's names)
        answer = handlers[FunctionName](json.loads(Payload), Context())
        return {"Payload": io.BytesIO(json.dumps(answer).encode())}

    names: dict[str, Any] = {"READ_ACCOUNTS": "read", "REPUBLISH_OUTCOMES": "republish"}
    with mock.patch("boto3.client", return_value=mock.Mock(invoke=invoked)):
        exec(sample("python"), names)
    applied = defaultdict[str, list[dict[str, Any]]](list)
    consumer = names["InOrder"](lambda outcome: applied[outcome["account_id"]].append(outcome))

    publish_all(publisher, ledger)
    events = queue.take()
    assert len(events) == 26
    for event in choose.choices(events, k=9):
        consumer.take(event)
    for account_id in "ab":
        for _ in range(20):
            consumer.close_gap(account_id)
            again = queue.take()
            for event in choose.sample(again, choose.randint(0, len(again))):
                consumer.take(event)
        assert [outcome["account_version"] for outcome in applied[account_id]] == list(range(1, 14))
    told = {event["detail"]["id"]: event["detail"] for event in events}
    assert [outcome for outcomes in applied.values() for outcome in outcomes] == [
        told[f"{account_id}#{version}"] for account_id in applied for version in range(1, 14)
    ]


def test_the_pages_consumer_begins_an_imported_account_after_its_history() -> None:
    names: dict[str, Any] = {}
    with mock.patch("boto3.client"):
        exec(sample("python"), names)
    applied: list[int] = []
    consumer = names["InOrder"](lambda outcome: applied.append(outcome["account_version"]))
    for version, request in ((8, {}), (7, {"history": {"version": "6"}}), (7, {"history": {"version": "6"}}), (9, {})):
        consumer.take({"detail": {"account_id": "a", "account_version": version, "request": request}})
    assert applied == [7, 8, 9]


def test_the_pages_patterns_select_what_they_say(aws: Endpoint) -> None:
    publisher = publish_outcomes(aws)
    bus = publisher.bus.name
    rows = re.findall(r"^\| `(\{.*?)` \|", PAGE.split("\n## To subscribe\n")[1].split("\n## ")[0], re.MULTILINE)
    consumers = [new_consumer(aws, bus, f"{bus}-{n}", json.loads(row)) for n, row in enumerate(rows)]
    ledger = Ledger(aws, OUTCOMES_BUS=bus)
    ledger.post(*openings("acc-1", "acc-2", "acc-3"), *(transfer("t-1", n, "acc-1", "acc-3") for n in range(2)))
    publish_all(publisher, ledger)
    everything, undone, of_accounts, of_transfers = (
        sorted(event["detail"].get("account_id", event["detail-type"]) for event in consumer.take())
        for consumer in consumers
    )
    assert everything == ["TransactionRefused", "acc-1", "acc-1", "acc-2", "acc-3", "acc-3"]
    assert undone == ["TransactionRefused", "acc-1", "acc-3"]
    assert of_accounts == ["acc-1", "acc-1", "acc-2"]
    assert of_transfers == ["acc-1", "acc-3"]


@pytest.mark.exhaustive
def test_the_pages_template_brings_outcomes_to_its_queue(ministack: Endpoint) -> None:
    """On a server: it has CloudFormation."""
    publisher, cloudformation = publish_outcomes(ministack), ministack.client("cloudformation")
    cloudformation.create_stack(
        StackName="consumer",
        TemplateBody=sample("yaml"),
        Parameters=[{"ParameterKey": "OutcomesBusName", "ParameterValue": publisher.bus.name}],
    )
    cloudformation.get_waiter("stack_create_complete").wait(StackName="consumer", WaiterConfig={"Delay": 1})
    described = cloudformation.describe_stack_resource(StackName="consumer", LogicalResourceId="Outcomes")
    ledger = Ledger(ministack)
    ledger.open("a")
    publish_all(publisher, ledger)
    [event] = Consumer(ministack, described["StackResourceDetail"]["PhysicalResourceId"]).take()
    assert event["detail-type"] == "AccountOpened"
