"""Workers post transfers among many hot accounts, and other shapes, in virtual time: whatever the machine is doing.

The batch poster, its lines and the writes' loop are the product's, DynamoDB is the library's engine. Simulated are the
clock and the answers' times. Each run is the same each time, by its seed.

Its limits: no queue, no function around the poster, no CPU time. Items have at most 1 kB.
"""

import contextlib
import heapq
import itertools
import json
import random
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, NamedTuple
from unittest import mock

from rich.console import Console
from rich.table import Table

from conditional_writes import Deadline
from conditional_writes.testing import Engine
from ledger.batch_poster import BatchPoster
from ledger.core.transaction_types import decode
from ledger.lines import Lines
from ledger.tables import LedgerTables
from workers.queue_messages import Again, Done, QueueMessage
from workers.redelivery import DELAYS_SECONDS

TABLES = LedgerTables("accounts", "journal", "reversals")
KEYS = {"accounts": ["account_id"], "journal": ["account_id", "transaction_id"], "locks": ["lock_key"]}
WORK_SECONDS = 33.0
"""Of a batch, with the function's timeout of 90 s."""
IDLE_SECONDS = 0.1
"""Until a worker without messages looks for others."""
FAST, SLOW = (0.02, 0.06), (0.1, 0.3)
"""Seconds that a request takes."""
TIMED = (
    *("ledger.batch_poster", "ledger.lines", "ledger.tables"),
    *("conditional_writes.core.loop", "conditional_writes.core.steps"),
)
"""The modules that look at the clock, or pause."""


class VirtualTime:
    """A clock that stands still while a thread runs, and then goes on to the next thread's time. One thread runs."""

    def __init__(self) -> None:
        self.now = 1_800_000_000.0
        self._due: list[tuple[float, int, threading.Semaphore]] = []
        self._numbers = itertools.count()

    def sleep(self, seconds: float) -> None:
        self._wake(me := threading.Semaphore(0), seconds)
        self._pass_on(me)

    def in_parallel[A, R](self, call: Callable[[A], R], arguments: Sequence[A], most: int = 16) -> list[R]:
        """As the workers' own, which it replaces."""
        results: dict[int, R] = {}
        left, running, me = iter(enumerate(arguments)), min(most, len(arguments)), threading.Semaphore(0)
        errors: list[BaseException] = []

        def run(start: threading.Semaphore) -> None:
            nonlocal running
            start.acquire()
            try:
                for number, argument in left:
                    results[number] = call(argument)
            except BaseException as error:  # noqa: BLE001 (raised below)
                errors.append(error)
            running -= 1
            if not running:
                self._wake(me)
            self._pass_on()

        for _ in range(running):
            self._wake(start := threading.Semaphore(0))
            threading.Thread(target=run, args=(start,), daemon=True).start()
        if running:
            self._pass_on(me)
        for error in errors:
            raise error
        return [results[number] for number in range(len(arguments))]

    def _wake(self, thread: threading.Semaphore, seconds: float = 0.0) -> None:
        heapq.heappush(self._due, (self.now + seconds, next(self._numbers), thread))

    def _pass_on(self, me: threading.Semaphore | None = None) -> None:
        self.now, _, thread = heapq.heappop(self._due)
        if thread is not me:
            thread.release()
            if me:
                me.acquire()

    @contextlib.contextmanager
    def everywhere(self, seed: int) -> Iterator[random.Random]:
        """All modules concerned go by this clock, and by these random numbers."""
        chance = random.Random(seed)
        time = SimpleNamespace(time=lambda: self.now, monotonic=lambda: self.now, sleep=self.sleep)
        with contextlib.ExitStack() as stack:
            for module in TIMED:
                stack.enter_context(mock.patch(f"{module}.time", time))
            for module in ("ledger.batch_poster", "conditional_writes.core.loop", "conditional_writes.core.steps"):
                stack.enter_context(mock.patch(f"{module}.random", chance))
            stack.enter_context(mock.patch("ledger.batch_poster.in_parallel", self.in_parallel))
            yield chance


