"""`teller account` and `teller statement`: the answers of read_accounts."""

import csv
import sys
from collections.abc import Iterator
from datetime import datetime
from typing import Annotated, Any

import typer
from rich import box
from rich.table import Table

from tools.teller.failures import WrongUse, failure_in
from tools.teller.operator import Operator, subcommand
from tools.teller.tables import fields_table, table
from tools.teller.times import moment, shown

AccountId = Annotated[str, typer.Argument(help="The account's id.", metavar="ACCOUNT")]
LastOption = Annotated[
    int | None, typer.Option("--last", min=1, help="The last N entries. Without --from: 10.", metavar="N")
]
FromOption = Annotated[
    datetime | None,
    typer.Option("--from", parser=moment, help="Entries posted at this time or later. ISO 8601.", metavar="TIME"),
]
ToOption = Annotated[
    datetime | None,
    typer.Option("--to", parser=moment, help="Entries posted before this time. With --from.", metavar="TIME"),
]
CsvOption = Annotated[bool, typer.Option("--csv", help="Print CSV, with a line of names, as it is read.")]

DEFAULT_LAST = 10
MOST_ENTRIES = 1000
"""Of a page: read_accounts's own bound."""
CSV_COLUMNS = (
    *("account_version", "posted_at", "transaction_id", "type", "status", "reason", "amount", "balance_after"),
    *("occurred_at", "description", "held_after", "hold_id", "of_transaction_id"),
)

type Entry = dict[str, Any]
type Page = dict[str, Any]


def add_to(app: typer.Typer) -> None:
    subcommand(app)(account)
    subcommand(app)(statement)


def account(operator: Operator, account_id: AccountId) -> None:
    """Show an account as it is now, with its open holds.

    What is available is the largest debit or hold that the overdraft limit allows: the balance less what is held, down
    to the limit. The hold that expires first is the first one.
    """
    answer = read(operator, {"read": "account", "account_id": account_id})
    fields = {name: value for name, value in answer.items() if name != "holds"}
    operator.show(answer, fields_table(fields), *([_holds_table(answer["holds"])] if answer["holds"] else []))


def statement(
    operator: Operator,
    account_id: AccountId,
    last: LastOption = None,
    from_time: FromOption = None,
    to_time: ToOption = None,
    as_csv: CsvOption = False,
) -> None:
    """Show an account's entries, the oldest first.

    They are the last ten, the last N, or those of a time. Times without an offset are in UTC, as are all that are
    shown. A rejected transaction is an entry, too: its amount is 0. So is a hold, and what is held after an entry is
    below its balance. Exit status 1: not all entries were found, and the versions without one are named.
    """
    if as_csv and operator.as_json:
        raise WrongUse("--csv and --json exclude each other")
    if from_time is not None and last is not None:
        raise WrongUse("--last and --from exclude each other")
    if to_time is not None and from_time is None:
        raise WrongUse("--to needs --from")
    if from_time is not None and to_time is not None and to_time <= from_time:
        raise WrongUse(f"--to: expected a time after --from, which is {shown(from_time)}, got {shown(to_time)}")
    if from_time is None:
        pages = last_entries(operator, account_id, last or DEFAULT_LAST)
    else:
        to = {} if to_time is None else {"to": to_time.isoformat()}
        pages = entries(operator, account_id, {"from": from_time.isoformat(), "limit": MOST_ENTRIES} | to)
    summary = _as_json(operator, pages) if operator.as_json else _print(operator, pages, as_csv)
    if summary.get("final") is False and to_time is not None and not operator.as_json:
        operator.remark(f"Not final: a transaction that is being posted may still come before {shown(to_time)}.")
    if not summary["complete"]:
        operator.not_well(_not_complete(summary["missing_versions"]))


def read(operator: Operator, request: dict[str, Any]) -> dict[str, Any]:
    """The answer of read_accounts. Raises NotFound for an unknown account, and WrongUse or Failure for other errors."""
    answer = operator.deployment.invoke("ReadAccountsFunctionName", request)
    if failure := failure_in(answer):
        raise failure
    return answer


