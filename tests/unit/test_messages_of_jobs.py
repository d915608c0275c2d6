"""The messages that charge the interest due at a month's end, and that release an expired hold."""

import hashlib
import json
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from ledger.core.accounts import account_item
from ledger.core.interest import Interest
from ledger.core.transaction_types import decode
from ledger.hold_expiry import expire
from ledger.overdraft_interest import charge, charges, last_month_end
from ledger.sending_job import SkippedAccount
from tests.support.folding import fold
from tests.support.samples import ALICE, hold, importing
from tests.support.strategies import ids

MONTH_END = datetime(2026, 3, 1, tzinfo=UTC)
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


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


def test_the_last_months_end_is_in_utc() -> None:
    assert last_month_end(datetime.fromisoformat("2026-03-01T01:30:00+02:00")) == datetime(2026, 2, 1, tzinfo=UTC)
    assert last_month_end(MONTH_END) == MONTH_END


def test_a_message_is_made_of_the_account_the_hold_and_its_expiry_alone() -> None:
    hold_hash = hashlib.sha256(b'["acc-1", "h-1", "2026-03-01T12:00:00+00:00"]').hexdigest()[:32]
    here = NOON.astimezone(timezone(timedelta(hours=5)))
    for expires_at in (NOON, here):
        assert expire("acc-1", "h-1", expires_at).canonical_payload() == {
            "type": "expire_hold",
            "transaction_id": f"teller:expire-hold-{hold_hash}",
            "account_id": "acc-1",
            "hold_id": "h-1",
            "as_of": "2026-03-01T12:00:00+00:00",
            "description": "The hold has expired",
        }


@given(ids, ids, st.datetimes(timezones=st.just(UTC)))
def test_a_message_is_what_the_queues_function_decodes(account_id: str, hold_id: str, time: datetime) -> None:
    month_end = last_month_end(time)
    assert month_end == datetime(time.year, time.month, 1, tzinfo=UTC)
    for message in (expire(account_id, hold_id, time), charge(account_id, month_end)):
        assert decode(json.dumps(message.canonical_payload())) == message


def test_ids_that_join_to_the_same_text_are_told_apart() -> None:
    pairs = [("a", "bc"), ("ab", "c"), ('a", "b', "c"), ("a", 'b", "c'), ("a b", "c"), ("a", "b c")]
    assert len({expire(*pair, NOON).transaction_id for pair in pairs}) == len(pairs)


def test_a_hold_with_the_id_of_an_imported_one_expires_too() -> None:
    later = NOON + timedelta(days=1)
    imported = importing(9, holds={"h-1": {"amount": "5", "expires_at": NOON.isoformat()}})
    messages = [imported, expire("alice", "h-1", NOON), hold(7, expires_at=later), expire("alice", "h-1", later)]
    assert [each.status for each in fold(messages).outcomes] == ["POSTED"] * 4
