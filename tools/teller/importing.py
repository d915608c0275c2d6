"""`teller import`: accounts from a file. Checked whole, sent while the queues have room, and proved from the tables."""

import re
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from decimal import Decimal, InvalidOperation
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from conditional_writes import Deadline, Item, Key
from conditional_writes.core.client import CONNECTIONS
from conditional_writes.core.packing import packed
from conditional_writes.core.unconditional import MAXIMUM_KEYS, read
from ledger.core.currencies import MINOR_UNITS, no_minor_units
from ledger.core.journal import JournalEntry, entry_from_item
from ledger.core.rules import Status
from ledger.core.transaction_types.import_account import ImportAccount
from ledger.core.values import JSON_NUMBER, WIDE, format_decimal
from ledger.tables import LedgerTables
from tools.teller.account_files import (
    CheckedAccounts,
    Row,
    checked,
    differences,
    is_csv,
    message_of,
    messages_from,
    rows,
)
from tools.teller.deployment import Deployment
from tools.teller.failures import Failure, WrongUse
from tools.teller.history import make, number_of_buckets
from tools.teller.message_files import MOST_SENTENCES
from tools.teller.message_queues import MessageQueue, counts_of
from tools.teller.operator import Operator, YesOption, subcommand
from tools.teller.places import Place, path_of, read_place, remove_place
from tools.teller.printed_tables import Rows, table
from tools.teller.processes import processes
from tools.teller.progress import progress_bar
from tools.teller.send import check_regular, send_from, send_rest, time_of_change
from tools.teller.words import counted
from workers.parallel import in_parallel

MOST_WAITING = {MessageQueue.TRANSACTIONS: 1_000, MessageQueue.ADMINISTRATION: 10_000}
"""Messages of a queue. With more of them the import pauses: so payments don't wait for it."""
PAUSE_SECONDS = 2.0
ONE_PROCESS_BYTES = 2**22
"""Of a file that is checked before other processes would have begun."""
ROWS_AT_ONCE = 8 * MAXIMUM_KEYS
READING_SECONDS = 60
EMPTY_LOOKS = 3
"""After so many looks at an empty queue nothing more is expected: SQS's numbers may be a little old."""
LONGEST_WAIT_SECONDS = 600
"""Without any further account: then those that are missing are named."""

File = Annotated[
    Path,
    typer.Argument(
        help="FILE.csv with a header, or lines of JSON.", metavar="FILE", exists=True, dir_okay=False, readable=True
    ),
]
TotalsOption = Annotated[
    str | None,
    typer.Option(
        "--totals", help="The source's own sums: EUR=12.50,USD=-3. They must be the file's.", metavar="TOTALS"
    ),
]


def add_to(app: typer.Typer) -> None:
    subcommand(app, "import")(import_accounts)


def import_accounts(
    operator: Operator,
    file: File,
    totals: TotalsOption = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Send nothing: check the file.")] = False,
    history: Annotated[
        Path | None,
        typer.Option("--history", help="HISTORY.csv: make files of it, in --into.", exists=True, dir_okay=False),
    ] = None,
    into: Annotated[Path | None, typer.Option("--into", help="A new directory.", metavar="DIRECTORY")] = None,
    yes: YesOption = False,
) -> None:
    """Import the accounts of a file, and prove their sums.

    First the whole file is checked: each row as the function will, no account twice, none that the stack has already,
    and the sums by currency. If anything is wrong, nothing is sent: exit status 1.

    Then the rows are sent, while few messages wait. How far is kept beside FILE, in FILE.place. After a break the same
    command goes on from there. A row that is sent twice is imported once.

    In the end the journal's entries are read, and summed by currency. Each account that differs is named: exit status
    1.

    With --history nothing is sent, and no stack is needed: files for DynamoDB's import of the journal are made of the
    accounts' earlier transactions, and the file to import then, accounts.jsonl.
    """
    if history or into:
        _make_history(operator, file, history, into)
        return
    if totals is None and not dry_run:
        raise WrongUse(
            "--totals: expected the sums of the balances by the source's own books, such as EUR=12.50,USD=-3"
        )
    expected = None if totals is None else _totals(totals)
    check_regular(file)
    checked_at = time_of_change(file)
    found = _checked(operator, file)
    if expected is not None and (differing := differences(expected, found.totals)):
        raise Failure(f"{file}: nothing was sent. The totals aren't the file's", details=differing)
    beginning = Place(found.sha256, {MessageQueue.ADMINISTRATION: operator.deployment["AdministrationQueueUrl"]})
    place = read_place(file, beginning)
    books = Imported(operator.deployment)
    if not place.messages:
        _check_new(operator, file, found, books)
    if dry_run:
        operator.show({"valid": found.accounts, "totals": _shown(found.totals)}, _table(found, {}))
        return
    if place.messages:
        operator.remark(f"going on after {place.messages:,} of {found.accounts:,} accounts, by {path_of(file)}")
    operator.agree(f"import {counted(found.accounts, 'account')}", yes=yes)
    sending = partial(
        send_from,
        checked_at=checked_at,
        messages_of=partial(messages_from, is_csv=is_csv(file), from_account_id=_source_of(operator.deployment)),
        before_each=partial(_wait_for_room, operator.deployment),
    )
    send_rest(operator, file, place, found.accounts, sending)
    imported, different = _proved(operator, file, found, books)
    answer = {"imported": found.accounts - different, "different": different, "totals": _shown(imported)}
    operator.show(answer, _table(found, imported))
    if different or differences(found.totals, imported):
        operator.not_well(f"accounts that differ: {different:,}. The same command looks at them again")
    remove_place(file)


