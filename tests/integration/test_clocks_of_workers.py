"""Workers whose clocks differ, on the same accounts. What many workers leave is in tests/faults/test_bank.py."""

import itertools
from datetime import datetime, tzinfo

import pytest

from tests.checkers.books import violations
from tests.support.bodies import transfer
from tests.support.ledger import Ledger
from tools.local_aws.server import Endpoint


def test_workers_whose_clocks_differ_post_in_the_order_of_the_times(
    aws: Endpoint, dynamodb: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = Ledger(aws, dynamodb)
    seconds_ahead, looks = (4.001, 0, -0.5, 2), itertools.count()

    class ClockOfSomeWorker(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> datetime:
            look = next(looks)  # ten milliseconds after the one before
            return datetime.fromtimestamp(1_000_000_000 + look / 100 + seconds_ahead[look % 4], tz)

    monkeypatch.setattr("ledger.batch_poster.datetime", ClockOfSomeWorker)
    names = ["a", "b", "c"]
    ledger.open(*names, limit=-200)
    pairs = zip(range(160), itertools.cycle(itertools.permutations(names, 2)), strict=False)
    ledger.race([transfer(f"t-{number}", 1, *pair) for number, pair in pairs], batch=10)
    books = ledger.books
    assert not violations(books)
    assert books.counts() == {"POSTED": 163}
    times = [entry.outcome.posted_at for entry in books.entries]
    assert any(time.endswith("1+00:00") for time in times), "the clock that is ahead has posted, too"
