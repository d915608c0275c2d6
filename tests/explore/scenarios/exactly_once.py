"""A user's functions: exactly once, and a read-modify-write. What a naive one loses: `tests/unit/test_explore.py`."""

import functools
import re
from collections.abc import Sequence
from decimal import Decimal
from typing import Any
from unittest import mock

from aws_lambda_powertools.utilities.idempotency import IdempotencyConfig
from botocore.exceptions import BotoCoreError, ClientError

from conditional_writes import (
    Deadline,
    Observed,
    OutcomeUnknown,
    Plan,
    Update,
    VersionedTable,
    key,
    read,
    write,
    write_together,
)
from conditional_writes.exactly_once import Records, exactly_once
from conditional_writes.testing import Engine, Outcome
from tests.explore.bank import client_of, raised_none
from tests.explore.scenario import Scenario
from tests.support.new_tables import definition
from tools.local_aws.server import PROJECT

CLIENT = client_of("exactly once")
ACCOUNTS, RECORDS = VersionedTable(CLIENT, "Accounts", "account_id"), Records(CLIENT, "Records")


def tables(engine: Engine) -> None:
    engine.attach(CLIENT)
    for name, key_name in {"Accounts": "account_id", "Records": "id"}.items():
        CLIENT.create_table(**definition(name, {key_name: "S"}))
    for name in ("bob", "carol"):
        ACCOUNTS.save({"account_id": name, "balance": 100})


@exactly_once(RECORDS, key=lambda payment: payment["id"], items=lambda _: [ACCOUNTS.key("bob")], prefix="pay")
def pay(payment: dict[str, Any], observed: Observed) -> Plan[Decimal]:
    account = ACCOUNTS.get_from(observed, "bob")
    left = account["balance"] - payment["amount"]
    if left < 0:
        raise ValueError("not covered")
    return Plan(left, [ACCOUNTS.saving(account | {"balance": left})])


CONFIG = IdempotencyConfig(event_key_jmespath="id", payload_validation_jmespath="amount")
pay_by_powertools = exactly_once(RECORDS, config=CONFIG, items=lambda _: [ACCOUNTS.key("bob")], prefix="powertools")(
    pay.__wrapped__
)


@exactly_once(RECORDS, key=lambda visit: visit["id"], prefix="look")
def look(visit: dict[str, Any], _: Observed) -> Plan[Decimal]:
    return Plan(Decimal(100))


@exactly_once(RECORDS, key=lambda visit: visit["id"], prefix="count")
def count(visit: dict[str, Any], _: Observed) -> Plan[Decimal]:
    return Plan(Decimal(102), [Update(key("Accounts", account_id="bob"), {}, added={"balance": 1})])


def change(_: None) -> None:
    ACCOUNTS.modify("bob", change=lambda account: account | {"balance": account["balance"] + 1})


def add(_: None) -> None:
    ACCOUNTS.add("bob", numbers={"balance": 1})


def add_to_both(_: None) -> None:
    """A transaction without conditions of its own: its token alone says that it was made."""
    both = [Update(key("Accounts", account_id=name), {}, added={"balance": 1}) for name in ("bob", "carol")]
    write_together(CLIENT, both)


def change_both(_: None) -> None:
    def plan(observed: Observed) -> Plan[None]:
        both = [ACCOUNTS.get_from(observed, name) for name in ("bob", "carol")]
        return Plan(None, [ACCOUNTS.saving(account | {"balance": account["balance"] + 1}) for account in both])

    deadline = Deadline.after(60)
    write(CLIENT, plan, read(CLIENT, map(ACCOUNTS.key, ("bob", "carol")), deadline), deadline)


@functools.cache
def of_the_page() -> dict[str, Any]:
    """The names of the first two examples of docs/exactly-once.md: `pay`, which saves, and `charge`, which adds."""
    page = PROJECT / "layers" / "conditional_writes" / "docs" / "exactly-once.md"
    examples = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)[:2]
    names = {"__name__": "page"}
    with Engine() as engine, mock.patch("conditional_writes.dynamodb_client", return_value=CLIENT):
        tables(engine)
        exec("\n".join(examples), names)
    return names


def pay_of_the_page(_: None) -> Any:
    return of_the_page()["pay"]({"payment_id": "p-1", "account_id": "bob", "amount": 30})


def charge_of_the_page(_: None) -> Any:
    return of_the_page()["charge"]({"account_id": "bob", "month": "2026-02", "amount": 5})


def of_the_page_both_count(_: None, outcomes: Sequence[Outcome]) -> None:
    for outcome, again in zip(outcomes, (pay_of_the_page(None), charge_of_the_page(None)), strict=True):
        assert outcome.was_killed or isinstance(outcome.error, OutcomeUnknown) or raised_none(outcome) == again
    assert balance() == 65, balance()


