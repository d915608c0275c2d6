"""The batch poster's fold: a pure function from messages and observed items to writes and outcomes."""

import copy
import itertools
import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, NamedTuple

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from conditional_writes import Check, Deadline, Key, Observed, Put, Update, Write, absent, version_is
from conditional_writes.items import to_dynamodb
from conditional_writes.requests import as_request
from ledger import batch_poster
from ledger.batch_poster import BatchPoster, QueuedTransaction, grouped_by_account
from ledger.core.accounts import account_item
from ledger.core.journal import EntryId, Outcome
from ledger.core.posting_time import CLOCK_SKEW, timestamp
from ledger.core.reason_codes import ReasonCode
from ledger.core.rules import Decision
from ledger.core.transaction_types.base import TransactionMessage
from ledger.lines import Lines
from ledger.tables import LedgerTables
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
from tests.support.strategies import messages_of, that_refer
from tests.unit.stubs import Stubbed
from workers.queue_messages import Again, Dead, Disposition, Done, QueueMessage, Waiting

NOBODY: Any = None
TABLES = LedgerTables("accounts", "journal", "reversals")
POSTER = BatchPoster(NOBODY, TABLES, Lines(NOBODY, "locks"))
AT = datetime.fromisoformat(NOW)


def message_of(transaction: TransactionMessage, receive_count: int = 1) -> QueuedTransaction:
    sent_at = datetime(2026, 1, 31, tzinfo=UTC)
    return QueueMessage("m-1", "receipt-1", "{}", receive_count, sent_at, {}, content=transaction)


class Folded(NamedTuple):
    """A plan's writes, the items afterwards, and the dispositions of the messages that fit into it."""

    writes: Sequence[Write]
    observed: Observed
    dispositions: list[Disposition]

    @property
    def outcomes(self) -> list[Outcome]:
        """The outcomes, if all messages are done."""
        return list(map(outcome_of, self.dispositions))


def outcome_of(disposition: Disposition | None) -> Outcome:
    assert isinstance(disposition, Done), disposition
    assert isinstance(disposition.outcome, Outcome)
    return disposition.outcome


def planned(
    transactions: Iterable[TransactionMessage], observed: Observed, now: datetime = AT, poster: BatchPoster = POSTER
) -> Folded:
    """One plan. Items that aren't in `observed`, and that a decision depends on, don't exist."""
    messages = list(map(message_of, transactions))
    plan = poster.plan(messages, observed, {}, now)
    while isinstance(plan.result, batch_poster._ToRead):
        assert not plan.writes
        assert not observed.keys() & set(plan.result.keys), "nothing is read twice"
        observed = {**observed, **dict.fromkeys(plan.result.keys)}
        plan = poster.plan(messages, observed, {}, now)
    fold = plan.result
    assert len(plan.writes) != 1, "a write that is alone is no transaction, and the function's role denies it"
    assert list(fold.dispositions) == messages[: len(fold.dispositions)], "the messages that fit, in order"
    assert all(message.disposition is None for message in messages), "messages have no disposition before the commit"
    return Folded(plan.writes, fold.observed, list(fold.dispositions.values()))


def fold(
    transactions: Sequence[TransactionMessage], observed: Observed | None = None, poster: BatchPoster = POSTER
) -> Folded:
    """One plan. Accounts that aren't in `observed` don't exist."""
    absent = {TABLES.account_key(name): None for transaction in transactions for name in transaction.account_ids}
    return planned(transactions, absent | dict(observed or {}), poster=poster)


def folded_in_batches(
    transactions: Sequence[TransactionMessage], observed: Observed, size: int = 1_000
) -> tuple[Observed, list[Folded]]:
    """The items afterwards, and the plans. Batches have this size, and each takes as many plans as it needs."""
    plans = []
    for start in range(0, len(transactions), size):
        pending = transactions[start : start + size]
        while pending:
            plans.append(planned(pending, observed))
            observed = as_written(plans[-1].writes, observed)
            pending = pending[len(plans[-1].dispositions) :]
    return observed, plans


