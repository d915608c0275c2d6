"""The events of process_transactions, played in order: each shows what its name says.

Played twice over: by the handler in this process, and by `sam local invoke` in Lambda's container. The second needs a
Docker daemon and Lambda's base image, and is skipped where one of them is missing.
"""

import contextlib
import hashlib
import json
import os
import shutil
import subprocess
import sys
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.local_aws import stack
from tests.local_aws.function import Context, process_transactions
from tests.local_aws.sam_local import write_settings
from tests.local_aws.server import PROJECT, TOOLS, Endpoint, free_port, ministack, running
from tests.local_aws.tables import create_tables, scan

# Building, deploying, and a container for each event: some 90 seconds.
pytestmark = pytest.mark.timeout(900)

EVENTS = sorted((PROJECT / "events" / "process_transactions").glob("*.json"))
BASE_IMAGE = "public.ecr.aws/lambda/python"


@dataclass(frozen=True)
class Shown:
    """What an event shows, beyond what those before it did: entries and accounts that are new or other than they were.

    Of the event's records, by their index: which go back to the queue, and the reasons of those dead-lettered.
    """

    journal: dict[str, str] = field(default_factory=dict)
    accounts: dict[str, str] = field(default_factory=dict)
    back_on_the_queue: list[int] = field(default_factory=list)
    dead_lettered: dict[int, str] = field(default_factory=dict)


EXPECTED = {
    "01-open-accounts": Shown(
        journal={
            "acc-alice t-0001": "POSTED 0, balance 0, version 1",
            "acc-bob t-0002": "POSTED 0, balance 0, version 1",
            "acc-carol t-0003": "POSTED 0, balance 0, version 1",
        },
        accounts={
            "acc-alice": "OPEN, balance 0 EUR, limit -500, version 1",
            "acc-bob": "OPEN, balance 0 EUR, limit 0, version 1",
            "acc-carol": "OPEN, balance 0 USD, limit 0, version 1",
        },
    ),
    "02-one-posting": Shown(
        journal={"acc-alice t-0004": "POSTED 2500, balance 2500, version 2"},
        accounts={"acc-alice": "OPEN, balance 2500 EUR, limit -500, version 2"},
    ),
    "03-duplicate": Shown(),
    "04-batch": Shown(
        journal={
            "acc-alice t-0006": "POSTED -850, balance 1650, version 3",
            "acc-alice t-0008": "POSTED -42.17, balance 1607.83, version 4",
            "acc-alice t-0010": "POSTED -9.99, balance 1597.84, version 5",
            "acc-bob t-0005": "POSTED 300, balance 300, version 2",
            "acc-bob t-0009": "POSTED -80, balance 220, version 3",
            "acc-carol t-0007": "POSTED 120.5, balance 120.5, version 2",
            "acc-carol t-0011": "POSTED -20.5, balance 100, version 3",
        },
        accounts={
            "acc-alice": "OPEN, balance 1597.84 EUR, limit -500, version 5",
            "acc-bob": "OPEN, balance 220 EUR, limit 0, version 3",
            "acc-carol": "OPEN, balance 100 USD, limit 0, version 3",
        },
    ),
    "05-overdraw": Shown(
        journal={"acc-bob t-0012": "REJECTED OVERDRAFT_LIMIT, balance 220, version 4"},
        accounts={"acc-bob": "OPEN, balance 220 EUR, limit 0, version 4"},
    ),
    "06-currency-mismatch": Shown(
        journal={"acc-alice t-0013": "REJECTED CURRENCY_MISMATCH, balance 1597.84, version 6"},
        accounts={"acc-alice": "OPEN, balance 1597.84 EUR, limit -500, version 6"},
    ),
    "07-limit-change": Shown(
        journal={
            "acc-bob t-0014": "POSTED 0, balance 220, version 5",
            "acc-bob t-0015": "POSTED -500, balance -280, version 6",
            "acc-bob t-0016": "REJECTED OVERDRAFT_LIMIT, balance -280, version 7",
        },
        accounts={"acc-bob": "OPEN, balance -280 EUR, limit -400, version 7"},
    ),
    "08-close-with-balance": Shown(
        journal={"acc-carol t-0017": "REJECTED BALANCE_NOT_ZERO, balance 100, version 4"},
        accounts={"acc-carol": "OPEN, balance 100 USD, limit 0, version 4"},
    ),
    "09-close-at-zero": Shown(
        journal={
            "acc-carol t-0018": "POSTED -100, balance 0, version 5",
            "acc-carol t-0019": "POSTED 0, balance 0, version 6",
        },
        accounts={"acc-carol": "CLOSED, balance 0 USD, limit 0, version 6"},
    ),
    "10-closed-account": Shown(
        journal={"acc-carol t-0020": "REJECTED ACCOUNT_CLOSED, balance 0, version 7"},
        accounts={"acc-carol": "CLOSED, balance 0 USD, limit 0, version 7"},
    ),
    "11-account-exists": Shown(
        journal={"acc-alice t-0021": "REJECTED ACCOUNT_EXISTS, balance 1597.84, version 7"},
        accounts={"acc-alice": "OPEN, balance 1597.84 EUR, limit -500, version 7"},
    ),
    "12-junk-among-good": Shown(
        journal={
            "acc-alice t-0022": "POSTED -12, balance 1585.84, version 8",
            "acc-bob t-0038": "POSTED 280, balance 0, version 8",
        },
        accounts={
            "acc-alice": "OPEN, balance 1585.84 EUR, limit -500, version 8",
            "acc-bob": "OPEN, balance 0 EUR, limit -400, version 8",
        },
        # The words are the message class's to choose. That they name the field isn't.
        dead_lettered={
            1: "body: ",
            2: "body: ",
            3: "body: ",
            4: "type: ",
            5: "ammount",
            6: "amount",
            7: "currency: ",
            8: "amount: ",
            9: "amount: ",
            10: "amount: ",
            11: "amount: 39 digits, expected at most 38",
            12: "amount: ",
            13: "account_id: ",
            14: "transaction_id: ",
            15: "overdraft_limit: ",
            16: "occurred_at: ",
        },
    ),
    "13-id-used-before": Shown(
        dead_lettered={
            0: "transaction_id: 't-0004' was used before on account 'acc-alice' with another amount, description"
        },
    ),
    "14-unknown-account": Shown(back_on_the_queue=[0]),
    "15-unknown-account-last-delivery": Shown(
        dead_lettered={0: "given up after 6 deliveries: account_id: no account 'acc-dave' has been opened"},
    ),
    "16-transfer": Shown(
        journal={
            "acc-alice t-0040": "POSTED -85.84, balance 1500, version 9",
            "acc-bob t-0040": "POSTED 85.84, balance 85.84, version 9",
        },
        accounts={
            "acc-alice": "OPEN, balance 1500 EUR, limit -500, version 9",
            "acc-bob": "OPEN, balance 85.84 EUR, limit -400, version 9",
        },
    ),
    "17-transfer-overdraws": Shown(
        journal={
            "acc-alice t-0041": "REJECTED OVERDRAFT_LIMIT, balance 1500, version 10",
            "acc-bob t-0041": "REJECTED OVERDRAFT_LIMIT, balance 85.84, version 10",
        },
        accounts={
            "acc-alice": "OPEN, balance 1500 EUR, limit -500, version 10",
            "acc-bob": "OPEN, balance 85.84 EUR, limit -400, version 10",
        },
    ),
    "18-transfer-to-oneself": Shown(dead_lettered={0: "to_account_id: expected another account than from_account_id"}),
}


