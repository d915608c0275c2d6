"""The fold: a pure function from messages and observed items to writes and outcomes."""

import copy
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conditional_writes import Deadline, Key, Observed, Put, Update, Write
from ledger.journal import Outcome
from ledger.messages import Message
from ledger.posting import Ledger, PayloadChanged, grouped_by_account, idempotency_config
from ledger.rules import UnknownAccount
from tests.local_aws.function import Context
from tests.unit.samples import NOW, closing, opening, payment
from tests.unit.strategies import messages_of

idempotency = idempotency_config()
idempotency.register_lambda_context(Context())
NOBODY: Any = None
LEDGER = Ledger(NOBODY, "accounts", "journal", idempotency)


def fold(messages: Sequence[Message], observed: Observed | None = None) -> Any:
    """What a plan would commit; of an account that isn't in `observed` there is none."""
    absent = {LEDGER._account_key(message.account_id): None for message in messages}
    return LEDGER._plan(messages, absent | dict(observed or {}), NOW)


def as_written(writes: Sequence[Write], before: Observed) -> dict[Key, Any]:
    """The items, once the writes have taken effect."""
    items = dict(before)
    for each in writes:
        items[each.key] = each.item if isinstance(each, Put) else (items[each.key] or {}) | each.values
    return items


def test_an_accounts_messages_are_one_write_of_it_and_an_entry_each() -> None:
    plan = fold([opening(), payment(5, transaction_id="1"), payment(-9, transaction_id="2")])
    assert [type(each).__name__ for each in plan.writes] == ["Put", "Put", "Put", "Put"]
    assert [each.key.table for each in plan.writes].count("accounts") == 1
    assert [outcome.reason for outcome in plan.result.results] == [None, None, "OVERDRAFT_LIMIT"]


def test_an_update_sets_what_changed_and_asserts_the_version_it_was_decided_on() -> None:
    opened = fold([opening()])
    before = as_written(opened.writes, {})
    plan = fold([payment(5, transaction_id="1"), payment(6, transaction_id="2")], before)
    update = next(each for each in plan.writes if isinstance(each, Update))
    assert update.values == {"balance": 11, "version": 3}
    assert update.condition.values == (1,)


def test_a_repetition_inside_a_batch_is_replayed_and_written_once() -> None:
    plan = fold([opening(), payment(5), payment(5)])
    assert [outcome.replayed for outcome in plan.result.results] == [False, False, True]
    assert plan.result.results[2].account_version == plan.result.results[1].account_version
    assert len(plan.writes) == 3


def test_another_payload_under_the_same_id_is_refused_and_names_the_fields() -> None:
    changed = fold([opening(), payment(5), payment(6, currency="EUR")]).result.results[2]
    assert isinstance(changed, PayloadChanged)
    assert str(changed) == "transaction_id: 't-1' was used before on account 'alice' with another amount, currency"


def test_what_is_in_the_journal_is_replayed_as_it_was_and_writes_nothing() -> None:
    first = fold([opening(), payment(-5), closing("2")])
    observed = as_written(first.writes, {})
    plan = fold([opening(), payment(-5), closing("2")], observed)
    assert not plan.writes
    assert [outcome.replayed for outcome in plan.result.results] == [True, True, True]
    assert [outcome.reason for outcome in plan.result.results] == [o.reason for o in first.result.results]


def test_before_its_account_is_open_a_payment_is_not_decided() -> None:
    early, opened = fold([payment(5), opening()]).result.results
    assert isinstance(early, UnknownAccount)
    assert isinstance(opened, Outcome)


@pytest.mark.parametrize(("messages", "folded"), [(99, 99), (100, 99), (250, 99)])
def test_as_many_as_fit_a_transaction_are_folded(messages: int, folded: int) -> None:
    plan = fold([opening(), *(payment(1, transaction_id=str(number)) for number in range(messages - 1))])
    assert len(plan.result.results) == folded
    assert len(plan.writes) == folded + 1 <= 100


MESSAGES = st.lists(
    messages_of(st.sampled_from(["a", "b"]), st.sampled_from([f"t-{number}" for number in range(12)])), max_size=25
)


@given(MESSAGES)
def test_a_plan_is_a_pure_function(messages: list[Message]) -> None:
    observed = {LEDGER._account_key(name): None for name in ("a", "b")}
    untouched = copy.deepcopy(observed)
    first, second = LEDGER._plan(messages, observed, NOW), LEDGER._plan(messages, observed, NOW)
    assert observed == untouched
    assert first.writes == second.writes
    assert [str(result) for result in first.result.results] == [str(result) for result in second.result.results]


@given(MESSAGES, st.integers(1, 7))
def test_however_messages_are_batched_the_outcomes_are_the_same(messages: list[Message], size: int) -> None:
    def played(batch_size: int) -> tuple[Any, list[str]]:
        observed: dict[Key, Any] = {LEDGER._account_key(name): None for name in ("a", "b")}
        results: list[str] = []
        for start in range(0, len(messages), batch_size):
            plan = LEDGER._plan(messages[start : start + batch_size], observed, NOW)
            observed = as_written(plan.writes, observed)
            results += map(str, plan.result.results)
        return observed, results

    assert played(size) == played(1)


def test_groups_are_joined_by_account_and_keep_their_order() -> None:
    names = ["a", "b", "a", "c", "b", "a"]
    assert grouped_by_account([payment(1, account_id=name) for name in names]) == [[0, 2, 5], [1, 4], [3]]


def test_without_deliveries_nothing_is_asked_for() -> None:
    assert LEDGER.post([], Deadline.after(1)).results == []
