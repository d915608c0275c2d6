"""The batch poster's fold: a pure function from messages and observed items to writes and outcomes."""

import copy
import dataclasses
import itertools
import json
import re
from collections.abc import Sequence
from datetime import timedelta
from decimal import Decimal
from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from conditional_writes import Deadline, Observed, Put, absent, version_is
from conditional_writes.core.items import to_dynamodb
from conditional_writes.core.requests import as_request
from ledger import fold as folding
from ledger.batch_poster import BatchPoster, grouped_by_account
from ledger.core.accounts import CLOCK_SKEW, timestamp
from ledger.core.journal import EntryId, entry_from_item
from ledger.core.reason_codes import ReasonCode
from ledger.core.rules import Decision
from ledger.core.transaction_types.base import TransactionMessage
from ledger.fold import Commit, QueuedTransaction
from ledger.lines import Lines
from tests.support import samples
from tests.support.folding import (
    ALICE_AND_BOB,
    AT,
    NOBODY,
    TABLES,
    as_written,
    dispositions,
    entry_of,
    fold,
    folded_in_batches,
    items_of,
    message_of,
    outcome_of,
    planned,
)
from tests.support.samples import ALICE, BOB, alice, bob, opening, payment, reversing, transfer
from tests.support.strategies import messages_of, that_refer
from tests.unit.stubs import Stubbed
from workers.queue_messages import Again, Dead, Done

ABC = {TABLES.account_key(name): None for name in ("a", "b", "c")}
PAIRS = st.lists(st.sampled_from("abcde"), min_size=2, max_size=2, unique=True)


def test_another_payload_under_the_same_id_is_refused_and_names_the_fields() -> None:
    plan = fold([opening(), payment(5), payment(6, currency="EUR")])
    sentence = "transaction_id: 't-1' was used before on account 'alice' with another amount, currency"
    assert plan.dispositions[2] == Dead(ReasonCode.PAYLOAD_CHANGED, sentence, {"original_status": "POSTED"})
    assert len(plan.writes) == 3


UNSOUND = {
    "below the limit": ([Decision(Decimal(-999), Decimal(-899))], payment(-999), "'alice' would be below its limit"),
    "another amount": ([Decision(Decimal(98), Decimal(199))], payment(98), "'alice': its balance wouldn't change by"),
    "sides that don't cancel": (
        [Decision(Decimal(-97), Decimal(3)), Decision(Decimal(96), Decimal(101))],
        transfer(97),
        "wouldn't sum to zero",
    ),
}


@pytest.mark.parametrize(("decisions", "message", "sentence"), UNSOUND.values(), ids=UNSOUND)
def test_a_decision_that_no_rule_may_make_is_not_committed_and_its_reason_has_no_amounts(
    decisions: Sequence[Decision], message: TransactionMessage, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(message), "decide_for", lambda *_: tuple(decisions))
    folded = planned([message], ALICE_AND_BOB)
    [disposition] = folded.dispositions
    assert isinstance(disposition, Again)
    assert sentence in disposition.reason
    assert not re.search("[0-9]", disposition.reason)
    assert folded.writes == []


@pytest.mark.parametrize(
    ("origin", "first"),
    [
        (None, None),
        ("nonsense", None),
        *(
            (json.dumps({"sent_by": by, "message_id": "m-0", "sent_at": "2026-01-30T10:00Z", "request_id": "r"}), None)
            for by in ("x" * 257, "\ud800", "\u202e")
        ),
        ('{"sent_by": "AROAEXAMPLE:shop", "message_id": "m-0", "sent_at": "2026-01-30T10:00:00+00:00",'
         ' "request_id": "r-1"}', "m-0"),
    ],
)  # fmt: skip
def test_an_entry_has_its_sender_and_that_of_the_message_that_died(origin: str | None, first: str | None) -> None:
    attributes = {"origin": {"dataType": "String", "stringValue": origin}} if origin else {}
    message = dataclasses.replace(message_of(payment(-30)), attributes=attributes)
    after = Commit(TABLES, True, [message], {}, AT).plan(items_of(ALICE)).result.after
    entry = entry_from_item(after[TABLES.entry_key(EntryId("alice", "t-1"))] or {})
    assert entry.sender.sent.message_id == "m-1"
    assert (entry.sender.first and entry.sender.first.message_id) == first


