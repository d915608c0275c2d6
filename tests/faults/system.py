"""The whole system in one process: five functions with two workers each, their tables, and queues under control.

Only one step runs at a time, and only if it is called. The same steps make the same calls, so that a failure can be
repeated with a fault at the same call.
"""

import contextlib
import itertools
import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple
from unittest import mock

from botocore.awsrequest import AWSPreparedRequest, AWSResponse

from conditional_writes.core.items import Item
from tests.checkers.books import Books
from tests.checkers.history import History
from tests.checkers.profiles import Profiles, read_profiles
from tests.checkers.windows import Run
from tests.support.clock import clock_of_lines
from tests.support.faults import THIS_INVOCATION, Fault, Faults, Killed, Outage
from tests.support.ledger import Ledger
from tools.local_aws.functions import Context, invoke, record, run_job, upsert_profiles
from tools.local_aws.queues import DeadLetter, take_dead_letters
from tools.local_aws.server import Endpoint
from tools.local_aws.tables import create_profiles_table, scan
from workers.invocation import RESERVED_SECONDS

FOR_EVER = str(100 * 365 * 24 * 3600)
"""A retention for messages that were sent at a fixed time in the past: none is to be given up for its age."""
TRANSACTIONS, PROFILES = "transactions", "profiles"
CHARGE, EXPIRE, RECONCILE = "charge_overdraft_interest", "expire_holds", "reconcile_accounts"
QUIET = {"POWERTOOLS_LOG_LEVEL": "CRITICAL", "RETENTION_SECONDS": FOR_EVER, "MAXIMUM_WAITS": "3"}
LONGEST_LEASE_SECONDS = 100
CLOCK_SKEW_SECONDS = 1
LINE = "line "
"""Begins the keys of the records of accounts' lines, in the Locks table."""
START = datetime(2026, 3, 1, 12, tzinfo=UTC)

_numbers = itertools.count(1)


class Injection(NamedTuple):
    """A fault at call number `at`, and an action before `calls` calls from number `before` on.

    An outage is of these services.
    """

    fault: Fault | None = None
    at: int = 0
    meanwhile: Callable[[], object] | None = None
    before: int = 0
    calls: int = 1
    services: Sequence[str] = THIS_INVOCATION.services


NOTHING = Injection()


class Tally:
    """Counts of steps, of outcomes by type and reason, and of faults."""

    def __init__(self) -> None:
        self.done: Counter[str] = Counter()
        self.outcomes: Counter[tuple[str, str]] = Counter()
        self.faults: Counter[Fault] = Counter()

    def __str__(self) -> str:
        done = ", ".join(f"{number:,} {what}" for what, number in self.done.items())
        faults = ", ".join(f"{number} {fault.value!r}" for fault, number in self.faults.most_common())
        kills = self.faults[Fault.KILLED_BEFORE] + self.faults[Fault.KILLED_AFTER]
        return f"{done}; {self.faults.total():,} faults, {kills:,} of them kills ({faults})"


