"""Runs the examples of the library's README, unchanged."""

import os
import re
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest import mock

from conditional_writes import Deadline
from tools.local_aws.server import PROJECT, Endpoint

README = PROJECT / "layers" / "conditional_writes" / "README.md"


def test_the_readmes_examples_do_what_they_say(dynamodb: Endpoint) -> None:
    examples = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    tables = {"Flights": "flight_id", "Profiles": "account_id", "Locks": "lock_key", "Invoices": "invoice_id"}
    for table, key_name in tables.items():
        dynamodb.client("dynamodb").create_table(
            TableName=table,
            BillingMode="PAY_PER_REQUEST",
            AttributeDefinitions=[{"AttributeName": key_name, "AttributeType": "S"}],
            KeySchema=[{"AttributeName": key_name, "KeyType": "HASH"}],
        )
    names: dict[str, Any] = {}
    with mock.patch.dict(os.environ, dynamodb.environment):
        exec("\n".join(examples), names)
    flights = names["flights"]
    flights.save({"flight_id": "TL1", "seats": 20, "passengers": []})
    early = flights.save({"flight_id": "TL2", "seats": 9, "passengers": ["p-0"], "status": "BOARDING"})

    def reserve(number: int) -> bool:
        try:
            names["reserve_seat"]("TL1", f"p-{number}", Deadline.after(30))
        except names["SoldOut"]:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        reserved = list(pool.map(reserve, range(1, 31)))
    assert sum(reserved) == 20
    booked = flights.load("TL1")
    assert len(set(booked["passengers"])) == 20
    assert booked["version"] == 21

    assert names["delay"]("TL2", "12:30") == "delayed"
    departed = flights.save(flights.load("TL2") | {"status": "DEPARTED"})
    assert "the condition doesn't hold" in names["delay"]("TL2", "13:00")
    assert flights.load("TL2") == departed == early | {"departs_at": "12:30", "status": "DEPARTED", "version": 3}

    names["merge"]("TL2", "TL1")
    assert flights.load("TL2") is None
    assert flights.load("TL1")["passengers"][-1] == "p-0"

    flights.save({"flight_id": "TL3", "seats": 5, "passengers": []})
    with ThreadPoolExecutor(8) as pool:
        passengers = flights.load("TL1")["passengers"][:8]
        rebooked = list(
            pool.map(lambda passenger: names["rebook"](passenger, "TL1", "TL3", Deadline.after(30)), passengers)
        )
    assert sum(rebooked) == len(flights.load("TL3")["passengers"]) == 5
    assert len(flights.load("TL1")["passengers"]) == 16
    assert not names["rebook"]("nobody", "TL3", "TL1", Deadline.after(30))

    at = datetime(2026, 2, 28, 12, tzinfo=UTC)
    for minutes in (5, 9, 7):
        names["seen"]("acc-1", "phone", at + timedelta(minutes=minutes))
    profile = names["VersionedTable"](names["client"], "Profiles", "account_id").load("acc-1")
    assert profile["devices"] == {"last_seen": {"phone": "2026-02-28T12:09:00+00:00"}, "lost": {}}

    assert names["bill"]("acc-1", "2026-02") == "billed"
    assert names["bill"]("acc-1", "2026-02") == "billed before"
    invoices = names["VersionedTable"](names["client"], "Invoices", "invoice_id")
    assert invoices.load("acc-1 2026-02")["token"] > datetime.now(UTC).timestamp()
    names["locks"].acquire("billing acc-1", lease_seconds=60, why="an audit")
    assert "why an audit" in names["bill"]("acc-1", "2026-03")
    assert invoices.load("acc-1 2026-03") is None
