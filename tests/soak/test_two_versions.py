"""Two versions post from one queue while their processes are killed, and a deployment is rolled back in between."""

import dataclasses
import io
import itertools
import json
import os
import random
import subprocess
import sys
import tarfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.checkers.books import is_poison, vanished, violations
from tests.support.ledger import Ledger
from tests.support.reporting import Say
from tools.local_aws import server
from tools.local_aws.day import believable_day
from tools.local_aws.queues import waiting_messages
from tools.local_aws.server import PROJECT, free_port, running

OTHER = os.environ.get("TELLER_OTHER_VERSION", "")
"""A revision of this repository with the same format of entries."""
MESSAGES = int(os.environ.get("TELLER_SOAK_MESSAGES", "600"))
LONGEST_SECONDS = 900 + MESSAGES // 10
VISIBILITY_SECONDS = 6
SECONDS_BETWEEN_KILLS = 3
WORKERS = 4
NEW_WORKERS = ((0.1, 0), (0.4, 2), (0.5, 0), (0.8, 2), (1.0, WORKERS))
"""Up to these shares of the messages, so many workers are of this version: some, none again, some, and all."""


class Worker(NamedTuple):
    version: Path
    process: subprocess.Popen[bytes]


class Workers:
    """Four processes, each of a version. The folder `log` has what they print, by version."""

    def __init__(self, old: Path, log: Path, given: str) -> None:
        self.old, self._log, self._given = old, log, given
        self.running = [self._start(old) for _ in range(WORKERS)]
        self.kills: Counter[str] = Counter()

    def _start(self, version: Path) -> Worker:
        with self.log_of(version).open("ab") as log:
            arguments = [sys.executable, Path(__file__).with_name("version_worker.py"), self._given]
            environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
            return Worker(version, subprocess.Popen(arguments, cwd=version, stdout=log, stderr=log, env=environment))

    def log_of(self, version: Path) -> Path:
        return self._log / ("old.log" if version == self.old else "new.log")

    def have_new(self, number: int) -> None:
        """Kills and replaces those whose version isn't the wanted one."""
        for place, worker in enumerate(self.running):
            wanted = PROJECT if place < number else self.old
            if worker.version != wanted:
                self.replace(place, wanted)

    def kill_one(self, choose: random.Random) -> None:
        place = choose.randrange(WORKERS)
        self.replace(place, self.running[place].version)

    def replace(self, place: int, version: Path) -> None:
        assert self.running[place].process.poll() is None, "a process ended by itself"
        self.running[place].process.kill()
        self.running[place].process.wait()
        self.kills["old" if self.running[place].version == self.old else "new"] += 1
        self.running[place] = self._start(version)

    def stop(self) -> None:
        for worker in self.running:
            worker.process.kill()
            worker.process.wait()

    def done(self, version: Path) -> int:
        """The messages that the version has done."""
        lines = self.log_of(version).read_text().splitlines()
        return sum(int(line.split()[0]) for line in lines if line[:1].isdigit())


def unpacked(revision: str, folder: Path) -> Path:
    archive = subprocess.run(["git", "archive", revision], cwd=PROJECT, check=True, capture_output=True).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        files.extractall(folder, filter="data")
    return folder


@pytest.mark.exhaustive
@pytest.mark.timeout(2 * 3600)
@pytest.mark.skipif(not OTHER, reason="needs TELLER_OTHER_VERSION, a revision to work beside")
def test_two_versions_at_work_while_killed_and_rolled_back_lose_and_double_nothing(tmp_path: Path, say: Say) -> None:
    bodies = believable_day(MESSAGES, 20 + MESSAGES // 100, 1, 0.2)
    choose = random.Random(1)
    with running(server.ministack(free_port(), tmp_path / "ministack.log")) as endpoint:
        limits = {"LONGEST_REDELIVERY_SECONDS": str(VISIBILITY_SECONDS), "MAXIMUM_WAITS": "30"}
        ledger = Ledger(endpoint, POWERTOOLS_LOG_LEVEL="CRITICAL", **limits)
        queue, sqs = ledger.worker.worker.queue, endpoint.client("sqs")
        sqs.set_queue_attributes(QueueUrl=queue.url, Attributes={"VisibilityTimeout": str(VISIBILITY_SECONDS)})

        def send(batch: tuple[str, ...]) -> None:
            entries = [{"Id": str(number), "MessageBody": body} for number, body in enumerate(batch)]
            sqs.send_message_batch(QueueUrl=queue.url, Entries=entries)

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(send, itertools.batched(bodies, 10, strict=False)))
        variables = limits | {
            "QUEUE_URL": queue.url,
            "DEAD_LETTER_QUEUE_URL": queue.dead_letter_url,
            "ATTEMPTS_TABLE": ledger.worker.attempts.table,
            "LOCKS_TABLE": ledger.locks_table,
            "POWERTOOLS_LOG_LEVEL": "CRITICAL",
        }
        given = {"url": endpoint.url, "tables": dataclasses.asdict(ledger.tables), "variables": variables}
        workers = Workers(unpacked(OTHER, tmp_path / "old"), tmp_path, json.dumps(given))
        began = killed = time.monotonic()
        try:
            while (left := waiting_messages(sqs, queue.url)) and time.monotonic() < began + LONGEST_SECONDS:
                share = 1 - left / len(bodies)
                workers.have_new(next(number for until, number in NEW_WORKERS if share <= until))
                if time.monotonic() > killed + SECONDS_BETWEEN_KILLS:
                    workers.kill_one(choose)
                    killed = time.monotonic()
                time.sleep(0.5)
        finally:
            workers.stop()
        books, letters = ledger.books, ledger.dead_letters()
    done = {"old": workers.done(workers.old), "new": workers.done(PROJECT)}
    wrong = [f"a dead letter isn't poison, or has no reason: {letter}" for letter in letters if not is_poison(letter)]
    found = [*violations(books), *vanished(bodies, books, letters), *wrong]
    say(
        f"{len(bodies):,} messages in {time.monotonic() - began:.0f} s, {left} left; done by {done},"
        f" kills {dict(workers.kills)}; {len(books.entries):,} entries, {len(letters)} dead letters:"
        f" {len(found)} violations {found[:3]}"
    )
    assert (left, found) == (0, [])
    assert min(done.values()) > len(bodies) / 10
    assert min(workers.kills.values()) > 2
