"""Publishes a range of an account's versions again."""

from typing import TYPE_CHECKING, Any, NamedTuple

from conditional_writes import Deadline
from ledger.journal_versions import MOST_TABLE_PAGES, JournalVersions
from ledger.outcome_publisher import OutcomePublisher
from ledger.tables import LedgerTables

if TYPE_CHECKING:
    from types_boto3_dynamodb import DynamoDBClient


class Republisher(NamedTuple):
    """The ledger's tables, and the publisher."""

    client: "DynamoDBClient"
    tables: LedgerTables
    publisher: OutcomePublisher

    def answer(self, event: Any, deadline: Deadline) -> dict[str, Any]:
        request = event["republish"]
        versions = JournalVersions(self.client, self.tables)
        page = versions.page(
            request["account_id"], request["from_version"], request["to_version"], deadline, MOST_TABLE_PAGES
        )
        return {"published": self.publisher.publish(page.items, deadline).number}
