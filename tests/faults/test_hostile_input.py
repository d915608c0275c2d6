"""Hostile input: each record has the right disposition, the rest of the batch is done, and cost and logs stay small.

Hypothesis's profile sets the number of examples.
"""

import contextlib
import io
import itertools
import json
import logging
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from types import ModuleType
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings

from conditional_writes.core.items import to_dynamodb
from ledger.core import profile_messages as profiles
from ledger.core import transaction_types as messages
from ledger.core.journal import EntryId
from tests.checkers import profiles as profiles_checker
from tests.checkers.books import violations
from tests.checkers.poison import is_invalid
from tests.faults.hostile import OPENINGS, SECRET, TRANSACTIONS, UPDATES, Sent, batches
from tests.faults.system import FOR_EVER
from tests.support.ledger import Ledger, with_one_queue
from tests.support.refusals import NOT_FOR_SQS, REASON_CHARACTERS
from tests.support.reporting import Say
from tools.local_aws.functions import Context, record, upsert_profiles
from tools.local_aws.meter import Meter
from tools.local_aws.queues import DeadLetter, take_dead_letters
from tools.local_aws.server import Endpoint
from tools.local_aws.tables import create_profiles_table, refill

START = datetime(2026, 3, 1, 12, tzinfo=UTC)

SETTINGS = {"RETENTION_SECONDS": FOR_EVER, "POWERTOOLS_LOG_LEVEL": "DEBUG"}
"""At DEBUG each message has a line."""

unhurried = settings(
    deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
)
_numbers = itertools.count(1)


@dataclass
class Delivered:
    """A batch, and the disposition of each of its records. `said` is the function's log."""

    records: list[dict[str, Any]]
    back: set[str]
    letters: list[DeadLetter]
    said: str
    requests: int

    def how(self, one: dict[str, Any]) -> str:
        """Exactly one of `back`, `dead` and `done`."""
        dead = one["body"] in {letter.body for letter in self.letters}
        assert not (dead and one["messageId"] in self.back), (
            f"returned to the queue and dead-lettered: {one['body'][:200]}"
        )
        return "back" if one["messageId"] in self.back else "dead" if dead else "done"

    def reason(self, one: dict[str, Any]) -> str:
        return next(letter.reason or "" for letter in self.letters if letter.body == one["body"])


@contextlib.contextmanager
def listening(function: ModuleType) -> Iterator[io.StringIO]:
    """Captures the function's log: its logger's lines, metrics, warnings of other loggers, and tracebacks."""
    said = io.StringIO()
    handler, root = logging.StreamHandler(said), logging.getLogger()
    handler.addFilter(lambda line: line.name != function.logger.name)
    function_handler: Any = function.logger.registered_handler
    stream, function_handler.stream = function_handler.stream, said  # setStream would flush the other stream.
    root.addHandler(handler)
    try:
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            yield said
    finally:
        root.removeHandler(handler)
        function_handler.stream = stream


def deliver(
    aws: Endpoint, function: ModuleType, meter: Meter, records: list[dict[str, Any]], ended: Counter[str]
) -> Delivered:
    """Delivers a batch once, asserts all that must hold for any content, and counts how the messages ended."""
    meter.reset()
    with listening(function) as said:
        response = function.lambda_handler({"Records": records}, Context())
    requests = meter.requests.total()
    assert response.keys() == {"batchItemFailures"}
    assert all(failure.keys() == {"itemIdentifier"} for failure in response["batchItemFailures"])
    back = [failure["itemIdentifier"] for failure in response["batchItemFailures"]]
    assert len(back) == len(set(back))
    assert set(back) <= {one["messageId"] for one in records}
    letters = take_dead_letters(aws, function.worker.queue.dead_letter_url)
    delivered = Delivered(records, set(back), letters, said.getvalue(), requests)
    assert Counter(letter.body for letter in letters) == Counter(
        one["body"] for one in records if delivered.how(one) == "dead"
    )
    check_reasons(letters)
    check_log(delivered.said)
    ended.update(map(delivered.how, records))
    return delivered


