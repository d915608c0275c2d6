"""Starts and stops the engines: ministack, with all AWS services that Teller uses, and Amazon's DynamoDB Local."""

import argparse
import contextlib
import fcntl
import functools
import os
import shutil
import signal
import socket
import subprocess
import tarfile
import threading
import time
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import boto3
from botocore.config import Config

PROJECT = Path(__file__).parents[2]
TOOLS = PROJECT / ".venv-tools" / "bin"
CACHE = PROJECT / ".cache"
REGION = "us-east-1"


@dataclass(frozen=True)
class Endpoint:
    """The address of a local AWS. Its root user's access key and secret key are both "test"."""

    url: str

    @property
    def environment(self) -> dict[str, str]:
        """Environment variables that direct every AWS SDK, the AWS CLI and SAM to this endpoint alone."""
        return {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_DEFAULT_REGION": REGION,
            "AWS_REGION": REGION,
            "AWS_CONFIG_FILE": os.devnull,
            "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        }

    def client(self, service: str, **config: object):
        return boto3.client(
            service,
            endpoint_url=self.url or None,
            region_name=REGION,
            aws_access_key_id="test",
            aws_secret_access_key="test",
            # Nobody reads how a client calls itself, and botocore takes a tenth of a request's CPU time to find out.
            config=Config(retries={"mode": "standard", "total_max_attempts": 5}, user_agent="local AWS", **config),
        )


@functools.cache
def shared_client(endpoint: Endpoint, service: str):
    """A cached client for frequent requests, since creating a client is slow. Don't register handlers with it."""
    return endpoint.client(service)


class LocalAwsError(Exception):
    """The local AWS failed or couldn't be started. The text gives the reason and the remedy."""


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def port_number(text: str) -> int:
    """A port that a command's user names, for argparse."""
    if text.isdecimal() and 1 <= int(text) <= 65535:
        return int(text)
    raise argparse.ArgumentTypeError(f"expected a number from 1 to 65535, got {text!r}")


def ministack(
    port: int, log: Path, host: str = "127.0.0.1", settings: Mapping[str, str] | None = None
) -> tuple[Endpoint, subprocess.Popen[bytes]]:
    """Starts ministack with IAM enforced, and waits until it answers. Stop it with `stop`.

    `settings` are environment variables of ministack's own.
    """
    _check_free(host, port)
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "POWERTOOLS_"))}
    unpacked = log.parent / "functions"  # 65 MB for each function process. ministack doesn't delete them.
    shutil.rmtree(unpacked, ignore_errors=True)
    unpacked.mkdir(parents=True)
    process = _start(
        [TOOLS / "ministack"],
        log,
        environment
        | {
            "AUTH": "true",
            "TMPDIR": str(unpacked.absolute()),
            "BIND_HOST": host,
            "GATEWAY_PORT": str(port),
            "MINISTACK_HOST": "127.0.0.1",
            "LOG_LEVEL": "INFO",
            "IOT_MTLS_ENABLED": "0",
            "SFTP_ENABLED": "0",
        }
        | dict(settings or {}),
    )
    endpoint = Endpoint(f"http://{'127.0.0.1' if host == '0.0.0.0' else host}:{port}")
    _wait(f"{endpoint.url}/_ministack/health", process, log)
    return endpoint, process


def dynamodb_local(port: int, log: Path) -> tuple[Endpoint, subprocess.Popen[bytes]]:
    """Starts Amazon's DynamoDB Local, in memory. Raises LocalAwsError if Java or npm is missing."""
    java = shutil.which("java")
    if not java:
        raise LocalAwsError("DynamoDB Local needs Java 17 or later: there is no `java` on the PATH")
    home = _dynamodb_local_home()
    arguments = [
        java,
        f"-Djava.library.path={home / 'DynamoDBLocal_lib'}",
        "-jar",
        home / "DynamoDBLocal.jar",
        *("-inMemory", "-sharedDb", "-disableTelemetry", "-port", str(port)),
    ]
    process = _start(arguments, log, dict(os.environ))
    endpoint = Endpoint(f"http://127.0.0.1:{port}")
    _wait(endpoint.url, process, log)
    return endpoint, process


@contextlib.contextmanager
def running(started: tuple[Endpoint, subprocess.Popen[bytes]]) -> Iterator[Endpoint]:
    endpoint, process = started
    threading.Thread(target=process.wait, daemon=True).start()  # Reaps the process, so that `stop` sees its end.
    try:
        yield endpoint
    finally:
        stop(process.pid)


def is_running(log: Path) -> bool:
    """Whether an engine writes to this log. It holds a lock on the file; so a copy of the file is nobody's."""
    try:
        with log.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


def stop(pid: int) -> None:
    """Ends a server and the function processes that it started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGTERM)
        for _ in range(50):
            time.sleep(0.1)
            os.killpg(pid, 0)
        os.killpg(pid, signal.SIGKILL)


def _start(arguments: list[object], log: Path, environment: dict[str, str]) -> subprocess.Popen[bytes]:
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as output:
        fcntl.flock(output, fcntl.LOCK_SH)  # The process inherits the lock: see `is_running`.
        return subprocess.Popen(
            [str(argument) for argument in arguments],
            cwd=log.parent,  # DynamoDB Local leaves a file in its working directory.
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def _check_free(host: str, port: int) -> None:
    with socket.socket() as probe:
        try:
            in_use = probe.connect_ex((host, port)) == 0
        except OSError as error:
            raise LocalAwsError(f"{host} is no address to listen on: {error}") from None
    if in_use:
        raise LocalAwsError(
            f"port {port} is in use. `make down` stops a local AWS of Teller's; PORT=4567 selects another port"
        )


def _wait(url: str, process: subprocess.Popen[bytes], log: Path, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if process.poll() is not None:
            break
        try:
            with urllib.request.urlopen(url, timeout=2):
                return
        except urllib.error.HTTPError:
            return  # The engine is up: DynamoDB Local answers a GET with an error.
        except OSError:
            time.sleep(0.1)
    stop(process.pid)
    raise LocalAwsError(f"{process.args[0]} did not start; its log, {log}, ends:\n{log.read_text()[-2000:]}")


def _dynamodb_local_home() -> Path:
    """The folder of Amazon's jar and its libraries, from Amplify's npm package. They are downloaded once."""
    home = CACHE / "package" / "emulator"
    CACHE.mkdir(exist_ok=True)
    with (CACHE / "fetching").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # Parallel test workers start together, and one of them downloads.
        if not home.exists():
            _fetch_dynamodb_local()
    return home


def _fetch_dynamodb_local() -> None:
    npm = shutil.which("npm")
    if not npm:
        raise LocalAwsError("DynamoDB Local is fetched with npm: there is no `npm` on the PATH")
    packed = subprocess.run(
        [npm, "pack", "--silent", "amplify-dynamodb-simulator@2.9.30"],
        cwd=CACHE,
        capture_output=True,
        text=True,
        check=False,
    )
    if packed.returncode:
        raise LocalAwsError(f"npm could not fetch DynamoDB Local: {packed.stderr.strip()[-500:]}")
    archive = CACHE / packed.stdout.split()[-1]
    with tarfile.open(archive) as tar:
        tar.extractall(CACHE, filter="data")
    archive.unlink()
