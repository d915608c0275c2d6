"""Files of accounts to import: CSV with a header, or a line of JSON each. Read line by line, in constant memory.

A row has the fields of an `import_account` but its type and its id, which follows from the account and its reference:
a row that is sent twice is imported once.
"""

import csv
import hashlib
import json
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field
from decimal import Decimal
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast

import msgspec
from msgspec.structs import replace

from conditional_writes.core.packing import packed
from ledger.core.decoding import MAXIMUM_BODY_BYTES, sentence_of
from ledger.core.reason_codes import InvalidMessage
from ledger.core.transaction_types import decode_from
from ledger.core.transaction_types.base import Context, Door
from ledger.core.transaction_types.import_account import ImportAccount
from ledger.core.values import WIDE
from tools.teller.message_files import NOT_FOR_SQS, Checked, FileMessage, add_problem
from tools.teller.message_queues import MessageQueue

COLUMNS = {
    each.encode_name: each.required
    for each in msgspec.structs.fields(ImportAccount)
    if each.encode_name != "transaction_id"
}
"""The names of a CSV file's columns, and of the fields in JSON, and whether a file must have them."""
OF_JSON = ("holds", "history", "metadata")
"""Their cells are JSON, as in a message."""
ROWS_AT_ONCE, MOST_PARTS = 2_000, 6
"""A process checks so many rows at once, and so many times as many are in memory."""


class NotReadable(Exception):
    """From this place on the file can't be read."""


class Row(NamedTuple):
    """A line of the file, or a row of several lines: the message's body, or why there is none.

    `end` is the number of bytes of the file up to the end of the row.
    """

    line: int
    end: int
    body: str
    problem: str = ""


class _Lines:
    """The lines of a file from a byte on, as texts, and how far they are read. Raises NotReadable."""

    def __init__(self, file: BinaryIO, start: int, progress: Callable[[bytes], None]) -> None:
        file.seek(start)
        self._file, self._progress = file, progress
        self.number, self.end = 0, start

    def __iter__(self) -> Iterator[str]:
        while line := self._file.readline(MAXIMUM_BODY_BYTES):
            self.number += 1
            self.end += len(line)
            self._progress(line)
            if len(line) == MAXIMUM_BODY_BYTES:
                raise NotReadable(f"expected at most {MAXIMUM_BODY_BYTES:,} bytes")
            try:
                text = line.decode()
            except UnicodeDecodeError as error:
                raise NotReadable(f"expected UTF-8, got the byte {line[error.start]:#04x}") from None
            yield text.removeprefix("\ufeff") if self.end == len(line) else text


def is_csv(file: Path) -> bool:
    return file.suffix.lower() == ".csv"


def rows(
    file: BinaryIO,
    start: int = 0,
    *,
    is_csv: bool,
    from_account_id: str = "",
    progress: Callable[[bytes], None] = lambda _: None,
) -> Iterator[Row]:
    """The rows from a byte on, at which one begins. `progress` is given each line that is read.

    Balances come `from_account_id`, in which `{currency}` stands for their currency, if that isn't empty, and if their
    row doesn't name another account. Raises NotReadable, whose text names the line.
    """
    found = _rows(file, start, is_csv, progress)
    return (_from(row, from_account_id) for row in found) if from_account_id else found


def _from(row: Row, account_id: str) -> Row:
    try:
        message = message_of(row)
        if message.from_account_id is None and message.balance:
            message = replace(message, from_account_id=account_id.replace("{currency}", message.currency))
            return row._replace(body=json.dumps(message.canonical_payload()))
    except (InvalidMessage, ValueError):
        pass  # whoever checks the row says so
    return row


def _rows(file: BinaryIO, start: int, is_csv: bool, progress: Callable[[bytes], None]) -> Iterator[Row]:
    header = _header(file) if is_csv else []
    lines = _Lines(file, start, progress)
    try:
        yield from _csv_rows(lines, header, start) if is_csv else _json_rows(lines)
    except (NotReadable, csv.Error) as error:
        raise NotReadable(f"line {lines.number:,}: {why_unreadable(error)}") from None


