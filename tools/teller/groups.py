"""Groups of subcommands of which one is meant if none is named: `teller jobs` is `teller jobs list`."""

from typing import Any, override

from typer.core import TyperArgument, TyperGroup


class ListByDefault(TyperGroup):
    """A group with the subcommand `list`. A word that is no subcommand is its argument, if `list` has one."""

    @override
    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        has_argument = any(isinstance(parameter, TyperArgument) for parameter in self.commands["list"].params)
        first = args[0] if args else "--"
        if first not in {*self.commands, "--help"} and (has_argument or first.startswith("-")):
            args = ["list", *args]
        return super().parse_args(ctx, args)
