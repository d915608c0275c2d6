"""Runs the examples of the library's README and of its guide, unchanged, one after the other in each page."""

import asyncio
import functools
import itertools
import json
import os
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest import mock

import boto3
import pytest
from aws_durable_execution_sdk_python_testing.runner import DurableFunctionTestRunner

from conditional_writes import Deadline, OutcomeUnknown, VersionedTable
from conditional_writes.locks import Lock, WindowDone
from tests.support.in_process import Aws
from tests.support.new_tables import definition, index
from tools.local_aws.functions import Context
from tools.local_aws.server import PROJECT, Endpoint

LIBRARY = PROJECT / "layers" / "conditional_writes"
README = LIBRARY / "README.md"
GUIDE = sorted(LIBRARY.glob("docs/*.md"))
TABLES = {
    "Accounts": {"account_id": "S"},
    "Flights": {"flight_id": "S"},
    "Invoices": {"invoice_id": "S"},
    "Locks": {"lock_key": "S"},
    "Orders": {"customer_id": "S", "order_id": "N"},
    "Parcels": {"order_id": "S"},
    "Profiles": {"account_id": "S"},
    "Records": {"id": "S"},
    "Shop": {"pk": "S", "sk": "S"},
}
"""The keys of the tables that the examples use."""
BY_STATUS = {"GlobalSecondaryIndexes": [index("by_status", "status", "placed_at")]}

TESTS_OF_A_MODULE = """
import app
import pytest

@pytest.mark.parametrize("number", [1, 2])
def test_the_client_is_the_mocks_and_each_test_begins_without_tables(number):
    assert app.client.list_tables()["TableNames"] == []
    key = {"AttributeName": "flight_id"}
    app.client.create_table(
        TableName="Flights",
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[key | {"AttributeType": "S"}],
        KeySchema=[key | {"KeyType": "HASH"}],
    )
"""

type Run = Callable[[Path], dict[str, Any]]


def table_of(name: str) -> dict[str, Any]:
    if name == "Orders":
        return definition(name, TABLES[name], {"status": "S", "placed_at": "S"}, **BY_STATUS)
    return definition(name, TABLES[name])


@pytest.fixture
def run(dynamodb: Endpoint) -> Iterator[Run]:
    """Runs a page's examples on new tables. Returns the names that they define."""
    client = dynamodb.client("dynamodb")
    for table in TABLES:
        client.create_table(**table_of(table))

    def run_page(page: Path, **names: Any) -> dict[str, Any]:
        code = "\n".join(re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL))
        printed: dict[int, list[str]] = defaultdict(list)

        def note(*values: object) -> None:
            printed[sys._getframe(1).f_lineno].append(" ".join(map(str, values)))

        names["print"] = note
        exec(code, names)
        for number, line in enumerate(code.splitlines(), 1):
            said = re.search(r"print\(.*\)  # (.+)", line)
            if said and number in printed:
                assert said[1].startswith(", ".join(printed[number])), line
        return names

    with mock.patch.dict(os.environ, dynamodb.environment):
        yield run_page
    for table in TABLES:
        client.delete_table(TableName=table)


def test_the_readmes_examples_do_what_they_say(run: Any, dynamodb: Endpoint) -> None:
    accounts = VersionedTable(dynamodb.client("dynamodb"), "Accounts", "account_id")
    accounts.save({"account_id": "alice", "balance": 100})
    names = run(README, accounts_table=boto3.resource("dynamodb").Table("Accounts"))
    assert accounts.get("alice")["balance"] == 60

    pay, payment = names["pay"], names["payment"]
    assert accounts.get("bob") == {"account_id": "bob", "balance": 60, "version": 2}
    assert pay(payment) == {"paid": True, "balance": 60}
    assert pay.run(payment).replayed
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda number: pay(payment | {"payment_id": f"p-2-{number % 2}"}), range(16)))
    assert [result["paid"] for result in results].count(True) == 8  # one of the two payments, and its repetitions
    assert accounts.get("bob")["balance"] == 20

    flights = names["flights"]
    flights.save({"flight_id": "TL1", "seats": 20, "passengers": []})

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


def test_the_examples_of_versioned_items_do_what_they_say(run: Run) -> None:
    names = run(LIBRARY / "docs" / "versioned-items.md")
    flights = names["flights"]
    early = flights.save({"flight_id": "TL2", "seats": 9, "passengers": ["p-0"], "status": "BOARDING"})
    assert names["delay"]("TL2", "12:30") == "delayed"
    departed = flights.save(flights.load("TL2") | {"status": "DEPARTED"})
    assert "the condition doesn't hold" in names["delay"]("TL2", "13:00")
    assert flights.load("TL2") == departed == early | {"departs_at": "12:30", "status": "DEPARTED", "version": 3}


