"""`teller import --history`: files of historic entries for DynamoDB's import into a new table. Made offline.

The rows are split by accounts into buckets, and each process makes the entries of a bucket: so memory depends neither
on the number of rows nor on that of accounts. An account's rows are in the order of their times.
"""

import csv
import functools
import gzip
import hashlib
import json
import math
import shutil
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, as_completed
from contextlib import ExitStack
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from ledger.core.accounts import time_of, timestamp
from ledger.core.decoding import TELLERS_OWN, check_id, check_names, sentence_of
from ledger.core.journal import FORMAT, seal_of_form
from ledger.core.reason_codes import InvalidMessage
from ledger.core.rules import RULES, Status
from ledger.core.transaction_types import HISTORIC
from ledger.core.transaction_types.historic_transaction import HistoricTransaction
from ledger.core.transaction_types.import_account import History
from ledger.core.values import EXACT, JSON_NUMBER, format_decimal, normalized
from tools.teller.account_files import NotReadable, is_csv, message_of, rows
from tools.teller.failures import Failure
from tools.teller.message_files import MOST_SENTENCES

COLUMNS = {
    "account_id": True,
    "transaction_id": True,
    "amount": True,
    "posted_at": True,
    "balance_after": False,
    "description": False,
    "metadata": False,
}
"""Of the CSV file with the history, and whether it must have them."""
BUCKETS, BUCKET_BYTES, MOST_BUCKETS = 64, 2**26, 400
"""As many buckets as files that DynamoDB imports. A process has one bucket's rows as ids in memory."""
SENT_BY = "teller import --history"
POSTED = str(Status.POSTED)


class HistoricRow(msgspec.Struct, array_like=True, gc=False):
    """A row, as a bucket has it. An empty text is absent."""

    line: int
    account_id: str
    transaction_id: str
    amount: str
    posted_at: str
    balance_after: str = ""
    description: str = ""
    metadata: str = ""


class AccountRow(msgspec.Struct, array_like=True):
    """A row of the file of accounts, as a bucket has it. `fields` is the row as JSON."""

    line: int
    account_id: str
    currency: str
    balance: Decimal
    fields: str


class Made(NamedTuple):
    """What was made of a bucket: the number of entries, and of accounts with a history, and what is wrong with it."""

    entries: int
    accounts: int
    wrong: int
    problems: list[tuple[int, str]]


def number_of_buckets(history: Path) -> int:
    return min(MOST_BUCKETS, max(BUCKETS, math.ceil(history.stat().st_size / BUCKET_BYTES)))


