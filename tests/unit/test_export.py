"""The export, and each of its queries against an answer that is computed from the journal's entries."""

import csv
import errno
import itertools
import json
import os
import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import duckdb
import pytest
from msgspec.structs import replace

from conditional_writes.core.items import to_dynamodb
from ledger.core.accounts import account_item
from ledger.core.journal import JournalEntry, entry_item
from ledger.core.reason_codes import NotYet
from tests.checkers.books import Books
from tests.checkers.small_books import post_messages
from tests.support.faults import Killed
from tests.support.samples import hold, importing, interest, opening, payment, posting, rate, reversing, transfer
from tools.teller import exporting
from tools.teller.exporting import QUERIES, State, answer_of, export_to, query
from tools.teller.failures import Failure, WrongUse
from tools.teller.places import at_work_on

UNTIL = "2026-06-01T00:00:00.000+00:00"
ALL = {"from": "2026-01-01", "to": "2026-12-31"}
SOME = {"from": "2026-02-01", "to": "2026-03-31"}
ACCOUNTS = "abcdefgh"
SEGMENTS = 2


def day_of(number: int) -> str:
    return f"2026-{1 + number // 80:02}-{1 + number % 80 // 40:02}"


def random_books() -> Books:
    """Some hundred entries of eight accounts in two currencies, over five months."""
    chance, books = random.Random(37), Books({}, {})
    messages: list[Any] = [opening(-500, "CHF" if name in "gh" else "EUR", account_id=name) for name in ACCOUNTS[:-1]]
    messages += [importing(-600, -500, "CHF", account_id="h", holds={"fuel": {"amount": 2}})]
    messages += [importing(1, 0, "EUR", "import-again", "a", from_account_id="b")]
    messages += [rate("0.9", "rate", name) for name in ACCOUNTS]
    for number in range(10, 410):
        name, other = chance.sample(ACCOUNTS, 2)
        amount = str(Decimal(chance.randrange(1, 40_000)).scaleb(-2))
        metadata = {"channel": chance.choice(["app", "branch"])} if chance.random() < 0.3 else None
        messages.append(
            chance.choice([
                payment(amount, None, f"t-{number}", name, metadata=metadata),
                payment(f"-{amount}", None, f"t-{number}", name),
                transfer(amount, f"t-{number}", name, other),
                hold(amount, f"t-{number}", name),
                posting(None, f"t-{number}", f"t-{number - chance.randrange(1, 9)}", name),
                reversing(f"t-{number - chance.randrange(1, 9)}", None, f"t-{number}", name),
                interest(transaction_id=f"t-{number}", account_id=name, to_account_id=chance.choice([None, other])),
            ])
        )  # fmt: skip
    for message in messages:
        try:
            books = post_messages(books, [message])
        except (NotYet, ValueError):
            continue
    return books


class Exported(NamedTuple):
    directory: Path
    manifest: dict[str, Any]
    books: Books
    entries: list[JournalEntry]


def items_of(books: Books, entries: list[JournalEntry]) -> Callable[[str, int], Iterator[bytes]]:
    items = {"Accounts": [*map(account_item, books.accounts.values())], "Journal": [*map(entry_item, entries)]}
    return lambda table, segment: (json.dumps(to_dynamodb(each)).encode() for each in items[table][segment::SEGMENTS])


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Exported:
    """Killed once in the middle of a segment, and gone on."""
    books, directory = random_books(), tmp_path_factory.mktemp("export")
    numbers: Mapping[str, Iterator[int]] = defaultdict(itertools.count)
    timed = []
    for number, entry in enumerate(books.entries):
        at = f"{day_of(number % 400)}T12:00:00.{next(numbers[entry.account_id]) % 1000:03}+00:00"
        timed.append(replace(entry, outcome=replace(entry.outcome, posted_at=at)))
    late = replace(timed[-1], outcome=replace(timed[-1].outcome, posted_at=UNTIL))
    items, calls = items_of(books, [*timed[:-1], late]), itertools.count()

    def killed(table: str, segment: int) -> Iterator[bytes]:
        for item in items(table, segment):
            if next(calls) == 150:
                raise Killed
            yield item

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exporting, "SEGMENTS", SEGMENTS)
        patch.setattr(exporting, "PART_BYTES", 30_000)
        with pytest.raises(Killed):
            export_to(directory, State("a stack", UNTIL, has_csv=True), killed)
        with pytest.raises(Failure, match="of another stack"):
            export_to(directory, State("another", UNTIL), items)
        manifest = export_to(directory, State("a stack", "later"), items)
    assert not list(directory.glob("*.jsonl"))
    return Exported(directory, manifest, books, timed[:-1])


