"""Where moto is wrong, as docs/testing.md of the library says. A failure is good news: mend the page.

test_readme.py runs the page's example, test_package.py with the lowest moto.
"""

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest
from botocore.exceptions import ClientError
from moto import mock_aws

from conditional_writes import (
    Conflict,
    Deadline,
    Plan,
    Put,
    Update,
    VersionedTable,
    dynamodb_client,
    key,
    write,
    write_together,
)
from conditional_writes.core.requests import Write
from conditional_writes.testing import Engine
from tests.support.new_tables import definition


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    with mock_aws():
        client = dynamodb_client()
        client.create_table(**definition("Orders", {"id": "S"}))
        yield client


def written(client: Any, *writes: Write) -> None:
    write(client, lambda _: Plan(None, writes), {}, Deadline.after(5))


def test_moto_hands_back_what_was_found_alone_and_in_a_transaction(client: Any) -> None:
    """What the library needs of moto, and what the earliest version that the page names has."""
    orders = VersionedTable(client, "Orders", "id")
    early = orders.save({"id": "1"})
    orders.modify("1", change=lambda order: order | {"count": 1})
    with pytest.raises(Conflict) as alone:
        orders.save(early | {"count": 2})
    with pytest.raises(Conflict) as together:
        write_together(client, [orders.saving(early | {"count": 2}), Put(key("Orders", id="2"), {})])
    assert alone.value.found == together.value.found == orders.load("1")
    assert orders.load("2") is None


def test_an_engine_answers_its_clients_inside_of_the_mock(client: Any) -> None:
    """A test may have both: the engine, and moto for other services."""
    with Engine() as engine:
        engine.attach(client)
        engine.client().create_table(**definition("Flights", {"id": "S"}))
        assert client.list_tables()["TableNames"] == ["Flights"]
    assert client.list_tables()["TableNames"] == ["Orders"]


def test_moto_ignores_the_token_of_a_transaction(client: Any) -> None:
    put = {"TableName": "Orders", "Item": {"id": {"S": "1"}}, "ConditionExpression": "attribute_not_exists(id)"}
    client.transact_write_items(TransactItems=[{"Put": put}], ClientRequestToken="token")
    with pytest.raises(ClientError, match="ConditionalCheckFailed"):
        client.transact_write_items(TransactItems=[{"Put": put}], ClientRequestToken="token")


def test_moto_takes_a_transaction_that_is_too_large(client: Any) -> None:
    written(client, *(Put(key("Orders", id=str(number)), {"text": "x" * 399_000}) for number in range(12)))


def test_moto_finds_nothing_by_a_key_of_another_type(client: Any) -> None:
    assert VersionedTable(client, "Orders", "id").load(1) is None


def test_moto_adds_no_number_with_an_exponent(client: Any) -> None:
    written(client, Put(key("Orders", id="1"), {"count": Decimal("0.1")}))
    with pytest.raises(ClientError, match="TransactionCanceledException"):
        written(client, Update(key("Orders", id="1"), {}, added={"count": Decimal("1E-18")}))