def put(worker: int, _: None) -> set[str]:
    """Puts two accounts, of which the other worker puts one, too. Returns those that were there."""
    items = [{"account_id": name, "balance": worker} for name in OPENED[worker]]
    return {item["account_id"] for item in ACCOUNTS.put_many(items)}


def none_is_overwritten(_: None, outcomes: Sequence[Outcome]) -> None:
    """An account has the balance of the worker that put it. The other one was told that it was there."""
    for worker, outcome in enumerate(outcomes):
        if outcome.was_killed or isinstance(outcome.error, OutcomeUnknown):
            continue
        there = raised_none(outcome)
        for name in OPENED[worker]:
            assert (int(ACCOUNTS.get(name)["balance"]) == worker) != (name in there), (name, there)
    for worker in range(len(outcomes)):
        put(worker, None)
    again = [put(worker, None) for worker in range(len(outcomes))]
    assert again == [set(names) for names in OPENED], again


def balance() -> int:
    return int(ACCOUNTS.get("bob")["balance"])


def calls(function: Any, *requests: dict[str, Any], left: set[int]) -> dict[str, Any]:
    """A worker for each request. After a further call of each, the balance is one of those `left`.

    A call returns what a further one does, and fails if a further one does. The last result is the balance, by
    Powertools' configuration as a text.
    """

    def check(_: None, outcomes: Sequence[Outcome]) -> None:
        again = [_tried(function, request) for request in requests]
        for outcome, result in zip(outcomes, again, strict=True):
            if not outcome.was_killed and not isinstance(outcome.error, OutcomeUnknown | ValueError):
                assert raised_none(outcome) == result
            assert result is None or not isinstance(outcome.error, ValueError), outcome
        results = [result for result in again if result is not None]
        assert balance() in left, balance()
        assert balance() in map(int, results), again

    return {"workers": [functools.partial(_call, function, each) for each in requests], "setup": tables, "check": check}


def _call(function: Any, request: dict[str, Any], _: None) -> Any:
    return function(request)


def _tried(function: Any, request: dict[str, Any]) -> Decimal | None:
    try:
        result: Decimal = function(request)
    except ValueError:
        return None
    return result


def _may_have_written(error: BaseException | None) -> bool:
    """As docs/errors.md says: also after a time-out of the last try, or an answer with another status than 400."""
    if isinstance(error, ClientError):
        return error.response["ResponseMetadata"]["HTTPStatusCode"] != 400
    return isinstance(error, (OutcomeUnknown, BotoCoreError))


def none_is_lost(_: None, outcomes: Sequence[Outcome]) -> None:
    done = sum(outcome.error is None for outcome in outcomes)
    unsure = sum(outcome.was_killed or _may_have_written(outcome.error) for outcome in outcomes)
    assert 100 + done <= balance() <= 100 + done + unsure
    assert done + unsure == len(outcomes), outcomes


ONE, OTHER = {"id": "p-1", "amount": 60}, {"id": "p-2", "amount": 30}
LARGE = {"id": "p-3", "amount": 70}
OPENED = (("dave", "erin"), ("erin", "frank"))
"""Accounts that each of two workers puts."""

SCENARIOS = [
    Scenario("two calls of a function with one key have one effect", **calls(pay, ONE, ONE, left={40})),
    Scenario(
        "three calls of a function with two keys have two effects",
        **calls(pay, ONE, ONE, OTHER, left={10}),
        completes=False,
    ),
    Scenario("of two functions the money covers one", **calls(pay, ONE, LARGE, left={40, 30})),
    Scenario(
        "a function without items counts once for each key",
        **calls(count, {"id": "v-1"}, {"id": "v-1"}, {"id": "v-2"}, left={102}),
        completes=False,
    ),
    Scenario("a function by Powertools' configuration has one effect", **calls(pay_by_powertools, ONE, ONE, left={40})),
    Scenario("a function without writes has one result", **calls(look, ONE, ONE, left={100})),
    Scenario("two changes of one item both count", [change, change], tables, none_is_lost, budget=15),
    Scenario("two additions without a version both count", [add, add], tables, none_is_lost),
    Scenario(
        "of two puts of many items none overwrites an item",
        [functools.partial(put, worker) for worker in range(len(OPENED))],
        tables,
        none_is_overwritten,
    ),
    Scenario(
        "a function that saves an account and one that adds to it both count",
        [pay_of_the_page, charge_of_the_page],
        tables,
        of_the_page_both_count,
    ),
    Scenario("two additions in one transaction count once", [add_to_both, add_to_both], tables, none_is_lost),
    Scenario(
        "a transaction that is delayed and then cancelled counts once",
        [change_both, change_both],
        tables,
        none_is_lost,
        most_faults=2,
        completes=False,
    ),
    Scenario("three changes of one item all count", [change] * 3, tables, none_is_lost, completes=False),
]