def messages_from(file: BinaryIO, start: int, *, is_csv: bool, from_account_id: str = "") -> Iterator[FileMessage]:
    """The messages of a checked file from that byte on."""
    for row in rows(file, start, is_csv=is_csv, from_account_id=from_account_id):
        yield FileMessage(MessageQueue.ADMINISTRATION, row.body, row.end)


def _json_rows(lines: _Lines) -> Iterator[Row]:
    for line in lines:
        if text := line.strip():
            try:
                named = _ids_decoder.decode(text)
            except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
                yield Row(lines.number, lines.end, "", _why_no_object(error))
                continue
            first = json.dumps({"type": "import_account", "transaction_id": transaction_id_of(named)})
            yield Row(lines.number, lines.end, f"{first[:-1]},{text[1:]}")


def _csv_rows(lines: _Lines, header: list[str], start: int) -> Iterator[Row]:
    reader, first = csv.reader(iter(_ended(lines)), strict=True), 1
    for cells in reader:
        number, first = first, lines.number + 1
        if cells and not (number == 1 and start == 0):
            try:
                yield Row(number, lines.end, _body_of(header, cells))
            except InvalidMessage as error:
                yield Row(number, lines.end, "", str(error))


def _ended(lines: _Lines) -> Iterator[str]:
    """The lines. The last one has its end, too: a number that is cut off is a number."""
    for line in lines:
        if not line.endswith("\n"):
            raise NotReadable("expected a line break at its end: the file may be cut off here")
        yield line


def _header(file: BinaryIO) -> list[str]:
    try:
        names = next(csv.reader(iter(_Lines(file, 0, lambda _: None)), strict=True), [])
    except (NotReadable, csv.Error) as error:
        raise NotReadable(f"line 1: {why_unreadable(error)}") from None
    wrong = [name for name in names if name not in COLUMNS or names.count(name) > 1]
    missing = [name for name, required in COLUMNS.items() if required and name not in names]
    if wrong:
        raise NotReadable(f"line 1: {wrong[0][:40]!r} is no column, or is there twice: expected {', '.join(COLUMNS)}")
    if missing:
        raise NotReadable(f"line 1: expected a header with the columns {', '.join(missing)}, too")
    return names


def why_unreadable(error: NotReadable | csv.Error) -> str:
    """Python's reader of CSV asks programmers about a carriage return alone."""
    if str(error).startswith("new-line character"):
        return "expected lines that end with a line feed, got a carriage return outside of quotes"
    return str(error)


def _body_of(header: list[str], cells: list[str]) -> str:
    """Raises InvalidMessage. An empty cell is absent."""
    if len(cells) != len(header):
        raise InvalidMessage(f"{len(cells)} cells, expected {len(header)}, as many as the header has")
    given: dict[str, Any] = {name: cell for name, cell in zip(header, cells, strict=True) if cell}
    for name in OF_JSON:
        if name in given:
            try:
                msgspec.json.decode(given[name], type=dict[str, Any])
            except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
                raise InvalidMessage(f"{name}: expected an object in JSON; {error}") from None
            given[name] = msgspec.Raw(given[name].encode())
    named = _Ids(given.get("account_id", ""), given.get("source_reference", ""))
    fields = {"type": "import_account", "transaction_id": transaction_id_of(named), **given}
    return msgspec.json.encode(fields).decode()


class _Ids(msgspec.Struct):
    """What the id is made of. A field that is missing is found later, with the others."""

    account_id: str
    source_reference: str


_ids_decoder = msgspec.json.Decoder(_Ids)


def transaction_id_of(named: _Ids) -> str:
    digest = hashlib.sha256(msgspec.json.encode([named.account_id, named.source_reference]))
    return f"import-{digest.hexdigest()[:32]}"


def _why_no_object(error: Exception) -> str:
    return sentence_of(error) if isinstance(error, msgspec.ValidationError) else f"expected an object in JSON; {error}"


