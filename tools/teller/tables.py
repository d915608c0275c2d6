"""Tables for people. They fit 80 columns: a long text goes on in the next line of its column."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from rich import box
from rich.table import Table

from tools.teller.times import shown


def table(*names: str, right: Sequence[str] = ()) -> Table:
    """With these columns. Those of `right` are aligned to the right."""
    made = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))
    for name in names:
        made.add_column(name, justify="right" if name in right else "left", overflow="fold")
    return made


def fields_table(fields: Mapping[str, Any]) -> Table:
    """A row for each field."""
    made = Table(show_header=False, box=box.SIMPLE_HEAD)
    made.add_column(style="bold", no_wrap=True)
    made.add_column(overflow="fold")
    for name, value in fields.items():
        made.add_row(name, shown(value) if isinstance(value, datetime) else "" if value is None else str(value))
    return made
