"""The local AWS that `make up` and `make demo` leave running, until `make down`. A checkout has one at most."""

import json
import threading
from typing import NamedTuple

from tools.local_aws.server import CACHE, Endpoint, is_running, ministack, stop

STATE, LOG = CACHE / "local-aws.json", CACHE / "local-aws.log"


class Running(NamedTuple):
    """`left_by` is the command that started it or deployed on it last, such as "make up"."""

    pid: int
    url: str
    left_by: str = "make up"  # an earlier release noted none

    @property
    def endpoint(self) -> Endpoint:
        return Endpoint(self.url)


def start(host: str, port: int, command: str) -> Running:
    """Starts one in the name of this command. Raises LocalAwsError."""
    endpoint, process = ministack(port, LOG, host)
    threading.Thread(target=process.wait, daemon=True).start()  # Reaps the process if `down` stops it.
    return leave(Running(process.pid, endpoint.url, command))


def leave(running: Running) -> Running:
    """Notes for the commands to come that it runs."""
    STATE.write_text(json.dumps(running._asdict()))
    return running


def found() -> Running | None:
    """The one that runs. None if there is none."""
    return _noted() if STATE.exists() and is_running(LOG) else None


def down() -> str | None:
    """Stops the one that runs. Returns a sentence about it, or None if none was started."""
    if not STATE.exists():
        return None
    noted, running = _noted(), is_running(LOG)
    if running:
        stop(noted.pid)
    STATE.unlink()
    if not running:
        return f"The local AWS on {noted.url} had already stopped."
    return f"Stopped the local AWS on {noted.url} and deleted its tables and queues."


def _noted() -> Running:
    return Running(**json.loads(STATE.read_text()))
