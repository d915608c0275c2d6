"""Controls through the function that posts, on both engines: what they leave on the account, and what they refuse."""

import pytest

from tests.checkers.books import violations
from tests.support.bodies import freeze, payment
from tests.support.ledger import Ledger
from tools.local_aws.server import Endpoint


@pytest.fixture
def ledger(aws: Endpoint, dynamodb: Endpoint) -> Ledger:
    return Ledger(aws, dynamodb)


def test_a_freeze_that_ended_leaves_nothing_on_the_account_and_others_attributes_stay(ledger: Ledger) -> None:
    ledger.open("alice")
    ledger.change_account(notes="of another program")
    ledger.post(freeze("f-1"), payment("t-1"))
    assert ledger.account_item()["frozen"] == {"debits": True, "credits": True}
    ledger.post(payment("t-2"), freeze("f-2", debits=False, credits=False), payment("t-3"))
    assert "frozen" not in ledger.account_item()
    assert ledger.account_item()["notes"] == "of another program"
    assert ledger.results("t-1", "t-2", "t-3") == ["ACCOUNT_FROZEN", "ACCOUNT_FROZEN", "POSTED"]
    assert not violations(ledger.books)
    ledger.change_account(frozen={"debits": "yes", "credits": True})
    assert ledger.returned(payment("t-4")), "nothing is decided on a damaged freeze"
