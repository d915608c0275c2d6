"""Mismatches between an account and its journal, in sentences for people.

The items that a sentence quotes may have been damaged. So each quotation is bounded, and the sentence is whole.
"""

from collections.abc import Iterable
from decimal import Decimal
from itertools import islice
from typing import Any

from msgspec import Struct, ValidationError
from msgspec.structs import asdict, replace

from ledger.core.accounts import Account
from ledger.core.decoding import MOST_ID_CHARACTERS, sentence_of
from ledger.core.money import format_decimal, normalized

MOST_MISMATCHES = 100
"""Of one account. Further ones aren't looked for."""
LONGEST_SENTENCE = 1_500
"""Characters of a mismatch's sentence."""
LONGEST_QUOTATION = 64
"""Characters of a value in a sentence. The numbers and times that Teller writes are shorter."""


class Mismatch(Struct, frozen=True):
    """A difference: `what` is wrong, at which `version` of the account (0: the account as a whole), and a sentence."""

    account_id: str
    what: str
    version: int
    sentence: str

    def is_like(self, other: "Mismatch") -> bool:
        """The same difference, however far the account has moved on in between."""
        return (self.account_id, self.what, self.version) == (other.account_id, other.what, other.version)


def first_mismatches(mismatches: Iterable[Mismatch]) -> list[Mismatch]:
    """The first mismatches. A sentence that is too long nevertheless ends with "…"."""
    first = islice(mismatches, MOST_MISMATCHES)
    return [replace(mismatch, sentence=shortened(mismatch.sentence, LONGEST_SENTENCE)) for mismatch in first]


def quoted(value: object) -> str:
    """A value of an item. A number has all its digits, as `1E-120` if it is long otherwise."""
    if isinstance(value, Decimal):
        plain = format_decimal(value)
        return plain if len(plain) <= LONGEST_QUOTATION else shortened(str(normalized(value)), LONGEST_QUOTATION)
    return shortened(str(value), LONGEST_QUOTATION)


def quoted_id(value: str) -> str:
    """An id, whole if a message may have it."""
    return shortened(value, MOST_ID_CHARACTERS)


def shortened(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[:longest]}…"


def difference(account: Account, journals: Account | None) -> str:
    """The attributes that aren't as the journal gives them: "balance is 7, the journal gives 5". Empty if all are."""
    if journals is None:
        return "the journal has no entry"
    given = asdict(journals)
    return "; ".join(
        f"{name} is {quoted(value)}, the journal gives {quoted(given[name])}"
        for name, value in asdict(account).items()
        if value != given[name]
    )


def why_unreadable(request: dict[str, Any], error: ValidationError | KeyError | TypeError) -> str:
    """A sentence about the request of an entry, of which no transaction can be made because of this error."""
    if isinstance(error, ValidationError):
        return f"its request: {shortened(sentence_of(error), 300)}"
    return f"its request: type: expected that of a transaction, got {quoted(request.get('type', 'none'))}"
