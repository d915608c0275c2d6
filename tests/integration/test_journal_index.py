"""The journal's index is added to a table with entries, while transactions are posted and the journal is read."""

import itertools
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from conditional_writes import Deadline
from conditional_writes.items import from_dynamodb, to_dynamodb
from ledger.journal_versions import JournalVersions
from ledger.tables import JOURNAL_INDEX, LedgerTables
from tests.checkers.books import read_books, violations
from tests.support.template import resources
from tools.local_aws.functions import Queue, process_transactions, record
from tools.local_aws.server import Endpoint
from tools.local_aws.tables import BY_VERSION, Tables, scan

ACCOUNTS = ("a", "b", "c")
OPENING = {"type": "open_account", "transaction_id": "o", "currency": "EUR", "overdraft_limit": -200}
BEFORE_WORKERS, BATCH, WORKERS = 120, 10, 3


@pytest.fixture
def dynamodb(ministack: Endpoint) -> Endpoint:
    """A server: the library's engine makes indexes with their table alone."""
    return ministack


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ledger.journal_versions.PAUSES_SECONDS", (0.01, 0.02))


def status(dynamodb: Endpoint, table: str) -> str | None:
    """The index's status, None if the table has none."""
    description = dynamodb.client("dynamodb").describe_table(TableName=table)["Table"]
    return next((index["IndexStatus"] for index in description.get("GlobalSecondaryIndexes", [])), None)


def update_index(dynamodb: Endpoint, table: str, *, to: str | None) -> None:
    """Creates or deletes the index as a deployment does, and waits until it is `to`."""
    update: dict[str, Any] = {"Create": BY_VERSION} if to else {"Delete": {"IndexName": JOURNAL_INDEX}}
    names = {"account_id": "S", "account_version": "N"} if to else {}
    dynamodb.client("dynamodb").update_table(
        TableName=table,
        AttributeDefinitions=[{"AttributeName": name, "AttributeType": kind} for name, kind in names.items()],
        GlobalSecondaryIndexUpdates=[update],
    )
    end = time.monotonic() + 30
    while status(dynamodb, table) != to:
        assert time.monotonic() < end, f"the index is {status(dynamodb, table)}, expected {to}"
        time.sleep(0.05)


@pytest.fixture
def without_index(dynamodb: Endpoint, tables: Tables) -> Tables:
    """The tables as an earlier release left them."""
    update_index(dynamodb, tables.journal, to=None)
    return tables


def indexed(dynamodb: Endpoint, tables: Tables, account_id: str) -> list[dict[str, Any]]:
    """The account's entries that have a number for a version, in the order of the index.

    DynamoDB leaves out those with a text when it adds an index. Both engines add them.
    """
    pages = (
        dynamodb.client("dynamodb")
        .get_paginator("query")
        .paginate(
            TableName=tables.journal,
            IndexName=JOURNAL_INDEX,
            KeyConditionExpression="account_id = :account_id AND account_version BETWEEN :first AND :last",
            ExpressionAttributeValues={":account_id": {"S": account_id}, ":first": {"N": "0"}, ":last": {"N": "9" * 9}},
        )
    )
    return [from_dynamodb(item) for page in pages for item in page["Items"]]


def in_order(dynamodb: Endpoint, tables: Tables, account_id: str) -> list[dict[str, Any]]:
    """The account's entries, by the table."""
    entries = (from_dynamodb(item) for item in scan(dynamodb, tables.journal))
    return sorted(
        (entry for entry in entries if entry["account_id"] == account_id),
        key=lambda entry: int(entry["account_version"]),
    )


def damaged_entries() -> Iterator[dict[str, Any]]:
    keys = [{"account_id": "a", "transaction_id": f"damaged-{number}"} for number in range(2)]
    yield keys[0] | {"account_version": "three"}
    yield keys[1]


