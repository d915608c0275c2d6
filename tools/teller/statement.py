"""`teller statement`: an account's entries as tables, as CSV or as JSON."""

import csv
import io
import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Annotated, Any, NamedTuple

import typer
from rich import box
from rich.text import Text

from ledger.core.decoding import SHARD
from tools.teller.accounts import MOST_ENTRIES, AccountId, Entry, Page, entries, last_entries, read_account
from tools.teller.failures import WrongUse
from tools.teller.money import money, most_places
from tools.teller.operator import Operator, subcommand
from tools.teller.printed_tables import Rows, lines
from tools.teller.times import TO_THE_MINUTE, moment, shown
from workers.queue_messages import printable

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
WideOption = Annotated[bool, typer.Option("--wide", help="Show ids whole, and times to the second.")]

DEFAULT_LAST = 10
CSV_COLUMNS = (
    *("account_version", "posted_at", "transaction_id", "type", "status", "reason", "amount", "balance_after"),
    *("occurred_at", "description", "held_after", "hold_id", "of_transaction_id", "home_account_id", "shard"),
)
CSV_NUMBERS = {"account_version", "amount", "balance_after", "held_after", "shard"}
FORMULAS = ("=", "+", "-", "@", "\t", "\r", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""A spreadsheet takes a text that begins so for a formula."""
WIDEST_AMOUNT = 20
"""In columns. A longer amount goes on in the next line."""
LONGEST_REASON = len("BALANCE_OUT_OF_RANGE")


def add_to(app: typer.Typer) -> None:
    subcommand(app)(statement)


def statement(
    operator: Operator,
    account_id: AccountId,
    last: LastOption = None,
    from_time: FromOption = None,
    to_time: ToOption = None,
    as_csv: CsvOption = False,
    wide: WideOption = False,
) -> None:
    """Show an account's entries, the oldest first.

    They are the last ten, the last N, or those of a time. Times without an offset are in UTC, as are all that are
    shown. A rejected transaction is an entry, too: the amount that was asked for is in brackets, and the reason comes
    before its description. The amount that is held after an entry is below its balance. Exit status 1: not all entries
    were found, and the versions without one are named.
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
    if operator.as_json:
        summary = _as_json(operator, pages)
    elif as_csv:
        summary = _print(operator, pages, _CsvLines(operator))
    else:
        account = read_account(operator, account_id)
        operator.say(f"{account_id}, amounts in {account['currency']}", "")
        summary = _print(operator, pages, _Tables(operator, account, wide))
    if summary.get("final") is False and to_time is not None and not operator.as_json:
        operator.remark(f"Not final: a transaction that is being posted may still come before {shown(to_time)}.")
    if not summary["complete"]:
        operator.not_well(_not_complete(summary["missing_versions"]))


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


def _print(operator: Operator, pages: Iterator[Page], form: "_Tables | _CsvLines") -> Page:
    """Prints each page when it is read. Returns the first page without its entries, with all missing versions."""
    summary: Page = {}
    number = 0
    for page in pages:
        form.show(page["entries"])
        number += len(page["entries"])
        summary = summary or page | {"entries": [], "missing_versions": []}
        summary["complete"] &= page["complete"]
        summary["missing_versions"] += page["missing_versions"]
    operator.remark(f"{number:,} of {summary['account_version']:,} entries of {summary['account_id']}")
    return summary


class _Row(NamedTuple):
    """An entry for people. The texts of `balance` are below each other."""

    version: str
    posted_at: str
    transaction: str
    amount: str
    balance: list[str]
    description: str
    is_rejected: bool


class _Tables:
    """A table of each page. The first one has the heads, and decides the widths of all."""

    def __init__(self, operator: Operator, account: dict[str, Any], wide: bool) -> None:
        self._operator, self._account, self._wide = operator, account, wide
        self._widths: list[int] | None = None

    def show(self, page: list[Entry]) -> None:
        rows = list(self._rows(page))
        made = Rows(box=box.SIMPLE_HEAD, show_header=self._widths is None, show_edge=False, padding=0)
        self._widths = self._widths or self._widths_of(rows)
        *_, amount_width, balance_width, _ = self._widths
        for name, width in zip(_HEADS, self._widths, strict=True):
            is_money = name in ("amount", "balance")
            made.add_column(Text(name, justify="right" if is_money else "left"), width=width, overflow="fold")
        for row in rows:
            made.add_row(
                row.version.rjust(self._widths[0]),
                row.posted_at,
                row.transaction,
                row.amount.rjust(amount_width),
                lines(text.rjust(balance_width) for text in row.balance),
                row.description,
                style="yellow" if row.is_rejected else None,
            )
        self._operator.say(made)

    def _rows(self, page: list[Entry]) -> Iterator[_Row]:
        amounts = [entry[name] for entry in page for name in ("amount", "balance_after", "held_after")]
        asked = [_asked(entry) for entry in page if entry["status"] == "REJECTED" or _is_hold(entry)]
        places = most_places([*amounts, *asked], self._account["decimal_places"])
        for entry in page:
            is_rejected = entry["status"] == "REJECTED"
            asked_for = is_rejected and "amount" in entry["request"]
            description = str(entry["request"].get("description") or "")
            held = "" if entry["held_after"] == "0" else f"held {money(entry['held_after'], places)}"
            yield _Row(
                _version(entry),
                shown(entry["posted_at"])[: None if self._wide else TO_THE_MINUTE],
                _transaction(entry, places, self._wide),
                # The blank stands below a bracket, so that the points align.
                f"({money(_asked(entry), places)})" if asked_for else f"{money(entry['amount'], places)} ",
                [money(entry["balance_after"], places), *filter(None, [held])],
                ": ".join(filter(None, [entry["reason"], description])) if is_rejected else description,
                is_rejected,
            )

    def _widths_of(self, rows: Sequence[_Row]) -> list[int]:
        """The descriptions and the ids share what the others leave of the width."""
        widths = [
            max([len(str(self._account["version"])), *(len(row.version) for row in rows)]),
            max(len(_HEADS[1]), *(len(row.posted_at) for row in rows)) if rows else len(_HEADS[1]),
            0,
            min(WIDEST_AMOUNT, max([len(_HEADS[3]), *(len(row.amount) for row in rows)])),
            min(WIDEST_AMOUNT, max([len(_HEADS[4]), *(len(text) for row in rows for text in row.balance)])),
        ]
        transaction = max([len(_HEADS[2]), *(len(printable(row.transaction)) for row in rows)])
        description = max([len(_HEADS[5]), *(len(printable(row.description)) for row in rows)])
        left = max(2, self._operator.console.width - sum(widths) - len(widths))
        widths[2] = max(1, min(transaction, max(left - description, left - LONGEST_REASON, left * 4 // 9)))
        return [*widths, max(1, min(description, left - widths[2]))]


_HEADS = ("#", "posted at (UTC)", "transaction", "amount", "balance", "description")


def _version(entry: Entry) -> str:
    """Of a pool's entry, with the number of the shard."""
    shard, version = _shard(entry), str(entry["account_version"])
    return f"{shard}: {version}" if shard else version


def _shard(entry: Entry) -> str:
    """The number of the shard on which the entry is. Empty, if its account is none."""
    account_id = str(entry.get("account_id"))
    return account_id.removeprefix(SHARD).partition(":")[0] if account_id.startswith(SHARD) else ""


def _asked(entry: Entry) -> str:
    """The amount in the message; 0 if the message leaves it to the rules, or has none."""
    return str(entry["request"].get("amount") or "0")


def _is_hold(entry: Entry) -> bool:
    return bool(entry["request"].get("type") == "hold")


def _transaction(entry: Entry, places: int, wide: bool) -> str:
    """The transaction's id and type, and the hold or the transaction that it is about. Of a hold the amount."""
    request, transaction_id = entry["request"], entry["transaction_id"]
    kind = request.get("type", "transaction")
    about = request.get("hold_id") or request.get("of_transaction_id")
    if _is_hold(entry) and entry["status"] == "POSTED":
        about = money(_asked(entry), places)
    if wide:
        return f"{transaction_id} {kind}{f' of {about}' if about else ''}"
    if kind == "expire_hold" and _DERIVED.search(transaction_id):
        return f"expiry of {_short(about)}"
    return f"{_short(transaction_id)} {kind}{f' of {_short(about)}' if about else ''}"


_DERIVED = re.compile("(?<=-[0-9a-f]{4})[0-9a-f]{28}$")
"""The end of an id that a job derives: 32 hexadecimal digits, of which four are shown."""


def _short(transaction_id: Any) -> str:
    return _DERIVED.sub("…", str(transaction_id))


class _CsvLines:
    """A line of each entry, after one of names."""

    def __init__(self, operator: Operator) -> None:
        self._operator = operator
        self._line(CSV_COLUMNS)

    def show(self, page: list[Entry]) -> None:
        for entry in page:
            fields = entry["request"] | entry | {"shard": _shard(entry)}
            self._line([_csv_cell(name, fields.get(name)) for name in CSV_COLUMNS])

    def _line(self, cells: Sequence[Any]) -> None:
        line = io.StringIO()
        csv.writer(line, lineterminator="").writerow(cells)
        self._operator.line(line.getvalue())


def _csv_cell(name: str, value: Any) -> Any:
    """A text that would be a formula begins with an apostrophe, which spreadsheets don't show.

    Some take the full-width forms of the signs, too.
    """
    if not isinstance(value, str) or name in CSV_NUMBERS:
        return value
    return printable(f"'{value}" if value.startswith(FORMULAS) else value)


def _not_complete(missing: list[int]) -> str:
    if not missing:
        return "the statement isn't complete: not all of its entries could be looked for. Ask again"
    named = ", ".join(map(str, missing[:10])) + (f" and {len(missing) - 10:,} more" if len(missing) > 10 else "")
    return (
        f"the statement isn't complete: no entry was found of version {named}. Ask again a little later. If they stay "
        "missing, the reconciliation reports them"
    )
