"""The ways of a transaction, a night's check, an upsert and an exactly-once call through the code are short."""

import re
from datetime import timedelta

import pytest

from conditional_writes import Deadline
from ledger.reconciler import Night
from tests.support import bodies
from tests.support.paying import Tables, Way, Worker, payment
from tests.support.reconciling import FIRST_NIGHT, Reconciled, event
from tests.support.tracing import traced
from tools.local_aws.functions import Context, invoke, process_transactions, record, upsert_profiles
from tools.local_aws.server import PROJECT, Endpoint
from tools.local_aws.tables import create_profiles_table, create_tables


def test_a_posted_transaction_goes_through_few_modules_and_calls_and_as_the_docs_say(aws: Endpoint) -> None:
    function = process_transactions(aws, create_tables(aws, "path"), POWERTOOLS_LOG_LEVEL="CRITICAL")
    opening = {"type": "open_account", "transaction_id": "open", "account_id": "a", "currency": "EUR"}
    assert not invoke(function, [record(opening)])
    delivery = {"Records": [record({"transaction_id": "t", "account_id": "a", "amount": 5})]}
    trace = traced(lambda: function.lambda_handler(delivery, Context()))
    print(trace)  # shown if a bound is passed
    modules, calls, frames = trace.numbers
    assert modules <= 20
    assert calls <= 40
    assert frames <= 14
    page = (PROJECT / "docs" / "extending.md").read_text()
    assert {module for module in trace.modules if f"`{module}`" not in page} == set()
    listed = re.findall(r"^\| \d+ \| `(.*?)` \|", page, re.MULTILINE)
    called = dict.fromkeys([trace.modules[0], *(function.module for function in trace.calls)])
    assert listed == [module for module in called if module in listed]


@pytest.mark.parametrize(("what", "most"), [("account", (15, 43, 12)), ("night", (22, 90, 22))])
def test_an_account_is_checked_from_its_checkpoint_in_few_modules_and_calls(
    aws: Endpoint, monkeypatch: pytest.MonkeyPatch, what: str, most: tuple[int, int, int]
) -> None:
    """With a new entry. An account: from its item to its saved checkpoint. A night: the invocation, with its lock."""
    ledger = Reconciled(aws, aws, monkeypatch)
    ledger.post(bodies.opening("a"))
    night = ledger.quiet_night()
    ledger.run(night)
    ledger.post(bodies.payment("t", 5, "a"))
    function, deadline, day = (
        ledger.new_process(),
        Deadline.after(600),
        Night((FIRST_NIGHT + timedelta(days=night + 1)).date()),
    )
    item, stored = ledger.by_account(ledger.tables.accounts)["a"], ledger.stored(checkpoints=True)

    def check() -> None:
        saved = function.checkpoints.read(["a"], deadline)["a"]
        result = function.reconciler.check(item, saved, day, deadline)
        function.checkpoints.write({"a": result.new_checkpoint}, deadline)

    def run(nights: float) -> None:
        delivery = {"Records": [record(event(nights))]}
        assert function.lambda_handler(delivery, Context(150)) == {"batchItemFailures": []}

    run(night + 1)
    ledger.restore(stored)
    trace = traced(check if what == "account" else lambda: run(night + 1.1))
    print(trace)
    assert all(number <= bound for number, bound in zip(trace.numbers, most, strict=True)), trace.numbers


@pytest.mark.usefixtures("new_process")
def test_an_upsert_whose_first_try_fits_goes_through_few_modules_and_calls(aws: Endpoint) -> None:
    function = upsert_profiles(aws, create_profiles_table(aws, "path"), POWERTOOLS_LOG_LEVEL="CRITICAL")
    body = {"account_id": "a", "path": ["preferences"], "entries": {"volume": 7, "theme": "dark"}}
    for _ in range(4):  # the shape is learned
        assert not invoke(function, [record(body)])
    event = {"Records": [record(body)]}
    trace = traced(lambda: function.lambda_handler(event, Context()))
    print(trace)
    modules, calls, frames = trace.numbers
    assert modules <= 17
    assert calls <= 42
    assert frames <= 21


@pytest.mark.parametrize(("way", "most"), [(Way.PLAIN, 12), (Way.POWERTOOLS, 13)])
def test_an_exactly_once_call_goes_through_few_modules_and_calls(aws: Endpoint, way: Way, most: int) -> None:
    tables = Tables(aws)
    tables.open_account()
    pay = Worker(tables, way).pay
    pay(payment(1))
    trace = traced(lambda: pay(payment(2), deadline=Deadline.after(600)))
    print(trace)
    modules, calls, frames = trace.numbers
    assert modules <= most
    assert calls <= 40
    assert frames <= 13
