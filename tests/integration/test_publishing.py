"""publish_outcomes and the journal's stream: its answers, its metrics, and what it writes of failures."""

import itertools
import json
from types import ModuleType
from typing import Any

import pytest

from conditional_writes.items import from_dynamodb
from ledger.core.journal import entry_from_item
from tests.checkers.outcomes import violations
from tools.local_aws.consumers import Consumer, new_consumer
from tools.local_aws.functions import (
    Context,
    Queue,
    invoke,
    metric_totals,
    process_transactions,
    publish_outcomes,
    record,
    stream_record,
)
from tools.local_aws.queues import take_dead_letters
from tools.local_aws.server import Endpoint
from tools.local_aws.tables import Tables, create_tables, scan
from workers.invocation import RESERVED_SECONDS
from workers.stream_records import NotAStreamEvent

OPEN = {"type": "open_account", "transaction_id": "open", "currency": "EUR"}
TRANSFER = {"type": "transfer", "transaction_id": "t-1", "from_account_id": "alice", "to_account_id": "bob"}
_numbers = itertools.count(1)


@pytest.fixture
def tables(ministack: Endpoint) -> Tables:
    return create_tables(ministack, f"publishing-{next(_numbers)}")


@pytest.fixture
def function(ministack: Endpoint) -> ModuleType:
    return publish_outcomes(ministack)


@pytest.fixture
def consumer(ministack: Endpoint, function: ModuleType) -> Consumer:
    return new_consumer(ministack, function.bus.name, function.bus.name)


@pytest.fixture
def items(ministack: Endpoint, tables: Tables) -> list[dict[str, Any]]:
    """The four entries of two accounts and of a transfer between them that is rejected."""
    messages = [OPEN | {"account_id": "alice"}, OPEN | {"account_id": "bob"}, TRANSFER | {"amount": 7}]
    Queue(list(map(record, messages))).deliver_until_quiet(process_transactions(ministack, tables))
    return list(scan(ministack, tables.journal))


def printed(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def counted(lines: list[dict[str, Any]]) -> dict[str, float]:
    totals = metric_totals(lines)
    return {name: totals[name] for name in ("Published", "DeadLettered", "NotPublished")}


def test_each_entry_that_was_posted_becomes_an_event(
    function: ModuleType, consumer: Consumer, items: list[dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert not invoke(function, map(stream_record, items))
    events = consumer.take()
    assert violations([entry_from_item(from_dynamodb(item)) for item in items], events) == []
    assert sorted(event["detail-type"] for event in events) == [
        *["AccountOpened"] * 2,
        *["TransactionRejected"] * 2,
    ]
    assert counted(printed(capsys)) == {"Published": 4, "DeadLettered": 0, "NotPublished": 0}


def test_without_time_the_stream_is_told_of_the_first_entry_and_the_log_says_why(
    function: ModuleType,
    consumer: Consumer,
    items: list[dict[str, Any]],
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    records = list(map(stream_record, items))
    capsys.readouterr()
    answer = function.lambda_handler({"Records": records}, Context(timeout_seconds=RESERVED_SECONDS))
    first = records[0]["dynamodb"]["SequenceNumber"]
    assert answer == {"batchItemFailures": [{"itemIdentifier": first}]}
    assert consumer.take() == []
    assert counted(printed(capsys)) == {"Published": 0, "DeadLettered": 0, "NotPublished": 4}
    [line] = [vars(line) for line in caplog.records if line.message == "not published"]
    assert (line["levelname"], line["entries"], line["reason"]) == ("ERROR", 4, "no time is left: publishing")


def test_an_item_of_another_program_is_dead_lettered_and_no_payload_is_in_the_log(
    ministack: Endpoint,
    function: ModuleType,
    consumer: Consumer,
    items: list[dict[str, Any]],
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    foreign = {"account_id": {"S": "alice"}, "transaction_id": {"S": "foreign"}, "note": {"S": "secret"}}
    capsys.readouterr()
    assert not invoke(function, map(stream_record, [*items[:2], foreign, *items[2:]]))
    assert len(consumer.take()) == 4
    [letter] = take_dead_letters(ministack, function.publisher.dead_letter_queue_url)
    assert json.loads(letter.body) == {"account_id": "alice", "transaction_id": "foreign"}
    assert (letter.attributes["reason_code"], letter.reason) == ("NOT_AN_ENTRY", "request: missing")
    assert counted(printed(capsys)) == {"Published": 4, "DeadLettered": 1, "NotPublished": 0}
    assert any("dead-lettered" in line.message and "foreign" in line.message for line in caplog.records)
    assert not any("secret" in str(vars(line)) for line in caplog.records)


def test_an_entry_that_was_changed_or_removed_is_counted_and_never_published(
    ministack: Endpoint,
    function: ModuleType,
    consumer: Consumer,
    items: list[dict[str, Any]],
    capsys: pytest.CaptureFixture[str],
) -> None:
    capsys.readouterr()
    forged = items[0] | {"amount": {"N": "1000000"}}
    records = [stream_record(items[1]), stream_record(forged, items[0]), stream_record(None, items[2])]
    assert not invoke(function, records)
    assert len(consumer.take()) == 1
    lines = printed(capsys)
    assert metric_totals(lines)["EntriesChanged"] == 2
    assert counted(lines) == {"Published": 1, "DeadLettered": 2, "NotPublished": 0}
    letters = take_dead_letters(ministack, function.publisher.dead_letter_queue_url)
    assert {letter.attributes["reason_code"] for letter in letters} == {"ENTRY_CHANGED", "ENTRY_REMOVED"}


@pytest.mark.filterwarnings("ignore:No application metrics")
def test_what_is_none_of_the_journals_stream_is_never_published(
    function: ModuleType, consumer: Consumer, items: list[dict[str, Any]]
) -> None:
    """A mistake is refused. One who may invoke the function can write a true stream's name, too: SECURITY.md."""
    of_another = stream_record(items[0]) | {"eventSourceARN": "arn:aws:dynamodb:us-east-1:1:table/others/stream/1"}
    for event, sentence in [
        ({"republish": {"account_id": "alice"}}, "The function republish_outcomes takes it"),
        ({"Records": [stream_record(items[1]), of_another]}, r"Records\[1\]: expected a record of the stream"),
    ]:
        with pytest.raises(NotAStreamEvent, match=sentence):
            function.lambda_handler(event, Context())
    assert consumer.take() == []


@pytest.mark.filterwarnings("ignore:No application metrics")
@pytest.mark.parametrize("event", [{}, None, {"Records": [record("{}")]}, {"Records": [{"dynamodb": {}}]}])
def test_an_event_that_is_none_of_a_stream_fails_with_a_sentence(function: ModuleType, event: Any) -> None:
    with pytest.raises(NotAStreamEvent, match="expected"):
        function.lambda_handler(event, Context())


def test_an_empty_batch_is_published(function: ModuleType, consumer: Consumer) -> None:
    assert not invoke(function, [])
    assert consumer.take() == []
