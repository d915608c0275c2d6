"""Optimistic locking: two writers of one item, and neither loses the other's change.

The usual code puts the whole item if its version is the one that was read, or if there is no version. So it brings a
deleted item back, takes a recreated item for the deleted one, and drops the attributes that it doesn't know.
"""

from conditional_writes import Item, VersionedItem, VersionedTable, dynamodb_client

client = dynamodb_client()
items = VersionedTable(client, "items", "id", version="lock_version")


def save_name(item_id: str, name: str) -> VersionedItem:
    """For a person's edit: raises Conflict, with the item as it is now, if others have written since the read."""
    item = items.load(item_id) or {"id": item_id}
    return items.save(item | {"name": name})


def rename(item_id: str, name: str) -> VersionedItem:
    """For a program's change: after a conflict the newer item is renamed."""

    def renamed(item: VersionedItem | None) -> Item:
        if item is None:
            raise LookupError(item_id)
        return item | {"name": name}

    return items.modify(item_id, change=renamed)


def main() -> None:
    print(save_name("mOmonga", "New name"))
    print(rename("mOmonga", "Newer name"))


if __name__ == "__main__":
    main()
