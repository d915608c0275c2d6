"""`teller export`: accounts and journal as Parquet, by segments of the tables. `teller query`: SQL on such an export.

Each process has a segment of its own. Its rows are written as lines of JSON, which DuckDB turns into Parquet. So
neither is held in memory. DuckDB is imported by these two subcommands alone.
"""

import functools
import glob
import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, as_completed
from contextlib import AbstractContextManager, suppress
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, BinaryIO, NamedTuple

import msgspec
import typer

from ledger.core.accounts import CLOCK_SKEW, LONGEST_POSTING, timestamp
from ledger.core.values import WIDE, format_decimal
from tools.teller.deployment import Deployment
from tools.teller.export_rows import COLUMNS, Row, account_rows, entry_rows, types_of
from tools.teller.failures import Failure, WrongUse
from tools.teller.operator import Operator, subcommand
from tools.teller.places import at_work_on, write_whole
from tools.teller.printed_tables import table
from tools.teller.processes import processes
from tools.teller.progress import progress_bar

SEGMENTS = 64
"""Of each table. After a break those that are whole are kept."""
PART_BYTES = 2**26
"""Of the rows that DuckDB sorts, in memory, as JSON."""
PARQUET = "FORMAT parquet, COMPRESSION zstd, COMPRESSION_LEVEL 1, ROW_GROUP_SIZE 20480"
BANK_AMOUNT = r"\s*[-+]?(\d+\.?\d{0,10}|\.\d{1,10})0*\s*"
"""SQL would round one of more decimals."""
QUERIES = Path(__file__).parent / "queries"
type Items = Callable[[str, int], Iterator[bytes]]
"""The items of a table, `Accounts` or `Journal`, in a segment of it, as DynamoDB's JSON."""


class Segment(msgspec.Struct):
    """A segment that is exported: the numbers of rows by table, of accounts and entries that can't be read, and of
    amounts that are no decimal number of the export; and the sums by currency, of balances or of posted amounts.
    """

    rows: dict[str, int]
    unreadable: int
    inexact: int
    sums: dict[str, str]


class State(msgspec.Struct):
    """How far an export is. It has the entries that were posted before `until`."""

    source: str
    until: str
    has_csv: bool = False
    segments: dict[str, Segment] = {}


Directory = Annotated[Path, typer.Argument(help="Where the export is.", metavar="DIRECTORY", file_okay=False)]


def add_to(app: typer.Typer) -> None:
    subcommand(app)(export)
    subcommand(app)(query)


def export(
    operator: Operator,
    directory: Directory,
    csv: Annotated[bool, typer.Option("--csv", help="Write CSV, too, into DIRECTORY/csv.")] = False,
) -> None:
    """Export the accounts and the journal as Parquet, for SQL and spreadsheets.

    All entries are there that were posted until two minutes before the command began, and none that were posted later.
    The accounts are as they were read. After a break the same command goes on. manifest.json then has the numbers of
    rows, the sums by currency, and the hash of each file.
    """
    names = operator.deployment
    until = timestamp(datetime.now(UTC) - LONGEST_POSTING - CLOCK_SKEW)
    with processes() as executor, progress_bar(operator, "exporting segments", 2 * SEGMENTS) as progress:
        scan = TableScan(names.name, names.endpoint_url, SEGMENTS)
        manifest = export_to(directory, State(names.stack_id, until, csv), scan, progress, executor)
    operator.show(manifest, *(f"{name}: {number:,} rows" for name, number in manifest["rows"].items()))
    if manifest["unreadable"]:
        operator.not_well(f"items that can't be read: {manifest['unreadable']:,}. teller jobs run reconcile_accounts")


class TableScan(NamedTuple):
    """Reads a stack's tables. Another process can be given it, and makes a client of its own."""

    stack: str
    endpoint_url: str | None
    segments: int

    def __call__(self, table_name: str, segment: int) -> Iterator[bytes]:
        client, name = _scanning(self.stack, self.endpoint_url, f"{table_name}TableName")
        pages = client.get_paginator("scan").paginate(
            TableName=name, ConsistentRead=True, Segment=segment, TotalSegments=self.segments
        )
        return (item for page in pages for item in page[ITEMS])


ITEMS = "teller.items"
"""In botocore's answer: the JSON of each item."""


class _Body(msgspec.Struct):
    items: list[msgspec.Raw] = msgspec.field(name="Items")
    key: msgspec.Raw = msgspec.field(name="LastEvaluatedKey", default=msgspec.Raw(b"{}"))


