"""On the standard error, if that is a terminal: how far a long command is."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import override

from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from tools.teller.operator import Operator
from workers.queue_messages import printable


class _Rate(ProgressColumn):
    @override
    def render(self, task: Task) -> Text:
        return Text(f"{task.speed:,.0f}/s" if task.speed else "")


@contextmanager
def progress_bar(operator: Operator, doing: str, total: int, done: int = 0) -> Iterator[Callable[[int], None]]:
    """A function that is told how many more are done. `doing` is the text before the bar."""
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), _Rate(), TimeRemainingColumn()
    terminal = operator.remarks.is_terminal
    with Progress(*columns, console=operator.remarks, transient=True, disable=not terminal) as progress:
        task = progress.add_task(doing, total=total, completed=done)
        yield lambda number: progress.update(task, advance=number)


@contextmanager
def at_work(operator: Operator, doing: str) -> Iterator[Callable[[str], None]]:
    """A spinner beside the text, and a function that is told another text."""
    with operator.remarks.status(Text(printable(doing))) as status:
        yield lambda words: status.update(Text(printable(words)))
