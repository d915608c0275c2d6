"""The message that charges the interest that was due at the end of a month."""

import hashlib
import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from ledger.core.accounts import account_item
from ledger.core.interest import Interest
from ledger.overdraft_interest import charge, charges, last_month_end
from ledger.sending_job import SkippedAccount
from tests.support.samples import ALICE
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


def test_the_interest_of_a_currency_goes_to_its_own_account() -> None:
    payee = replace(ALICE, currency="CHF", account_id="interest-CHF")
    accounts = [replace(each, interest=Interest(due=Decimal(3))) for each in (replace(payee, account_id="a"), payee)]
    [message] = charges(account_item(accounts[0]), MONTH_END, "interest-{currency}")
    assert message.to_account_id == "interest-CHF"
    assert message == message.of_job
    with pytest.raises(SkippedAccount, match=r"to_account_id: expected another account than account_id"):
        charges(account_item(accounts[1]), MONTH_END, "interest-{currency}")


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
