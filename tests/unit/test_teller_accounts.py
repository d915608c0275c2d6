"""What `teller account`, `statement`, `transaction` and `outcomes tail` show of holds and reversals, in 80 columns."""

import json
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest
from typer.testing import CliRunner

from tools.teller.command import app
from tools.teller.operator import Operator
from tools.teller.outcomes import line

TIME = "2026-11-22T18:43:41.263+00:00"
ACCOUNT = {
    "account_id": "acc-1",
    "balance": "609.5",
    "held": "52.75",
    "available": "1356.75",
    "overdraft_limit": "-800",
    "currency": "EUR",
    "decimal_places": 2,
    "status": "OPEN",
    "version": 4,
    "posted_at": TIME,
    "holds": [
        {"hold_id": "h-2", "remaining": "12.75", "expires_at": "2026-11-29T12:00:00+00:00"},
        {"hold_id": "h-1", "remaining": "40", "expires_at": None},
    ],
}


def entry(transaction_id: str, amount: str, request: dict[str, Any], **fields: Any) -> dict[str, Any]:
    rest = {"balance_after": "60", "held_after": "0", "account_version": 2, "posted_at": TIME, "status": "POSTED"}
    return {"transaction_id": transaction_id, "amount": amount, "request": request} | rest | fields


HOLD = entry("h-1", "0", {"type": "hold", "amount": "40"}, held_after="40")
POSTING = entry("p-1", "-15", {"type": "post_hold", "hold_id": "h-1", "final": False}, held_after="25")
REVERSE = {"type": "reverse", "of_transaction_id": "t-1"}
REVERSAL = entry("r-1", "5", REVERSE, reversal={"number": 1, "reversed_after": "5"})
NO_REVERSAL = entry(
    "r-2",
    "0",
    REVERSE,
    status="REJECTED",
    reason="REVERSAL_EXCEEDED",
    reversal={"number": 1, "reversed_after": "5", "other_account_id": "b"},
)


def shown(answer: dict[str, Any], *arguments: str) -> str:
    """The output of the command, on a deployment whose function gives this answer."""
    variables = {"TELLER_STACK": "teller-dev", "COLUMNS": "80"}
    with mock.patch.object(Operator, "deployment", SimpleNamespace(invoke=lambda *_: answer)):
        ended = CliRunner().invoke(app, arguments, env=variables, catch_exceptions=False)
    assert ended.exit_code == 0
    assert "--csv" in arguments or max(map(len, ended.stdout.splitlines())) <= 80
    return ended.stdout


def rows(text: str) -> list[list[str]]:
    return [row.split() for row in text.splitlines()]


def test_an_account_is_shown_with_what_is_available_and_its_holds() -> None:
    found = rows(shown(ACCOUNT, "account", "acc-1"))
    for name in ("balance", "held", "available", "overdraft_limit", "decimal_places"):
        assert [name, str(ACCOUNT[name])] in found
    holds = found.index(["h-2", "12.75", "2026-11-29", "12:00:00"])
    assert found[holds + 1] == ["h-1", "40", "never"]
    assert json.loads(shown(ACCOUNT, "account", "acc-1", "--json")) == ACCOUNT


def test_an_account_without_holds_has_no_table_of_them() -> None:
    assert "expires" not in shown(ACCOUNT | {"held": "0", "holds": []}, "account", "acc-1")


def test_many_holds_with_long_ids_and_amounts_are_shown_whole() -> None:
    holds = [{"hold_id": "x" * 128, "remaining": "1" * 38, "expires_at": TIME}] * 20
    text = shown(ACCOUNT | {"account_id": "a", "holds": holds}, "account", "a")
    assert text.count("x") == 20 * 128 + "expires".count("x")
    assert text.count("2026-11-22 18:43:41") == 20


def statement_of(*entries: dict[str, Any], as_csv: bool = False) -> str:
    answer = {"account_id": "acc-1", "account_version": 9, "entries": list(entries), "complete": True}
    more = ["--csv"] if as_csv else []
    return shown(answer | {"missing_versions": [], "next": None}, "statement", "acc-1", *more)


def test_a_statement_shows_what_is_held_and_what_an_entry_is_about() -> None:
    text = statement_of(HOLD, POSTING, REVERSAL, NO_REVERSAL, entry("t-9", "1", {"type": "transaction"}))
    together = " ".join(text.split())
    for name in ("h-1 hold of 40 0 60", "p-1 post_hold of h-1 -15 60", "r-1 reverse of t-1 5 60"):
        assert name.split() in [row[3:] for row in rows(text)]
    assert (text.count("held"), "held 40" in text, "held 25" in text) == (2, True, True)
    assert "r-2 rejected:" in together
    assert "t-9 transaction 1 60" in together


def test_a_statement_as_csv_has_what_is_held_and_the_ids_at_its_end() -> None:
    names, held, posting, reversal = statement_of(HOLD, POSTING, REVERSAL, as_csv=True).splitlines()
    assert names.endswith("occurred_at,description,held_after,hold_id,of_transaction_id")
    assert (held.endswith(",40,,"), posting.endswith(",25,h-1,"), reversal.endswith(",0,,t-1")) == (True,) * 3


@pytest.mark.parametrize(
    ("found", "count", "sentence"),
    [
        (entry("t-1", "-12.5", {}), None, None),
        (
            entry("t-1", "-12.5", {}),
            {"amount": "5", "number": 1, "reversed_by": "r-1"},
            "5 of its 12.5 has been reversed, by 1 reversal, the last of which is r-1.",
        ),
        (
            entry("t-1", "12.5", {}),
            {"amount": "12.5", "number": 2, "reversed_by": "r-2"},
            "12.5 of its 12.5 has been reversed, by 2 reversals, the last of which is r-2.",
        ),
        (REVERSAL, None, "It is reversal 1 of t-1. 5 of t-1 had been reversed after it."),
        (NO_REVERSAL, None, "5 of t-1 had been reversed before, by 1 reversal."),
    ],
)
def test_a_transaction_says_what_was_reversed(
    found: dict[str, Any], count: dict[str, Any] | None, sentence: str | None
) -> None:
    answer = {"account_id": "acc-1", "transaction_id": "t-1", "entry": found, "reversed": count}
    text = " ".join(shown(answer, "transaction", "acc-1", "t-1").split())
    assert sentence in text if sentence else "reversed" not in text
    as_json = json.loads(shown(answer, "transaction", "acc-1", "t-1", "--json"))
    assert as_json == answer | {"state": found["status"].lower()}


def test_a_line_about_a_hold_says_how_much_is_held() -> None:
    detail = HOLD | {"account_id": "acc-1", "id": "acc-1#2", "reason": None}
    told = line({"detail-type": "HoldPlaced", "detail": detail})
    assert told == "2026-11-22 18:43:41  HoldPlaced  acc-1#2  h-1  0 -> 60  held 40"
    told = line({"detail-type": "HoldVoided", "detail": detail | {"held_after": "0"}})
    assert told == "2026-11-22 18:43:41  HoldVoided  acc-1#2  h-1  0 -> 60"
