"""`teller freeze` and `teller limits`: the message that is sent, and the outcome that is waited for."""

import json
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest
from typer.testing import CliRunner

from tools.teller import controls
from tools.teller.command import app
from tools.teller.operator import Operator

ENTRY = {"state": "rejected", "entry": {"reason": "ACCOUNT_CLOSED"}, "refusal": None}
POSTED = {"state": "posted", "entry": {"reason": None}, "refusal": None}
REFUSED = {"state": "refused", "entry": None, "refusal": {"reason": "body: expected less"}}
UNKNOWN = {"state": "unknown", "entry": None, "refusal": None}
DAY = {"name": "day", "of": "debits", "per": "day", "time_zone": "Europe/Paris"}


def run(command: str, *answers: dict[str, Any], typed: str | None = None) -> tuple[list[dict[str, Any]], str, int]:
    """The messages that were sent to the administration's queue, the output and the exit status."""
    sent, later = [], iter(answers)

    def send_message(QueueUrl: str, MessageBody: str) -> None:  # noqa: N803
        assert QueueUrl == "AdministrationQueueUrl"
        sent.append(json.loads(MessageBody))

    deployment = mock.MagicMock(is_prod=False, invoke=lambda *_: next(later))
    deployment.__getitem__.side_effect = str
    deployment.client = lambda _: SimpleNamespace(send_message=send_message)
    with mock.patch.object(Operator, "deployment", deployment), mock.patch.object(controls, "PAUSE_SECONDS", 0):
        ended = CliRunner().invoke(app, command.split(), input=typed, env={"TELLER_STACK": "teller-dev"})
    return sent, ended.output, ended.exit_code


def test_a_freeze_is_sent_once_and_its_outcome_is_waited_for() -> None:
    sent, out, status = run("freeze acc-1 --debits --id case-7 --description Order", UNKNOWN, UNKNOWN, POSTED)
    ids = {"transaction_id": "case-7", "account_id": "acc-1"}
    assert sent == [{"type": "freeze_account", "debits": True, "credits": False, "description": "Order"} | ids]
    assert (out, status) == ("case-7: posted\n", 0)
    [end], _, _ = run("freeze acc-1 --end", POSTED)
    assert (end["debits"], end["credits"], end["transaction_id"][:7]) == (False, False, "teller-")


@pytest.mark.parametrize(
    ("answer", "words"), [(ENTRY, "rejected, ACCOUNT_CLOSED"), (REFUSED, "refused, body: expected less")]
)
def test_an_outcome_other_than_posted_is_the_exit_status_1(answer: dict[str, Any], words: str) -> None:
    assert run("freeze acc-1 --credits --id f", answer)[1:] == (f"f: {words}\n", 1)


@pytest.mark.parametrize("options", ["", "--debits --end", "--debits --id teller:mine"])
def test_what_cannot_be_meant_sends_nothing(options: str) -> None:
    sent, _, status = run(f"freeze acc-1 {options}")
    assert (sent, status) == ([], 2)


def test_limits_are_sent_as_they_are_in_the_file() -> None:
    sent, out, status = run("limits acc-1 --set - --id l-1", POSTED, typed=json.dumps([DAY | {"amount": 499.5}]))
    ids = {"transaction_id": "l-1", "account_id": "acc-1"}
    assert sent == [{"type": "set_limits", "limits": [DAY | {"amount": "499.5"}]} | ids]
    assert (out, status) == ("l-1: posted\n", 0)


@pytest.mark.parametrize("typed", ["{", "{}", '[{"name": "day"}]', json.dumps([DAY])])
def test_limits_that_cannot_be_meant_are_not_sent(typed: str) -> None:
    sent, out, status = run("limits acc-1 --set -", typed=typed)
    assert (sent, status) == ([], 2), out


def test_limits_are_shown_with_what_is_left() -> None:
    amount = DAY | {"amount": "500", "number": None, "left": "387.5"}
    often = DAY | {"name": "often", "amount": None, "number": "20", "left": "17"}
    account = {"decimal_places": 2, "limits": [amount, often]}
    _, out, status = run("limits acc-1", account)
    rows = [line.split() for line in out.splitlines()]
    assert ["day", "debits", "day", "Europe/Paris", "500.00", "387.50"] in rows
    assert ["often", "debits", "day", "Europe/Paris", "20", "17"] in rows
    assert status == 0
    assert run("limits acc-1", account | {"limits": []})[1] == "acc-1 has no limits\n"
