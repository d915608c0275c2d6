"""The order of a soak: kill until the queues are empty, a last night, send all once more, and say what was found."""

import random
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from tests.checkers import books as books_checker
from tests.checkers import profiles as profiles_checker
from tests.checkers.books import Books
from tests.checkers.profiles import Profiles
from tests.checkers.windows import charged_twice, wrongly_charged
from tests.soak.function_logs import FunctionLog, read_log
from tests.soak.process_killer import ProcessKiller
from tests.soak.scheduled_runs import JOBS, ScheduledRuns
from tests.soak.watch import Sample, Watch
from tests.soak.workload import Workload, make_workload
from tests.support.deployed import Bank
from tools.local_aws.jobs import function_name
from tools.local_aws.queues import DeadLetter

LETTERS_CLAIMS = ("the queues drain", "dead letters are poison only")
RUNS_CLAIMS = (
    "each job of each night was done, once, however often it was delivered and killed",
    "no reconciliation found a mismatch",
    "no account was charged interest twice for a day",
    "at last, with nothing on the way, each overdrawn account was charged, and no other",
)
FUNCTIONS = ("process_transactions", "upsert_profiles", *JOBS)
PARAMETERS = {"MaxReceiveCount": 50, "MaximumConcurrency": 4}
"""The stack's. Each death uses up a delivery, and these are many more than the template's six are meant for. Four
batches of each queue at once is what two cores can start anew all the time: each killed process costs its successor a
cold start.
"""
AGAIN_CLAIMS = ("what is sent once more changes nothing",)


@dataclass(frozen=True)
class Plan:
    """Processes are killed until the queues are empty. The soak fails if that takes more than `minutes`.

    `visibility_seconds`: how soon the queues deliver again what a function died with. It is less than the functions'
    timeout, so now and then a batch is delivered while it is still worked on, too. `again_share`: of all messages, what
    is sent once more at the end.
    """

    messages: int
    seed: int
    minutes: float
    mean_messages_between_kills: float = 100
    seconds_between_nights: float = 45
    visibility_seconds: int = 10
    again_share: float = 1.0


@dataclass(frozen=True)
class AtRest:
    """All that is there when the queues are empty."""

    books: Books
    profiles: Profiles
    refused: list[DeadLetter]
    unfit: list[DeadLetter]


@dataclass(frozen=True)
class Soaked:
    """Times are seconds since the epoch: the queues were first empty at `drained_at`; the repetition began at `end`.

    `died`: how often a function did while it worked, by its name in the stack's outputs. `found`: a sentence for each
    thing that speaks against the claims.
    """

    plan: Plan
    workload: Workload
    start: float
    drained_at: float
    end: float
    samples: list[Sample]
    killed_at: list[float]
    died: dict[str, int]
    scheduled_runs: ScheduledRuns
    at_rest: AtRest
    logs: dict[str, FunctionLog]
    again: Workload
    found: dict[Sequence[str], list[str]]

    @property
    def violations(self) -> list[str]:
        return [sentence for sentences in self.found.values() for sentence in sentences]


def soak(bank: Bank, plan: Plan, show: Callable[[str, Sample, int], None]) -> Soaked:
    """`show` gets what happens now, the messages that wait, and how many were killed so far. Raises StillWaiting."""
    seconds = plan.visibility_seconds
    with bank.transactions.visibility_timeout(seconds), bank.profiles.visibility_timeout(seconds):
        return _soak(bank, plan, show)


