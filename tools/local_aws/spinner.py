"""Shows that something long is at work: a line with the seconds so far, and the last line of what it says."""

import contextlib
from collections.abc import Callable, Iterator

from rich.console import Console
from rich.markup import escape
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

type Say = Callable[[str], None]

COLUMNS = (SpinnerColumn(finished_text="✓"), TextColumn("{task.description}"), TimeElapsedColumn())
LONGEST_LINE = 48
"""Characters of what it says."""


@contextlib.contextmanager
def at_work(console: Console, doing: str) -> Iterator[Say]:
    """Shows the line during the block. The block may say what it is at."""
    with Progress(*COLUMNS, TextColumn("[dim]{task.fields[said]}"), console=console) as progress:
        task = progress.add_task(doing, total=1, said="")
        yield lambda line: progress.update(task, said=escape(line.strip()[:LONGEST_LINE]))
        progress.update(task, completed=1, said="")
