"""The phases of a soak: kills until the queues are empty, last scheduled runs, a repetition, and the checks."""

import contextlib
import itertools
import random
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple

from tests.checkers import books as books_checker
from tests.checkers import outcomes
from tests.checkers import profiles as profiles_checker
from tests.checkers.books import Books
from tests.checkers.profiles import Profiles
from tests.checkers.windows import charged_twice, open_though_expired, wrongly_charged
from tests.soak.scheduled_runs import ScheduledRuns
from tests.soak.trouble import OF_EVENTBRIDGE, OF_TABLES_AND_QUEUES, Outage, ProcessKiller
from tests.soak.workload import Workload, make_workload
from tests.support.deployed import Bank, FunctionQueue, until
from tools.local_aws.queues import DeadLetter

LONGEST_SILENCE_SECONDS = 60


@dataclass(frozen=True)
class Plan:
    """The parameters of a soak. It fails if the queues aren't empty within `minutes`.

    `visibility_seconds` is the time until a killed function's messages are redelivered, and the longest until returned
    ones are. It is less than the functions' timeout, so that sometimes a batch is redelivered while it is still being
    processed. `again_share` is the share of the messages that is sent again at the end. The outage begins after a third
    of the messages, that of EventBridge after two thirds.
    """

    messages: int
    seed: int = 1
    minutes: float = 60
    mean_messages_between_kills: float = 100
    seconds_between_runs: float = 45
    visibility_seconds: int = 10
    again_share: float = 1.0
    outage_seconds: float = 60
    eventbridge_outage_seconds: float = 15


class Quiescence(NamedTuple):
    """The tables and dead letters when the queues are empty."""

    books: Books
    profiles: Profiles
    dead_transactions: list[DeadLetter]
    dead_updates: list[DeadLetter]


class Soaked(NamedTuple):
    """The results of a soak. `died` counts the processes that died in an invocation, `tickets` those of lines."""

    books: Books
    runs: int
    died: int
    tickets: int
    events: int
    violations: list[str]


def soak(bank: Bank, plan: Plan) -> Soaked:
    seconds = plan.visibility_seconds
    with contextlib.ExitStack() as changed:
        for queue in (bank.transactions, bank.profiles):
            changed.enter_context(queue.visibility_timeout(seconds))
            changed.enter_context(queue.changed_environment(LONGEST_REDELIVERY_SECONDS=str(seconds)))
        return _soak(bank, plan)


def _soak(bank: Bank, plan: Plan) -> Soaked:
    workload, runs = make_workload(plan.messages, plan.seed), ScheduledRuns(bank.stack, plan.seconds_between_runs)
    messages, deadline = [*workload.transactions, *workload.updates], time.monotonic() + plan.minutes * 60
    killer = ProcessKiller(bank, random.Random(plan.seed), plan.mean_messages_between_kills)
    outage = Outage(bank, OF_TABLES_AND_QUEUES, len(messages) // 3, plan.outage_seconds)
    of_events = Outage(bank, OF_EVENTBRIDGE, 2 * len(messages) // 3, plan.eventbridge_outage_seconds)
    consumer = bank.new_consumer("hears-everything")

    def trouble(messages_done: int) -> None:
        for each in (runs, killer, outage, of_events):
            each.progressed(messages_done)

    with runs.short_timeouts():
        with contextlib.closing(outage), contextlib.closing(of_events):
            _send(bank, workload, deadline, trouble)
        died = sum(map(bank.died_at_work, (bank.transactions.function_name, bank.profiles.function_name)))
        runs.wait_until_done()
        _wait_until_drained(bank, deadline)

    before_night = bank.books()
    last_time = runs.schedule_next()
    runs.wait_until_done()
    _wait_until_drained(bank, deadline)
    quiet = _quiescence(bank)
    events = consumer.take_until_heard(quiet.books.entries, LONGEST_SILENCE_SECONDS)
    choose = random.Random(plan.seed)
    again = Workload(
        *(choose.sample(bodies, round(len(bodies) * plan.again_share)) for bodies in vars(workload).values())
    )
    _send(bank, again, deadline)
    violations = [
        *_violations(workload, quiet),
        *runs.violations(),
        *charged_twice(quiet.books),
        *wrongly_charged(before_night, quiet.books, last_time.date()),
        *open_though_expired(quiet.books, last_time),
        *outcomes.violations(quiet.books.entries, events),
        *outcomes.refusal_violations(quiet.dead_transactions, events),
        *(f"an outcome was given up: {letter}" for letter in bank.take_unpublished()),
        *_changed(quiet, _quiescence(bank), {*again.transactions, *again.updates}),
        *(f"told of again: {event}" for event in consumer.take() if event["detail-type"] != outcomes.REFUSED),
    ]
    return Soaked(quiet.books, len(runs.times), died, bank.tickets_taken(), len(events), violations)


def _send(bank: Bank, workload: Workload, deadline: float, progressed: Callable[[int], None] = lambda _: None) -> None:
    """Sends to both queues concurrently, and waits until they are empty. `progressed` is told how many are done."""
    sent = 0

    def send(queue: FunctionQueue, bodies: Iterable[str]) -> None:
        nonlocal sent
        for batch in itertools.batched(bodies, 10, strict=False):
            queue.send(*batch)
            sent += len(batch)

    with ThreadPoolExecutor(2) as pool:
        sending = [
            pool.submit(send, bank.transactions, workload.transactions),
            pool.submit(send, bank.profiles, workload.updates),
        ]
        _wait_until_drained(
            bank, deadline, lambda waiting: progressed(sent - waiting), lambda: all(each.done() for each in sending)
        )
        for each in sending:
            each.result()


def _wait_until_drained(
    bank: Bank,
    deadline: float,
    seen: Callable[[int], None] = lambda _: None,
    all_sent: Callable[[], bool] = lambda: True,
) -> None:
    def is_drained() -> bool:
        is_all_sent = all_sent()
        waiting = bank.transactions.waiting() + bank.profiles.waiting()
        seen(waiting)
        return is_all_sent and not waiting

    until(is_drained, "the queues are empty", deadline - time.monotonic())


def _quiescence(bank: Bank) -> Quiescence:
    letters = (bank.transactions.take_dead_letters(), bank.profiles.take_dead_letters())
    return Quiescence(bank.books(), bank.read_profiles(), *letters)


def _violations(workload: Workload, quiet: Quiescence) -> Iterator[str]:
    yield from books_checker.violations(quiet.books)
    yield from books_checker.vanished(workload.transactions, quiet.books, quiet.dead_transactions)
    yield from profiles_checker.violations(
        quiet.profiles, profiles_checker.upserted(workload.updates, quiet.dead_updates)
    )
    yield from profiles_checker.vanished(workload.updates, quiet.dead_updates)
    for letter in quiet.dead_transactions:
        if not books_checker.is_poison(letter) or letter.body not in workload.transactions:
            yield f"a dead letter isn't poison, or has no reason, or is a job's: {letter}"


def _changed(before: Quiescence, after: Quiescence, sent: set[str]) -> Iterator[str]:
    if after[:2] != before[:2]:
        yield "sending messages again changed the books or the profiles"
    for letters, again in zip(before[2:], after[2:], strict=True):
        for body in ({letter.body for letter in letters} & sent) ^ {letter.body for letter in again}:
            yield f"dead-lettered only once, although sent twice: {body}"
