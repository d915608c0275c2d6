"""`teller post`, `freeze` and `limits`: what is asked or sent, and what is shown of the outcome."""

import json
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest

from tests.support.command import Ended, run_on
from tools.teller import controls

IDS = {"transaction_id": "t-1", "account_id": "a"}
LINE = '{"transaction_id": "t-1", "account_id": "a", "amount": 12.50}'
OUTCOME = IDS | {"state": "posted", "amount": "12.5", "balance_after": "100"}
INVALID = dict.fromkeys(IDS) | {"state": "invalid", "reason_code": "WRONG_QUEUE", "reason": "Why"}


def post(options: str, typed: str | bytes, *outcomes: dict[str, Any], error: str = "") -> tuple[list[Any], Ended]:
    """The function's requests, and the end of the command."""
    answer = {"error": {"code": "INVALID_REQUEST", "reason": error}} if error else {"outcomes": list(outcomes)}
    deployment = mock.MagicMock(is_prod=False)
    deployment.invoke.return_value = answer
    ended = run_on(deployment, *f"post - {options}".split(), typed=typed, columns=80)
    return [call.args for call in deployment.invoke.call_args_list], ended


@pytest.mark.parametrize("dry_run", [False, True])
def test_the_lines_are_posted_with_all_their_digits_and_their_outcomes_shown(*, dry_run: bool) -> None:
    asked, ended = post("--dry-run" if dry_run else "", f"{LINE}\n\n", OUTCOME)
    request = {"transactions": [IDS | {"amount": "12.50"}], "dry_run": dry_run}
    assert asked == [("PostTransactionsFunctionName", request)]
    assert ["t-1", "a", "posted", "12.5", "100"] in [line.split() for line in ended.out.splitlines()]
    assert ended.status == 0


def test_an_outcome_that_is_none_is_the_exit_status_1_and_says_why() -> None:
    _, ended = post("", f"{LINE}\n{LINE}", OUTCOME, INVALID)
    assert ("WRONG_QUEUE: Why" in ended.out, ended.status) == (True, 1)
    _, ended = post("--json", LINE, IDS | {"state": "unknown", "reason": "AWS said nothing"})
    assert (json.loads(ended.out)["outcomes"][0]["state"], ended.status) == ("unknown", 1)
    _, ended = post("", LINE, error="transactions: expected more")
    assert ("transactions: expected more" in ended.err, ended.status != 0) == (True, True)


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
def test_lines_that_cannot_be_meant_are_not_posted(typed: str | bytes, reason: str) -> None:
    asked, ended = post("", typed)
    assert (asked, reason in " ".join(ended.err.split())) == ([], True), ended
    assert ended.status


ENTRY = {"state": "rejected", "entry": {"reason": "ACCOUNT_CLOSED"}, "refusal": None}
POSTED = {"state": "posted", "entry": {"reason": None}, "refusal": None}
REFUSED = {"state": "refused", "entry": None, "refusal": {"reason": "body: expected less"}}
UNKNOWN = {"state": "unknown", "entry": None, "refusal": None}
DAY = {"name": "day", "of": "debits", "per": "day", "time_zone": "Europe/Paris"}


def change(command: str, *answers: dict[str, Any], typed: str | None = None) -> tuple[list[dict[str, Any]], str, int]:
    """The messages that were sent to the administration's queue, the output and the exit status."""
    sent, later = [], iter(answers)

    def send_message(QueueUrl: str, MessageBody: str) -> None:  # noqa: N803
        assert QueueUrl == "AdministrationQueueUrl"
        sent.append(json.loads(MessageBody))

    deployment = mock.MagicMock(is_prod=False, invoke=lambda *_: next(later))
    deployment.__getitem__.side_effect = str
    deployment.client = lambda _: SimpleNamespace(send_message=send_message)
    with mock.patch.object(controls, "PAUSE_SECONDS", 0):
        ended = run_on(deployment, *command.split(), typed=typed, columns=80)
    return sent, ended.out, ended.status


def test_a_freeze_is_sent_once_and_its_outcome_is_waited_for() -> None:
    sent, out, status = change("freeze acc-1 --debits --id case-7 --description Order", UNKNOWN, UNKNOWN, POSTED)
    ids = {"transaction_id": "case-7", "account_id": "acc-1"}
    assert sent == [{"type": "freeze_account", "debits": True, "credits": False, "description": "Order"} | ids]
    assert (out, status) == ("case-7: posted\n", 0)
    [end], _, _ = change("freeze acc-1 --end", POSTED)
    assert (end["debits"], end["credits"], end["transaction_id"][:7]) == (False, False, "teller-")


@pytest.mark.parametrize(
    ("answer", "words"), [(ENTRY, "rejected, ACCOUNT_CLOSED"), (REFUSED, "refused, body: expected less")]
)
def test_an_outcome_other_than_posted_is_the_exit_status_1(answer: dict[str, Any], words: str) -> None:
    assert change("freeze acc-1 --credits --id f", answer)[1:] == (f"f: {words}\n", 1)


@pytest.mark.parametrize("options", ["", "--debits --end", "--debits --id teller:mine"])
def test_what_cannot_be_meant_sends_nothing(options: str) -> None:
    sent, _, status = change(f"freeze acc-1 {options}")
    assert (sent, status) == ([], 2)


def test_limits_are_sent_as_they_are_in_the_file() -> None:
    sent, out, status = change("limits acc-1 --set - --id l-1", POSTED, typed=json.dumps([DAY | {"amount": 499.5}]))
    ids = {"transaction_id": "l-1", "account_id": "acc-1"}
    assert sent == [{"type": "set_limits", "limits": [DAY | {"amount": "499.5"}]} | ids]
    assert (out, status) == ("l-1: posted\n", 0)


@pytest.mark.parametrize("typed", ["{", "{}", '[{"name": "day"}]', json.dumps([DAY])])
def test_limits_that_cannot_be_meant_are_not_sent(typed: str) -> None:
    sent, out, status = change("limits acc-1 --set -", typed=typed)
    assert (sent, status) == ([], 2), out


def test_limits_are_shown_with_what_is_left() -> None:
    amount = DAY | {"amount": "500", "number": None, "left": "387.5"}
    often = DAY | {"name": "often", "amount": None, "number": "20", "left": "17"}
    account = {"decimal_places": 2, "limits": [amount, often]}
    _, out, status = change("limits acc-1", account)
    rows = [line.split() for line in out.splitlines()]
    assert ["day", "debits", "day", "Europe/Paris", "500.00", "387.50"] in rows
    assert ["often", "debits", "day", "Europe/Paris", "20", "17"] in rows
    assert status == 0
    assert change("limits acc-1", account | {"limits": []})[1] == "acc-1 has no limits\n"