def dispositions(plans: Sequence[Folded]) -> list[Disposition]:
    return [disposition for plan in plans for disposition in plan.dispositions]


def as_written(writes: Sequence[Write], before: Observed) -> dict[Key, Any]:
    """The items after the writes."""
    items = dict(before)
    for each in writes:
        if not isinstance(each, Check):
            items[each.key] = each.item if isinstance(each, Put) else (items[each.key] or {}) | each.values
    return items


def test_an_accounts_messages_are_one_write_of_it_and_an_entry_each() -> None:
    plan = fold([opening(), payment(5, transaction_id="1"), payment(-9, transaction_id="2")])
    assert [type(each).__name__ for each in plan.writes] == ["Put", "Put", "Put", "Put"]
    assert [each.key.table for each in plan.writes].count("accounts") == 1
    assert [outcome.reason for outcome in plan.outcomes] == [None, None, "OVERDRAFT_LIMIT"]


def test_an_update_sets_what_changed_and_asserts_the_version_it_was_decided_on() -> None:
    opened = fold([opening()])
    before = as_written(opened.writes, {})
    plan = fold([payment(5, transaction_id="1"), payment(6, transaction_id="2")], before)
    update = next(each for each in plan.writes if isinstance(each, Update))
    assert update.values == {"balance": 11, "version": 3}
    assert update.condition.values == (1,)


def test_a_repetition_inside_a_batch_is_replayed_and_written_once() -> None:
    plan = fold([opening(), payment(5), payment(5)])
    assert [outcome.replayed for outcome in plan.outcomes] == [False, False, True]
    assert plan.outcomes[2].account_version == plan.outcomes[1].account_version
    assert len(plan.writes) == 3


def test_another_payload_under_the_same_id_is_refused_and_names_the_fields() -> None:
    plan = fold([opening(), payment(5), payment(6, currency="EUR")])
    sentence = "transaction_id: 't-1' was used before on account 'alice' with another amount, currency"
    assert plan.dispositions[2] == Dead(ReasonCode.PAYLOAD_CHANGED, sentence, {"original_status": "POSTED"})
    assert len(plan.writes) == 3


def test_an_account_below_its_limit_is_paid_into_though_it_stays_below() -> None:
    below = account_item(replace(ALICE, balance=Decimal(-100)))
    [outcome] = planned([payment(20)], {TABLES.account_key("alice"): below}).outcomes
    assert (outcome.status, outcome.balance_after) == ("POSTED", Decimal(-80))


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


def test_what_is_in_the_journal_is_replayed_as_it_was_and_writes_nothing() -> None:
    first = fold([opening(), payment(-5), closing("2")])
    observed = as_written(first.writes, {})
    plan = fold([opening(), payment(-5), closing("2")], observed)
    assert not plan.writes
    assert [outcome.replayed for outcome in plan.outcomes] == [True, True, True]
    assert [outcome.reason for outcome in plan.outcomes] == [outcome.reason for outcome in first.outcomes]


def test_before_its_account_is_open_a_payment_is_not_decided() -> None:
    early, opened = fold([payment(5), opening()]).dispositions
    sentence = "account_id: no account 'alice' has been opened"
    assert early == Waiting(ReasonCode.UNKNOWN_ACCOUNT, sentence)
    assert outcome_of(opened).status == "POSTED"


@pytest.mark.parametrize(("messages", "folded"), [(99, 99), (100, 99), (250, 99)])
def test_as_many_as_fit_a_transaction_are_folded(messages: int, folded: int) -> None:
    plan = fold([opening(), *(payment(1, transaction_id=str(number)) for number in range(messages - 1))])
    assert len(plan.dispositions) == folded
    assert len(plan.writes) == folded + 1 <= 100


ALICE_AND_BOB: dict[Key, Any] = {
    TABLES.account_key("alice"): account_item(ALICE),
    TABLES.account_key("bob"): account_item(BOB),
}


def entry_of(items: Observed, account_id: str, transaction_id: str = "t-1") -> Any:
    return items[TABLES.entry_key(EntryId(account_id, transaction_id))]