def test_it_is_added_while_transactions_are_posted_and_has_each_entry_at_the_end(
    ministack: Endpoint, dynamodb: Endpoint, without_index: Tables
) -> None:
    tables = without_index
    workers = [process_transactions(ministack, tables, dynamodb) for _ in range(WORKERS)]
    numbers, ended = itertools.count(), threading.Event()

    def post(worker: int, batches: int) -> None:
        for _ in range(batches):
            messages = [
                {"transaction_id": f"t-{number}", "account_id": ACCOUNTS[number % 3], "amount": number % 7 - 4}
                for number in itertools.islice(numbers, BATCH)
                if number % 7 != 4
            ]
            Queue([record(message) for message in messages]).deliver_until_quiet(workers[worker])

    def post_until_the_end(worker: int) -> None:
        while not ended.is_set():
            post(worker, 1)

    def read_until_the_end() -> int:
        """Reads all versions again and again, and returns how often. None is missing, with or without the index."""
        reads = 0
        while not ended.is_set():
            for account_id in ACCOUNTS:
                key = {"account_id": {"S": account_id}}
                answer = reader.get_item(TableName=tables.accounts, Key=key, ConsistentRead=True)
                version = int(answer["Item"]["version"]["N"])
                page = versions.page(account_id, 1, version, Deadline.after(30), most_table_pages=25)
                assert (list(page.missing), page.through) == ([], version)
                assert [item["account_version"] for item in page.items] == list(range(1, version + 1))
            reads += 1
        return reads

    Queue([record(OPENING | {"account_id": account_id}) for account_id in ACCOUNTS]).deliver_until_quiet(workers[0])
    for worker in range(WORKERS):
        post(worker, BEFORE_WORKERS // WORKERS // BATCH)
    reader = dynamodb.client("dynamodb")
    versions = JournalVersions(reader, LedgerTables(tables.accounts, tables.journal))
    with ThreadPoolExecutor(WORKERS + 1) as pool:
        posting = [pool.submit(post_until_the_end, worker) for worker in range(WORKERS)]
        reading = pool.submit(read_until_the_end)
        try:
            update_index(dynamodb, tables.journal, to="ACTIVE")
            time.sleep(0.5)  # some go on with the index
        finally:
            ended.set()
        assert reading.result() > 0
        assert [future.result() for future in posting] == [None] * WORKERS
    books = read_books(dynamodb, tables)
    assert not violations(books)
    posted = next(numbers)
    assert {entry.transaction_id for entry in books.entries} == {"o"} | {f"t-{n}" for n in range(posted) if n % 7 != 4}
    for account_id in ACCOUNTS:
        assert indexed(dynamodb, tables, account_id) == in_order(dynamodb, tables, account_id)
        assert len(indexed(dynamodb, tables, account_id)) == books.accounts[account_id].version


def test_damaged_entries_do_not_keep_it_from_being_added(
    ministack: Endpoint, dynamodb: Endpoint, without_index: Tables
) -> None:
    tables = without_index
    worker = process_transactions(ministack, tables, dynamodb)
    payments = [{"transaction_id": f"t-{number}", "account_id": "a", "amount": 1} for number in range(4)]
    Queue([record(message) for message in [OPENING | {"account_id": "a"}, *payments]]).deliver_until_quiet(worker)
    for item in damaged_entries():
        dynamodb.client("dynamodb").put_item(TableName=tables.journal, Item=to_dynamodb(item))
    update_index(dynamodb, tables.journal, to="ACTIVE")
    assert [entry["transaction_id"] for entry in indexed(dynamodb, tables, "a")] == ["o", "t-0", "t-1", "t-2", "t-3"]
    versions = JournalVersions(dynamodb.client("dynamodb"), LedgerTables(tables.accounts, tables.journal))
    page = versions.page("a", 1, 5, Deadline.after(30), most_table_pages=25)
    assert [entry["transaction_id"] for entry in page.items] == ["o", "t-0", "t-1", "t-2", "t-3"]
    assert len(list(scan(dynamodb, tables.journal))) == 7


def test_with_it_no_entry_can_be_damaged_by_a_text_for_a_version(dynamodb: Endpoint, tables: Tables) -> None:
    [text, none] = damaged_entries()
    client = dynamodb.client("dynamodb")
    with pytest.raises(client.exceptions.ClientError, match="Type mismatch for Index Key"):
        client.put_item(TableName=tables.journal, Item=to_dynamodb(text))
    client.put_item(TableName=tables.journal, Item=to_dynamodb(none))
    assert indexed(dynamodb, tables, "a") == []


def test_the_tables_of_tests_have_the_keys_and_indexes_of_the_template(dynamodb: Endpoint, tables: Tables) -> None:
    templates = resources("AWS::DynamoDB::Table")
    names = {"AccountsTable": tables.accounts, "JournalTable": tables.journal, "CheckpointsTable": tables.checkpoints}
    for name, created in names.items():
        table = dynamodb.client("dynamodb").describe_table(TableName=created)["Table"]
        indexes = [
            {part: index[part] for part in ("IndexName", "KeySchema", "Projection")}
            for index in table.get("GlobalSecondaryIndexes", [])
        ]
        assert table["KeySchema"] == templates[name]["KeySchema"]
        assert indexes == templates[name].get("GlobalSecondaryIndexes", [])
