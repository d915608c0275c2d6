"""Runs the sample events on a local AWS with the tables and queues.

Functions are invoked as handlers in this process, or by `sam local invoke` in Lambda's container. The latter needs a
Docker daemon and Lambda's base image, and is skipped if one of them is missing.
"""

import contextlib
import functools
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest

from conditional_writes.items import from_dynamodb
from conditional_writes.testing import Engine
from ledger.core.journal import entry_from_item
from tests.checkers.profiles import read_profiles
from tests.support.deployed import until
from tests.support.in_process import Aws, answered_by
from tools.local_aws import functions, stack
from tools.local_aws.consumers import Consumer, new_consumer
from tools.local_aws.functions import Context, Queue, record
from tools.local_aws.queues import take_dead_letters, waiting_messages
from tools.local_aws.sam_local import write_settings
from tools.local_aws.server import PROJECT, TOOLS, Endpoint, free_port, ministack, running
from tools.local_aws.tables import Tables, create_locks_table, create_profiles_table, create_tables, scan
from tools.teller.plain import plain

BASE_IMAGE = "public.ecr.aws/lambda/python"


type Effect = list[str]
"""The effect of an event, a line for each part of it, sorted.

| a line | tells of |
|---|---|
| `entry acc-1 t-1: POSTED 5, balance 5, version 2` | a new journal entry |
| `account acc-1: OPEN EUR, limit 0, held 4` | what else of an account is new |
| `profile acc-1: preferences.theme = "dark"` | a new value, or `gone` |
| `event acc-1#2: TransactionPosted` | an event, of the functions that publish outcomes |
| `back 0`, `dead 0: why` | a record that returned to the queue, or is a dead letter, by its index |
| `outcome Done`, `answer …` | a job's outcome; the answer of a read or of a request to publish again, without times |
| `report of …` | a report of the reconciliation |
"""


@dataclass(frozen=True)
class EventRunner:
    """Invokes functions with events and reports the effects. `dead_letter_queue_urls` are given by function.

    `invoke` invokes a function with an event and returns the response. `post` waits until the transactions on the queue
    are posted, `hear` until `consumer` has no more events of what was posted.
    """

    endpoint: Endpoint
    tables: Tables
    profiles_table: str
    locks_table: str
    dead_letter_queue_urls: Mapping[str, str]
    consumer: Consumer
    invoke: Callable[[str, Path], Any]
    post: Callable[[], None]
    hear: Callable[[], object]
    before: dict[str, str] = field(default_factory=dict)
    """The tables' contents after the last event."""

    def run(self, path: Path) -> Effect:
        """Invokes the function that the event's folder is named after."""
        function = path.parent.name
        records = json.loads(path.read_text()).get("Records", [])
        before, is_publishing = {**self.before}, function in {"publish_outcomes", "republish_outcomes"}
        if is_publishing:
            self.hear()
        response = self.invoke(function, path)
        self.post()
        events = self.consumer.take() if is_publishing else []
        failures = [failure["itemIdentifier"] for failure in response.get("batchItemFailures", [])]
        bodies = list(map(_body_of_letter, records))
        letters = take_dead_letters(self.endpoint, self.dead_letter_queue_urls[function]) if records else []
        after = self._shown()
        self.before.clear()
        self.before.update(after)
        gone = [f"{name}: gone" for name in before if name.startswith("profile") and name not in after]
        return sorted(
            [
                *(f"{name}: {text}" for name, text in after.items() if before.get(name) != text),
                *gone,
                *(f"event {event['detail']['id']}: {event['detail-type']}" for event in events),
                *(f"back {index}" for index, record in enumerate(records) if _identifier(record) in failures),
                *(f"dead {bodies.index(letter.body)}: {letter.reason}" for letter in letters),
                *_answer(response),
            ]
        )

    def _shown(self) -> dict[str, str]:
        """The tables' contents. Asserts that each account is as its newest entry left it."""
        entries = [from_dynamodb(item) for item in scan(self.endpoint, self.tables.journal)]
        newest = {entry["account_id"]: entry for entry in sorted(entries, key=itemgetter("account_version"))}
        shown = {f"entry {entry['account_id']} {entry['transaction_id']}": _entry(entry) for entry in entries}
        for account in map(from_dynamodb, scan(self.endpoint, self.tables.accounts)):
            last = newest[account["account_id"]]
            left = (last["balance_after"], last["account_version"])
            assert (account["balance"], account["version"]) == left, account
            state = f"{account['status']} {account['currency']}, limit {_plain(account['overdraft_limit'])}"
            shown[f"account {account['account_id']}"] = f"{state}, held {_plain(account.get('held', Decimal(0)))}"
        for account_id, profile in read_profiles(self.endpoint, self.profiles_table).items():
            for path, value in _leaves(profile):
                shown[f"profile {account_id}: {path}"] = json.dumps(value, default=plain)
        for item in map(from_dynamodb, scan(self.endpoint, self.locks_table)):
            if "accounts_checked" in item:
                counts = (_plain(item[name]) for name in ("accounts_checked", "mismatches"))
                shown[f"report of {item['lock_key']}"] = "{} accounts, {} mismatches".format(*counts)
        return shown