def test_a_transfer_is_four_writes_in_one_commit() -> None:
    items, [plan] = folded_in_batches([transfer(30)], ALICE_AND_BOB)
    assert [(each.key.table, type(each).__name__) for each in plan.writes] == [
        ("accounts", "Update"),
        ("accounts", "Update"),
        ("journal", "Put"),
        ("journal", "Put"),
    ]
    alice, bob = entry_of(items, "alice"), entry_of(items, "bob")
    assert (alice["amount"], alice["balance_after"], alice["account_version"]) == (-30, 70, 8)
    assert (bob["amount"], bob["balance_after"], bob["account_version"]) == (30, 35, 4)
    assert alice["request"] == bob["request"] == transfer(30).canonical_payload()
    assert alice["payload_hash"] == bob["payload_hash"] != ""
    alice_after = replace(ALICE, balance=Decimal(70), version=8, posted_at=NOW)
    bob_after = replace(BOB, balance=Decimal(35), version=4, posted_at=NOW)
    assert items[TABLES.account_key("alice")] == account_item(alice_after)
    assert items[TABLES.account_key("bob")] == account_item(bob_after)


def test_a_transfers_outcome_is_the_payers() -> None:
    _, [plan] = folded_in_batches([transfer(30)], ALICE_AND_BOB)
    [outcome] = plan.outcomes
    assert (outcome.amount, outcome.balance_after, outcome.account_version) == (-30, 70, 8)


def test_a_rejected_transfer_is_recorded_on_both_sides() -> None:
    items, [plan] = folded_in_batches([transfer("150.01")], ALICE_AND_BOB)
    assert len(plan.writes) == 4
    for name, version in (("alice", 8), ("bob", 4)):
        entry = entry_of(items, name)
        assert (entry["status"], entry["reason"], entry["amount"]) == ("REJECTED", "OVERDRAFT_LIMIT", 0)
        assert entry["account_version"] == version


@pytest.mark.parametrize("amount", [30, 999], ids=["posted", "rejected"])
@pytest.mark.parametrize("seen", [("alice", "bob"), ("alice",), ("bob",)], ids=["both", "the payer's", "the payee's"])
def test_a_transfer_is_replayed_from_both_its_entries_or_either(amount: int, seen: Sequence[str]) -> None:
    items, [first] = folded_in_batches([transfer(amount)], ALICE_AND_BOB)
    unseen = {TABLES.entry_key(EntryId(name, "t-1")) for name in {"alice", "bob"} - set(seen)}
    plan = fold([transfer(amount)], {each: item for each, item in items.items() if each not in unseen})
    [outcome], [before] = plan.outcomes, first.outcomes
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
    carol = {TABLES.account_key("carol"): account_item(replace(BOB, account_id="carol"))}
    items, _ = folded_in_batches([first], ALICE_AND_BOB | carol)
    plan = fold([transfer(30)], items)
    assert not plan.writes
    status = items[TABLES.entry_key(EntryId(account_id, "t-1"))]["status"]
    sentence = f"transaction_id: 't-1' was used before on account '{account_id}' with another {different}"
    assert plan.dispositions == [Dead(ReasonCode.PAYLOAD_CHANGED, sentence, {"original_status": status})]


def test_a_transfer_whose_id_was_used_before_on_both_sides_names_the_one_with_another_payload() -> None:
    """Both sides commit together, so this can't happen. If it does, it isn't treated as a repetition."""
    items, _ = folded_in_batches([transfer(30)], ALICE_AND_BOB)
    planted = entry_of(items, "bob") | {
        "request": payment(1, account_id="bob").canonical_payload(),
        "payload_hash": "another",
    }
    [refused] = fold([transfer(30)], {**items, TABLES.entry_key(EntryId("bob", "t-1")): planted}).dispositions
    assert isinstance(refused, Dead)
    assert refused.code is ReasonCode.PAYLOAD_CHANGED
    assert "on account 'bob'" in refused.reason


