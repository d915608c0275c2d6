"""A get and a conditional put, by a Japanese article, in Python. Its class lacks `self`, which is mended here."""

from typing import Any

from boto3.dynamodb.conditions import Attr


class Item:
    def __init__(self, id: str, **props: Any) -> None:  # noqa: A002 (the article's name)
        self.id = id
        self.name = props.get("name")
        self.lock_version = props.get("lock_version", 0)


def get_item(table: Any, item_id: str) -> Item:
    item = Item(id=item_id)
    answer = table.get_item(Key={"id": item_id})
    if "Item" in answer:
        item.name = answer["Item"]["name"]
        item.lock_version = answer["Item"]["lock_version"]
    return item


def put_item(table: Any, item: Item) -> None:
    version = Attr("lock_version")
    table.put_item(
        Item={
            "id": item.id,
            "name": item.name,
            "lock_version": item.lock_version + 1,
        },
        ConditionExpression=version.not_exists() | version.eq(item.lock_version),
    )
    item.lock_version += 1


def rename(table: Any, item_id: str, name: str) -> None:
    """The article's main program."""
    item = get_item(table, item_id)
    item.name = name
    put_item(table, item)
