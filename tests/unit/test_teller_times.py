"""Times as the command reads and shows them, and bodies of messages that it looks for."""

import json
from datetime import UTC, datetime
from decimal import Decimal

import pytest
import typer

from tools.teller.plain import plain
from tools.teller.times import moment, shown
from tools.teller.transaction import is_about


@pytest.mark.parametrize(
    ("text", "utc"),
    [
        ("2026-11-01", "2026-11-01 00:00:00"),
        ("2026-11-01T12:30", "2026-11-01 12:30:00"),
        ("2026-11-01T00:30:00+01:00", "2026-10-31 23:30:00"),
        ("2026-11-01T12:30:00.999Z", "2026-11-01 12:30:00"),
    ],
)
def test_a_time_is_shown_in_utc(text: str, utc: str) -> None:
    assert shown(moment(text)) == utc


@pytest.mark.parametrize("text", ["", "yesterday", "2026-13-01", "0001-01-01T00:00:00+14:00", "12:30"])
def test_a_text_that_is_no_time_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="expected an ISO 8601 time, such as 2026-11-01"):
        moment(text)


@pytest.mark.parametrize(
    ("body", "is_so"),
    [
        ('{"transaction_id": "t-1", "account_id": "a"}', True),
        ('{"transaction_id": "t-1", "from_account_id": "b", "to_account_id": "a"}', True),
        ('{"transaction_id": "t-1", "account_id": "b"}', False),
        ('{"transaction_id": "t-11", "account_id": "a"}', False),
        ('{"transaction_id": "t-11", "account_id": "a", "description": "t-1"}', False),
        ('{"transaction_id": "t-1", "account_id": "a", "amount": 12,50}', True),
        ('{"transaction_id": "t-11", "account_id": "a", "amount": 12,50}', False),
        ('["t-1", "a"]', False),
        ("[" * 100_000, False),
        ("", False),
    ],
)
def test_a_message_is_about_a_transaction_by_both_ids(body: str, is_so: bool) -> None:
    assert is_about(body, "a", "t-1") == is_so


def test_a_number_that_json_would_round_is_a_text() -> None:
    exact = {"30": 30, "0.25": 0.25, "-7": -7, "1E+3": 1000}
    texts = ("12345678901234567890", "0.12345678901234567890123")
    assert {text: plain(Decimal(text)) for text in exact} == exact
    assert [plain(Decimal(text)) for text in texts] == list(texts)
    others = [Decimal(1), {"b"}, {Decimal(2)}, b"\xff", datetime(2026, 11, 1, tzinfo=UTC)]
    assert json.dumps(others, default=plain) == '[1, ["b"], [2], "ff", "2026-11-01T00:00:00+00:00"]'