def check_reasons(letters: list[DeadLetter]) -> None:
    for letter in letters:
        assert letter.reason
        assert len(letter.reason) <= REASON_CHARACTERS
        assert letter.reason.isprintable()
        assert not NOT_FOR_SQS.search(letter.reason)
        assert SECRET not in letter.reason


def check_log(said: str) -> None:
    """Asserts that the log has no value of a message, no long line, and no line but JSON objects."""
    said.encode()
    assert SECRET not in said
    for line in filter(None, said.split("\n")):
        assert len(line) < 6_000
        if not line.startswith("message "):
            assert isinstance(json.loads(line), dict), line


def numbered(batch: Sequence[Sent]) -> list[dict[str, Any]]:
    """Records of these bodies, each with a unique number in its body."""
    return [
        record(sent.body.replace("@@", f"{number:02}"), sent.deliveries, START + timedelta(seconds=number))
        for number, sent in enumerate(batch)
    ]


def in_accounts_of_their_own(body: str, number: int) -> str:
    """Gives each example its own accounts, so that no example depends on another."""
    return body.replace('"alice"', f'"alice-{number}"').replace('"bob"', f'"bob-{number}"')


def is_of_others(body: str, number: int) -> bool:
    """Whether one of the message's accounts wasn't opened."""
    return not set(messages.decode(body).account_ids) <= {f"alice-{number}", f"bob-{number}"}


def test_whatever_transactions_are_sent_the_valid_ones_are_posted_and_none_is_lost(aws: Endpoint, say: Say) -> None:
    ledger, ended = Ledger(aws, **SETTINGS), Counter[str]()
    function = with_one_queue(ledger.worker)
    meter = Meter(function.poster.client, function.worker.queue.client)

    def is_posted(body: str) -> bool:
        message = messages.decode(body)
        keys = [EntryId.on(each, *message.home_entry_id)._asdict() for each in message.account_ids]
        found = [
            ledger.client.get_item(TableName=ledger.tables.journal, Key=to_dynamodb(key), ConsistentRead=True)
            for key in keys
        ]
        wanted = to_dynamodb({"request": message.canonical_payload()})
        return all("Item" in each and each["Item"]["request"] == wanted["request"] for each in found)

    @unhurried
    @example([Sent(json.dumps(TRANSACTIONS[0] | {"account_id": "nobody"}), False, 1)])
    @given(batches(TRANSACTIONS))
    def try_batch(batch: list[Sent]) -> None:
        number = next(_numbers)
        batch = [Sent(json.dumps(opening), True, 1) for opening in OPENINGS] + batch
        batch = [sent._replace(body=in_accounts_of_their_own(sent.body, number)) for sent in batch]
        delivered = deliver(aws, function, meter, numbered(batch), ended)
        assert delivered.requests <= 8 + 2 * len(batch)  # four at most are for the attempts of suspects
        for one, sent in zip(delivered.records, batch, strict=True):
            how = delivered.how(one)
            assert how == "done" or not sent.good, one["body"]
            match how:
                case "done":
                    assert is_posted(one["body"])
                case "back":
                    assert is_of_others(one["body"], number)
                case "dead":
                    changed = delivered.reason(one).startswith("transaction_id: ")
                    assert is_invalid(messages.decode, one["body"]) or (changed and not is_posted(one["body"]))

    try_batch()
    assert not violations(ledger.books)
    assert ended.keys() == {"done", "back", "dead"}
    say(str(ended))


