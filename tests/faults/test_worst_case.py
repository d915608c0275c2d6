"""The worst case of valid messages: the cost of a batch of ten of the most expensive or slowest ones.

Requests and DynamoDB's write units are counted, so that a change of either is noticed. `make bench` shows the times.
"""

import itertools
import json
from types import ModuleType
from typing import Any, NamedTuple

import pytest
from msgspec.structs import replace

from conditional_writes.core.items import to_dynamodb
from ledger.core.journal import Outcome, entry_item
from tests.support import samples
from tests.support.bodies import openings, payment, transfer
from tests.support.samples import largest_transaction, largest_transfer
from tools.local_aws.consumers import new_consumer
from tools.local_aws.functions import (
    invoke,
    process_transactions,
    publish_outcomes,
    record,
    stream_record,
    upsert_profiles,
)
from tools.local_aws.meter import Meter
from tools.local_aws.server import Endpoint
from tools.local_aws.tables import create_profiles_table, create_tables

BATCH = 10
_numbers = itertools.count(1)


class Cost(NamedTuple):
    requests: dict[str, int]
    write_units: float


def posting(aws: Endpoint) -> ModuleType:
    return process_transactions(aws, create_tables(aws, f"dear-{next(_numbers)}"))


def upserting(aws: Endpoint) -> ModuleType:
    return upsert_profiles(aws, create_profiles_table(aws, f"dear-{next(_numbers)}"))


def cost_of(function: ModuleType, messages: list[Any], back: int = 0) -> Cost:
    client = function.poster.client if hasattr(function, "poster") else function.writer.client
    meter = Meter(client, function.worker.queue.client)
    assert len(invoke(function, map(record, messages))) == back
    return Cost(dict(meter.requests), meter.write_units)


ACCOUNTS = [chr(0x1F600 + number) * 128 for number in range(BATCH + 1)]
"""An id of the maximum length."""


def test_transactions_on_different_accounts_take_the_most_requests(aws: Endpoint) -> None:
    function = posting(aws)
    cost_of(function, openings(*ACCOUNTS))
    payments = [payment("t", 1, account_id) for account_id in ACCOUNTS[:BATCH]]
    reads_and_commits = {"BatchGetItem": 1, "TransactWriteItems": 10}
    assert cost_of(function, payments) == Cost(reads_and_commits, 80)
    changed = [each | {"amount": 2} for each in payments]
    refused = reads_and_commits | {"BatchWriteItem": 1, "SendMessageBatch": 1}
    assert cost_of(function, changed) == Cost(refused, 80), "no index, and a record of each"


def test_transfers_that_chain_all_accounts_are_one_commit(aws: Endpoint) -> None:
    function = posting(aws)
    cost_of(function, openings(*ACCOUNTS))
    chain = [transfer(payer, 1, payer, payee) for payer, payee in itertools.pairwise(ACCOUNTS)]
    # All are rejected, and each entry names the account at fault, by an id of half a KB.
    assert cost_of(function, chain) == Cost({"BatchGetItem": 1, "TransactWriteItems": 1}, 262)


def test_transactions_of_accounts_that_nobody_opened_cost_two_units_each_for_the_note_that_they_wait(
    aws: Endpoint,
) -> None:
    payments = [payment("t", 1, account_id) for account_id in ACCOUNTS[:BATCH]]
    requests = {"BatchGetItem": 1, "ChangeMessageVisibilityBatch": 1, "TransactWriteItems": 1}
    assert cost_of(posting(aws), payments, back=BATCH) == Cost(requests, 2 * BATCH)


def test_the_largest_messages_take_the_most_units(aws: Endpoint) -> None:
    function = posting(aws)
    transfers = [largest_transfer(number).canonical_payload() for number in range(BATCH)]
    gold = {"currency": "XAU"}  # It has no minor units: the largest amount has 130 decimals.
    payments = [largest_transaction(number).canonical_payload() | gold for number in range(BATCH, 2 * BATCH)]
    cost_of(function, openings(transfers[0]["from_account_id"], transfers[0]["to_account_id"], **gold))
    requests = {"BatchGetItem": 1, "TransactWriteItems": 1}
    assert cost_of(function, payments) == Cost(requests, 902)
    assert cost_of(function, transfers) == Cost(requests, 1_864)


