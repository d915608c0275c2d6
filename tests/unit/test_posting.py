"""The fold: a pure function from messages and observed items to writes and outcomes."""

import copy
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from botocore.exceptions import ClientError
from hypothesis import given
from hypothesis import strategies as st

from conditional_writes import Deadline, Key, Observed, Put, Update, Write, absent, unchanged
from conditional_writes.items import to_dynamodb
from conditional_writes.requests import as_request
from ledger.journal import Outcome
from ledger.messages import Message
from ledger.posting import Delivery, Ledger, PayloadChanged, grouped_by_account, idempotency_config
from ledger.rules import UnknownAccount
from tests.local_aws.function import Context
from tests.unit.samples import NOW, closing, largest_transaction, opening, payment
from tests.unit.strategies import messages_of
from tests.unit.stubs import Stubbed

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


@given(MESSAGES)
def test_every_write_asserts_what_was_observed(messages: list[Message]) -> None:
    observed: dict[Key, Any] = {LEDGER._account_key(name): None for name in ("a", "b")}
    for start in range(0, len(messages), 3):
        plan = LEDGER._plan(messages[start : start + 3], observed, NOW)
        for each in plan.writes:
            found = observed.get(each.key)
            own_key = "transaction_id" if each.key.table == "journal" else "account_id"
            assert each.condition == (unchanged(found["version"]) if found else absent(own_key))
        observed = as_written(plan.writes, observed)
        assert plan.result.observed == observed  # what the next plan starts from


def test_99_of_the_largest_messages_fit_a_transaction_and_an_item() -> None:
    bank = opening(account_id=largest_transaction().account_id)
    plan = fold([bank, *map(largest_transaction, range(98))])
    sizes = [len(msgspec.json.encode(as_request(each, 32 * "f")["Item"])) for each in plan.writes]  # more than its own
    assert len(sizes) == 100
    assert max(sizes) < 400_000
    assert sum(sizes) < 4_000_000


def of(client: Any) -> Ledger:
    return Ledger(client, "accounts", "journal", idempotency)


def finds_nothing(dynamodb: Stubbed) -> None:
    dynamodb.answers("batch_get_item", {"Responses": {}, "UnprocessedKeys": {}})


def deliveries(number: int) -> list[Delivery]:
    return [Delivery(opening()), *(Delivery(payment(1, transaction_id=str(n))) for n in range(number - 1))]


def test_100_of_one_account_take_one_read_and_two_commits(stubbed_dynamodb: Stubbed) -> None:
    finds_nothing(stubbed_dynamodb)
    stubbed_dynamodb.answers("transact_write_items")
    stubbed_dynamodb.answers("transact_write_items")
    posted = of(stubbed_dynamodb.client).post(deliveries(100), Deadline.after(60))
    assert stubbed_dynamodb.operations == ["BatchGetItem", "TransactWriteItems", "TransactWriteItems"]
    assert [len(request["TransactItems"]) for request in stubbed_dynamodb.parameters[1:]] == [100, 2]
    assert [outcome.account_version for outcome in posted.results] == list(range(1, 101))  # type: ignore[union-attr]


def test_entries_are_read_only_of_what_was_delivered_before(stubbed_dynamodb: Stubbed) -> None:
    finds_nothing(stubbed_dynamodb)
    stubbed_dynamodb.answers("transact_write_items")
    new, again = Delivery(opening()), Delivery(payment(), delivered_before=True)
    of(stubbed_dynamodb.client).post([new, again], Deadline.after(60))
    asked = stubbed_dynamodb.parameters[0]["RequestItems"]
    assert [key["transaction_id"]["S"] for key in asked["journal"]["Keys"]] == ["t-1"]
    assert [key["account_id"]["S"] for key in asked["accounts"]["Keys"]] == ["alice"]


def test_what_another_worker_posted_meanwhile_is_replayed_and_the_rest_decided_on_it(stubbed_dynamodb: Stubbed) -> None:
    there = as_written(fold([opening("-9"), payment(5)]).writes, {})
    found = {each.table: to_dynamodb(item) for each, item in there.items()}  # the last entry, and the account
    reason = {"Code": "ConditionalCheckFailed"}
    finds_nothing(stubbed_dynamodb)
    stubbed_dynamodb.cancels(
        reason | {"Item": found["accounts"]}, {"Code": "None"}, reason | {"Item": found["journal"]}, {"Code": "None"}
    )
    stubbed_dynamodb.answers("transact_write_items")
    messages = [opening("-9", transaction_id="new"), payment(5), payment(-6, transaction_id="t-2")]
    posted = of(stubbed_dynamodb.client).post([Delivery(message) for message in messages], Deadline.after(60))
    exists, replayed, decided = posted.results
    assert isinstance(exists, Outcome)
    assert isinstance(replayed, Outcome)
    assert isinstance(decided, Outcome)
    assert (exists.reason, exists.account_version) == ("ACCOUNT_EXISTS", 3)
    assert (replayed.replayed, replayed.account_version, replayed.balance_after) == (True, 2, 5)
    assert (decided.replayed, decided.account_version, decided.balance_after) == (False, 4, -1)
    assert posted.conflicts == 1


def test_a_group_that_fails_keeps_what_it_had_committed(stubbed_dynamodb: Stubbed) -> None:
    finds_nothing(stubbed_dynamodb)
    stubbed_dynamodb.answers("transact_write_items")
    stubbed_dynamodb.refuses("transact_write_items", "InternalServerError")
    results = of(stubbed_dynamodb.client).post(deliveries(101), Deadline.after(60)).results
    assert [type(result) for result in results[:99]] == [Outcome] * 99
    assert [isinstance(result, ClientError) for result in results[99:]] == [True] * 2


def test_where_the_read_fails_nothing_is_posted(stubbed_dynamodb: Stubbed) -> None:
    stubbed_dynamodb.refuses("batch_get_item", "InternalServerError")
    results = of(stubbed_dynamodb.client).post(deliveries(2), Deadline.after(60)).results
    assert [isinstance(result, ClientError) for result in results] == [True, True]
    assert stubbed_dynamodb.operations == ["BatchGetItem"]


def test_without_deliveries_nothing_is_asked_for() -> None:
    assert LEDGER.post([], Deadline.after(1)).results == []