def _identifier(record: dict[str, Any]) -> str:
    return str(record["messageId"] if "messageId" in record else record["dynamodb"]["SequenceNumber"])


def _body_of_letter(record: dict[str, Any]) -> str:
    """The body of the record's dead letter: the message, the request to publish the entry again, or a changed one."""
    if "body" in record:
        return str(record["body"])
    if record["eventName"] != "INSERT":
        images = [record["dynamodb"].get(name) for name in ("Keys", "OldImage", "NewImage")]
        return json.dumps(dict(zip(("key", "old_image", "new_image"), images, strict=True)))
    entry = from_dynamodb(record["dynamodb"]["NewImage"])
    versions = dict.fromkeys(("from_version", "to_version"), int(entry["account_version"]))
    return json.dumps({"republish": {"account_id": entry["account_id"]} | versions})


def _leaves(value: Any, *path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict) and value:
        for name, inner in value.items():
            yield from _leaves(inner, *path, name)
    elif path:
        yield ".".join(path), value


def _answer(response: dict[str, Any]) -> Iterator[str]:
    """The response to an event that isn't a batch, an entry of it as a line."""
    if "outcome" in response:
        yield f"outcome {response['outcome']}"
    elif "batchItemFailures" not in response:
        known = {name: value for name, value in response.items() if value not in (None, [])}
        for name in ("account_id", "posted_at"):
            known.pop(name, None)
        entries = [*known.pop("entries", []), *([known.pop("entry")] if "entry" in known else [])]
        yield f"answer {' '.join(f'{name}={_text(value)}' for name, value in sorted(known.items()))}"
        yield from (f"answer's entry {entry['transaction_id']}: {_entry(entry)}" for entry in entries)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=plain)


def _entry(entry: Mapping[str, Any]) -> str:
    amount, balance, version = (_plain(Decimal(entry[name])) for name in ("amount", "balance_after", "account_version"))
    return f"{entry['status']} {entry.get('reason') or amount}, balance {balance}, version {version}"


def _plain(number: Decimal) -> str:
    return format(number.normalize(), "f")


@contextlib.contextmanager
def in_process(_: Path) -> Iterator[EventRunner]:
    """Runs events with new tables and queues, and the handlers in this process."""
    with answered_by(Aws(Engine())) as endpoint:
        tables, profiles_table = create_tables(endpoint, "events"), create_profiles_table(endpoint, "events")
        locks_table = create_locks_table(endpoint, "events")
        teller, publisher = functions.process_transactions(endpoint, tables), functions.publish_outcomes(endpoint)
        upserter, queue = functions.upsert_profiles(endpoint, profiles_table), teller.worker.queue
        consumer = new_consumer(endpoint, publisher.bus.name, "events")
        loaded = {
            "process_transactions": teller,
            "upsert_profiles": upserter,
            "charge_overdraft_interest": functions.charge_overdraft_interest(endpoint, tables, locks_table, queue.url),
            "expire_holds": functions.expire_holds(endpoint, tables, locks_table, queue.url),
            "reconcile_accounts": functions.reconcile_accounts(endpoint, tables, locks_table),
            "read_accounts": functions.read_accounts(endpoint, tables),
            "publish_outcomes": publisher,
            "republish_outcomes": functions.republish_outcomes(endpoint, tables, OUTCOMES_BUS=publisher.bus.name),
        }

        def invoke(function: str, event: Path) -> Any:
            response = loaded[function].lambda_handler(json.loads(event.read_text()), Context())
            return json.loads(json.dumps(response))

        def post() -> None:
            sent = queue.client.receive_message(QueueUrl=queue.url, MaxNumberOfMessages=10).get("Messages", [])
            Queue([record(message["Body"]) for message in sent]).deliver_until_quiet(teller)
            for message in sent:
                queue.client.delete_message(QueueUrl=queue.url, ReceiptHandle=message["ReceiptHandle"])

        dead = {
            "process_transactions": queue.dead_letter_url,
            "upsert_profiles": upserter.worker.queue.dead_letter_url,
            "publish_outcomes": publisher.publisher.dead_letter_queue_url,
        }
        yield EventRunner(
            endpoint, tables, profiles_table, locks_table, dead, consumer, invoke, post, hear=lambda: None
        )


