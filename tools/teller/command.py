"""The command `teller` and its subcommands."""

import typer

from tools.teller import (
    accounts,
    controls,
    dead_letters,
    exporting,
    importing,
    jobs,
    outcomes,
    page,
    post,
    profile,
    prove,
    send,
    statement,
    status,
    transaction,
)
from tools.teller.verify import command as verification

app = typer.Typer(
    name="teller",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


@app.callback()
def teller() -> None:
    """Look at a deployed Teller stack, and act on it.

    The stack is named by --stack or the variable TELLER_STACK. On AWS the credentials and the region are found as by
    every AWS SDK. Exit status: 1 if something isn't found or isn't well, 2 for wrong use.
    """


status.add_to(app)
send.add_to(app)
accounts.add_to(app)
statement.add_to(app)
transaction.add_to(app)
profile.add_to(app)
prove.add_to(app)
dead_letters.add_to(app)
jobs.add_to(app)
outcomes.add_to(app)
page.add_to(app)
post.add_to(app)
controls.add_to(app)
importing.add_to(app)
exporting.add_to(app)
verification.add_to(app)