def test_the_manifest_has_the_numbers_the_sums_and_the_hashes(exported: Exported) -> None:
    sums: dict[str, Decimal] = defaultdict(Decimal)
    for entry in exported.entries:
        sums[entry.outcome.currency] += entry.outcome.amount
    manifest, rows = exported.manifest, exported.manifest["rows"]
    assert {currency: Decimal(total) for currency, total in manifest["sums"]["journal"].items()} == sums
    assert (rows["accounts"], rows["journal"]) == (len(exported.books.accounts), len(exported.entries))
    assert rows["journal"] > 200
    assert rows["holds"] == sum(len(account.open_holds) for account in exported.books.accounts.values())
    assert (manifest["unreadable"], manifest["inexact"], manifest["until"]) == (0, 0, UNTIL)
    paths = exported.directory.rglob("*-?.*")
    assert set(manifest["files"]) == {str(path.relative_to(exported.directory)) for path in paths}
    assert json.loads((exported.directory / "manifest.json").read_text()) == manifest


def small_export(directory: Path, items: exporting.Items | None = None) -> dict[str, Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exporting, "SEGMENTS", 1)
        return export_to(directory, State("a stack", UNTIL), items or (lambda *_: iter([])))


def test_two_commands_do_not_export_into_a_directory_at_once_nor_what_a_killed_one_left(tmp_path: Path) -> None:
    def another(*_: object) -> Iterator[bytes]:
        with pytest.raises(Failure, match=r"another command is at work on"):
            small_export(tmp_path)
        yield from ()

    with at_work_on(tmp_path, alone=False), pytest.raises(Failure, match="another command is at work on"):
        small_export(tmp_path)
    assert small_export(tmp_path, another)["rows"]["accounts"] == 0


