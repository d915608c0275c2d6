"""Units and requests of holds and reversals, as the pages have them, and the bytes of open holds."""

import itertools
import uuid
from decimal import Decimal
from types import ModuleType
from typing import Any

import pytest
from msgspec.structs import replace

from conditional_writes.sizes import item_bytes
from ledger.core.accounts import Account, AccountStatus, account_item
from ledger.core.holds import MOST_OPEN_HOLDS, OpenHold, total
from tools.local_aws.functions import invoke, process_transactions, record
from tools.local_aws.meter import Meter
from tools.local_aws.server import PROJECT, Endpoint
from tools.local_aws.tables import create_tables

HOLDS_PAGE = (PROJECT / "docs" / "decisions" / "holds.md").read_text()
COSTS_PAGE = (PROJECT / "docs" / "operations.md").read_text()
_numbers = itertools.count(1)
NOON = "2026-02-28T12:00:00.000+00:00"


def on_alice(kind: str | None, transaction_id: str, **fields: Any) -> dict[str, Any]:
    typed = {"type": kind} if kind else {}
    return typed | {"transaction_id": transaction_id, "account_id": "alice"} | fields


def hold(transaction_id: str) -> dict[str, Any]:
    return on_alice("hold", transaction_id, amount="12.34", expires_at="2026-03-05T12:00:00Z")


def posting(transaction_id: str, of: str, **fields: Any) -> dict[str, Any]:
    return on_alice("post_hold", transaction_id, hold_id=of, **fields)


def reversal(transaction_id: str, of: str, **fields: Any) -> dict[str, Any]:
    return on_alice("reverse", transaction_id, of_transaction_id=of, **fields)


class Counted:
    """The function that posts, and the units and requests of a batch."""

    def __init__(self, function: ModuleType) -> None:
        self.function, self.meter = function, Meter(function.poster.client)
        opening = {"type": "open_account", "transaction_id": "open", "currency": "EUR"}
        credit = {"transaction_id": "credit", "account_id": "alice", "amount": 5_000}
        transfer = {"from_account_id": "alice", "to_account_id": "bob", "amount": 5}
        self.post(opening | {"account_id": "alice"}, opening | {"account_id": "bob"}, credit)
        self.post({"type": "transfer", "transaction_id": "transfer"} | transfer)

    def post(self, *messages: dict[str, Any]) -> tuple[float, int]:
        """The write units of the batch, and its reads. It is one commit."""
        self.meter.reset()
        assert not invoke(self.function, [record(message) for message in messages])
        return self.meter.write_units, self.meter.requests["BatchGetItem"]


@pytest.fixture
def counted(ministack: Endpoint) -> Counted:
    """On the engine that reports the units of a commit."""
    return Counted(process_transactions(ministack, create_tables(ministack, f"holds-{next(_numbers)}")))


def test_a_hold_costs_what_a_transaction_costs(counted: Counted) -> None:
    assert counted.post(on_alice(None, "payment", amount=-1)) == (5, 1)
    assert counted.post(hold("h-1")) == (5, 1)
    assert counted.post(posting("p-1", "h-1", amount=2, final=False)) == (5, 1)
    assert counted.post(on_alice("void_hold", "v-1", hold_id="h-1")) == (5, 1)
    assert counted.post(hold("h-2"), posting("p-2", "h-2")) == (8, 1)
    counted.post(hold("h-3"))
    assert counted.post(posting("p-3", "h-3", to_account_id="bob")) == (10, 1)
    assert counted.post(on_alice("void_hold", "v-3", hold_id="h-3")) == (5, 2)  # Not open: its entry is read.
    assert "| a hold, a posting without a payee, a voiding, an expiry | those of a transaction |" in COSTS_PAGE


def test_a_reversal_costs_two_units_more_than_a_transaction_and_a_rejected_one_as_much(counted: Counted) -> None:
    assert counted.post(reversal("r-1", "credit", amount=5)) == (7, 1)
    assert counted.post(reversal("r-2", "credit", amount=5_000)) == (7, 1)  # Rejected.
    units, reads = counted.post(reversal("r-3", "transfer", amount=1))
    assert (units, reads <= 3) == (12, True)
    units, reads = counted.post(reversal("r-4", "transfer", amount=1) | {"account_id": "bob"})
    assert (units, reads <= 3) == (12, True)
    assert "| a reversal alone | 7; of a transfer 12." in COSTS_PAGE


def test_open_holds_take_the_bytes_and_units_that_the_pages_say(counted: Counted) -> None:
    assert f"at most {MOST_OPEN_HOLDS}" in HOLDS_PAGE
    for number, id_letters in ((0, 36), (MOST_OPEN_HOLDS, 36), (MOST_OPEN_HOLDS, 128)):
        assert f" {_bytes_with(number, id_letters):,}" in HOLDS_PAGE
    assert "from the tenth hold on" in HOLDS_PAGE
    found = [counted.post(hold(str(uuid.UUID(int=number)))) for number in range(MOST_OPEN_HOLDS)]
    assert found == [(5, 1)] * 9 + [(7, 1)] * 11
    assert counted.post(on_alice(None, "payment", amount=-1)) == (7, 1)


def _bytes_with(number: int, id_letters: int) -> int:
    """The size of an account's item with so many open holds."""
    holds = {
        f"{index:0{id_letters}}": OpenHold(Decimal("1234.56"), "2026-03-05T12:00:00+00:00") for index in range(number)
    }
    account = Account(
        36 * "a", Decimal("12345.67"), Decimal(-500), "EUR", AccountStatus.OPEN, 1234, NOON, decimal_places=2
    )
    if holds:
        account = replace(account, holds=holds, held=total(holds))
    return item_bytes(account_item(account) | {"cw:version_id": 26 * "x"})
