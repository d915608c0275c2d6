"""The message that charges an account for a day, and the setting of its rate."""

import hashlib
import json
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ledger.core.money import format_decimal
from ledger.core.reason_codes import InvalidMessage
from ledger.core.transaction_types import ChargeInterest, decode
from ledger.overdraft_interest import annual_rate_of
from tests.support.numbers import exact_numbers
from tests.support.samples import in_json, interest_body
from tests.support.strategies import exact_rates, ids
from tools.local_aws.functions import load_function
from tools.local_aws.server import Endpoint

DAY, RATE = date(2026, 2, 28), Decimal("0.12")


def test_a_charge_is_made_of_the_account_the_day_and_the_rate_alone() -> None:
    account_hash = hashlib.sha256(b"acc-1").hexdigest()[:16]
    assert ChargeInterest.of_day("acc-1", DAY, Decimal("0.120")).canonical_payload() == {
        "type": "charge_interest",
        "transaction_id": f"teller:overdraft-interest-2026-02-28-{account_hash}",
        "account_id": "acc-1",
        "annual_rate": "0.12",
        "occurred_at": "2026-02-28T00:00:00+00:00",
        "description": "Overdraft interest for 2026-02-28",
    }


def test_another_account_and_another_day_have_other_ids() -> None:
    charges = [ChargeInterest.of_day(name, DAY + timedelta(days), RATE) for name in ("a", "b") for days in (0, 1)]
    assert len({message.transaction_id for message in charges}) == 4


@given(ids, st.dates(), exact_rates())
def test_any_charge_gets_past_the_door(account_id: str, day: date, rate: Decimal) -> None:
    message = ChargeInterest.of_day(account_id, day, rate)
    body = json.dumps(message.canonical_payload())
    assert body.isascii()  # SQS accepts it for any account id.
    assert decode(body) == message
    assert message.occurred_at == datetime(day.year, day.month, day.day, tzinfo=UTC)


RANGE = 'annual_rate: expected a number above zero and at most 1, such as "0.12" for 12 %'
NO_RATES = ["12", "0", "-0.1", "12 %", ".12", "0.1_2", "\u0660.\u0661", "", "1e-99999999999999999999"]
SENTENCES = {
    **{setting: f"{RANGE}, got {setting!r}" for setting in NO_RATES},
    "x" * 1_000: f"{RANGE}, got '{'x' * 40}'",
    "NaN": "annual_rate: expected a finite decimal number",
    "0." + "1" * 39: "annual_rate: 39 digits, expected at most 38",
}


@pytest.mark.parametrize(("setting", "sentence"), SENTENCES.items())
def test_a_function_with_a_rate_that_is_none_does_not_start_and_says_why(setting: str, sentence: str) -> None:
    others = dict.fromkeys(["ACCOUNTS_TABLE", "LOCKS_TABLE", "ADMINISTRATION_QUEUE_URL"], "x")
    with pytest.raises(ValueError, match="annual_rate") as caught:
        load_function("charge_overdraft_interest", Endpoint("http://127.0.0.1:9"), others | {"ANNUAL_RATE": setting})
    assert str(caught.value) == sentence


@given(st.text() | exact_numbers().map(str) | exact_rates().map(str))
@example("-0")
@example("1.0")
@example("12e-2")
def test_a_setting_is_a_rate_exactly_when_a_message_may_have_it(setting: str) -> None:
    try:
        rate = annual_rate_of(setting)
    except ValueError:
        with pytest.raises(InvalidMessage):
            decode(interest_body(annual_rate=in_json(setting)))
    else:
        message = decode(interest_body(annual_rate=in_json(setting)))
        assert message.canonical_payload()["annual_rate"] == format_decimal(rate)
