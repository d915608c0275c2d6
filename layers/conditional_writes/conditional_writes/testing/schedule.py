"""One order of concurrent workers: threads of which one runs at a time, and each stops before each of its calls.

A worker stands for a process. Threads of a pool that it makes are scheduled as it is, and die with it.
"""

import contextlib
import json
import math
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

from botocore.awsrequest import AWSResponse
from botocore.exceptions import ReadTimeoutError

from conditional_writes.testing import wire
from conditional_writes.testing.database import CONFLICT, REASONS, REFUSALS, THROTTLED, Database
from conditional_writes.testing.errors import Refused
from conditional_writes.testing.footprints import EVERYTHING, NOTHING, Footprint, footprint
from conditional_writes.testing.transactions import cancelled
from conditional_writes.testing.wire import Call

STUCK_SECONDS = 60
"""Of real time, after which a worker that neither ends nor calls DynamoDB is taken to wait for another thread."""
MAXIMUM_STEPS = 2000
CALL_SECONDS = 0.05
"""The time of a call, so that a worker that looks again and again comes to the end of its patience."""
LONG_PAUSE_SECONDS = 5
"""From this length on a pause's end is part of an order: leases may end meanwhile. Shorter ones wait for a try."""
MOST_IN_PROGRESS = 2
"""Of the tries of a delayed transaction, those that are told that it is still in progress. Then it takes effect."""


class Killed(BaseException):
    """The worker's process was killed. A BaseException, so that `except Exception` doesn't catch it."""


class Stuck(Exception):
    """The order can't go on: a worker waits for what the schedule doesn't know, or never ends."""


class Fault(StrEnum):
    """The fates of a call."""

    KILLED_BEFORE = "killed_before"
    """The process dies before the call."""
    KILLED_AFTER = "killed_after"
    """The process dies after the call took effect."""
    LOST = "lost"
    """The call takes effect, and its answer is lost: the client waits for its timeout, and tries again."""
    DELAYED = "delayed"
    """The client gets no answer in time, and tries again; the call takes effect at some time after that."""
    DAMAGED = "damaged"
    """The call takes effect, and its answer is damaged, as the checksum shows."""
    FAILED = "failed"
    """The call takes effect, and its answer is an internal server error."""
    THROTTLED = "throttled"
    """The call has no effect: the table is throttled."""
    UNPROCESSED = "unprocessed"
    """A batch's last item is left unprocessed."""
    TORN = "torn"
    """A batch, a query or a scan comes to its items one after the other: they have no moment in common.
    https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/transaction-apis.html#transaction-isolation"""
    TORN_BACK = "torn_back"
    """A batch comes to its items one after the other, the last one first."""
    CONFLICT = "conflict"
    """The call has no effect: another worker's call is at the item. Only if both meet, and one is a transaction."""


KILLING = {Fault.KILLED_BEFORE, Fault.KILLED_AFTER}
_WAITING = {Fault.LOST, Fault.DELAYED}
"""The client waits for its timeout. That long a lease may end meanwhile, so it has its place among all other calls."""
_WITHOUT_EFFECT = {Fault.KILLED_BEFORE, Fault.THROTTLED}


def _taken() -> threading.Lock:
    """One thread waits for this lock, and another releases it to let that one go on."""
    lock = threading.Lock()
    lock.acquire()
    return lock


@dataclass(eq=False)
class Process:
    """A worker with all of its threads."""

    name: str
    is_dead: bool = False
    threads: int = 0


@dataclass(eq=False)
class Thread:
    """A thread, and what it waits for: its turn for a call or after a pause, or the end of other threads."""

    name: str
    process: Process
    go: threading.Lock = field(default_factory=_taken)
    call: Call | None = None
    footprint: Footprint = NOTHING
    shown: str = ""
    wakes_at: float | None = None
    is_long_pause: bool = False
    lets_others_go_first: bool = False
    awaited: Future[Any] | None = None
    fault: Fault | None = None
    is_done: bool = False


@dataclass(eq=False)
class _Late:
    """A call that takes effect after its client has waited for it in vain."""

    call: Call
    in_progress: int = 0