class Requests:
    """A client of the engine whose requests take time, and their write units.

    A request takes effect in the middle of its time. Those of one item take half the time. While a transaction is in
    progress on AWS, other writes to its items conflict: for `conflict_part` of its time.
    """

    def __init__(self, time: VirtualTime, chance: random.Random, latency: tuple[float, float], conflict_part: float):
        engine = Engine()
        self.client: Any = engine.client()
        for table, keys in KEYS.items():
            self.client.create_table(
                TableName=table,
                BillingMode="PAY_PER_REQUEST",
                AttributeDefinitions=[{"AttributeName": key, "AttributeType": "S"} for key in keys],
                KeySchema=[
                    {"AttributeName": key, "KeyType": kind} for key, kind in zip(keys, ("HASH", "RANGE"), strict=False)
                ],
            )
        self.write_units = 0
        self._time, self._chance, self._latency, self._part = time, chance, latency, conflict_part
        self._in_progress: set[Address] = set()
        self.client.meta.events.register("before-call.dynamodb", self._before)
        self.client.meta.events.register("after-call.dynamodb", self._after)

    def items(self, table: str) -> list[dict[str, Any]]:
        """In DynamoDB's JSON, without any time."""
        with mock.patch.object(self, "_latency", (0.0, 0.0)):
            found: list[dict[str, Any]] = self.client.scan(TableName=table)["Items"]
        return found

    def _before(self, model: Any, params: dict[str, Any], context: dict[str, Any], **_: Any) -> Any:
        request = json.loads(params["body"])
        writes = [write for each in request.get("TransactItems", ()) for write in each.values()]
        is_alone = "Key" in request
        self.write_units += 2 * len(writes) or model.name == "UpdateItem"
        seconds = self._chance.uniform(*self._latency) * (0.5 if is_alone else 1)
        context["rest"] = seconds * (1 - self._part if writes else 1) / 2
        self._time.sleep(context["rest"])
        addresses = set(map(_address, writes or ([request] if model.name == "UpdateItem" else [])))
        if conflicts := addresses & self._in_progress:
            return _conflict(model.name, [_address(write) in conflicts for write in writes])
        if writes and self._part:
            self._in_progress |= addresses
            self._time.sleep(seconds * self._part)
            self._in_progress -= addresses
        return None

    def _after(self, context: dict[str, Any], **_: Any) -> None:
        self._time.sleep(context["rest"])


type Address = tuple[str, ...]


def _address(write: dict[str, Any]) -> Address:
    attributes = write.get("Item") or write["Key"]
    return write["TableName"], *(attributes[name]["S"] for name in KEYS[write["TableName"]])


def _conflict(operation: str, of_writes: Sequence[bool]) -> tuple[Any, dict[str, Any]]:
    """DynamoDB's answer, in place of a request."""
    if operation == "UpdateItem":
        return SimpleNamespace(status_code=400), {"Error": {"Code": "TransactionConflictException", "Message": ""}}
    reasons = [{"Code": "TransactionConflict" if each else "None"} for each in of_writes]
    error = {"Code": "TransactionCanceledException", "Message": ""}
    return SimpleNamespace(status_code=400), {"Error": error, "CancellationReasons": reasons}


class Shape(NamedTuple):
    """The transfers of a run: `pick` chooses their accounts. `pools` have so many shards, by their ids."""

    name: str
    accounts: int
    pick: Callable[[random.Random], dict[str, Any]]
    pools: Mapping[str, int] = {}


def _transfer(payer: int, payee: int) -> dict[str, str]:
    return {"type": "transfer", "from_account_id": f"a{payer:04}", "to_account_id": f"a{payee:04}"}


def mesh(accounts: int) -> Shape:
    def pick(chance: random.Random) -> dict[str, str]:
        return _transfer(*chance.sample(range(accounts), 2))

    return Shape(f"{accounts} accounts", accounts, pick)


