"""The command says in a sentence what can't be meant, and why it can't call AWS."""

import errno
import io
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import pytest
from botocore.exceptions import BotoCoreError, EndpointConnectionError, ReadTimeoutError, SSLError
from rich.console import Console
from typer.testing import CliRunner

from tests.support.command import run_on
from tools.local_aws.server import PROJECT
from tools.teller import prove
from tools.teller.command import app
from tools.teller.failures import Failure, WrongUse, failure_of
from tools.teller.operator import Operator
from tools.teller.processes import processes

FULL = Path("/dev/full")


@pytest.fixture(autouse=True)
def nothing_configured(monkeypatch: pytest.MonkeyPatch) -> None:
    """No variable and no file of the AWS SDK's."""
    for name in ("AWS_PROFILE", "AWS_DEFAULT_REGION", "AWS_REGION", "AWS_ACCESS_KEY_ID", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, "/nowhere")


def refused(*arguments: str) -> tuple[str, int]:
    ended = CliRunner().invoke(app, ["account", "a", "--stack", "teller-dev", *arguments], catch_exceptions=False)
    assert ended.stdout == ""
    return ended.stderr, ended.exit_code


@pytest.mark.parametrize("url", ["nonsense", "localhost:4566", "4566", "http://", "http://a:port", "ftp://a"])
def test_an_endpoint_that_is_no_url_is_wrong_use(url: str) -> None:
    sentence = f"teller: the endpoint: expected a URL, such as http://127.0.0.1:4566, got {url!r}\n"
    assert refused("--endpoint-url", url) == (sentence, 2)


@pytest.mark.parametrize("error", [EndpointConnectionError, ReadTimeoutError, SSLError])
def test_an_endpoint_that_doesnt_answer_cant_be_reached(error: type[BotoCoreError]) -> None:
    failure = failure_of(error(endpoint_url="http://127.0.0.1:4566", error="none"))
    assert failure.reason.startswith("AWS can't be reached: ")
    assert failure.status == 1


def test_an_error_on_a_terminal_breaks_between_words(monkeypatch: pytest.MonkeyPatch) -> None:
    operator, out = Operator("teller-dev", None, as_json=False), io.StringIO()
    monkeypatch.setattr(operator, "remarks", Console(file=out, force_terminal=True, color_system=None, width=40))
    operator.fail(WrongUse("expected reconcile_accounts or charge_overdraft_interest"))
    assert out.getvalue().split(" \n") == ["teller: expected reconcile_accounts or", "charge_overdraft_interest\n"]


def test_a_file_that_cannot_be_written_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    proved = SimpleNamespace(root=None), "proof"
    monkeypatch.setattr(prove, "proof_of", lambda *_: proved)
    ended = CliRunner().invoke(app, ["prove", "a", "t", "--out", "/nowhere/proof.json"], catch_exceptions=False)
    sentence = "teller: /nowhere/proof.json can't be read or written: No such file or directory\n"
    assert (ended.stderr, ended.exit_code) == (sentence, 1)


def test_an_answer_that_nobody_reads_is_no_failure_of_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prove, "proof_of", mock.Mock(side_effect=BrokenPipeError(errno.EPIPE, "Broken pipe")))
    ended = CliRunner().invoke(app, ["prove", "a", "t"], catch_exceptions=False)
    assert (ended.stderr, ended.exit_code) == ("", 1)


@pytest.mark.skipif(not FULL.exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize(
    ("arguments", "unbuffered", "status", "sentence"),
    [  # a process each, so few
        ("query", "1", 1, "the answer can't be written: No space left on device"),
        ("query --json", "", 1, "the answer can't be written: No space left on device"),
        ("status --json", "", 2, "no stack: name it with --stack NAME, or in the variable TELLER_STACK"),
    ],
)
def test_an_answer_for_a_full_disk_is_a_sentence(arguments: str, unbuffered: str, status: int, sentence: str) -> None:
    command, variables = [sys.executable, "-m", "tools.teller", *arguments.split()], {"PYTHONUNBUFFERED": unbuffered}
    with FULL.open("w") as full:
        ended = subprocess.run(
            command, cwd=PROJECT, env=variables, stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert (ended.returncode, ended.stderr) == (status, f"teller: {sentence}\n")


def test_a_process_of_the_command_that_is_killed_is_a_sentence() -> None:
    with pytest.raises(Failure, match="a process of the command was killed"), processes() as executor:
        executor.submit(os._exit, 1).result()


INTERRUPTED_AT_IMPORT = """
import importlib.abc, os, runpy, signal, sys

class Interrupting(importlib.abc.MetaPathFinder):
    def find_spec(self, name, *_):
        if name == "tools.teller.command":
            os.kill(os.getpid(), signal.SIGINT)

signal.signal(signal.SIGINT, signal.default_int_handler)
sys.meta_path.insert(0, Interrupting())
runpy.run_module("tools.teller", run_name="__main__")
"""


def test_ctrl_c_while_the_command_begins_is_no_traceback() -> None:
    command = [sys.executable, "-c", INTERRUPTED_AT_IMPORT]
    ended = subprocess.run(command, cwd=PROJECT, capture_output=True, check=False)
    assert (ended.returncode, ended.stderr) == (-signal.SIGINT, b"")


def test_a_profile_that_isnt_there_is_no_matter_of_the_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_PROFILE", "ops")
    assert refused() == ("teller: AWS can't be called: The config profile (ops) could not be found\n", 1)


def test_without_a_region_the_command_says_how_to_name_it() -> None:
    assert refused() == ("teller: no region: set AWS_DEFAULT_REGION, or a region of your profile\n", 2)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ("statement a --last 0", "--last"),
        ("statement a --from yesterday", "--from': expected an ISO 8601 time"),
        ("statement a --to 2026-01-01", "--to needs --from"),
        ("statement a --from 2026-02-01 --to 2026-01-01", "--to: expected a time after --from"),
        ("statement a --from 2026-02-01 --last 3", "exclude each other"),
        ("statement a --csv --json", "exclude each other"),
        ("send no-such-file", "no-such-file"),
        ("dead-letters letters", "'letters' is not one of 'transactions', 'administration'"),
        ("dead-letters redrive", "Missing argument 'QUEUE'"),
        ("dead-letters redrive bus", "the bus's letters can't be redriven"),
        ("dead-letters redrive jobs --edit", "the letters of jobs aren't messages that can be mended"),
        ("dead-letters drop transactions", "name the letters with --code, --id or --about"),
        ("jobs run reconcile", "expected reconcile_accounts, charge_overdraft_interest or expire_holds"),
        ("jobs release line", "there is no job 'line'"),
        ("jobs run charge_overdraft_interest --whole", "--whole is for reconcile_accounts"),
        ("jobs run charge_overdraft_interest --for tonight", "expected an ISO 8601 time"),
        ("jobs start", "No such command 'start'"),
        ("outcomes republish", "name an account"),
    ],
)
def test_what_cant_be_meant_is_refused_at_once(arguments: str, sentence: str) -> None:
    ended = run_on(None, *arguments.split(), columns=300)
    assert (ended.status, sentence in ended.out + ended.err) == (2, True), ended