class Choice(NamedTuple):
    """The next step: whose call is made, and the call's fate. `late` is a delayed call that takes effect."""

    thread: str
    process: str
    fault: Fault | None
    footprint: Footprint
    shown: str

    @property
    def word(self) -> str:
        """As scripts have it."""
        return self.thread if self.fault is None else f"{self.thread}:{self.fault}"

    def commutes_with(self, other: "Choice") -> bool:
        """Whether the two can change places, and nobody sees it. Faults can't: their number is limited."""
        if self.thread == other.thread or (self.fault and other.fault):
            return False
        if self.process == other.process and not KILLING.isdisjoint({self.fault, other.fault}):
            return False
        return not self.footprint.meets(other.footprint)


class Outcome(NamedTuple):
    """How a worker ended: with a value, or with an error. `Killed` is an error."""

    value: Any
    error: BaseException | None

    @property
    def was_killed(self) -> bool:
        return isinstance(self.error, Killed)


type Choose = Callable[[Sequence[Choice]], Choice | None]
"""Takes one of the choices, or None to give the order up."""

_current = threading.local()


class Schedule:
    """Runs workers in one order, which `choose` makes. `trace` has the choices that were taken."""

    def __init__(self, database: Database, execute: wire.Handle, choose: Choose, faults: Sequence[Fault]) -> None:
        self._database, self._execute, self._choose = database, execute, choose
        self._faults = faults
        self._threads: list[Thread] = []
        self._unstarted: list[tuple[Thread, Callable[[], None]]] = []
        self._late: dict[str, _Late] = {}
        self._delayed = 0
        self._parked = _taken()
        self.faults_left = 0
        self.trace: list[Choice] = []
        self.outcomes: list[Outcome] = []
        self.trouble: Exception | None = None
        """An error that says why no order can be made, as of a call that the engine doesn't answer.

        It may be caught.
        """

    def run(self, workers: Sequence[Callable[[], Any]], most_faults: int) -> bool:
        """Runs the workers to their ends. Returns whether they came there: not if `choose` gave the order up."""
        self.faults_left = most_faults
        self.outcomes = [Outcome(None, None)] * len(workers)
        for number, worker in enumerate(workers):
            process = Process(chr(ord("a") + number))
            self._unstarted.append((self._thread(process), self._outcome_of(number, process, worker)))
        try:
            return self._run()
        finally:
            self._kill_all()

    def _run(self) -> bool:
        self._settle()
        while choices := [*self._choices()]:
            if len(self.trace) == MAXIMUM_STEPS:
                raise Stuck(f"no end after {MAXIMUM_STEPS} calls and pauses")
            choice = self._choose(choices)
            if choice is None:
                return False
            self.trace.append(choice)
            self._take(choice)
            self._settle()
        if waiting := [thread.name for thread in self._threads if not thread.is_done]:
            raise Stuck(f"{', '.join(waiting)} can't go on")
        return True

    def _thread(self, process: Process) -> Thread:
        name = process.name if not process.threads else f"{process.name}{process.threads}"
        process.threads += 1
        thread = Thread(name, process)
        self._threads.append(thread)
        return thread

    def _outcome_of(self, number: int, process: Process, worker: Callable[[], Any]) -> Callable[[], None]:
        def run() -> None:
            try:
                outcome = Outcome(worker(), None)
            except BaseException as error:  # noqa: BLE001 (it is the outcome)
                outcome = Outcome(None, error)
                if isinstance(error, Stuck):
                    self.trouble = self.trouble or error
            # A dead process has no other outcome, whatever its code makes of Killed, as asyncio.gather does.
            self.outcomes[number] = Outcome(None, Killed()) if process.is_dead else outcome

        return run

    # --- the schedule's side

    def _settle(self) -> None:
        """Runs all that isn't a choice: threads begin, threads whose wait is over go on, and dead ones end."""
        pauses = 0
        while True:
            if self._unstarted:
                thread, run = self._unstarted.pop(0)
                threading.Thread(target=self._body, args=(thread, run), daemon=True, name=thread.name).start()
                self._wait_until_parked(thread)
                continue
            ready = next((thread for thread in self._threads if self._is_ready(thread)), None)
            if ready is not None:
                self._resume(ready)
            elif pausing := self._pausing(is_long=False):
                pauses += 1
                if pauses > MAXIMUM_STEPS:
                    raise Stuck(f"{pausing[0].name} has paused {MAXIMUM_STEPS} times, without a call")
                self._wake(pausing[0])
            else:
                return

    @staticmethod
    def _is_ready(thread: Thread) -> bool:
        if thread.is_done:
            return False
        return thread.process.is_dead or (thread.awaited is not None and thread.awaited.done())

    def _resume(self, thread: Thread) -> None:
        thread.go.release()
        self._wait_until_parked(thread)

    def _wait_until_parked(self, thread: Thread) -> None:
        if not self._parked.acquire(timeout=STUCK_SECONDS):
            raise Stuck(f"{thread.name} waits for something other than DynamoDB, a pause or its own pool's threads")

    def _choices(self) -> Iterator[Choice]:
        """The next steps that there can be. First comes the thread that has run last, then the others, then the faults.

        A thread that has paused comes after the others: it waits for them, mostly.
        """
        last = self.trace[-1].thread if self.trace else ""
        calling = [thread for thread in self._threads if thread.call]
        calling.sort(key=lambda thread: (thread.lets_others_go_first, thread.name != last))
        for thread in calling:
            yield Choice(thread.name, thread.process.name, None, thread.footprint, thread.shown)
        for name, late in self._late.items():
            yield Choice(name, "", None, footprint(late.call, self._database), f"{shown(late.call)}, late")
        for thread in self._pausing(is_long=True):
            yield Choice(thread.name, thread.process.name, None, EVERYTHING, "its pause is over")
        if self.faults_left:
            for thread in calling:
                yield from self._faults_of(thread)

    def _faults_of(self, thread: Thread) -> Iterator[Choice]:
        for fault in self._faults:
            if fault is Fault.CONFLICT and not self._meets_a_transaction(thread):
                continue
            if fault in _OF_MANY_ITEMS and not (thread.call and _is_of_many_items(thread.call, fault)):
                continue
            touched = EVERYTHING if fault in _WAITING else NOTHING if fault in _WITHOUT_EFFECT else thread.footprint
            named = f"{thread.shown}: {fault.replace('_', ' ')}"
            yield Choice(thread.name, thread.process.name, fault, touched, named)

    def _meets_a_transaction(self, thread: Thread) -> bool:
        """Whether the call could be refused for that of another, which is at one of its items at the same time."""
        return any(
            other.call is not None
            and thread.call is not None
            and other is not thread
            and other.call.name in _REFUSED_FOR.get(thread.call.name, ())
            and thread.footprint.meets(other.footprint)
            for other in self._threads
        )

    def _take(self, choice: Choice) -> None:
        if choice.thread in self._late:
            self._execute(self._late.pop(choice.thread).call)
            return
        thread = next(thread for thread in self._threads if thread.name == choice.thread)
        if choice.fault is not None:
            self.faults_left -= 1
        thread.fault = choice.fault
        for other in self._threads:
            other.lets_others_go_first = False
        if thread.wakes_at is not None:
            self._wake(thread)
        else:
            self._resume(thread)

    def _pausing(self, *, is_long: bool) -> list[Thread]:
        """Threads in a pause, the first to wake first."""
        pausing = [each for each in self._threads if each.wakes_at is not None and each.is_long_pause is is_long]
        return sorted(pausing, key=lambda thread: thread.wakes_at or 0)

    def _wake(self, thread: Thread) -> None:
        clock = self._database.clock
        clock.advance(max(0.0, (thread.wakes_at or 0) - clock.monotonic()))
        thread.lets_others_go_first = True
        self._resume(thread)

    def _kill_all(self) -> None:
        self._unstarted.clear()
        for thread in self._threads:
            thread.process.is_dead = True
        self._settle()

    # --- the threads' side

    def _body(self, thread: Thread, run: Callable[[], None]) -> None:
        _current.schedule, _current.thread = self, thread
        try:
            run()
        finally:
            thread.is_done = True
            with contextlib.suppress(RuntimeError):  # after Stuck nobody waits for it
                self._parked.release()

    def _park(self, thread: Thread) -> None:
        """Stops until this thread is the one that goes on."""
        if not thread.process.is_dead:
            self._parked.release()
            thread.go.acquire()
        thread.call = thread.wakes_at = thread.awaited = None
        if thread.process.is_dead:
            raise Killed

    def call(self, thread: Thread, call: Call) -> AWSResponse:
        """A thread's call: it is made when its turn comes, if nothing happens to it."""
        try:
            return self._made(thread, call)
        except NotImplementedError as error:
            self.trouble = self.trouble or error
            raise

    def _made(self, thread: Thread, call: Call) -> AWSResponse:
        thread.call, thread.footprint, thread.shown = call, footprint(call, self._database), shown(call)
        self._park(thread)
        self._database.clock.advance(CALL_SECONDS)
        match thread.fault:
            case None:
                return self._answer(call)
            case Fault.KILLED_BEFORE | Fault.KILLED_AFTER:
                if thread.fault is Fault.KILLED_AFTER:
                    self._execute(call)
                thread.process.is_dead = True
                raise Killed
            case Fault.LOST | Fault.DELAYED:
                if thread.fault is Fault.LOST:
                    self._execute(call)
                else:
                    self._delayed += 1
                    self._late[thread.name + "'" * self._delayed] = _Late(call)
                self._database.clock.advance(call.read_timeout_seconds)
                raise ReadTimeoutError(endpoint_url=call.url)
            case Fault.TORN | Fault.TORN_BACK:
                return self._torn(thread, call, is_back=thread.fault is Fault.TORN_BACK)
            case Fault.UNPROCESSED:
                *processed, left = _entries(call)
                rest = {_UNPROCESSED[call.name]: _with_entries(call, [left]).request["RequestItems"]}
                return _joined(call, [self._execute(_with_entries(call, processed)), wire.answer(call, 200, rest)])
            case Fault.DAMAGED:
                return wire.damaged(call, self._execute(call))
            case Fault.FAILED:
                self._execute(call)
                return wire.answer(call, 500, Refused("InternalServerError", "The request failed.").as_body())
        code = CONFLICT if thread.fault is Fault.CONFLICT else THROTTLED
        return wire.answer(call, 400, _refusal(call, code).as_body())

    def _torn(self, thread: Thread, call: Call, *, is_back: bool) -> AWSResponse:
        """The first item has its turn already, and each other has one of its own."""
        if call.name in _PAGES:
            page = call._replace(request=call.request | {"Limit": 1})
            answers, left = [self._execute(page)], call.request.get("Limit", math.inf) - 1
            while left and (last := json.loads(answers[-1].content).get("LastEvaluatedKey")):
                answers.append(self.call(thread, page._replace(request=page.request | {"ExclusiveStartKey": last})))
                left -= 1
            return _joined(call, answers)
        entries = _entries(call)[::-1] if is_back else _entries(call)
        first, *others = (_with_entries(call, [entry]) for entry in entries)
        return _joined(call, [self._execute(first), *(self.call(thread, each) for each in others)])

    def _answer(self, call: Call) -> AWSResponse:
        token = call.request.get("ClientRequestToken")
        same = [name for name, late in self._late.items() if late.call.request.get("ClientRequestToken") == token]
        for name in same if token else ():
            late = self._late[name]
            if late.in_progress == MOST_IN_PROGRESS:
                self._execute(self._late.pop(name).call)
                continue
            late.in_progress += 1
            refused = Refused(
                "TransactionInProgressException",
                "The transaction with the given request token is already in progress",
            )
            return wire.answer(call, 400, refused.as_body())
        return self._execute(call)

    def sleep(self, thread: Thread, seconds: float) -> None:
        """A thread's pause. After a short one the next call waits for its turn; a long one waits for its own."""
        thread.wakes_at = self._database.clock.monotonic() + seconds
        thread.is_long_pause = seconds >= LONG_PAUSE_SECONDS
        self._park(thread)

    def wait(self, thread: Thread, future: Future[Any]) -> None:
        """A thread waits for another's end."""
        if not future.done():
            thread.awaited = future
            self._park(thread)

    def begin(self, parent: Thread, run: Callable[[], None]) -> None:
        """A further thread of the process. It begins when the one that runs has stopped."""
        self._unstarted.append((self._thread(parent.process), run))