def _make_history(operator: Operator, file: Path, history: Path | None, into: Path | None) -> None:
    if history is None or into is None:
        raise WrongUse("--history FILE and --into DIRECTORY go together")
    with (
        processes() as executor,
        progress_bar(operator, "making the history", number_of_buckets(history)) as progress,
    ):
        manifest = make(file, history, into, progress, executor)
    made = f"{counted(manifest['entries'], 'entry', 'entries')} of {counted(manifest['accounts'], 'account')}"
    operator.show(manifest, f"{made}, in {into}. Then import {into / 'accounts.jsonl'}")


def _totals(text: str) -> dict[str, Decimal]:
    totals = {}
    for each in text.split(","):
        currency, _, number = each.strip().partition("=")
        if not re.fullmatch("[A-Z]{3}", currency) or not JSON_NUMBER.fullmatch(number) or currency in totals:
            raise WrongUse(f"--totals: expected each currency once, as in EUR=12.50,USD=-3, got {each.strip()!r}")
        try:
            totals[currency] = Decimal(number)
        except InvalidOperation:
            raise WrongUse(f"--totals: {each.strip()}: no sum is so large, or so small") from None
    return totals


def _checked(operator: Operator, file: Path) -> CheckedAccounts:
    has_units = operator.deployment.parameters.get("MinorUnits") == "on"
    size = file.stat().st_size
    several = processes() if size > ONE_PROCESS_BYTES else nullcontext()
    with several as executor, progress_bar(operator, "checking", size) as progress:
        found = checked(file, MINOR_UNITS.get if has_units else no_minor_units, progress, executor)
    if found.wrong:
        raise _refused(file, found.wrong, found.problems)
    return found


def _refused(file: Path, wrong: int, problems: Sequence[str]) -> Failure:
    more = wrong - len(problems)
    details = [*problems, *([f"and {more:,} more"] if more else [])]
    return Failure(f"{file}: nothing was sent. Wrong rows: {wrong:,}", details=details)


class Imported:
    """The accounts of rows as the tables have them."""

    def __init__(self, deployment: Deployment) -> None:
        self._client = deployment.new_client("dynamodb", max_pool_connections=CONNECTIONS)
        self._tables = LedgerTables(deployment["AccountsTableName"], deployment["JournalTableName"])

    def entries(self, messages: Sequence[ImportAccount]) -> list[JournalEntry | None]:
        """The entry of each row's message, None if there is none."""
        keys = [self._tables.entry_key(message.home_entry_id) for message in messages]
        items = self._read(keys)
        return [entry_from_item(dict(item)) if (item := items[key]) else None for key in keys]

    def are_open(self, messages: Sequence[ImportAccount]) -> list[bool]:
        """Whether each row's account exists, by whatever message."""
        keys = [self._tables.account_key(message.account_id) for message in messages]
        items = self._read(keys)
        return [items[key] is not None for key in keys]

    def _read(self, keys: Sequence[Key]) -> dict[Key, Item | None]:
        parts = [keys[start : start + MAXIMUM_KEYS] for start in range(0, len(keys), MAXIMUM_KEYS)]
        deadline = Deadline.after(READING_SECONDS)
        attributes = {self._tables.accounts: ("account_id",)}
        found = in_parallel(lambda part: read(self._client, part, deadline, attributes), parts)
        return {key: item for part in found for key, item in part.items()}


def _source_of(deployment: Deployment) -> str:
    """The account from which balances come, by the stack's parameter. Empty: they come from outside of the ledger."""
    return deployment.parameters.get("ImportsAccountId", "")


def _parts(file: Path, deployment: Deployment) -> Iterator[tuple[list[Row], list[ImportAccount]]]:
    """The rows of a checked file, as many at once as are read together."""
    with file.open("rb") as lines:
        found = rows(lines, is_csv=is_csv(file), from_account_id=_source_of(deployment))
        for part in packed(found, lambda row: len(row.body), ROWS_AT_ONCE, 2**24):
            yield part, [message_of(row) for row in part]


