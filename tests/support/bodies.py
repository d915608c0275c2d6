"""The messages of the transactions queue. Arguments are in one order: the transaction's id, the amount, the accounts.

Each has a default, and `fields` are any others. `samples` has the same as the values that they are decoded to.
"""

from typing import Any

type Body = dict[str, Any]


def body(type_name: str, transaction_id: str, account_id: str = "alice", **fields: Any) -> Body:
    """Without the fields that are None."""
    message = {"type": type_name, "transaction_id": transaction_id, "account_id": account_id} | fields
    return {name: value for name, value in message.items() if value is not None}


def opening(
    account_id: str = "alice",
    limit: object = None,
    currency: str = "EUR",
    *,
    transaction_id: str = "open",
    **fields: Any,
) -> Body:
    return body("open_account", transaction_id, account_id, currency=currency, overdraft_limit=limit, **fields)


def openings(*account_ids: str, limit: object = None, **fields: Any) -> list[Body]:
    return [opening(account_id, limit, **fields) for account_id in account_ids]


def payment(transaction_id: str = "t-1", amount: object = 1, account_id: str = "alice", **fields: Any) -> Body:
    """Without a type, as the simplest message is."""
    return {"transaction_id": transaction_id, "account_id": account_id, "amount": amount} | fields


def transfer(
    transaction_id: str = "t-1", amount: object = 1, payer: str = "alice", payee: str = "bob", **fields: Any
) -> Body:
    accounts = {"from_account_id": payer, "to_account_id": payee}
    return {"type": "transfer", "transaction_id": transaction_id, "amount": amount} | accounts | fields


def hold(transaction_id: str = "h-1", amount: object = 1, account_id: str = "alice", **fields: Any) -> Body:
    return body("hold", transaction_id, account_id, amount=amount, **fields)


def post_hold(
    transaction_id: str = "p-1", amount: object = None, account_id: str = "alice", hold_id: str = "h-1", **fields: Any
) -> Body:
    return body("post_hold", transaction_id, account_id, hold_id=hold_id, amount=amount, **fields)


def void_hold(transaction_id: str = "v-1", account_id: str = "alice", hold_id: str = "h-1", **fields: Any) -> Body:
    return body("void_hold", transaction_id, account_id, hold_id=hold_id, **fields)


def expire_hold(
    transaction_id: str = "x-1",
    account_id: str = "alice",
    hold_id: str = "h-1",
    as_of: str = "2026-03-01T12:00:00+00:00",
    **fields: Any,
) -> Body:
    return body("expire_hold", transaction_id, account_id, hold_id=hold_id, as_of=as_of, **fields)


def reverse(
    transaction_id: str = "r-1",
    amount: object = None,
    account_id: str = "alice",
    of_transaction_id: str = "t-1",
    **fields: Any,
) -> Body:
    return body("reverse", transaction_id, account_id, of_transaction_id=of_transaction_id, amount=amount, **fields)


def set_limit(transaction_id: str = "limit", limit: object = 0, account_id: str = "alice", **fields: Any) -> Body:
    return body("set_overdraft_limit", transaction_id, account_id, overdraft_limit=limit, **fields)


def interest(
    transaction_id: str = "i-1", annual_rate: object = "0.12", account_id: str = "alice", **fields: Any
) -> Body:
    return body("charge_interest", transaction_id, account_id, annual_rate=annual_rate, **fields)


def closing(transaction_id: str = "close", account_id: str = "alice", **fields: Any) -> Body:
    return body("close_account", transaction_id, account_id, **fields)
