"""The phases of a soak: kills until the queues are empty, last scheduled runs, a repetition, and the checks."""

import contextlib
import math
import random
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime

from tests.checkers import books as books_checker
from tests.checkers import profiles as profiles_checker
from tests.checkers.books import Books
from tests.checkers.outcomes import REFUSED
from tests.checkers.profiles import Profiles
from tests.checkers.windows import charged_twice, open_though_expired, wrongly_charged
from tests.soak.function_logs import FunctionLog, read_log
from tests.soak.hearing import CLAIMS as HEARING_CLAIMS
from tests.soak.hearing import Hearing, hear
from tests.soak.outage import OF_EVENTBRIDGE, OF_TABLES_AND_QUEUES, Outage
from tests.soak.process_killer import ProcessKiller
from tests.soak.scheduled_runs import JOBS, ScheduledRuns
from tests.soak.watch import Sample, Watch
from tests.soak.workload import Workload, make_workload
from tests.support.deployed import Bank
from tools.local_aws.jobs import function_name
from tools.local_aws.queues import DeadLetter

LETTERS_CLAIMS = ("the queues drain", "dead letters are poison only, and none is a message of a job")
RUNS_CLAIMS = (
    "each scheduled job was done once, however often it was delivered and killed",
    "no reconciliation found a mismatch",
    "no account was charged interest twice for a day",
    "at the end, with empty queues, each overdrawn account was charged, and no other",
    "at the end, with empty queues, no hold is open that has expired",
)
FUNCTIONS = ("process_transactions", "upsert_profiles", "publish_outcomes", *JOBS)
PARAMETERS = {"MaximumConcurrency": 4, "LogLevel": "DEBUG"}
"""The stack's parameters. Four concurrent batches of each queue are as many as two cores can restart continually,
because each kill costs a cold start. At DEBUG each posted message is a line.
"""
OUTAGE_CLAIMS = ("in an outage nothing is posted, and within a minute of its end the queues move again",)
LAST_COMMITS_SECONDS = 5
RECOVERY_SECONDS = 60
REPETITION_CLAIMS = ("sending messages again changes nothing, and no outcome is told of again",)


@dataclass(frozen=True)
class Plan:
    """The parameters of a soak. It fails if the queues aren't empty within `minutes`.

    `visibility_seconds` is the time until a killed function's messages are redelivered, and the longest until returned
    ones are. It is less than the functions' timeout, so that sometimes a batch is redelivered while it is still being
    processed. `again_share` is the share of the messages that is sent again at the end. The outage begins after a third
    of the messages, that of EventBridge after two thirds.
    """

    messages: int
    seed: int
    minutes: float
    mean_messages_between_kills: float = 100
    seconds_between_runs: float = 45
    visibility_seconds: int = 10
    again_share: float = 1.0
    outage_seconds: float = 60
    eventbridge_outage_seconds: float = 15


@dataclass(frozen=True)
class Quiescence:
    """The tables and dead letters when the queues are empty."""

    books: Books
    profiles: Profiles
    dead_transactions: list[DeadLetter]
    dead_updates: list[DeadLetter]


@dataclass(frozen=True)
class Soaked:
    """The results of a soak. Times are in seconds since the epoch.

    The queues were first empty at `drained_at`, and the repetition began at `end`. `died` counts the processes that
    died in an invocation, by what they worked on. `tickets` were taken in the lines of contended accounts.
    `found` has a sentence for each violation of the claims.
    """

    plan: Plan
    workload: Workload
    start: float
    drained_at: float
    end: float
    samples: list[Sample]
    killed_at: list[float]
    outage: Outage
    eventbridge_outage: Outage
    died: dict[str, int]
    tickets: int
    scheduled_runs: ScheduledRuns
    quiescence: Quiescence
    hearing: Hearing
    logs: dict[str, FunctionLog]
    again: Workload
    found: dict[Sequence[str], list[str]]

    @property
    def violations(self) -> list[str]:
        return [sentence for sentences in self.found.values() for sentence in sentences]


def soak(bank: Bank, plan: Plan, show: Callable[[str, Sample, int], None]) -> Soaked:
    """Runs a soak. `show` gets the phase, the waiting messages and the number of kills so far. Raises StillWaiting."""
    seconds = plan.visibility_seconds
    with contextlib.ExitStack() as changed:
        for queue in (bank.transactions, bank.profiles):
            changed.enter_context(queue.visibility_timeout(seconds))
            changed.enter_context(queue.changed_environment(LONGEST_REDELIVERY_SECONDS=str(seconds)))
        return _soak(bank, plan, show)


