"""A journal by versions on both engines: from the index, and from the table if the index is late, with holes, or away.

An account's entries are planted: t-1 has the version 1 and so on, unless a test says otherwise. Any holes and any pages
of any journal are in test_statements.py and test_republishing.py.
"""

from collections.abc import Iterable
from decimal import Decimal
from typing import Any

import pytest
from botocore.exceptions import ClientError

from conditional_writes import Deadline
from conditional_writes.core.items import to_dynamodb
from ledger import table_reading
from ledger.table_reading import JournalVersions, VersionPage
from ledger.tables import LedgerTables
from tests.support.late_index import AWAY, THROTTLED, LateIndex
from tests.support.template import resources
from tools.local_aws.server import Endpoint
from tools.local_aws.tables import Tables, refill

PAUSES_SECONDS = (0.001, 0.002, 0.004)
"""As the module's, but shorter: the index is read four times."""


class Journal:
    """The journal of alice, whose transaction ids are in another order than their versions, and its reader."""

    def __init__(self, endpoint: Endpoint, tables: Tables) -> None:
        self.endpoint, self.tables, client = endpoint, tables, endpoint.client("dynamodb")
        self.client = client
        self.index = LateIndex(client)
        self.versions = JournalVersions(client, LedgerTables(tables.accounts, tables.journal))

    def plant(self, versions: Iterable[Any]) -> None:
        items = [
            {"account_id": "alice", "transaction_id": f"t-{(number * 7) % 101:03}", "account_version": version}
            for number, version in enumerate(versions)
        ]
        other = {"account_id": "bob", "transaction_id": "t-1", "account_version": 3}
        refill(self.endpoint, self.tables.journal, [to_dynamodb(item) for item in (*items, other)])

    def page(self, first: int, last: int, most_table_pages: int = 25) -> VersionPage:
        return self.versions.page("alice", first, last, Deadline.after(30), most_table_pages)


@pytest.fixture
def journal(dynamodb: Endpoint, tables: Tables, monkeypatch: pytest.MonkeyPatch) -> Journal:
    monkeypatch.setattr(table_reading, "PAUSES_SECONDS", PAUSES_SECONDS)
    journal = Journal(dynamodb, tables)
    journal.plant(range(1, 13))
    return journal


def numbers(page: VersionPage) -> list[int]:
    return [int(item["account_version"]) for item in page.items]


LATE: dict[str, tuple[dict[str, Any], dict[str, int]]] = {
    "there": ({}, {"index": 1}),
    **{
        f"late: {hidden}": ({"hidden": hidden, "reads": len(PAUSES_SECONDS)}, {"index": 1 + len(PAUSES_SECONDS)})
        for hidden in ({12}, {1, 7})
    },
    **{
        f"for ever: {hidden}": ({"hidden": hidden}, {"index": 1 + len(PAUSES_SECONDS), "table": 1})
        for hidden in ({10, 11, 12}, {5}, set(range(1, 13)))
    },
    "away": ({"error": AWAY}, {"index": 1, "table": 1}),
    "throttled": ({"error": THROTTLED}, {"index": 1, "table": 1}),
}


@pytest.mark.parametrize("late", LATE)
def test_a_late_index_is_waited_for_and_then_completed_from_the_table(journal: Journal, late: str) -> None:
    changes, queries = LATE[late]
    vars(journal.index).update(changes)
    page = journal.page(1, 12)
    assert (numbers(page), page.through, page.missing, page.is_certain) == (list(range(1, 13)), 12, [], True)
    assert {item["account_id"] for item in page.items} == {"alice"}
    assert journal.index.queries == queries


@pytest.mark.parametrize("pages", [0, 1, 2, 3, 4])
def test_a_journal_that_is_too_long_to_be_searched_says_which_versions_may_be_there(
    journal: Journal, pages: int
) -> None:
    journal.index.hidden, journal.index.limits = {2, 6, 9, 11, 12}, {"table": 4}
    page = journal.page(1, 12, pages)
    items = sorted(range(12), key=lambda number: (number * 7) % 101)
    searched = {number + 1 for number in items[: 4 * pages]}
    left = sorted(journal.index.hidden - searched)
    assert page.missing == left
    assert numbers(page) == [version for version in range(1, 13) if version not in left]
    # The third page is full, so DynamoDB says that a fourth one may have more.
    assert page.is_certain == (pages == 4)


@pytest.mark.parametrize("damaged", [{}, {"account_version": Decimal("2.5")}], ids=str)
def test_an_entry_without_a_whole_version_is_none(journal: Journal, damaged: dict[str, Any]) -> None:
    """The index has no entry without a version. DynamoDB refuses to put one whose version is a text."""
    journal.plant([1, 2, 3])
    [entry] = journal.page(2, 2).items
    key = {name: value for name, value in entry.items() if name != "account_version"}
    journal.client.put_item(TableName=journal.tables.journal, Item=to_dynamodb(key | damaged))
    page = journal.page(1, 3)
    assert (numbers(page), page.missing, page.is_certain) == ([1, 3], [2], True)
    with pytest.raises(ClientError, match="Type mismatch for Index Key"):
        journal.client.put_item(TableName=journal.tables.journal, Item=to_dynamodb(key | {"account_version": "2"}))


def test_the_tables_of_tests_have_the_keys_and_indexes_of_the_template(journal: Journal) -> None:
    tables, templates = journal.tables, resources("AWS::DynamoDB::Table")
    names = {"AccountsTable": tables.accounts, "JournalTable": tables.journal, "CheckpointsTable": tables.checkpoints}
    for name, created in names.items():
        table = journal.client.describe_table(TableName=created)["Table"]
        indexes = [
            {part: index[part] for part in ("IndexName", "KeySchema", "Projection")}
            for index in table.get("GlobalSecondaryIndexes", [])
        ]
        assert table["KeySchema"] == templates[name]["KeySchema"]
        assert indexes == templates[name].get("GlobalSecondaryIndexes", [])
