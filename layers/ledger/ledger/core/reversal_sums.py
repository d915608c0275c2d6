"""Sums over reversals, by which a journal is compared with the Reversals table, whatever their number.

Each posted reversal takes its transaction from one state to the next: how often it was reversed, and how much of it.
The sum of the states that a journal's reversals lead to, without those that they begin with, is the sum of the states
that the table has. A reversal that is missing, or counted twice, makes the two differ.
"""

import hashlib
import json
from decimal import Decimal

from msgspec import Struct

from ledger.core.money import WIDE
from ledger.core.reversals import Reversal, Reversed

SUMS = 2**256
"""Sums of hashes are kept below."""


class ReversalSum(Struct, frozen=True):
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


def _state(transaction_id: str, number: int, reversed_amount: Decimal) -> int:
    """0 if nothing was reversed: then the table has no item."""
    if number == 0 and reversed_amount == 0:
        return 0
    text = json.dumps([transaction_id, number, str(WIDE.normalize(reversed_amount))])
    return int.from_bytes(hashlib.sha256(text.encode()).digest())