def _soak(bank: Bank, plan: Plan, show: Callable[[str, Sample, int], None]) -> Soaked:
    workload, runs = make_workload(plan.messages, plan.seed), ScheduledRuns(bank.stack)
    killer = ProcessKiller(bank, random.Random(plan.seed), plan.mean_messages_between_kills)
    start, died_before = time.time(), _died(bank)
    watch = Watch(bank, start + plan.minutes * 60)

    def while_killing(sample: Sample) -> None:
        killer.progressed(sample.done)
        show("processes are killed", sample, len(killer.killed_at))

    def after_killing(sample: Sample) -> None:
        show("none is killed", sample, len(killer.killed_at))

    with runs.short_timeouts():
        with runs.passing(plan.seconds_between_nights):
            _send(bank, workload, watch, while_killing)
        drained_at, died = time.time(), _died(bank)
        runs.settle()
        watch.until_drained(after_killing)

    overdrawn = bank.books()
    last_night = runs.fall()
    runs.settle()
    watch.until_drained(after_killing)
    wrong_runs = [
        *runs.not_done(),
        *runs.done_twice(),
        *runs.mismatches(),
        *wrongly_charged(overdrawn, bank.books(), last_night.date()),
    ]
    end, at_rest = time.time(), _at_rest(bank)
    logs = {name: read_log(bank.stack, function_name(bank.stack, name), start, end) for name in FUNCTIONS}
    again = _some(workload, plan)
    _send(bank, again, watch, after_killing)

    return Soaked(
        plan,
        workload,
        start,
        drained_at,
        end,
        watch.samples,
        killer.killed_at,
        {name: died[name] - died_before[name] for name in died},
        runs,
        at_rest,
        logs,
        again,
        _found(workload, at_rest)
        | {
            RUNS_CLAIMS: [*wrong_runs, *charged_twice(at_rest.books)],
            AGAIN_CLAIMS: list(_changed(at_rest, _at_rest(bank), {*again.transactions, *again.updates})),
        },
    )


def _died(bank: Bank) -> dict[str, int]:
    return {line.name: bank.died_at_work(line) for line in (bank.transactions, bank.profiles)}


def _send(bank: Bank, workload: Workload, watch: Watch, show: Callable[[Sample], None]) -> None:
    """To both queues at once. Returns once they are empty again."""
    with ThreadPoolExecutor(2) as pool:
        sending = [
            pool.submit(bank.transactions.send, watch.counting("transactions", workload.transactions)),
            pool.submit(bank.profiles.send, watch.counting("updates", workload.updates)),
        ]
        watch.until_drained(show, lambda: not all(sender.done() for sender in sending))
        for sender in sending:
            sender.result()


def _some(workload: Workload, plan: Plan) -> Workload:
    choose = random.Random(plan.seed)
    return Workload(
        choose.sample(workload.transactions, round(len(workload.transactions) * plan.again_share)),
        choose.sample(workload.updates, round(len(workload.updates) * plan.again_share)),
    )


def _at_rest(bank: Bank) -> AtRest:
    refused, unfit = bank.transactions.take_dead_letters(), bank.profiles.take_dead_letters()
    return AtRest(bank.books(), bank.read_profiles(), refused, unfit)


def _found(workload: Workload, at_rest: AtRest) -> dict[Sequence[str], list[str]]:
    profiles = {name: profile for name, profile in at_rest.profiles.items() if name.startswith("soak-")}
    latest = profiles_checker.upserted(workload.updates, at_rest.unfit)
    return {
        books_checker.CLAIMS: [
            *books_checker.violations(at_rest.books),
            *books_checker.vanished(workload.transactions, at_rest.books, at_rest.refused),
        ],
        profiles_checker.CLAIMS: [
            *profiles_checker.violations(profiles, latest),
            *profiles_checker.vanished(workload.updates, at_rest.unfit),
        ],
        LETTERS_CLAIMS: [
            f"a dead letter is no poison, or has no reason: {letter}"
            for letter in at_rest.refused
            if not books_checker.is_poison(letter)
        ],
    }


def _changed(before: AtRest, after: AtRest, sent: set[str]) -> Iterator[str]:
    if after.books != before.books:
        entries = len(after.books.entries) - len(before.books.entries)
        yield f"everything sent again changed the books: {entries} entries more"
    for name in before.profiles.keys() | after.profiles.keys():
        if before.profiles.get(name) != after.profiles.get(name):
            yield f"everything sent again changed {name}'s profile"
    for letters, again in ((before.refused, after.refused), (before.unfit, after.unfit)):
        for body in ({letter.body for letter in letters} & sent) ^ {letter.body for letter in again}:
            yield f"dead-lettered the first time or the second, not both: {body}"
