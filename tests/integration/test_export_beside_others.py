"""An export while others post: it has the entries of before its time, each once."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from duckdb import connect

from tests.support.bodies import openings, payment, transfer
from tests.support.ledger import YEAR_2020, Ledger
from tools.local_aws.server import Endpoint
from tools.teller import exporting
from tools.teller.exporting import State, TableScan, export_to

NAMES = [f"account-{number}" for number in range(8)]
UNTIL = "2021-01-01T00:00:00.000+00:00"


def test_an_export_beside_others_is_complete_up_to_its_time(
    aws: Endpoint, dynamodb: Endpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = Ledger(aws, dynamodb)
    for number in range(40):
        one, other = NAMES[number % 8], NAMES[(number * 3 + 1) % 8]
        body = payment(f"t-{number}", 10, one) if one == other else transfer(f"t-{number}", 1, one, other)
        ledger.post_at(YEAR_2020 + timedelta(hours=number), *(openings(*NAMES, limit=-100) if not number else ()), body)
    before, tables = ledger.books, {"Accounts": ledger.tables.accounts, "Journal": ledger.tables.journal}
    client = dynamodb.client("dynamodb")
    client.meta.events.register("before-parse.dynamodb.Scan", exporting._take_items)
    monkeypatch.setattr(
        exporting, "_scanning", lambda _, __, output: (client, tables[output.removesuffix("TableName")])
    )
    monkeypatch.setattr(exporting, "SEGMENTS", 4)

    def items(table_name: str, segment: int) -> Iterator[bytes]:
        for number, item in enumerate(TableScan("any", None, 4)(table_name, segment)):
            ledger.post(payment(f"{table_name}-{segment}-{number}", 1, NAMES[number % 8]))
            yield item

    manifest = export_to(tmp_path, State("a stack", UNTIL), items)
    after = ledger.books
    assert manifest["rows"]["journal"] == len(before.entries) < len(after.entries) - 40
    with connect() as database:
        columns = "account_id, account_version, transaction_id, amount, balance_after, seal"
        rows = database.execute(f"SELECT {columns} FROM read_parquet('{tmp_path}/journal/*.parquet')").fetchall()
    expected = [
        (e.account_id, e.outcome.account_version, e.transaction_id, f"{e.outcome.amount:f}") for e in before.entries
    ]
    assert sorted(row[:4] for row in rows) == sorted(expected)
    last = {name: (version, balance, seal) for name, version, *_, balance, seal in sorted(rows)}
    assert last == {name: (a.version, f"{a.balance:f}", a.seal) for name, a in before.accounts.items()}
