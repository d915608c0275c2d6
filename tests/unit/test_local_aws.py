"""Starting, using and stopping the local AWS: what a terminal shows if something is wrong."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools.local_aws import demo, left_running, server, stack, up
from tools.local_aws.server import Endpoint


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


def test_the_demo_does_not_stop_what_make_up_started(
    started: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["demo"])
    assert demo.main() == 1
    assert "`make down` stops it" in capsys.readouterr().out
    assert started.poll() is None