@pytest.mark.parametrize("name", ["state.json", "manifest.json"])
def test_an_export_whose_disk_is_full_while_it_writes_a_file_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    replace_by = Path.replace

    def full(path: Path, target: Path) -> Path:
        if target.name == name:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return replace_by(path, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", full)
        with pytest.raises(OSError, match="No space"):
            small_export(tmp_path)
    assert small_export(tmp_path)["rows"]["accounts"] == 0


def test_a_disk_that_is_full_for_duckdb_is_a_sentence(tmp_path: Path) -> None:
    account = json.dumps(to_dynamodb(account_item(next(iter(random_books().accounts.values()))))).encode()

    def items(*_: object) -> Iterator[bytes]:
        (tmp_path / "accounts" / "accounts-000-0.parquet").mkdir(parents=True)
        yield account

    with pytest.raises(Failure, match=r"accounts-000-0\.parquet can't be written: "):
        small_export(tmp_path, items)


def test_the_csv_files_have_the_same_rows(exported: Exported) -> None:
    files = (exported.directory / "csv" / "journal").iterdir()
    found = [row for path in files for row in csv.DictReader(path.read_text().splitlines())]
    of_entries = {
        (e.account_id, str(e.outcome.account_version), f"{e.outcome.amount:f}", e.outcome.rejecting_account_id or "")
        for e in exported.entries
    }
    columns = ("account_id", "account_version", "amount", "rejecting_account_id")
    assert {tuple(row[column] for column in columns) for row in found} == of_entries
    assert len(found) == len(of_entries)
    assert any(rejecting for *_, rejecting in of_entries)


def test_a_file_has_the_rows_in_the_order_of_their_days(exported: Exported) -> None:
    files = [*(exported.directory / "journal").iterdir()]
    assert len(files) > 2 * SEGMENTS
    with duckdb.connect() as database:
        for file in files:
            days = database.execute(f"SELECT day FROM read_parquet('{file}')").fetchall()
            assert days == sorted(days)


def between(exported: Exported, of: Mapping[str, str] = ALL) -> list[JournalEntry]:
    return [entry for entry in exported.entries if of["from"] <= entry.outcome.posted_at[:10] <= of["to"]]


def grouped(rows: Iterable[Any], key: Callable[[Any], Any]) -> list[tuple[Any, list[Any]]]:
    groups = defaultdict(list)
    for row in rows:
        groups[key(row)].append(row)
    return sorted(groups.items())


def moved(entries: Iterable[JournalEntry]) -> list[Decimal]:
    amounts = [entry.outcome.amount for entry in entries if entry.request["type"] != "import_account"]
    return [amount for amount in amounts if amount]


def sides(amounts: list[Decimal]) -> tuple[Decimal, Decimal]:
    return sum((max(each, Decimal(0)) for each in amounts), Decimal(0)), sum(min(each, Decimal(0)) for each in amounts)


def trial_balance(exported: Exported) -> list[tuple[Any, ...]]:
    entries = sorted(between(exported, {"from": "", "to": "2026-02-01"}), key=lambda each: each.outcome.account_version)
    last = {each.account_id: (each.outcome.currency, each.outcome.balance_after) for each in entries}.values()
    found = [(currency, [amount for _, amount in each]) for currency, each in grouped(last, lambda each: each[0])]
    return [(currency, len(each), sum(each), *reversed(sides(each))) for currency, each in found]


def turnover(exported: Exported) -> list[tuple[Any, ...]]:
    accounts = grouped(between(exported, SOME), lambda each: (each.account_id, each.outcome.currency))
    return [(*key, *sides(moved(each)), len(moved(each))) for key, each in accounts if moved(each)]


def balances(exported: Exported) -> list[tuple[Any, ...]]:
    return [
        (*key, len(each), sum(a.balance for a in each), sum(a.held for a in each), sum(a.available < 0 for a in each))
        for key, each in grouped(exported.books.accounts.values(), lambda each: (each.currency, str(each.status)))
    ]


def above(exported: Exported) -> list[tuple[Any, ...]]:
    euros = [entry for entry in between(exported, SOME) if entry.outcome.currency == "EUR"]
    found = [entry for entry in euros if abs(entry.outcome.amount) >= 200]
    found.sort(key=lambda e: (-abs(e.outcome.amount), e.account_id, e.outcome.account_version))
    return [(e.account_id, e.outcome.account_version, e.transaction_id, f"{e.outcome.amount:f}") for e in found]


def open_holds(exported: Exported) -> list[tuple[Any, ...]]:
    placed = {(e.account_id, e.transaction_id): e.outcome.posted_at for e in exported.entries}
    found = [
        (account_id, hold_id, f"{each.remaining:f}", each.expires_at, placed.get((account_id, hold_id)))
        for account_id, account in exported.books.accounts.items()
        for hold_id, each in account.open_holds.items()
    ]
    return sorted(found, key=lambda row: (row[-1] or "", *row[:2]))


def rejections(exported: Exported) -> list[tuple[Any, ...]]:
    found = [each for each in between(exported, SOME) if each.outcome.reason]
    return [
        (*key, sum(e.account_id == e.home_account_id for e in each), len({e.account_id for e in each}))
        for key, each in grouped(found, lambda each: (each.outcome.posted_at[:10], each.outcome.reason))
    ]


def by_metadata(exported: Exported) -> list[tuple[Any, ...]]:
    found = [e for e in exported.entries if e.request.get("metadata") == {"channel": "branch"}]
    return sorted((e.account_id, e.outcome.account_version, e.transaction_id) for e in found)


def largest_movers(exported: Exported) -> list[tuple[Any, ...]]:
    euros = [each for each in between(exported, SOME) if each.outcome.currency == "EUR"]
    changes = [(name, sum(moved(each))) for name, each in grouped(euros, lambda each: each.account_id)]
    return sorted((each for each in changes if each[1]), key=lambda each: (-abs(each[1]), each[0]))[:20]


def unposted_imports(exported: Exported) -> list[tuple[Any, ...]]:
    return [
        (e.account_id, e.outcome.account_version, e.transaction_id, "core/1", e.outcome.reason)
        for e in exported.entries
        if e.request["type"] == "import_account" and e.outcome.reason and e.account_id == "a"
    ]


def interest_charged(exported: Exported) -> list[tuple[Any, ...]]:
    charged = [
        each
        for each in exported.entries
        if each.request["type"] == "charge_interest" and each.outcome.amount
        if each.account_id == each.request["account_id"]
    ]
    months = grouped(charged, lambda each: (each.outcome.posted_at[:7], each.outcome.currency))
    return [(*key, -sum(e.outcome.amount for e in each), len({e.account_id for e in each})) for key, each in months]


def year_of_account(exported: Exported) -> list[tuple[Any, ...]]:
    entries = sorted(exported.entries, key=lambda each: each.outcome.account_version)
    months = grouped([each for each in entries if each.account_id == "h"], lambda each: each.outcome.posted_at[:7])
    return [(month, *sides(moved(each)), f"{each[-1].outcome.balance_after:f}") for month, each in months]


def reconciliation(exported: Exported) -> list[tuple[Any, ...]]:
    """The file has a transaction less, one more, one with another amount, and one twice."""
    moved = [e for e in exported.entries if e.account_id == "b" and e.outcome.amount]
    rows = {e.transaction_id: e.outcome.amount for e in moved}
    less, other, twice = list(rows)[2:5]
    in_file = {name: amount for name, amount in rows.items() if name != less}
    in_file |= {other: Decimal("0.01"), "x": Decimal(3)}
    lines = [f"{name},{amount:f}" for name, amount in [*in_file.items(), (twice, rows[twice])]]
    (exported.directory / "bank.csv").write_text("\n".join(["reference,amount", *lines, ""]))
    wrong = {less: (None, rows[less]), other: (Decimal("0.01"), rows[other]), "x": (Decimal(3), None)}
    wrong[twice] = 2 * rows[twice], rows[twice]
    return [(name, *amounts) for name, amounts in sorted(wrong.items())]


EXPECTED: dict[str, tuple[Callable[[Exported], list[tuple[Any, ...]]], dict[str, str]]] = {
    "trial_balance": (trial_balance, {"day": "2026-02-01"}),
    "turnover": (turnover, SOME),
    "balances": (balances, {}),
    "above": (above, SOME | {"amount": "200", "currency": "EUR"}),
    "open_holds": (open_holds, {}),
    "rejections": (rejections, SOME),
    "by_metadata": (by_metadata, {"key": "channel", "value": "branch"}),
    "largest_movers": (largest_movers, SOME | {"currency": "EUR"}),
    "unposted_imports": (unposted_imports, {}),
    "interest": (interest_charged, ALL),
    "year_of_account": (year_of_account, {"account_id": "h", "year": "2026"}),
    "reconciliation": (reconciliation, ALL | {"account_id": "b"}),
}
WITHOUT = {"above": {"day", "posted_at", "type"}, "by_metadata": {"posted_at", "status", "amount"}}
WITHOUT["unposted_imports"] = {"posted_at"}
"""Columns that are those of the entry that is named."""


@pytest.mark.parametrize("name", [path.stem for path in sorted(QUERIES.glob("*.sql"))])
def test_a_query_gives_what_the_entries_give(exported: Exported, name: str) -> None:
    of_entries, given = EXPECTED[name]
    expected = of_entries(exported)
    bank = exported.directory / "bank.csv"
    found = answer_of(name, exported.directory, given, bank if name == "reconciliation" else None)
    without = WITHOUT.get(name, set())
    assert [tuple(v for column, v in row.items() if column not in without) for row in found] == expected
    assert expected, "the books have something to tell"


def test_a_pool_has_no_limit_that_sql_could_not_add(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exporting, "SEGMENTS", SEGMENTS)
    books = post_messages(Books({}, {}), [replace(opening(0), shards=Decimal(2))])
    directory = tmp_path / "the bank's [2026] *"
    assert export_to(directory, State("a stack", UNTIL), items_of(books, []))["inexact"] == 0
    [row] = answer_of("balances", directory, {})
    assert (row["accounts"], row["below_limit"]) == (1, 0)


@pytest.mark.parametrize(
    ("table", "changes"),
    [
        ("Accounts", {"version": {"N": "1E+125"}}),
        ("Accounts", {"decimal_places": {"N": "1E+20"}}),
        ("Journal", {"account_version": {"N": "9" * 38}}),
        ("Journal", {"request": {"M": {"transaction_id": {"S": "t"}, "metadata": {"S": "text"}}}}),
    ],
)
def test_a_damaged_item_is_counted_and_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, table: str, changes: dict[str, Any]
) -> None:
    monkeypatch.setattr(exporting, "SEGMENTS", SEGMENTS)
    books = post_messages(Books({}, {}), [opening(0)])
    items = items_of(books, list(books.entries))

    def damaged(name: str, segment: int) -> Iterator[bytes]:
        more = changes if name == table else {}
        return (json.dumps(json.loads(item) | more).encode() for item in items(name, segment))

    manifest = export_to(tmp_path, State("a stack", UNTIL), damaged)
    assert (manifest["unreadable"], manifest["rows"]["accounts"] + manifest["rows"]["journal"]) == (1, 1)


