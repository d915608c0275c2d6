"""The fold: a pure function from messages and observed items to writes and outcomes."""

import copy
import itertools
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import jmespath
import msgspec
import pytest
from botocore.exceptions import ClientError
from hypothesis import example, given
from hypothesis import strategies as st
from ledger.posting import Delivery, Ledger, grouped_by_account, idempotency_config
from msgspec.structs import replace

from conditional_writes import Deadline, Key, Observed, Put, Update, Write, absent, version_is
from conditional_writes.items import to_dynamodb
from conditional_writes.requests import as_request
from ledger.core.journal import Outcome
from ledger.core.refusals import PayloadChanged, UnknownAccount
from ledger.core.transaction_types.base import TransactionMessage
from ledger.tables import account_item
from tests.support.samples import (
    ALICE,
    BOB,
    NOW,
    closing,
    largest_transaction,
    largest_transfer,
    opening,
    payment,
    transfer,
)
from tests.support.strategies import any_message, messages_of
from tests.unit.stubs import Stubbed
from tools.local_aws.functions import Context

idempotency = idempotency_config()
idempotency.register_lambda_context(Context())
NOBODY: Any = None
LEDGER = Ledger(NOBODY, "accounts", "journal", idempotency)


def fold(messages: Sequence[TransactionMessage], observed: Observed | None = None) -> Any:
    """What a plan would commit; of an account that isn't in `observed` there is none."""
    absent = {LEDGER._account_key(name): None for message in messages for name in message.account_ids}
    return LEDGER._plan(messages, absent | dict(observed or {}), NOW)


def played(messages: Sequence[TransactionMessage], observed: Observed, size: int = 1_000) -> tuple[Observed, list[Any]]:
    """The items afterwards, and the plans: of batches of that size, each with as many plans as it takes."""
    plans = []
    for start in range(0, len(messages), size):
        pending = messages[start : start + size]
        while pending:
            plans.append(LEDGER._plan(pending, observed, NOW))
            observed = as_written(plans[-1].writes, observed)
            pending = pending[len(plans[-1].result.results) :]
    return observed, plans


def results(plans: Sequence[Any]) -> list[str]:
    return [str(result) for plan in plans for result in plan.result.results]


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


ALICE_AND_BOB: dict[Key, Any] = {
    LEDGER._account_key("alice"): account_item(ALICE),
    LEDGER._account_key("bob"): account_item(BOB),
}


def entry_of(items: Observed, account_id: str, transaction_id: str = "t-1") -> Any:
    return items[LEDGER._entry_key(account_id, transaction_id)]


def test_a_transfer_is_four_writes_in_one_commit() -> None:
    items, [plan] = played([transfer(30)], ALICE_AND_BOB)
    assert [(each.key.table, type(each).__name__) for each in plan.writes] == [
        ("accounts", "Update"),
        ("journal", "Put"),
        ("accounts", "Update"),
        ("journal", "Put"),
    ]
    alice, bob = entry_of(items, "alice"), entry_of(items, "bob")
    assert (alice["amount"], alice["balance_after"], alice["account_version"]) == (-30, 70, 8)
    assert (bob["amount"], bob["balance_after"], bob["account_version"]) == (30, 35, 4)
    assert alice["request"] == bob["request"] == transfer(30).canonical_payload()
    assert alice["payload_hash"] == bob["payload_hash"] != ""
    assert items[LEDGER._account_key("alice")] == account_item(replace(ALICE, balance=Decimal(70), version=8))
    assert items[LEDGER._account_key("bob")] == account_item(replace(BOB, balance=Decimal(35), version=4))


def test_a_transfers_outcome_is_the_payers() -> None:
    _, [plan] = played([transfer(30)], ALICE_AND_BOB)
    [outcome] = plan.result.results
    assert (outcome.amount, outcome.balance_after, outcome.account_version) == (-30, 70, 8)


def test_a_rejected_transfer_is_recorded_on_both_sides() -> None:
    items, [plan] = played([transfer("150.01")], ALICE_AND_BOB)
    assert len(plan.writes) == 4
    for name, version in (("alice", 8), ("bob", 4)):
        entry = entry_of(items, name)
        assert (entry["status"], entry["reason"], entry["amount"]) == ("REJECTED", "OVERDRAFT_LIMIT", 0)
        assert entry["account_version"] == version


