"""`teller profile`: the entries of an account's profile, each with its time."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any, NamedTuple

import typer

from conditional_writes import Deadline, Item, key
from conditional_writes.core.own_attributes import CLOCKS_PREFIX, ERASED_AS_OF, is_own
from conditional_writes.core.unconditional import read_one
from conditional_writes.upserts.clocks import is_map_mark, is_removal, path_of, time_of
from tools.teller.accounts import AccountId
from tools.teller.failures import NotFound
from tools.teller.operator import Operator, subcommand
from tools.teller.plain import as_json
from tools.teller.printed_tables import table
from tools.teller.times import shown

READING_SECONDS = 30


def add_to(app: typer.Typer) -> None:
    subcommand(app)(profile)


class Entry(NamedTuple):
    """An entry at a path of names. `as_of` is its time, None for a value that another program wrote.

    A removed entry has no value, and is remembered for a while, so that an older update doesn't bring it back.
    """

    path: tuple[str, ...]
    value: Any
    as_of: datetime | None
    is_removed: bool = False


def profile(operator: Operator, account_id: AccountId) -> None:
    """Show the entries of an account's profile, and their times.

    A removed entry is shown, too, while its time is remembered.
    """
    item = read(operator, account_id)
    entries = sorted(entries_of(item), key=lambda entry: entry.path)
    values = {name: value for name, value in item.items() if name != "account_id" and not is_own(name)}
    answer = {
        "account_id": account_id,
        "profile": values,
        "entries": [
            {"path": entry.path, "as_of": entry.as_of} | ({"removed": True} if entry.is_removed else {})
            for entry in entries
        ],
    }
    erased_as_of = item.get(ERASED_AS_OF)
    if erased_as_of:
        answer["erased_as_of"] = erased_as_of
        operator.remark(f"What was older was erased as of {shown(erased_as_of)}.")
    rows = table("path", "value", "as of (UTC)")
    for entry in entries:
        value = "(removed)" if entry.is_removed else as_json(entry.value)
        rows.add_row(" / ".join(entry.path), value, shown(entry.as_of), style="dim" if entry.is_removed else None)
    operator.show(answer, rows if entries else "no entries")


def read(operator: Operator, account_id: str) -> Item:
    """The profile's item, strongly consistent. Raises NotFound."""
    deployment = operator.deployment
    wanted = key(deployment["ProfilesTableName"], account_id=account_id)
    item = read_one(deployment.client("dynamodb"), wanted, Deadline.after(READING_SECONDS))
    if item is None:
        raise NotFound(f"no profile {account_id!r} has been written")
    return item


def entries_of(item: Item) -> Iterator[Entry]:
    """The entries in the maps, and the attributes of other programs. docs/tables.md describes the clocks."""
    clocks = {path_of(name): value for name, value in item.items() if name.startswith(CLOCKS_PREFIX)}
    for path, of_map in clocks.items():
        for name, clock in of_map.items():
            if not is_map_mark(clock):
                inner = (*path, name)
                yield Entry(inner, _at(item, inner), datetime.fromisoformat(time_of(clock)), is_removal(clock))
    for name, value in item.items():
        if name != "account_id" and not is_own(name) and (name,) not in clocks:
            yield Entry((name,), value, None)


def _at(item: Item, path: tuple[str, ...]) -> Any:
    value: Any = item
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value