@pytest.mark.parametrize(("messages", "folded"), [(99, 99), (100, 99), (250, 99)])
def test_as_many_as_fit_a_transaction_are_folded(messages: int, folded: int) -> None:
    plan = fold([opening(), *(payment(1, transaction_id=str(number)) for number in range(messages - 1))])
    assert (len(plan.dispositions), len(plan.writes)) == (folded, folded + 1)


@pytest.mark.parametrize(
    ("amount", "reversed_ones", "folded", "writes"), [(None, 60, 49, 99), (2, 60, 49, 99), (2, 1, 98, 100)]
)
def test_as_many_reversals_are_folded_as_fit(amount: int | None, reversed_ones: int, folded: int, writes: int) -> None:
    """Each has an entry, and each that is reversed an item of the Reversals table. Those of too much are rejected."""
    items, _ = folded_in_batches([payment(1, transaction_id=f"t-{number}") for number in range(60)], items_of(alice()))
    reversals = (reversing(f"t-{n % reversed_ones}", amount, transaction_id=f"r-{n}") for n in range(110))
    plan = planned(reversals, items)
    assert (len(plan.dispositions), len(plan.writes)) == (folded, writes)


@pytest.mark.parametrize(("messages", "folded", "is_last"), [(98, 98, True), (99, 98, False)])
def test_last_writes_have_room_and_come_with_the_last_new_message(messages: int, folded: int, *, is_last: bool) -> None:
    batch = [message_of(payment(1, transaction_id=str(number))) for number in range(messages)]
    commit = Commit(TABLES, True, batch, {}, AT, last_writes=[Put(TABLES.account_key("line"), {})])
    plan = commit.plan(items_of(alice()))
    assert (len(plan.result.dispositions), plan.writes[-1:] == commit.last_writes) == (folded, is_last)
    if is_last:
        assert commit.plan(plan.result.after).writes == []


@pytest.mark.parametrize("amount", [30, 999], ids=["posted", "rejected"])
@pytest.mark.parametrize("unseen", ["nobody", "bob", "alice"], ids=["both", "the payer's", "the payee's"])
def test_a_transfer_is_replayed_from_both_its_entries_or_either(amount: int, unseen: str) -> None:
    items, [first] = folded_in_batches([transfer(amount)], ALICE_AND_BOB)
    items.pop(TABLES.entry_key(EntryId.on(unseen, "alice", "t-1")), None)
    plan = fold([transfer(amount)], items)
    [outcome], [before] = plan.outcomes, first.outcomes
    assert not plan.writes
    assert (outcome.replayed, outcome.status, outcome.reason) == (True, before.status, before.reason)
    if unseen != "alice":
        assert outcome == replace(before, replayed=True)


ALL_FIELDS = "account_id, amount, from_account_id, to_account_id, type"
USED_ELSEWHERE = {
    "by the payee's payment": payment(1, account_id="bob"),
    "by a transfer the other way": transfer(30, from_account_id="bob", to_account_id="alice"),
    "by another's transfer to the payee": transfer("0.01", from_account_id="carol"),
}


@pytest.mark.parametrize("first", USED_ELSEWHERE.values(), ids=USED_ELSEWHERE)
def test_a_transfer_whose_id_was_used_on_another_home_is_posted(first: TransactionMessage) -> None:
    items, _ = folded_in_batches([first], items_of(ALICE, BOB, bob(account_id="carol")))
    [outcome] = fold([transfer(30)], items).outcomes
    assert (outcome.status, outcome.replayed) == ("POSTED", False)


USED_BEFORE = {
    "by the payer's payment": (payment(1), "alice", ALL_FIELDS),
    "by a transfer of another amount": (transfer(2), "alice", "amount"),
    "by the payer's transfer to another": (transfer(30, to_account_id="carol"), "alice", "to_account_id"),
}


