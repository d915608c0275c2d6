"""Files of accounts to import: what is refused, with its line, before anything is sent; and where a sending goes on."""

import csv
import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from ledger.core.currencies import MINOR_UNITS
from ledger.core.transaction_types import decode
from tests.support.samples import IMPORTED
from tools.teller import account_files, importing
from tools.teller.account_files import CheckedAccounts, checked, is_csv, messages_from
from tools.teller.failures import WrongUse

HEADER = "account_id,currency,balance,overdraft_limit,source_reference,as_of,holds,description"
ROW = "acc-1,EUR,12.50,-500,core/1,2026-11-19T23:00:00Z,,"
OTHER = "acc-2,USD,-3,,core/2,2026-11-19T23:00:00Z,,"


def check(directory: Path, content: str | bytes, name: str = "accounts.csv") -> CheckedAccounts:
    path = directory / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    found = checked(path, MINOR_UNITS.get)
    assert found.bytes == path.stat().st_size or found.wrong
    return found


@pytest.mark.parametrize("begins", ["", "\ufeff"])
@pytest.mark.parametrize("ends", ["\n", "\r\n"])
def test_the_balances_are_summed_by_currency(tmp_path: Path, begins: str, ends: str) -> None:
    third = ROW.replace("acc-1", "acc-3").replace("12.50", '"0.01"')
    found = check(tmp_path, begins + "".join(line + ends for line in (HEADER, ROW, "", OTHER, third)))
    assert (found.accounts, found.wrong, found.problems) == (3, 0, [])
    assert {currency: str(total) for currency, total in found.totals.items()} == {"EUR": "12.51", "USD": "-3"}


