"""One entry of a map that may not exist yet: the five attempts of a Japanese article, in Java."""

from typing import Any

SET_ENTRY = "SET #map.#entry = :value"


def set_entry(table: Any, key: str, attribute: str, entry: str, value: str) -> None:
    """The first: fails if there is no map."""
    table.update_item(
        Key={"pk": key},
        UpdateExpression=SET_ENTRY,
        ExpressionAttributeNames={"#map": attribute, "#entry": entry},
        ExpressionAttributeValues={":value": value},
    )


def set_map_and_entry(table: Any, key: str, attribute: str, entry: str, value: str) -> None:
    """The second: always fails."""
    table.update_item(
        Key={"pk": key},
        UpdateExpression=f"SET #map = if_not_exists(#map, :map), {SET_ENTRY.removeprefix('SET ')}",
        ExpressionAttributeNames={"#map": attribute, "#entry": entry},
        ExpressionAttributeValues={":value": value, ":map": {entry: value}},
    )


def entry_else_map(table: Any, key: str, attribute: str, entry: str, value: str) -> None:
    """The third: the entry; if there is no map, the map."""
    try:
        table.update_item(
            Key={"pk": key},
            UpdateExpression=SET_ENTRY,
            ConditionExpression="attribute_exists(#map)",
            ExpressionAttributeNames={"#map": attribute, "#entry": entry},
            ExpressionAttributeValues={":value": value},
        )
    except table.meta.client.exceptions.ConditionalCheckFailedException:
        table.update_item(
            Key={"pk": key},
            UpdateExpression="SET #map = :map",
            ExpressionAttributeNames={"#map": attribute},
            ExpressionAttributeValues={":map": {entry: value}},
        )


def entry_else_map_else_entry(table: Any, key: str, attribute: str, entry: str, value: str) -> None:
    """The fourth, for maps that mostly exist: the entry; if there is no map, what the fifth does."""
    try:
        table.update_item(
            Key={"pk": key},
            UpdateExpression=SET_ENTRY,
            ConditionExpression="attribute_exists(#map)",
            ExpressionAttributeNames={"#map": attribute, "#entry": entry},
            ExpressionAttributeValues={":value": value},
        )
    except table.meta.client.exceptions.ConditionalCheckFailedException:
        map_else_entry(table, key, attribute, entry, value)


def map_else_entry(table: Any, key: str, attribute: str, entry: str, value: str) -> None:
    """The fifth, for maps that mostly don't exist: the map; if there is one, the entry."""
    try:
        table.update_item(
            Key={"pk": key},
            UpdateExpression="SET #map = :map",
            ConditionExpression="attribute_not_exists(#map)",
            ExpressionAttributeNames={"#map": attribute},
            ExpressionAttributeValues={":map": {entry: value}},
        )
    except table.meta.client.exceptions.ConditionalCheckFailedException:
        set_entry(table, key, attribute, entry, value)
