"""A batch of transactions on accounts that other workers write, too: it waits in line."""

import contextlib
import itertools
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, override
from unittest import mock

from conditional_writes import Deadline
from conditional_writes.core.items import to_dynamodb
from ledger.fold import QueuedTransaction
from ledger.tables import CONTENDED_SECONDS, Line
from tests.faults.scenarios import ScenarioResult
from tests.faults.scenarios.posting import Posting
from tests.faults.scenarios.queues import before_call
from tests.support.bodies import openings, payment, transfer
from tests.support.clock import Clock, clock_of_lines
from tests.support.faults import FaultsAt, one_call_at_a_time
from tools.local_aws.functions import invoke, record
from tools.local_aws.server import Endpoint
from tools.local_aws.tables import refill, scan
from workers.batches import Measurement

SERVED = 40
HELD_SECONDS = 30
"""The longest time, by the wall clock, until a worker that is held back goes on."""
DELIVERY_SECONDS = 3.0
"""By the clock of lines, the time from one delivery to the next."""


class LineBefore(NamedTuple):
    """An account's line when the scenario begins. `last_ticket` is None if the line has no record."""

    last_ticket: int | None = SERVED
    is_contended: bool = True


QUIET, CONTENDED = LineBefore(is_contended=False), LineBefore()
DEAD_WORKER = LineBefore(SERVED + 1)
MANY_DEAD_WORKERS = LineBefore(SERVED + 9)
BEGUN_ANEW = LineBefore(None)
FAR_AHEAD = LineBefore(SERVED + 500)

type OthersAtWork = Callable[["InLine"], AbstractContextManager[None]]


class InLine(Posting):
    """The clock of lines begins anew each time."""

    def __init__(self, aws: Endpoint, dynamodb: Endpoint, case: "Case") -> None:
        super().__init__(aws, dynamodb, case.batch)
        self._case, self._clock = case, Clock()
        there = openings(*ACCOUNTS, limit=-10) + (list(case.batch) if case.posted_before else [])
        assert not self.ledger.returned(*there, worker=self.other)
        self._tables = self.ledger.tables
        self._accounts = self.ledger.items(self._tables.accounts)
        self._journal = list(scan(dynamodb, self._tables.journal))

    @override
    def __call__(self, faults: FaultsAt) -> ScenarioResult:
        self._clock = Clock()
        with clock_of_lines(self._clock), one_call_at_a_time():
            _, left, wrong = super().__call__(faults)
        # A ticket is nobody's if its request failed, although it took effect. The line waits for it once.
        failed = [faults.calls[at - 1] for at in faults.plan if at <= len(faults.calls)]
        return ScenarioResult(faults, left, wrong if "UpdateItem" in failed else [*wrong, *self._standing_lines()])

    @override
    def _fill_tables(self) -> None:
        super()._fill_tables()
        contended_until = {"contended_until": round((self._clock() + CONTENDED_SECONDS) * 1000)}
        lines = self._case.lines
        accounts = [
            account
            | ({"ticket_served": SERVED} if account["account_id"] in lines else {})
            | (contended_until if lines.get(account["account_id"], QUIET).is_contended else {})
            for account in self._accounts
        ]
        refill(self.ledger.dynamodb, self._tables.accounts, list(map(to_dynamodb, accounts)))
        refill(self.ledger.dynamodb, self._tables.journal, self._journal)
        records = [
            {"lock_key": f"line {name}", "last_ticket": line.last_ticket}
            for name, line in lines.items()
            if line.last_ticket is not None
        ]
        refill(self.ledger.dynamodb, self.ledger.locks_table, list(map(to_dynamodb, records)))

    @override
    def _others_at_work(self, records: Sequence[dict[str, Any]]) -> AbstractContextManager[None]:
        return self._case.at_work(self) if self._case.at_work else contextlib.nullcontext()

    @override
    def _post(self, messages: Sequence[QueuedTransaction], deadline: Deadline) -> list[Measurement]:
        self._clock.seconds += DELIVERY_SECONDS
        return super()._post(messages, deadline)

    def _standing_lines(self) -> Iterator[str]:
        """A sentence for each line in which the next worker would wait for nobody."""
        accounts = {item["account_id"]: item for item in self.ledger.items(self._tables.accounts)}
        for name, last_ticket in self._last_tickets().items():
            line = Line.of(accounts[name])
            ahead = last_ticket - line.ticket_served
            if ahead > self._case.left_behind and line.contended_until / 1000 > self._clock():
                yield f"{ahead} tickets of {name} are still to be served, and nobody has them"

    def _last_tickets(self) -> dict[str, int]:
        records = self.ledger.items(self.ledger.locks_table)
        named = {item["lock_key"]: item for item in records if item["lock_key"].startswith(LINE)}
        return {name.removeprefix(LINE): int(item["last_ticket"]) for name, item in named.items()}