def make(
    accounts: Path,
    history: Path,
    directory: Path,
    progress: Callable[[int], None] = lambda _: None,
    executor: Executor | None = None,
) -> dict[str, Any]:
    """Makes the files in the directory. Returns its manifest, which is written last. Raises Failure.

    `progress` is told of each bucket that is made.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Failure(f"{directory} can't be made: {error.strerror}") from None
    if any(directory.iterdir()):
        raise Failure(f"{directory} isn't empty: name another directory")
    number = number_of_buckets(history)
    buckets = directory / "buckets"
    for folder in (buckets, directory / "journal"):
        folder.mkdir()
    now = timestamp(datetime.now(UTC))
    try:
        _split(_account_rows(accounts), buckets, "accounts", number)
        _split(_historic_rows(history), buckets, "history", number)
        found = list(_made(directory, number, history.name, now, progress, executor))
        _check(history, found)
        with (directory / "accounts.jsonl").open("wb") as together:
            for bucket in range(number):
                with (buckets / f"{bucket:05}.jsonl").open("rb") as part:
                    shutil.copyfileobj(part, together)
    except (NotReadable, Failure) as error:
        shutil.rmtree(directory)
        raise error if isinstance(error, Failure) else Failure(str(error)) from None
    shutil.rmtree(buckets)
    files = sorted(path for path in directory.rglob("*") if path.is_file())
    manifest = {
        "entries": sum(each.entries for each in found),
        "accounts": sum(each.accounts for each in found),
        "files": {str(path.relative_to(directory)): _hash_of(path) for path in files},
    }
    (directory / "manifest.json").write_text(json.dumps(manifest, indent=2))
    return manifest


def _check(history: Path, found: list[Made]) -> None:
    """Raises Failure if anything is wrong."""
    if wrong := sum(each.wrong for each in found):
        problems = sorted(problem for each in found for problem in each.problems)[:MOST_SENTENCES]
        more = [f"and {wrong - len(problems):,} more"] if wrong > len(problems) else []
        raise Failure(f"{history}: wrong rows: {wrong:,}", details=[*(text for _, text in problems), *more])


def _hash_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _split(found: Iterator[AccountRow | HistoricRow], buckets: Path, name: str, number: int) -> None:
    encode = msgspec.json.Encoder().encode
    with ExitStack() as stack:
        files = [stack.enter_context((buckets / f"{each:05}.{name}").open("wb")) for each in range(number)]
        for row in found:
            files[zlib.crc32(row.account_id.encode()) % number].write(encode(row) + b"\n")


def _account_rows(path: Path) -> Iterator[AccountRow]:
    """Raises Failure for a row that is no account: `teller import --dry-run` names all of them."""
    with path.open("rb") as file:
        try:
            for row in rows(file, is_csv=is_csv(path)):
                try:
                    message = message_of(row)
                except InvalidMessage as error:
                    raise Failure(f"{path}: line {row.line:,}: {error}") from None
                yield AccountRow(row.line, message.account_id, message.currency, message.balance, row.body)
        except NotReadable as error:
            raise NotReadable(f"{path}: {error}") from None


def _historic_rows(path: Path) -> Iterator[HistoricRow]:
    """Raises NotReadable, whose text names the line."""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - 1))
        if file.read() != b"\n":
            raise NotReadable(f"{path}: expected a line break at its end: the file may be cut off there")
    with path.open(encoding="utf-8-sig", errors="surrogateescape", newline="") as text:
        reader = csv.reader(map(_in_utf_8, text), strict=True)
        try:
            yield from _rows_of(reader)
        except (NotReadable, csv.Error) as error:
            raise NotReadable(f"{path}: line {max(1, reader.line_num):,}: {error}") from None
        except UnicodeEncodeError as error:
            byte = f"{ord(error.object[error.start]) - 0xDC00:#04x}"
            raise NotReadable(f"{path}: line {reader.line_num + 1:,}: expected UTF-8, got the byte {byte}") from None


def _in_utf_8(line: str) -> str:
    """The line. Raises UnicodeEncodeError for a byte that was escaped when the line was decoded."""
    if not line.isascii():
        line.encode()
    return line


def _rows_of(reader: Any) -> Iterator[HistoricRow]:
    header: list[str] = next(reader, [])
    wrong = [name for name in header if name not in COLUMNS or header.count(name) > 1]
    if wrong or any(required and name not in header for name, required in COLUMNS.items()):
        raise NotReadable(f"expected a header of {', '.join(COLUMNS)}, got {', '.join(header)[:200]}")
    pick = itemgetter(*(header.index(name) if name in header else -1 for name in COLUMNS))  # -1: the empty text below
    last = 1
    for cells in reader:
        line, last = last + 1, reader.line_num
        if not cells:
            continue
        if len(cells) != len(header):
            raise NotReadable(f"{len(cells)} cells, expected {len(header)}, as many as the header has")
        yield HistoricRow(line, *pick([*cells, ""]))


def _made(
    directory: Path,
    number: int,
    name: str,
    now: str,
    progress: Callable[[int], None],
    executor: Executor | None,
) -> Iterator[Made]:
    make_one = functools.partial(_make_bucket, directory, name, now)
    if executor is None:
        results: Iterator[Made] = map(make_one, range(number))
    else:
        results = (made.result() for made in as_completed(executor.submit(make_one, each) for each in range(number)))
    for made in results:
        progress(1)
        yield made


class _Account(msgspec.Struct):
    """An account of a bucket, as its rows so far leave it. `ids` are those of its transactions."""

    row: AccountRow
    version: int = 0
    balance: Decimal = Decimal(0)
    posted_at: str = ""
    seal: str = ""
    ids: set[str] = msgspec.field(default_factory=set)


class _Bucket:
    """The accounts of a bucket, and what is wrong with their rows. `name` is that of the file of the history."""

    def __init__(self, name: str, now: str) -> None:
        self.name, self.now = name, now
        self.accounts = dict[str, _Account]()
        self.wrong, self.problems = 0, list[tuple[int, str]]()
        self._wrong = set[str]()

    def add_problem(self, line: int, problem: str) -> None:
        self.wrong += 1
        if len(self.problems) < MOST_SENTENCES:
            self.problems.append((line, f"line {line:,}: {problem}"))

    def add_account(self, row: AccountRow) -> None:
        if row.account_id in self.accounts:
            self.add_problem(row.line, f"of the accounts: account_id: {row.account_id!r} is in the file before")
        self.accounts[row.account_id] = _Account(row)

    def add_entry(self, row: HistoricRow) -> bytes | None:
        """The item of the account's next row, as DynamoDB's JSON; None if that or a row before is wrong.

        Only the first wrong row of an account is named.
        """
        if row.account_id in self._wrong:
            return None
        try:
            return _item(row, self.accounts.get(row.account_id), self.name, self.now)
        except InvalidMessage as error:
            self.add_problem(row.line, str(error))
        self._wrong.add(row.account_id)
        return None

    def end(self, account: _Account) -> dict[str, Any]:
        """The account's row for the import, with the end of its history."""
        row = account.row
        if account.version and account.balance != row.balance and row.account_id not in self._wrong:
            balances = f"{format_decimal(row.balance)}, its history ends with {format_decimal(account.balance)}"
            self.add_problem(row.line, f"of the accounts: balance: {row.account_id!r} has {balances}")
        fields: dict[str, Any] = msgspec.json.decode(row.fields, type=dict[str, msgspec.Raw])
        del fields["type"], fields["transaction_id"]
        return fields | ({"history": History(str(account.version), account.seal)} if account.version else {})


