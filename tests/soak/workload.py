"""The workload: a long day of transactions and profile updates. A fifth of each is repeated.

Half of the transactions are of one hot account, before which the workers wait in line.
"""

import json
import re
from dataclasses import dataclass

from tools.local_aws.day import believable_day
from tools.local_aws.profiles_day import believable_updates

REPEATED_SHARE = 0.2
HOT_ACCOUNT = "soak-hot"
NEVER_HEATED = {"set_overdraft_limit", "close_account"}
"""They would end the hot account's payments."""


@dataclass(frozen=True)
class Workload:
    """The messages' bodies, in the order in which they are sent."""

    transactions: list[str]
    updates: list[str]


def make_workload(transactions: int, seed: int) -> Workload:
    """The same seed gives the same workload. A sixth are profile updates, and three in a hundred are invalid."""
    accounts = 20 + transactions // 100
    day = map(_heated, believable_day(transactions - 1, accounts, seed, REPEATED_SHARE))
    updates = believable_updates(transactions // 5, accounts, seed, REPEATED_SHARE)
    opening = {"type": "open_account", "transaction_id": "open", "account_id": HOT_ACCOUNT, "currency": "EUR"}
    first = json.dumps(opening | {"overdraft_limit": "-1000000"})
    return Workload([first, *map(_renamed, day)], [*map(_renamed, updates)])


def _heated(body: str) -> str:
    """The body, for the hot account if it is one of two thirds of the payments and holds, or refers to such a one.

    About half of all transactions are.
    """
    try:
        message = json.loads(body)
    except ValueError:
        return body
    if not isinstance(message, dict) or "account_id" not in message or message.get("type") in NEVER_HEATED:
        return body
    number = re.fullmatch(r"t-(\d+)(-\d)?", message["transaction_id"])
    return json.dumps(message | {"account_id": HOT_ACCOUNT}) if number and int(number[1]) % 3 else body


def _renamed(body: str) -> str:
    """The body with account ids of the soak's own."""
    return body.replace('"acc-', '"soak-')
