"""Who sent a transaction, as its entry says: the sender that SQS reports, and whatever the message claims beside it."""

import json
from typing import Any

import pytest

from ledger.core.journal import canonical_form, entry_from_item
from tests.support.bodies import opening, payment
from tests.support.ledger import Ledger
from tools.local_aws.functions import invoke, record
from tools.local_aws.server import Endpoint

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