def test_a_row_of_csv_and_a_line_of_json_are_one_message_with_an_id_of_its_own(tmp_path: Path) -> None:
    fields = {"account_id": "acc-1"} | IMPORTED | {"description": 'said "a,\nb"'}
    with (tmp_path / "a.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, [*fields, "metadata"])
        writer.writeheader()
        writer.writerow(fields | {"holds": json.dumps(IMPORTED["holds"])})
    (tmp_path / "a.jsonl").write_text(json.dumps(fields))
    [one], [other] = (messages_of(tmp_path / name) for name in ("a.csv", "a.jsonl"))
    assert decode(one) == decode(other)
    assert decode(one).transaction_id.startswith("import-")


def messages_of(path: Path, from_account_id: str = "") -> Sequence[str]:
    with path.open("rb") as file:
        found = messages_from(file, 0, is_csv=is_csv(path), from_account_id=from_account_id)
        return [message.body for message in found]


def test_a_balance_comes_from_the_account_of_its_currency_unless_its_row_names_another(tmp_path: Path) -> None:
    path = tmp_path / "accounts.csv"
    empty = ROW.replace("acc-1", "acc-3").replace("12.50", "0")
    lines = [f"{HEADER},from_account_id", f"{ROW},", f"{OTHER},lost", f"{empty},"]
    path.write_text("\n".join([*lines, ""]))
    messages = [decode(body) for body in messages_of(path, "imports-{currency}")]
    assert [message.from_account_id for message in messages] == ["imports-EUR", "lost", None]
    ours, theirs = messages[::2], [decode(body) for body in messages_of(path)[::2]]
    assert [replace(message, from_account_id=None) for message in ours] == theirs


WRONG = {
    "a row twice": (f"{ROW}\n{OTHER}\n{ROW}\n", "line 4: account_id: 'acc-1' is in the file before"),
    "another spelling": (ROW.replace("12.50", "12,50"), "line 2: 9 cells, expected 8"),
    "a comma for a point": (ROW.replace("12.50", '"12,50"'), "line 2: balance: expected a decimal number"),
    "too many decimals": (ROW.replace("12.50", "12.505"), "line 2: balance: 3 decimals, expected at most 2"),
    "a limit above zero": (ROW.replace("-500", "500"), "line 2: overdraft_limit: expected zero or less"),
    "an id that can't be seen": (ROW.replace("acc-1", "acc\u200b1"), "line 2: account_id: U+200B"),
    "no time zone": (ROW.replace("00Z", "00"), "line 2: as_of: "),
    "no reference": (ROW.replace("core/1", ""), "line 2: body: object missing required field `source_reference`"),
    "fields in a cell": (ROW[:-1] + '"{}, ""balance"": 9",', "line 2: holds: expected an object in JSON"),
    "a hold of nothing": (ROW[:-1] + '"{""h"": {""amount"": 0}}",', "line 2: holds: h: amount: expected a number"),
    "an open quote": (f'{OTHER}\n"{ROW}\n{OTHER}\n', "line 4: unexpected end of data"),
    "a quote within": ('"acc"-1,EUR,1,,r,2026-11-19T23:00:00Z,,\n', "line 2: ',' expected after '\"'"),
    "a cell of a megabyte": ("x" * 1_000_000, "line 2: expected at most 131,072 bytes"),
    "another encoding": (ROW.encode() + "é".encode("latin-1"), "line 2: expected UTF-8, got the byte 0xe9"),
    "NUL": (ROW.replace("acc-1", "\0"), "line 2: account_id: U+0000 at character 1"),
    "cut off in its last row": (f"{ROW}\n{OTHER[:9]}", "line 3: expected a line break at its end"),
}


@pytest.mark.parametrize(("content", "sentence"), WRONG.values(), ids=WRONG)
def test_a_wrong_row_is_refused_with_its_line_and_why(tmp_path: Path, content: str | bytes, sentence: str) -> None:
    content = content if isinstance(content, bytes) else content.encode()
    ended = content if content.endswith(b"\n") or b"acc-2,USD" in content else content + b"\n"
    found = check(tmp_path, f"{HEADER}\n".encode() + ended)
    assert found.wrong == 1
    assert found.problems[0].startswith(sentence)


def test_processes_find_the_same_in_the_same_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(account_files, "ROWS_AT_ONCE", 3)
    rows = [ROW.replace("acc-1", f"acc-{n % 90}").replace("12.50", f"{n}.{'5' * (n % 40 // 13)}1") for n in range(100)]
    path = tmp_path / "accounts.csv"
    path.write_text("\n".join([HEADER, *rows, '"acc"-1']))
    with ThreadPoolExecutor(4) as executor:
        found = checked(path, MINOR_UNITS.get, executor=executor)
    assert found == checked(path, MINOR_UNITS.get)
    assert found.accounts + found.wrong == len(rows) + 1
    assert [problem.partition(":")[0] for problem in found.problems] == [f"line {n:,}" for n in range(28, 38)]


@pytest.mark.parametrize(
    ("header", "sentence"),
    [
        ("account_id,currency", "line 1: expected a header with the columns balance, source_reference, as_of, too"),
        (f"{HEADER},iban", "line 1: 'iban' is no column"),
        (f"{HEADER},currency", "line 1: 'currency' is no column, or is there twice"),
        ("", "line 1: expected a header"),
        ("account_id\rcurrency", "line 1: expected lines that end with a line feed"),
        ("\udcff", "line 1: expected UTF-8, got the byte 0xff"),
    ],
)
def test_a_header_of_other_columns_is_refused(tmp_path: Path, header: str, sentence: str) -> None:
    found = check(tmp_path, f"{header}\n{ROW}\n".encode(errors="surrogateescape"))
    assert (found.accounts, found.wrong) == (0, 1)
    assert found.problems[0].startswith(sentence)


def test_a_sum_that_no_number_can_be_is_refused() -> None:
    with pytest.raises(WrongUse, match="no sum is so large"):
        importing._totals(f"EUR=1e{'9' * 20}")


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("[1]", "line 1: body: expected `object`, got `array`"),
        ('{"account_id": "a"', "line 1: expected an object in JSON"),
        ('{"account_id": "a", "source_reference": "r", "type": "open_account"}', "line 1: type: expected it once"),
        ('{"account_id": "a", "source_reference": "r", "transaction_id": "t"}', "line 1: "),
    ],
)
def test_a_line_of_json_has_neither_a_type_nor_an_id(tmp_path: Path, line: str, sentence: str) -> None:
    found = check(tmp_path, line, "accounts.jsonl")
    assert found.wrong == 1
    assert found.problems[0].startswith(sentence)


def test_it_pauses_while_messages_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """First of payments, then of its own."""
    looks: list[Any] = [(1_001, 0), (0, 10_001), (1_000, 10_000)]
    pauses: list[float] = []
    monkeypatch.setattr(importing.time, "sleep", lambda seconds: (pauses.append(seconds), looks.pop(0)))

    class Count:
        def __init__(self, _: object, output: str) -> None:
            self.waiting = looks[0][output.startswith("Administration")]

    monkeypatch.setattr(importing, "counts_of", Count)
    importing._wait_for_room(None)
    assert len(pauses) == 2
