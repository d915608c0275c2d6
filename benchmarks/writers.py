"""Writers that do the same job on the same item: with this library, with PynamoDB, and by hand with boto3.

Each writer creates an order, adds 1 to its count by a read-modify-write under its version, and deletes the version that
it loaded. `between` is called between a read and its write, so that a benchmark can let another writer in.
"""

import random
import time
from collections.abc import Callable
from decimal import Decimal
from typing import Any
from unittest import mock

import boto3
import pydynox
from boto3.dynamodb.conditions import Attr
from pydynox import attributes
from pydynox.exceptions import ConditionalCheckFailedException
from pynamodb.attributes import ListAttribute, MapAttribute, NumberAttribute, UnicodeAttribute, VersionAttribute
from pynamodb.exceptions import PutError
from pynamodb.models import Model

from benchmarks.stock import CONFIG
from conditional_writes import VersionedItem, VersionedTable, dynamodb_client
from tools.local_aws.server import REGION, Endpoint

ORDER: dict[str, Any] = {
    "status": "OPEN",
    "customer_id": "customer-20417",
    "email": "jane.doe@example.com",
    "note": "Please leave it with the neighbours if nobody is at home",
    "currency": "EUR",
    "total": Decimal("149.95"),
    "tax": Decimal("23.94"),
    "count": 0,
    "address": {"street": "12 Harbour Road", "city": "Rotterdam", "postcode": "3011 AB", "country": "NL"},
    "labels": ["gift", "express", "fragile"],
}
"""The attributes beside `order_id`, the key, and the version. An item has some 280 bytes, with our version id 325."""

type Writer = Ours | PynamoDB | Pydynox | Resource
type Step = Callable[[], None]


def nothing() -> None:
    """Lets no other writer in."""


class Ours:
    """`conditional_writes.VersionedTable`: writes the changes, and plans again from the item of a conflict."""

    def __init__(self, endpoint: Endpoint, table: str) -> None:
        with mock.patch.dict("os.environ", endpoint.environment):
            self.client = dynamodb_client()
        self.orders = VersionedTable(self.client, table, "order_id")

    def create(self, order_id: str) -> None:
        self.orders.save({"order_id": order_id, **ORDER})

    def add_one(self, order_id: str, between: Step = nothing) -> None:
        def change(order: VersionedItem | None) -> VersionedItem:
            assert order is not None
            between()
            return order | {"count": order["count"] + 1}

        self.orders.modify(order_id, change=change)

    def load(self, order_id: str) -> Any:
        return self.orders.load(order_id)

    def load_all(self) -> list[Any]:
        return [*self.orders.scan()]

    def delete(self, order: Any) -> None:
        self.orders.delete(order)


class ReadingAgain:
    """The usual hand-written loop, which reads the item again at once after a conflict."""

    def add_one(self, order_id: str, between: Step = nothing) -> None:
        conflicts = 0
        while not self.try_once(order_id, between):
            conflicts += 1
            self.pause(conflicts)

    def pause(self, conflicts: int) -> None:
        """None."""


class PynamoDB(ReadingAgain):
    """A model with a `VersionAttribute`. Decimals are floats, as PynamoDB has no others. `save` puts the whole item."""

    def __init__(self, endpoint: Endpoint, table: str) -> None:
        self.Order = order_model(endpoint, table)
        # Not public. All requests use this botocore client and its events.
        self.client = self.Order._get_connection().connection.client

    def create(self, order_id: str) -> None:
        order = {name: float(value) if isinstance(value, Decimal) else value for name, value in ORDER.items()}
        self.Order(order_id, **order).save()

    def try_once(self, order_id: str, between: Step) -> bool:
        order = self.load(order_id)
        between()
        order.count += 1
        try:
            order.save()
        except PutError as error:
            if error.cause_response_code != "ConditionalCheckFailedException":
                raise
            return False
        return True

    def load(self, order_id: str) -> Any:
        return self.Order.get(order_id, consistent_read=True)

    def load_all(self) -> list[Any]:
        return [*self.Order.scan()]

    def delete(self, order: Any) -> None:
        order.delete()


def order_model(endpoint: Endpoint, table: str) -> Any:
    """A model class for a table, because a PynamoDB model has its table and endpoint in its Meta class."""

    class Address(MapAttribute):
        street = UnicodeAttribute()
        city = UnicodeAttribute()
        postcode = UnicodeAttribute()
        country = UnicodeAttribute()

    class Order(Model):
        class Meta:
            table_name = table
            host = endpoint.url
            region = REGION
            aws_access_key_id = "test"
            aws_secret_access_key = "test"

        order_id = UnicodeAttribute(hash_key=True)
        status = UnicodeAttribute()
        customer_id = UnicodeAttribute()
        email = UnicodeAttribute()
        note = UnicodeAttribute()
        currency = UnicodeAttribute()
        total = NumberAttribute()
        tax = NumberAttribute()
        count = NumberAttribute()
        address = Address()
        labels = ListAttribute(of=UnicodeAttribute)
        version = VersionAttribute()

    return Order


class Pydynox(ReadingAgain):
    """A model with a `VersionAttribute`, whose client is written in Rust. `save` writes what changed."""

    def __init__(self, endpoint: Endpoint, table: str) -> None:
        self.Order = rust_model(endpoint, table)

    def create(self, order_id: str) -> None:
        self.Order(order_id=order_id, **ORDER).sync_save()

    def try_once(self, order_id: str, between: Step) -> bool:
        order = self.load(order_id)
        between()
        order.count += 1
        try:
            order.sync_save()
        except ConditionalCheckFailedException:
            return False
        return True

    def load(self, order_id: str) -> Any:
        return self.Order.sync_get(order_id=order_id, consistent_read=True)

    def load_all(self) -> list[Any]:
        return [*self.Order.sync_scan()]

    def delete(self, order: Any) -> None:
        order.sync_delete()


