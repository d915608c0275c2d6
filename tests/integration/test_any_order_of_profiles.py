"""Profiles whose writes arrive in any order, in any batches, and twice: they are what the oracle makes of the set."""

import itertools
import json
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from hypothesis import example, given, settings
from hypothesis import strategies as st

from conditional_writes.upserts import REMOVED
from tests.checkers.profile_oracle import (
    Path,
    Write,
    differences,
    living,
    most_bytes,
    removal_bytes,
    standing,
)
from tests.support.profile_table import Assumed, ProfileTable, Stored, time_is
from tests.support.reporting import Say
from tests.support.strategies import profile_writes
from tools.local_aws.server import Endpoint

LONG_AGO = datetime(1900, 1, 1, tzinfo=UTC)
AGE = timedelta(days=30)
UNTIDIED_BYTES = 1024
"""The clocks of removals that may wait for the tidying, beside as many as were needed at the last one."""
randoms = st.randoms(use_true_random=False)
_names = map(str, itertools.count(1))

in_fewer_examples = settings(max_examples=min(400, settings().max_examples // 3), deadline=None)


ENTRY = Write(("p", "x"), {"y": 1}, datetime(2026, 3, 1, 12, tzinfo=UTC))
INSIDE_OF_ITS_VALUE = ENTRY._replace(path=("p", "x", "y", "z"), value=1)


def batches(choose: random.Random, deliveries: Sequence[Any]) -> list[Sequence[Any]]:
    """The deliveries in their order, cut at random."""
    cuts = sorted(choose.choices(range(len(deliveries) + 1), k=choose.randint(0, len(deliveries))))
    return [deliveries[start:end] for start, end in itertools.pairwise([0, *cuts, len(deliveries)]) if start < end]


def twice_in_any_order(choose: random.Random, deliveries: Sequence[Any]) -> list[Any]:
    return choose.sample([*deliveries, *deliveries], 2 * len(deliveries))


def check(stored: Stored, writes: Sequence[Write], most: int) -> None:
    assert list(differences(standing(writes), stored.maps)) == []
    assert stored.bytes <= most, stored.item


def test_any_order_and_any_batches_make_the_same_profile(dynamodb: Endpoint) -> None:
    table = ProfileTable(dynamodb)

    @example([ENTRY, INSIDE_OF_ITS_VALUE], random.Random(1), Assumed.ALL)
    @in_fewer_examples
    @given(st.lists(profile_writes(), min_size=1, max_size=12), randoms, st.sampled_from(Assumed))
    def try_writes(writes: list[Write], choose: random.Random, assumed: Assumed) -> None:
        one_by_one, in_batches = next(_names), next(_names)
        for write in writes:
            table.write(one_by_one, [write])
        for batch in batches(choose, twice_in_any_order(choose, writes)):
            table.write(in_batches, batch, assumed)
        first, second = table.read(one_by_one), table.read(in_batches)
        for stored in (first, second):
            check(stored, writes, most_bytes(writes, LONG_AGO, stored.key_and_marks))
        assert first.without_counters == second.without_counters

    try_writes()


class Delivery(NamedTuple):
    write: Write
    at: datetime


@st.composite
def deliveries_over_months(draw: st.DrawFn) -> list[Delivery]:
    """Each write is delivered twice within the age. Long names make few removals enough for the tidying."""
    writes = draw(st.lists(profile_writes(months, removals=20), min_size=10, max_size=25))
    late = st.sampled_from([timedelta(), timedelta(), timedelta(microseconds=1), timedelta(days=15), AGE])
    deliveries = [
        Delivery(write._replace(path=tuple(name * 200 for name in write.path)), write.time + draw(late))
        for write in [*writes, *writes]
    ]
    return sorted(draw(st.permutations(deliveries)), key=lambda delivery: delivery.at)


REMOVALS = [
    Delivery(Write(("p", f"{number:0200}"), REMOVED, at), at)
    for number, at in enumerate(datetime(2026, 3, 1, 12, tzinfo=UTC) + AGE / 6 * number for number in range(30))
]
"""Of thirty entries in five months: most of them are forgotten, whatever else is generated."""

months = st.integers(0, 12).map(lambda number: datetime(2026, 3, 1, 12, tzinfo=UTC) + number * AGE / 2)


def batches_within_the_age(choose: random.Random, deliveries: Sequence[Delivery]) -> Iterator[list[Delivery]]:
    """Each batch is written at the time of its last delivery."""
    batch: list[Delivery] = []
    for delivery in deliveries:
        oldest = min((each.write.time for each in batch), default=delivery.at)
        if batch and (delivery.at - oldest > AGE or choose.random() < 0.7):
            yield batch
            batch = []
        batch.append(delivery)
    yield batch


def test_what_is_forgotten_is_not_missed_and_the_item_has_no_more_than_may_be_needed(
    dynamodb: Endpoint, say: Say
) -> None:
    table, counted = ProfileTable(dynamodb, forget_after=AGE), Counter[str]()

    @example(REMOVALS, random.Random(1), Assumed.AS_LEARNED)
    @in_fewer_examples
    @given(deliveries_over_months(), randoms, st.sampled_from(Assumed))
    def try_deliveries(deliveries: list[Delivery], choose: random.Random, assumed: Assumed) -> None:
        name, writes, most_needed = next(_names), list[Write](), 0
        for batch in batches_within_the_age(choose, deliveries):
            now, new = batch[-1].at, [delivery.write for delivery in batch]
            with time_is(now):
                table.write(name, new, assumed)
            writes += new
            stored, oldest = table.read(name), now - AGE
            most_needed = max(most_needed, removal_bytes(writes, oldest))
            untidied = most_needed + UNTIDIED_BYTES + removal_bytes(new, LONG_AGO)
            check(stored, writes, most_bytes(writes, oldest, stored.key_and_marks) + untidied)
        counted["profiles"] += 1
        remembered = {path for path, clock in clocks(stored) if " " not in clock}
        counted["removals"] += len(gone := {write.path for write in living(writes) if write.value is REMOVED})
        counted["forgotten removals"] += len(gone - remembered)

    try_deliveries()
    say(", ".join(f"{number:,} {what}" for what, number in counted.items()))
    assert counted["forgotten removals"] > len(REMOVALS) / 2, "the test tidies"


def clocks(stored: Stored) -> list[tuple[Path, str]]:
    return [
        ((*json.loads(attribute.removeprefix("cw:as_of ")), name), clock)
        for attribute, of_map in stored.clocks.items()
        for name, clock in of_map.items()
    ]