@functools.cache
def _scanning(stack: str, endpoint_url: str | None, output: str) -> tuple[Any, str]:
    """A client, which leaves the items to be read here, and the name of the table."""
    deployment = Deployment(stack, endpoint_url)
    client = deployment.new_client("dynamodb")
    client.meta.events.register("before-parse.dynamodb.Scan", _take_items)
    return client, deployment[output]


def _take_items(response_dict: Any, customized_response_dict: Any, **_: object) -> None:
    """A handler of botocore's event: botocore's own reader takes ten times as long as all the rest of an export."""
    if response_dict["status_code"] == 200:
        body = msgspec.json.decode(response_dict["body"], type=_Body)
        customized_response_dict[ITEMS] = [bytes(item) for item in body.items]
        response_dict["body"] = b'{"LastEvaluatedKey":%b}' % bytes(body.key)


def export_to(
    directory: Path,
    new: State,
    items: Items,
    progress: Callable[[int], None] = lambda _: None,
    executor: Executor | None = None,
) -> dict[str, Any]:
    """The manifest. Raises Failure if the directory has an export of another stack, or one that is done or at work."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Failure(f"{directory} can't have an export: {error}. Name another directory") from None
    with at_work_on(directory, alone=True):
        return _export_rest(directory, new, items, progress, executor)


def _export_rest(
    directory: Path, new: State, items: Items, progress: Callable[[int], None], executor: Executor | None
) -> dict[str, Any]:
    kept = directory / "state.json"
    try:
        if (directory / "manifest.json").exists():
            raise Failure(f"{directory} has a whole export: name another directory")
        state = msgspec.json.decode(kept.read_bytes(), type=State) if kept.exists() else new
    except (OSError, msgspec.DecodeError) as error:
        raise Failure(f"{directory} can't have an export: {error}. Name another directory") from None
    if state.source != new.source:
        raise Failure(f"{directory} has the beginning of an export of another stack, {state.source}")
    every = [f"{table_name}-{number:03}" for table_name in ("accounts", "journal") for number in range(SEGMENTS)]
    progress(len(state.segments))
    missing = [name for name in every if name not in state.segments]
    for name, segment in _segments(missing, executor, directory, state, items):
        state.segments[name] = segment
        write_whole(kept, msgspec.json.encode(state))
        progress(1)
    manifest = _manifest(directory, state)
    write_whole(directory / "manifest.json", json.dumps(manifest, indent=2, sort_keys=True).encode())
    kept.unlink()
    return manifest


def _segments(
    names: list[str], executor: Executor | None, directory: Path, state: State, items: Items
) -> Iterator[tuple[str, Segment]]:
    """Each segment as soon as it is exported."""
    if executor is None:
        yield from ((name, _export(name, directory, state, items)) for name in names)
        return
    futures = {executor.submit(_export, name, directory, state, items): name for name in names}
    yield from ((futures[future], future.result()) for future in as_completed(futures))


def _export(name: str, directory: Path, state: State, items: Items) -> Segment:
    table, _, number = name.partition("-")
    rows_of = account_rows if table == "accounts" else entry_rows
    unreadable, inexact, sums = 0, 0, dict[str, Decimal]()
    with at_work_on(directory, alone=False), _Parts(directory, name, has_csv=state.has_csv) as parts:
        for item in items(table.title(), int(number)):
            try:
                rows, currency, amount = rows_of(item)
            except (KeyError, TypeError, ValueError):
                unreadable += 1
                continue
            if table == "journal" and rows[0][1].posted_at >= state.until:
                continue
            for table_name, row in rows:
                inexact += parts.add(table_name, row).count(b'_decimal":null')
            sums[currency] = WIDE.add(sums[currency], amount) if currency in sums else amount
    totals = {currency: format_decimal(total) for currency, total in sums.items()}
    return Segment(dict(parts.counted), unreadable, inexact, totals)


class _Parts(AbstractContextManager["_Parts"]):
    """A segment's rows by table, as lines of JSON. If they are many, they become a file of Parquet, and of CSV."""

    def __init__(self, directory: Path, name: str, *, has_csv: bool) -> None:
        self.counted = Counter[str]()
        self._directory, self._name, self._has_csv = directory, name, has_csv
        self._encode = msgspec.json.Encoder().encode
        self._paths = {table_name: directory / f"{name}.{table_name}.jsonl" for table_name in COLUMNS}
        self._files, self._bytes, self._number = dict[str, BinaryIO](), 0, 0
        for old in directory.rglob(f"{name}[-.]*"):
            old.unlink()

    def add(self, table_name: str, row: Row) -> bytes:
        """Returns the row's line."""
        line = self._encode(row)
        if table_name not in self._files:
            self._files[table_name] = self._paths[table_name].open("wb")
        self._files[table_name].write(line + b"\n")
        self.counted[table_name] += 1
        self._bytes += len(line)
        if self._bytes > PART_BYTES:
            self._convert()
        return line

    def __exit__(self, kind: object, *_: object) -> None:
        try:
            if kind is None:
                self._convert()
        finally:
            for file in self._files.values():
                with suppress(OSError):  # what its rows are for has failed
                    file.close()

    def _convert(self) -> None:
        for table_name, file in self._files.items():
            file.close()
            _convert(self._paths[table_name], self._directory, f"{self._name}-{self._number}", self._has_csv)
            self._paths[table_name].unlink()
        self._files, self._bytes, self._number = {}, 0, self._number + 1


