"""The options that every subcommand has, `--stack`, `--endpoint-url` and `--json`, and the two forms of its answer.

A subcommand is a function whose first parameter is the Operator. `subcommand` adds the common options to the others.
"""

import functools
import inspect
import json
import sys
from collections.abc import Callable
from typing import Annotated, Any, NoReturn

import typer
from botocore.exceptions import BotoCoreError, ClientError
from rich.console import Console, RenderableType

from tools.teller.deployment import Deployment
from tools.teller.failures import Failure, WrongUse, failure_of
from tools.teller.plain import plain

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


class Operator:
    """The deployment that a command works on, and where its answer goes: tables for people, or JSON.

    Answers go to the standard output. Remarks, questions and progress go to the standard error.
    """

    def __init__(self, stack: str | None, endpoint_url: str | None, *, as_json: bool) -> None:
        self._stack, self._endpoint_url, self.as_json = stack, endpoint_url, as_json
        self.console = Console(highlight=False, markup=False, emoji=False)
        self.remarks = Console(highlight=False, markup=False, emoji=False, stderr=True)

    @functools.cached_property
    def deployment(self) -> Deployment:
        if not self._stack:
            raise WrongUse("no stack: name it with --stack NAME, or in the variable TELLER_STACK")
        return Deployment(self._stack, self._endpoint_url)

    def show(self, answer: Any, *for_people: RenderableType) -> None:
        """Prints the answer as JSON, or what people see of it."""
        if self.as_json:
            print(json.dumps(answer, indent=2, ensure_ascii=False, default=plain))
        else:
            for renderable in for_people:
                self.console.print(renderable)

    def remark(self, sentence: str) -> None:
        self.remarks.print(sentence)

    def not_well(self, sentence: str) -> NoReturn:
        """Ends the command with status 1 after its answer. `--json` has the same in its answer."""
        if not self.as_json:
            self.remarks.print(f"teller: {sentence}", style="red", soft_wrap=True)
        raise typer.Exit(1)

    def agree(self, change: str, *, yes: bool) -> None:
        """Asks before a change of a prod stack. Raises Failure if the answer isn't yes.

        `change` completes a sentence: "redrive 12 dead letters".
        """
        if yes or not self.deployment.is_prod:
            return
        if not sys.stdin.isatty():
            raise WrongUse(f"{self.deployment.name} is a prod stack: to {change}, add --yes")
        if not typer.confirm(f"{self.deployment.name} is a prod stack. {change[0].upper()}{change[1:]}?", err=True):
            raise Failure("nothing was changed", "NOT_AGREED")

    def fail(self, failure: Failure) -> None:
        if self.as_json:
            self.show({"error": {"code": failure.code, "reason": failure.reason}})
        else:
            self.remarks.print(f"teller: {failure.reason}", style="red", soft_wrap=True)


def subcommand(app: typer.Typer, name: str | None = None) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Makes a function with an Operator as its first parameter a subcommand. Its docstring is the help."""

    def register(function: Callable[..., None]) -> Callable[..., None]:
        _, *own = inspect.signature(function).parameters.values()

        def run(stack: str | None, endpoint_url: str | None, as_json: bool, **options: Any) -> None:
            operator = Operator(stack, endpoint_url or None, as_json=as_json)
            try:
                function(operator, **options)
            except (Failure, ClientError, BotoCoreError) as error:
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