@contextlib.contextmanager
def sam_local_invoke(folder: Path) -> Iterator[EventRunner]:
    """Runs events on the deployed stack, with its functions in Lambda's container. Skips the test without Docker."""
    _skip_without_docker()
    stack.build()
    # On Linux a container reaches this machine through Docker's bridge, not at 127.0.0.1.
    host = "172.17.0.1" if sys.platform == "linux" else "127.0.0.1"
    with running(ministack(free_port(), folder / "ministack.log", host)) as endpoint:
        deployed = stack.deploy(endpoint)
        settings = write_settings(deployed, folder)
        sqs, queue_url = endpoint.client("sqs"), deployed["TransactionsQueueUrl"]
        tables = Tables(deployed["AccountsTableName"], deployed["JournalTableName"])
        consumer = new_consumer(endpoint, deployed["OutcomesBusName"], "events")

        @functools.cache  # nothing is posted by the events that publish
        def hear() -> None:
            consumer.take_until_heard(entry_from_item(from_dynamodb(item)) for item in scan(endpoint, tables.journal))

        yield EventRunner(
            endpoint,
            tables,
            deployed["ProfilesTableName"],
            deployed["LocksTableName"],
            {
                "process_transactions": deployed["TransactionsDeadLetterQueueUrl"],
                "upsert_profiles": deployed["ProfilesDeadLetterQueueUrl"],
                "publish_outcomes": deployed["OutcomesDeadLetterQueueUrl"],
            },
            consumer,
            lambda function, event: _sam_local_invoke(endpoint, settings, function, event),
            lambda: until(lambda: not waiting_messages(sqs, queue_url), "all transactions are posted"),
            hear,
        )


def _skip_without_docker() -> None:
    skipped = "`sam local invoke` was skipped"
    if not shutil.which("docker"):
        pytest.skip(f"{skipped}: there is no `docker` on the PATH")
    daemon = _docker("version", "--format", "{{.Server.Arch}}")
    if daemon.returncode:
        pytest.skip(f"{skipped}: no Docker daemon answers")
    image = f"{BASE_IMAGE}:3.13-{'arm64' if daemon.stdout.strip() == 'arm64' else 'x86_64'}"
    if _docker("image", "inspect", image).returncode:
        pytest.skip(f"{skipped}: Lambda's base image is missing; `docker pull {image}` downloads it")


def _docker(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["docker", *arguments], check=False, capture_output=True, text=True)


def _sam_local_invoke(endpoint: Endpoint, settings: Path, function: str, event: Path) -> Any:
    logical_id = f"{function.title().replace('_', '')}Function"
    finished = subprocess.run(
        [
            *(TOOLS / "sam", "local", "invoke", logical_id),
            *("--config-file", settings, "--event", event),
        ],
        check=False,
        cwd=PROJECT,
        env=os.environ | endpoint.environment | {"SAM_CLI_TELEMETRY": "0"},
        capture_output=True,
        text=True,
    )
    # SAM exits with 0 even if the function failed. Then the response is missing or has the error.
    if finished.returncode or not any(
        word in finished.stdout for word in ("batchItemFailures", "outcome", "account_id", "published", '"code"')
    ):
        pytest.fail(f"sam local invoke of {event.name}:\n{finished.stdout}\n{finished.stderr}")
    return json.loads(finished.stdout)
