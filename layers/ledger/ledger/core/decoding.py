"""Decodes JSON bodies. The sentence for an invalid body names the field, and what was expected."""

import itertools
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Annotated, Any

import msgspec

from ledger.core.reason_codes import InvalidMessage

MAXIMUM_BODY_BYTES = 131_072
"""More than any valid transaction has, a third of what a profile holds, and so little that hostile input is cheap to
refuse."""

MOST_ID_CHARACTERS = 128
Id = Annotated[str, msgspec.Meta(min_length=1, max_length=MOST_ID_CHARACTERS)]
"""At most 512 bytes in UTF-8; DynamoDB takes 1,024 in a sort key."""
Time = Annotated[datetime, msgspec.Meta(tz=True)]


def decode_json[Message](
    body: str, decoder: "msgspec.json.Decoder[Message]", expectations: dict[str, str] | None = None
) -> Message:
    """The message in a body. Raises InvalidMessage.

    `expectations` has sentences for people by msgspec's own, which are for programmers.
    """
    size = len(body.encode(errors="surrogatepass"))
    if size > MAXIMUM_BODY_BYTES:
        raise InvalidMessage(f"body: {size:,} bytes, expected at most {MAXIMUM_BODY_BYTES:,}")
    try:
        return decoder.decode(body)
    except msgspec.ValidationError as error:
        raise InvalidMessage(sentence_of(error, expectations)) from None
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
        raise InvalidMessage(_why_not_json(body, error)) from None


def check_time(field: str, time: datetime | None) -> None:
    """Raises InvalidMessage for a time without a date in UTC."""
    try:
        if time is not None:
            time.astimezone(UTC)
    except OverflowError:
        raise InvalidMessage(f"{field}: expected a time between the years 1 and 9999 in UTC") from None


_EXPECTATIONS = {
    "Invalid RFC3339 encoded datetime": 'expected an ISO 8601 time with its offset, such as "2026-02-28T12:00:00Z"',
}


def sentence_of(error: msgspec.ValidationError, expectations: dict[str, str] | None = None) -> str:
    """msgspec's "Expected `str`, got `int` - at `$.currency`" as "currency: expected `str`, got `int`".

    `expectations` has sentences for people by msgspec's own.
    """
    problem, _, path = str(error).partition(" - at `")
    problem = (_EXPECTATIONS | (expectations or {})).get(problem, problem)
    if problem.startswith("Invalid value "):  # a second `type`: msgspec quotes the first one whole
        problem = "expected it once"
    field = path.removesuffix("`").removeprefix("$.").replace("key` in `$.", "a name in ")
    if field:
        return problem if problem.startswith(f"{field}: ") else f"{field}: {problem[0].lower()}{problem[1:]}"
    return f"body: {problem[0].lower()}{problem[1:]}" if problem.startswith(("Object", "Expected")) else problem


def _why_not_json(body: str, error: Exception) -> str:
    """Names the fields with a NaN or an Infinity: JSON has neither, but producers write them."""
    try:
        loose = json.loads(body, parse_constant=_NotANumber)
        found = list(itertools.islice(_not_numbers("", loose), 3))
    except (ValueError, RecursionError):
        found = []
    sentences = [f"{field or 'body'}: expected a finite decimal number, got {value}" for field, value in found]
    return "; ".join(sentences) or f"body: expected JSON; {error}"


class _NotANumber(str):
    """A bare `NaN`, `Infinity` or `-Infinity` in a body."""


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
