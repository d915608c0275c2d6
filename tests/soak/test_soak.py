"""A soak of the deployed template.yaml: function processes are killed while messages and jobs are processed.

`make soak` runs a long one, with TELLER_SOAK_MESSAGES. A killed process of ministack corresponds to a lost execution
environment on AWS: its invocation fails, and its batch is redelivered after the visibility timeout.
"""

import contextlib
import itertools
import os
import random
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.checkers import books as books_checker
from tests.checkers import outcomes
from tests.checkers import profiles as profiles_checker
from tests.checkers.books import Books
from tests.checkers.profiles import Profiles
from tests.checkers.windows import charged_twice, due_though_charged, open_though_expired
from tests.soak.scheduled_runs import ScheduledRuns
from tests.support.deployed import Bank, FunctionQueue, until
from tests.support.reporting import Say
from tools.local_aws import server, stack
from tools.local_aws.day import believable_day
from tools.local_aws.profiles_day import believable_updates
from tools.local_aws.queues import DeadLetter
from tools.local_aws.server import free_port, running

MESSAGES = int(os.environ.get("TELLER_SOAK_MESSAGES", "600"))
REPEATED_SHARE = 0.2
MESSAGES_BETWEEN_KILLS = max(15, MESSAGES // 200)
ALL_AT_ONCE_SHARE = 0.03
VISIBILITY_SECONDS = 8
"""Less than the functions' timeout: sometimes a batch is redelivered while it is still being processed."""
SECONDS_BETWEEN_RUNS = 30
LONGEST_SECONDS = 3600
LONGEST_SILENCE_SECONDS = 60
CONCURRENCY = 4
"""Concurrent batches of each queue: as many as two cores can restart continually, because each kill is a cold start."""


@dataclass
class ProcessKiller:
    """Sends SIGKILL to function processes at random moments, mostly to one, sometimes to all.

    Moments are counted in messages, not in seconds: if starting a function takes long, kills by the clock would end
    each process before it did anything.
    """

    bank: Bank
    choose: random.Random
    next_kill: float = 0.0

    def progressed(self, messages_done: int) -> None:
        if messages_done >= self.next_kill:
            self.next_kill = messages_done + self.choose.expovariate(1 / MESSAGES_BETWEEN_KILLS)
            processes = self.bank.function_processes()
            if processes and self.choose.random() >= ALL_AT_ONCE_SHARE:
                processes = [self.choose.choice(processes)]
            self.bank.kill(processes)


class Quiescence(NamedTuple):
    """The tables and dead letters when the queues are empty."""

    books: Books
    profiles: Profiles
    dead_transactions: list[DeadLetter]
    dead_updates: list[DeadLetter]


class Soak:
    """A day of transactions and of profile updates, sent to both queues at once until these are empty."""

    def __init__(self, bank: Bank) -> None:
        self.bank, self.deadline = bank, time.monotonic() + LONGEST_SECONDS
        accounts = 20 + MESSAGES // 100
        self.transactions = believable_day(MESSAGES, accounts, 1, REPEATED_SHARE)
        self.updates = believable_updates(MESSAGES // 5, accounts, 1, REPEATED_SHARE)

    def send(self, progressed: Callable[[int], None] = lambda _: None) -> None:
        """`progressed` is told how many messages are done."""
        sent = 0

        def send(queue: FunctionQueue, bodies: Iterable[str]) -> None:
            nonlocal sent
            for batch in itertools.batched(bodies, 10, strict=False):
                queue.send(*batch)
                sent += len(batch)

        with ThreadPoolExecutor(2) as pool:
            transactions = pool.submit(send, self.bank.transactions, self.transactions)
            sending = [transactions, pool.submit(send, self.bank.profiles, self.updates)]

            def all_sent() -> bool:
                return all(each.done() for each in sending)

            self.wait_until_drained(lambda waiting: progressed(sent - waiting), all_sent)
            for each in sending:
                each.result()

    def wait_until_drained(
        self, seen: Callable[[int], None] = lambda _: None, all_sent: Callable[[], bool] = lambda: True
    ) -> None:
        def is_drained() -> bool:
            is_all_sent = all_sent()
            waiting = self.bank.transactions.waiting() + self.bank.profiles.waiting()
            seen(waiting)
            return is_all_sent and not waiting

        until(is_drained, "the queues are empty", self.deadline - time.monotonic())

    def quiescence(self) -> Quiescence:
        letters = (self.bank.transactions.take_dead_letters(), self.bank.profiles.take_dead_letters())
        return Quiescence(self.bank.books(), self.bank.read_profiles(), *letters)

    def violations(self, quiet: Quiescence) -> Iterator[str]:
        yield from books_checker.violations(quiet.books)
        yield from books_checker.vanished(self.transactions, quiet.books, quiet.dead_transactions)
        upserted = profiles_checker.upserted(self.updates, quiet.dead_updates)
        yield from profiles_checker.violations(quiet.profiles, upserted)
        yield from profiles_checker.vanished(self.updates, quiet.dead_updates)
        for letter in quiet.dead_transactions:
            if not books_checker.is_poison(letter) or letter.body not in self.transactions:
                yield f"a dead letter isn't poison, or has no reason, or is a job's: {letter}"

    def changed(self, before: Quiescence, after: Quiescence) -> Iterator[str]:
        """What sending all messages again has changed."""
        if after[:2] != before[:2]:
            yield "sending messages again changed the books or the profiles"
        sent = {*self.transactions, *self.updates}
        for letters, again in zip(before[2:], after[2:], strict=True):
            for body in ({letter.body for letter in letters} & sent) ^ {letter.body for letter in again}:
                yield f"dead-lettered only once, although sent twice: {body}"


@pytest.fixture
def bank(built: None, tmp_path: Path) -> Iterator[Bank]:
    log = tmp_path / "ministack.log"
    started = server.ministack(free_port(), log)
    with running(started) as endpoint, contextlib.ExitStack() as changed:
        bank = Bank(stack.deploy(endpoint, MaximumConcurrency=CONCURRENCY), started[1].pid, log)
        for queue in (bank.transactions, bank.profiles):
            changed.enter_context(queue.visibility_timeout(VISIBILITY_SECONDS))
            changed.enter_context(queue.changed_environment(LONGEST_REDELIVERY_SECONDS=str(VISIBILITY_SECONDS)))
        yield bank


@pytest.mark.exhaustive
@pytest.mark.timeout(2 * 3600)
@pytest.mark.skipif(sys.platform != "linux", reason="finds the functions' processes in /proc")
def test_functions_killed_while_working_do_everything_exactly_once(bank: Bank, say: Say) -> None:
    soak, runs = Soak(bank), ScheduledRuns(bank.stack, SECONDS_BETWEEN_RUNS)
    killer, consumer = ProcessKiller(bank, random.Random(1)), bank.new_consumer("hears-everything")

    def trouble(messages_done: int) -> None:
        runs.progressed(messages_done)
        killer.progressed(messages_done)

    with runs.short_timeouts():
        soak.send(trouble)
        died = sum(map(bank.died_at_work, (bank.transactions.function_name, bank.profiles.function_name)))
        runs.wait_until_done()
        soak.wait_until_drained()

    last_time = runs.schedule_next()
    runs.wait_until_done()
    soak.wait_until_drained()
    quiet = soak.quiescence()
    events = consumer.take_until_heard(quiet.books.entries, LONGEST_SILENCE_SECONDS)
    soak.send()
    violations = [
        *soak.violations(quiet),
        *runs.violations(),
        *charged_twice(quiet.books),
        *due_though_charged(quiet.books),
        *open_though_expired(quiet.books, last_time),
        *outcomes.violations(quiet.books.entries, events),
        *outcomes.refusal_violations(quiet.dead_transactions, events),
        *(f"an outcome was given up: {letter}" for letter in bank.take_unpublished()),
        *soak.changed(quiet, soak.quiescence()),
        *(f"told of again: {event}" for event in consumer.take() if event["detail-type"] != outcomes.REFUSED),
    ]
    say(
        f"{died} processes died; {len(runs.times)} scheduled times, {len(quiet.books.entries):,} entries,"
        f" {len(events):,} events: {len(violations)} violations"
    )
    assert violations == []
    assert died > 0
    assert quiet.books.counts()["POSTED"] > MESSAGES / 2
    assert {"hold", "post_hold", "void_hold", "expire_hold", "reverse"} <= quiet.books.types().keys()
    assert len(runs.times) >= 2, "one during the kills, and the last one"
