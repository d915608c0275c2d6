"""Checkpoints of accounts: the days on which a whole journal is due, and items that are no checkpoints."""

import hashlib
import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import date, timedelta
from decimal import Decimal
from types import SimpleNamespace
from typing import Any, cast
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from conditional_writes import Deadline, DeadlinePassed, Item, key
from conditional_writes.core.items import from_dynamodb
from conditional_writes.core.unconditional import MAXIMUM_BATCH_WRITES
from ledger.checkpoints import CYCLE_DAYS, Checkpoint, Checkpoints, key_of
from ledger.core.accounts import account_item
from ledger.core.totals import HashTree
from tests.support.samples import ALICE
from tests.support.strategies import ids, nested

FIRST_DAY = date(2026, 3, 1)
MANY = [hashlib.sha256(str(number).encode()).hexdigest() for number in range(2_000)]
days = st.dates(date(2000, 1, 1), date(2100, 1, 1))


def after(number: int, day: date = FIRST_DAY) -> date:
    return day + timedelta(number)


def checkpoint(account_id: str, whole_on: date) -> Checkpoint:
    return Checkpoint(replace(ALICE, account_id=account_id), whole_on, HashTree(ALICE.version, ("a", "b", "c")))


def whole_days(account_id: str, added_on: date, nights: Iterable[date]) -> Iterator[date]:
    """The days of the account's whole replays. The one on which it was added is the first."""
    last = checkpoint(account_id, added_on)
    yield added_on
    for night in nights:
        if last.is_whole_due(night):
            last = last._replace(whole_on=night)
            yield night


@given(ids, days, st.lists(st.integers(0, 70), max_size=60))
def test_whatever_nights_are_left_out_or_come_twice_a_journal_of_thirty_days_ago_is_due(
    account_id: str, day: date, gaps: Sequence[int]
) -> None:
    last = checkpoint(account_id, day)
    for gap in gaps:
        day = after(gap, day)
        is_due = last.is_whole_due(day)
        assert is_due or (day - last.whole_on).days < CYCLE_DAYS
        if is_due:
            last = last._replace(whole_on=day)
        assert not last.is_whole_due(day), "it was just replayed"


@pytest.mark.parametrize("every_days", [1, 10])
@pytest.mark.parametrize("added", ["at once", "bit by bit"])
def test_each_night_has_its_share_of_the_accounts_however_many_days_are_between(every_days: int, added: str) -> None:
    """At once: as an event with `"whole": true` does, too."""
    counts: Counter[date] = Counter()
    nights = [after(number) for number in range(0, 120, every_days)]
    for number, account_id in enumerate(MANY):
        added_on = FIRST_DAY if added == "at once" else nights[number % len(nights) // 4]
        counts.update(list(whole_days(account_id, added_on, (night for night in nights if night > added_on)))[1:])
    share = len(MANY) * every_days / CYCLE_DAYS
    last_ones = [counts[night] for night in nights if night >= after(60)]
    assert 0.6 * share < min(last_ones) <= max(last_ones) < 1.4 * share
    assert max(counts.values()) < 1.4 * share


@given(ids, days, st.integers(1, 100_000))
def test_a_day_in_the_future_is_due(account_id: str, day: date, ahead: int) -> None:
    assert checkpoint(account_id, after(ahead, day)).is_whole_due(day)
    assert not checkpoint(account_id, day).is_whole_due(day)


scalars = st.none() | st.booleans() | st.text() | st.binary() | st.decimals(allow_nan=False, allow_infinity=False)
anything = nested(scalars, max_leaves=5)
SOUND: Item = account_item(ALICE) | {"version": Decimal(ALICE.version), "whole_on": "2026-03-01"}
SOUND |= {"peaks": ["a", "b", "c"]}


def read_back(item: Item) -> Checkpoint | None:
    """The checkpoint that is read if the table has this item."""
    table = Checkpoints(cast("Any", None), "checkpoints")
    name = item["account_id"]
    with mock.patch("ledger.checkpoints.read", return_value={key("checkpoints", **key_of(name)): item}):
        return table.read([name], Deadline.after(1)).get(name)


@given(st.sampled_from([name for name in SOUND if name != "account_id"]), anything)
def test_a_damaged_item_is_none_or_another_checkpoint_and_never_an_error(name: str, value: Any) -> None:
    assert read_back(SOUND) == checkpoint(ALICE.account_id, FIRST_DAY)
    read_back(SOUND | {name: value})
    assert read_back({other: value for other, value in SOUND.items() if other != name}) is None


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("whole_on", ["", "yesterday", "2026-02-30", Decimal(20260301), None, ["2026-03-01"], {}]),
        *(("balance", ["1", None, True]), ("version", ["1", Decimal("1.5"), None])),
        ("peaks", ["abc", None, [], ["a", "b"], ["a", "b", Decimal(1)], ["a"] * 4]),
        *(("status", ["SLEEPING", ["OPEN"]]), ("currency", [Decimal(1)]), ("posted_at", [Decimal(1)])),
    ],
)
def test_a_damaged_item_is_no_checkpoint(name: str, values: list[Any]) -> None:
    assert [read_back(SOUND | {name: value}) for value in values] == [None] * len(values)


@pytest.fixture
def no_handlers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A table that is no client of botocore's takes none."""
    monkeypatch.setattr("conditional_writes.core.steps.prepare", lambda *_, **__: None)


def refusing(numbers: Iterator[int]) -> tuple[Any, dict[str, Item | None]]:
    """A table of which each request refuses its first items, so many of these numbers; and what is written."""
    items: dict[str, Item | None] = {}

    def batch_write_item(RequestItems: dict[str, list[Any]]) -> Any:  # noqa: N803 (botocore's name)
        [(name, requests)] = RequestItems.items()
        assert len(requests) <= MAXIMUM_BATCH_WRITES
        number = next(numbers)
        for request in requests[number:]:
            item = request.get("PutRequest", {}).get("Item")
            at = request["DeleteRequest"]["Key"] if item is None else item
            items[at["account_hash"]["S"]] = item and from_dynamodb(item)
        return {"UnprocessedItems": {name: requests[:number]} if number else {}}

    return SimpleNamespace(batch_write_item=batch_write_item), items


@pytest.mark.parametrize("refused", [0, 1, 24])
@pytest.mark.usefixtures("clock", "no_handlers")
def test_all_checkpoints_are_written_though_a_part_is_refused(refused: int) -> None:
    table, items = refusing(itertools.chain([refused] * 3, itertools.repeat(0)))
    wanted = {name: checkpoint(name, FIRST_DAY) if number % 3 else None for number, name in enumerate(MANY[:60])}
    Checkpoints(table, "checkpoints").write(wanted, Deadline.after(5))
    by_hash = {key_of(name)["account_hash"]: each for name, each in wanted.items()}
    assert {name: item and read_back(item) for name, item in items.items()} == by_hash


@pytest.mark.usefixtures("clock", "no_handlers")
def test_checkpoints_that_are_refused_for_ever_are_an_error_in_time() -> None:
    table, _ = refusing(itertools.repeat(MAXIMUM_BATCH_WRITES))
    with pytest.raises(DeadlinePassed, match="saving the checkpoints"):
        Checkpoints(table, "checkpoints").write({"alice": None}, Deadline.after(30))
