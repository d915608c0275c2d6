"""`teller account`, `statement`, `transaction` and `profile` on the deployed stack."""

from tests.support.command import Command
from tests.support.deployed import Bank


def test_an_account_is_shown_to_people_and_to_programs(bank: Bank) -> None:
    command = Command(bank.stack)
    bank.transactions.send(
        ['{"type": "open_account", "transaction_id": "o-1", "account_id": "teller-1", "currency": "EUR"}']
    )
    bank.transactions.wait_until_drained()
    assert command.json("account", "teller-1")["balance"] == "0"
    assert "EUR" in command.shown("account", "teller-1")


def test_an_unknown_account_is_a_sentence_and_a_status(bank: Bank) -> None:
    ended = Command(bank.stack).run("account", "teller-nobody")
    assert (ended.status, ended.out) == (1, "")
    assert "no account 'teller-nobody' has been opened" in ended.err
    assert Command(bank.stack).json("account", "teller-nobody", status=1)["error"]["code"] == "NOT_FOUND"
