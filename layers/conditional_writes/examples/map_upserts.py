"""An entry of a map that may not exist yet, in an item that may not exist yet, while others write to it.

The usual code sets the entry, and if there is no map, the map. If another writer makes the map between these requests,
it is overwritten, with that writer's entries. A third request prevents this, but an old value that arrives late wins.
"""

from datetime import UTC, datetime

from conditional_writes import VersionedTable, dynamodb_client, key
from conditional_writes.upserts import MapEntry, upsert

client = dynamodb_client()


def set_entry(item_key: str, attribute: str, entry: str, value: str, as_of: datetime) -> None:
    """Of two values of an entry the later by `as_of` wins, whichever arrives first."""
    upsert(client, key("maps", pk=item_key), [MapEntry((attribute, entry), value, as_of)])


def main() -> None:
    set_entry("test-key", "attr1", "field1", "foo", datetime.now(UTC))
    set_entry("test-key", "attr1", "field2", "bar", datetime.now(UTC))
    print(VersionedTable(client, "maps", "pk").get("test-key")["attr1"])


if __name__ == "__main__":
    main()