@dataclass
class CheckedAccounts(Checked):
    """`totals` has the sum of the balances by currency."""

    totals: dict[str, Decimal] = field(default_factory=lambda: defaultdict(Decimal))

    @property
    def accounts(self) -> int:
        return self.messages.total()


def checked(
    path: Path,
    minor_units: Callable[[str], int | None],
    progress: Callable[[int], None] = lambda _: None,
    executor: Executor | None = None,
) -> CheckedAccounts:
    """Checks each row of the file as the function will, and that no account is there twice.

    The executor's processes check thousands of rows at once. The order of what is found is that of the rows.
    """
    found, content, seen = CheckedAccounts(), hashlib.sha256(), set[bytes]()

    def read(line: bytes) -> None:
        content.update(line)
        found.bytes += len(line)
        progress(len(line))

    with path.open("rb") as file:
        readable = _Readable(rows(file, is_csv=is_csv(path), progress=read))
        parts = packed(readable, lambda row: len(row.body), ROWS_AT_ONCE, 2**20)
        for row in chain.from_iterable(_in_order(partial(_checked_part, minor_units), parts, executor)):
            key = hashlib.blake2b(row.account_id.encode(), digest_size=16).digest()
            problem = row.problem
            if not problem and key in seen:
                problem = f"account_id: {row.account_id!r} is in the file before"
            if problem:
                add_problem(found, f"line {row.line:,}: {problem}")
                continue
            seen.add(key)
            found.messages[MessageQueue.ADMINISTRATION] += 1
            found.totals[row.currency] = WIDE.add(found.totals[row.currency], row.balance)
    if readable.problem:
        add_problem(found, f"{readable.problem}. The rest of the file wasn't checked")
    found.sha256 = content.hexdigest()
    return found


def message_of(row: Row) -> ImportAccount:
    """Raises InvalidMessage."""
    if row.problem:
        raise InvalidMessage(row.problem)
    return cast("ImportAccount", decode_from(Door.ADMINISTRATION, row.body))


class _Readable:
    """The rows until the file can't be read: then `problem` says why."""

    def __init__(self, found: Iterator[Row]) -> None:
        self._found, self.problem = found, ""

    def __iter__(self) -> Iterator[Row]:
        try:
            yield from self._found
        except NotReadable as error:
            self.problem = str(error)


class _CheckedRow(NamedTuple):
    """`problem` says what is wrong with it; empty if nothing is."""

    line: int
    problem: str
    account_id: str = ""
    currency: str = ""
    balance: Decimal = Decimal(0)


def _checked_part(minor_units: Callable[[str], int | None], part: Sequence[Row]) -> list[_CheckedRow]:
    context = Context(minor_units=minor_units)
    return [_checked_row(row, context) for row in part]


def _checked_row(row: Row, context: Context) -> _CheckedRow:
    try:
        message = message_of(row)
        problem = "SQS takes no characters U+FFFE and U+FFFF" if NOT_FOR_SQS.search(row.body) else ""
        if not problem:
            message.decide([None], context)  # refuses an amount with more decimals than its currency has
    except InvalidMessage as error:
        return _CheckedRow(row.line, str(error))
    return _CheckedRow(row.line, problem, message.account_id, message.currency, message.balance)


def _in_order[Part, Result](
    work: Callable[[Part], Result], parts: Iterable[Part], executor: Executor | None
) -> Iterator[Result]:
    """The results of the parts, few of which are in memory at once."""
    if executor is None:
        yield from map(work, parts)
        return
    waiting = deque[Future[Result]]()
    for part in parts:
        waiting.append(executor.submit(work, part))
        if len(waiting) == MOST_PARTS:
            yield waiting.popleft().result()
    yield from (each.result() for each in waiting)


def differences(expected: Mapping[str, Decimal], found: Mapping[str, Decimal]) -> list[str]:
    """A sentence for each currency in which the two differ."""
    return [
        f"{currency}: expected {expected.get(currency, 'none')}, got {found.get(currency, 'none')}"
        for currency in sorted(expected.keys() | found.keys())
        if expected.get(currency) != found.get(currency)
    ]