@contextlib.contextmanager
def a_worker_ahead(scenario: InLine) -> Iterator[None]:
    """Another worker has the ticket before the scenario's, and commits at its second look.

    If the scenario commits without a ticket, because it couldn't take one, the other worker is first all the same.
    """
    reached, looked_twice = threading.Event(), threading.Event()
    looks = itertools.count(1)

    def hold(**_: Any) -> None:
        reached.set()
        assert looked_twice.wait(HELD_SECONDS)

    def look(**_: Any) -> None:
        if next(looks) == 2:
            go_on()

    def go_on(**_: Any) -> None:
        looked_twice.set()
        committed.result()

    with (
        ThreadPoolExecutor(1) as thread,
        before_call(scenario.other.poster.client, "TransactWriteItems", hold),
        before_call(scenario.client, "GetItem", look),
        before_call(scenario.client, "TransactWriteItems", go_on),
    ):
        committed = thread.submit(invoke, scenario.other, list(map(record, THEIRS)))
        assert reached.wait(HELD_SECONDS)
        yield
        looked_twice.set()
        assert not committed.result()


def others_first(*batches: Sequence[object], with_a_ticket: bool = False) -> OthersAtWork:
    """Other workers commit one of these batches before each of the scenario's first commits.

    They don't know of the line; or they take the ticket after the scenario's, and lose their patience.
    """

    @contextlib.contextmanager
    def at_work(scenario: InLine) -> Iterator[None]:
        waiting = iter(batches)

        def commit(**_: Any) -> None:
            for batch in itertools.islice(waiting, 1):
                unaware = mock.patch.object(Line, "is_contended", new=False)
                with contextlib.nullcontext() if with_a_ticket else unaware:
                    assert not invoke(scenario.other, list(map(record, batch)))

        with before_call(scenario.client, "TransactWriteItems", commit):
            yield

    return at_work


LINE = "line "
ACCOUNTS = ("alice", "bob", "carol", "dave", "erin")
OURS: list[Any] = [payment("1", 5), payment("2", -100), payment("1", 5)]
"""A posting, a rejection and a repetition."""
THEIRS: list[Any] = [payment("8", 5), payment("9", -3)]
a_worker_without_a_ticket = others_first(THEIRS)
two_workers_without_a_ticket = others_first(THEIRS[:1], THEIRS[1:])
an_impatient_worker = others_first(THEIRS, with_a_ticket=True)
TRANSFERS: list[Any] = [transfer("1", 7), transfer("2", 4)]
MESH: list[Any] = [transfer(str(number), 2, *pair) for number, pair in enumerate(itertools.pairwise(ACCOUNTS))]


class Case(NamedTuple):
    """A batch on accounts with these lines, while others are `at_work`.

    `left_behind` tickets may stay unserved at the end: those that a commit, which had nothing to write, couldn't give
    up for a fault.
    """

    lines: Mapping[str, LineBefore]
    at_work: OthersAtWork | None = None
    batch: Sequence[object] = OURS
    posted_before: bool = False
    left_behind: int = 0


CASES = {
    "nobody ahead": Case({"alice": CONTENDED}),
    "a worker ahead": Case({"alice": DEAD_WORKER}, a_worker_ahead),
    "a dead worker ahead, and a quiet account beside": Case(
        {"alice": DEAD_WORKER}, batch=[*OURS, payment("3", 5, "carol")]
    ),
    "a dead worker ahead": Case({"alice": DEAD_WORKER}),
    "many dead workers ahead": Case({"alice": MANY_DEAD_WORKERS}),
    "a turn that is stolen without a ticket": Case({"alice": CONTENDED}, a_worker_without_a_ticket),
    "a turn that the next in line takes": Case({"alice": CONTENDED}, an_impatient_worker),
    "a line begun anew": Case({"alice": BEGUN_ANEW}),
    "a line too long": Case({"alice": FAR_AHEAD}),
    "a lost commit": Case({"alice": QUIET}, a_worker_without_a_ticket),
    "two lost commits": Case({"alice": QUIET}, two_workers_without_a_ticket),
    "two lost commits and a dead worker ahead": Case(
        {"alice": QUIET._replace(last_ticket=SERVED + 1)}, two_workers_without_a_ticket
    ),
    "two lost commits and a line too long": Case(
        {"alice": FAR_AHEAD._replace(is_contended=False)}, two_workers_without_a_ticket
    ),
    "nothing left to write": Case({"alice": CONTENDED}, posted_before=True, left_behind=1),
    "transfers between two lines": Case({"alice": DEAD_WORKER, "bob": CONTENDED}, batch=TRANSFERS),
    "a mesh": Case(dict.fromkeys(ACCOUNTS, CONTENDED), batch=[*MESH, payment("1", 5)]),
    "a mesh that a worker meets without a turn": Case(
        dict.fromkeys(ACCOUNTS, CONTENDED), a_worker_without_a_ticket, [*MESH, payment("1", 5)]
    ),
    "two lost commits of transfers": Case({"alice": CONTENDED, "bob": QUIET}, two_workers_without_a_ticket, TRANSFERS),
}