@pytest.mark.parametrize(("first", "account_id", "different"), USED_BEFORE.values(), ids=USED_BEFORE)
def test_a_transfer_whose_id_was_used_before_on_its_home_is_refused_and_changes_nothing(
    first: TransactionMessage, account_id: str, different: str
) -> None:
    items, _ = folded_in_batches([first], items_of(ALICE, BOB, bob(account_id="carol")))
    plan = fold([transfer(30)], items)
    assert not plan.writes
    status = entry_of(items, account_id)["status"]
    sentence = f"transaction_id: 't-1' was used before on account '{account_id}' with another {different}"
    assert plan.dispositions == [Dead(ReasonCode.PAYLOAD_CHANGED, sentence, {"original_status": status})]


def test_a_repetition_of_an_entry_that_a_later_release_wrote_comes_again_until_that_release_is_back() -> None:
    items, _ = folded_in_batches([transfer(30)], ALICE_AND_BOB)
    later = {TABLES.entry_key(EntryId("alice", "t-1")): entry_of(items, "alice") | {"format": 3}}
    repetition, another = fold([transfer(30), payment(1, transaction_id="t-2")], items | later).dispositions
    assert isinstance(repetition, Again)
    assert repetition.reason == "format: expected 2, got 3: a later release of Teller may have written it"
    assert isinstance(another, Done)


@pytest.mark.parametrize("held", [None, Decimal(-1000), Decimal(29), Decimal(31)])
def test_an_account_whose_held_money_is_not_the_sum_of_its_holds_is_not_decided_on(held: Decimal | None) -> None:
    """Else held money could be spent, and the hold that was promised couldn't be posted."""
    key = TABLES.account_key("alice")
    holds = {"h-1": {"remaining": Decimal(10)}, "h-2": {"remaining": Decimal("20.0")}}
    item = ALICE_AND_BOB[key] | {"holds": holds}
    damaged = item if held is None else item | {"held": held}
    messages = [transfer(1), payment(1, account_id="bob")]
    [again, other] = fold(messages, ALICE_AND_BOB | {key: damaged}).dispositions
    assert isinstance(again, Again)
    assert again.reason == f"held: expected 30, which is the sum of the holds, got {held or 0}"
    assert isinstance(other, Done)
    assert isinstance(fold(messages, ALICE_AND_BOB | {key: item | {"held": Decimal(30)}}).dispositions[0], Done)


def test_a_transfer_goes_into_the_next_commit_where_only_one_of_its_entries_would_fit() -> None:
    transfers = [transfer(1, transaction_id=str(number)) for number in range(60)]
    items, plans = folded_in_batches([payment(50), *transfers], ALICE_AND_BOB)
    assert [len(plan.writes) for plan in plans] == [1 + 2 + 48 * 2, 2 + 12 * 2]
    assert items == folded_in_batches([payment(50), *transfers], ALICE_AND_BOB, 1)[0]


def any_messages(ids: int, most: int) -> st.SearchStrategy[list[TransactionMessage]]:
    numbers = st.sampled_from([f"t-{number}" for number in range(ids)])
    return st.lists(messages_of(st.sampled_from(["a", "b", "c"]), numbers), max_size=most)