@pytest.mark.parametrize("took_effect", [True, False])
def test_a_seat_is_reserved_once_though_the_first_outcome_is_unknown(run: Run, took_effect: bool) -> None:
    names = run(LIBRARY / "docs" / "versioned-items.md")
    flights = names["flights"]
    flights.save({"flight_id": "TL2", "seats": 9, "passengers": ["p-0"]})
    modify, calls = flights.modify, itertools.count(1)

    def modify_and_lose_the_first_answer(*key: Any, **options: Any) -> Any:
        number = next(calls)
        saved = modify(*key, **options) if took_effect or number > 1 else None
        if number == 1:
            raise OutcomeUnknown(flights.key(*key), None, "others have written since")
        return saved

    with mock.patch.object(flights, "modify", modify_and_lose_the_first_answer):
        names["reserve_once"]("TL2", "p-1", Deadline.after(30))
    assert next(calls) == 3
    assert flights.get("TL2")["passengers"] == ["p-0", "p-1"]
    assert flights.get("TL2")["version"] == 2


def test_the_examples_of_plans_do_what_they_say(run: Run) -> None:
    names = run(LIBRARY / "docs" / "plans.md")
    flights = names["flights"]
    flights.save({"flight_id": "TL1", "seats": 20, "passengers": [f"p-{number}" for number in range(1, 21)]})
    flights.save({"flight_id": "TL2", "seats": 9, "passengers": ["p-0"]})
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


@pytest.mark.parametrize("dynamodb", ["in_process"], indirect=True)
def test_the_functions_of_the_page_of_messages_are_chained(run: Run, dynamodb: Endpoint, services: Aws) -> None:
    """Killed at each call they are in tests/explore/scenarios/messages.py."""
    urls = [dynamodb.client("sqs").create_queue(QueueName=name)["QueueUrl"] for name in ("page-ship", "page-dead")]
    queues = {"SHIPPING_QUEUE_URL": urls[0], "DEAD_LETTER_QUEUE_URL": urls[1]}
    stream = {"StreamEnabled": True, "StreamViewType": "NEW_IMAGE"}
    dynamodb.client("dynamodb").update_table(TableName="Records", StreamSpecification=stream)
    with mock.patch.dict(os.environ, queues):
        names = run(LIBRARY / "docs" / "messages.md")
        names["accounts"].save({"account_id": "alice", "balance": 100})
        for _ in range(2):
            assert names["buy"]({"order_id": "o-1", "account_id": "alice", "price": 40}) == "bought"
            event = {"Records": services.engine.stream_records("Records")}
            assert names["publish"](event, Context()) == {"batchItemFailures": []}
        sent = services.sqs.queues["page-ship"].messages
        records = [{"messageId": each.message_id, "body": each.body} for each in sent]
        names["test_what_is_bought_is_shipped"]()
        bad = {"messageId": "bad", "body": "{}"}
        assert names["deliver"]({"Records": [*records, bad]}, Context()) == {
            "batchItemFailures": [{"itemIdentifier": "bad"}]
        }
    parcels = VersionedTable(names["client"], "Parcels", "order_id")
    assert (len(sent), parcels.get("o-1")["sent"]) == (2, 1)


def test_a_step_of_a_durable_function_takes_effect_once_though_it_is_run_twice(run: Run) -> None:
    names = run(LIBRARY / "docs" / "exactly-once.md")
    names["accounts"].modify("alice", change=lambda account: account | {"balance": 100})
    pay, runs = names["pay"], []

    def pay_and_fail_first(payment: dict[str, Any]) -> Any:
        runs.append(pay.run(payment))
        if len(runs) == 1:
            raise RuntimeError("after the payment, before the step's checkpoint")
        return runs[-1].result

    names["pay"] = pay_and_fail_first
    with DurableFunctionTestRunner(names["checkout"], poll_interval=0.01) as runner:
        done = runner.run(json.dumps({"account_id": "alice", "amount": 30}), execution_timeout=30)
    runner._scheduler._loop.close()  # it leaves it open
    assert done.result == '"70 left"', done
    assert [ran.replayed for ran in runs] == [False, True]
    assert names["accounts"].get("alice")["balance"] == 70


def test_the_example_of_upserts_does_what_it_says(run: Run) -> None:
    names = run(LIBRARY / "docs" / "upserts.md")
    at = datetime(2026, 2, 28, 12, tzinfo=UTC)
    for minutes in (5, 9, 7):
        names["seen"]("acc-1", "phone", at + timedelta(minutes=minutes))
    profile = VersionedTable(names["client"], "Profiles", "account_id").get("acc-1")
    assert profile["devices"] == {"last_seen": {"phone": "2026-02-28T12:09:00+00:00"}, "lost": {}}


