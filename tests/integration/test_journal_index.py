"""The index of the journal: what it refuses, and that the tables of tests have the template's keys and indexes."""

import pytest

from conditional_writes.core.items import from_dynamodb, to_dynamodb
from ledger.tables import JOURNAL_INDEX
from tests.support.template import resources
from tools.local_aws.server import Endpoint
from tools.local_aws.tables import Tables, scan


def indexed(dynamodb: Endpoint, tables: Tables) -> list[str]:
    """The transaction ids of a's entries, in the order of the index."""
    answer = dynamodb.client("dynamodb").query(
        TableName=tables.journal,
        IndexName=JOURNAL_INDEX,
        KeyConditionExpression="account_id = :account_id AND account_version < :end",
        ExpressionAttributeValues={":account_id": {"S": "a"}, ":end": {"N": "1000000"}},
    )
    return [item["transaction_id"]["S"] for item in answer["Items"]]


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
