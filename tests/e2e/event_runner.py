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
from pathlib import Path
from typing import Any

import pytest

from conditional_writes.items import from_dynamodb
from ledger.core.journal import entry_from_item
from tests.checkers.profiles import Profiles, read_profiles
from tests.support.deployed import until
from tools.local_aws import stack
from tools.local_aws.consumers import Consumer, new_consumer
from tools.local_aws.functions import (
    Context,
    Queue,
    charge_overdraft_interest,
    expire_holds,
    process_transactions,
    publish_outcomes,
    read_accounts,
    reconcile_accounts,
    record,
    republish_outcomes,
    upsert_profiles,
)
from tools.local_aws.queues import take_dead_letters, waiting_messages
from tools.local_aws.sam_local import write_settings
from tools.local_aws.server import PROJECT, TOOLS, Endpoint, free_port, ministack, running
from tools.local_aws.tables import Tables, create_locks_table, create_profiles_table, create_tables, scan

BASE_IMAGE = "public.ecr.aws/lambda/python"


type Answer = dict[str, Any]


@dataclass(frozen=True)
class Effect:
    """The effect of an event: new and changed entries, accounts, profiles and reports.

    Records that return to the queue, and the reasons of dead letters, are given by the record's index. `outcome` is a
    job's, `answer` that of a read, without times, or of a request to publish again. `published` has the detail types of
    events by their ids: those of the functions that publish outcomes alone.
    """

    outcome: str | None = None
    answer: Answer | None = None
    journal: dict[str, str] = field(default_factory=dict)
    accounts: dict[str, str] = field(default_factory=dict)
    profiles: Profiles = field(default_factory=dict)
    reports: dict[str, str] = field(default_factory=dict)
    published: dict[str, str] = field(default_factory=dict)
    back_on_the_queue: list[int] = field(default_factory=list)
    dead_lettered: dict[int, str] = field(default_factory=dict)


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

    def run(self, path: Path) -> Effect:
        """Invokes the function that the event's folder is named after."""
        function = path.parent.name
        records = json.loads(path.read_text()).get("Records", [])
        journal, accounts, profiles, reports = self._journal(), self._accounts(), self._profiles(), self._reports()
        is_publishing = function in {"publish_outcomes", "republish_outcomes"}
        if is_publishing:
            self.hear()
        response = self.invoke(function, path)
        self.post()
        events = self.consumer.take() if is_publishing else []
        failures = [failure["itemIdentifier"] for failure in response.get("batchItemFailures", [])]
        bodies = list(map(_body_of_letter, records))
        letters = take_dead_letters(self.endpoint, self.dead_letter_queue_urls[function]) if records else []
        assert len({letter.body for letter in letters}) == len(letters), f"{path}: a message was dead-lettered twice"
        return Effect(
            outcome=response.get("outcome"),
            answer=None if response.keys() & {"batchItemFailures", "outcome"} else _shown(response),
            journal=_changed(journal, self._journal()),
            accounts=_changed(accounts, self._accounts()),
            profiles=_changed(profiles, self._profiles()),
            reports=_changed(reports, self._reports()),
            published={event["detail"]["id"]: event["detail-type"] for event in events},
            back_on_the_queue=[index for index, record in enumerate(records) if _identifier(record) in failures],
            dead_lettered={bodies.index(letter.body): letter.reason or "" for letter in letters},
        )

    def _journal(self) -> dict[str, str]:
        return {
            f"{item['account_id']['S']} {item['transaction_id']['S']}": f"{item['status']['S']}"
            f" {item['reason']['S'] if 'reason' in item else _plain(item['amount'])}"
            f", balance {_plain(item['balance_after'])}, version {_plain(item['account_version'])}"
            for item in scan(self.endpoint, self.tables.journal)
        }

    def _accounts(self) -> dict[str, str]:
        return {
            item["account_id"]["S"]: f"{item['status']['S']}, balance {_plain(item['balance'])} {item['currency']['S']}"
            f"{_held(item)}, limit {_plain(item['overdraft_limit'])}, version {_plain(item['version'])}"
            for item in scan(self.endpoint, self.tables.accounts)
        }

    def _profiles(self) -> Profiles:
        return read_profiles(self.endpoint, self.profiles_table)

    def _reports(self) -> dict[str, str]:
        return {
            item["lock_key"][
                "S"
            ]: f"{_plain(item['accounts_checked'])} accounts, {_plain(item['mismatches'])} mismatches"
            for item in scan(self.endpoint, self.locks_table)
            if "accounts_checked" in item
        }


def _held(account: dict[str, Any]) -> str:
    return f", held {_plain(account['held'])}" if "held" in account else ""


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


def _changed[Item](before: Mapping[str, Item], after: Mapping[str, Item]) -> dict[str, Item]:
    return {key: item for key, item in after.items() if key not in before or item != before[key]}


def _shown(answer: Answer) -> Answer:
    """The answer without times, its entries as `_journal` shows them."""
    shown = {name: value for name, value in answer.items() if name != "posted_at"}
    if "entries" in shown:
        shown["entries"] = [_entry(entry) for entry in shown["entries"]]
    if shown.get("entry"):
        shown["entry"] = _entry(shown["entry"])
    return shown


def _entry(entry: Answer) -> str:
    effect = f"{entry['status']} {entry.get('reason') or entry['amount']}, balance {entry['balance_after']}"
    return f"{entry['transaction_id']}: {effect}, version {entry['account_version']}"


def _plain(number: dict[str, str]) -> str:
    return format(Decimal(number["N"]).normalize(), "f")


@contextlib.contextmanager
def in_process(folder: Path) -> Iterator[EventRunner]:
    """Runs events with new tables and queues, and the handlers in this process."""
    with running(ministack(free_port(), folder / "ministack.log")) as endpoint:
        tables, profiles_table = create_tables(endpoint, "events"), create_profiles_table(endpoint, "events")
        locks_table = create_locks_table(endpoint, "events")
        teller, upserter = process_transactions(endpoint, tables), upsert_profiles(endpoint, profiles_table)
        publisher = publish_outcomes(endpoint)
        consumer = new_consumer(endpoint, publisher.bus.name, "events")
        functions = {
            "process_transactions": teller,
            "upsert_profiles": upserter,
            "charge_overdraft_interest": charge_overdraft_interest(
                endpoint, tables, locks_table, teller.worker.queue.url
            ),
            "expire_holds": expire_holds(endpoint, tables, locks_table, teller.worker.queue.url),
            "reconcile_accounts": reconcile_accounts(endpoint, tables, locks_table),
            "read_accounts": read_accounts(endpoint, tables),
            "publish_outcomes": publisher,
            "republish_outcomes": republish_outcomes(endpoint, tables, OUTCOMES_BUS=publisher.bus.name),
        }

        def invoke(function: str, event: Path) -> Any:
            response = functions[function].lambda_handler(json.loads(event.read_text()), Context())
            return json.loads(json.dumps(response))

        def post() -> None:
            queue = teller.worker.queue
            sent = queue.client.receive_message(QueueUrl=queue.url, MaxNumberOfMessages=10).get("Messages", [])
            Queue([record(message["Body"]) for message in sent]).deliver_until_quiet(teller)
            for message in sent:
                queue.client.delete_message(QueueUrl=queue.url, ReceiptHandle=message["ReceiptHandle"])

        dead = {
            "process_transactions": teller.worker.queue.dead_letter_url,
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
