"""What each release wrote, as files in tests/museum: this release reads it, replays it, and answers as that one did.

Before a release, `TELLER_MUSEUM=1.0.0 pytest` of this file writes that release's items: those of the ledger, and in
tests/museum/records those of the library's functions. They never change afterwards.
"""

import json
import os
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from conditional_writes import Observed, Plan, VersionedTable
from conditional_writes.core.items import from_dynamodb
from conditional_writes.exactly_once import PayloadChanged, Records, ToBus, ToQueue, ToTopic, exactly_once
from conditional_writes.exactly_once.publishing import Publisher
from conditional_writes.testing import Engine
from tests.support.bodies import reverse
from tests.support.new_tables import definition
from tests.support.planted import BOOKS, HELD_BOOKS
from tests.support.reconciling import Reconciled, mismatches
from tests.support.samples import life_of
from tools.local_aws.functions import Context
from tools.local_aws.server import PROJECT, Endpoint

MUSEUM = PROJECT / "tests" / "museum"


def messages() -> list[dict[str, Any]]:
    """The books of other tests, messages of all types with one account, and a compound, reversed."""
    legs = [{"account_id": name, "amount": amount} for name, amount in (("ann", "-3"), ("ben", "2"), ("alice", "1"))]
    sale = {"type": "compound", "transaction_id": "c-1", "legs": legs}
    return [*BOOKS, *HELD_BOOKS, *life_of("erin"), sale, reverse("c-1-back", None, "ann", "c-1")]


if "TELLER_MUSEUM" in os.environ:

    def test_write_the_items_of_this_release(
        aws: Endpoint, in_process: Endpoint, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        ledger = Reconciled(aws, in_process, monkeypatch)
        ledger.post(*messages())
        assert mismatches(ledger.run()) == ""
        items = {name.rpartition("-")[2]: found for name, found in ledger.stored(checkpoints=True).items()}
        (MUSEUM / f"{os.environ['TELLER_MUSEUM']}.json").write_text(
            json.dumps(items, indent=None, sort_keys=True) + "\n"
        )


@pytest.mark.parametrize("release", sorted(MUSEUM.glob("*.json")), ids=lambda path: path.stem)
def test_what_a_release_wrote_is_replayed_and_answered_as_before(release: Path, reconciled: Reconciled) -> None:
    ledger = reconciled
    items = json.loads(release.read_text())
    ledger.restore({table: items[table.rpartition("-")[2]] for table in ledger.stored(checkpoints=True)})
    report = ledger.run(whole=True)
    assert (mismatches(report), report["accounts_checked"]) == ("", len(items["accounts"]))
    before = ledger.stored()
    ledger.post(*(from_dynamodb(entry)["request"] for entry in items["journal"]))
    assert (ledger.stored(), ledger.dead_letters()) == (before, [])


# --- records of functions, with their messages -------------------------------------------------------------

RECORDS = MUSEUM / "records"
QUEUE, TOPIC = "https://sqs.eu-west-1.amazonaws.com/1/orders", "arn:aws:sns:eu-west-1:1:orders"
ORDER = {"order_id": "o-1", "account_id": "bob", "amount": 40, "lines": [{"sku": "tea", "pieces": 2}]}


class Services:
    """SQS, SNS and EventBridge as the publisher calls them: all is taken. `sent` has the requests."""

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []

    def __getattr__(self, method: str) -> Any:
        return lambda **request: self.sent.append({"method": method, **request}) or _taken(request["Entries"])

    def publish_batch(self, **request: Any) -> Any:
        self.sent.append({"method": "publish_batch", **request})
        return _taken(request["PublishBatchRequestEntries"])


def _taken(entries: list[dict[str, Any]]) -> dict[str, Any]:
    return {"Entries": entries, "Successful": entries}


class Functions:
    """A table of records with its stream, and functions whose records never end."""

    def __init__(self, engine: Engine) -> None:
        self.engine, self.client = engine, engine.client()
        self.client.create_table(**definition("Accounts", {"account_id": "S"}))
        stream = {"StreamSpecification": {"StreamEnabled": True, "StreamViewType": "NEW_IMAGE"}}
        self.client.create_table(**definition("Records", {"id": "S"}), **stream)
        accounts, records = VersionedTable(self.client, "Accounts", "account_id"), Records(self.client, "Records")
        if "TELLER_MUSEUM" in os.environ:
            accounts.save({"account_id": "bob", "balance": 100})

        @exactly_once(
            records,
            key=lambda order: order["order_id"],
            items=lambda order: [accounts.key(order["account_id"])],
            prefix="buy",
            expires_after=timedelta(days=365_000),
        )
        def buy(order: dict[str, Any], observed: Observed) -> Plan[dict[str, Any]]:
            account = accounts.get_from(observed, order["account_id"])
            left = account["balance"] - order["amount"]
            messages = [
                ToQueue(QUEUE, {"order_id": order["order_id"], "note": "für 2 €"}),
                ToQueue(QUEUE + ".fifo", "a text", group_id="bob"),
                ToTopic(TOPIC, {"left": int(left)}),
                ToBus("shop", "shop.orders", "Bought", {"lines": order["lines"]}),
            ]
            return Plan({"left": left, "was": None}, [accounts.saving(account | {"balance": left})], messages)

        self.buy = buy

    def stored(self) -> dict[str, Any]:
        return {table: self.client.scan(TableName=table)["Items"] for table in ("Accounts", "Records")}

    def sent(self) -> list[dict[str, Any]]:
        services = Services()
        event = {"Records": self.engine.stream_records("Records")}
        answer = Publisher("dead", lambda _: services).publish(event, Context(timeout_seconds=60))
        assert answer == {"batchItemFailures": []}
        return services.sent


if "TELLER_MUSEUM" in os.environ:

    def test_write_the_records_of_this_release() -> None:
        with Engine() as engine:
            functions = Functions(engine)
            result = functions.buy(ORDER)
            kept = {"items": functions.stored(), "left": int(result["left"]), "sent": functions.sent()}
        RECORDS.mkdir(exist_ok=True)
        path = RECORDS / f"{os.environ['TELLER_MUSEUM']}.json"
        path.write_text(json.dumps(kept, sort_keys=True) + "\n")


@pytest.mark.parametrize("release", sorted(RECORDS.glob("*.json")), ids=lambda path: path.stem)
def test_a_record_of_a_release_is_replayed_and_its_messages_leave_with_the_same_ids(
    release: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TELLER_MUSEUM", raising=False)
    kept = json.loads(release.read_text())
    with Engine() as engine:
        functions = Functions(engine)
        for table, items in kept["items"].items():
            for item in items:
                functions.client.put_item(TableName=table, Item=item)
        ran = functions.buy.run(ORDER)
        assert (ran.result, ran.replayed) == ({"left": kept["left"], "was": None}, True)
        with pytest.raises(PayloadChanged, match="amount"):
            functions.buy(ORDER | {"amount": 41})
        assert functions.stored() == kept["items"]
        assert functions.sent() == kept["sent"]
