"""A user's functions: exactly once, and a read-modify-write. What a naive one loses: `tests/unit/test_explore.py`."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from conditional_writes import Observed, OutcomeUnknown, Plan, Update, VersionedTable, key, write_together
from conditional_writes.exactly_once import Records, exactly_once
from conditional_writes.testing import Engine, Outcome
from tests.explore.bank import client_of, raised_none
from tests.explore.scenario import Scenario
from tests.support.new_tables import definition

CLIENT = client_of("exactly once")
ACCOUNTS, RECORDS = VersionedTable(CLIENT, "Accounts", "account_id"), Records(CLIENT, "Records")


def tables(engine: Engine) -> None:
    engine.attach(CLIENT)
    for name, key_name in {"Accounts": "account_id", "Records": "id"}.items():
        CLIENT.create_table(**definition(name, {key_name: "S"}))
    ACCOUNTS.save({"account_id": "bob", "balance": 100})


@exactly_once(
    RECORDS,
    key=lambda payment: payment["id"],
    items=lambda _: [ACCOUNTS.key("bob")],
    prefix="pay",
)
def pay(payment: dict[str, Any], observed: Observed) -> Plan[str]:
    account = ACCOUNTS.get_from(observed, "bob")
    if account["balance"] < payment["amount"]:
        raise ValueError("not covered")
    return Plan("paid", [ACCOUNTS.saving(account | {"balance": account["balance"] - payment["amount"]})])


@exactly_once(RECORDS, key=lambda visit: visit["id"], prefix="count")
def count(visit: dict[str, Any], _: Observed) -> Plan[str]:
    return Plan(visit["id"], [Update(key("Accounts", account_id="bob"), {}, added={"balance": 1})])


def change(_: None) -> None:
    ACCOUNTS.modify("bob", change=lambda account: account | {"balance": account["balance"] + 1})


def add_to_both(_: None) -> None:
    """A transaction without conditions of its own: its token alone says that it was made."""
    both = [Update(key("Accounts", account_id=name), {}, added={"balance": 1}) for name in ("bob", "carol")]
    write_together(CLIENT, both)


def balance() -> int:
    return int(ACCOUNTS.get("bob")["balance"])


def done_again(function: Any, *requests: dict[str, Any], left: set[int]) -> Callable[[None, Sequence[Outcome]], None]:
    """After a further call of each request the balance is one of those `left`. No call that returned was refused."""

    def check(_: None, outcomes: Sequence[Outcome]) -> None:
        for outcome in outcomes:
            if not outcome.was_killed and not isinstance(outcome.error, OutcomeUnknown | ValueError):
                raised_none(outcome)
        for request in requests:
            try:
                function(request)
            except ValueError:
                assert balance() < request["amount"]
        assert balance() in left, balance()

    return check


def none_is_lost(_: None, outcomes: Sequence[Outcome]) -> None:
    done = sum(outcome.error is None for outcome in outcomes)
    unsure = sum(outcome.was_killed or isinstance(outcome.error, OutcomeUnknown) for outcome in outcomes)
    assert 100 + done <= balance() <= 100 + done + unsure
    assert done + unsure == len(outcomes), outcomes


def calling(function: Any, request: dict[str, Any]) -> Callable[[None], Any]:
    return lambda _: function(request)


ONE, OTHER = {"id": "p-1", "amount": 60}, {"id": "p-2", "amount": 30}
LARGE = {"id": "p-3", "amount": 70}

SCENARIOS = [
    Scenario(
        "two calls of a function with one key have one effect",
        [calling(pay, ONE), calling(pay, ONE)],
        tables,
        done_again(pay, ONE, left={40}),
    ),
    Scenario(
        "three calls of a function with two keys have two effects",
        [calling(pay, ONE), calling(pay, ONE), calling(pay, OTHER)],
        tables,
        done_again(pay, ONE, OTHER, left={10}),
        completes=False,
    ),
    Scenario(
        "of two functions the money covers one",
        [calling(pay, ONE), calling(pay, LARGE)],
        tables,
        done_again(pay, ONE, LARGE, left={40, 30}),
    ),
    Scenario(
        "a function without items counts once for each key",
        [calling(count, {"id": "v-1"}), calling(count, {"id": "v-1"}), calling(count, {"id": "v-2"})],
        tables,
        done_again(count, {"id": "v-1"}, {"id": "v-2"}, left={102}),
        completes=False,
    ),
    Scenario("two changes of one item both count", [change, change], tables, none_is_lost),
    Scenario("two additions in one transaction count once", [add_to_both, add_to_both], tables, none_is_lost),
    Scenario("three changes of one item all count", [change] * 3, tables, none_is_lost, completes=False),
]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=str)
def test_in_every_order(scenario: Scenario, holds_in_every_order: Callable[[Scenario], None]) -> None:
    holds_in_every_order(scenario)
