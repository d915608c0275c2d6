"""The command `teller`, run in the test's process as from a terminal of 80 columns, or for `--json`."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from unittest import mock

from typer.testing import CliRunner

from tools.local_aws.stack import Stack
from tools.teller.command import app
from tools.teller.operator import Operator

COLUMNS = 80


@dataclass(frozen=True)
class Ended:
    """`out` and `err` are the two outputs, `status` is the exit status."""

    out: str
    err: str
    status: int


def run_on(deployment: object, *arguments: str, typed: str | bytes | None = None, columns: int | None = None) -> Ended:
    """Runs a subcommand on what stands for a deployment. No columns: the answer isn't for a terminal."""
    with mock.patch.object(Operator, "deployment", deployment):
        return _run(arguments, typed, {"TELLER_STACK": "teller-dev", "COLUMNS": str(columns) if columns else None})


def _run(arguments: Sequence[str], typed: str | bytes | None, variables: Mapping[str, str | None]) -> Ended:
    ended = CliRunner().invoke(app, arguments, input=typed, env=variables, catch_exceptions=False)
    return Ended(ended.stdout, ended.stderr, ended.exit_code)


@dataclass(frozen=True)
class Command:
    """The command on a deployed stack."""

    stack: Stack

    def run(self, *arguments: str, typed: str | None = None) -> Ended:
        """Runs a subcommand. `typed` is the standard input. Errors that the command doesn't catch are raised."""
        variables = self.stack.endpoint.environment | {"TELLER_STACK": self.stack.name, "COLUMNS": str(COLUMNS)}
        return _run(arguments, typed, variables)

    def shown(self, *arguments: str) -> str:
        """The answer as a person sees it. Asserts that the command succeeds."""
        ended = self.run(*arguments)
        assert ended.status == 0, ended
        assert max(map(len, ended.out.splitlines()), default=0) <= COLUMNS, ended.out
        return ended.out

    def json(self, *arguments: str, status: int = 0) -> Any:
        """The answer to a program."""
        ended = self.run(*arguments, "--json")
        assert ended.status == status, ended
        return json.loads(ended.out)

    def json_of_any_status(self, *arguments: str) -> Any:
        """The answer to a program, well or not."""
        ended = self.run(*arguments, "--json")
        assert ended.status in (0, 1), ended
        return json.loads(ended.out)
