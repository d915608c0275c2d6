"""What the messages of every queue are held to at the door, and the sentences with which they are refused.

A sentence is for a person: which field, and what was expected.
"""

import itertools
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from typing import Annotated, Any

import msgspec

from conditional_writes import EXACT
from conditional_writes.texts import printable

MAXIMUM_BODY_BYTES = 131_072
"""More than any valid transaction has, a third of what a profile holds, and little enough that what is hostile is cheap
to refuse."""

Id = Annotated[str, msgspec.Meta(min_length=1, max_length=128)]
"""At most 512 bytes in UTF-8; DynamoDB takes 1,024 in a sort key."""
Time = Annotated[datetime, msgspec.Meta(tz=True)]


class InvalidMessage(Exception):
    """The message can't be processed, now or ever: its text says which field is wrong, and what was expected.

    A few hundred characters at most, all of them printable: whatever the producer put into a name.
    """

    def __init__(self, reason: str) -> None:
        shown = printable(reason[:301])
        super().__init__(shown if len(shown) <= 300 else f"{shown[:300]}…")


def decoded[Message](
    body: str, decoder: "msgspec.json.Decoder[Message]", expectations: dict[str, str] | None = None
) -> Message:
    """What the decoder makes of a queue message's body. Raises InvalidMessage.

    `expectations`: for a person, what msgspec says for a programmer of this message's types.
    """
    size = len(body.encode(errors="surrogatepass"))
    if size > MAXIMUM_BODY_BYTES:
        raise InvalidMessage(f"body: {size:,} bytes, expected at most {MAXIMUM_BODY_BYTES:,}")
    try:
        return decoder.decode(body)
    except msgspec.ValidationError as error:
        raise InvalidMessage(_sentence(str(error), _EXPECTATIONS | (expectations or {}))) from None
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
        raise InvalidMessage(_why_not_json(body, error)) from None


def check_time(field: str, time: datetime | None) -> None:
    """Raises InvalidMessage for a time that UTC has no date for."""
    try:
        if time is not None:
            time.astimezone(UTC)
    except OverflowError:
        raise InvalidMessage(f"{field}: expected a time between the years 1 and 9999 in UTC") from None


def exact(field: str, number: Decimal) -> Decimal:
    """The number without trailing zeros, where DynamoDB can hold it. Raises ValueError."""
    if not number.is_finite():
        raise ValueError(f"{field}: expected a finite decimal number")
    significant = len("".join(map(str, number.as_tuple().digits)).strip("0"))
    if significant > EXACT.prec:
        raise ValueError(f"{field}: {significant} digits, expected at most {EXACT.prec}")
    out_of_range = ValueError(f"{field}: expected a number between 1E{EXACT.Emin} and 9.9E+{EXACT.Emax}")
    if number and not EXACT.Emin <= number.adjusted() <= EXACT.Emax:
        raise out_of_range
    shortest = normalized(number)
    if int(shortest.as_tuple().exponent) < EXACT.Emin:
        raise out_of_range
    return shortest


def normalized(number: Decimal) -> Decimal:
    """`100.00` as `1E+2`; `-0` as `0`."""
    return EXACT.normalize(number) if number else Decimal(0)


_EXPECTATIONS = {
    "Invalid RFC3339 encoded datetime": 'expected an ISO 8601 time with its offset, such as "2026-02-28T12:00:00Z"',
}


def _sentence(error: str, expectations: dict[str, str]) -> str:
    """msgspec's "Expected `str`, got `int` - at `$.currency`" as "currency: expected `str`, got `int`"."""
    problem, _, path = error.partition(" - at `")
    problem = expectations.get(problem, problem)
    if problem.startswith("Invalid value "):  # the first of two types, quoted whole
        problem = "expected it once"
    field = path.removesuffix("`").removeprefix("$.").replace("key` in `$.", "a name in ")
    if field:
        return problem if problem.startswith(f"{field}: ") else f"{field}: {problem[0].lower()}{problem[1:]}"
    return f"body: {problem[0].lower()}{problem[1:]}" if problem.startswith(("Object", "Expected")) else problem


def _why_not_json(body: str, error: Exception) -> str:
    """JSON has no NaN and no Infinity, but producers write them: name the field that has one."""
    try:
        loose = json.loads(body, parse_constant=_NotANumber)
        found = list(itertools.islice(_not_numbers("", loose), 3))
    except (ValueError, RecursionError):
        found = []
    sentences = [f"{field or 'body'}: expected a finite decimal number, got {value}" for field, value in found]
    return "; ".join(sentences) or f"body: expected JSON; {error}"


class _NotANumber(str):
    """`NaN`, `Infinity` or `-Infinity`, bare in a body."""


def _not_numbers(field: str, value: Any) -> Iterator[tuple[str, _NotANumber]]:
    match value:
        case _NotANumber():
            yield field, value
        case dict():
            for name, element in value.items():
                yield from _not_numbers(f"{field}.{name}".removeprefix(".")[:300], element)
        case list():
            for element in value:
                yield from _not_numbers(field, element)