def _convert(part: Path, directory: Path, name: str, has_csv: bool) -> None:
    """Writes lines of JSON as Parquet, and as CSV. Rows with a day are in the order of their days: so a query of some
    days reads only these.
    """
    table_name = part.suffixes[-2].removeprefix(".")
    types = types_of(table_name)
    columns = ", ".join(f"'{column}': '{kind}'" for column, kind in types.items())
    ordered = " ORDER BY day, account_id, account_version" if "day" in types else ""
    rows = f"SELECT * FROM read_json($part, format = 'newline_delimited', columns = {{{columns}}}){ordered}"
    kinds = {"": ("parquet", PARQUET), **({"csv": ("csv", "FORMAT csv")} if has_csv else {})}
    for folder, (suffix, kind) in kinds.items():
        target = directory / folder / table_name / f"{name}.{suffix}"
        target.parent.mkdir(exist_ok=True, parents=True)
        try:
            _converting().execute(f"COPY ({rows}) TO '{_quoted(target)}' ({kind})", {"part": str(part)})
        except _duckdb().Error as error:
            raise Failure(f"{target} can't be written: {_first_line(error)}") from None


@functools.cache
def _converting() -> Any:
    """DuckDB of a process."""
    return _duckdb().connect(config={"threads": 1, "memory_limit": "1GB"})


def _manifest(directory: Path, state: State) -> dict[str, Any]:
    rows = Counter[str](dict.fromkeys(COLUMNS, 0))
    sums: dict[str, dict[str, Decimal]] = {"accounts": defaultdict(Decimal), "journal": defaultdict(Decimal)}
    for name, segment in state.segments.items():
        rows.update(segment.rows)
        of = sums[name.partition("-")[0]]
        for currency, number in segment.sums.items():
            of[currency] = WIDE.add(of[currency], Decimal(number))
    return {
        "source": state.source,
        "until": state.until,
        "rows": dict(rows),
        "sums": {name: {key: format_decimal(value) for key, value in of.items()} for name, of in sums.items()},
        "unreadable": sum(segment.unreadable for segment in state.segments.values()),
        "inexact": sum(segment.inexact for segment in state.segments.values()),
        "files": {str(path.relative_to(directory)): _hash_of(path) for path in _files(directory)},
    }


def _files(directory: Path) -> list[Path]:
    return sorted(path for path in directory.rglob("*") if path.suffix in (".parquet", ".csv"))


def _hash_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def query(
    operator: Operator,
    name: Annotated[str | None, typer.Argument(help="Of a query. Without it all are listed.", metavar="NAME")] = None,
    directory: Annotated[Path | None, typer.Argument(help="Where the export is.", metavar="DIRECTORY")] = None,
    values: Annotated[
        list[str] | None, typer.Option("--set", help="A parameter of the query: day=2026-11-30.", metavar="NAME=VALUE")
    ] = None,
    bank: Annotated[
        Path | None, typer.Option("--bank", help="A CSV file with the columns reference and amount.", metavar="FILE")
    ] = None,
) -> None:
    """Ask a question of an export, by SQL. The queries are files: docs/reporting.md has what each tells."""
    if name is None or directory is None:
        known = {path.stem: path.read_text().partition("\n")[0].removeprefix("-- ") for path in _queries()}
        operator.show({"queries": known}, *(f"{query_name}: {says}" for query_name, says in known.items()))
        return
    given = dict(map(_parameter, values or []))
    answer = answer_of(name, directory, given, bank)
    rows = [{column: _plain(value) for column, value in row.items()} for row in answer]
    printed = table(*(rows[0] if rows else ["nothing"]))
    for row in rows:
        printed.add_row(*("" if value is None else str(value) for value in row.values()))
    operator.show({"rows": rows}, printed)