def _check_new(operator: Operator, file: Path, found: CheckedAccounts, books: Imported) -> None:
    """Raises Failure if the stack has an account of the file that isn't imported from its row.

    The message of such a row would become a dead letter if its id was used, and would be rejected if it wasn't.
    """
    _wait_for_others(operator)
    wrong, problems = 0, list[str]()
    with progress_bar(operator, "looking for accounts", found.accounts) as progress:
        for part, messages in _parts(file, operator.deployment):
            exist = books.are_open(messages)
            entries = books.entries(messages) if any(exist) else [None] * len(part)
            for row, message, exists, entry in zip(part, messages, exist, entries, strict=True):
                if problem := _why_not_new(message, exists=exists, entry=entry):
                    wrong += 1
                    if len(problems) < MOST_SENTENCES:
                        problems.append(f"line {row.line:,}: account_id: {problem}")
            progress(len(part))
    if wrong:
        raise _refused(file, wrong, problems)


def _why_not_new(message: ImportAccount, *, exists: bool, entry: JournalEntry | None) -> str:
    has = f"the stack has {message.account_id!r} already"
    if entry is None:
        return has if exists else ""
    names = _other_fields(message, entry)
    return f"{has}. Expected the row that it was imported from, got another {', '.join(names)}" if names else ""


def _wait_for_others(operator: Operator) -> None:
    """Returns when no message waits on the administration queue: it could import an account of the file.

    A message in flight may wait there for hours for its account. So only those are waited for that are handled at once.
    """
    counts, empty_looks = counts_of(operator.deployment, MessageQueue.ADMINISTRATION.output), 0
    if counts.total:
        operator.remark(f"waiting for the administration queue, which may have some of these accounts: {counts}")
    while counts.total and empty_looks < EMPTY_LOOKS:
        time.sleep(PAUSE_SECONDS)
        counts = counts_of(operator.deployment, MessageQueue.ADMINISTRATION.output)
        empty_looks = 0 if counts.waiting else empty_looks + 1


def _wait_for_room(deployment: Deployment) -> None:
    """Returns when few messages wait: until then the import would make payments slower."""
    while any(counts_of(deployment, queue.output).waiting > most for queue, most in MOST_WAITING.items()):
        time.sleep(PAUSE_SECONDS)


def _proved(
    operator: Operator, file: Path, found: CheckedAccounts, books: Imported
) -> tuple[Mapping[str, Decimal], int]:
    """The sums of the entries by currency, and how many accounts differ. Each is named on the standard error."""
    totals: dict[str, Decimal] = defaultdict(Decimal)
    different, wait = 0, _Wait(operator.deployment)
    with progress_bar(operator, "proving", found.accounts) as progress:
        for part, messages in _parts(file, operator.deployment):
            entries = books.entries(messages)
            while None in entries and wait.may_come(entries.count(None)):
                entries = books.entries(messages)
            for row, message, entry in zip(part, messages, entries, strict=True):
                if difference := _difference(message, entry):
                    different += 1
                    operator.remark(f"line {row.line:,}: account {message.account_id!r}: {difference}")
                if entry and entry.outcome.status == Status.POSTED:
                    currency = entry.outcome.currency
                    totals[currency] = WIDE.add(totals[currency], entry.outcome.amount)
            progress(len(part))
    return totals, different


def _difference(message: ImportAccount, entry: JournalEntry | None) -> str:
    """Why the entry isn't that of a posted import of this row; empty if it is."""
    if entry is None:
        return f"it has no entry. `teller transaction` tells more of {message.transaction_id}"
    if entry.outcome.status != Status.POSTED:
        return f"{entry.outcome.status}, {entry.outcome.reason}"
    names = _other_fields(message, entry) + (["amount"] if entry.outcome.amount != message.balance else [])
    return f"its entry has another {', '.join(names)}" if names else ""


def _other_fields(message: ImportAccount, entry: JournalEntry) -> list[str]:
    """The names of the fields in which the message isn't the entry's."""
    expected, found = message.canonical_payload(), entry.request
    return [name for name in sorted(expected.keys() | found.keys()) if expected.get(name) != found.get(name)]


class _Wait:
    """Waits for entries, as long as there may be messages of them on the queue."""

    def __init__(self, deployment: Deployment) -> None:
        self._deployment = deployment
        self._missing, self._until, self._empty_looks = 0, 0.0, 0

    def may_come(self, missing: int) -> bool:
        """Whether it is worth another look. Returns after a pause."""
        if missing != self._missing:
            self._missing, self._until = missing, time.monotonic() + LONGEST_WAIT_SECONDS
        if self._empty_looks == EMPTY_LOOKS or time.monotonic() > self._until:
            return False
        is_empty = not counts_of(self._deployment, MessageQueue.ADMINISTRATION.output).total
        self._empty_looks = self._empty_looks + 1 if is_empty else 0
        time.sleep(PAUSE_SECONDS)
        return True


def _shown(totals: Mapping[str, Decimal]) -> dict[str, str]:
    return {currency: format_decimal(total) for currency, total in sorted(totals.items())}


def _table(found: CheckedAccounts, imported: Mapping[str, Decimal]) -> Rows:
    printed = table("currency", "the file's total", "imported", right=("the file's total", "imported"))
    for currency, total in _shown(found.totals).items():
        printed.add_row(currency, total, _shown(imported).get(currency, ""))
    return printed
