"""`teller export`: accounts and journal as Parquet, by segments of the tables. `teller query`: SQL on such an export.

A segment's rows are written as lines of JSON, which DuckDB turns into Parquet. So neither is held in memory. DuckDB is
imported by these two subcommands alone.
"""

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from conditional_writes.core.items import from_dynamodb
from ledger.core.accounts import CLOCK_SKEW, LONGEST_POSTING, timestamp
from ledger.core.money import WIDE, format_decimal
from tools.teller.export_rows import COLUMNS, account_rows, entry_rows, spelled, types_of
from tools.teller.failures import Failure, WrongUse
from tools.teller.operator import Operator, subcommand
from tools.teller.printed_tables import table
from tools.teller.progress import progress_bar

SEGMENTS = 64
"""Of each table. After a break those that are whole are kept."""
QUERIES = Path(__file__).parent / "queries"
type Items = Callable[[str, int], Iterator[dict[str, Any]]]
"""The items of a table, `Accounts` or `Journal`, in a segment of it."""


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
    segments: dict[str, Segment] = {}


Directory = Annotated[Path, typer.Argument(help="Where the export is.", metavar="DIRECTORY", file_okay=False)]


def add_to(app: typer.Typer) -> None:
    subcommand(app)(export)
    subcommand(app)(query)


def export(operator: Operator, directory: Directory) -> None:
    """Export the accounts and the journal as Parquet, for SQL and spreadsheets.

    All entries are there that were posted until two minutes before the command began, and none that were posted later.
    The accounts are as they were read. After a break the same command goes on. manifest.json then has the numbers of
    rows, the sums by currency, and the hash of each file.
    """
    client, names = operator.deployment.new_client("dynamodb"), operator.deployment

    def items(table_name: str, segment: int) -> Iterator[dict[str, Any]]:
        pages = client.get_paginator("scan").paginate(
            TableName=names[f"{table_name}TableName"], ConsistentRead=True, Segment=segment, TotalSegments=SEGMENTS
        )
        return (from_dynamodb(item) for page in pages for item in page["Items"])

    until = timestamp(datetime.now(UTC) - LONGEST_POSTING - CLOCK_SKEW)
    with progress_bar(operator, "exporting segments", 2 * SEGMENTS) as progress:
        manifest = export_to(directory, names.stack_id, until, items, progress)
    operator.show(manifest, *(f"{name}: {number:,} rows" for name, number in manifest["rows"].items()))
    if manifest["unreadable"]:
        operator.not_well(f"items that can't be read: {manifest['unreadable']:,}. teller jobs run reconcile_accounts")


def export_to(
    directory: Path, source: str, until: str, items: Items, progress: Callable[[int], None] = lambda _: None
) -> dict[str, Any]:
    """The manifest. Raises Failure if the directory has an export of another stack, or one that is done."""
    directory.mkdir(parents=True, exist_ok=True)
    if (directory / "manifest.json").exists():
        raise Failure(f"{directory} has a whole export: name another directory")
    kept = directory / "state.json"
    state = msgspec.json.decode(kept.read_bytes(), type=State) if kept.exists() else State(source, until)
    if state.source != source:
        raise Failure(f"{directory} has the beginning of an export of another stack, {state.source}")
    for table_name in ("Accounts", "Journal"):
        for number in range(SEGMENTS):
            name = f"{table_name.lower()}-{number:03}"
            if name not in state.segments:
                state.segments[name] = _write(directory, name, items(table_name, number), state.until)
                new = directory / "state.json.new"
                new.write_bytes(msgspec.json.encode(state))
                new.replace(kept)
            progress(1)
    manifest = _manifest(directory, state)
    (directory / "manifest.json").write_text(json.dumps(manifest, indent=2, sort_keys=True))
    kept.unlink()
    return manifest


def _write(directory: Path, name: str, items: Iterator[dict[str, Any]], until: str) -> Segment:
    rows_of = account_rows if name.startswith("accounts") else entry_rows
    rows, unreadable, inexact = Counter[str](), 0, 0
    sums: dict[str, Decimal] = defaultdict(Decimal)
    parts = {table_name: directory / f"{name}.{table_name}.jsonl" for table_name in COLUMNS}
    files = {table_name: part.open("wb") for table_name, part in parts.items()}
    try:
        for item in items:
            try:
                found = list(rows_of(item))
            except (KeyError, TypeError, ValueError):
                unreadable += 1
                continue
            if rows_of is entry_rows and found[0][1]["posted_at"] >= until:
                continue
            for table_name, row in found:
                written = spelled(row)
                inexact += sum(value is None for column, value in written.items() if column.endswith("_decimal"))
                files[table_name].write(msgspec.json.encode(written) + b"\n")
                rows[table_name] += 1
            first = found[0][1]
            amount = first["balance"] if rows_of is account_rows else first["amount"]
            sums[first["currency"]] = WIDE.add(sums[first["currency"]], amount)
    finally:
        for file in files.values():
            file.close()
    for table_name, part in parts.items():
        for old in (directory / table_name).rglob(f"{name}-*"):
            old.unlink()
        if rows[table_name]:
            _to_parquet(part, directory / table_name, name, table_name)
        part.unlink()
    return Segment(dict(rows), unreadable, inexact, {key: format_decimal(value) for key, value in sums.items()})


