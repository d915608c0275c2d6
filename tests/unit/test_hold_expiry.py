"""The message that releases an expired hold."""

import hashlib
import json
from datetime import UTC, datetime, timedelta, timezone

from hypothesis import given
from hypothesis import strategies as st

from ledger.core.transaction_types import decode
from ledger.hold_expiry import expire
from tests.support.folding import fold
from tests.support.samples import hold, importing
from tests.support.strategies import ids

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


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
def test_a_message_is_what_the_queues_function_decodes(account_id: str, hold_id: str, expires_at: datetime) -> None:
    message = expire(account_id, hold_id, expires_at)
    assert decode(json.dumps(message.canonical_payload())) == message
    assert (message.account_id, message.hold_id, message.as_of) == (account_id, hold_id, expires_at)


def test_ids_that_join_to_the_same_text_are_told_apart() -> None:
    pairs = [("a", "bc"), ("ab", "c"), ('a", "b', "c"), ("a", 'b", "c'), ("a b", "c"), ("a", "b c")]
    assert len({expire(*pair, NOON).transaction_id for pair in pairs}) == len(pairs)


def test_a_hold_with_the_id_of_an_imported_one_expires_too() -> None:
    later = NOON + timedelta(days=1)
    imported = importing(9, holds={"h-1": {"amount": "5", "expires_at": NOON.isoformat()}})
    messages = [imported, expire("alice", "h-1", NOON), hold(7, expires_at=later), expire("alice", "h-1", later)]
    assert [each.status for each in fold(messages).outcomes] == ["POSTED"] * 4