@pytest.mark.parametrize("amount", [30, 999], ids=["posted", "rejected"])
@pytest.mark.parametrize("seen", [("alice", "bob"), ("alice",), ("bob",)], ids=["both", "the payer's", "the payee's"])
def test_a_transfer_is_replayed_from_both_its_entries_or_either(amount: int, seen: Sequence[str]) -> None:
    items, [first] = played([transfer(amount)], ALICE_AND_BOB)
    unseen = {LEDGER._entry_key(name, "t-1") for name in {"alice", "bob"} - set(seen)}
    plan = fold([transfer(amount)], {each: item for each, item in items.items() if each not in unseen})
    [outcome], [before] = plan.result.results, first.result.results
    assert not plan.writes
    assert outcome.replayed
    assert (outcome.status, outcome.reason) == (before.status, before.reason)
    if "alice" in seen:
        assert outcome == replace(before, replayed=True)


USED_BEFORE = {
    "by the payer's payment": (payment(1), "alice", "account_id, amount, from_account_id, to_account_id, type"),
    "by the payee's payment": (
        payment(1, account_id="bob"),
        "bob",
        "account_id, amount, from_account_id, to_account_id, type",
    ),
    "by a transfer of another amount": (transfer(2), "alice", "amount"),
    "by a transfer the other way": (
        transfer(30, from_account_id="bob", to_account_id="alice"),
        "alice",
        "from_account_id, to_account_id",
    ),
    "by the payer's transfer to another": (transfer(30, to_account_id="carol"), "alice", "to_account_id"),
    "by another's transfer to the payee": (transfer(1, from_account_id="carol"), "bob", "amount, from_account_id"),
}


@pytest.mark.parametrize(("first", "account_id", "different"), USED_BEFORE.values(), ids=USED_BEFORE)
def test_a_transfer_whose_id_was_used_before_on_either_side_is_refused_and_changes_nothing(
    first: TransactionMessage, account_id: str, different: str
) -> None:
    carol = {LEDGER._account_key("carol"): account_item(replace(BOB, account_id="carol"))}
    items, _ = played([first], ALICE_AND_BOB | carol)
    plan = fold([transfer(30)], items)
    [refused] = plan.result.results
    assert not plan.writes
    assert isinstance(refused, PayloadChanged)
    assert str(refused) == f"transaction_id: 't-1' was used before on account '{account_id}' with another {different}"


def test_a_transfer_whose_id_was_used_before_on_both_sides_names_the_one_with_another_payload() -> None:
    """Both sides commit together, so this can't be. If it is, it isn't answered as if all were well."""
    items, _ = played([transfer(30)], ALICE_AND_BOB)
    planted = entry_of(items, "bob") | {
        "request": payment(1, account_id="bob").canonical_payload(),
        "payload_hash": "another",
    }
    [refused] = fold([transfer(30)], {**items, LEDGER._entry_key("bob", "t-1"): planted}).result.results
    assert isinstance(refused, PayloadChanged)
    assert "on account 'bob'" in str(refused)


@pytest.mark.parametrize("missing", ["alice", "bob"])
def test_a_transfer_from_or_to_an_unknown_account_decides_nothing(missing: str) -> None:
    plan = fold(
        [transfer(999)], {each: item for each, item in ALICE_AND_BOB.items() if each.attributes[0][1] != missing}
    )
    [unknown] = plan.result.results
    assert isinstance(unknown, UnknownAccount)
    assert f"no account '{missing}'" in str(unknown)
    assert not plan.writes