_WRITES = ("PutItem", "UpdateItem", "DeleteItem")
_REFUSED_FOR = {
    **dict.fromkeys(_WRITES, ("TransactWriteItems",)),
    "TransactWriteItems": (*_WRITES, "BatchWriteItem", "TransactGetItems", "TransactWriteItems"),
    "TransactGetItems": (*_WRITES, "BatchWriteItem", "TransactWriteItems"),
}


def _refusal(call: Call, code: str) -> Refused:
    if code == CONFLICT and call.name.startswith("Transact"):
        reason = {"Code": REASONS[code], "Message": REFUSALS[code]}
        others = [{"Code": "None"}] * (len(call.request["TransactItems"]) - 1)
        return cancelled([reason, *others])
    return Refused(code, REFUSALS[code])


_PAGES = {"Query", "Scan"}
_UNPROCESSED = {"BatchGetItem": "UnprocessedKeys", "BatchWriteItem": "UnprocessedItems"}
_OF_MANY_ITEMS = {Fault.UNPROCESSED, Fault.TORN, Fault.TORN_BACK}


def _is_of_many_items(call: Call, fault: Fault) -> bool:
    """Whether the call may come to several items, so that this can happen to it."""
    if call.name in _PAGES:
        return fault is Fault.TORN and call.request.get("Limit") != 1
    return len(_entries(call)) > 1


