"""Teller's workers on one hot account: for `contention`, and for scripts that compare changes with each other."""

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from benchmarks import posting
from benchmarks.deliveries import Message, Work, deliver_for
from benchmarks.workers import work_together
from tools.local_aws.server import Endpoint


class Point(NamedTuple):
    """The result of a run. Units, requests and conflicts are those of all its transactions, divided by their number."""

    workers: int
    transactions: int
    per_second: float
    write_units: float
    read_units: float
    requests: float
    conflicts: float
    slowest_seconds: float


def run(endpoint: Endpoint, prefix: str, workers: int, batch: int, seconds: float) -> Point:
    """Posts transactions to one account for so long. Raises AssertionError if one is lost, or posted twice."""
    ledger = posting.create_ledger(endpoint, prefix, ["hot"])
    arguments = (partial(posting.load, ledger), partial(credits_of, "hot"), batch, seconds)
    point = summed(work_together(deliver_for, arguments, workers))
    posting.check(ledger, point.transactions, credited=point.transactions)
    return point


def credits_of(account_id: str, number: int, count: int) -> list[Message]:
    return [{"transaction_id": f"{number}-{index}", "account_id": account_id, "amount": "1"} for index in range(count)]


def summed(works: Sequence[Work]) -> Point:
    """The workers' results together."""
    ended = [each for work in works for each in work.ended]
    return Point(
        len(works),
        len(ended),
        sum(work.per_second for work in works),
        sum(work.write_units for work in works) / len(ended),
        sum(work.read_units for work in works) / len(ended),
        sum(work.requests for work in works) / len(ended),
        sum(work.conflicts for work in works) / len(ended),
        max(each.seconds for each in ended),
    )
