"""The command `teller`, its helps and its page agree."""

import re
from collections.abc import Iterator

import pytest
import typer
from typer.core import TyperCommand, TyperGroup
from typer.testing import CliRunner

from tools.local_aws.server import PROJECT
from tools.teller.command import app


def commands(group: TyperCommand | TyperGroup, *names: str) -> Iterator[tuple[tuple[str, ...], TyperCommand]]:
    if not isinstance(group, TyperGroup):
        yield names, group
        return
    for name, command in group.commands.items():
        yield from commands(command, *names, name)


COMMANDS = dict(commands(typer.main.get_command(app)))


def named_on_the_page() -> set[tuple[str, ...]]:
    """The subcommands in the page's table: after `teller dead-letters list` comes `show` for short."""
    section = (PROJECT / "docs/teller.md").read_text().split("| you want to know, or do |")[1].split("\n\n")[0]
    named, words = set(), list[str]()
    for quoted in re.findall(r"`([a-z -]+)`", section):
        words = quoted.split()[1:] if quoted.startswith("teller ") else [*words[:-1], quoted]
        named.add(tuple(words))
    return named


def test_the_page_names_each_subcommand() -> None:
    assert set(COMMANDS) <= named_on_the_page()


def test_the_page_has_the_json_of_each_subcommand() -> None:
    section = (PROJECT / "docs/teller.md").read_text().split("## JSON")[1].split("\n## ")[0]
    rows = [line.split(" | ")[0] for line in section.splitlines() if line.startswith("| `")]
    assert {tuple(name.split()) for row in rows for name in re.findall("`([a-z -]+)`", row)} == set(COMMANDS)


@pytest.mark.parametrize("names", COMMANDS, ids=" ".join)
def test_a_help_says_what_each_argument_and_option_is_for(names: tuple[str, ...]) -> None:
    command = COMMANDS[names]
    assert command.help
    shown = CliRunner().invoke(app, [*names, "--help"], env={"COLUMNS": "80"}).stdout
    assert max(map(len, shown.splitlines())) <= 80
    for parameter in command.params:
        assert getattr(parameter, "help", None), parameter.name
        assert str(parameter.help).split()[0] in shown
    assert {"stack", "endpoint_url", "as_json"} <= {parameter.name for parameter in command.params}