def _parameter(text: str) -> tuple[str, str]:
    """Raises WrongUse. Days are compared as texts, so one of another form would be another day."""
    name, sign, value = text.partition("=")
    if not sign:
        raise WrongUse(f"--set {text}: expected NAME=VALUE")
    if name in ("day", "from", "to") and not _is_day(value):
        raise WrongUse(f"--set {text}: expected a day, such as 2026-11-30")
    return name, value


def _is_day(text: str) -> bool:
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


def _queries() -> list[Path]:
    return sorted(QUERIES.glob("*.sql"))


def answer_of(name: str, directory: Path, given: dict[str, str], bank: Path | None = None) -> list[dict[str, Any]]:
    """The rows of a query. Raises WrongUse and Failure."""
    if name not in {path.stem for path in _queries()}:
        raise WrongUse(f"{name}: expected one of {', '.join(path.stem for path in _queries())}")
    try:
        manifest = json.loads((directory / "manifest.json").read_bytes())
        inexact = int(manifest["inexact"])
        rows = {table_name: int(manifest["rows"][table_name]) for table_name in COLUMNS}
    except (OSError, ValueError, KeyError, TypeError):
        raise Failure(f"{directory} has no whole export: teller export {directory}") from None
    if inexact:
        raise Failure(
            f"{inexact:,} amounts have more than 28 digits before the point or 10 after it. SQL can't add"
            " them exactly: use the texts beside them"
        )
    duckdb = _duckdb()
    with duckdb.connect(config={"python_enable_replacements": False}) as database:
        try:
            for table_name, number in rows.items():
                database.execute(f"CREATE VIEW {table_name} AS {_rows_of(directory, table_name, number)}")
        except duckdb.Error as error:
            raise Failure(f"{directory} has no whole export: {_first_line(error)}") from None
        if bank:
            _add_bank(database, bank)
        try:
            database.execute((QUERIES / f"{name}.sql").read_text(), given)
            columns = [each[0] for each in database.description]
            return [dict(zip(columns, row, strict=True)) for row in database.fetchall()]
        except duckdb.CatalogException as error:
            raise WrongUse(f"{name}: {_first_line(error)}" if bank else f"{name}: expected --bank FILE") from None
        except duckdb.Error as error:
            raise WrongUse(f"{name}: {_first_line(error)}") from None


def _add_bank(database: Any, bank: Path) -> None:
    """Makes the table `bank` of the file. Raises WrongUse."""
    file = f"read_csv('{_quoted(bank)}', header = true, all_varchar = true)"
    try:
        database.execute(f"CREATE VIEW bank AS SELECT reference, amount FROM {file}")
        is_amount = f"amount IS NOT NULL AND regexp_full_match(amount, '{BANK_AMOUNT}')"
        database.execute(f"SELECT count(*) FROM bank WHERE reference IS NULL OR NOT ({is_amount})")
        [wrong] = database.fetchone()
    except _duckdb().Error as error:
        raise WrongUse(
            f"{bank}: expected a CSV file with the columns reference and amount: {_first_line(error)}"
        ) from None
    if wrong:
        raise WrongUse(f"{bank}: rows without a reference, or an amount such as -12.50: {wrong:,}")


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]


def _rows_of(directory: Path, table_name: str, number: int) -> str:
    types = types_of(table_name)
    if not number:
        return f"SELECT {', '.join(f'CAST(NULL AS {kind}) AS {name}' for name, kind in types.items())} WHERE false"
    folder = Path(glob.escape(str(directory)), table_name)
    return f"SELECT * FROM read_parquet('{_quoted(folder)}/*.parquet')"


def _quoted(path: Path) -> str:
    return str(path).replace("'", "''")


def _plain(value: Any) -> Any:
    return format_decimal(value) if isinstance(value, Decimal) else value


def _duckdb() -> Any:
    import duckdb  # noqa: PLC0415 (66 MB, for two subcommands)

    return duckdb
