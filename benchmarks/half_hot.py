"""A ledger with one hot account among a thousand: what its quiet accounts notice of it.

Three streams of batches: half of each batch's messages are for the hot account; all are for quiet accounts instead; and
the quiet half alone. Batches that are under way together have no quiet account in common. Beside them, batches of
transfers from the quiet accounts to the hot one.
"""

from collections.abc import Callable, Sequence
from functools import partial
from statistics import median, quantiles
from typing import NamedTuple

from benchmarks import posting
from benchmarks.deliveries import Load, Message, Messages, Work, deliver_arriving, deliver_for
from benchmarks.hot_account import Point, summed
from benchmarks.workers import work_together
from tools.local_aws.server import Endpoint

QUIET_ACCOUNTS = 1_000
BATCH = 100
WORKERS = 8
TRANSFER_WORKERS = (1, 8)
SECONDS = 6
"""Of a run in which each worker takes a batch after another."""
BATCHES, TOGETHER, EVERY_SECONDS = 32, 4, 1.2
"""Of a run at a fixed rate: four batches arrive together, for half of the workers. Then all are idle for a while."""


def quiet_account(number: int) -> str:
    return f"quiet-{number % QUIET_ACCOUNTS}"


def half_hot(run: str, number: int, count: int) -> list[Message]:
    """Every other message is for the hot account."""
    return [
        _credit(run, number, index, quiet_account((number * BATCH + index) // 2) if index % 2 else hot_account(run))
        for index in range(count)
    ]


def quiet(run: str, number: int, count: int) -> list[Message]:
    return [_credit(run, number, index, quiet_account(number * BATCH + index)) for index in range(count)]


def transfers(run: str, number: int, count: int) -> list[Message]:
    """Each is from another account, to the hot one."""
    return [
        {
            "type": "transfer",
            "transaction_id": f"{run}-{number}-{index}",
            "from_account_id": quiet_account(number * BATCH + index),
            "to_account_id": hot_account(run),
            "amount": "1",
        }
        for index in range(count)
    ]


def hot_account(run: str) -> str:
    """Each run has one of its own: what it leaves there is no matter to the next."""
    return f"hot-{run}"


def _credit(run: str, number: int, index: int, account_id: str) -> Message:
    return {"transaction_id": f"{run}-{number}-{index}", "account_id": account_id, "amount": "1"}


class Stream(NamedTuple):
    name: str
    messages: Callable[[str, int, int], list[Message]]
    batch: int


HALF_HOT = Stream("50 hot, 50 quiet", half_hot, BATCH)
ALL_QUIET = Stream("100 quiet", quiet, BATCH)
QUIET_HALF = Stream("50 quiet", quiet, BATCH // 2)
STREAMS = (HALF_HOT, ALL_QUIET, QUIET_HALF)


class Times(NamedTuple):
    """Of messages, in seconds."""

    median: float
    slowest_hundredth: float
    slowest: float

    @classmethod
    def of(cls, seconds: Sequence[float]) -> "Times":
        return cls(median(seconds), quantiles(seconds, n=100)[98], max(seconds))


class Arriving(NamedTuple):
    """Quiet messages of batches that arrive at a fixed rate: from the arrival to the handler's return, and to the
    answer to the commit. `busy` is the workers' share of time in handlers, and `hot` the hot messages' times if any.
    """

    returned: Times
    committed: Times
    hot: Times | None
    busy: float
    point: Point


class Full(NamedTuple):
    """Quiet messages per second if there is always another batch."""

    quiet_per_second: float
    point: Point


class HalfHot:
    """The ledger of all runs, which are checked together at the end."""

    def __init__(self, endpoint: Endpoint, prefix: str) -> None:
        self._ledger = posting.create_ledger(endpoint, prefix, list(map(quiet_account, range(QUIET_ACCOUNTS))))
        self._runs = 0
        self._transactions, self._transfers = 0, 0

    def arriving(self, stream: Stream) -> Arriving:
        load, messages = self._begin_run(stream.messages)
        works = work_together(
            deliver_arriving, (load, messages, stream.batch, BATCHES, TOGETHER, EVERY_SECONDS), WORKERS
        )
        point = self._count(works)
        ended = [each for work in works for each in work.ended]
        quiet = [each for each in ended if not is_hot(each.message)]
        hot = [each.seconds for each in ended if is_hot(each.message)]
        return Arriving(
            Times.of([each.seconds for each in quiet]),
            Times.of([each.committed_at - each.first_at for each in quiet if each.committed_at]),
            Times.of(hot) if hot else None,
            sum(work.busy for work in works) / WORKERS,
            point,
        )

    def full(self, stream: Stream) -> Full:
        load, messages = self._begin_run(stream.messages)
        works = work_together(deliver_for, (load, messages, stream.batch, SECONDS), WORKERS)
        point = self._count(works)
        quiet = sum(not is_hot(each.message) for work in works for each in work.ended)
        return Full(point.per_second * quiet / point.transactions, point)

    def transfers(self, workers: int) -> Point:
        load, messages = self._begin_run(transfers)
        point = self._count(work_together(deliver_for, (load, messages, BATCH, SECONDS), workers))
        self._transfers += point.transactions
        return point

    def check(self) -> None:
        """Raises AssertionError if a transaction of any run is lost, rejected or posted twice."""
        posting.check(self._ledger, self._transactions, credited=self._transactions - self._transfers)

    def _begin_run(self, messages: Callable[[str, int, int], list[Message]]) -> tuple[Load, Messages]:
        """Opens the hot account of the run."""
        self._runs += 1
        run = str(self._runs)
        ledger = self._ledger._replace(prefix=f"{self._ledger.prefix}-{run}")
        posting.open_accounts(ledger, [hot_account(run)])
        return partial(posting.load, ledger), partial(messages, run)

    def _count(self, works: Sequence[Work]) -> Point:
        point = summed(works)
        self._transactions += point.transactions
        return point


def is_hot(message: Message) -> bool:
    return message["account_id"].startswith("hot")
