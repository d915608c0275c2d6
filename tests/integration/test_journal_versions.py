"""A journal by versions on both engines: from the index, and from the table if the index is late, with holes, or away.

An account's entries are planted: t-1 has the version 1 and so on, unless a test says otherwise.
"""

import random
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

import pytest
from botocore.exceptions import ClientError

from conditional_writes import Deadline, DeadlinePassed
from conditional_writes.items import to_dynamodb
from ledger import journal_versions
from ledger.journal_versions import JournalVersions, VersionPage
from ledger.tables import LedgerTables
from tests.support.late_index import AWAY, THROTTLED, LateIndex
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
    monkeypatch.setattr(journal_versions, "PAUSES_SECONDS", PAUSES_SECONDS)
    journal = Journal(dynamodb, tables)
    journal.plant(range(1, 13))
    return journal


def numbers(page: VersionPage) -> list[int]:
    return [int(item["account_version"]) for item in page.items]


def test_versions_come_in_order_from_one_request_to_the_index(journal: Journal) -> None:
    page = journal.page(3, 10)
    assert (numbers(page), page.through, page.missing) == (list(range(3, 11)), 10, [])
    assert {item["account_id"] for item in page.items} == {"alice"}
    assert journal.index.queries == {"index": 1}


@pytest.mark.parametrize("hidden", [{12}, {10, 11, 12}, {5}, {1}, set(range(1, 13))], ids=str)
def test_a_late_index_is_waited_for(journal: Journal, hidden: set[int]) -> None:
    journal.index.hidden, journal.index.reads = hidden, len(PAUSES_SECONDS)
    page = journal.page(1, 12)
    assert (numbers(page), page.missing, page.is_certain) == (list(range(1, 13)), [], True)
    assert journal.index.queries == {"index": 1 + len(PAUSES_SECONDS)}


@pytest.mark.parametrize("hidden", [{12}, {10, 11, 12}, {5}, {1, 7}, set(range(1, 13))], ids=str)
def test_an_index_that_stays_late_is_completed_from_the_table(journal: Journal, hidden: set[int]) -> None:
    journal.index.hidden = hidden
    page = journal.page(1, 12)
    assert (numbers(page), page.through, page.missing) == (list(range(1, 13)), 12, [])
    assert journal.index.queries == {"index": 1 + len(PAUSES_SECONDS), "table": 1}


@pytest.mark.parametrize("error", [AWAY, THROTTLED], ids=lambda error: error[0])
def test_without_the_index_the_table_tells(journal: Journal, error: tuple[str, str]) -> None:
    journal.index.error = error
    page = journal.page(2, 11)
    assert (numbers(page), page.through, page.missing) == (list(range(2, 12)), 11, [])
    assert journal.index.queries == {"index": 1, "table": 1}


def test_a_table_that_never_had_the_index_is_read_as_well(dynamodb: Endpoint, tables: Tables) -> None:
    client, name = dynamodb.client("dynamodb"), f"{tables.journal}-of-an-earlier-release"
    keys = {"account_id": "HASH", "transaction_id": "RANGE"}
    client.create_table(
        TableName=name,
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[{"AttributeName": key, "AttributeType": "S"} for key in keys],
        KeySchema=[{"AttributeName": key, "KeyType": kind} for key, kind in keys.items()],
    )
    item = {"account_id": "alice", "transaction_id": "t-1", "account_version": 1}
    client.put_item(TableName=name, Item=to_dynamodb(item))
    versions = JournalVersions(client, LedgerTables(tables.accounts, name))
    page = versions.page("alice", 1, 1, Deadline.after(30), most_table_pages=1)
    assert (list(page.items), page.missing) == ([item], [])
    with pytest.raises(ClientError, match="specified index"):
        client.query(
            TableName=name,
            IndexName="by_version",
            KeyConditionExpression="account_id = :id",
            ExpressionAttributeValues=to_dynamodb({":id": "alice"}),
        )


