"""`teller account`, `statement`, `transaction` and `profile`: what the tables have of an account."""

from typing import Annotated, Any

import typer
from rich.table import Table

from tools.teller.failures import Failure, NotFound
from tools.teller.operator import Operator, subcommand

AccountId = Annotated[str, typer.Argument(help="The account's id.", metavar="ACCOUNT")]


def add_to(app: typer.Typer) -> None:
    subcommand(app)(account)


def account(operator: Operator, account_id: AccountId) -> None:
    """Show an account as it is now."""
    answer = read(operator, {"read": "account", "account_id": account_id})
    table = Table(show_header=False)
    for name, value in answer.items():
        table.add_row(name, "" if value is None else str(value))
    operator.show(answer, table)


def read(operator: Operator, request: dict[str, Any]) -> dict[str, Any]:
    """The answer of read_accounts. Raises NotFound for an unknown account, and Failure for any other error."""
    answer = operator.deployment.invoke("ReadAccountsFunctionName", request)
    match answer:
        case {"error": {"code": "UNKNOWN_ACCOUNT", "reason": reason}}:
            raise NotFound(reason)
        case {"error": {"code": code, "reason": reason}}:
            raise Failure(reason, code)
    return answer
