"""Many workers, one account: what a queue and a dozen Lambda environments do to it, without the waiting."""

import random
from concurrent.futures import ThreadPoolExecutor

from tests.local_aws.checker import read_books, violations
from tests.local_aws.function import Queue, process_transactions, record
from tests.local_aws.server import Endpoint
from tests.local_aws.tables import Tables

WORKERS = 8
BATCH = 10


def test_eight_workers_on_one_account_post_each_transaction_once(
    ministack: Endpoint, dynamodb: Endpoint, tables: Tables
) -> None:
    choose = random.Random(8)
    payments = [
        {"transaction_id": f"t-{number}", "account_id": "hot", "amount": choose.choice(["-60", "-25.10", "40", "12.5"])}
        for number in range(560)
    ]
    messages = payments + choose.sample(payments, 240)  # 30 % of all messages are duplicates
    choose.shuffle(messages)
    workers = [process_transactions(ministack, tables, dynamodb) for _ in range(WORKERS)]
    opening = {"type": "open_account", "transaction_id": "o", "account_id": "hot", "currency": "EUR"}
    Queue([record(opening | {"overdraft_limit": -200})]).deliver_until_quiet(workers[0])

    def work(number: int) -> None:
        mine = messages[number::WORKERS]
        for start in range(0, len(mine), BATCH):
            Queue([record(message) for message in mine[start : start + BATCH]]).deliver_until_quiet(workers[number])

    with ThreadPoolExecutor(WORKERS) as pool:
        list(pool.map(work, range(WORKERS)))

    books = read_books(dynamodb, tables)
    assert not violations(books)
    assert {entry.transaction_id for entry in books.entries} == {"o"} | {
        payment["transaction_id"] for payment in payments
    }
    assert books.accounts["hot"].version == 561
    assert set(books.counts()) == {"POSTED", "OVERDRAFT_LIMIT"}