def test_an_entry_that_nothing_has_is_missing_for_certain(journal: Journal) -> None:
    journal.plant([1, 2, 4, 5])
    page = journal.page(1, 5)
    assert (numbers(page), page.missing, page.is_certain) == ([1, 2, 4, 5], [3], True)


@pytest.mark.parametrize("pages", [0, 1, 2, 3])
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
    assert not page.is_certain


def test_a_page_of_the_table_that_is_the_last_is_certain(journal: Journal) -> None:
    journal.index.hidden, journal.index.limits = {2}, {"table": 4}
    page = journal.page(1, 12, most_table_pages=4)
    assert (page.missing, page.is_certain) == ([], True)
    assert journal.index.queries["table"] == 4


TWICE = [1, 2, 2, 3, 4, 5, 5, 6]


@pytest.mark.parametrize("limit", range(2, 10))
def test_pages_that_go_on_after_each_other_have_each_entry_once_though_versions_are_twice(
    journal: Journal, limit: int
) -> None:
    journal.plant(TWICE)
    journal.index.limits = {"index": limit}
    found: list[int] = []
    begin = 1
    while begin <= 6:
        page = journal.page(begin, 6)
        assert not page.missing
        assert page.through >= begin
        found += numbers(page)
        begin = page.through + 1
    assert found == TWICE


@pytest.mark.parametrize("limit", range(1, 6))
def test_a_page_of_any_length_ends_at_a_gap_with_what_the_table_has(journal: Journal, limit: int) -> None:
    journal.index.limits, journal.index.hidden = {"index": limit}, {4, 5, 9, 12}
    found: list[int] = []
    begin = 1
    while begin <= 12:
        page = journal.page(begin, 12)
        assert (page.missing, page.is_certain) == ([], True)
        found += numbers(page)
        begin = page.through + 1
    assert found == list(range(1, 13))


def test_two_entries_of_one_version_are_both_found_in_the_table(journal: Journal) -> None:
    journal.plant(TWICE)
    journal.index.hidden = {2, 5}
    assert numbers(journal.page(1, 6)) == TWICE


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


@pytest.mark.parametrize("state", ["late", "away", "in time"])
def test_after_the_deadline_nothing_is_asked_for(journal: Journal, state: str) -> None:
    journal.index.hidden = {12} if state == "late" else set()
    journal.index.error = AWAY if state == "away" else None
    with pytest.raises(DeadlinePassed):
        journal.versions.page("alice", 1, 12, Deadline.after(-1), most_table_pages=1)
    assert not journal.index.queries


def test_a_wait_for_the_index_ends_at_the_deadline(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_versions, "PAUSES_SECONDS", (60, 60))
    journal.index.hidden = {12}
    with pytest.raises(DeadlinePassed):
        journal.versions.page("alice", 1, 12, Deadline.after(2), most_table_pages=1)
    assert journal.index.queries == {"index": 1}


def test_an_error_of_the_table_is_raised(journal: Journal) -> None:
    journal.index.error = AWAY
    journal.client.meta.events.register("before-call.dynamodb.Query", fail_table)
    with pytest.raises(ClientError, match="too fast"):
        journal.page(1, 12)


def fail_table(params: dict[str, Any], **_: Any) -> Any:
    if b"IndexName" in params["body"]:
        return None
    return LateIndex.refusal("ThrottlingException", "too fast")


def test_any_holes_and_any_pages_give_each_entry_once(journal: Journal) -> None:
    choose = random.Random(15)
    for _ in range(30):
        journal.index.hidden = set(choose.sample(range(1, 13), choose.randint(0, 12)))
        journal.index.limits = {"index": choose.randint(1, 13), "table": choose.randint(1, 13)}
        first = choose.randint(1, 12)
        last = choose.randint(first, 12)
        found: list[int] = []
        begin = first
        while begin <= last:
            page = journal.page(begin, last)
            found += numbers(page)
            begin = page.through + 1
        assert found == list(range(first, last + 1))