@pytest.mark.parametrize("size", [1, 7, 33, 34, 60])
def test_a_chain_of_transfers_is_cut_into_commits_in_order_with_the_same_outcomes_however_batched(size: int) -> None:
    names = [f"acc-{number}" for number in range(61)]
    before = {LEDGER._account_key(name): account_item(replace(ALICE, account_id=name)) for name in names}
    # Each has 150 to spend, and spends more: it can do so only once it was given to.
    chain = [
        transfer(149 + number, transaction_id=str(number), from_account_id=payer, to_account_id=payee)
        for number, (payer, payee) in enumerate(itertools.pairwise(names), 1)
    ]
    items, plans = played(chain, before, size)
    whole, cut = played(chain, before)
    assert items == whole
    assert results(plans) == results(cut)
    assert all("POSTED" in result for result in results(plans))
    assert [len(plan.writes) for plan in cut] == [100, 82]
    assert max(len(plan.writes) for plan in plans) <= 100


def test_a_transfer_goes_into_the_next_commit_where_only_one_of_its_entries_would_fit() -> None:
    transfers = [transfer(1, transaction_id=str(number)) for number in range(60)]
    items, plans = played([payment(50), *transfers], ALICE_AND_BOB)
    assert [len(plan.writes) for plan in plans] == [1 + 2 + 48 * 2, 2 + 12 * 2]
    assert items == played([payment(50), *transfers], ALICE_AND_BOB, 1)[0]


@given(any_message())
def test_powertools_key_of_a_message_is_its_first_account_and_its_transaction_id(message: TransactionMessage) -> None:
    idempotency_key = jmespath.search(idempotency.event_key_jmespath, message.canonical_payload())
    assert idempotency_key == [message.account_ids[0], message.transaction_id]


ABC = {LEDGER._account_key(name): None for name in ("a", "b", "c")}
MESSAGES = st.lists(
    messages_of(st.sampled_from(["a", "b", "c"]), st.sampled_from([f"t-{number}" for number in range(12)])), max_size=25
) | st.lists(
    messages_of(st.sampled_from(["a", "b", "c"]), st.sampled_from([f"t-{number}" for number in range(24)])), max_size=50
).map(lambda messages: [*(opening("-100", account_id=name) for name in ("a", "b", "c")), *messages])


@given(MESSAGES)
def test_a_plan_is_a_pure_function(messages: list[TransactionMessage]) -> None:
    untouched = copy.deepcopy(ABC)
    first, second = LEDGER._plan(messages, ABC, NOW), LEDGER._plan(messages, ABC, NOW)
    assert untouched == ABC
    assert first.writes == second.writes
    assert [str(result) for result in first.result.results] == [str(result) for result in second.result.results]


@given(MESSAGES, st.integers(1, 7))
def test_however_messages_are_batched_the_outcomes_are_the_same(messages: list[TransactionMessage], size: int) -> None:
    items, plans = played(messages, ABC, size)
    expected_items, expected_plans = played(messages, ABC, 1)
    assert items == expected_items
    assert results(plans) == results(expected_plans)


@given(MESSAGES)
def test_transfers_sum_to_zero_and_the_balances_to_all_amounts(messages: list[TransactionMessage]) -> None:
    items, _ = played(messages, ABC)
    entries = [item for each, item in items.items() if item and each.table == "journal"]
    accounts = [item for each, item in items.items() if item and each.table == "accounts"]
    transfers: dict[tuple[str, ...], list[Any]] = {}
    for entry in entries:
        if entry["request"]["type"] == "transfer":
            sides = (entry["request"]["from_account_id"], entry["request"]["to_account_id"])
            transfers.setdefault((entry["transaction_id"], *sides), []).append(entry)
    for (_, *account_ids), sides in transfers.items():
        assert sorted(side["account_id"] for side in sides) == sorted(account_ids)
        assert sum(side["amount"] for side in sides) == 0
    assert sum(account["balance"] for account in accounts) == sum(entry["amount"] for entry in entries)


def test_groups_are_joined_by_account_and_keep_their_order() -> None:
    names = ["a", "b", "a", "c", "b", "a"]
    assert grouped_by_account([payment(1, account_id=name) for name in names]) == [[0, 2, 5], [1, 4], [3]]


def test_accounts_joined_by_transfers_are_one_group() -> None:
    messages = [
        payment(1, account_id="a"),
        payment(1, account_id="b"),
        transfer(from_account_id="c", to_account_id="d"),
        payment(1, account_id="e"),
        transfer(from_account_id="d", to_account_id="a"),
        transfer(from_account_id="b", to_account_id="f"),
        payment(1, account_id="c"),
    ]
    assert grouped_by_account(messages) == [[0, 2, 4, 6], [1, 5], [3]]


