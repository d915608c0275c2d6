"""The events of outcomes on the deployed template.yaml, on a local AWS that enforces IAM."""

import itertools
import json
from collections.abc import Sequence
from typing import Any

from conditional_writes.core.items import from_dynamodb, to_dynamodb
from tests.checkers.outcomes import violations
from tests.support.bodies import expire_hold, hold, opening, payment, post_hold, reverse, transfer, void_hold
from tests.support.deployed import Bank, until
from tools.local_aws.consumers import EVERYTHING, Consumer, Event

_numbers = itertools.count(1)
LIMIT = "-1000"


def new_consumer(bank: Bank, pattern: Any = EVERYTHING) -> Consumer:
    return bank.new_consumer(f"test-{next(_numbers)}", pattern)


def about(account_id: str, events: Sequence[Event]) -> list[Event]:
    return [event for event in events if event["detail"].get("account_id") == account_id]


def test_each_outcome_is_heard_of_by_its_type_with_what_a_read_of_it_says(bank: Bank) -> None:
    consumer, past = new_consumer(bank), "2026-01-01T00:00:00Z"
    for stage in (
        [opening("told", LIMIT), opening("told-too")],
        [hold("hold-1", 10, "told"), hold("hold-2", 10, "told", expires_at=past)],
        [
            post_hold("post", 4, "told", "hold-1", final=False),
            expire_hold("expire", "told", "hold-2", past),
            transfer("pay", 5, "told", "told-too"),
            payment("t-1", "-5000", "told"),
        ],
        [void_hold("void", "told", "hold-1"), reverse("back", 1, "told", "post")],
    ):
        bank.transactions.process(*stage)
    journal = bank.books().journal
    entries = [*journal["told"], *journal["told-too"]]
    heard = consumer.take_until_heard(entries)
    events = [*about("told", heard), *about("told-too", heard)]
    assert violations(entries, events) == []
    assert {event["detail"]["transaction_id"]: event["detail-type"] for event in events} == {
        "open": "AccountOpened",
        "hold-1": "HoldPlaced",
        "hold-2": "HoldPlaced",
        "post": "HoldPosted",
        "expire": "HoldExpired",
        "void": "HoldVoided",
        "pay": "TransactionPosted",
        "t-1": "TransactionRejected",
        "back": "TransactionReversed",
    }
    for detail in (event["detail"] for event in events):
        ids = {name: detail[name] for name in ("account_id", "home_account_id", "transaction_id")}
        request = {"read": "transaction", **ids}
        answer = bank.invoke(bank.stack["ReadAccountsFunctionName"], request)
        assert detail.items() >= answer["entry"].items()


def test_an_item_that_is_no_entry_goes_to_the_queue_alone_with_the_reason(bank: Bank) -> None:
    bank.take_unpublished()
    consumer, dynamodb = new_consumer(bank), bank.stack.endpoint.client("dynamodb")
    [entry] = bank.post(opening("planted", LIMIT), about="planted")
    table = bank.stack["JournalTableName"]
    key = to_dynamodb({"account_id": entry.account_id, "transaction_id": entry.transaction_id})
    whole = from_dynamodb(dynamodb.get_item(TableName=table, Key=key)["Item"])
    key = to_dynamodb({"account_id": entry.account_id, "transaction_id": "damaged"})
    dynamodb.put_item(TableName=table, Item=to_dynamodb(whole) | key | {"status": {"S": "LOST"}})
    try:
        letters = []
        until(lambda: letters.extend(bank.take_unpublished()) or letters, "it is in the dead-letter queue")
    finally:
        dynamodb.delete_item(TableName=table, Key=key)
    entries = bank.post(payment("t-1", "1.25", "planted"), about="planted")
    assert violations(entries, about("planted", consumer.take_until_heard(entries))) == []
    [letter] = letters
    assert letter.attributes["reason_code"] == "NOT_AN_ENTRY"
    assert "status" in (letter.reason or "")
    assert json.loads(letter.body) == {"republish": {"account_id": "planted", "from_version": 1, "to_version": 1}}
