"""The examples of docs/messages.md, with the numbers that they have."""

import json
import re
from collections.abc import Iterator
from decimal import Decimal

import pytest
from msgspec.structs import replace

from ledger.core.accounts import Account, AccountStatus
from ledger.core.reason_codes import InvalidMessage
from ledger.core.rules import RejectionReason
from ledger.core.transaction_types import ChargeInterest, ExpireHold, Hold, decode
from ledger.core.transaction_types.base import Context
from ledger.core.values import format_decimal
from ledger.hold_expiry import expire
from ledger.overdraft_interest import charge
from tests.checkers.books import Books
from tests.checkers.small_books import post
from tests.support.samples import payment
from tools.local_aws.server import PROJECT

PAGE = (PROJECT / "docs" / "messages.md").read_text()
SAMPLES = re.findall(r"^```json\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
ACCOUNT = Account("acc-1", Decimal(0), Decimal(0), "EUR", AccountStatus.OPEN, 1, decimal_places=2)


def rows(header: str) -> Iterator[list[str]]:
    """The cells of the rows under this header."""
    [table] = re.findall(rf"^{re.escape(header)}\n\|[-|]+\n((?:\|.*\n)+)", PAGE, re.MULTILINE)
    for row in table.splitlines():
        yield [cell.strip() for cell in row.strip("|").split("|")]


def test_the_holds_and_reversals_in_use_end_as_the_page_says() -> None:
    books, seen = Books({"acc-1": replace(ACCOUNT, balance=Decimal(150))}, {}), []
    for message, *expected in rows("| message | outcome | balance | held | available |"):
        body = json.loads(message.strip("`"), parse_float=Decimal)
        books = post(books, json.dumps(body | {"account_id": "acc-1"}, default=str))
        account, outcome = books.accounts["acc-1"], books.journal["acc-1"][-1].outcome
        amounts = map(format_decimal, (account.balance, account.held, account.available))
        seen.append(outcome.reason or outcome.status)
        assert [seen[-1], *amounts] == expected, message
    assert {"POSTED", "HOLD_EXCEEDED", "HOLD_NOT_OPEN", "ALREADY_REVERSED", "REVERSAL_EXCEEDED"} < set(seen)


def test_the_sample_of_an_expiry_is_what_the_job_sends_for_the_sample_of_a_hold() -> None:
    samples = {type(message): message for message in map(decode, SAMPLES)}
    hold, expiry = samples[Hold], samples[ExpireHold]
    assert isinstance(hold, Hold)
    assert hold.expires_at
    assert expiry == expire(hold.account_id, hold.transaction_id, hold.expires_at)


def test_the_sample_of_a_charge_is_what_the_job_sends() -> None:
    [sample] = [each for each in map(decode, SAMPLES) if isinstance(each, ChargeInterest)]
    assert sample == charge(sample.account_id, sample.until)


def test_a_debit_leaves_what_is_held_as_the_page_says() -> None:
    """For a balance of 20 and a limit of -100: 120, and 70 if 50 are held."""
    account = replace(ACCOUNT, balance=Decimal(20), overdraft_limit=Decimal(-100))
    for held, most in ((0, "120"), (50, "70")):
        assert f"a debit of {most} is posted and one of {most}.01 is rejected" in " ".join(PAGE.split())
        for amount, reason in ((most, None), (f"{most}.01", RejectionReason.OVERDRAFT_LIMIT)):
            [decision] = payment(f"-{amount}").decide([replace(account, held=Decimal(held))], Context())
            assert decision.reason == reason


def test_the_sentence_about_too_many_decimals_is_the_pages() -> None:
    with pytest.raises(InvalidMessage) as caught:
        payment("0.001").decide([ACCOUNT], Context())
    assert f"\n{caught.value}\n" in PAGE
