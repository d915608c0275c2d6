"""The message that charges the interest that was due at the end of a month."""

import hashlib
import json
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from ledger.overdraft_interest import charge, last_month_end
from tests.support.strategies import ids

MONTH_END = datetime(2026, 3, 1, tzinfo=UTC)


def test_a_charge_is_made_of_the_account_and_the_months_end_alone() -> None:
    account_hash = hashlib.sha256(b"acc-1").hexdigest()[:16]
    assert charge("acc-1", MONTH_END).canonical_payload() == {
        "type": "charge_interest",
        "transaction_id": f"teller:overdraft-interest-2026-03-01-{account_hash}",
        "account_id": "acc-1",
        "until": "2026-03-01T00:00:00+00:00",
        "description": "Overdraft interest until 2026-03-01",
    }


def test_another_account_and_another_month_have_other_ids() -> None:
    charges = [charge(name, MONTH_END + timedelta(days)) for name in ("a", "b") for days in (0, 31)]
    assert len({message.transaction_id for message in charges}) == 4


@given(ids, st.dates())
def test_any_charge_gets_past_the_door(account_id: str, day: datetime) -> None:
    month_end = last_month_end(datetime(day.year, day.month, day.day, 23, 59, tzinfo=UTC))
    message = charge(account_id, month_end)
    assert json.dumps(message.canonical_payload()).isascii()  # SQS accepts it for any account id.
    assert message.until == datetime(day.year, day.month, 1, tzinfo=UTC)


def test_the_last_months_end_is_in_utc() -> None:
    assert last_month_end(datetime.fromisoformat("2026-03-01T01:30:00+02:00")) == datetime(2026, 2, 1, tzinfo=UTC)
    assert last_month_end(MONTH_END) == MONTH_END
