"""The booking programs with conditional_writes and with PynamoDB do the same; the library's pages count their lines."""

import ast
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from benchmarks.booking import ours, with_pynamodb
from conditional_writes.exactly_once import PayloadChanged
from tools.local_aws.server import PROJECT, REGION, Endpoint

KEYS = {"Flights": "flight_id", "Passengers": "passenger_id", "Records": "id"}
PROGRAMS = {"conditional_writes": ours, "PynamoDB": with_pynamodb}


@pytest.fixture(params=PROGRAMS)
def booking(request: pytest.FixtureRequest, ministack: Endpoint) -> Iterator[Any]:
    client = ministack.client("dynamodb")
    for table, key_name in KEYS.items():
        client.create_table(
            TableName=table,
            BillingMode="PAY_PER_REQUEST",
            AttributeDefinitions=[{"AttributeName": key_name, "AttributeType": "S"}],
            KeySchema=[{"AttributeName": key_name, "KeyType": "HASH"}],
        )
    with mock.patch.dict(os.environ, ministack.environment):
        program: Any = PROGRAMS[request.param]
        yield program.Booking() if program is ours else program.Booking(ministack.url, REGION)
    for table in KEYS:
        client.delete_table(TableName=table)


def test_both_programs_do_the_same(booking: Any, ministack: Endpoint) -> None:
    client = ministack.client("dynamodb")

    def stored(table: str, key: str) -> Any:
        return client.get_item(TableName=table, Key={KEYS[table]: {"S": key}}, ConsistentRead=True)["Item"]

    def tried(call: Any, *arguments: object) -> bool:
        try:
            call(*arguments)
        except (ours.Refused, with_pynamodb.Refused):
            return False
        return True

    def passengers(flight_id: str) -> list[str]:
        return [name["S"] for name in stored("Flights", flight_id)["passengers"]["L"]]

    booking.open_flight("TL1", 6)
    booking.open_flight("TL2", 3)
    booking.open_passenger("ann", 100)
    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(lambda number: tried(booking.book, "TL1", f"p-{number}"), range(8))) == 6
        assert sum(pool.map(lambda name: tried(booking.move, name, "TL1", "TL2"), passengers("TL1"))) == 3
        payment = {"payment_id": "1", "passenger_id": "ann", "amount": 30}
        assert list(pool.map(booking.pay, [payment] * 8)) == [{"money": 70}] * 8
        start = datetime(2026, 3, 1, tzinfo=UTC)
        seen = [("phone", 3), ("phone", 5), ("watch", 1), ("phone", 4)]
        list(pool.map(lambda each: booking.seen("ann", each[0], start + timedelta(hours=each[1])), seen))
    assert sorted(map(len, (passengers("TL1"), passengers("TL2")))) == [3, 3]
    assert len({*passengers("TL1"), *passengers("TL2")}) == 6
    with pytest.raises((PayloadChanged, with_pynamodb.PayloadChanged)):
        booking.pay(payment | {"amount": 1})
    assert not tried(booking.pay, {"payment_id": "2", "passenger_id": "ann", "amount": 71})
    ann = stored("Passengers", "ann")
    assert ann["money"] == {"N": "70"}
    times = {"phone": (start + timedelta(hours=5)).isoformat(), "watch": (start + timedelta(hours=1)).isoformat()}
    assert ann["devices"]["M"] == {device: {"S": time} for device, time in times.items()}


def lines(path: Path) -> int:
    """The lines of a program that have code: no docstrings, no comments, no blank lines."""
    expressions = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Expr)]
    docstrings = [node for node in expressions if isinstance(node.value, ast.Constant)]
    left_out = {line for node in docstrings for line in range(node.lineno, (node.end_lineno or 0) + 1)}
    code = [line.strip() for number, line in enumerate(path.read_text().splitlines(), 1) if number not in left_out]
    return sum(1 for line in code if line and not line.startswith("#"))


@pytest.mark.parametrize("page", ["README.md", "docs/comparison.md"])
def test_the_pages_say_how_many_lines_each_takes(page: str) -> None:
    our, their = (lines(Path(program.__file__)) for program in (ours, with_pynamodb))
    text = " ".join((PROJECT / "layers" / "conditional_writes" / page).read_text().split())
    assert f"takes {our} lines, and {their} with PynamoDB" in text
