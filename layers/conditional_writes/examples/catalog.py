"""A catalog of dataclasses, each saved under the version that was loaded.

The usual code is an object mapper's class with a version attribute. To skip the version's check it puts the object
whole, as it was when it was loaded: over the changes of others, without attributes that the class doesn't know, and
with a version that goes back. A class's first save replaces an item that has no version yet.
"""

from dataclasses import dataclass, field, replace

from conditional_writes import dynamodb_client
from conditional_writes.models import Loaded, ModelTable

client = dynamodb_client()


@dataclass(frozen=True)
class CatalogItem:
    id: int
    title: str
    isbn: str | None = None
    authors: set[str] = field(default_factory=set[str])


catalog = ModelTable(client, "ProductCatalog", "id", model=CatalogItem)


def retitle(item_id: int, title: str, *, checked: bool = True) -> Loaded[CatalogItem]:
    """Raises Conflict if others have written meanwhile. With `checked=False` the title is written all the same."""
    loaded = catalog.get(item_id)
    return catalog.save(loaded.changed_to(replace(loaded.model, title=title)), checked=checked)


def main() -> None:
    if catalog.load(101) is None:
        catalog.save(CatalogItem(101, "A title", authors={"An author"}))
    print(retitle(101, "A new title for the item"))


if __name__ == "__main__":
    main()
