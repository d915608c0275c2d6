"""Two functions that are chained by a queue, by both drivers: each takes effect once, and no message is lost."""

import functools
import json
import os
from collections.abc import Callable, Sequence
from typing import Any
from unittest import mock

from conditional_writes import Observed, Plan, Update, VersionedTable, key
from conditional_writes.core.client import new_client
from conditional_writes.exactly_once import Records, ToQueue, exactly_once
from conditional_writes.exactly_once.publishing import Publisher
from conditional_writes.testing import Engine, Outcome
from tests.explore.bank import client_of
from tests.explore.scenario import Scenario
from tests.support.in_process import IN_PROCESS, Aws
from tests.support.new_tables import definition
from tools.local_aws.functions import Context

CLIENT = client_of("chained functions")
ACCOUNTS, RECORDS = VersionedTable(CLIENT, "Accounts", "account_id"), Records(CLIENT, "Records")
SHIPPING, LETTERS = (f"{IN_PROCESS.url}/000000000000/{name}" for name in ("shipping", "letters"))
PARCEL = key("Parcels", order_id="o-1")


@exactly_once(RECORDS, key=lambda order: order["order_id"], items=lambda _: [ACCOUNTS.key("bob")], prefix="buy")
def buy(order: dict[str, Any], observed: Observed) -> Plan[str]:
    account = ACCOUNTS.get_from(observed, "bob")
    writes = [ACCOUNTS.saving(account | {"balance": account["balance"] - 40})]
    return Plan("bought", writes, [ToQueue(SHIPPING, {"order_id": order["order_id"]})])


@exactly_once(RECORDS, key=lambda message: message["message_id"], prefix="ship")
def ship(message: dict[str, Any], _: Observed) -> Plan[str]:
    return Plan("shipped", [Update(key("Parcels", order_id=message["order_id"]), {}, added={"sent": 1})])


@functools.cache
def sqs_of(_: int) -> Any:
    """A worker's client of SQS, for all orders: it is slow to make. What fails comes back to the functions."""
    with mock.patch.dict(os.environ, IN_PROCESS.environment):
        return new_client("sqs", retries={"total_max_attempts": 1})


class Shop:
    """The tables, the stream of the records, and the queue between the two functions."""

    def __init__(self, engine: Engine) -> None:
        aws = Aws(engine)
        self.engine, self.sqs, self.taken = engine, aws.sqs, 0
        engine.others["AmazonSQS"] = aws.answer
        for name in ("shipping", "letters"):
            self.sqs.answer("CreateQueue", {"QueueName": name}, IN_PROCESS.url)
        for client in (CLIENT, *map(sqs_of, range(3))):
            engine.attach(client)
        stream = {"StreamSpecification": {"StreamEnabled": True, "StreamViewType": "NEW_IMAGE"}}
        CLIENT.create_table(**definition("Accounts", {"account_id": "S"}))
        CLIENT.create_table(**definition("Parcels", {"order_id": "S"}))
        CLIENT.create_table(**definition("Records", {"id": "S"}), **stream)
        ACCOUNTS.save({"account_id": "bob", "balance": 100})

    def publish(self, worker: int) -> None:
        """As Lambda invokes the publisher: with the records that it hasn't taken, until it has taken all."""
        publisher = Publisher(LETTERS, lambda _: sqs_of(worker))
        while records := self.engine.stream_records("Records")[self.taken :]:
            first = int(records[0]["dynamodb"]["SequenceNumber"])
            in_haste = Context(timeout_seconds=0)  # each message is tried once, and may come again
            failed = publisher.publish({"Records": records}, in_haste)["batchItemFailures"]
            taken = int(failed[0]["itemIdentifier"]) - 1 if failed else first - 1 + len(records)
            self.taken = max(self.taken, taken)

    def deliver(self, worker: int) -> None:
        queue = sqs_of(worker)
        while received := queue.receive_message(QueueUrl=SHIPPING, MaxNumberOfMessages=10).get("Messages"):
            for message in received:
                assert ship(json.loads(message["Body"])) == "shipped"
                queue.delete_message(QueueUrl=SHIPPING, ReceiptHandle=message["ReceiptHandle"])

    def order(self, worker: int) -> str:
        result = buy({"order_id": "o-1"})
        self.publish(worker)
        self.deliver(worker)
        return result


def ordering(worker: int) -> Callable[[Shop], str]:
    return lambda shop: shop.order(worker)


def each_once(shop: Shop, outcomes: Sequence[Outcome]) -> None:
    assert all(outcome.value == "bought" for outcome in outcomes if outcome.error is None)
    assert shop.order(2) == "bought"
    shop.engine.clock.advance(60)  # messages whose receiver was killed are visible again
    shop.deliver(2)
    assert ACCOUNTS.get("bob")["balance"] == 60
    parcel = CLIENT.get_item(TableName="Parcels", Key={"order_id": {"S": "o-1"}})["Item"]
    assert parcel["sent"] == {"N": "1"}
    assert [queue.messages for queue in shop.sqs.queues.values()] == [[], []]


SCENARIOS = [
    Scenario(
        "a chain of two functions that is killed has both effects once", [ordering(0)], Shop, each_once, most_faults=2
    ),
    Scenario(
        "two chains of one order have each effect once", [ordering(0), ordering(1)], Shop, each_once, completes=False
    ),
]