MESSAGES = (any_messages(12, 25) | that_refer(any_messages(24, 50))).map(
    lambda messages: [*(opening("-100", account_id=name) for name in ("a", "b", "c")), *messages]
)
in_fewer_examples = settings(max_examples=settings().max_examples // 3)
"""Each is a day of many messages."""


@in_fewer_examples
@given(MESSAGES, st.integers(1, 7))
def test_a_plan_is_a_pure_function_and_however_messages_are_batched_the_outcomes_are_the_same(
    messages: list[TransactionMessage], size: int
) -> None:
    untouched = copy.deepcopy(ABC)
    items, plans = folded_in_batches(messages, ABC, size)
    expected_items, expected_plans = folded_in_batches(messages, ABC, 1)
    assert items == expected_items
    assert dispositions(plans) == dispositions(expected_plans)
    assert untouched == ABC


@in_fewer_examples
@given(MESSAGES, st.lists(st.timedeltas(timedelta(0), CLOCK_SKEW), min_size=1, max_size=50))
def test_times_never_go_back_on_an_account_and_both_sides_of_a_transfer_have_one(
    messages: list[TransactionMessage], clocks: list[timedelta]
) -> None:
    """Each message is posted by a worker whose clock is ahead by another time."""
    items: Observed = ABC
    times: dict[str, str] = {}
    for message, ahead in zip(messages, itertools.cycle(clocks), strict=False):
        plan = planned([message], items, AT + ahead)
        items = as_written(plan.writes, items)
        entries = [write.item for write in plan.writes if isinstance(write, Put) and write.key.table == "journal"]
        for entry in entries:
            account = items[TABLES.account_key(entry["account_id"])]
            assert account
            assert entry["posted_at"] == account["posted_at"]
            assert timestamp(AT + ahead) <= entry["posted_at"] <= timestamp(AT + CLOCK_SKEW)
            assert times.get(entry["account_id"], "") <= entry["posted_at"]
            times[entry["account_id"]] = entry["posted_at"]
        assert len({entry["posted_at"] for entry in entries}) <= 1


@given(MESSAGES)
def test_every_write_asserts_what_was_observed(messages: list[TransactionMessage]) -> None:
    observed: Observed = ABC
    for start in range(0, len(messages), 3):
        plan = planned(messages[start : start + 3], observed)
        for each in plan.writes:
            found = observed.get(each.key)
            own_key = "transaction_id" if each.key.table == "journal" else "account_id"
            assert each.condition == (version_is(found["version"]) if found else absent(own_key))
        observed = as_written(plan.writes, observed)
        # The next plan starts from these items. Of those that don't exist, it may have read more.
        existing = [{key: item for key, item in items.items() if item} for items in (plan.after, observed)]
        assert existing[0] == existing[1]


@given(st.lists(PAIRS, max_size=8))
@example([["a", "b"], ["b", "a"], ["c", "a"], ["d", "a"]])
@example([["a", "b"], ["c", "d"], ["a", "c"], ["b", "e"], ["e", "d"]])
def test_an_account_is_in_one_group_only_and_its_messages_are_in_their_order(pairs: list[list[str]]) -> None:
    messages = [message_of(transfer(from_account_id=one, to_account_id=other)) for one, other in pairs]
    grouped = grouped_by_account(messages, lambda message: message.decoded.account_ids)
    groups = [[messages.index(message) for message in group] for group in grouped]
    assert sorted(index for group in groups for index in group) == list(range(len(pairs)))
    assert all(group == sorted(group) for group in groups)
    accounts = [{account_id for index in group for account_id in pairs[index]} for group in groups]
    assert sum(map(len, accounts)) == len(set().union(*accounts))


LARGEST_TRANSFERS = [opening("-999", account_id=name) for name in samples.largest_transfer().account_ids]
LARGEST: dict[str, list[TransactionMessage]] = {
    "98 payments": [
        opening(account_id=samples.largest_transaction().account_id),
        *map(samples.largest_transaction, range(98)),
    ],
    "48 transfers": [*LARGEST_TRANSFERS, *map(samples.largest_transfer, range(48))],
}


@pytest.mark.parametrize("messages", LARGEST.values(), ids=LARGEST)
def test_the_largest_messages_fit_a_transaction_and_an_item(messages: list[TransactionMessage]) -> None:
    plan = fold(messages, minor_units=False)
    # As JSON an item is larger than in DynamoDB.
    sizes = [len(msgspec.json.encode(as_request(each, 32 * "f")["Item"])) for each in plan.writes]
    assert (len(sizes), max(sizes) < 400_000, sum(sizes) < 4_000_000) == (100, True, True)


def posted(dynamodb: Stubbed, messages: Sequence[QueuedTransaction], seconds: float = 60) -> dict[Any, float]:
    """Posts. The measurements that aren't zero, by metric, or by name and dimension. A time counts as one."""
    sums: dict[Any, float] = {}
    poster = BatchPoster(dynamodb.client, TABLES, Lines(dynamodb.client, "locks"))
    for each in poster.post(messages, Deadline.after(seconds)):
        name = (each.metric, each.dimension[1]) if each.dimension else each.metric
        sums[name] = sums.get(name, 0) + (1 if each.metric == "CommitTime" else each.value)
    assert sums.keys() >= {"Posted", "Rejected", "Duplicates", "Conflicts"}, "zeros, too"
    return {name: value for name, value in sums.items() if value}


def test_messages_are_decided_in_the_order_in_which_they_were_sent(empty_dynamodb: Stubbed) -> None:
    """A redelivered one, too. Of those that were sent in one millisecond the order of delivery counts."""
    late, last, first = payment(-2, transaction_id="t-2"), payment(-3, transaction_id="t-3"), payment(5)
    messages = [*map(message_of, (late, last, first)), message_of(opening(), receive_count=2)]
    for message, second in zip(messages, (2, 2, 1, 0), strict=True):
        message.sent_at += timedelta(seconds=second)
    posted(empty_dynamodb, messages)
    outcomes = [outcome_of(message.disposition) for message in messages]
    assert [(each.account_version, each.reason) for each in outcomes] == [(3, None), (4, None), (2, None), (1, None)]


def test_entries_are_read_only_of_what_was_delivered_before_on_its_home(empty_dynamodb: Stubbed) -> None:
    posted(empty_dynamodb, [message_of(payment()), message_of(transfer(transaction_id="t-2"), receive_count=2)])
    asked = empty_dynamodb.parameters[0]["RequestItems"]
    entries = [(key["account_id"]["S"], key["transaction_id"]["S"]) for key in asked["journal"]["Keys"]]
    assert entries == [("alice", "t-2")]
    assert [key["account_id"]["S"] for key in asked["accounts"]["Keys"]] == ["alice", "bob"]


def test_what_another_worker_posted_meanwhile_is_replayed_and_the_rest_decided_on_it(empty_dynamodb: Stubbed) -> None:
    there = as_written(fold([opening("-9"), payment(5)]).writes, {})
    found = {each.table: to_dynamodb(item) for each, item in there.items()}  # The last entry and the account.
    reason, nothing = {"Code": "ConditionalCheckFailed"}, {"Code": "None"}
    empty_dynamodb.cancels(reason | {"Item": found["accounts"]}, nothing, reason | {"Item": found["journal"]}, nothing)
    transactions = [opening("-9", transaction_id="new"), payment(5), payment(-6, transaction_id="t-2")]
    messages = list(map(message_of, transactions))
    measured = posted(empty_dynamodb, messages)
    exists, replayed, decided = (outcome_of(message.disposition) for message in messages)
    assert (exists.reason, exists.account_version) == ("ACCOUNT_EXISTS", 3)
    assert (replayed.replayed, replayed.account_version, replayed.balance_after) == (True, 2, 5)
    assert (decided.replayed, decided.account_version, decided.balance_after) == (False, 4, -1)
    counts = {"Posted": 1, "Rejected": 1, "Duplicates": 1, "Conflicts": 1, "CommitTime": 1}
    assert measured == counts | {("Rejected", "ACCOUNT_EXISTS"): 1}


def test_what_others_put_into_an_account_is_let_go_after_a_lost_commit() -> None:
    """Else the groups of a batch could fill the memory."""
    poster = BatchPoster(NOBODY, TABLES, Lines(NOBODY, "locks"))
    others = {key: item | {"notes": "x" * 380_000} for key, item in ALICE_AND_BOB.items()}
    entries = {TABLES.entry_key(EntryId("alice", "t-1")): {"notes": "x"}, TABLES.entry_key(EntryId("bob", "t-1")): None}
    assert poster.own_parts(others | entries) == ALICE_AND_BOB | entries


def test_an_error_between_the_two_sides_of_a_transfer_commits_neither(monkeypatch: pytest.MonkeyPatch) -> None:
    """The money of the first side would have gone nowhere."""
    staged = iter([folding.entry_item])

    def second_fails(entry: Any) -> Any:
        for stage in staged:
            return stage(entry)
        raise OSError("between the two sides")

    monkeypatch.setattr(folding, "entry_item", second_fails)
    plan = fold([transfer(30)], ALICE_AND_BOB)
    assert [type(disposition) for disposition in plan.dispositions] == [Again]
    assert (plan.writes, plan.after) == ([], ALICE_AND_BOB)
