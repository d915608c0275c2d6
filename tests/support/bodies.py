"""The messages of the transactions queue. `samples` has the same as the values that they are decoded to.

Arguments are in one order: the transaction's id, the amount, the accounts, and what else a builder names. Each has a
default, and fields that are None are left out. Any other field may be given by its name.
"""

from collections.abc import Callable
from typing import Any

type Body = dict[str, Any]


def _builder(type_name: str | None, **defaults: Any) -> Callable[..., Body]:
    def build(*arguments: Any, **fields: Any) -> Body:
        message = {"type": type_name} | defaults | dict(zip(defaults, arguments, strict=False)) | fields
        return {name: value for name, value in message.items() if value is not None}

    return build


def opening(account_id: str = "alice", limit: object = None, currency: str = "EUR", **fields: Any) -> Body:
    return _opening(account_id=account_id, overdraft_limit=limit, currency=currency, **fields)


def openings(*account_ids: str, limit: object = None, **fields: Any) -> list[Body]:
    return [opening(account_id, limit, **fields) for account_id in account_ids]


def transfer(
    transaction_id: str = "t-1", amount: object = 1, payer: str = "alice", payee: str = "bob", **fields: Any
) -> Body:
    return _transfer(transaction_id, amount, payer, payee, **fields)


def compound(transaction_id: str, **amounts: object) -> Body:
    """Of a leg for each account."""
    legs = [{"account_id": account_id, "amount": str(amount)} for account_id, amount in amounts.items()]
    return {"type": "compound", "transaction_id": transaction_id, "legs": legs}


def set_limit(transaction_id: str = "limit", limit: object = 0, account_id: str = "alice", **fields: Any) -> Body:
    return _set_limit(transaction_id, limit, account_id, **fields)


_opening = _builder("open_account", transaction_id="open")
_transfer = _builder("transfer", transaction_id=None, amount=1, from_account_id=None, to_account_id=None)
_set_limit = _builder("set_overdraft_limit", transaction_id=None, overdraft_limit=0, account_id=None)
payment = _builder(None, transaction_id="t-1", amount=1, account_id="alice")
hold = _builder("hold", transaction_id="h-1", amount=1, account_id="alice")
post_hold = _builder("post_hold", transaction_id="p-1", amount=None, account_id="alice", hold_id="h-1")
void_hold = _builder("void_hold", transaction_id="v-1", account_id="alice", hold_id="h-1")
expire_hold = _builder(
    "expire_hold", transaction_id="x-1", account_id="alice", hold_id="h-1", as_of="2026-03-01T12:00:00+00:00"
)
reverse = _builder("reverse", transaction_id="r-1", amount=None, account_id="alice", of_transaction_id="t-1")
rate = _builder("set_interest", transaction_id="rate", annual_rate="0.12", account_id="alice")
interest = _builder("charge_interest", transaction_id="i-1", until="2026-02-01T00:00:00+00:00", account_id="alice")
freeze = _builder("freeze_account", transaction_id="freeze", debits=True, credits=True, account_id="alice")
set_shards = _builder("set_shards", transaction_id="shards", shards=4, account_id="pool")
closing = _builder("close_account", transaction_id="close", account_id="alice")
