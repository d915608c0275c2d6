"""Payments under an overdraft limit, each posted once.

The usual code asserts the account's version, and tells its caller to try again after a conflict. But a payment that is
delivered twice is posted twice, and so is one whose first answer was lost. Here the record of a payment commits in one
transaction with its balance.
"""

from decimal import Decimal
from typing import Any

from conditional_writes import Observed, Plan, VersionedTable, dynamodb_client
from conditional_writes.exactly_once import Records, exactly_once

client = dynamodb_client()
accounts = VersionedTable(client, "accounts", "AccountId", version="Version")


@exactly_once(Records(client, "payments"), key=lambda p: p["PaymentId"], items=lambda p: [accounts.key(p["AccountId"])])
def post(payment: dict[str, Any], observed: Observed) -> Plan[Decimal]:
    """Returns the balance after the payment; a repetition within thirty days returns the same, and posts nothing."""
    account = accounts.get_from(observed, payment["AccountId"])
    balance = account["Balance"] + payment["Value"]
    if balance < account["OverdraftLimit"]:
        raise ValueError("the overdraft limit doesn't allow it")
    return Plan(balance, [accounts.saving(account | {"Balance": balance})])


def main() -> None:
    if accounts.load("123") is None:
        accounts.save({"AccountId": "123", "Balance": 100, "OverdraftLimit": -500})
    print(post({"PaymentId": "p-1", "AccountId": "123", "Value": -400}))


if __name__ == "__main__":
    main()