def test_a_repetition_of_an_entry_that_a_later_release_wrote_comes_again_until_that_release_is_back() -> None:
    items, _ = folded_in_batches([transfer(30)], ALICE_AND_BOB)
    later = {TABLES.entry_key(EntryId("alice", "t-1")): entry_of(items, "alice") | {"format": 2}}
    plan = fold([transfer(30), payment(1, transaction_id="t-2")], {**items, **later})
    repetition, payment_of_another_id = plan.dispositions
    assert isinstance(repetition, Again)
    assert repetition.reason == "format: expected 1, got 2: a later release of Teller may have written it"
    assert isinstance(payment_of_another_id, Done)


@pytest.mark.parametrize("held", [None, Decimal(-1000), Decimal(29), Decimal(31)])
def test_an_account_whose_held_money_is_not_the_sum_of_its_holds_is_not_decided_on(held: Decimal | None) -> None:
    """Else held money could be spent, and the hold that was promised couldn't be posted."""
    key = TABLES.account_key("alice")
    holds = {"h-1": {"remaining": Decimal(10)}, "h-2": {"remaining": Decimal("20.0")}}
    item = ALICE_AND_BOB[key] | {"holds": holds} | ({} if held is None else {"held": held})
    [again, other] = fold([transfer(1), payment(1, account_id="bob")], {**ALICE_AND_BOB, key: item}).dispositions
    assert isinstance(again, Again)
    assert again.reason == f"held: expected 30, which is the sum of the holds, got {held or 0}"
    assert isinstance(other, Done)
    sound = {**ALICE_AND_BOB, key: item | {"held": Decimal(30)}}
    assert isinstance(fold([transfer(1)], sound).dispositions[0], Done)


@pytest.mark.parametrize("missing", ["alice", "bob"])
def test_a_transfer_from_or_to_an_unknown_account_decides_nothing(missing: str) -> None:
    plan = fold(
        [transfer(999)], {each: item for each, item in ALICE_AND_BOB.items() if each.attributes[0][1] != missing}
    )
    [unknown] = plan.dispositions
    assert isinstance(unknown, Waiting)
    assert unknown.code is ReasonCode.UNKNOWN_ACCOUNT
    assert f"no account '{missing}'" in unknown.reason
    assert not plan.writes


@pytest.mark.parametrize("size", [1, 7, 33, 34, 60])
def test_a_chain_of_transfers_is_cut_into_commits_in_order_with_the_same_outcomes_however_batched(size: int) -> None:
    names = [f"acc-{number}" for number in range(61)]
    before = {TABLES.account_key(name): account_item(replace(ALICE, account_id=name)) for name in names}
    # Each account has 150 and spends more, which it can only after the credit.
    chain = [
        transfer(149 + number, transaction_id=str(number), from_account_id=payer, to_account_id=payee)
        for number, (payer, payee) in enumerate(itertools.pairwise(names), 1)
    ]
    items, plans = folded_in_batches(chain, before, size)
    whole, cut = folded_in_batches(chain, before)
    assert items == whole
    assert dispositions(plans) == dispositions(cut)
    assert {outcome_of(disposition).status for disposition in dispositions(plans)} == {"POSTED"}
    assert [len(plan.writes) for plan in cut] == [100, 82]
    assert max(len(plan.writes) for plan in plans) <= 100


def test_a_transfer_goes_into_the_next_commit_where_only_one_of_its_entries_would_fit() -> None:
    transfers = [transfer(1, transaction_id=str(number)) for number in range(60)]
    items, plans = folded_in_batches([payment(50), *transfers], ALICE_AND_BOB)
    assert [len(plan.writes) for plan in plans] == [1 + 2 + 48 * 2, 2 + 12 * 2]
    assert items == folded_in_batches([payment(50), *transfers], ALICE_AND_BOB, 1)[0]


ABC = {TABLES.account_key(name): None for name in ("a", "b", "c")}
MESSAGES = st.lists(
    messages_of(st.sampled_from(["a", "b", "c"]), st.sampled_from([f"t-{number}" for number in range(12)])), max_size=25
) | that_refer(
    st.lists(
        messages_of(st.sampled_from(["a", "b", "c"]), st.sampled_from([f"t-{number}" for number in range(24)])),
        max_size=50,
    )
).map(lambda messages: [*(opening("-100", account_id=name) for name in ("a", "b", "c")), *messages])