def rust_model(endpoint: Endpoint, table: str) -> Any:
    """A model class for a table."""
    client = pydynox.DynamoDBClient(region=REGION, access_key="test", secret_key="test", endpoint_url=endpoint.url)

    class Order(pydynox.Model):
        model_config = pydynox.ModelConfig(table=table, client=client)
        order_id = attributes.StringAttribute(partition_key=True)
        status = attributes.StringAttribute()
        customer_id = attributes.StringAttribute()
        email = attributes.StringAttribute()
        note = attributes.StringAttribute()
        currency = attributes.StringAttribute()
        total = attributes.DecimalAttribute()
        tax = attributes.DecimalAttribute()
        count = attributes.NumberAttribute()
        address = attributes.MapAttribute()
        labels = attributes.ListAttribute()
        version = attributes.VersionAttribute()

    return Order


UPDATE = {
    "UpdateExpression": "SET #count = :count, version = :next_version",
    "ConditionExpression": "version = :version",
    "ExpressionAttributeNames": {"#count": "count"},  # A reserved word.
}


class Resource(ReadingAgain):
    """boto3's resource by hand: updates one attribute with written-out expressions, as in DynamoDB's guide.

    https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/BestPractices_OptimisticLocking.html
    """

    def __init__(self, endpoint: Endpoint, table: str) -> None:
        self.table = table
        session = boto3.Session(aws_access_key_id="test", aws_secret_access_key="test", region_name=REGION)
        self.orders = session.resource("dynamodb", endpoint_url=endpoint.url, config=CONFIG).Table(table)
        self.client = self.orders.meta.client

    def create(self, order_id: str) -> None:
        order = {"order_id": order_id, "version": 1, **ORDER}
        self.orders.put_item(Item=order, ConditionExpression=Attr("order_id").not_exists())

    def try_once(self, order_id: str, between: Step) -> bool:
        order = self.load(order_id)
        between()
        try:
            self.write(order)
        except self.client.exceptions.ConditionalCheckFailedException:
            return False
        return True

    def load(self, order_id: str) -> Any:
        return self.orders.get_item(Key={"order_id": order_id}, ConsistentRead=True)["Item"]

    def load_all(self) -> list[Any]:
        return self.orders.scan()["Items"]

    def write(self, order: Any) -> None:
        count, version = order["count"] + 1, order["version"]
        values = {":count": count, ":version": version, ":next_version": version + 1}
        self.orders.update_item(Key={"order_id": order["order_id"]}, ExpressionAttributeValues=values, **UPDATE)

    def delete(self, order: Any) -> None:
        same_version = Attr("version").eq(order["version"])
        self.orders.delete_item(Key={"order_id": order["order_id"]}, ConditionExpression=same_version)


class BackingOff(Resource):
    """Pauses before it reads again, as botocore's retries for DynamoDB do: full jitter over 25 ms, doubling."""

    def pause(self, conflicts: int) -> None:
        time.sleep(random.uniform(0, min(1, 0.025 * 2 ** (conflicts - 1))))


class PuttingResource(Resource):
    """boto3's resource by hand: puts the whole item under a condition made with `Attr`, as in most blog posts."""

    def write(self, order: Any) -> None:
        version = order["version"]
        order = order | {"count": order["count"] + 1, "version": version + 1}
        self.orders.put_item(Item=order, ConditionExpression=Attr("version").eq(version))


class Client(Resource):
    """botocore's client by hand, with the item in DynamoDB's JSON: the cost of the two requests alone."""

    def __init__(self, endpoint: Endpoint, table: str) -> None:
        super().__init__(endpoint, table)
        session = boto3.Session(aws_access_key_id="test", aws_secret_access_key="test", region_name=REGION)
        self.client = session.client("dynamodb", endpoint_url=endpoint.url, config=CONFIG)

    def load(self, order_id: str) -> Any:
        key = {"order_id": {"S": order_id}}
        return self.client.get_item(TableName=self.table, Key=key, ConsistentRead=True)["Item"]

    def load_all(self) -> list[Any]:
        return self.client.scan(TableName=self.table)["Items"]

    def write(self, order: Any) -> None:
        count, version = int(order["count"]["N"]) + 1, int(order["version"]["N"])
        numbers = {":count": count, ":version": version, ":next_version": version + 1}
        self.client.update_item(
            TableName=self.table,
            Key={"order_id": order["order_id"]},
            ExpressionAttributeValues={name: {"N": str(number)} for name, number in numbers.items()},
            **UPDATE,
        )


class QuickClient(Client):
    """The same with the settings of `dynamodb_client()`: the least that requests by botocore take."""

    def __init__(self, endpoint: Endpoint, table: str) -> None:
        super().__init__(endpoint, table)
        self.client = Ours(endpoint, table).client


def create_table(endpoint: Endpoint, table: str) -> None:
    client = endpoint.client("dynamodb")
    client.create_table(
        TableName=table,
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[{"AttributeName": "order_id", "AttributeType": "S"}],
        KeySchema=[{"AttributeName": "order_id", "KeyType": "HASH"}],
    )
    client.get_waiter("table_exists").wait(TableName=table, WaiterConfig={"Delay": 1})
