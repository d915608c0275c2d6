"""A run of the verification: its name, its accounts, its counted clients, and what it reads of the stack."""

import functools
import json
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from decimal import Decimal
from typing import Any

from botocore.exceptions import ClientError

from conditional_writes import Deadline
from conditional_writes.core.items import from_dynamodb, to_dynamodb
from tools.teller.deployment import Deployment
from tools.teller.failures import Failure
from tools.teller.message_queues import counts_of
from tools.teller.times import time_of_answer
from tools.teller.verify.resources import Resources
from workers.sending import Message, NotSent, send_all

type Item = dict[str, Any]

USUAL_SECONDS = 60
"""Within this time a message is done, unless there is a backlog: two redeliveries, and a cold start."""
SENDING_SECONDS = 120
MOST_TROUBLES = 3


class TimeIsUp(Failure):
    """The stack didn't do in time what it was expected to do."""


class Run:
    """`name` begins the ids of all accounts, profiles and transactions of the run: verify-1a2b3c4d."""

    def __init__(self, deployment: Deployment) -> None:
        self.deployment = deployment
        self.name = f"verify-{uuid.uuid4().hex[:8]}"
        self.began = self.now()
        self.accounts: list[str] = []
        self.profiles: list[str] = []

    def now(self) -> datetime:
        """The time by AWS's clock, which logs, metrics and schedules have, to the second."""
        return time_of_answer(self.client("sts").get_caller_identity())

    @functools.cached_property
    def resources(self) -> Resources:
        return Resources(self.deployment)

    def client(self, service: str) -> Any:
        return self.deployment.client(service)

    # --- Sending -------------------------------------------------------------------------------------------

    def account(self, name: str) -> str:
        """The id of a new account of the run's own."""
        self.accounts.append(f"{self.name}-{name}")
        return self.accounts[-1]

    def profile(self, name: str) -> str:
        """The id of a new profile of the run's own."""
        self.profiles.append(f"{self.name}-{name}")
        return self.profiles[-1]

    def send(self, queue: str, messages: Iterable[str | Mapping[str, Any]]) -> None:
        """Sends messages to `Transactions`, `Administration` or `Profiles`: bodies, or values to be encoded as JSON."""
        bodies = [message if isinstance(message, str) else as_body(message) for message in messages]
        url = self.deployment[f"{queue}QueueUrl"]
        try:
            send_all(self.client("sqs"), url, [Message(body) for body in bodies], Deadline.after(SENDING_SECONDS))
        except NotSent as error:
            raise Failure(f"{queue}: {error}") from None

    def open(self, *account_ids: str, overdraft_limit: str = "0") -> None:
        """Opens accounts, and waits until they are open."""
        self.send("Administration", [opening(account_id, overdraft_limit) for account_id in account_ids])
        for account_id in account_ids:
            self.wait_for_version(account_id, 1)

    # --- Reading -------------------------------------------------------------------------------------------

    def item(self, table: str, **key: str) -> Item | None:
        """An item of the table with this output, read strongly consistent."""
        response = self.client("dynamodb").get_item(
            TableName=self.deployment[table],
            Key=to_dynamodb(key),
            ConsistentRead=True,
        )
        return from_dynamodb(response["Item"]) if "Item" in response else None

    def version(self, account_id: str) -> int:
        """0 if the account isn't open."""
        return int((self.item("AccountsTableName", account_id=account_id) or {"version": 0})["version"])

    def balance(self, account_id: str) -> Decimal:
        balance: Decimal = (self.item("AccountsTableName", account_id=account_id) or {"balance": Decimal(0)})["balance"]
        return balance

    def entries(self, account_id: str) -> list[Item]:
        """The account's journal entries, in the order of their versions, read strongly consistent."""
        pages = self.client("dynamodb").get_paginator("query")
        found = pages.paginate(
            TableName=self.deployment["JournalTableName"],
            KeyConditionExpression="account_id = :id",
            ExpressionAttributeValues={":id": {"S": account_id}},
            ConsistentRead=True,
        )
        entries = [from_dynamodb(item) for page in found for item in page["Items"]]
        return sorted(entries, key=lambda entry: entry["account_version"])

    def entry(self, account_id: str, transaction_id: str) -> Item | None:
        return self.item("JournalTableName", account_id=account_id, transaction_id=transaction_id)

    # --- Waiting -------------------------------------------------------------------------------------------

    def wait_for_version(self, account_id: str, version: int, seconds: float = USUAL_SECONDS) -> None:
        """Waits until the account has this version, or a later one."""
        self.wait(
            lambda: self.version(account_id) >= version,
            lambda: (
                f"{account_id}: expected version {version}, got {self.version(account_id)}. On the transactions queue "
                f"are {counts_of(self.deployment, 'TransactionsQueueUrl')}"
            ),
            seconds,
        )

    def wait[Found](self, look: Callable[[], Found], otherwise: Callable[[], str], seconds: float) -> Found:
        """The first true value. Raises TimeIsUp with the sentence of `otherwise`, and what the logs say of the run."""
        deadline, pause = time.monotonic() + seconds, 0.1
        while not (found := look()):
            if time.monotonic() > deadline:
                raise TimeIsUp(f"not within {seconds:g} s: {'; '.join([otherwise(), *self.troubles()])}")
            time.sleep(pause)
            pause = min(2 * pause, 1)
        return found

    def troubles(self) -> list[str]:
        """The reasons in the functions' logs for which messages of the run weren't done, each once."""
        found = set()
        for function in ("ProcessTransactions", "UpsertProfiles"):
            with suppress(ClientError):  # The caller may not read the logs.
                lines = filter(self._is_trouble, self.log_lines(function, "reason"))
                found |= {f"{function} logged {line['message']!r}: {line['reason']}" for line in lines}
        return sorted(found)[:MOST_TROUBLES]

    def _is_trouble(self, line: Mapping[str, Any]) -> bool:
        return line.get("level") in {"ERROR", "WARNING"} and self.name in json.dumps(line) and "reason" in line

    def log_lines(self, function: str, word: str = "", since: datetime | None = None) -> list[Mapping[str, Any]]:
        """The JSON lines with this word that a function has logged since a time, by default the run's beginning."""
        return [json.loads(text) for text in self.log_texts(function, word, since) if text.startswith("{")]

    def log_texts(self, function: str, word: str = "", since: datetime | None = None) -> list[str]:
        """As `log_lines`, but all lines, as they are. `function` is the beginning of its outputs' names."""
        pages = self.client("logs").get_paginator("filter_log_events")
        pattern = {"filterPattern": f'"{word}"'} if word else {}
        found = pages.paginate(
            logGroupName=self.deployment[f"{function}LogGroupName"],
            startTime=round((since or self.began).timestamp() * 1000),
            **pattern,
        )
        return [event["message"].strip() for page in found for event in page["events"]]