@given(MESSAGES)
def test_a_plan_is_a_pure_function(messages: list[TransactionMessage]) -> None:
    untouched = copy.deepcopy(ABC)
    first, second = planned(messages, ABC), planned(messages, ABC)
    assert untouched == ABC
    assert first == second


@given(MESSAGES, st.integers(1, 7))
def test_however_messages_are_batched_the_outcomes_are_the_same(messages: list[TransactionMessage], size: int) -> None:
    items, plans = folded_in_batches(messages, ABC, size)
    expected_items, expected_plans = folded_in_batches(messages, ABC, 1)
    assert items == expected_items
    assert dispositions(plans) == dispositions(expected_plans)


CLOCKS = st.timedeltas(timedelta(0), CLOCK_SKEW)


@given(MESSAGES, st.lists(CLOCKS, min_size=1, max_size=50))
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
def test_transfers_sum_to_zero_and_the_balances_to_all_amounts(messages: list[TransactionMessage]) -> None:
    items, _ = folded_in_batches(messages, ABC)
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


def groups_of(transactions: Sequence[TransactionMessage]) -> list[list[int]]:
    """The messages' positions in the batch, by group."""
    messages = list(map(message_of, transactions))
    positions = {message: position for position, message in enumerate(messages)}
    groups = grouped_by_account(messages, lambda message: message.decoded.account_ids)
    return [[positions[message] for message in group] for group in groups]


def test_groups_are_joined_by_account_and_keep_their_order() -> None:
    names = ["a", "b", "a", "c", "b", "a"]
    assert groups_of([payment(1, account_id=name) for name in names]) == [[0, 2, 5], [1, 4], [3]]


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
    assert groups_of(messages) == [[0, 2, 4, 6], [1, 5], [3]]


PAIRS = st.lists(st.sampled_from("abcde"), min_size=2, max_size=2, unique=True)


@given(st.lists(PAIRS, max_size=8))
@example([["a", "b"], ["b", "a"], ["c", "a"], ["d", "a"]])
@example([["a", "b"], ["c", "d"], ["a", "c"], ["b", "e"], ["e", "d"]])
def test_an_account_is_in_one_group_only_and_its_messages_are_in_their_order(pairs: list[list[str]]) -> None:
    groups = groups_of([transfer(from_account_id=one, to_account_id=other) for one, other in pairs])
    assert sorted(index for group in groups for index in group) == list(range(len(pairs)))
    assert all(group == sorted(group) for group in groups)
    accounts = [{account_id for index in group for account_id in pairs[index]} for group in groups]
    assert sum(map(len, accounts)) == len(set().union(*accounts))


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
        assert {key: item for key, item in plan.observed.items() if item} == {
            key: item for key, item in observed.items() if item
        }


def sizes(plan: Any) -> list[int]:
    """The size of each request's item as JSON, which is larger than the item."""
    return [len(msgspec.json.encode(as_request(each, 32 * "f")["Item"])) for each in plan.writes]


def test_99_of_the_largest_messages_fit_a_transaction_and_an_item() -> None:
    bank = opening(account_id=largest_transaction().account_id)
    plan = fold([bank, *map(largest_transaction, range(98))], poster=POSTER._replace(minor_units=False))
    assert len(plan.writes) == 100
    assert max(sizes(plan)) < 400_000
    assert sum(sizes(plan)) < 4_000_000


def test_both_sides_of_the_48_largest_transfers_fit_a_transaction_and_an_item() -> None:
    banks = [opening("-999", account_id=name) for name in largest_transfer().account_ids]
    plan = fold([*banks, *map(largest_transfer, range(48))], poster=POSTER._replace(minor_units=False))
    assert len(plan.writes) == 100
    assert max(sizes(plan)) < 400_000
    assert sum(sizes(plan)) < 4_000_000


