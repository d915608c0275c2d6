"""Many workers on few accounts, as with a queue and a dozen Lambda environments, but without the waiting times."""

import itertools
import random
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, tzinfo
from typing import Any

import pytest

from tests.checkers.books import Books, read_books, violations
from tools.local_aws.functions import Queue, process_transactions, record
from tools.local_aws.server import Endpoint
from tools.local_aws.tables import Tables

WORKERS = 8
BATCH = 10
OPENING = {"type": "open_account", "transaction_id": "o", "currency": "EUR", "overdraft_limit": -200}


def work_off(
    messages: list[dict[str, Any]],
    ministack: Endpoint,
    dynamodb: Endpoint,
    tables: Tables,
    openings: list[dict[str, Any]],
) -> Books:
    """Opens the accounts, posts the messages with concurrent workers, each a share of them, and returns the books."""
    workers = [process_transactions(ministack, tables, dynamodb) for _ in range(WORKERS)]
    Queue([record(opening) for opening in openings]).deliver_until_quiet(workers[0])

    def work(number: int) -> None:
        mine = messages[number::WORKERS]
        for start in range(0, len(mine), BATCH):
            Queue([record(message) for message in mine[start : start + BATCH]]).deliver_until_quiet(workers[number])

    with ThreadPoolExecutor(WORKERS) as pool:
        list(pool.map(work, range(WORKERS)))
    return read_books(dynamodb, tables)


def test_eight_workers_on_one_account_post_each_transaction_once(
    ministack: Endpoint, dynamodb: Endpoint, tables: Tables
) -> None:
    choose = random.Random(8)
    payments = [
        {"transaction_id": f"t-{number}", "account_id": "hot", "amount": choose.choice(["-60", "-25.10", "40", "12.5"])}
        for number in range(560)
    ]
    messages = payments + choose.sample(payments, 240)  # 30 % of all messages are duplicates.
    choose.shuffle(messages)
    books = work_off(messages, ministack, dynamodb, tables, [OPENING | {"account_id": "hot"}])
    assert not violations(books)
    assert {entry.transaction_id for entry in books.entries} == {"o"} | {
        payment["transaction_id"] for payment in payments
    }
    assert books.accounts["hot"].version == 561
    assert set(books.counts()) == {"POSTED", "OVERDRAFT_LIMIT"}


def test_eight_workers_transfer_between_four_accounts_in_both_directions_and_all_money_stays(
    ministack: Endpoint, dynamodb: Endpoint, tables: Tables
) -> None:
    choose = random.Random(8)
    names = ["a", "b", "c", "d"]
    transfers = []
    for number in range(560):
        payer, payee = choose.sample(names, 2)
        transfers.append(
            {
                "type": "transfer",
                "transaction_id": f"t-{number}",
                "from_account_id": payer,
                "to_account_id": payee,
                "amount": choose.choice(["150", "75.10", "40"]),
            }
        )
    messages = transfers + choose.sample(transfers, 240)
    choose.shuffle(messages)
    openings = [OPENING | {"account_id": name} for name in names]
    books = work_off(messages, ministack, dynamodb, tables, openings)
    assert not violations(books)
    assert sum(account.balance for account in books.accounts.values()) == 0
    assert sum(account.version for account in books.accounts.values()) == 4 + 2 * 560
    assert set(books.counts()) == {"POSTED", "OVERDRAFT_LIMIT"}
    assert books.counts().total() == 4 + 560


def test_workers_whose_clocks_differ_post_in_the_order_of_the_times(
    ministack: Endpoint, dynamodb: Endpoint, tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds_ahead, looks = (4.001, 0, -0.5, 2), itertools.count()

    class ClockOfSomeWorker(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> datetime:
            look = next(looks)  # ten milliseconds after the one before
            return datetime.fromtimestamp(1_000_000_000 + look / 100 + seconds_ahead[look % 4], tz)

    monkeypatch.setattr("ledger.batch_poster.datetime", ClockOfSomeWorker)
    names = ["a", "b", "c"]
    messages = [
        {"type": "transfer", "transaction_id": f"t-{n}", "from_account_id": payer, "to_account_id": payee, "amount": 1}
        for n, (payer, payee) in zip(range(160), itertools.cycle(itertools.permutations(names, 2)), strict=False)
    ]
    books = work_off(messages, ministack, dynamodb, tables, [OPENING | {"account_id": name} for name in names])
    assert not violations(books)
    assert books.counts() == {"POSTED": 163}
    times = [entry.outcome.posted_at for entry in books.entries]
    assert any(time.endswith("1+00:00") for time in times), "the clock that is ahead has posted, too"
