"""Counts the requests of a map entry's upsert: with this library, and in two usual ways by hand.

The first way by hand tries the entry. If the map is missing, it tries to write the map with the entry. If another
writer created the map meanwhile, it tries the entry again. The second way creates the map first, then writes the entry.
Both create each further map around it with a request of its own.
"""

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.engine import new_ministack
from conditional_writes import key
from conditional_writes.upserts import MapEntry, upsert
from tools.local_aws.meter import Meter
from tools.local_aws.server import Endpoint

UPSERTS = 100
SHALLOW, DEEP = ("preferences",), ("devices", "phone", "settings")

console = Console(highlight=False)

type MapPath = tuple[str, ...]
type Way = Callable[[Any, str, str, MapPath, str], None]
"""Sets one entry. Takes the client, the table, the item, the path of the map and the entry's name."""


def ours(client: Any, table: str, item: str, path: MapPath, name: str) -> None:
    upsert(client, key(table, account_id=item), [MapEntry((*path, name), 1)])


def entry_then_map_then_entry(client: Any, table: str, item: str, path: MapPath, name: str) -> None:
    if not set_entry(client, table, item, path, name):
        map_then_entry(client, table, item, path, name)


def map_then_entry(client: Any, table: str, item: str, path: MapPath, name: str) -> None:
    make_maps(client, table, item, path[:-1])
    if not make_map(client, table, item, path, {name: 1}):
        assert set_entry(client, table, item, path, name)


def set_entry(client: Any, table: str, item: str, path: MapPath, name: str) -> bool:
    names = {f"#{number}": step for number, step in enumerate((*path, name))}
    *way, _ = names
    try:
        client.update_item(
            TableName=table,
            Key={"account_id": {"S": item}},
            UpdateExpression=f"SET {'.'.join(names)} = :value",
            ConditionExpression=f"attribute_exists({'.'.join(way)})",
            ExpressionAttributeNames=names,
            ExpressionAttributeValues={":value": {"N": "1"}},
        )
    except client.exceptions.ConditionalCheckFailedException:
        return False
    return True


def make_maps(client: Any, table: str, item: str, path: MapPath) -> None:
    """Creates the missing maps, from the outermost on."""
    for length in range(1, len(path) + 1):
        make_map(client, table, item, path[:length], {})


def make_map(client: Any, table: str, item: str, path: MapPath, entries: dict[str, int]) -> bool:
    names = {f"#{number}": step for number, step in enumerate(path)}
    try:
        client.update_item(
            TableName=table,
            Key={"account_id": {"S": item}},
            UpdateExpression=f"SET {'.'.join(names)} = :map",
            ConditionExpression=f"attribute_not_exists({'.'.join(names)})",
            ExpressionAttributeNames=names,
            ExpressionAttributeValues={":map": {"M": {name: {"N": str(number)} for name, number in entries.items()}}},
        )
    except client.exceptions.ConditionalCheckFailedException:
        return False
    return True


WAYS: dict[str, Way] = {
    "ours": ours,
    "by hand: entry, map, entry": entry_then_map_then_entry,
    "by hand: map, entry": map_then_entry,
}


def there() -> Iterator[str]:
    return itertools.repeat("the same", UPSERTS)


def missing() -> Iterator[str]:
    return (f"new {number}" for number in range(UPSERTS))


def shifting() -> Iterator[str]:
    """From maps that are always missing to one that always exists, in steps of a tenth."""
    for tenth in range(11):
        for number in range(UPSERTS // 10):
            yield "the same" if number % 10 < tenth else f"new {tenth} {number}"


CASES: dict[str, tuple[Callable[[], Iterator[str]], MapPath]] = {
    "map there": (there, SHALLOW),
    "map missing": (missing, SHALLOW),
    "shifting": (shifting, SHALLOW),
    "three deep there": (there, DEEP),
    "three deep missing": (missing, DEEP),
}


@dataclass(frozen=True)
class Count:
    case: str
    way: str
    requests_each: float
    most: int
    """The requests of a single upsert."""


def count_all(endpoint: Endpoint, prefix: str, ways: Iterable[str] = WAYS) -> list[Count]:
    client = endpoint.client("dynamodb")
    meter = Meter(client)
    return [
        count(client, meter, f"{prefix}-{number}", case, way)
        for number, (case, way) in enumerate(itertools.product(CASES, ways))
    ]


def count(client: Any, meter: Meter, table: str, case: str, way: str) -> Count:
    client.create_table(
        TableName=table,
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[{"AttributeName": "account_id", "AttributeType": "S"}],
        KeySchema=[{"AttributeName": "account_id", "KeyType": "HASH"}],
    )
    items, path = CASES[case]
    make_maps(client, table, "the same", path)
    taken = []
    for number, item in enumerate(items()):
        meter.reset()
        WAYS[way](client, table, item, path, f"entry {number}")
        taken.append(meter.requests.total())
    return Count(case, way, sum(taken) / len(taken), max(taken))


def check(counts: Sequence[Count]) -> None:
    """Raises AssertionError if our counts differ from the expected ones."""
    found = {(each.case, each.way): each for each in counts}
    for case in ("map there", "map missing", "three deep there", "three deep missing"):
        assert found[case, "ours"].requests_each <= 1.05, found[case, "ours"]
    for each in counts:
        assert each.way != "ours" or each.most <= 2, each


def report(counts: Sequence[Count]) -> Table:
    table = Table(
        title=f"Requests per upsert, of {UPSERTS} one after another", title_justify="left", title_style="bold"
    )
    table.add_column("")
    for case in CASES:
        table.add_column(case.replace(" there", "\nthere").replace(" missing", "\nmissing"), justify="right")
    for way in WAYS:
        found = [each for each in counts if each.way == way]
        table.add_row(way, *(f"{each.requests_each:.2f}, ≤ {each.most}" for each in found))
    return table


def main() -> None:
    with new_ministack() as endpoint:
        counts = count_all(endpoint, "upserts")
    console.print(report(counts))
    check(counts)
    console.print("Shifting: at first maps are always missing, at the end the map always exists.")
    console.print("[green]Our counts are as expected: at most 1.05 in the steady cases, and never more than 2.[/]")


if __name__ == "__main__":
    main()