def _make_bucket(directory: Path, name: str, now: str, number: int) -> Made:
    part = directory / "buckets" / f"{number:05}"
    bucket, entries = _Bucket(name, now), 0
    for row in _lines(part.with_suffix(".accounts"), AccountRow):
        bucket.add_account(row)
    encode = msgspec.json.Encoder().encode
    with gzip.GzipFile(directory / "journal" / f"{number:05}.json.gz", "wb", compresslevel=1, mtime=0) as file:
        for historic in _lines(part.with_suffix(".history"), HistoricRow):
            if item := bucket.add_entry(historic):
                file.write(item)
                entries += 1
    with part.with_suffix(".jsonl").open("wb") as out:
        for account in bucket.accounts.values():
            out.write(encode(bucket.end(account)) + b"\n")
    if not entries:
        (directory / "journal" / f"{number:05}.json.gz").unlink()
    accounts = sum(account.version > 0 for account in bucket.accounts.values())
    return Made(entries, accounts, bucket.wrong, bucket.problems)


def _lines[Line](path: Path, kind: type[Line]) -> Iterator[Line]:
    decode = msgspec.json.Decoder(kind).decode
    with path.open("rb") as file:
        yield from map(decode, file)


def _item(row: HistoricRow, account: _Account | None, name: str, now: str) -> bytes:
    """The item of the account's next row, as DynamoDB's JSON. Raises InvalidMessage.

    It is `entry_item`, sealed as `seal_of` does. Both are written here as texts: the library's way takes ten times as
    long.
    """
    if account is None:
        raise InvalidMessage(f"account_id: {row.account_id!r} isn't in the file of accounts")
    message = _message_of(row, account.row.currency)
    at = _posted_at(row.posted_at)
    if not account.posted_at <= at <= now:
        after = f"not before {account.posted_at}, the time of the row before, and not" if account.posted_at else "not"
        raise InvalidMessage(f"posted_at: expected a time {after} after now, got {row.posted_at}")
    try:
        balance = normalized(EXACT.add(account.balance, message.amount))
    except ArithmeticError:
        raise InvalidMessage("amount: the balance would need more than 38 digits") from None
    if row.balance_after and not _is_spelling_of(balance, row.balance_after):
        raise InvalidMessage(f"balance_after: expected {format_decimal(balance)}, got {row.balance_after}")
    if row.transaction_id in account.ids:
        raise InvalidMessage(f"transaction_id: {row.transaction_id!r} is in the file before")
    account.ids.add(row.transaction_id)
    account.version, account.balance, account.posted_at = account.version + 1, balance, at
    amount, balance_after = f'"{format_decimal(message.amount)}"', f'"{format_decimal(balance)}"'
    account_id, transaction_id, currency = _json(row.account_id), _json(row.transaction_id), f'"{message.currency}"'
    sent_by, message_id = f'"{SENT_BY}"', _json(f"{name}, line {row.line}")
    sealed_texts = item_texts = ""
    if message.description:
        description = _json(message.description)
        sealed_texts = f'"description":{description},'
        item_texts = f'"description":{{"S":{description}}},'
    if message.metadata:
        sealed_texts += f'"metadata":{_json(message.metadata)},'
        item_texts += f'"metadata":{{"M":{_json({key: {"S": text} for key, text in message.metadata.items()})}}},'
    form = (
        f'{{"account_id":{account_id},"account_version":{account.version},"amount":{amount},'
        f'"balance_after":{balance_after},"currency":{currency},"held_after":"0","home_account_id":{account_id},'
        f'"posted_at":"{at}","request":{{"account_id":{account_id},"amount":{amount},"currency":{currency},'
        f'{sealed_texts}"transaction_id":{transaction_id},"type":"{HISTORIC}"}},"rules":{RULES},'
        f'"sent":{{"message_id":{message_id},"sent_at":"{at}","sent_by":{sent_by}}},"status":"{POSTED}",'
        f'"transaction_id":{transaction_id}}}'
    )
    account.seal = seal_of_form(account.seal, form.encode())
    return (
        f'{{"Item":{{"account_id":{{"S":{account_id}}},"transaction_id":{{"S":{transaction_id}}},'
        f'"format":{{"N":"{FORMAT}"}},"rules":{{"N":"{RULES}"}},"request":{{"M":{{"account_id":{{"S":{account_id}}},'
        f'"amount":{{"S":{amount}}},"currency":{{"S":{currency}}},{item_texts}'
        f'"transaction_id":{{"S":{transaction_id}}},"type":{{"S":"{HISTORIC}"}}}}}},"sent":{{"M":{{'
        f'"sent_by":{{"S":{sent_by}}},"message_id":{{"S":{message_id}}},"sent_at":{{"S":"{at}"}}}}}},'
        f'"seal":{{"S":"{account.seal}"}},"status":{{"S":"{POSTED}"}},"amount":{{"N":{amount}}},'
        f'"balance_after":{{"N":{balance_after}}},"currency":{{"S":{currency}}},'
        f'"account_version":{{"N":"{account.version}"}},"posted_at":{{"S":"{at}"}}}}}}\n'
    ).encode()


