"""The handler on moto, in this process: a fast pattern for end-to-end tests of your own rules.

Each batch has one account, because moto loses updates with several threads or workers.
"""

from collections.abc import Iterator
from types import ModuleType

import pytest
from moto import mock_aws

from tests.checkers.books import read_books, violations
from tools.local_aws.functions import Queue, process_transactions, record
from tools.local_aws.queues import take_dead_letters
from tools.local_aws.server import Endpoint
from tools.local_aws.tables import Tables, create_tables

MOTO = Endpoint("")  # No URL: moto answers for the AWS endpoints.


@pytest.fixture
def moto_tables() -> Iterator[Tables]:
    with mock_aws():
        yield create_tables(MOTO, "moto")


@pytest.fixture
def function(moto_tables: Tables) -> ModuleType:
    return process_transactions(MOTO, moto_tables)


def test_the_seeds_two_payments_end_with_one_rejected(function: ModuleType, moto_tables: Tables) -> None:
    """The second seed's example: balance 100, overdraft limit -500, and payments of 400 and 300."""
    Queue(
        [
            record({"type": "open_account", "transaction_id": "0", "account_id": "123", "currency": "EUR"}),
            record(
                {"type": "set_overdraft_limit", "transaction_id": "1", "account_id": "123", "overdraft_limit": -500}
            ),
            record({"transaction_id": "2", "account_id": "123", "amount": 100}),
            record({"transaction_id": "3", "account_id": "123", "amount": -400}),
            record({"transaction_id": "4", "account_id": "123", "amount": -300}),
            record("junk"),
        ]
    ).deliver_until_quiet(function)
    books = read_books(MOTO, moto_tables)
    assert not violations(books)
    assert books.accounts["123"].balance == -300
    assert books.counts() == {"POSTED": 4, "OVERDRAFT_LIMIT": 1}
    assert [letter.body for letter in take_dead_letters(MOTO, function.worker.queue.dead_letter_url)] == ["junk"]