def as_body(message: Mapping[str, Any]) -> str:
    return json.dumps(message, ensure_ascii=False)


def opening(account_id: str, overdraft_limit: str = "0") -> dict[str, str]:
    return {
        "type": "open_account",
        "transaction_id": "open",
        "account_id": account_id,
        "currency": "EUR",
        "overdraft_limit": overdraft_limit,
    }


def payment(account_id: str, transaction_id: str, amount: str, **fields: Any) -> dict[str, Any]:
    return {"transaction_id": transaction_id, "account_id": account_id, "amount": amount, **fields}


def problems_of(account: Item | None, entries: Sequence[Item], account_id: str) -> list[str]:
    """The problems of an account and its whole journal: versions that aren't 1…n, and a balance that isn't the sum."""
    if account is None:
        return [f"{account_id}: expected an account, got none"]
    versions = [int(entry["account_version"]) for entry in entries]
    twice = sorted(version for version, times in Counter(versions).items() if times > 1)
    missing = sorted(set(range(1, int(account["version"]) + 1)) - set(versions))
    problems = []
    if twice:
        problems.append(f"{account_id}: expected each version once, got {_some(twice)} twice: an update was lost")
    if missing or max(versions, default=0) > account["version"]:
        problems.append(
            f"{account_id}: expected an entry of each version from 1 to {account['version']}, got {len(versions)} "
            f"entries up to version {max(versions, default=0)}" + (f", without {_some(missing)}" if missing else "")
        )
    total = sum((entry["amount"] for entry in entries if entry["status"] == "POSTED"), Decimal(0))
    if total != account["balance"]:
        problems.append(f"{account_id}: expected the balance {total}, the sum of its entries, got {account['balance']}")
    return problems


def _some(numbers: Sequence[int]) -> str:
    shown = ", ".join(map(str, numbers[:5]))
    return shown if len(numbers) <= 5 else f"{shown} and {len(numbers) - 5} more"