def posted(
    dynamodb: Stubbed, messages: Sequence[QueuedTransaction], seconds: float = 60
) -> dict[str | tuple[str, str], float]:
    """Posts, and returns the measurements by metric, or by name and dimension. A time counts as one."""
    sums: dict[str | tuple[str, str], float] = {}
    for each in BatchPoster(dynamodb.client, TABLES, Lines(dynamodb.client, "locks")).post(
        messages, Deadline.after(seconds)
    ):
        name = (each.metric, each.dimension[1]) if each.dimension else each.metric
        sums[name] = sums.get(name, 0) + (1 if each.metric == "CommitTime" else each.value)
    return sums


def finds_nothing(dynamodb: Stubbed) -> None:
    dynamodb.answers("batch_get_item", {"Responses": {}, "UnprocessedKeys": {}})


def of_one_account(number: int) -> list[QueuedTransaction]:
    payments = [payment(1, transaction_id=str(n)) for n in range(number - 1)]
    return list(map(message_of, [opening(), *payments]))


def test_100_of_one_account_take_one_read_and_two_commits(stubbed_dynamodb: Stubbed) -> None:
    finds_nothing(stubbed_dynamodb)
    stubbed_dynamodb.answers("transact_write_items")
    stubbed_dynamodb.answers("transact_write_items")
    messages = of_one_account(100)
    measured = posted(stubbed_dynamodb, messages)
    assert stubbed_dynamodb.operations == ["BatchGetItem", "TransactWriteItems", "TransactWriteItems"]
    assert [len(request["TransactItems"]) for request in stubbed_dynamodb.parameters[1:]] == [100, 2]
    assert [outcome_of(message.disposition).account_version for message in messages] == list(range(1, 101))
    assert measured == {"Posted": 100, "Rejected": 0, "Duplicates": 0, "Conflicts": 0, "CommitTime": 2}


def test_messages_are_decided_in_the_order_in_which_they_were_sent(stubbed_dynamodb: Stubbed) -> None:
    """A redelivered one, too. Of those that were sent in one millisecond the order of delivery counts."""
    finds_nothing(stubbed_dynamodb)
    stubbed_dynamodb.answers("transact_write_items")
    late, last, first = payment(-2, transaction_id="t-2"), payment(-3, transaction_id="t-3"), payment(5)
    messages = [*map(message_of, (late, last, first)), message_of(opening(), receive_count=2)]
    for message, second in zip(messages, (2, 2, 1, 0), strict=True):
        message.sent_at += timedelta(seconds=second)
    posted(stubbed_dynamodb, messages)
    outcomes = [outcome_of(message.disposition) for message in messages]
    assert [(each.account_version, each.reason) for each in outcomes] == [(3, None), (4, None), (2, None), (1, None)]


def test_entries_are_read_only_of_what_was_delivered_before(stubbed_dynamodb: Stubbed) -> None:
    finds_nothing(stubbed_dynamodb)
    stubbed_dynamodb.answers("transact_write_items")
    posted(stubbed_dynamodb, [message_of(opening()), message_of(payment(), receive_count=2)])
    asked = stubbed_dynamodb.parameters[0]["RequestItems"]
    assert [key["transaction_id"]["S"] for key in asked["journal"]["Keys"]] == ["t-1"]
    assert [key["account_id"]["S"] for key in asked["accounts"]["Keys"]] == ["alice"]