class System:
    def __init__(self, aws: Endpoint, dynamodb: Endpoint, tally: Tally) -> None:
        self.aws, self.dynamodb, self.tally = aws, dynamodb, tally
        self.ledger = Ledger(aws, dynamodb, **QUIET)
        self.tables, self.locks_table, self.clock = self.ledger.tables, self.ledger.locks_table, self.ledger.clock
        self.profiles_table = create_profiles_table(dynamodb, f"system-{next(_numbers)}")
        self.history = History()
        self.waiting: dict[str, list[str]] = {TRANSACTIONS: [], PROFILES: []}
        self.numbers: dict[str, list[str]] = {TRANSACTIONS: [], PROFILES: []}
        self.dead: dict[str, list[tuple[str, DeadLetter]]] = {TRANSACTIONS: [], PROFILES: []}
        self.events: list[dict[str, Any]] = []
        self.runs: list[Run] = []
        self._message_numbers = itertools.count(1)
        self._load()

    def _load(self) -> None:
        upserting = upsert_profiles(self.aws, self.profiles_table, self.dynamodb, **QUIET)
        queue = upserting.worker.queue
        same = {"QUEUE_URL": queue.url, "DEAD_LETTER_QUEUE_URL": queue.dead_letter_url}
        same |= {"ATTEMPTS_TABLE": upserting.attempts.table}
        another = upsert_profiles(self.aws, self.profiles_table, self.dynamodb, **QUIET, **same)
        posting = [self.ledger.worker, self.ledger.another_worker()]
        for number, function in enumerate(posting):
            function.poster.first_shard = number
        self.workers = {TRANSACTIONS: posting, PROFILES: [upserting, another]}
        self.jobs = {job: [self.ledger.job(job, **QUIET) for _ in range(2)] for job in (CHARGE, EXPIRE, RECONCILE)}
        for function in itertools.chain(*self.jobs.values()):
            function.ACCOUNTS_PER_STEP = 2

    def send(self, queue: str, body: str) -> str:
        number = str(next(self._message_numbers))
        self.history.sent(number, body, START + timedelta(seconds=int(number)))
        self.waiting[queue].append(number)
        self.numbers[queue].append(number)
        self.tally.done["messages"] += 1
        return number

    def deliver(
        self, queue: str, numbers: Sequence[str], injection: Injection = NOTHING, worker: int = 0
    ) -> dict[str, bool]:
        """Invokes the function with these messages. Returns whether each was acknowledged."""
        function = self.workers[queue][worker]
        records = [self._record(self.history.delivered(number)) for number in numbers]
        workers = [getattr(function, name) for name in ("worker", "administration") if hasattr(function, name)]
        clients = [each.queue.client for each in workers]
        failed = set(numbers)
        with contextlib.ExitStack() as noting:
            deleted = [noting.enter_context(deleted_receipts(client)) for client in clients]
            with self._injecting(injection, function.dynamodb, *clients), contextlib.suppress(Killed):
                failed = invoke(function, records, Context())
            failed -= {one["messageId"] for one in records if any(one["receiptHandle"] in each for each in deleted)}
        for number in numbers:
            if number not in failed:
                self.history.acknowledged(number)
                if number in self.waiting[queue]:
                    self.waiting[queue].remove(number)
        self._take_letters(queue)
        self.tally.done["deliveries"] += 1
        return {number: number not in failed for number in numbers}

    def source_of(self, number: str) -> str:
        """The ARN of the queue of SQS that has the message."""
        arn: str = self._record(self.history.messages[number])["eventSourceARN"]
        return arn

    def redrive(self, queue: str) -> None:
        letters, self.dead[queue] = self.dead[queue], []
        for _, letter in letters:
            self.send(queue, letter.body)

    def schedule(self, job: str, day: int) -> dict[str, Any]:
        event = _event(job, datetime(2026, 3, day, 2, tzinfo=UTC).isoformat())
        self.events.append(event)
        return event

    def run_job(
        self, event: dict[str, Any], injection: Injection = NOTHING, worker: int = 0, *, one_step: bool = False
    ) -> str:
        """Invokes a job. Returns its outcome. The event is delivered again unless the job is done."""
        sends = event["job"] in (CHARGE, EXPIRE)
        function, ended = self.jobs[event["job"]][worker], len(self.runs)
        self.clock.seconds += 0.001
        clients = [function.dynamodb, function.queue.client] if sends else [function.client]
        context = Context(RESERVED_SECONDS if one_step else 60)
        with self._injecting(injection, *clients):
            try:
                outcome = run_job(function, event, context)
            except (Killed, Exception) as error:  # noqa: BLE001 (the message comes again after any error)
                outcome = type(error).__name__
        self.runs.append(Run(event["job"], event["scheduled_time"], outcome, len(self.runs) - ended))
        if event in self.events:
            self.events.remove(event)
        if outcome not in {"Done", "DoneBefore"}:
            self.events.append(event)
        if sends:
            for letter in take_dead_letters(self.aws, function.sending.queue_url):
                self.send(TRANSACTIONS, letter.body)
        self.tally.done["job runs"] += 1
        return outcome

    def drain(self) -> None:
        """Delivers all messages without faults until quiescence, and then all dead letters, until none is posted.

        A message that had waited too long before its account was opened can be posted then, and so can one whose
        function was killed each time, by a fault. Each may be what another one has waited for.
        """
        self.clock.seconds += LONGEST_LEASE_SECONDS
        self.deliver_until_quiet()
        posted = None
        while posted != (posted := len(self.books().entries)):
            for queue in self.waiting:
                self.redrive(queue)
            self.deliver_until_quiet()

    def redeliver_everything(self) -> None:
        windows = dict.fromkeys((run.job, run.window) for run in self.runs)
        self.events += [_event(job, window) for job, window in windows]
        for queue, numbers in self.numbers.items():
            self.waiting[queue] += numbers
        self.deliver_until_quiet()

    def deliver_until_quiet(self) -> None:
        for _ in range(20):
            for event in list(self.events):
                self.run_job(event)
            for queue, waiting in self.waiting.items():
                for numbers in itertools.batched(list(waiting), 10, strict=False):
                    self.deliver(queue, numbers)

    def leases_lapsed_by(self) -> str:
        """The time before which a lease must have ended to be lapsed, as in the locks' records."""
        return datetime.fromtimestamp(self.clock.seconds - CLOCK_SKEW_SECONDS, UTC).isoformat(timespec="microseconds")

    def books(self) -> Books:
        return self.ledger.books

    def profiles(self) -> Profiles:
        return read_profiles(self.dynamodb, self.profiles_table)

    def lock_records(self) -> dict[str, Item]:
        return {name: item for name, item in self._locks().items() if not name.startswith(LINE)}

    def tickets_taken(self) -> int:
        return sum(int(item["last_ticket"]) for name, item in self._locks().items() if name.startswith(LINE))

    def _locks(self) -> dict[str, Item]:
        return {item["lock_key"]: item for item in self.ledger.items(self.locks_table)}

    def everything(self) -> dict[str, list[str]]:
        """All items of all tables, with the library's own attributes."""
        ledger = (self.tables.accounts, self.tables.journal, self.tables.reversals)
        tables = (*ledger, self.profiles_table, self.locks_table)
        return {
            table: sorted(json.dumps(item, sort_keys=True) for item in scan(self.dynamodb, table)) for table in tables
        }

    @contextlib.contextmanager
    def _injecting(self, injection: Injection, *clients: Any) -> Iterator[None]:
        def one_worker(*_: object) -> ThreadPoolExecutor:
            return ThreadPoolExecutor(1)

        calls = itertools.count(1)

        def before_call(**_: Any) -> None:
            if injection.meanwhile and 0 <= next(calls) - injection.before < injection.calls:
                self.tally.done["meetings"] += 1
                injection.meanwhile()

        faults = Faults(injection.fault, injection.at, Outage(services=injection.services))
        with contextlib.ExitStack() as held:
            for module in ("workers.parallel", "ledger.nightly"):
                held.enter_context(mock.patch(f"{module}.ThreadPoolExecutor", one_worker))
            held.enter_context(mock.patch("time.sleep"))
            held.enter_context(clock_of_lines(self.clock))
            held.enter_context(faults.on(*clients))
            for client in clients:
                client.meta.events.register("before-call", before_call)
                held.callback(client.meta.events.unregister, "before-call", before_call)
            try:
                yield
            finally:
                self.tally.done["calls"] += len(faults.calls)
                self.tally.faults += faults.injected

    def _record(self, message: Any) -> dict[str, Any]:
        attributes = {"number": {"dataType": "String", "stringValue": message.number}}
        made = record(message.body, message.deliveries, message.sent_at)
        return made | {"messageId": message.number, "messageAttributes": attributes}

    def _take_letters(self, queue: str) -> None:
        for letter in take_dead_letters(self.aws, self.workers[queue][0].worker.queue.dead_letter_url):
            number = letter.attributes["number"]
            self.dead[queue].append((number, letter))
            self.history.letters.append((number, letter))


@contextlib.contextmanager
def deleted_receipts(client: Any) -> Iterator[set[str]]:
    """The receipt handles of the messages that the function itself has deleted, even if it got no answer."""
    deleted: set[str] = set()
    session = client._endpoint.http_session
    send = session.send

    def noting(request: AWSPreparedRequest) -> AWSResponse:
        response: AWSResponse = send(request)
        if request.headers["X-Amz-Target"] in {"AmazonSQS.DeleteMessageBatch", b"AmazonSQS.DeleteMessageBatch"}:
            deleted.update(entry["ReceiptHandle"] for entry in json.loads(request.body)["Entries"])
        return response

    with mock.patch.object(session, "send", noting):
        yield deleted


def _event(job: str, scheduled_time: str) -> dict[str, Any]:
    return {"job": job, "scheduled_time": scheduled_time, "force": True}
