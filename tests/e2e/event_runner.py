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
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from conditional_writes.core.items import from_dynamodb
from conditional_writes.testing import Engine
from ledger.core.journal import entry_from_item
from tests.checkers.books import Books, read_books
from tests.checkers.profiles import read_profiles
from tests.support.deployed import until
from tests.support.in_process import Aws, answered_by
from tools.local_aws import functions, stack
from tools.local_aws.consumers import Consumer, new_consumer
from tools.local_aws.functions import Context, Queue, record
from tools.local_aws.queues import DeadLetter, take_dead_letters, waiting_messages
from tools.local_aws.sam_local import write_settings
from tools.local_aws.server import PROJECT, TOOLS, Endpoint, free_port, ministack, running
from tools.local_aws.tables import Tables, create_locks_table, create_profiles_table, create_tables, scan
from tools.teller.plain import plain

BASE_IMAGE = "public.ecr.aws/lambda/python"


type Effect = list[str]
"""The effect of an event, in words.

| of | has |
|---|---|
| transactions | for each record the outcome of its new entry, `repeated`, `back`, or the code of its dead letter |
| profile updates | each new value, or `gone`, and the codes of dead letters |
| a job | the outcomes of the entries that it led to, and the counts of its report |
| a read, or a request to publish again | the code of an error, or what is asserted of the answer |
| what publishes | the types of the events, and the codes of dead letters |
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
    dead_letter_queue_urls: Mapping[str, Sequence[str]]
    consumer: Consumer
    invoke: Callable[[str, Path], Any]
    post: Callable[[], None]
    hear: Callable[[], object]

    def run(self, path: Path) -> Effect:
        """Invokes the function that the event's folder is named after."""
        function, before = path.parent.name, self._shown()
        records = json.loads(path.read_text()).get("Records", [])
        is_publishing = function in {"publish_outcomes", "republish_outcomes"}
        if is_publishing:
            self.hear()
        response = self.invoke(function, path)
        self.post()
        new = {name: text for name, text in self._shown().items() if before.get(name) != text}
        urls = self.dead_letter_queue_urls.get(function, []) if records else []
        letters = [letter for url in urls for letter in take_dead_letters(self.endpoint, url)]
        if function == "process_transactions":
            return list(_became(records, response, letters, new))
        gone = [f"{name}=gone" for name in before.keys() - self._shown().keys()]
        return [
            *_answer(response),
            *sorted([*(f"{name}={text}" for name, text in new.items()), *gone]),
            *sorted(event["detail-type"] for event in (self.consumer.take() if is_publishing else [])),
            *sorted(letter.attributes["reason_code"] for letter in letters),
        ]

    def books(self) -> Books:
        return read_books(self.endpoint, self.tables)

    def _shown(self) -> dict[str, str]:
        """The journal, the profiles and the reports."""
        entries = map(from_dynamodb, scan(self.endpoint, self.tables.journal))
        shown = {f"{each['account_id']} {each['transaction_id']}": _outcome(each) for each in entries}
        for account_id, profile in read_profiles(self.endpoint, self.profiles_table).items():
            for path, value in _leaves(profile):
                shown[f"{account_id} {path}"] = json.dumps(value, default=plain)
        for item in map(from_dynamodb, scan(self.endpoint, self.locks_table)):
            if "accounts_checked" in item:
                shown[item["lock_key"]] = f"{item['accounts_checked']} accounts, {item['mismatches']} mismatches"
            elif "sent" in item:
                shown[item["lock_key"]] = f"{item['sent']} sent"
        return shown


def _outcome(entry: Mapping[str, Any]) -> str:
    """Interest accrues by the real clock: only whether any was charged is certain."""
    is_charge = entry["request"]["type"] == "charge_interest" and entry["amount"] < 0
    return entry.get("reason") or ("a debit" if is_charge else entry["status"])


def _became(
    records: list[dict[str, Any]], response: dict[str, Any], letters: list[DeadLetter], new: Mapping[str, str]
) -> Iterator[str]:
    back = [failure["itemIdentifier"] for failure in response["batchItemFailures"]]
    codes = {letter.body: letter.attributes["reason_code"] for letter in letters}
    for each in records:
        if each["messageId"] in back:
            yield "back"
        elif each["body"] in codes:
            yield codes[each["body"]]
        else:
            transaction_id = json.loads(each["body"])["transaction_id"]
            outcomes = {outcome for name, outcome in new.items() if name.endswith(f" {transaction_id}")}
            yield " ".join(outcomes) or "repeated"


def _leaves(value: Any, *path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict) and value:
        for name, inner in value.items():
            yield from _leaves(inner, *path, name)
    elif path:
        yield ".".join(path), value


ASSERTED = ("published", "dead_lettered", "state", "balance", "available", "complete", "final", "reversed")


def _answer(response: dict[str, Any]) -> Iterator[str]:
    if "statusCode" in response:
        yield str(response["statusCode"])
        response = json.loads(response["body"])
    if "error" in response:
        yield response["error"]["code"]
    known = {name: response[name] for name in ASSERTED if response.get(name) is not None}
    yield from (f"{name} {value if isinstance(value, str) else json.dumps(value)}" for name, value in known.items())
    if "entries" in response:
        yield " ".join(entry["transaction_id"] for entry in response["entries"])
    yield from (outcome["state"] for outcome in response.get("outcomes", ()))


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
            "post_transactions": functions.post_transactions(endpoint, tables, locks_table),
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
            "process_transactions": [queue.dead_letter_url],
            "upsert_profiles": [upserter.worker.queue.dead_letter_url],
            "publish_outcomes": [publisher.publisher.dead_letter_queue_url],
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
        sqs, queue_url = endpoint.client("sqs"), deployed["AdministrationQueueUrl"]
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
                "process_transactions": [
                    deployed["TransactionsDeadLetterQueueUrl"],
                    deployed["AdministrationDeadLetterQueueUrl"],
                ],
                "upsert_profiles": [deployed["ProfilesDeadLetterQueueUrl"]],
                "publish_outcomes": [deployed["OutcomesDeadLetterQueueUrl"]],
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
        [*(TOOLS / "sam", "local", "invoke", logical_id), *("--config-file", settings, "--event", event)],
        check=False,
        cwd=PROJECT,
        env=os.environ | endpoint.environment | {"SAM_CLI_TELEMETRY": "0"},
        capture_output=True,
        text=True,
    )
    # SAM exits with 0 even if the function failed. Then the response is missing or has the error.
    if finished.returncode or not any(
        word in finished.stdout for word in ("batchItemFailures", "account_id", "published", '"code"')
    ):
        pytest.fail(f"sam local invoke of {event.name}:\n{finished.stdout}\n{finished.stderr}")
    return json.loads(finished.stdout)