def test_what_another_worker_posted_meanwhile_is_replayed_and_the_rest_decided_on_it(stubbed_dynamodb: Stubbed) -> None:
    there = as_written(fold([opening("-9"), payment(5)]).writes, {})
    found = {each.table: to_dynamodb(item) for each, item in there.items()}  # The last entry and the account.
    reason = {"Code": "ConditionalCheckFailed"}
    finds_nothing(stubbed_dynamodb)
    stubbed_dynamodb.cancels(
        reason | {"Item": found["accounts"]}, {"Code": "None"}, reason | {"Item": found["journal"]}, {"Code": "None"}
    )
    stubbed_dynamodb.answers("transact_write_items")
    transactions = [opening("-9", transaction_id="new"), payment(5), payment(-6, transaction_id="t-2")]
    messages = list(map(message_of, transactions))
    measured = posted(stubbed_dynamodb, messages)
    exists, replayed, decided = (outcome_of(message.disposition) for message in messages)
    assert (exists.reason, exists.account_version) == ("ACCOUNT_EXISTS", 3)
    assert (replayed.replayed, replayed.account_version, replayed.balance_after) == (True, 2, 5)
    assert (decided.replayed, decided.account_version, decided.balance_after) == (False, 4, -1)
    assert measured == {
        "Posted": 1,
        "Rejected": 1,
        "Duplicates": 1,
        "Conflicts": 1,
        ("Rejected", "ACCOUNT_EXISTS"): 1,
        "CommitTime": 1,
    }


def test_a_replayed_rejection_is_a_duplicate_and_no_rejection_and_without_a_write_there_is_no_commit(
    stubbed_dynamodb: Stubbed,
) -> None:
    items = fold([opening(), payment(-5)]).observed
    responses = {"accounts": [], "journal": []}
    for each, item in items.items():
        if item and item.get("transaction_id") != "open":
            responses[each.table].append(to_dynamodb(item))
    stubbed_dynamodb.answers("batch_get_item", {"Responses": responses, "UnprocessedKeys": {}})
    message = message_of(payment(-5), receive_count=2)
    assert posted(stubbed_dynamodb, [message]) == {"Posted": 0, "Rejected": 0, "Duplicates": 1, "Conflicts": 0}
    assert outcome_of(message.disposition).reason == "OVERDRAFT_LIMIT"
    assert stubbed_dynamodb.operations == ["BatchGetItem"]


def test_rejections_are_measured_by_their_reason(stubbed_dynamodb: Stubbed) -> None:
    finds_nothing(stubbed_dynamodb)
    stubbed_dynamodb.answers("transact_write_items")
    debits = [payment(-5, transaction_id=str(n)) for n in range(2)]
    francs = payment(5, "CHF", transaction_id="francs")
    assert posted(stubbed_dynamodb, list(map(message_of, [opening(), *debits, francs]))) == {
        "Posted": 1,
        "Rejected": 3,
        "Duplicates": 0,
        "Conflicts": 0,
        ("Rejected", "OVERDRAFT_LIMIT"): 2,
        ("Rejected", "CURRENCY_MISMATCH"): 1,
        "CommitTime": 1,
    }


def test_a_transfer_whose_id_the_payee_had_used_is_found_when_the_commit_is_refused(stubbed_dynamodb: Stubbed) -> None:
    there, _ = folded_in_batches([payment(1, account_id="bob")], ALICE_AND_BOB)
    accounts = [to_dynamodb(item) for item in map(account_item, (ALICE, replace(BOB, balance=Decimal(6), version=4)))]
    stubbed_dynamodb.answers("batch_get_item", {"Responses": {"accounts": accounts}, "UnprocessedKeys": {}})
    nothing = {"Code": "None"}
    used = {"Code": "ConditionalCheckFailed", "Item": to_dynamodb(entry_of(there, "bob"))}
    stubbed_dynamodb.cancels(nothing, nothing, nothing, used)
    message = message_of(transfer())
    posted(stubbed_dynamodb, [message])
    assert stubbed_dynamodb.operations == ["BatchGetItem", "TransactWriteItems"]
    refused = message.disposition
    assert isinstance(refused, Dead)
    assert refused.code is ReasonCode.PAYLOAD_CHANGED
    assert "on account 'bob'" in refused.reason


def test_both_sides_entries_are_read_of_a_transfer_that_was_delivered_before(stubbed_dynamodb: Stubbed) -> None:
    finds_nothing(stubbed_dynamodb)
    posted(stubbed_dynamodb, [message_of(transfer(), receive_count=2)])
    asked = stubbed_dynamodb.parameters[0]["RequestItems"]
    for table in ("accounts", "journal"):
        assert [key["account_id"]["S"] for key in asked[table]["Keys"]] == ["alice", "bob"]