def _soak(bank: Bank, plan: Plan, show: Callable[[str, Sample, int], None]) -> Soaked:
    workload, runs = make_workload(plan.messages, plan.seed), ScheduledRuns(bank.stack)
    killer = ProcessKiller(bank, random.Random(plan.seed), plan.mean_messages_between_kills)
    start, died_before, tickets_before = time.time(), _died(bank), bank.tickets_taken()
    watch = Watch(bank, start + plan.minutes * 60)
    third = (len(workload.transactions) + len(workload.updates)) // 3
    outage = Outage(bank, OF_TABLES_AND_QUEUES, third, plan.outage_seconds)
    eventbridge_outage = Outage(bank, OF_EVENTBRIDGE, 2 * third, plan.eventbridge_outage_seconds)
    outages = (outage, eventbridge_outage)
    consumer = bank.new_consumer("hears-everything")

    def while_killing(sample: Sample) -> None:
        killer.progressed(sample.done)
        for each in outages:
            each.progressed(sample.done)
        show(
            "outage" if any(each.began and not each.ended for each in outages) else "with kills",
            sample,
            len(killer.killed_at),
        )

    def after_killing(sample: Sample) -> None:
        show("without kills", sample, len(killer.killed_at))

    with runs.short_timeouts():
        with (
            contextlib.closing(outage),
            contextlib.closing(eventbridge_outage),
            runs.scheduling(plan.seconds_between_runs),
        ):
            _send(bank, workload, watch, while_killing)
        drained_at, died = time.time(), _died(bank)
        runs.wait_until_done()
        watch.until_drained(after_killing)

    overdrawn = bank.books()
    last_time = runs.schedule_next()
    runs.wait_until_done()
    watch.until_drained(after_killing)
    after_night = bank.books()
    wrong_runs = [
        *runs.not_done(),
        *runs.done_twice(),
        *runs.mismatches(),
        *wrongly_charged(overdrawn, after_night, last_time.date()),
        *open_though_expired(after_night, last_time),
    ]
    end, quiescence = time.time(), _quiescence(bank)
    logs = {name: read_log(bank.stack, function_name(bank.stack, name), start, end) for name in FUNCTIONS}
    hearing = hear(bank, consumer, quiescence.books, quiescence.dead_transactions, plan.seed)
    again = _some(workload, plan)
    _send(bank, again, watch, after_killing)
    told_again = [event for event in consumer.take() if event["detail-type"] != REFUSED]

    return Soaked(
        plan,
        workload,
        start,
        drained_at,
        end,
        watch.samples,
        killer.killed_at,
        outage,
        eventbridge_outage,
        {name: died[name] - died_before[name] for name in died},
        bank.tickets_taken() - tickets_before,
        runs,
        quiescence,
        hearing,
        logs,
        again,
        _found(workload, quiescence)
        | {
            OUTAGE_CLAIMS: list(_wrong_outage(outage, quiescence.books)),
            RUNS_CLAIMS: [*wrong_runs, *charged_twice(quiescence.books)],
            HEARING_CLAIMS: hearing.violations,
            REPETITION_CLAIMS: [
                *_changed(quiescence, _quiescence(bank), {*again.transactions, *again.updates}),
                *(f"told of again: {event}" for event in told_again),
            ],
        },
    )


def _died(bank: Bank) -> dict[str, int]:
    functions = {queue.name: queue.function_name for queue in (bank.transactions, bank.profiles)}
    return {name: bank.died_at_work(function) for name, function in (functions | {"Outcomes": bank.publisher}).items()}


def _send(bank: Bank, workload: Workload, watch: Watch, show: Callable[[Sample], None]) -> None:
    """Sends to both queues concurrently, and waits until they are empty."""
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


def _quiescence(bank: Bank) -> Quiescence:
    dead_transactions, dead_updates = bank.transactions.take_dead_letters(), bank.profiles.take_dead_letters()
    return Quiescence(bank.books(), bank.read_profiles(), dead_transactions, dead_updates)


def _found(workload: Workload, quiescence: Quiescence) -> dict[Sequence[str], list[str]]:
    profiles = {name: profile for name, profile in quiescence.profiles.items() if name.startswith("soak-")}
    sent = set(workload.transactions)
    latest = profiles_checker.upserted(workload.updates, quiescence.dead_updates)
    return {
        books_checker.CLAIMS: [
            *books_checker.violations(quiescence.books),
            *books_checker.vanished(workload.transactions, quiescence.books, quiescence.dead_transactions),
        ],
        profiles_checker.CLAIMS: [
            *profiles_checker.violations(profiles, latest),
            *profiles_checker.vanished(workload.updates, quiescence.dead_updates),
        ],
        LETTERS_CLAIMS: [
            f"a dead letter isn't poison, or has no reason, or is a job's: {letter}"
            for letter in quiescence.dead_transactions
            if not books_checker.is_poison(letter) or letter.body not in sent
        ],
    }


def _wrong_outage(outage: Outage, books: Books) -> Iterator[str]:
    posted_at = [datetime.fromisoformat(entry.outcome.posted_at).timestamp() for entry in books.entries]
    if not outage.ended:
        yield "the queues were empty before the outage had ended"
    for at in posted_at:
        if outage.began + LAST_COMMITS_SECONDS < at < outage.ended:
            yield f"posted {at - outage.began:.1f} s after the outage began, and before it ended"
    if min((at for at in posted_at if at > outage.ended), default=math.inf) > outage.ended + RECOVERY_SECONDS:
        yield f"nothing was posted in the {RECOVERY_SECONDS} s after the outage"


def _changed(before: Quiescence, after: Quiescence, sent: set[str]) -> Iterator[str]:
    if after.books != before.books:
        entries = len(after.books.entries) - len(before.books.entries)
        yield f"sending messages again changed the books: {entries} entries more"
    for name in before.profiles.keys() | after.profiles.keys():
        if before.profiles.get(name) != after.profiles.get(name):
            yield f"sending messages again changed {name}'s profile"
    for letters, again in (
        (before.dead_transactions, after.dead_transactions),
        (before.dead_updates, after.dead_updates),
    ):
        for body in ({letter.body for letter in letters} & sent) ^ {letter.body for letter in again}:
            yield f"dead-lettered only once, although sent twice: {body}"
