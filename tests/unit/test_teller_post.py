"""`teller post`: what the function is asked, and what is shown of its answer."""

import json
from typing import Any
from unittest import mock

import pytest
from typer.testing import CliRunner

from tools.teller.command import app
from tools.teller.operator import Operator

IDS = {"transaction_id": "t-1", "account_id": "a"}
LINE = '{"transaction_id": "t-1", "account_id": "a", "amount": 12.50}'
POSTED = IDS | {"state": "posted", "amount": "12.5", "balance_after": "100"}
INVALID = dict.fromkeys(IDS) | {"state": "invalid", "reason_code": "WRONG_QUEUE", "reason": "Why"}


def run(options: str, typed: str | bytes, *outcomes: dict[str, Any], error: str = "") -> tuple[list[Any], str, int]:
    """The function's requests, the output and the exit status."""
    answer = {"error": {"code": "INVALID_REQUEST", "reason": error}} if error else {"outcomes": list(outcomes)}
    deployment = mock.MagicMock(is_prod=False)
    deployment.invoke.return_value = answer
    with mock.patch.object(Operator, "deployment", deployment):
        ended = CliRunner().invoke(app, f"post - {options}".split(), input=typed, env={"TELLER_STACK": "teller-dev"})
    return [call.args for call in deployment.invoke.call_args_list], ended.output, ended.exit_code


@pytest.mark.parametrize("dry_run", [False, True])
def test_the_lines_are_posted_with_all_their_digits_and_their_outcomes_shown(*, dry_run: bool) -> None:
    asked, out, status = run("--dry-run" if dry_run else "", f"{LINE}\n\n", POSTED)
    request = {"transactions": [IDS | {"amount": "12.50"}], "dry_run": dry_run}
    assert asked == [("PostTransactionsFunctionName", request)]
    assert ["t-1", "a", "posted", "12.5", "100"] in [line.split() for line in out.splitlines()]
    assert status == 0


def test_an_outcome_that_is_none_is_the_exit_status_1_and_says_why() -> None:
    _, out, status = run("", f"{LINE}\n{LINE}", POSTED, INVALID)
    assert ("WRONG_QUEUE: Why" in out, status) == (True, 1)
    _, out, status = run("--json", LINE, IDS | {"state": "unknown", "reason": "AWS said nothing"})
    assert (json.loads(out)["outcomes"][0]["state"], status) == ("unknown", 1)
    _, out, status = run("", LINE, error="transactions: expected more")
    assert ("transactions: expected more" in out, status != 0) == (True, True)


@pytest.mark.parametrize(
    ("typed", "reason"),
    [
        ("\n", "expected 1 to 100 lines, got 0"),
        (f"{LINE}\n" * 101, "got 101"),
        (f"{LINE}\n{{", "line 2: expected JSON"),
        ("[" * 9_000, "line 1: expected JSON"),
        (LINE.encode() + b"\xff", "FILE: expected UTF-8, got the byte 0xff. Nothing was sent"),
        (LINE.replace("}", ', "amount": 2}'), "line 1: expected JSON; amount: expected it once"),
    ],
)
def test_what_cannot_be_meant_asks_nothing(typed: str | bytes, reason: str) -> None:
    asked, out, status = run("", typed)
    assert (asked, reason in " ".join(out.split())) == ([], True), out
    assert status