def last_entries(operator: Operator, account_id: str, last: int) -> Iterator[Page]:
    if last <= MOST_ENTRIES:
        return entries(operator, account_id, {"last": last})
    version = read(operator, {"read": "account", "account_id": account_id})["version"]
    first = max(1, version - last + 1)
    return entries(operator, account_id, {"from_version": first, "to_version": version, "limit": MOST_ENTRIES})


def entries(operator: Operator, account_id: str, wanted: dict[str, Any]) -> Iterator[Page]:
    """The pages of a statement, as read_accounts answers them."""
    request = {"read": "statement", "account_id": account_id}
    page = read(operator, request | wanted)
    yield page
    while page["next"]:
        page = read(operator, request | {"limit": MOST_ENTRIES} | page["next"])
        yield page


def _as_json(operator: Operator, pages: Iterator[Page]) -> Page:
    """Shows the pages as one answer, without `next`."""
    first, *others = pages
    answer = {name: value for name, value in first.items() if name != "next"}
    for page in others:
        answer["entries"] += page["entries"]
        answer["complete"] &= page["complete"]
        answer["missing_versions"] += page["missing_versions"]
    operator.show(answer)
    return answer


def _print(operator: Operator, pages: Iterator[Page], as_csv: bool) -> Page:
    """Prints each page when it is read. Returns the first page without its entries, with all missing versions."""
    summary: Page = {}
    number = 0
    for page in pages:
        if as_csv:
            _print_csv(page["entries"], with_names=not summary)
        else:
            operator.console.print(_table(page["entries"], show_header=not summary))
        number += len(page["entries"])
        summary = summary or page | {"entries": [], "missing_versions": []}
        summary["complete"] &= page["complete"]
        summary["missing_versions"] += page["missing_versions"]
    operator.remark(f"{number:,} of {summary['account_version']:,} entries of {summary['account_id']}")
    return summary


def _table(page: list[Entry], *, show_header: bool) -> Table:
    """The widths are the same for each page."""
    made = Table(box=box.SIMPLE_HEAD, show_header=show_header, show_edge=False, expand=True, padding=(0, 1, 0, 0))
    made.add_column("version", justify="right", width=7, overflow="fold")
    made.add_column("posted at (UTC)", width=19)
    made.add_column("transaction", ratio=1, overflow="fold")
    made.add_column("amount", justify="right", width=12, overflow="fold")
    made.add_column("balance", justify="right", width=12, overflow="fold")
    for entry in page:
        held = "" if entry["held_after"] == "0" else f"\nheld {entry['held_after']}"
        made.add_row(
            str(entry["account_version"]),
            shown(entry["posted_at"]),
            f"{entry['transaction_id']} {_kind(entry)}",
            entry["amount"],
            f"{entry['balance_after']}{held}",
            style="yellow" if entry["status"] == "REJECTED" else None,
        )
    return made


def _kind(entry: Entry) -> str:
    """The transaction's type, and the hold or the transaction that it is about. If it was rejected, the reason."""
    request = entry["request"]
    kind = request.get("type", "")
    if entry["status"] == "REJECTED":
        return f"rejected: {entry['reason']}"
    of = request.get("hold_id") or request.get("of_transaction_id") or (kind == "hold" and request.get("amount"))
    return f"{kind} of {of}" if of else kind


def _holds_table(holds: list[dict[str, Any]]) -> Table:
    made = table("open hold", "remaining", "expires at (UTC)", right=["remaining"])
    for hold in holds:
        made.add_row(hold["hold_id"], hold["remaining"], shown(hold["expires_at"]) or "never")
    return made


def _print_csv(page: list[Entry], *, with_names: bool) -> None:
    lines = csv.writer(sys.stdout, lineterminator="\n")
    if with_names:
        lines.writerow(CSV_COLUMNS)
    for entry in page:
        fields = entry["request"] | entry
        lines.writerow([fields.get(name) for name in CSV_COLUMNS])


def _not_complete(missing: list[int]) -> str:
    if not missing:
        return "the statement isn't complete: not all of its entries could be looked for. Ask again"
    named = ", ".join(map(str, missing[:10])) + (f" and {len(missing) - 10:,} more" if len(missing) > 10 else "")
    return (
        f"the statement isn't complete: no entry was found of version {named}. Ask again a little later. If they stay "
        "missing, the reconciliation reports them"
    )