PAIRS = st.lists(st.sampled_from("abcde"), min_size=2, max_size=2, unique=True)


@given(st.lists(PAIRS, max_size=8))
@example([["a", "b"], ["b", "a"], ["c", "a"], ["d", "a"]])
@example([["a", "b"], ["c", "d"], ["a", "c"], ["b", "e"], ["e", "d"]])
def test_an_account_is_in_one_group_only_and_its_messages_are_in_their_order(pairs: list[list[str]]) -> None:
    groups = grouped_by_account([transfer(from_account_id=one, to_account_id=other) for one, other in pairs])
    assert sorted(index for group in groups for index in group) == list(range(len(pairs)))
    assert all(group == sorted(group) for group in groups)
    accounts = [{account_id for index in group for account_id in pairs[index]} for group in groups]
    assert sum(map(len, accounts)) == len(set().union(*accounts))


@given(MESSAGES)
def test_every_write_asserts_what_was_observed(messages: list[TransactionMessage]) -> None:
    observed: Observed = ABC
    for start in range(0, len(messages), 3):
        plan = LEDGER._plan(messages[start : start + 3], observed, NOW)
        for each in plan.writes:
            found = observed.get(each.key)
            own_key = "transaction_id" if each.key.table == "journal" else "account_id"
            assert each.condition == (version_is(found["version"]) if found else absent(own_key))
        observed = as_written(plan.writes, observed)
        assert plan.result.observed == observed  # what the next plan starts from


def sizes(plan: Any) -> list[int]:
    """Of the items, in more bytes than their own."""
    return [len(msgspec.json.encode(as_request(each, 32 * "f")["Item"])) for each in plan.writes]


def test_99_of_the_largest_messages_fit_a_transaction_and_an_item() -> None:
    bank = opening(account_id=largest_transaction().account_id)
    plan = fold([bank, *map(largest_transaction, range(98))])
    assert len(plan.writes) == 100
    assert max(sizes(plan)) < 400_000
    assert sum(sizes(plan)) < 4_000_000


def test_both_sides_of_the_48_largest_transfers_fit_a_transaction_and_an_item() -> None:
    banks = [opening("-999", account_id=name) for name in largest_transfer().account_ids]
    plan = fold([*banks, *map(largest_transfer, range(48))])
    assert len(plan.writes) == 100
    assert max(sizes(plan)) < 400_000
    assert sum(sizes(plan)) < 4_000_000


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


def test_a_transfer_whose_id_the_payee_had_used_is_found_when_the_commit_is_refused(stubbed_dynamodb: Stubbed) -> None:
    there, _ = played([payment(1, account_id="bob")], ALICE_AND_BOB)
    accounts = [to_dynamodb(item) for item in map(account_item, (ALICE, replace(BOB, balance=Decimal(6), version=4)))]
    stubbed_dynamodb.answers("batch_get_item", {"Responses": {"accounts": accounts}, "UnprocessedKeys": {}})
    nothing = {"Code": "None"}
    used = {"Code": "ConditionalCheckFailed", "Item": to_dynamodb(entry_of(there, "bob"))}
    stubbed_dynamodb.cancels(nothing, nothing, nothing, used)
    posted = of(stubbed_dynamodb.client).post([Delivery(transfer())], Deadline.after(60))
    assert stubbed_dynamodb.operations == ["BatchGetItem", "TransactWriteItems"]
    [refused] = posted.results
    assert isinstance(refused, PayloadChanged)
    assert "on account 'bob'" in str(refused)


def test_both_sides_entries_are_read_of_a_transfer_that_was_delivered_before(stubbed_dynamodb: Stubbed) -> None:
    finds_nothing(stubbed_dynamodb)
    of(stubbed_dynamodb.client).post([Delivery(transfer(), delivered_before=True)], Deadline.after(60))
    asked = stubbed_dynamodb.parameters[0]["RequestItems"]
    for table in ("accounts", "journal"):
        assert [key["account_id"]["S"] for key in asked[table]["Keys"]] == ["alice", "bob"]


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
