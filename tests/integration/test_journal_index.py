"""The journal's index is added to a table with entries, while transactions are posted and the journal is read."""

import itertools
import threading
import time
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
from tools.local_aws.tables import BY_VERSION, Tables, create_tables, scan


def indexed(dynamodb: Endpoint, tables: Tables) -> list[str]:
    """The transaction ids of a's entries, in the order of the index."""
    answer = dynamodb.client("dynamodb").query(
        TableName=tables.journal,
        IndexName=JOURNAL_INDEX,
        KeyConditionExpression="account_id = :account_id AND account_version < :end",
        ExpressionAttributeValues={":account_id": {"S": "a"}, ":end": {"N": "1000000"}},
    )
    return [item["transaction_id"]["S"] for item in answer["Items"]]


def update_index(dynamodb: Endpoint, table: str, *, to: str | None) -> None:
    """Creates or deletes the index as a deployment does, and waits until its status is `to`."""
    client = dynamodb.client("dynamodb")
    update: dict[str, Any] = {"Create": BY_VERSION} if to else {"Delete": {"IndexName": JOURNAL_INDEX}}
    names = {"account_id": "S", "account_version": "N"} if to else {}
    client.update_table(
        TableName=table,
        AttributeDefinitions=[{"AttributeName": name, "AttributeType": kind} for name, kind in names.items()],
        GlobalSecondaryIndexUpdates=[update],
    )
    for _ in range(600):
        indexes = client.describe_table(TableName=table)["Table"].get("GlobalSecondaryIndexes", [])
        if [index["IndexStatus"] for index in indexes] == ([to] if to else []):
            return
        time.sleep(0.05)
    pytest.fail(f"the indexes are {indexes}, expected {to}")


@pytest.mark.exhaustive
def test_it_is_added_while_transactions_are_posted_and_has_each_entry_at_the_end(
    ministack: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a server: the library's engine makes indexes with their table. No version is missing at any time.

    Damaged entries are there, too: one with a text for a version, and one without.
    """
    monkeypatch.setattr("ledger.journal_versions.PAUSES_SECONDS", (0.01, 0.02))
    tables = create_tables(ministack, "with-an-index-later")
    update_index(ministack, tables.journal, to=None)
    worker, client = process_transactions(ministack, tables), ministack.client("dynamodb")
    versions = JournalVersions(client, LedgerTables(tables.accounts, tables.journal))
    numbers, ended = itertools.count(), threading.Event()

    def post(*messages: dict[str, Any]) -> None:
        Queue([record({"account_id": "a"} | message) for message in messages]).deliver_until_quiet(worker)

    def post_until_the_end() -> None:
        while not ended.is_set():
            post(*({"transaction_id": f"t-{number}", "amount": 1} for number in itertools.islice(numbers, 10)))

    def read_all() -> None:
        account = client.get_item(TableName=tables.accounts, Key={"account_id": {"S": "a"}}, ConsistentRead=True)
        last = int(account["Item"]["version"]["N"])
        page = versions.page("a", 1, last, Deadline.after(30), most_table_pages=25)
        assert [item["account_version"] for item in page.items] == list(range(1, last + 1))

    post({"type": "open_account", "transaction_id": "o", "currency": "EUR"})
    damaged = [{"account_id": "a", "transaction_id": f"damaged-{number}"} for number in range(2)]
    for item in (damaged[0] | {"account_version": "three"}, damaged[1]):
        client.put_item(TableName=tables.journal, Item=to_dynamodb(item))
    with ThreadPoolExecutor(1) as pool:
        posting = pool.submit(post_until_the_end)
        try:
            read_all()
            update_index(ministack, tables.journal, to="ACTIVE")
            for _ in range(5):
                read_all()
        finally:
            ended.set()
        posting.result()
    posted = next(numbers)
    assert indexed(ministack, tables) == ["o", *(f"t-{number}" for number in range(posted))]
    for item in damaged:
        client.delete_item(TableName=tables.journal, Key=to_dynamodb(item))
    assert not violations(read_books(ministack, tables))


def test_with_it_no_entry_can_be_damaged_by_a_text_for_a_version(dynamodb: Endpoint, tables: Tables) -> None:
    client = dynamodb.client("dynamodb")
    item = {"account_id": "a", "transaction_id": "damaged"}
    with pytest.raises(client.exceptions.ClientError, match="Type mismatch for Index Key"):
        client.put_item(TableName=tables.journal, Item=to_dynamodb(item | {"account_version": "three"}))
    client.put_item(TableName=tables.journal, Item=to_dynamodb(item))
    assert indexed(dynamodb, tables) == []
    assert [from_dynamodb(each) for each in scan(dynamodb, tables.journal)] == [item]


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
