"""A class with a version attribute, saved by DynamoDBMapper: AWS's developer guide of 2012's API, in Java.

`Mapper` does what DynamoDBMapper 1.x does for this class. A save sets the mapped attributes that have a value, and
removes the others. It asserts the version that the object has, or that there is none if the object has none. CLOBBER
asserts nothing, and puts the whole item.
"""

from dataclasses import dataclass
from typing import Any

from boto3.dynamodb.conditions import Attr


@dataclass
class CatalogItem:
    id: int
    title: str | None = None
    isbn: str | None = None
    authors: set[str] | None = None
    version: int | None = None


class Mapper:
    def __init__(self, table: Any) -> None:
        self.table = table

    def load(self, item_id: int) -> CatalogItem:
        found = self.table.get_item(Key={"id": item_id})["Item"]
        return CatalogItem(*(found.get(name) for name in ("id", "title", "isbn", "authors", "version")))

    def save(self, item: CatalogItem, *, clobber: bool = False) -> None:
        values = vars(item) | {"version": (item.version or 0) + 1}
        if clobber:
            self.table.put_item(Item={name: value for name, value in values.items() if value is not None})
        else:
            self.table.update_item(
                Key={"id": item.id},
                AttributeUpdates={
                    name: {"Action": "DELETE"} if value is None else {"Action": "PUT", "Value": value}
                    for name, value in values.items()
                    if name != "id"
                },
                Expected={"version": {"Exists": False} if item.version is None else {"Value": item.version}},
            )
        item.version = values["version"]

    def delete(self, item: CatalogItem) -> None:
        self.table.delete_item(Key={"id": item.id}, ConditionExpression=Attr("version").eq(item.version))
