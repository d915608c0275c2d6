"""Starting, using and stopping the local AWS: what a terminal shows if something is wrong."""

import gc
import itertools
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.clock import Clock
from tools.local_aws import demo, left_running, server, stack, up
from tools.local_aws.functions import load_function
from tools.local_aws.server import PROJECT, Endpoint, LocalAwsError


def test_a_function_that_is_loaded_in_this_process_is_freed_after_its_use() -> None:
    variables = dict.fromkeys(
        ["ACCOUNTS_TABLE", "JOURNAL_TABLE", "REVERSALS_TABLE", "CHECKPOINTS_TABLE", "LOCKS_TABLE"], "x"
    )
    variables["JOB_SEGMENTS"] = "1"
    frozen = gc.get_freeze_count()
    function = load_function("reconcile_accounts", Endpoint("http://127.0.0.1:9"), variables)
    client = weakref.ref(function.client)
    del function
    gc.collect()
    assert client() is None
    assert gc.get_freeze_count() == frozen


@pytest.mark.parametrize("main", [up.main, demo.main])
@pytest.mark.parametrize("port", ["99999", "0", "-1", "abc", "45 66"])
def test_a_port_that_is_none_is_refused_with_a_sentence(
    main: Callable[[], int], port: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["command", f"--port={port}"])
    with pytest.raises(SystemExit, match="2"):
        main()
    assert f"argument --port: expected a number from 1 to 65535, got '{port}'" in capsys.readouterr().err


def test_a_host_that_is_none_is_refused_with_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def connect_ex(*_: object) -> int:
        raise socket.gaierror("Name or service not known")

    monkeypatch.setattr(socket.socket, "connect_ex", connect_ex)
    with pytest.raises(LocalAwsError, match="nowhere is no address to listen on: Name or service not known"):
        server.ministack(4566, tmp_path / "log", "nowhere")


@pytest.fixture
def started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[subprocess.Popen[bytes]]:
    """A process with the state and the log of an engine that `make up` started, on a machine without `ps`."""
    monkeypatch.setattr(left_running, "STATE", tmp_path / "local-aws.json")
    monkeypatch.setattr(left_running, "LOG", tmp_path / "local-aws.log")
    process = server._start([sys.executable, "-c", "import time; time.sleep(60)"], left_running.LOG, {})
    threading.Thread(target=process.wait, daemon=True).start()  # else it is a zombie after its end
    left_running.leave(left_running.Running(process.pid, "http://127.0.0.1:4566", "make up"))
    monkeypatch.setenv("PATH", "")
    yield process
    process.kill()


def test_make_down_needs_no_other_program(started: subprocess.Popen[bytes]) -> None:
    assert left_running.down() == "Stopped the local AWS on http://127.0.0.1:4566 and deleted its tables and queues."
    assert started.wait(10) < 0
    assert left_running.down() is None


def test_after_its_end_another_process_may_have_its_number(started: subprocess.Popen[bytes]) -> None:
    started.kill()
    started.wait(10)
    left_running.leave(left_running.Running(1, "http://127.0.0.1:4566", "make up"))
    assert left_running.down() == "The local AWS on http://127.0.0.1:4566 had already stopped."


