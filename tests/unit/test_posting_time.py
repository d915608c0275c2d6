"""The time that a transaction is posted at: it never goes back on an account."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given

from ledger.core.accounts import CLOCK_SKEW, Account, posting_time, time_of, timestamp
from tests.support.samples import ALICE, BOB, NOW, alice, changed
from tests.support.strategies import times

AT = datetime.fromisoformat(NOW)
MILLISECOND = timedelta(milliseconds=1)
TOO_FAR = ["2026-01-31T12:05+14:00", "9999-12-31T23:59:59-23:59", "0001-01-01T00:00:00+14:00"]


def posted(after: timedelta, account: Account = ALICE) -> Account:
    """The account, last posted to this long after `AT`."""
    return changed(account, posted_at=timestamp(AT + after))


@pytest.mark.parametrize("ahead", [MILLISECOND, CLOCK_SKEW])
def test_it_is_the_last_ones_if_another_workers_clock_is_ahead(ahead: timedelta) -> None:
    assert posting_time(AT, [posted(ahead)]) == timestamp(AT + ahead)
    assert posting_time(AT, [ALICE, posted(ahead)]) == timestamp(AT + ahead)
    assert posting_time(AT, [posted(ahead), posted(MILLISECOND, BOB)]) == timestamp(AT + ahead)


@pytest.mark.parametrize("last", ["", "yesterday", "2026-01-31T12:00:00.5", "2026-01-31T12:05", *TOO_FAR])
def test_a_time_that_is_too_far_ahead_or_damaged_does_not_count(last: str) -> None:
    assert posting_time(AT, [alice(posted_at=last)]) == NOW
    assert posting_time(AT, [posted(CLOCK_SKEW + MILLISECOND)]) == NOW
    both = [alice(posted_at=last), posted(MILLISECOND, BOB)]
    assert posting_time(AT, both) == timestamp(AT + MILLISECOND)


@given(times, times)
def test_texts_sort_by_time(one: datetime, other: datetime) -> None:
    def milliseconds(time: datetime) -> int:
        return (time - datetime(1, 1, 1, tzinfo=UTC)) // MILLISECOND

    assert (timestamp(one) < timestamp(other)) == (milliseconds(one) < milliseconds(other))
    assert milliseconds(time_of(timestamp(one)) or other) == milliseconds(one)