def _to_parquet(part: Path, folder: Path, name: str, table_name: str) -> None:
    types = types_of(table_name)
    columns = ", ".join(f"'{column}': '{kind}'" for column, kind in types.items())
    by_day = ", PARTITION_BY (day), OVERWRITE_OR_IGNORE" if "day" in types else ""
    target = folder if by_day else folder / f"{name}-0.parquet"
    pattern = f", FILENAME_PATTERN '{name}-{{i}}'" if by_day else ""
    folder.mkdir(exist_ok=True)
    with _duckdb().connect() as database:
        database.execute(
            "SET threads = 1; SET memory_limit = '200MB'; SET preserve_insertion_order = false;"
            " SET partitioned_write_max_open_files = 32; SET partitioned_write_flush_threshold = 20000"
        )
        database.execute(
            f"COPY (SELECT * FROM read_json($part, format = 'newline_delimited', columns = {{{columns}}}))"
            f" TO '{_quoted(target)}' (FORMAT parquet, COMPRESSION zstd{by_day}{pattern})",
            {"part": str(part)},
        )


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
        "files": {str(path.relative_to(directory)): _hash_of(path) for path in sorted(directory.rglob("*.parquet"))},
    }


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
    given = dict(value.partition("=")[::2] for value in values or [])
    answer = answer_of(name, directory, given, bank)
    rows = [{column: _plain(value) for column, value in row.items()} for row in answer]
    printed = table(*(rows[0] if rows else ["nothing"]))
    for row in rows:
        printed.add_row(*("" if value is None else str(value) for value in row.values()))
    operator.show({"rows": rows}, printed)


def _queries() -> list[Path]:
    return sorted(QUERIES.glob("*.sql"))


def answer_of(name: str, directory: Path, given: dict[str, str], bank: Path | None = None) -> list[dict[str, Any]]:
    """The rows of a query. Raises WrongUse and Failure."""
    if name not in {path.stem for path in _queries()}:
        raise WrongUse(f"{name}: expected one of {', '.join(path.stem for path in _queries())}")
    try:
        manifest = json.loads((directory / "manifest.json").read_bytes())
    except OSError:
        raise Failure(f"{directory} has no whole export: teller export {directory}") from None
    if manifest["inexact"]:
        raise Failure(
            f"{manifest['inexact']:,} amounts have more than 28 digits before the point or 10 after it. SQL can't add"
            " them exactly: use the texts beside them"
        )
    duckdb = _duckdb()
    with duckdb.connect() as database:
        for table_name in COLUMNS:
            database.execute(f"CREATE VIEW {table_name} AS {_rows_of(directory, table_name, manifest)}")
        if bank:
            database.execute(
                f"CREATE VIEW bank AS SELECT reference, amount FROM read_csv('{_quoted(bank)}', all_varchar = true)"
            )
        try:
            database.execute((QUERIES / f"{name}.sql").read_text(), given)
            columns = [each[0] for each in database.description]
            return [dict(zip(columns, row, strict=True)) for row in database.fetchall()]
        except duckdb.Error as error:
            raise WrongUse(f"{name}: {error}") from None


def _rows_of(directory: Path, table_name: str, manifest: dict[str, Any]) -> str:
    types = types_of(table_name)
    if not manifest["rows"][table_name]:
        return f"SELECT {', '.join(f'CAST(NULL AS {kind}) AS {name}' for name, kind in types.items())} WHERE false"
    files = _quoted(directory / table_name / ("*/*.parquet" if "day" in types else "*.parquet"))
    partitions = ", hive_partitioning = true, hive_types = {'day': VARCHAR}" if "day" in types else ""
    return f"SELECT * FROM read_parquet('{files}'{partitions})"


def _quoted(path: Path) -> str:
    return str(path).replace("'", "''")


def _plain(value: Any) -> Any:
    return format_decimal(value) if isinstance(value, Decimal) else value


def _duckdb() -> Any:
    import duckdb  # noqa: PLC0415 (66 MB, for two subcommands)

    return duckdb
