"""Mismatches between an account and its journal, in sentences for people.

The items that a sentence quotes may have been damaged. So each quotation is bounded, and the sentence is whole.
"""

from collections.abc import Iterator, Mapping
from decimal import Decimal
from itertools import islice
from typing import Any

from msgspec import Struct, ValidationError
from msgspec.structs import asdict, force_setattr

from ledger.core.accounts import Account
from ledger.core.decoding import MOST_ID_CHARACTERS, sentence_of
from ledger.core.holds import Holds, OpenHold
from ledger.core.limits import Limits
from ledger.core.values import WIDE

MOST_MISMATCHES = 100
"""Of one account. Further ones aren't looked for."""
LONGEST_SENTENCE = 1_500
"""Characters of a mismatch's sentence."""
MOST_HOLDS = 2
"""That a sentence names."""
LONGEST_QUOTATION = 64
"""Characters of a value in a sentence. The numbers and times that Teller writes are shorter."""


class Mismatch(Struct, frozen=True):
    """A difference: `what` is wrong, at which `version` of the account (0: the account as a whole), and a sentence.

    A sentence that is too long nevertheless ends with "…".
    """

    account_id: str
    what: str
    version: int
    sentence: str

    def __post_init__(self) -> None:
        force_setattr(self, "sentence", shortened(self.sentence, LONGEST_SENTENCE))


def quoted(value: object) -> str:
    """A value of an item. A number has all its digits, as `1E-120` if it is long otherwise.

    A sum of damaged numbers may have more digits than any number of an item.
    """
    if isinstance(value, Decimal):
        number = WIDE.normalize(value) if value else Decimal(0)
        plain = format(number, "f")
        return plain if len(plain) <= LONGEST_QUOTATION else shortened(str(number), LONGEST_QUOTATION)
    return "none" if value is None else shortened(str(value), LONGEST_QUOTATION)


def quoted_id(value: str) -> str:
    """An id, whole if a message may have it."""
    return shortened(value, MOST_ID_CHARACTERS)


def shortened(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[:longest]}…"


def difference(account: Account, journals: Account | None) -> str:
    """The attributes that aren't as the journal gives them: "balance is 7, the journal gives 5". Empty if all are."""
    if journals is None:
        return "the journal has no entry"
    return "; ".join(_differences(account, journals))


def _differences(account: Account, journals: Account) -> Iterator[str]:
    given = asdict(journals)
    for name, value in asdict(account).items():
        if value == given[name]:
            continue
        if name == "holds" and value and given[name]:
            yield from _differences_of_holds(value, given[name])
        elif name == "limits":
            yield f"limits are {_of_limits(value)}, the journal gives {_of_limits(given[name])}"
        else:
            yield f"{name} is {_described(value)}, the journal gives {_described(given[name])}"


def _differences_of_holds(holds: Holds, given: Holds) -> Iterator[str]:
    """Those of some holds, and the number of the others that differ."""
    names = [name for name in {**holds, **given} if holds.get(name) != given.get(name)]
    for name in names[:MOST_HOLDS]:
        of_account, of_journal = _of_hold(holds.get(name)), _of_hold(given.get(name))
        yield f"hold {quoted_id(name)} is {of_account}, the journal gives {of_journal}"
    if len(names) > MOST_HOLDS:
        yield f"{len(names) - MOST_HOLDS:,} more holds differ"


def _described(value: object) -> str:
    if isinstance(value, Mapping):
        some = [f"{quoted_id(name)} of {_of_hold(hold)}" for name, hold in islice(value.items(), MOST_HOLDS)]
        more = [f"{len(value) - MOST_HOLDS:,} more"] if len(value) > MOST_HOLDS else []
        return " and ".join([*some, *more]) or "empty"
    return quoted(value)


def _of_limits(limits: Limits) -> str:
    """The used part of each."""
    used = (f"{quoted(each.rule.name)} with {quoted(each.used)} used since {quoted(each.period)}" for each in limits)
    return " and ".join(used) or "none"


def _of_hold(hold: OpenHold | None) -> str:
    """The remaining amount of a hold, and when it expires."""
    if hold is None:
        return "none"
    return quoted(hold.remaining) + (f" until {quoted(hold.expires_at)}" if hold.expires_at else "")


def why_unreadable(request: dict[str, Any], error: ValidationError | KeyError | TypeError) -> str:
    """A sentence about the request of an entry, of which no transaction can be made because of this error."""
    if isinstance(error, ValidationError):
        return f"its request: {shortened(sentence_of(error), 300)}"
    return f"its request: type: expected that of a transaction, got {quoted(request.get('type', 'none'))}"