def test_a_copied_checkout_does_not_stop_the_originals(
    started: subprocess.Popen[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = tmp_path / "copy"
    copy.mkdir()
    for name in ("STATE", "LOG"):
        monkeypatch.setattr(left_running, name, Path(shutil.copy(getattr(left_running, name), copy)))
    assert left_running.down() == "The local AWS on http://127.0.0.1:4566 had already stopped."
    assert started.poll() is None


@pytest.fixture
def deployments(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Endpoint]:
    """The endpoints that the stack is deployed on. Nothing is built or deployed, and no engine can be started."""
    deployed_on: list[Endpoint] = []

    def deploy(endpoint: Endpoint, _: object) -> stack.Stack:
        deployed_on.append(endpoint)
        return stack.Stack(endpoint, {})

    monkeypatch.setattr(stack, "build", lambda _: None)
    monkeypatch.setattr(stack, "deploy", deploy)
    monkeypatch.setattr(up, "write_settings", lambda *_: None)
    monkeypatch.setattr(server, "TOOLS", tmp_path / "nowhere")
    return deployed_on


def test_a_second_make_up_deploys_on_the_running_local_aws(
    started: subprocess.Popen[bytes],
    deployments: list[Endpoint],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("sys.argv", ["up"])
    assert up.main() == 0
    assert deployments == [Endpoint("http://127.0.0.1:4566")]
    assert started.poll() is None
    assert "keeps its data" in capsys.readouterr().out


def test_a_second_make_up_that_fails_leaves_the_local_aws_running(
    started: subprocess.Popen[bytes],
    deployments: list[Endpoint],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def build(_: object) -> None:
        raise LocalAwsError("make build failed")

    monkeypatch.setattr(stack, "build", build)
    monkeypatch.setattr("sys.argv", ["up"])
    assert up.main() == 1
    assert (deployments, started.poll()) == ([], None)
    assert "make build failed" in capsys.readouterr().out


def test_the_demo_does_not_stop_what_make_up_started(
    started: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["demo"])
    assert demo.main() == 1
    assert "`make down` stops it" in capsys.readouterr().out
    assert started.poll() is None


def test_the_demo_stops_what_an_earlier_demo_left(started: subprocess.Popen[bytes]) -> None:
    running = left_running.found()
    assert running
    left_running.leave(running._replace(left_by="make demo"))
    demo._stop_an_earlier_demo()
    assert started.wait(10) < 0
    assert left_running.found() is None


def test_a_make_up_on_an_earlier_demos_local_aws_keeps_it_from_the_next_demo(
    started: subprocess.Popen[bytes], deployments: list[Endpoint], monkeypatch: pytest.MonkeyPatch
) -> None:
    running = left_running.found()
    assert running
    left_running.leave(running._replace(left_by="make demo"))
    monkeypatch.setattr("sys.argv", ["up"])
    assert up.main() == 0
    with pytest.raises(LocalAwsError, match="of yours is running"):
        demo._stop_an_earlier_demo()
    assert started.poll() is None


def test_an_installation_that_fails_says_why_and_fails(tmp_path: Path) -> None:
    requirements = tmp_path / "requirements.txt"
    requirements.write_text("no-such-package==1.0\n")
    run = subprocess.run(
        [sys.executable, PROJECT / "tools/install.py", requirements],
        env=os.environ | {"PIP_NO_INDEX": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 1
    assert "No matching distribution found for no-such-package==1.0" in run.stderr


class Queues:
    """A stack whose queues have so many waiting messages each, one number a call."""

    def __init__(self, waiting: Iterable[int]) -> None:
        self.waiting = iter(waiting)
        self.sent: list[str] = []
        self.asked = 0

    def client(self, service: str) -> "Queues":
        assert service == "sqs"
        return self

    endpoint = property(lambda self: self)

    def __getitem__(self, output: str) -> str:
        return output

    def send_message_batch(self, QueueUrl: str, Entries: list[dict[str, str]]) -> dict[str, Any]:  # noqa: N803
        self.sent += [f"{QueueUrl}: {entry['MessageBody']}" for entry in Entries]
        return {}

    def get_queue_attributes(self, **_: Any) -> dict[str, Any]:
        self.asked += 1
        attributes = dict.fromkeys(("", "NotVisible", "Delayed"), 0) | {"NotVisible": next(self.waiting)}
        return {"Attributes": {f"ApproximateNumberOfMessages{which}": str(n) for which, n in attributes.items()}}


def test_the_demo_sends_all_messages_of_both_queues() -> None:
    queues = Queues([4, 2, 0, 0])
    day = {"Transactions": [str(n) for n in range(25)], "Profiles": [str(n) for n in range(3)]}
    demo._send_and_wait(queues, day)
    assert sorted(queues.sent) == sorted(f"{name}QueueUrl: {body}" for name, bodies in day.items() for body in bodies)


@pytest.mark.usefixtures("interruptible")
def test_an_interrupted_demo_does_not_wait_for_its_messages() -> None:
    def interrupted() -> Iterator[int]:
        signal.raise_signal(signal.SIGINT)
        yield from [1] * 8 + [0] * 8

    queues = Queues(interrupted())
    with pytest.raises(KeyboardInterrupt):
        demo._send_and_wait(queues, {"Transactions": ["1"], "Profiles": ["2"]})
    assert queues.asked <= 1


@pytest.fixture
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()

    def sleep(seconds: float) -> None:
        clock.seconds += seconds

    monkeypatch.setattr(demo, "time", SimpleNamespace(monotonic=clock, sleep=sleep))


def test_the_demo_says_what_it_waits_for(no_pauses: None, capsys: pytest.CaptureFixture[str]) -> None:
    demo._wait_until_empty(Queues([5] * 200 + [3, 0]), "Transactions")
    said = " ".join(capsys.readouterr().out.split())
    assert said.count("No progress for 20 s. 5 messages were delivered: a function is at work on them") == 1
    assert "for a function to take them" not in said


def test_the_demo_doesnt_speak_of_a_delivery_that_hasnt_been() -> None:
    words = demo._why_it_waits(0, 3000)
    assert "3,000 messages wait for a function to take them: it is starting, or is busy." in words
    assert "were delivered" not in words


def test_the_demo_gives_up_after_the_longest_time_to_a_next_delivery(no_pauses: None) -> None:
    with pytest.raises(LocalAwsError, match="after 960 s without progress 5 messages are still on their queues"):
        demo._wait_until_empty(Queues(itertools.repeat(5)), "Transactions")


def test_the_demo_shows_a_violation_whole(capsys: pytest.CaptureFixture[str]) -> None:
    assert demo._check({("each is posted once",): ["acc-1: found ['t-2'] and [t-3]"], ("no other claim",): []}) == 1
    assert capsys.readouterr().out == (
        "  ? each is posted once\n  ✗ acc-1: found ['t-2'] and [t-3]\n  ✓ no other claim\n"
    )
