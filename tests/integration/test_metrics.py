"""Each metric of the dashboard and of the alarms is emitted when the functions run, with the dimensions shown there."""

import json
from collections.abc import Iterator
from functools import partial
from types import ModuleType
from typing import Any
from unittest import mock

import pytest

from conditional_writes import Deadline
from ledger.tables import Line
from tests.support.template import alarm_metrics, dashboard_metrics
from tools.local_aws.functions import (
    Context,
    charge_overdraft_interest,
    expire_holds,
    invoke,
    post_transactions,
    process_transactions,
    publish_outcomes,
    read_accounts,
    reconcile_accounts,
    record,
    republish_outcomes,
    stream_record,
    upsert_profiles,
)
from tools.local_aws.server import Endpoint
from tools.local_aws.tables import create_locks_table, create_profiles_table, create_tables
from workers.invocation import RESERVED_SECONDS
from workers.sending import NotSent

ACCOUNTS = ("alice", "ben", "cleo")

type Emitted = set[tuple[str, frozenset[tuple[str, str]]]]
"""The name and the dimensions of each metric."""


@pytest.fixture
def emitted(aws: Endpoint, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Emitted:
    """The metrics that each function emits when it runs in each of its ways."""
    tables, locks = create_tables(aws, "metrics"), create_locks_table(aws, "metrics")
    profiles, queue = (
        create_profiles_table(aws, "metrics"),
        aws.client("sqs").create_queue(QueueName="sent"),
    )
    found: Emitted = set()
    for name, run, load in (
        ("process_transactions", post, partial(process_transactions, aws, tables)),
        ("post_transactions", ask, partial(post_transactions, aws, tables, locks)),
        ("upsert_profiles", upsert, partial(upsert_profiles, aws, profiles)),
        ("reconcile_accounts", run_in_each_way, partial(reconcile_accounts, aws, tables, locks)),
        (
            "charge_overdraft_interest",
            run_in_each_way,
            partial(charge_overdraft_interest, aws, tables, locks, queue["QueueUrl"]),
        ),
        ("expire_holds", run_in_each_way, partial(expire_holds, aws, tables, locks, queue["QueueUrl"])),
        ("read_accounts", read, partial(read_accounts, aws, tables)),
        ("publish_outcomes", publish, partial(publish_outcomes, aws)),
        ("republish_outcomes", publish_again, partial(republish_outcomes, aws, tables)),
    ):
        function = load(POWERTOOLS_SERVICE_NAME=name)
        monkeypatch.setenv("POWERTOOLS_SERVICE_NAME", name)
        capsys.readouterr()
        run(function)
        found |= set(metrics_in(capsys.readouterr().out))
    return found


def post(function: ModuleType) -> None:
    opening = {"type": "open_account", "transaction_id": "open", "currency": "EUR"}
    payment = {"transaction_id": "t-1", "account_id": "alice", "amount": 1}
    invoke(function, [record(opening | {"account_id": name}) for name in ACCOUNTS])
    invoke(function, [record(payment), record("junk"), record(payment | {"account_id": "nobody"})])
    invoke(function, [record(payment), record(payment | {"transaction_id": "t-2", "amount": -2})])
    tables, lines = function.poster.tables, function.poster.lines
    alice, deadline = tables.account_key("alice"), Deadline.after(30)
    lines.mark_as_contended(alice, deadline)
    assert lines.take_ticket(alice, Line(), deadline), "of a worker that dies"
    invoke(function, [record(payment | {"transaction_id": "t-3"})])


def ask(function: ModuleType) -> None:
    payments = [{"transaction_id": f"asked-{amount}", "account_id": "alice", "amount": amount} for amount in (1, -99)]
    for transactions in (payments, []):
        function.lambda_handler({"transactions": transactions}, Context())


def upsert(function: ModuleType) -> None:
    update = {"account_id": "alice", "path": ["preferences"], "entries": {"theme": "dark"}}
    invoke(function, [record(update), record("junk")])


def read(function: ModuleType) -> None:
    for account_id in (*ACCOUNTS, "nobody"):
        function.lambda_handler({"read": "statement", "account_id": account_id, "last": 1}, Context())


def publish(function: ModuleType) -> None:
    invoke(
        function, [stream_record({"account_id": {"S": "alice"}}), stream_record(None, {"account_id": {"S": "alice"}})]
    )


def publish_again(function: ModuleType) -> None:
    function.lambda_handler({"republish": {"account_id": "alice"}}, Context())
    function.lambda_handler({"republish": {}}, Context())


def run_in_each_way(function: ModuleType) -> None:
    """A run without time for a second step, a message meanwhile, an outage, the run that is done, and one after it."""
    function.ACCOUNTS_PER_STEP = 1
    job = function.job._replace(queue=function.job.queue._replace(client=mock.Mock()))
    event = {"job": job.name, "scheduled_time": "2026-03-01T02:00:00Z", "force": True}

    def with_events_meanwhile(*arguments: Any) -> Iterator[Any]:
        invoke_job()
        yield from job.work(*arguments)

    def fails(_: Any) -> Iterator[Any]:
        raise NotSent("x")

    def invoke_job(timeout_seconds: float = 120) -> None:
        function.lambda_handler({"Records": [record(event)]}, Context(timeout_seconds))

    function.job = job._replace(work=with_events_meanwhile)
    invoke_job(timeout_seconds=RESERVED_SECONDS)
    function.job = job._replace(work=fails)
    invoke_job()
    function.job = job
    invoke_job()
    invoke_job()


def metrics_in(output: str) -> Iterator[tuple[str, frozenset[tuple[str, str]]]]:
    for line in map(json.loads, filter(lambda line: line.startswith('{"_aws"'), output.splitlines())):
        for directive in line["_aws"]["CloudWatchMetrics"]:
            for names in directive["Dimensions"]:
                dimensions = frozenset((name, line[name]) for name in names)
                yield from ((metric["Name"], dimensions) for metric in directive["Metrics"])


def test_each_metric_of_the_dashboard_and_the_alarms_is_emitted(emitted: Emitted) -> None:
    ours = [metric for metric in (*dashboard_metrics(), *alarm_metrics()) if metric[0].startswith("Teller/")]
    missing = {(name, dimensions) for _, name, dimensions in ours} - emitted
    assert not missing
