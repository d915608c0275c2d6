"""Who sent a transaction, as its entry says: the sender that SQS reports, and whatever the message claims beside it."""

import json
from typing import Any

import pytest

from ledger.core.journal import canonical_form, entry_from_item
from tests.support.bodies import opening, payment
from tests.support.ledger import Ledger
from tools.local_aws.functions import invoke, record
from tools.local_aws.server import Endpoint
from tools.teller.letters import QueueName
from tools.teller.redriving import redrive

VICTIM = {"sent_by": "AROAVICTIM:payments", "message_id": "m-1", "sent_at": "2026-11-21T21:01:29.888+00:00"}
OPERATOR, PRODUCER = "AROAOPERATOR:ann", "AROAPRODUCER:shop"
ORIGINS: dict[str, tuple[Any, dict[str, str] | None]] = {
    "redriven": (VICTIM | {"request_id": "r-1"}, VICTIM),
    "redriven twice": (VICTIM | {"sent_by": OPERATOR, "request_id": "r-2", "first": VICTIM}, VICTIM),
    "no origin": ({"sent_by": "AROAVICTIM:payments"}, None),
    "no JSON": ("{", None),
}


@pytest.mark.parametrize("sender", [OPERATOR, PRODUCER])
@pytest.mark.parametrize("origin", ORIGINS)
def test_an_entry_names_its_sender_whatever_origin_the_message_claims(
    aws: Endpoint, dynamodb: Endpoint, sender: str, origin: str
) -> None:
    """A producer that forges an origin is named itself, as an operator is who redrives: the claim stands beside it."""
    ledger = Ledger(aws, dynamodb, POWERTOOLS_LOG_LEVEL="CRITICAL")
    ledger.post(opening("a"))
    claimed, first = ORIGINS[origin]
    delivery = record(payment("t", 5, "a"))
    delivery["attributes"]["SenderId"] = sender
    text = claimed if isinstance(claimed, str) else json.dumps(claimed)
    delivery["messageAttributes"] = {"origin": {"dataType": "String", "stringValue": text}}
    assert not invoke(ledger.worker, [delivery])
    item = ledger.entry("t", "a")
    assert item["sent"]["sent_by"] == sender
    assert item["sent"]["message_id"] == delivery["messageId"]
    assert item.get("first_sent") == first
    assert json.loads(canonical_form(entry_from_item(item)))["sent"]["sent_by"] == sender, "the seal covers it"


class Deployment(dict[str, str]):
    """The queues of a function, by the stack's outputs."""

    def __init__(self, aws: Endpoint, queue: Any) -> None:
        super().__init__(TransactionsQueueUrl=queue.url, TransactionsDeadLetterQueueUrl=queue.dead_letter_url)
        self.client = aws.client


def test_the_entry_of_a_redriven_letter_names_the_operator_and_the_first_sender(
    aws: Endpoint, dynamodb: Endpoint
) -> None:
    """The producer's message dies twice: the first operator has mended it wrongly."""
    ledger = Ledger(aws, dynamodb, POWERTOOLS_LOG_LEVEL="CRITICAL")
    ledger.post(opening("a"))
    queue, sqs = ledger.worker.worker.queue, aws.client("sqs")
    first = delivery = record(payment("t", "12,5", "a"))
    delivery["attributes"]["SenderId"] = PRODUCER
    for operator, amount in (("AROAOPERATOR:bob", "12;5"), (OPERATOR, "12.5")):
        assert not invoke(ledger.worker, [delivery])
        body = json.dumps(payment("t", amount, "a"))
        deployment: Any = Deployment(aws, queue)
        redrive(deployment, QueueName.TRANSACTIONS, lambda _, body=body: body)
        [sent] = sqs.receive_message(QueueUrl=queue.url, MessageAttributeNames=["All"])["Messages"]
        sqs.delete_message(QueueUrl=queue.url, ReceiptHandle=sent["ReceiptHandle"])
        delivery = record(sent["Body"]) | {"messageId": sent["MessageId"]}
        delivery["attributes"]["SenderId"] = operator
        delivery["messageAttributes"] = {
            name: {"dataType": value["DataType"], "stringValue": value["StringValue"]}
            for name, value in sent["MessageAttributes"].items()
        }
    assert not invoke(ledger.worker, [delivery])
    entry = ledger.entry("t", "a")
    assert (entry["sent"]["sent_by"], entry["sent"]["message_id"]) == (OPERATOR, delivery["messageId"])
    assert (entry["first_sent"]["sent_by"], entry["first_sent"]["message_id"]) == (PRODUCER, first["messageId"])
