"""Whatever a command prints of messages, items and events: no text of theirs reaches the terminal as it is."""

import io
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer

from tests.support.command import run_on
from tests.unit.test_teller_page import COMMANDS
from tools.local_aws.server import PROJECT
from tools.teller import dead_letters, importing, jobs
from tools.teller.failures import Failure
from tools.teller.job_records import LockRecord, RunOfJob
from tools.teller.letters import Letter
from tools.teller.operator import Operator
from tools.teller.printed_tables import fields_table, lines, table

HOSTILE = "h\x1b[2J\x07\x7f\x9b1A\u202e\u2066\u2028\U000e0041\r\nFORGED"
"""It clears the screen, goes up a line, turns the direction, and forges a line."""


def test_only_the_operator_prints() -> None:
    own = {"operator.py", "progress.py", "printed_tables.py", "pictures.py"}
    for path in (PROJECT / "tools/teller").rglob("*.py"):
        found = re.findall(r"\bprint\(|rich\.table|sys\.std(?:out|err)|remarks\.|\bTable\(", path.read_text())
        assert path.name in own or found == [], path


def is_harmless(printed: str) -> bool:
    texts = printed.split("\n")
    is_forged = any(text.strip(" |-").startswith("FORGED") for text in texts)
    return "FORGED" in printed and all(map(str.isprintable, texts)) and not is_forged


def _table() -> Any:
    made = table("name", "value", right=["value"])
    made.add_row(HOSTILE, lines([HOSTILE, HOSTILE]))
    return made


PRINTED: dict[str, Callable[[Operator], object]] = {
    "an answer": lambda operator: operator.show({HOSTILE: [HOSTILE]}, HOSTILE, fields_table({HOSTILE: HOSTILE})),
    "a table": lambda operator: operator.show([HOSTILE], _table()),
    "a title": lambda operator: operator.say(HOSTILE, style="bold"),
    "a line of a stream": lambda operator: operator.line(HOSTILE),
    "a remark": lambda operator: operator.remark(HOSTILE, indent=2),
    "a failure": lambda operator: operator.fail(Failure(HOSTILE, "FAILED", [HOSTILE])),
}


@pytest.mark.parametrize("as_json", [False, True], ids=["people", "json"])
@pytest.mark.parametrize("prints", PRINTED.values(), ids=PRINTED)
def test_no_text_controls_the_terminal_or_forges_a_line(
    prints: Callable[[Operator], object], as_json: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    prints(Operator("teller-dev", None, as_json=as_json))
    out, err = capsys.readouterr()
    assert is_harmless(out + err)


@pytest.mark.parametrize(
    ("as_json", "printed"),
    [(False, b"Zo\\xeb \\u2708\n"), (True, '{\n  "name": "Zoë ✈"\n}\n'.encode())],
    ids=["people", "json"],
)
def test_a_letter_that_the_terminals_encoding_lacks_is_escaped_and_json_is_utf_8(
    as_json: bool, printed: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = io.BytesIO()
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(out, encoding="ascii", write_through=True))
    Operator("teller-dev", None, as_json=as_json).show({"name": "Zoë ✈"}, "Zoë ✈")
    assert out.getvalue() == printed


def test_nor_does_why_something_is_not_well(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit):
        Operator("teller-dev", None, as_json=False).not_well(HOSTILE)
    assert is_harmless(capsys.readouterr().err)


class Deployment:
    name, endpoint_url, is_prod, is_local = "teller-dev", None, False, False
    parameters: Mapping[str, str] = {}

    def __getitem__(self, output: str) -> str:
        return output


CHANGES = [
    "send FILE",
    "import FILE --totals EUR=1",
    "post FILE",
    "freeze a --debits",
    "limits a --set FILE",
    "dead-letters redrive transactions",
    "dead-letters drop transactions --id l-1",
    "jobs run reconcile_accounts",
    "outcomes republish a",
    "outcomes tail",
    "verify",
]
"""And `jobs release`, which tests/e2e/test_teller_jobs.py has."""


def test_each_command_that_changes_a_stack_asks() -> None:
    asking = {names for names, command in COMMANDS.items() if "yes" in {each.name for each in command.params}}
    assert {" ".join(names) for names in asking} - {"jobs release"} == {
        next(" ".join(names) for names in COMMANDS if change.startswith(" ".join(names))) for change in CHANGES
    }


@pytest.mark.parametrize("change", CHANGES)
def test_no_prod_stack_is_changed_without_a_yes(change: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    letter = Letter("{}", {}, "l-1", datetime(2026, 11, 22, 19, tzinfo=UTC))
    monkeypatch.setattr(dead_letters, "look", lambda *_: [letter])
    monkeypatch.setattr(jobs, "read_runs", lambda *_: [RunOfJob("2026-11-22T02:00:00+00:00", None)])
    monkeypatch.setattr(jobs, "read_lock", lambda *_: LockRecord("reconcile_accounts", {}))
    monkeypatch.setattr(Deployment, "is_prod", True)
    file = tmp_path / "day.jsonl"
    file.write_text('{"transaction_id": "t", "account_id": "a", "amount": 1}')
    found = SimpleNamespace(accounts=1, totals={"EUR": Decimal(1)}, sha256="")
    monkeypatch.setattr(importing, "_checked", lambda *_: found)
    monkeypatch.setattr(importing, "_check_new", lambda *_: None)
    monkeypatch.setattr(importing, "Imported", lambda _: None)
    ended = run_on(Deployment(), *change.replace("FILE", str(file)).split())
    assert (ended.out, ended.status) == ("", 2), ended
    assert "is a prod stack: to " in ended.err
    assert "add --yes" in ended.err


def test_a_trial_balance_is_shown_with_its_moment_and_the_accounts_that_it_leaves_out() -> None:
    euros = {"came_in": "1200", "went_out": "200.5", "balances": "999.5"}
    trial_balance = {"as_of": "2026-11-21T01:57:55.000+00:00", "accounts_left_out": 3, "currencies": {"EUR": euros}}
    at = "2026-11-21T02:00:00+00:00"
    run = {"scheduled_time": at, "finished_at": at, "report": {"trial_balance": trial_balance}}
    assert str(jobs._report_fields(run)["trial balance"]).splitlines() == [
        "at 2026-11-21 01:57:55, without 3 accounts",
        "EUR: 1200 came in, 200.5 went out, balances sum to 999.5",
    ]
