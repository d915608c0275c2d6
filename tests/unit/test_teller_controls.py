"""`teller freeze`: the message that it sends, and the outcome that it waits for."""

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


def run(command: str, *answers: dict[str, Any]) -> tuple[list[dict[str, Any]], str, int]:
    """The messages that were sent to the administration's queue, the output and the exit status."""
    sent, later = [], iter(answers)

    def send_message(QueueUrl: str, MessageBody: str) -> None:  # noqa: N803
        assert QueueUrl == "AdministrationQueueUrl"
        sent.append(json.loads(MessageBody))

    deployment = mock.MagicMock(is_prod=False, invoke=lambda *_: next(later))
    deployment.__getitem__.side_effect = str
    deployment.client = lambda _: SimpleNamespace(send_message=send_message)
    with mock.patch.object(Operator, "deployment", deployment), mock.patch.object(controls, "PAUSE_SECONDS", 0):
        ended = CliRunner().invoke(app, command.split(), env={"TELLER_STACK": "teller-dev"})
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
