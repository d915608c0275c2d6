"""Double entry through the function that posts, on both engines: no amount is on one account alone."""

from types import ModuleType

import pytest

from tests.support.bodies import (
    Body,
    compound,
    hold,
    interest,
    opening,
    openings,
    payment,
    post_hold,
    reverse,
    transfer,
)
from tests.support.ledger import Ledger
from tests.support.samples import IMPORTED
from tools.local_aws.server import Endpoint


@pytest.fixture
def ledger(aws: Endpoint, dynamodb: Endpoint) -> Ledger:
    """Alice has 100 by a single-sided payment of before, and 20 of them are held."""
    ledger = Ledger(aws, dynamodb)
    ledger.post(*openings("alice", "bob", "fees"), opening("outside", "-1000"), payment("before", 100), hold("h-1", 20))
    return ledger


@pytest.fixture
def strict(ledger: Ledger) -> ModuleType:
    """The function that posts, with the parameter on."""
    return ledger.another_worker(DOUBLE_ENTRY="on")


IMPORT: Body = {"type": "import_account", "transaction_id": "i", "account_id": "carol"} | IMPORTED
ONE_SIDED: dict[str, Body] = {
    "type: expected a transfer or a compound": payment("t-1", 5),
    "to_account_id: expected one, or legs": post_hold(),
    "of_transaction_id: expected a transaction of several accounts": reverse("r-1", None, "alice", "before"),
    "to_account_id: expected one": interest(),
    "balance: expected 0": IMPORT,
}


def test_what_has_one_side_alone_is_refused_with_a_sentence_and_changes_nothing(
    ledger: Ledger, strict: ModuleType
) -> None:
    before = ledger.books
    ledger.post(*ONE_SIDED.values(), worker=strict)
    reasons = {letter.reason for letter in ledger.dead_letters()}
    assert reasons == {f"{each}: in double entry no amount is on one account alone" for each in ONE_SIDED}
    assert ledger.books == before


def test_what_has_its_other_side_is_posted_and_a_repetition_gets_its_first_answer(
    ledger: Ledger, strict: ModuleType
) -> None:
    legs = [{"account_id": "bob", "amount": "15"}, {"account_id": "fees", "amount": "1"}]
    messages = [
        transfer("t-1", 50, "outside", "bob"),
        compound("c-1", bob=-10, alice=9, fees=1),
        post_hold(legs=legs),
        reverse("r-1", None, "fees", "c-1", of_account_id="bob"),
        interest(to_account_id="fees"),
        payment("before", 100),
        IMPORT | {"balance": 0},
    ]
    ledger.post(*messages, worker=strict)
    assert ledger.dead_letters() == []
    assert sum(account.balance for account in ledger.books.accounts.values()) == 100
    assert ledger.books.accounts["bob"].balance == 65