def _entries(call: Call) -> list[tuple[str, dict[str, Any]]]:
    """The tables with the keys or writes of a batch, in its order; none of any other call."""
    if call.name not in _UNPROCESSED:
        return []
    tables = call.request["RequestItems"].items()
    return [(table, each) for table, given in tables for each in (given if isinstance(given, list) else given["Keys"])]


def _with_entries(call: Call, entries: Sequence[tuple[str, dict[str, Any]]]) -> Call:
    """The batch with these of its keys or writes."""
    wanted: dict[str, Any] = {}
    for table, given in call.request["RequestItems"].items():
        if kept := [each for name, each in entries if name == table]:
            wanted[table] = kept if isinstance(given, list) else given | {"Keys": kept}
    return call._replace(request=call.request | {"RequestItems": wanted})


def _joined(call: Call, answers: Sequence[AWSResponse]) -> AWSResponse:
    """One answer of several. A refusal of one is that of all."""
    if refused := next((each for each in answers if each.status_code != 200), None):
        return refused
    body, *others = (json.loads(each.content) for each in answers)
    for other in others:
        for name in {"Items", "Count", "ScannedCount"} & body.keys():
            body[name] += other[name]
        for name in {"Responses", "UnprocessedItems"} & other.keys():
            for table, items in other[name].items():
                body[name].setdefault(table, []).extend(items)
        for table, keys in other.get("UnprocessedKeys", {}).items():
            body["UnprocessedKeys"].setdefault(table, keys | {"Keys": []})["Keys"] += keys["Keys"]
        if "LastEvaluatedKey" in other:
            body["LastEvaluatedKey"] = other["LastEvaluatedKey"]
        else:
            body.pop("LastEvaluatedKey", None)
    return wire.answer(call, 200, body)


def shown(call: Call) -> str:
    """The call in a few words."""
    request = call.request
    if "TransactItems" in request:
        actions = [next(iter(action.items())) for action in request["TransactItems"]]
        return f"{call.name} {', '.join(_shown_item(kind, each) for kind, each in actions)}"
    if "RequestItems" in request:
        return f"{call.name} {', '.join(request['RequestItems'])}"
    return _shown_item(call.name, request)


def _shown_item(kind: str, request: dict[str, Any]) -> str:
    key = request.get("Key") or dict([*request.get("Item", {}).items()][:2])
    values = " ".join(str(content) for value in key.values() for content in value.values())
    return f"{kind} {request.get('TableName', '')} {values}".rstrip()


def current() -> tuple[Schedule, Thread] | None:
    """The schedule and its thread that runs this code, None for code that isn't scheduled."""
    thread = getattr(_current, "thread", None)
    return None if thread is None else (_current.schedule, thread)