DEEPEST = [f"level {number}" for number in range(16)]
MOST_NAMES = {f"entry {number}": number for number in range(100)}


@pytest.mark.usefixtures("new_process")
def test_a_hundred_entries_sixteen_levels_deep_are_four_requests_each_twice_where_the_map_is_not_there(
    aws: Endpoint,
) -> None:
    function = upserting(aws)
    update = {"account_id": "alice", "path": DEEPEST, "entries": MOST_NAMES}
    assert cost_of(function, [update]) == Cost({"UpdateItem": 7}, 38)  # The last request knows that the map exists.
    others = [update | {"account_id": name} for name in ACCOUNTS[:BATCH]]
    requests, write_units = cost_of(function, others)  # A request may learn from another's answer, or be too early.
    assert requests["UpdateItem"] <= 8 * BATCH
    assert write_units <= 42 * BATCH


@pytest.mark.usefixtures("new_process")
def test_one_that_does_not_fit_has_the_others_of_its_profile_sent_again_each_by_itself(
    aws: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("random.randrange", lambda _: 0)  # the request that is the first
    function = upserting(aws)
    item = to_dynamodb({"account_id": "alice", "status": "another program's"})
    aws.client("dynamodb").put_item(TableName=function.writer.table, Item=item)
    updates = [
        {"account_id": "alice", "path": DEEPEST, "entries": {f"{n} {name}": n for name in MOST_NAMES}}
        for n in range(BATCH - 1)
    ]
    unfit = {"account_id": "alice", "path": ["status"], "entries": {"x": 1}}
    assert cost_of(function, [*updates, unfit]) == Cost({"UpdateItem": 41, "SendMessageBatch": 1}, 1_359)


@pytest.mark.usefixtures("new_process")
def test_the_longest_names_fill_half_a_profile_with_clocks(aws: Endpoint) -> None:
    function = upserting(aws)
    update = {"account_id": "alice", "path": ["\x01" * 255] * 16, "entries": {"x": 1}}
    assert len(json.dumps(update)) < 25_000
    assert cost_of(function, [update]) == Cost({"UpdateItem": 2}, 213)


@pytest.mark.usefixtures("new_process")
def test_a_full_profile_costs_its_whole_size_for_each_request(aws: Endpoint) -> None:
    function = upserting(aws)
    for number in range(3):
        cost_of(function, [{"account_id": "alice", "path": [f"p{number}"], "entries": {"x": "x" * 127_000}}])
    small = {"account_id": "alice", "path": ["p0"], "entries": {"y": 1}}
    assert cost_of(function, [small]) == Cost({"UpdateItem": 2}, 746)
    too_much = small | {"entries": {"y": "x" * 20_000}}
    assert cost_of(function, [too_much]) == Cost({"UpdateItem": 1, "SendMessageBatch": 1}, 373)


STREAM_BATCH = 100
"""Of the journal's stream: as template.yaml has it."""


@pytest.mark.parametrize(("kind", "requests"), [("lone payments", 10), ("the largest payments", 13)])
def test_a_full_batch_of_the_stream_is_few_requests(aws: Endpoint, kind: str, requests: int) -> None:
    """Ten events a request, or as many as fit into it."""
    function = publish_outcomes(aws)
    consumer = new_consumer(aws, function.bus.name, function.bus.name)
    meter = Meter(function.bus.client, function.publisher.queue_client)
    message = largest_transaction() if kind == "the largest payments" else samples.payment()
    outcome = Outcome("POSTED", None, message.amount, message.amount, 1, "2026-03-01T12:00:00.000+00:00", "EUR")
    entry = samples.entry_of(message, outcome)
    items = [entry_item(replace(entry, outcome=replace(outcome, account_version=n + 1))) for n in range(STREAM_BATCH)]
    assert not invoke(function, [stream_record(to_dynamodb(item)) for item in items])
    assert meter.requests == {"PutEvents": requests}
    assert len(consumer.take()) == STREAM_BATCH
