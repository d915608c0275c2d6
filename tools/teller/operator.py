"""The options that every subcommand has, `--stack`, `--endpoint-url` and `--json`, and the two forms of its answer.

A subcommand is a function whose first parameter is the Operator. `subcommand` adds the common options to the others.
"""

import contextlib
import errno
import functools
import inspect
import io
import os
import sys
from collections.abc import Callable, Iterator
from typing import Annotated, Any, NoReturn, override

import typer
from botocore.exceptions import BotoCoreError, ClientError
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.text import Text

from tools.teller.deployment import Deployment
from tools.teller.failures import Failure, WrongUse, failure_of
from tools.teller.plain import as_json
from tools.teller.printed_tables import Rows
from workers.queue_messages import printable

StackOption = Annotated[
    str | None,
    typer.Option("--stack", envvar="TELLER_STACK", help="The stack's name, such as teller-dev.", metavar="NAME"),
]
EndpointOption = Annotated[
    str | None,
    typer.Option("--endpoint-url", envvar="AWS_ENDPOINT_URL", help="The URL of a local AWS.", metavar="URL"),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]
YesOption = Annotated[bool, typer.Option("--yes", help="Don't ask before a change of a prod stack.")]

WIDEST = 10_000
"""Columns of an output that is no terminal, so that no line is broken that a program reads."""


class Operator:
    """The deployment that a command works on, and where its answer goes: tables for people, or JSON.

    Answers go to the standard output. Remarks, questions and progress go to the standard error.

    Everything is printed by this class, because ids, descriptions and reasons are anyone's texts: they could have a
    terminal's control characters, or forge a line. So each text is escaped, and is a line.
    """

    def __init__(self, stack: str | None, endpoint_url: str | None, *, as_json: bool) -> None:
        self._stack, self._endpoint_url, self.as_json = stack, endpoint_url, as_json
        if isinstance(sys.stdout, io.TextIOWrapper):  # JSON is UTF-8; a terminal's encoding may lack a letter
            sys.stdout.reconfigure(encoding="utf-8" if as_json else None, errors="backslashreplace")
        self.console, self.remarks = _console(stderr=False), _console(stderr=True)
        self._has_answered = False

    @functools.cached_property
    def deployment(self) -> Deployment:
        if not self._stack:
            raise WrongUse("no stack: name it with --stack NAME, or in the variable TELLER_STACK")
        return Deployment(self._stack, self._endpoint_url)

    def show(self, answer: Any, *for_people: str | Rows) -> None:
        """Prints the answer as JSON, or what people see of it."""
        if self.as_json:
            self._has_answered = True
            with _answering():
                print(as_json(answer, indent=2))
        else:
            self.say(*for_people)

    def say(self, *for_people: str | Rows, style: str = "") -> None:
        """Prints tables, and texts as lines. They wrap at words."""
        with _answering():
            for each in for_people:
                _print(self.console, Text(printable(each), style) if isinstance(each, str) else each)

    def line(self, text: str) -> None:
        """Prints a line that isn't wrapped, at once: of JSON, of CSV, of a stream."""
        with _answering():
            print(printable(text))

    def remark(self, sentence: str, *, indent: int = 0, style: str = "") -> None:
        """Prints a sentence. If nobody can read it, the command goes on: it may be giving letters back."""
        text = Text(printable(sentence), style)
        with contextlib.suppress(OSError):
            _print(self.remarks, Padding(text, (0, 0, 0, indent), expand=False) if indent else text)

    def not_well(self, sentence: str) -> NoReturn:
        """Ends the command with status 1 after its answer. `--json` has the same in its answer."""
        if not self.as_json:
            self.remark(f"teller: {sentence}", style="red")
        raise typer.Exit(1)

    def agree(self, change: str, *, yes: bool) -> None:
        """Asks before a change of a prod stack. Raises Failure if the answer isn't yes.

        `change` completes a sentence: "redrive 12 dead letters".
        """
        if yes or not self.deployment.is_prod:
            return
        if not sys.stdin.isatty():
            raise WrongUse(f"{self.deployment.name} is a prod stack: to {change}, add --yes")
        question = f"{self.deployment.name} is a prod stack. {change[0].upper()}{change[1:]}?"
        if not typer.confirm(printable(question), err=True):
            raise Failure("nothing was changed", "NOT_AGREED")

    def fail(self, failure: Failure) -> None:
        """Says why. The answer in JSON is one object: a failure after it is told on the standard error."""
        if self.as_json and not self._has_answered:
            with contextlib.suppress(Failure):
                self.show({"error": {"code": failure.code, "reason": "\n".join([failure.reason, *failure.details])}})
                return
        for sentence in (f"teller: {failure.reason}", *failure.details):
            self.remark(sentence, style="red")


@contextlib.contextmanager
def _answering() -> Iterator[None]:
    """Writes at the end what was printed. Raises Failure if it can't be, and BrokenPipeError if its reader has gone.

    The rest of it goes nowhere then: Python would try to write it once more in the end.
    """
    try:
        yield
        print(end="", flush=True)
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if error.errno == errno.EPIPE:
            raise
        raise Failure(f"the answer can't be written: {error.strerror}") from None


class _Console(Console):
    @override
    def on_broken_pipe(self) -> None:
        """Rich's own ends the process, and silences the standard output for a reader of the standard error."""
        raise  # noqa: PLE0704 (the BrokenPipeError that rich calls it for)


def _console(*, stderr: bool) -> Console:
    """As wide as the terminal, or as the variable COLUMNS says."""
    console = _Console(highlight=False, markup=False, emoji=False, stderr=stderr)
    if not console.is_terminal and (stderr or "COLUMNS" not in os.environ):
        console.width = WIDEST
    return console


def _print(console: Console, renderable: RenderableType) -> None:
    """What isn't for a terminal has no blanks at the ends of its lines."""
    if console.is_terminal:
        console.print(renderable)
        return
    with console.capture() as captured:
        console.print(renderable)
    console.file.write("".join(f"{line.rstrip()}\n" for line in captured.get().split("\n")[:-1]))


def subcommand(app: typer.Typer, name: str | None = None) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Makes a function with an Operator as its first parameter a subcommand. Its docstring is the help."""

    def register(function: Callable[..., None]) -> Callable[..., None]:
        _, *own = inspect.signature(function).parameters.values()

        def run(stack: str | None, endpoint_url: str | None, as_json: bool, **options: Any) -> None:
            operator = Operator(stack, endpoint_url or None, as_json=as_json)
            try:
                function(operator, **options)
            except (Failure, ClientError, BotoCoreError, OSError) as error:
                if isinstance(error, OSError) and error.errno == errno.EPIPE:
                    raise  # the reader of the answer has gone, which typer knows
                failure = error if isinstance(error, Failure) else failure_of(error)
                operator.fail(failure)
                raise typer.Exit(failure.status) from None

        common = [
            inspect.Parameter("stack", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=StackOption),
            inspect.Parameter("endpoint_url", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=EndpointOption),
            inspect.Parameter("as_json", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=JsonOption),
        ]
        own = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in own]
        run.__signature__ = inspect.Signature([*own, *common])  # type: ignore[attr-defined]
        run.__doc__, run.__name__ = function.__doc__, function.__name__
        app.command(name or function.__name__.replace("_", "-"))(run)
        return function

    return register