def _json(value: object) -> str:
    return _encode(value).decode()


_encode = msgspec.json.Encoder(order="sorted").encode


def _is_spelling_of(number: Decimal, text: str) -> bool:
    try:
        return bool(JSON_NUMBER.fullmatch(text)) and Decimal(text) == number
    except InvalidOperation:
        return False  # its exponent is beyond any number's


def _message_of(row: HistoricRow, currency: str) -> HistoricTransaction:
    check_id("transaction_id", row.transaction_id)
    if row.transaction_id.startswith(TELLERS_OWN):
        raise InvalidMessage(f"transaction_id: only Teller's own begin with {TELLERS_OWN}")
    if not JSON_NUMBER.fullmatch(row.amount):
        raise InvalidMessage(f'amount: expected a decimal number, such as "12.50", got {row.amount!r}')
    fields: dict[str, Any] = {
        "transaction_id": row.transaction_id,
        "account_id": row.account_id,
        "currency": currency,
        "amount": row.amount,
    }
    if row.description:
        fields["description"] = row.description
    try:
        if row.metadata:
            fields["metadata"] = msgspec.json.decode(row.metadata)
            check_names(row.metadata)
        return msgspec.convert(fields, HistoricTransaction)
    except msgspec.ValidationError as error:
        raise InvalidMessage(sentence_of(error)) from None
    except (msgspec.DecodeError, RecursionError) as error:
        raise InvalidMessage(f"metadata: expected an object in JSON; {error}") from None


def _posted_at(text: str) -> str:
    time = time_of(text)
    if time is None:
        raise InvalidMessage(
            f'posted_at: expected an ISO 8601 time with its offset, such as "2026-02-28T12:00:00Z", got {text!r}'
        )
    try:
        return timestamp(time)
    except OverflowError:
        raise InvalidMessage("posted_at: expected a time between the years 1 and 9999 in UTC") from None
