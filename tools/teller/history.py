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
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from ledger.core.accounts import time_of, timestamp
from ledger.core.decoding import TELLERS_OWN, check_id, sentence_of
from ledger.core.journal import FORMAT, JournalEntry, Outcome, Sender, Sent, seal_of
from ledger.core.reason_codes import InvalidMessage
from ledger.core.rules import RULES, Status
from ledger.core.transaction_types.historic_transaction import HistoricTransaction
from ledger.core.transaction_types.import_account import History
from ledger.core.values import EXACT, format_decimal, is_json_number, normalized
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
    directory.mkdir(parents=True, exist_ok=True)
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
        for row in rows(file, is_csv=is_csv(path)):
            try:
                message = message_of(row)
            except InvalidMessage as error:
                raise Failure(f"{path}: line {row.line:,}: {error}") from None
            yield AccountRow(row.line, message.account_id, message.currency, message.balance, row.body)


def _historic_rows(path: Path) -> Iterator[HistoricRow]:
    """Raises NotReadable, whose text names the line."""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - 1))
        if file.read() != b"\n":
            raise NotReadable(f"{path}: expected a line break at its end: the file may be cut off there")
    with path.open(encoding="utf-8-sig", newline="") as text:
        reader = csv.reader(text, strict=True)
        try:
            yield from _rows_of(reader)
        except (NotReadable, csv.Error, UnicodeDecodeError) as error:
            raise NotReadable(f"{path}: line {max(1, reader.line_num):,}: {error}") from None


def _rows_of(reader: Any) -> Iterator[HistoricRow]:
    header: list[str] = next(reader, [])
    wrong = [name for name in header if name not in COLUMNS or header.count(name) > 1]
    if wrong or any(required and name not in header for name, required in COLUMNS.items()):
        raise NotReadable(f"expected a header of {', '.join(COLUMNS)}, got {', '.join(header)[:200]}")
    places = [header.index(name) if name in header else None for name in COLUMNS]
    last = 1
    for cells in reader:
        line, last = last + 1, reader.line_num
        if not cells:
            continue
        if len(cells) != len(header):
            raise NotReadable(f"{len(cells)} cells, expected {len(header)}, as many as the header has")
        yield HistoricRow(line, *("" if place is None else cells[place] for place in places))


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
    """An account of a bucket, as its rows so far leave it."""

    row: AccountRow
    version: int = 0
    balance: Decimal = Decimal(0)
    posted_at: str = ""
    seal: str = ""


class _Bucket:
    """The accounts of a bucket, and what is wrong with their rows. `name` is that of the file of the history."""

    def __init__(self, name: str, now: str) -> None:
        self.name, self.now = name, now
        self.accounts = dict[str, _Account]()
        self.wrong, self.problems = 0, list[tuple[int, str]]()
        self._ids, self._wrong = set[bytes](), set[str]()

    def add_problem(self, line: int, problem: str) -> None:
        self.wrong += 1
        if len(self.problems) < MOST_SENTENCES:
            self.problems.append((line, f"line {line:,}: {problem}"))

    def add_account(self, row: AccountRow) -> None:
        if row.account_id in self.accounts:
            self.add_problem(row.line, f"of the accounts: account_id: {row.account_id!r} is in the file before")
        self.accounts[row.account_id] = _Account(row)

    def add_entry(self, row: HistoricRow) -> JournalEntry | None:
        """The entry of the account's next row; None if that or a row before is wrong. Only the first one is named."""
        if row.account_id in self._wrong:
            return None
        key = hashlib.blake2b(f"{row.account_id}\0{row.transaction_id}".encode(), digest_size=16).digest()
        try:
            entry = _entry(row, self.accounts.get(row.account_id), self.name, self.now)
            if key not in self._ids:
                self._ids.add(key)
                return entry
            self.add_problem(row.line, f"transaction_id: {row.transaction_id!r} is in the file before")
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
            if entry := bucket.add_entry(historic):
                file.write(encode({"Item": _item(entry)}) + b"\n")
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


def _entry(row: HistoricRow, account: _Account | None, name: str, now: str) -> JournalEntry:
    """The entry of the account's next row. Raises InvalidMessage."""
    if account is None:
        raise InvalidMessage(f"account_id: {row.account_id!r} isn't in the file of accounts")
    message = _message_of(row, account.row.currency)
    posted_at = _posted_at(row.posted_at)
    if not account.posted_at <= posted_at <= now:
        after = f"not before {account.posted_at}, the time of the row before, and not" if account.posted_at else "not"
        raise InvalidMessage(f"posted_at: expected a time {after} after now, got {row.posted_at}")
    try:
        balance = normalized(EXACT.add(account.balance, message.amount))
    except ArithmeticError:
        raise InvalidMessage("amount: the balance would need more than 38 digits") from None
    if row.balance_after and (not is_json_number(row.balance_after) or Decimal(row.balance_after) != balance):
        raise InvalidMessage(f"balance_after: expected {format_decimal(balance)}, got {row.balance_after}")
    account.version, account.balance, account.posted_at = account.version + 1, balance, posted_at
    currency = account.row.currency
    outcome = Outcome(POSTED, None, message.amount, balance, account.version, posted_at, currency)
    sender = Sender(Sent(SENT_BY, f"{name}, line {row.line}", posted_at))
    request = message.canonical_payload()
    entry = JournalEntry(row.account_id, row.account_id, row.transaction_id, request, outcome, sender, RULES)
    account.seal = seal_of(account.seal, entry)
    return replace(entry, seal=account.seal)


def _message_of(row: HistoricRow, currency: str) -> HistoricTransaction:
    check_id("transaction_id", row.transaction_id)
    if row.transaction_id.startswith(TELLERS_OWN):
        raise InvalidMessage(f"transaction_id: only Teller's own begin with {TELLERS_OWN}")
    if not is_json_number(row.amount):
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
        return msgspec.convert(fields, HistoricTransaction)
    except msgspec.ValidationError as error:
        raise InvalidMessage(sentence_of(error)) from None
    except msgspec.DecodeError as error:
        raise InvalidMessage(f"metadata: expected an object in JSON; {error}") from None


def _posted_at(text: str) -> str:
    time = time_of(text)
    if time is None:
        raise InvalidMessage(
            f'posted_at: expected an ISO 8601 time with its offset, such as "2026-02-28T12:00:00Z", got {text!r}'
        )
    return timestamp(time)


def _item(entry: JournalEntry) -> dict[str, Any]:
    """The item of an entry that was made here, as DynamoDB's JSON. The library's way takes ten times as long."""
    outcome, sent = entry.outcome, entry.sender.sent
    return {
        "account_id": {"S": entry.account_id},
        "transaction_id": {"S": entry.transaction_id},
        "format": {"N": str(FORMAT)},
        "rules": {"N": str(entry.rules)},
        "request": {"M": _texts(entry.request)},
        "sent": {
            "M": {"sent_by": {"S": sent.sent_by}, "message_id": {"S": sent.message_id}, "sent_at": {"S": sent.sent_at}}
        },
        "seal": {"S": entry.seal},
        "status": {"S": outcome.status},
        "amount": {"N": format_decimal(outcome.amount)},
        "balance_after": {"N": format_decimal(outcome.balance_after)},
        "currency": {"S": outcome.currency},
        "account_version": {"N": str(outcome.account_version)},
        "posted_at": {"S": outcome.posted_at},
    }


def _texts(request: dict[str, Any]) -> dict[str, Any]:
    """All values of a historic transaction's request are texts, but for its metadata: a map of texts."""
    return {name: {"S": each} if type(each) is str else {"M": _texts(each)} for name, each in request.items()}
