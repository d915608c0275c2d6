"""Sums of hashes, which compare what is read in two orders in constant memory: entries, and reversals.

Each posted reversal takes its transaction from one state to the next: how often it was reversed, and how much of it.
The sum of the states that a journal's reversals lead to, without those that they begin with, is the sum of the states
that the Reversals table has. A reversal that is missing, or counted twice, makes the two differ.
"""

import hashlib
import json
from decimal import Decimal
from typing import NamedTuple

from ledger.core.money import WIDE
from ledger.core.reversals import Reversal, Reversed

SUMS = 2**126
"""Sums of hashes are kept below: a number of DynamoDB's has 38 digits."""


def hash_of(value: object) -> int:
    """The hash of an item, or of another value of JSON and numbers."""
    text = json.dumps(value, sort_keys=True, default=str)
    return int.from_bytes(hashlib.sha256(text.encode()).digest()) % SUMS


class ReversalSum(NamedTuple):
    """`number` is that of the reversals, `states` the sum of the hashes of the states."""

    number: int = 0
    states: int = 0

    def with_reversal(self, transaction_id: str, reversal: Reversal, amount: Decimal) -> "ReversalSum":
        """With a posted reversal of this transaction, by this amount in whichever direction."""
        before = WIDE.subtract(reversal.reversed_after, amount.copy_abs())
        led_to = _state(transaction_id, reversal.number, reversal.reversed_after)
        began_with = _state(transaction_id, reversal.number - 1, before)
        return ReversalSum(self.number + 1, (self.states + led_to - began_with) % SUMS)

    def with_item(self, item: Reversed) -> "ReversalSum":
        """With an item of the Reversals table."""
        state = _state(item.transaction_id, item.number, item.amount)
        return ReversalSum(self.number + item.number, (self.states + state) % SUMS)


def _state(transaction_id: str, number: int, amount: Decimal) -> int:
    """0 if nothing was reversed: then the table has no item."""
    return hash_of([transaction_id, number, WIDE.normalize(amount)]) if number or amount else 0
