"""The function read_accounts of the deployed template.yaml, on a local AWS that enforces IAM."""

from typing import Any

from tests.support.bodies import opening, payment
from tests.support.deployed import Bank


def read(bank: Bank, **request: Any) -> dict[str, Any]:
    return bank.invoke(bank.stack["ReadAccountsFunctionName"], request)


def test_a_statement_right_after_the_posting_has_it(bank: Bank) -> None:
    bank.transactions.process(opening("reader"))
    bank.transactions.process(payment("t-1", "12.50", "reader"))
    answer = read(bank, read="statement", account_id="reader", last=10)
    shown = [(entry["transaction_id"], entry["balance_after"]) for entry in answer["entries"]]
    assert (shown, answer["complete"]) == ([("open", "0"), ("t-1", "12.5")], True)
    assert read(bank, read="balance", account_id="reader", at="2100-01-01T00:00:00Z")["balance"] == "12.5"
    entry = read(bank, read="transaction", account_id="reader", transaction_id="t-1")["entry"]
    assert entry == answer["entries"][1]
    assert read(bank, read="account", account_id="nobody-reads")["error"]["code"] == "UNKNOWN_ACCOUNT"


def test_a_caller_learns_of_a_refusal(bank: Bank) -> None:
    bank.transactions.process(payment("t-2", "12,50", "reader"))
    answer = read(bank, read="transaction", account_id="reader", transaction_id="t-2")
    assert (answer["state"], answer["refusal"]["reason_code"]) == ("refused", "INVALID_MESSAGE")
    bank.transactions.take_dead_letters()
