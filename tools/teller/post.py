"""`teller post`: transactions of a file, with their outcomes at once."""

import json
from typing import Annotated, Any, TextIO

import typer

from ledger.core.decoding import check_names
from ledger.core.post_requests import MOST_TRANSACTIONS
from ledger.core.reason_codes import InvalidMessage
from ledger.synchronous import State
from tools.teller.failures import Failure, WrongUse, failure_in
from tools.teller.operator import Operator, YesOption, subcommand
from tools.teller.printed_tables import Rows, table
from tools.teller.words import counted

File = Annotated[
    typer.FileText,
    typer.Argument(help="Its lines are transactions in JSON, 100 at most; - is the standard input.", metavar="FILE"),
]


def add_to(app: typer.Typer) -> None:
    subcommand(app)(post)


def post(
    operator: Operator,
    file: File,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Post nothing: show what the outcomes would be now.")
    ] = False,
    yes: YesOption = False,
) -> None:
    """Post the transactions of a file, and show their outcomes.

    Each line is a message of the transactions queue in JSON. Nothing comes again by itself: a transaction whose state
    is busy or unknown is sent again by the same command, and is posted once. Exit status 1: not each transaction was
    posted or rejected.
    """
    transactions = [_transaction(number, line) for number, line in enumerate(_lines(file), 1) if line.strip()]
    if not 1 <= len(transactions) <= MOST_TRANSACTIONS:
        raise WrongUse(
            f"FILE: expected 1 to {MOST_TRANSACTIONS} lines, got {len(transactions):,}; teller send has no bound"
        )
    if not dry_run:
        operator.agree(f"post {counted(len(transactions), 'transaction')}", yes=yes)
    request = {"transactions": transactions, "dry_run": dry_run}
    answer = operator.deployment.invoke("PostTransactionsFunctionName", request)
    if failure := failure_in(answer):
        raise failure
    operator.show(answer, _table(answer["outcomes"]))
    if any(outcome["state"] not in (State.POSTED, State.REJECTED) for outcome in answer["outcomes"]):
        raise typer.Exit(1)


def _lines(file: TextIO) -> list[str]:
    try:
        return file.readlines()
    except UnicodeDecodeError as error:
        raise Failure(
            f"FILE: expected UTF-8, got the byte {error.object[error.start]:#04x}. Nothing was sent"
        ) from None


def _transaction(number: int, line: str) -> Any:
    """The message in a line. Its fractions are texts, so that Lambda rounds none of them."""
    try:
        transaction = json.loads(line, parse_float=str)
        check_names(line)
    except (ValueError, RecursionError, InvalidMessage) as error:
        raise Failure(f"line {number}: expected JSON; {error}. Nothing was sent") from None
    return transaction


def _table(outcomes: list[dict[str, Any]]) -> Rows:
    rows = table("transaction", "account", "state", "amount", "balance", "reason", right=("amount", "balance"))
    for outcome in outcomes:
        ids = (outcome["transaction_id"] or "", outcome["account_id"] or "", outcome["state"])
        why = (outcome.get(name) for name in ("reason_code", "reason"))
        rows.add_row(*ids, outcome.get("amount", ""), outcome.get("balance_after", ""), ": ".join(filter(None, why)))
    return rows