@dataclass(frozen=True)
class Stage:
    """Where events are played: a local AWS, and a way to give the function an event and to get its response."""

    endpoint: Endpoint
    accounts_table: str
    journal_table: str
    dead_letter_queue_url: str
    invoke: Callable[[Path], Any]

    def play(self, path: Path) -> Shown:
        records = json.loads(path.read_text())["Records"]
        journal, accounts = self._journal(), self._accounts()
        failures = [failure["itemIdentifier"] for failure in self.invoke(path)["batchItemFailures"]]
        bodies = [record["body"] for record in records]
        letters = list(self._receive_dead_letters())
        assert len({body for body, _ in letters}) == len(letters), f"{path.name}: a message was dead-lettered twice"
        return Shown(
            journal=dict(self._journal().items() - journal.items()),
            accounts=dict(self._accounts().items() - accounts.items()),
            back_on_the_queue=[index for index, record in enumerate(records) if record["messageId"] in failures],
            dead_lettered={bodies.index(body): reason for body, reason in letters},
        )

    def _journal(self) -> dict[str, str]:
        return {
            f"{item['account_id']['S']} {item['transaction_id']['S']}": f"{item['status']['S']}"
            f" {item['reason']['S'] if 'reason' in item else _plain(item['amount'])}"
            f", balance {_plain(item['balance_after'])}, version {_plain(item['account_version'])}"
            for item in scan(self.endpoint, self.journal_table)
        }

    def _accounts(self) -> dict[str, str]:
        return {
            item["account_id"]["S"]: f"{item['status']['S']}, balance {_plain(item['balance'])} {item['currency']['S']}"
            f", limit {_plain(item['overdraft_limit'])}, version {_plain(item['version'])}"
            for item in scan(self.endpoint, self.accounts_table)
        }

    def _receive_dead_letters(self) -> Iterator[tuple[str, str]]:
        sqs = self.endpoint.client("sqs")
        url = self.dead_letter_queue_url
        while messages := sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10, MessageAttributeNames=["All"]).get(
            "Messages"
        ):
            for message in messages:
                yield message["Body"], message["MessageAttributes"]["reason"]["StringValue"]
                sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])


def _plain(number: dict[str, str]) -> str:
    return format(Decimal(number["N"]).normalize(), "f")