def payees(payees: int, payers: int) -> Shape:
    def pick(chance: random.Random) -> dict[str, str]:
        return _transfer(payees + chance.randrange(payers), chance.randrange(payees))

    return Shape(f"{payees} payees, {payers:,} payers", payees + payers, pick)


def hot(accounts: int) -> Shape:
    def pick(chance: random.Random) -> dict[str, str]:
        return {"type": "transaction", "account_id": f"a{chance.randrange(accounts):04}"}

    return Shape(f"{accounts} hot, payments", accounts, pick)


PAYERS = 2_000
"""Each is the payer of one transfer, in turn: no batch in progress has one twice."""


def in_turn(name: str, others: Callable[[int], dict[str, int]], **pools: int) -> Shape:
    """Compounds: each payer gives what the `others` get, whose ids may depend on the payer's number."""
    numbers = itertools.count()

    def pick(_: random.Random) -> dict[str, Any]:
        payer = next(numbers) % PAYERS
        gets = others(payer)
        legs = [(f"a{payer:04}", -sum(gets.values())), *gets.items()]
        return {"type": "compound", "legs": [{"account_id": name, "amount": amount} for name, amount in legs]}

    return Shape(name, PAYERS, pick, pools)


def quiet() -> Shape:
    """Of pairs of accounts, each in one transfer at a time."""
    return in_turn("quiet accounts", lambda payer: {f"a{(payer + PAYERS // 2) % PAYERS:04}": 100})


def to_one() -> Shape:
    return in_turn("one account", lambda payer: {"a2000": 100})._replace(accounts=PAYERS + 1)


def to_pool(shards: int) -> Shape:
    return in_turn(f"a pool of {shards}", lambda payer: {"pool": 100}, pool=shards)


def to_pool_with_fee(shards: int) -> Shape:
    """With a fee to a second pool."""
    return in_turn(f"two pools of {shards}", lambda payer: {"pool": 97, "fees": 3}, pool=shards, fees=shards)


class Result(NamedTuple):
    """Of a run. Write units are those of all writes, also of refused ones. The time of a message is until it is done,
    from its first delivery.
    """

    per_second: float
    write_units: float
    slowest_hundredth_seconds: float
    delivered_twice: float


