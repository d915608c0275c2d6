"""Each metric of the dashboard and of the alarms is emitted when the functions run, with the dimensions shown there."""

import json
import uuid
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest import mock

import pytest

from conditional_writes import Deadline
from ledger.core.mismatches import Mismatch
from ledger.nightly import Gone, Tally
from ledger.reconciler import Mismatched, Skipped
from ledger.tables import Line
from tests.support.template import alarm_metrics, dashboard_metrics
from tools.local_aws import functions
from tools.local_aws.functions import Context, invoke, read_accounts, reconcile_accounts, record, stream_record
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
    queue_url = aws.client("sqs").create_queue(QueueName="sent")["QueueUrl"]
    found: Emitted = set()
    for name, run, *given in (
        ("process_transactions", post, tables),
        ("post_transactions", ask, tables, locks),
        ("upsert_profiles", upsert, create_profiles_table(aws, "metrics")),
        ("reconcile_accounts", run_in_each_way, tables, locks),
        ("charge_overdraft_interest", run_in_each_way, tables, locks, queue_url),
        ("expire_holds", run_in_each_way, tables, locks, queue_url),
        ("read_accounts", read, tables),
        ("publish_outcomes", publish),
        ("republish_outcomes", publish_again, tables),
    ):
        function = getattr(functions, name)(aws, *given, POWERTOOLS_SERVICE_NAME=name)
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


MISMATCH = Mismatch("alice", "wrong seal", 7, "it is another")
FINDINGS = {
    "a mismatch": (
        Mismatched("alice", [MISMATCH]),
        Tally(3, mismatches=1),
        {"message": "mismatch", "account_id": "alice", "account_version": 7, "what": "wrong seal"},
    ),
    "one of all accounts": (
        Gone("trial balance", "it is another"),
        Tally(3, mismatches=1),
        {"message": "mismatch", "what": "trial balance"},
    ),
    "a skipped account": (
        Skipped("alice", "it is another"),
        Tally(3, accounts_skipped=1),
        {"message": "skipped", "account_id": "alice"},
    ),
}


@pytest.mark.parametrize(("found", "tally", "said"), FINDINGS.values(), ids=FINDINGS)
def test_what_a_night_finds_is_an_error_in_the_log_and_counted_at_once(
    aws: Endpoint,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    found: Any,
    tally: Tally,
    said: dict[str, Any],
) -> None:
    name = uuid.uuid4().hex
    function = reconcile_accounts(aws, create_tables(aws, name), create_locks_table(aws, name))
    capsys.readouterr()
    function.tell([], Tally(2))
    assert capsys.readouterr().out == "", "nothing was found: the metrics wait for the invocation's end"
    function.tell([found], tally)
    metrics = json.loads(capsys.readouterr().out.splitlines()[-1])
    [line] = map(vars, caplog.records)
    assert line | said | {"levelname": "ERROR", "reason": "it is another"} == line
    assert {name: sum(metrics[name]) for name in ("AccountsChecked", "AccountsSkipped", "Mismatches")} == {
        "AccountsChecked": 5,
        "AccountsSkipped": tally.accounts_skipped,
        "Mismatches": tally.mismatches,
    }


@pytest.mark.parametrize(
    ("answer", "counted"),
    [
        ({"error": "no such read"}, {"Refused": 1}),
        ({"complete": False}, {"Answered": 1, "Incomplete": 1}),
        ({"complete": True}, {"Answered": 1, "Incomplete": 0}),
        ({}, {"Answered": 1, "Incomplete": 0}),
    ],
)
def test_a_read_is_refused_or_answered_and_counted_if_it_is_incomplete(
    aws: Endpoint,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    answer: dict[str, Any],
    counted: dict[str, int],
) -> None:
    function = read_accounts(aws, create_tables(aws, uuid.uuid4().hex))
    monkeypatch.setattr(function, "reader", SimpleNamespace(answer=lambda *_: answer))
    assert function.lambda_handler({}, Context()) == answer
    lines = map(json.loads, capsys.readouterr().out.splitlines())
    found = {name: sum(line[name]) for line in lines for name in ("Refused", "Answered", "Incomplete") if name in line}
    assert found == counted
