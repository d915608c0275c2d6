"""Tables for people, as wide as the terminal at most: a long text goes on in the next line of its column."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, override

from rich import box
from rich.console import RenderableType
from rich.style import StyleType
from rich.table import Table
from rich.text import Text

from tools.teller.times import shown
from workers.queue_messages import printable


class Rows(Table):
    """A table whose cells are texts of anyone's: each is escaped, and so on one line. `lines` makes a cell of several.

    It's the only kind of table that the command prints.
    """

    @override
    def add_row(
        self, *renderables: RenderableType | None, style: StyleType | None = None, end_section: bool = False
    ) -> None:
        cells = (printable(cell) if isinstance(cell, str) else cell for cell in renderables)
        super().add_row(*cells, style=style, end_section=end_section)


def lines(texts: Iterable[str]) -> Text:
    """A cell with a line for each text."""
    return Text("\n".join(map(printable, texts)))


def table(*names: str, right: Sequence[str] = ()) -> Rows:
    """With these columns. Those of `right` are aligned to the right."""
    made = Rows(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))
    for name in names:
        made.add_column(name, justify="right" if name in right else "left", overflow="fold")
    return made


def fields_table(fields: Mapping[str, Any]) -> Rows:
    """A row for each field."""
    made = Rows(show_header=False, box=box.SIMPLE_HEAD)
    made.add_column(style="bold", no_wrap=True)
    made.add_column(overflow="fold")
    for name, value in fields.items():
        made.add_row(name, _cell(value))
    return made


def _cell(value: Any) -> RenderableType:
    match value:
        case None:
            return ""
        case datetime():
            return shown(value)
        case Text():
            return value
    return str(value)