@contextlib.contextmanager
def in_process(folder: Path) -> Iterator[Stage]:
    """Fresh tables and queues, and the handler in this process."""
    with running(ministack(free_port(), folder / "ministack.log")) as endpoint:
        tables = create_tables(endpoint, "events")
        function = process_transactions(endpoint, tables)
        yield Stage(
            endpoint,
            tables.accounts,
            tables.journal,
            function.DEAD_LETTER_QUEUE_URL,
            lambda path: json.loads(json.dumps(function.lambda_handler(json.loads(path.read_text()), Context()))),
        )


@contextlib.contextmanager
def sam_local_invoke(folder: Path) -> Iterator[Stage]:
    """The deployed stack, and its function in Lambda's container. Skips where that can't be had."""
    _skip_without_docker()
    stack.build()
    # On Linux a container reaches this machine by Docker's bridge, not by 127.0.0.1.
    host = "172.17.0.1" if sys.platform == "linux" else "127.0.0.1"
    with running(ministack(free_port(), folder / "ministack.log", host)) as endpoint:
        deployed = stack.deploy(endpoint)
        settings = write_settings(deployed, folder)
        yield Stage(
            endpoint,
            deployed["AccountsTableName"],
            deployed["JournalTableName"],
            deployed["TransactionsDeadLetterQueueUrl"],
            lambda path: _sam_local_invoke(endpoint, settings, path),
        )


def _skip_without_docker() -> None:
    played = "`sam local invoke` was not tried"
    if not shutil.which("docker"):
        pytest.skip(f"{played}: there is no `docker` on the PATH")
    daemon = _docker("version", "--format", "{{.Server.Arch}}")
    if daemon.returncode:
        pytest.skip(f"{played}: no Docker daemon answers")
    image = f"{BASE_IMAGE}:3.13-{'arm64' if daemon.stdout.strip() == 'arm64' else 'x86_64'}"
    if _docker("image", "inspect", image).returncode:
        pytest.skip(f"{played}: Lambda's base image isn't here; `docker pull {image}` gets it")


def _docker(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["docker", *arguments], check=False, capture_output=True, text=True)


def _sam_local_invoke(endpoint: Endpoint, settings: Path, event: Path) -> Any:
    finished = subprocess.run(
        [
            *(TOOLS / "sam", "local", "invoke", "ProcessTransactionsFunction"),
            *("--config-file", settings, "--event", event),
        ],
        check=False,
        cwd=PROJECT,
        env=os.environ | endpoint.environment | {"SAM_CLI_TELEMETRY": "0"},
        capture_output=True,
        text=True,
    )
    # SAM ends well, too, where the function did not: without a response then, or with its error.
    if finished.returncode or "batchItemFailures" not in finished.stdout:
        pytest.fail(f"sam local invoke of {event.name}:\n{finished.stdout}\n{finished.stderr}")
    return json.loads(finished.stdout)


@pytest.fixture(scope="module", params=[in_process, sam_local_invoke], ids=lambda way: way.__name__)
def shown(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Shown]:
    """What each event showed, all of them played in order."""
    with request.param(tmp_path_factory.mktemp("events")) as stage:
        return {path.stem: stage.play(path) for path in EVENTS}


@pytest.mark.parametrize("event", EXPECTED)
def test_an_event_shows_what_its_name_says(shown: dict[str, Shown], event: str) -> None:
    expected, actual = EXPECTED[event], shown[event]
    assert actual.journal == expected.journal
    assert actual.accounts == expected.accounts
    assert actual.back_on_the_queue == expected.back_on_the_queue
    assert actual.dead_lettered.keys() == expected.dead_lettered.keys()
    for index, words in expected.dead_lettered.items():
        assert words in actual.dead_lettered[index]


def test_every_event_has_an_expectation() -> None:
    assert [path.stem for path in EVENTS] == list(EXPECTED)


def test_events_played_again_change_no_table(tmp_path: Path) -> None:
    with in_process(tmp_path) as stage:
        first = [stage.play(path) for path in EVENTS]
        again = [stage.play(path) for path in EVENTS]
    assert [(shown.journal, shown.accounts) for shown in again] == [({}, {})] * len(EVENTS)
    assert [(shown.back_on_the_queue, shown.dead_lettered) for shown in again] == [
        (shown.back_on_the_queue, shown.dead_lettered) for shown in first
    ]


def test_records_look_as_lambda_delivers_them() -> None:
    records = [record for path in EVENTS for record in json.loads(path.read_text())["Records"]]
    for record in records:
        assert str(uuid.UUID(record["messageId"])) == record["messageId"]
        assert record["md5OfBody"] == hashlib.md5(record["body"].encode()).hexdigest()
        assert record["eventSourceARN"].split(":")[3] == record["awsRegion"]
        assert all(isinstance(value, str) for value in record["attributes"].values())
        assert int(record["attributes"]["SentTimestamp"]) <= int(
            record["attributes"]["ApproximateFirstReceiveTimestamp"]
        )
    assert {count for _, count in Counter(record["receiptHandle"] for record in records).items()} == {1}
    deliveries = Counter(record["messageId"] for record in records)
    assert sorted(deliveries.values())[-2:] == [1, 2], "only the message for acc-dave is delivered twice"
