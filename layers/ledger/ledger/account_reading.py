"""Reads an account for a request. If there is no answer to the request, it is refused with a code and a reason."""

import json
from collections.abc import Callable
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from conditional_writes import Deadline, Item
from conditional_writes.core.unconditional import read_one
from ledger.core.accounts import Account, account_from_item
from ledger.core.journal import JournalEntry, entry_from_item
from ledger.core.reason_codes import InvalidMessage
from ledger.tables import LARGEST, LedgerTables

if TYPE_CHECKING:
    from types_boto3_dynamodb import DynamoDBClient

type Answer = dict[str, Any]


class ErrorCode(StrEnum):
    """Why there is no answer, for machines."""

    INVALID_REQUEST = "INVALID_REQUEST"
    """The request isn't one: a field is missing, unknown, or out of its range."""
    UNKNOWN_ACCOUNT = "UNKNOWN_ACCOUNT"
    """The account hasn't been opened."""
    UNREADABLE = "UNREADABLE"
    """The account, an entry, the count of what was reversed, or a refusal was damaged by another program."""


class RequestRefused(Exception):
    """There is no answer to the request. The text is a sentence for people."""

    def __init__(self, code: ErrorCode, reason: str) -> None:
        super().__init__(reason)
        self.code = code


def answer_or_error(answer: Callable[[], Answer]) -> Answer:
    """The answer. If the request is invalid or refused, the answer is an `error` with a code and a reason."""
    try:
        return answer()
    except InvalidMessage as error:
        return _error(ErrorCode.INVALID_REQUEST, error)
    except RequestRefused as error:
        return _error(error.code, error)


def _error(code: ErrorCode, reason: Exception) -> Answer:
    return {"error": {"code": str(code), "reason": str(reason)}}


def read_account(client: "DynamoDBClient", tables: LedgerTables, account_id: str, deadline: Deadline) -> Account:
    """The account as it is now. Raises RequestRefused, DeadlinePassed and botocore's errors of the table."""
    item = read_one(client, tables.account_key(account_id), deadline, Account.__struct_fields__)
    if item is None:
        raise RequestRefused(ErrorCode.UNKNOWN_ACCOUNT, f"account_id: no account {account_id!r} has been opened")
    return account_in(item)


def account_in(item: Item) -> Account:
    """The account in an item. Raises RequestRefused for an item that is none, or whose version no journal reaches."""
    try:
        account = account_from_item(item)
    except (KeyError, TypeError, ValueError) as error:
        raise unreadable("the account", error) from None
    if account.version >= LARGEST:
        raise unreadable("the account", ValueError(f"version: no account reaches {account.version}"))
    return account


def entry_in(item: Item) -> JournalEntry:
    """The entry in an item. Raises RequestRefused for an item that is none."""
    try:
        entry = entry_from_item(item)
        json.dumps(entry.request)
    except (KeyError, TypeError, ValueError) as error:
        raise unreadable(f"entry {item['transaction_id']!r}", error) from None
    return entry


def unreadable(item: str, error: Exception) -> RequestRefused:
    return RequestRefused(ErrorCode.UNREADABLE, f"{item} can't be read: {type(error).__name__}: {error}"[:300])