def assert_failed(message: QueuedTransaction, error: str) -> None:
    """Asserts that the message comes again, for an error of this name."""
    disposition = message.disposition
    assert isinstance(disposition, Again)
    assert disposition.error
    assert disposition.error.name == error
    assert disposition.reason


def test_a_group_that_fails_keeps_what_it_had_committed(stubbed_dynamodb: Stubbed) -> None:
    finds_nothing(stubbed_dynamodb)
    stubbed_dynamodb.answers("transact_write_items")
    stubbed_dynamodb.refuses("transact_write_items", "InternalServerError")
    messages = of_one_account(101)
    measured = posted(stubbed_dynamodb, messages)
    assert [outcome_of(message.disposition).account_version for message in messages[:99]] == list(range(1, 100))
    for message in messages[99:]:
        assert_failed(message, "InternalServerError")
    assert measured == {"Posted": 99, "Rejected": 0, "Duplicates": 0, "Conflicts": 0, "CommitTime": 1}


def test_a_group_that_fails_holds_up_no_other(stubbed_dynamodb: Stubbed) -> None:
    finds_nothing(stubbed_dynamodb)
    stubbed_dynamodb.refuses("transact_write_items", "InternalServerError")
    stubbed_dynamodb.answers("transact_write_items")
    messages = [message_of(opening(account_id=name)) for name in ("alice", "bob")]
    measured = posted(stubbed_dynamodb, messages)
    assert {type(message.disposition) for message in messages} == {Done, Again}
    assert measured["Posted"] == 1


def test_an_item_that_is_no_account_holds_up_no_message_but_its_own(stubbed_dynamodb: Stubbed) -> None:
    accounts = [{"account_id": {"S": "alice"}}, to_dynamodb(account_item(BOB))]
    stubbed_dynamodb.answers("batch_get_item", {"Responses": {"accounts": accounts}, "UnprocessedKeys": {}})
    stubbed_dynamodb.answers("transact_write_items")
    messages = list(map(message_of, [payment(), transfer(), payment(1, account_id="bob")]))
    posted(stubbed_dynamodb, messages)
    for message in messages[:2]:
        assert_failed(message, "KeyError")
    assert outcome_of(messages[2].disposition).balance_after == 6


def test_if_the_read_fails_nothing_is_posted(stubbed_dynamodb: Stubbed) -> None:
    stubbed_dynamodb.refuses("batch_get_item", "InternalServerError")
    messages = of_one_account(2)
    assert posted(stubbed_dynamodb, messages) == {"Posted": 0, "Rejected": 0, "Duplicates": 0, "Conflicts": 0}
    for message in messages:
        assert_failed(message, "InternalServerError")
    assert stubbed_dynamodb.operations == ["BatchGetItem"]


def test_without_time_nothing_is_posted(stubbed_dynamodb: Stubbed) -> None:
    messages = of_one_account(2)
    posted(stubbed_dynamodb, messages, seconds=-1)
    for message in messages:
        assert_failed(message, "DeadlinePassed")
    assert stubbed_dynamodb.operations == []


def test_without_messages_nothing_is_asked_for() -> None:
    measured = {each.metric: each.value for each in POSTER.post([], Deadline.after(1))}
    assert measured == {"Posted": 0, "Rejected": 0, "Duplicates": 0, "Conflicts": 0}


def test_an_error_between_the_two_sides_of_a_transfer_commits_neither(monkeypatch: pytest.MonkeyPatch) -> None:
    """The money of the first side would have gone nowhere."""
    staged = iter([batch_poster.entry_item])

    def second_fails(entry: Any) -> Any:
        for stage in staged:
            return stage(entry)
        raise OSError("between the two sides")

    monkeypatch.setattr(batch_poster, "entry_item", second_fails)
    plan = fold([transfer(30)], ALICE_AND_BOB)
    assert [type(disposition) for disposition in plan.dispositions] == [Again]
    assert (plan.writes, plan.observed) == ([], ALICE_AND_BOB)