def test_the_example_of_locks_does_what_it_says(run: Run) -> None:
    names = run(LIBRARY / "docs" / "locks.md")
    assert names["bill"]("acc-1", "2026-02") == "billed"
    assert names["bill"]("acc-1", "2026-02") == "lock 'billing acc-1': window 2026-02 was done before"
    invoices = VersionedTable(names["client"], "Invoices", "invoice_id")
    assert invoices.get("acc-1 2026-02")["token"] > datetime.now(UTC).timestamp()
    names["locks"].acquire("billing acc-1", lease_seconds=60, why="an audit")
    assert "why an audit" in names["bill"]("acc-1", "2026-03")
    assert invoices.load("acc-1 2026-03") is None

    accounts = ["acc-3", "acc-4", "acc-2"]
    with mock.patch.object(Lock, "refresh", side_effect=[None, KeyboardInterrupt]), pytest.raises(KeyboardInterrupt):
        names["bill_all"](accounts, "2026-02")
    names["bill_all"](accounts, "2026-02")
    first, second, third = (invoices.get(f"acc-{number} 2026-02") for number in (2, 3, 4))
    assert first["token"] == second["token"] < third["token"]
    with pytest.raises(WindowDone):
        names["bill_all"](accounts, "2026-02")


def test_the_examples_of_tables_make_those_of_records_and_locks(run: Run, dynamodb: Endpoint) -> None:
    page = LIBRARY / "docs" / "tables-and-permissions.md"
    client = dynamodb.client("dynamodb")
    expiry = {"Records": "expiration", "Locks": "expires_at"}
    for table in expiry:
        client.delete_table(TableName=table)
        client.get_waiter("table_not_exists").wait(TableName=table)
    run(page)
    for table, attribute in expiry.items():
        made = client.describe_table(TableName=table)["Table"]
        for name in ("KeySchema", "AttributeDefinitions"):
            assert made[name] == table_of(table)[name]
        assert client.describe_time_to_live(TableName=table)["TimeToLiveDescription"]["AttributeName"] == attribute
    records = client.describe_table(TableName="Records")["Table"]
    assert records["StreamSpecification"] == {"StreamEnabled": True, "StreamViewType": "NEW_IMAGE"}


def test_the_examples_of_clients_do_what_they_say(run: Run) -> None:
    names = run(LIBRARY / "docs" / "clients.md")
    assert names["flights"].get("TL1") == {"flight_id": "TL1", "seats": 20, "version": 1}
    assert asyncio.run(names["seats"]("TL1")) == 20


def test_the_examples_of_tests_pass(run: Run, monkeypatch: pytest.MonkeyPatch, every_case: bool) -> None:
    names = run(LIBRARY / "docs" / "testing.md")
    if not every_case:
        names["explore"] = functools.partial(names["explore"], budget=40)
    monkeypatch.delenv("AWS_ENDPOINT_URL")
    for test in ("a_payment_is_made", "a_payment_is_made_once_in_every_order_with_every_fault", "a_flight_is_delayed"):
        names[f"test_{test}"]()


@pytest.mark.exhaustive
def test_the_conftest_for_a_client_of_a_module_keeps_it_from_aws(tmp_path: Path) -> None:
    page = (LIBRARY / "docs" / "testing.md").read_text()
    conftest = re.findall(r"```python\n(.*?)```", page.partition("### A client of a module")[2], re.DOTALL)[0]
    (tmp_path / "conftest.py").write_text(conftest)
    (tmp_path / "app.py").write_text("from conditional_writes import dynamodb_client\n\nclient = dynamodb_client()\n")
    (tmp_path / "test_app.py").write_text(TESTS_OF_A_MODULE)
    outside = {name: value for name, value in os.environ.items() if not name.startswith(("AWS", "PYTEST"))}
    environment = outside | {"PYTHONPATH": str(LIBRARY), "HTTPS_PROXY": "http://127.0.0.1:9"}  # nothing gets out
    command = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", tmp_path)
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert "2 passed" in done.stdout, done.stdout + done.stderr


ASSERTED = ("exactly", "versioned", "messages", "plans", "upserts", "locks", "clients", "testing", "tables")
"""How the names of the pages above begin."""
OTHERS = [page for page in GUIDE if not page.stem.startswith(ASSERTED)]


@pytest.mark.parametrize("page", OTHERS, ids=lambda page: page.stem)
def test_the_examples_of_every_other_page_run(run: Run, page: Path) -> None:
    run(page)
