"""The keys of journal entries: whatever ids producers choose, no transaction can take the key of another one's entry.

A transaction's id is unique under its home account: the one that its message names first, which pays in a transfer. On
its home the entry's sort key is the id. On any other account it is made of home and id, in a namespace that no id has.
"""

import base64
import hashlib
import json
from typing import NamedTuple

TELLERS_OWN = "teller:"
"""The beginning of ids that no message of a producer may give to a transaction: those of the jobs, and the keys."""
OTHER_SIDE = f"{TELLERS_OWN}side:"
"""The beginning of the key of an entry that isn't on its home."""


class EntryId(NamedTuple):
    """The key of a journal entry. `transaction_id` is the transaction's own only on its home."""

    account_id: str
    transaction_id: str

    @classmethod
    def on(cls, account_id: str, home_account_id: str, transaction_id: str) -> "EntryId":
        """The key of a transaction's entry on this account."""
        if account_id == home_account_id:
            return cls(account_id, transaction_id)
        named = json.dumps([home_account_id, transaction_id]).encode()
        digest = base64.urlsafe_b64encode(hashlib.sha256(named).digest()).decode().rstrip("=")
        return cls(account_id, OTHER_SIDE + digest)
