"""Fills a ledger's tables directly with many entries. The product's own code makes them, so that they are sound."""

import itertools
import uuid
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from msgspec.structs import replace

from conditional_writes.core.items import to_dynamodb
from conditional_writes.core.own_attributes import WRITE_ID
from ledger.core.accounts import Account, account_item, timestamp
from ledger.core.journal import JournalEntry, Sender, Sent, entry_item, seal_of
from ledger.core.rules import RULES
from ledger.core.transaction_types import OpenAccount, Transaction
from ledger.core.transaction_types.base import Context
from tools.local_aws.server import Endpoint
from tools.local_aws.tables import Tables


class Ledger:
    """The tables of a ledger, and the accounts in them. Each entry is a payment, but for the first, which opens."""

    def __init__(self, endpoint: Endpoint, tables: Tables) -> None:
        self.tables = tables
        self.accounts: dict[str, Account] = {}
        self._client = endpoint.client("dynamodb")
        self._began = datetime.now(UTC) - timedelta(days=1)

    def time_of(self, version: int) -> str:
        return timestamp(self._began + timedelta(milliseconds=version))

    def transaction_id(self, version: int) -> str:
        return f"transaction-{version:08}"

    def grow(self, name: str, entries: int) -> None:
        """Adds entries until the account's journal has so many."""
        account, items = self.accounts.get(name), []
        for version in range(account.version + 1 if account else 1, entries + 1):
            account, entry = self._posted(account, name, version)
            items.append(entry_item(entry))
        assert account
        self.accounts[name] = account
        self._put(self.tables.journal, items)
        self._put(self.tables.accounts, [account_item(account)])

    def _posted(self, before: Account | None, name: str, version: int) -> tuple[Account, JournalEntry]:
        keys: dict[str, Any] = {"account_id": name, "transaction_id": self.transaction_id(version), "currency": "EUR"}
        payment = {"amount": Decimal("12.34"), "description": "A payment by card"}
        message = Transaction(**keys, **payment) if before else OpenAccount(**keys)
        [(account, outcome)] = message.outcomes_on([before], Context(posted_at=self.time_of(version)))
        request = message.canonical_payload()
        sender = Sender(Sent("AROA4EXAMPLE7PAYMENTS:payments-api", str(uuid.UUID(int=version)), self.time_of(version)))
        entry = JournalEntry(name, *message.home_entry_id, request, outcome, sender, RULES)
        entry = replace(entry, seal=seal_of(account.seal, entry))
        return replace(account, seal=entry.seal), entry

    def _put(self, table: str, items: list[dict[str, Any]]) -> None:
        puts = [{"PutRequest": {"Item": to_dynamodb(item | {WRITE_ID: "0" * 32})}} for item in items]
        for batch in itertools.batched(puts, 25, strict=False):
            response = self._client.batch_write_item(RequestItems={table: list(batch)})
            assert not response["UnprocessedItems"]