@pytest.mark.parametrize("content", ["junk", "[]", "{}", '{"inexact": 0, "rows": {"accounts": 1}}'])
def test_another_programs_manifest_or_state_is_no_export(tmp_path: Path, content: str) -> None:
    (tmp_path / "manifest.json").write_text(content)
    with pytest.raises(Failure, match="has no whole export"):
        answer_of("balances", tmp_path, {})
    (tmp_path / "manifest.json").rename(tmp_path / "state.json")
    with pytest.raises(Failure, match="can't have an export"):
        export_to(tmp_path, State("a stack", UNTIL), items_of(Books({}, {}), []))


def test_a_file_of_the_export_that_is_gone_is_said(exported: Exported, tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text(json.dumps(exported.manifest))
    with pytest.raises(Failure, match="has no whole export: IO Error: No files found"):
        answer_of("balances", tmp_path, {})


def refused(exported: Exported, bank: Path | None) -> str:
    with pytest.raises(WrongUse) as raised:
        answer_of("reconciliation", exported.directory, ALL | {"account_id": "b"}, bank)
    return raised.value.reason


@pytest.mark.parametrize("content", ["", "ref,amount\nx,1\n", "reference,amount\nx,1,2\n", None])
def test_a_banks_file_of_other_columns_is_refused(exported: Exported, tmp_path: Path, content: str | None) -> None:
    bank = tmp_path / "bank.csv"
    if content is not None:
        bank.write_text(content)
    sentence = f"{bank}: expected a CSV file with the columns reference and amount"
    assert refused(exported, bank).startswith(sentence)


def test_a_row_of_a_banks_file_without_an_amount_is_refused_with_a_sentence(exported: Exported, tmp_path: Path) -> None:
    bank = tmp_path / "bank.csv"
    bank.write_text("reference,amount\nt-unknown,\nt-1,5\n,5\n")
    assert refused(exported, bank) == f"{bank}: rows without a reference, or an amount such as -12.50: 2"
    bank.write_text("reference,amount\nt-1,1.00000000004\nt-2,1e-11\nt-3,five\nt-4, +1.500000000000\nt-5,.5\nt-6,7.\n")
    assert refused(exported, bank).endswith(": 3")
    assert refused(exported, None) == "reconciliation: expected --bank FILE"


@pytest.mark.parametrize("text", ["day", "day=", "day=2026-2-1", "from=01.02.2026", "to=20260201", "day=2026-02-30"])
def test_a_day_of_another_form_would_be_another_day(text: str) -> None:
    with pytest.raises(WrongUse, match=f"--set {text}: expected"):
        query(SimpleNamespace(), "trial_balance", Path(), [text])


def test_an_amount_that_sql_can_not_add_exactly_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exporting, "SEGMENTS", SEGMENTS)
    books = post_messages(Books({}, {}), [opening(0, "XTS"), payment("0.00000000001", None, "t-1")])
    assert export_to(tmp_path, State("a stack", UNTIL), items_of(books, list(books.entries)))["inexact"] == 3
    with pytest.raises(Failure, match="3 amounts have more than 28 digits"):
        answer_of("balances", tmp_path, {})