def test_whatever_updates_are_sent_the_valid_ones_are_in_their_profiles_and_none_is_lost(
    aws: Endpoint, say: Say
) -> None:
    table = create_profiles_table(aws, f"hostile-{next(_numbers)}")
    function = upsert_profiles(aws, table, **SETTINGS)
    meter, ended = Meter(function.writer.client, function.worker.queue.client), Counter[str]()

    @unhurried
    @given(batches(UPDATES))
    def try_batch(batch: list[Sent]) -> None:
        refill(aws, table)
        delivered = deliver(aws, function, meter, numbered(batch), ended)
        assert delivered.requests <= 8 + 8 * len(batch)
        assert not delivered.back
        upserted = []
        for one, sent in zip(delivered.records, batch, strict=True):
            if delivered.how(one) == "dead":
                assert profiles_checker.is_refused(one["body"]), one["body"]
                assert not sent.good
            else:
                sent_at = datetime.fromtimestamp(int(one["attributes"]["SentTimestamp"]) / 1000, UTC)
                upserted.append((profiles.decode(one["body"]), sent_at))
        there = profiles_checker.read_profiles(aws, table)
        assert not list(profiles_checker.violations(there, profiles_checker.latest(upserted)))

    try_batch()
    assert ended.keys() == {"done", "dead"}
    say(str(ended))


def with_attribute(one: dict[str, Any], name: str, value: object) -> dict[str, Any]:
    return one | {"attributes": one["attributes"] | {name: value}}


UNSOUND: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "with an object for a body": lambda one: one | {"body": {"note": SECRET}},
    "with a count of zero": lambda one: with_attribute(one, "ApproximateReceiveCount", "0"),
    "with half an attribute": lambda one: one | {"messageAttributes": {"x": {"dataType": "String"}}},
}
"""A few of those in tests/unit/test_queue_messages.py."""
GOOD = {"process_transactions": TRANSACTIONS[0], "upsert_profiles": UPDATES[2]}
WORKERS = sorted(GOOD)


def sound_batch(name: str) -> list[dict[str, Any]]:
    """Three valid messages for accounts of their own, and the opening that transactions need."""
    account = {"account_id": f"account-{next(_numbers)}"}
    opening = [OPENINGS[0] | account] if name == "process_transactions" else []
    return numbered([Sent(json.dumps(message), True, 1) for message in [*opening, *[GOOD[name] | account] * 3]])


@pytest.fixture(scope="module")
def workers(aws: Endpoint) -> dict[str, ModuleType]:
    profiles_table = create_profiles_table(aws, f"hostile-{next(_numbers)}")
    return {
        "process_transactions": with_one_queue(Ledger(aws, **SETTINGS).worker),
        "upsert_profiles": upsert_profiles(aws, profiles_table, **SETTINGS),
    }


@pytest.mark.parametrize("fault", UNSOUND)
@pytest.mark.parametrize("name", WORKERS)
def test_a_record_that_is_none_of_sqs_goes_back_and_its_neighbours_are_done(
    aws: Endpoint, workers: dict[str, ModuleType], name: str, fault: str
) -> None:
    function = workers[name]
    meter = Meter(client_of(function), function.worker.queue.client)
    batch = sound_batch(name)
    unsound = UNSOUND[fault](record(GOOD[name] | {"account_id": "nobody"}))
    with listening(function) as said:
        response = function.lambda_handler({"Records": [*batch[:2], unsound, *batch[2:]]}, Context())
    assert response == {"batchItemFailures": [{"itemIdentifier": unsound["messageId"]}]}
    check_log(said.getvalue())
    assert said.getvalue().count(f"message {unsound['messageId']} is left on its queue: ") == 1
    assert said.getvalue().count('"message_id"') == len(batch)
    assert not take_dead_letters(aws, function.worker.queue.dead_letter_url)
    assert meter.requests.total() <= 3


@pytest.mark.parametrize("name", WORKERS)
def test_two_records_with_one_id_are_two_messages(aws: Endpoint, workers: dict[str, ModuleType], name: str) -> None:
    function = workers[name]
    batch = [one | {"messageId": "the same"} for one in [record("no JSON"), *sound_batch(name)]]
    with listening(function) as said:
        response = function.lambda_handler({"Records": batch}, Context())
    assert response == {"batchItemFailures": []}
    assert said.getvalue().count('"message_id":"the same"') == len(batch)
    assert [letter.body for letter in take_dead_letters(aws, function.worker.queue.dead_letter_url)] == ["no JSON"]


def client_of(function: ModuleType) -> Any:
    return function.poster.client if hasattr(function, "poster") else function.writer.client