class Run:
    """Workers post all messages of a queue, a batch after another. A message that is returned comes again later."""

    def __init__(
        self,
        shape: Shape,
        workers: int,
        messages: int,
        batch: int = 100,
        latency: tuple[float, float] = FAST,
        seed: int = 1,
        conflict_part: float = 0.0,
    ) -> None:
        self._time, self._batch, self._left = VirtualTime(), batch, messages
        self._returned: list[tuple[float, str, QueueMessage[Any], float]] = []
        self._ended: list[tuple[float, float, int]] = []  # the first delivery, the end, and the deliveries
        with self._time.everywhere(seed) as chance:
            self.requests = Requests(self._time, chance, latency, conflict_part)
            began = self._open_accounts(shape)
            picked = [shape.pick(chance) | {"transaction_id": f"t{number}"} for number in range(messages)]
            self._new = iter([json.dumps(({} if "legs" in each else {"amount": "1"}) | each) for each in picked])
            self._time.in_parallel(lambda _: self._work(), range(workers), workers)
        times = sorted(end - first for first, end, _ in self._ended)
        self.result = Result(
            messages / (max(end for _, end, _ in self._ended) - began),
            self.requests.write_units / messages,
            times[messages * 99 // 100],
            sum(deliveries > 1 for _, _, deliveries in self._ended) / messages,
        )

    def _open_accounts(self, shape: Shape) -> float:
        """Returns the time when they are open."""
        opening = {
            "type": "open_account",
            "transaction_id": "open",
            "currency": "EUR",
            "overdraft_limit": "-1000000000",
        }
        bodies = [json.dumps(opening | {"account_id": f"a{number:04}"}) for number in range(shape.accounts)]
        opening["overdraft_limit"] = "0"
        bodies += [json.dumps(opening | {"account_id": name, "shards": each}) for name, each in shape.pools.items()]

        def start(_: None) -> None:
            deadline = Deadline.after(WORK_SECONDS * shape.accounts)
            self._poster().post([_message(body, 1) for body in bodies], deadline)

        self._time.in_parallel(start, [None])
        self.requests.write_units = 0
        return self._time.now

    def _poster(self) -> BatchPoster:
        """Each worker has one."""
        return BatchPoster(self.requests.client, TABLES, Lines(self.requests.client, "locks"))

    def _work(self) -> None:
        poster = self._poster()
        while self._left:
            if not (batch := self._receive()):
                self._time.sleep(IDLE_SECONDS)
                continue
            poster.post([message for message, _ in batch], Deadline.after(WORK_SECONDS))
            for message, first_at in batch:
                if isinstance(message.disposition, Done):
                    self._left -= 1
                    self._ended.append((first_at, self._time.now, message.receive_count))
                else:
                    assert isinstance(message.disposition, Again), message.disposition
                    delay = DELAYS_SECONDS[min(message.receive_count, len(DELAYS_SECONDS)) - 1]
                    heapq.heappush(self._returned, (self._time.now + delay, message.message_id, message, first_at))

    def _receive(self) -> list[tuple[QueueMessage[Any], float]]:
        """A batch with the times of the messages' first deliveries. Returned messages that are due come first."""
        batch: list[tuple[QueueMessage[Any], float]] = []
        while self._returned and self._returned[0][0] <= self._time.now and len(batch) < self._batch:
            _, _, message, first_at = heapq.heappop(self._returned)
            batch.append((_message(message.body, message.receive_count + 1), first_at))
        new = itertools.islice(self._new, self._batch - len(batch))
        return batch + [(_message(body, 1), self._time.now) for body in new]


def _message(body: str, receive_count: int) -> QueueMessage[Any]:
    content = decode(body)
    sent_at = datetime(2026, 1, 31, tzinfo=UTC)
    return QueueMessage(content.transaction_id, "", body, receive_count, sent_at, {}, content=content)


RUNS = (
    *((mesh(50), workers, messages, FAST) for workers, messages in ((1, 2_000), (3, 2_000), (10, 2_000), (40, 8_000))),
    *((mesh(50), workers, messages, SLOW) for workers, messages in ((1, 2_000), (10, 2_000))),
    *((mesh(200), workers, messages, FAST) for workers, messages in ((1, 2_000), (3, 2_000), (10, 4_000))),
    (mesh(200), 10, 4_000, SLOW),
    *((payees(30, 1_970), workers, messages, FAST) for workers, messages in ((1, 2_000), (3, 3_000), (10, 4_000))),
    (payees(30, 1_970), 10, 4_000, SLOW),
    (payees(1, 999), 8, 4_000, FAST),
    *((shape, 8, 2_400, FAST) for shape in (quiet(), to_one(), to_pool(64), to_pool(256), to_pool_with_fee(64))),
    *((hot(1), workers, messages, FAST) for workers, messages in ((1, 2_000), (8, 6_000))),
)


def main() -> None:
    console = Console(highlight=False)
    table = Table(title="Batches of 100", title_justify="left", box=None, padding=(0, 1), pad_edge=False)
    table.add_column("transfers", no_wrap=True)
    for name in ("ms a\nrequest", "workers", "per\nsecond", "write\nunits", "p99\nseconds", "twice"):
        table.add_column(name, justify="right")
    for shape, workers, messages, latency in RUNS:
        result = Run(shape, workers, messages, latency=latency).result
        table.add_row(
            shape.name,
            "-".join(f"{seconds * 1000:.0f}" for seconds in latency),
            str(workers),
            f"{result.per_second:.0f}",
            f"{result.write_units:.1f}",
            f"{result.slowest_hundredth_seconds:.1f}",
            f"{result.delivered_twice:.0%}",
        )
    console.print(table)


if __name__ == "__main__":
    main()
