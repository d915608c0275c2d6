"""The message that releases an expired hold, the holds that have expired, and holds that others damaged."""

import hashlib
import json
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.core.accounts import account_item
from ledger.core.holds import MOST_OPEN_HOLDS, OpenHold, expiry
from ledger.core.transaction_types import decode
from ledger.hold_expiry import WITH_HOLDS, expire, expiries
from ledger.sending_job import SkippedAccount
from ledger.table_reading import TablePage, account_page
from tests.support.samples import alice
from tests.support.strategies import ids
from tests.unit.stubs import Stubbed

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
INSTANT = timedelta(microseconds=1)


@pytest.mark.parametrize(("after", "last"), [(None, "acc-7"), ("acc-7", None)], ids=["first page", "last page"])
def test_a_page_of_accounts_is_one_strongly_consistent_request(
    stubbed_dynamodb: Stubbed, after: str | None, last: str | None
) -> None:
    answer = {"Items": [{"account_id": {"S": "acc-5"}}]}
    stubbed_dynamodb.answers("scan", answer | ({"LastEvaluatedKey": {"account_id": {"S": last}}} if last else {}))
    page = account_page(stubbed_dynamodb.client, "Accounts", after, 200, **WITH_HOLDS)
    assert page == TablePage([{"account_id": "acc-5"}], last)
    [parameters] = stubbed_dynamodb.parameters
    start = {"ExclusiveStartKey": {"account_id": {"S": after}}} if after else {}
    assert parameters == {"TableName": "Accounts", "Limit": 200, "ConsistentRead": True} | WITH_HOLDS | start


def test_a_message_is_made_of_the_account_the_hold_and_its_expiry_alone() -> None:
    hold_hash = hashlib.sha256(b'["acc-1", "h-1"]').hexdigest()[:32]
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
def test_a_message_is_what_the_queues_function_decodes(account_id: str, hold_id: str, expires_at: datetime) -> None:
    message = expire(account_id, hold_id, expires_at)
    assert decode(json.dumps(message.canonical_payload())) == message
    assert (message.account_id, message.hold_id, message.as_of) == (account_id, hold_id, expires_at)


def test_ids_that_join_to_the_same_text_are_told_apart() -> None:
    pairs = [("a", "bc"), ("ab", "c"), ('a", "b', "c"), ("a", 'b", "c'), ("a b", "c"), ("a", "b c")]
    assert len({expire(*pair, NOON).transaction_id for pair in pairs}) == len(pairs)


def account(holds: dict[str, datetime | None]) -> dict[str, Any]:
    """An account's item with these holds, as the ledger writes it."""
    return account_item(alice(holds={name: OpenHold(Decimal(1), expiry(at)) for name, at in holds.items()}))


def test_the_holds_that_have_expired_by_now_are_released_and_no_others() -> None:
    here = NOON.astimezone(timezone(timedelta(hours=-5)))
    holds = {"past": NOON - timedelta(days=400), "just": here, "soon": NOON + INSTANT, "never": None}
    assert {message.hold_id for message in expiries(account(holds), NOON)} == {"past", "just"}
    assert {message.hold_id for message in expiries(account(holds), NOON - INSTANT)} == {"past"}
    assert expiries(account({}), NOON) == []


def test_however_many_holds_an_item_has_its_messages_are_bounded() -> None:
    holds = {f"h-{number}": NOON for number in range(500)}
    assert len(expiries(account(holds), NOON)) == MOST_OPEN_HOLDS


GOOD = {"remaining": Decimal(1), "expires_at": "2026-03-01T12:00:00+00:00"}
DAMAGED: dict[str, Any] = {
    "nothing": None,
    "no map": "h-1",
    "a list": [GOOD],
    "a hold that is a text": {"h-1": GOOD, "h-2": "2026-03-01"},
    "a hold without an amount": {"h-1": GOOD, "h-2": {"expires_at": GOOD["expires_at"]}},
    "an amount that is a text": {"h-1": GOOD | {"remaining": "1"}},
    "an expiry that is a number": {"h-1": GOOD | {"expires_at": Decimal(1)}},
    "an expiry that is no time": {"h-1": GOOD | {"expires_at": "soon"}},
    "an expiry without an offset": {"h-1": GOOD | {"expires_at": "2026-03-01T12:00:00"}},
    "an expiry without a date in UTC": {"h-1": GOOD | {"expires_at": "0001-01-01T00:00:00+01:00"}},
    "a hold's id that no message may have": {"h" * 129: GOOD},
}


@pytest.mark.parametrize("holds", DAMAGED.values(), ids=DAMAGED)
def test_damaged_holds_are_told_from_good_ones(holds: Any) -> None:
    with pytest.raises(SkippedAccount) as raised:
        expiries({"account_id": "acc-1"} | ({"holds": holds} if holds else {}), NOON)
    assert 10 < len(str(raised.value)) <= 1000
