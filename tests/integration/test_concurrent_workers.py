"""Many workers on few accounts, as with a queue and a dozen Lambda environments, but without the waiting times."""

import itertools
import random
from datetime import datetime, tzinfo

import pytest

from tests.checkers.books import Books, violations
from tests.support.bodies import Body, payment, transfer
from tests.support.ledger import Ledger
from tools.local_aws.server import Endpoint

NUMBER = 240
WITHIN_THE_LIMIT = {"POSTED", "OVERDRAFT_LIMIT"}


@pytest.fixture
def ledger(aws: Endpoint, dynamodb: Endpoint) -> Ledger:
    return Ledger(aws, dynamodb)


def work_off(ledger: Ledger, messages: list[Body], duplicates: int = 0) -> Books:
    """Posts the messages, and some of them twice, with concurrent workers, each a share of them."""
    choose = random.Random(8)
    ledger.race(choose.sample(messages, len(messages)) + choose.sample(messages, duplicates), batch=10)
    books = ledger.books
    assert not violations(books)
    return books


def test_eight_workers_on_one_account_post_each_transaction_once(ledger: Ledger) -> None:
    ledger.open("hot", limit=-200)
    amounts = random.Random(8).choices(["-60", "-25.10", "40", "12.5"], k=NUMBER)
    payments = [payment(f"t-{number}", amount, "hot") for number, amount in enumerate(amounts)]
    books = work_off(ledger, payments, duplicates=NUMBER // 2)
    assert {entry.transaction_id for entry in books.entries} == {"open", *(each["transaction_id"] for each in payments)}
    assert books.accounts["hot"].version == NUMBER + 1
    assert set(books.counts()) == WITHIN_THE_LIMIT


def test_workers_whose_clocks_differ_post_in_the_order_of_the_times(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
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
    books = work_off(ledger, [transfer(f"t-{number}", 1, *pair) for number, pair in pairs])
    assert books.counts() == {"POSTED": 163}
    times = [entry.outcome.posted_at for entry in books.entries]
    assert any(time.endswith("1+00:00") for time in times), "the clock that is ahead has posted, too"
