"""The command `teller`, run in the test's process as from a terminal of 80 columns, or for `--json`."""

import json
from dataclasses import dataclass
from typing import Any

from typer.testing import CliRunner

from tools.local_aws.stack import Stack
from tools.teller.command import app

COLUMNS = 80


@dataclass(frozen=True)
class Ended:
    """`out` and `err` are the two outputs, `status` is the exit status."""

    out: str
    err: str
    status: int


@dataclass(frozen=True)
class Command:
    """The command on a deployed stack."""

    stack: Stack

    def run(self, *arguments: str, typed: str | None = None) -> Ended:
        """Runs a subcommand. `typed` is the standard input. Errors that the command doesn't catch are raised."""
        variables = self.stack.endpoint.environment | {"TELLER_STACK": self.stack.name, "COLUMNS": str(COLUMNS)}
        ended = CliRunner().invoke(app, arguments, input=typed, env=variables, catch_exceptions=False)
        return Ended(ended.stdout, ended.stderr, ended.exit_code)

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
