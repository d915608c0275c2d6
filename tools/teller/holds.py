"""What became of a hold: it is open, or a transaction ended it."""

import itertools
from decimal import Decimal
from typing import Any

from tools.teller.accounts import MOST_ENTRIES, Entry, entries
from tools.teller.operator import Operator

MOST_PAGES = 10
"""Of a thousand entries each, in which the end of a hold is looked for."""
STATES = {"post_hold": "posted", "void_hold": "voided", "expire_hold": "expired"}
"""By the type of the transaction that ended the hold."""


def hold_of(operator: Operator, entry: Entry, account: dict[str, Any]) -> dict[str, Any] | None:
    """The hold that a posted `hold` placed; None for any other entry. The account was read after the entry.

    The `state` is open, posted, voided or expired, or unknown if no end is among the next ten thousand entries. Beside
    it are the id and the time of the transaction that ended the hold.
    """
    if entry["request"].get("type") != "hold" or entry["status"] != "POSTED":
        return None
    hold_id, amount = entry["transaction_id"], entry["request"]["amount"]
    hold = {"amount": amount, "remaining": "0", "state": "unknown", "ended_by": None, "ended_at": None}
    for one in account["holds"]:
        if one["hold_id"] == hold_id:
            return {**hold, "remaining": one["remaining"], "state": "open", "expires_at": one["expires_at"]}
    if end := _end(operator, account, entry["account_version"] + 1, hold_id, Decimal(amount)):
        ended = {"ended_by": end["transaction_id"], "ended_at": end["posted_at"]}
        return hold | {"state": STATES[end["request"]["type"]]} | ended
    return hold


def _end(operator: Operator, account: dict[str, Any], version: int, hold_id: str, remaining: Decimal) -> Entry | None:
    """The entry that ended the hold, from this version on."""
    if version > account["version"]:
        return None
    wanted = {"from_version": version, "to_version": account["version"], "limit": MOST_ENTRIES}
    for page in itertools.islice(entries(operator, account["account_id"], wanted), MOST_PAGES):
        for entry in page["entries"]:
            request = entry["request"]
            if request.get("hold_id") != hold_id or request.get("type") not in STATES or entry["status"] != "POSTED":
                continue
            remaining += Decimal(entry["amount"])
            if request["type"] != "post_hold" or request.get("final", True) or remaining <= 0:
                return entry
    return None
