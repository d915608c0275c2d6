"""Decodes JSON bodies, which come from outside.

The sentence for what is invalid names the field, and what was expected. Why msgspec: docs/decisions/msgspec.md.
"""

import functools
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

TELLERS_OWN = "teller:"
"""The beginning of ids that no message of a producer may give to a transaction: those of the jobs, and the keys."""
OTHER_SIDE = f"{TELLERS_OWN}side:"
"""The beginning of the key of an entry that isn't on its home."""
SHARD = f"{TELLERS_OWN}shard:"
"""The beginning of the id of a pool's shard."""
MOST_ID_CHARACTERS = 128
Id = Annotated[str, msgspec.Meta(min_length=1, max_length=MOST_ID_CHARACTERS)]
"""At most 512 bytes in UTF-8; DynamoDB takes 1,024 in a sort key. `decode_json` checks that it can be seen."""
Time = Annotated[datetime, msgspec.Meta(tz=True)]


def decode_json[Message](
    body: str,
    decoder: "msgspec.json.Decoder[Message]",
    expectations: dict[str, str] | None = None,
    most_bytes: int = MAXIMUM_BODY_BYTES,
) -> Message:
    """The message in a body. Raises InvalidMessage, also for what `check_fields` refuses.

    `expectations` has sentences for people by msgspec's own, which are for programmers.
    """
    size = len(body.encode(errors="surrogatepass"))
    if size > most_bytes:
        raise InvalidMessage(f"body: {size:,} bytes, expected at most {most_bytes:,}")
    try:
        message = decoder.decode(body)
    except msgspec.ValidationError as error:
        raise InvalidMessage(sentence_of(error, expectations)) from None
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
        raise InvalidMessage(_why_not_json(body, error)) from None
    check_fields("", message)
    return message


def check_names(body: str) -> None:
    """Raises InvalidMessage if an object in the body has a name twice: msgspec keeps the last one, other readers the
    first. `body` is one that `decode_json` has decoded."""
    _names_once.decode(body)


def check_fields(prefix: str, decoded: Any) -> None:
    """Checks the fields of a struct that are ids, as `check_id` does, and those that are times.

    `prefix` comes before their names. Raises InvalidMessage, also for a time without a date in UTC.
    """
    kind: Any = type(decoded)
    for field, name in _id_fields(kind):
        if (text := getattr(decoded, field)) is not None:
            check_id(f"{prefix}{name}", text)
    for field, name in _time_fields(kind):
        try:
            if (time := getattr(decoded, field)) is not None:
                time.astimezone(UTC)
        except OverflowError:
            raise InvalidMessage(f"{prefix}{name}: expected a time between the years 1 and 9999 in UTC") from None


_TIME = 'expected an ISO 8601 time with its offset, such as "2026-02-28T12:00:00Z"'
_EXPECTATIONS = {
    "Invalid RFC3339 encoded datetime": _TIME,
    "Expected `datetime` with a timezone component": _TIME,
}

_ENUM = "Invalid enum value '"
"""Before the value, which msgspec quotes whole. A refusal has at most 40 characters of one."""


def sentence_of(error: msgspec.ValidationError, expectations: dict[str, str] | None = None) -> str:
    """msgspec's "Expected `str`, got `int` - at `$.currency`" as "currency: expected `str`, got `int`".

    `expectations` has sentences for people by msgspec's own.
    """
    problem, _, path = str(error).partition(" - at `")
    problem = (_EXPECTATIONS | (expectations or {})).get(problem, problem)
    if problem.startswith("Invalid value "):  # a second `type`: msgspec quotes the first one whole
        problem = "expected it once"
    elif problem.startswith(_ENUM):
        problem = f"{_ENUM}{problem.removeprefix(_ENUM).removesuffix("'")[:40]}'"
    field = path.removesuffix("`").removeprefix("$.").replace("key` in `$.", "a name in ")
    if field:
        return problem if problem.startswith(f"{field}: ") else f"{field}: {problem[0].lower()}{problem[1:]}"
    return f"body: {problem[0].lower()}{problem[1:]}" if problem.startswith(("Object", "Expected")) else problem


def _with_each_name_once(pairs: list[tuple[str, Any]]) -> None:
    if len(dict(pairs)) == len(pairs):
        return
    seen = set[str]()
    for name, _ in pairs:
        if name in seen:
            raise InvalidMessage(f"{name[:100]}: expected it once")
        seen.add(name)


_names_once = json.JSONDecoder(object_pairs_hook=_with_each_name_once, parse_float=str, parse_int=str, strict=False)

INVISIBLE = frozenset(
    map(
        chr,
        [
            *(0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x180B, 0x180C, 0x180D, 0x180F, 0x3164, 0xFFA0),
            *range(0xFE00, 0xFE10),
            *range(0xE0100, 0xE01F0),
            *(0x2800, 0x1D159),
        ],
    )
)
"""The characters that Python calls printable, and that can't be seen: those with the property
Default_Ignorable_Code_Point (https://www.unicode.org/Public/15.1.0/ucd/DerivedCoreProperties.txt), the Braille pattern
without dots and the null notehead."""


@functools.cache
def _id_fields(kind: type) -> tuple[tuple[str, str], ...]:
    return _fields_of(kind, Id, Id | None)


@functools.cache
def _time_fields(kind: type) -> tuple[tuple[str, str], ...]:
    return _fields_of(kind, Time, Time | None)


def _fields_of(kind: type, *types: object) -> tuple[tuple[str, str], ...]:
    """The names of the struct's fields of these types: in Python, and in a body."""
    fields = msgspec.structs.fields(kind) if issubclass(kind, msgspec.Struct) else ()
    return tuple((field.name, field.encode_name) for field in fields if field.type in types)


ALPHABETS = ("LATIN", "GREEK", "CYRILLIC")
"""The words for them in their letters' names in Unicode, as in FULLWIDTH LATIN SMALL LETTER A."""


def check_id(field: str, text: str) -> None:
    """Raises InvalidMessage unless each character can be seen, none at an end is a blank, and the text is in NFC.

    Inside of an id, U+0020 is the one blank. Letters of `ALPHABETS` aren't mixed: many of them look alike. No id is the
    key of an entry that isn't on its home.
    """
    if text.startswith(OTHER_SIDE):
        raise InvalidMessage(
            f"{field}: expected the id of a transaction and its home, got an entry's key, {OTHER_SIDE}…"
        )
    if text.isascii() and text.isprintable() and text == text.strip():
        return
    for number, character in enumerate(text, 1):
        if not character.isprintable() or character in INVISIBLE:
            raise InvalidMessage(f"{field}: {_named(character, number)} can't be seen")
    for number in (1, len(text)):
        if text[number - 1] == " ":
            raise InvalidMessage(f"{field}: {_named(' ', number)} can't be seen at an end")
    import unicodedata  # noqa: PLC0415 (most functions see no such id, and never need its tables)

    normal = unicodedata.normalize("NFC", text)
    if text != normal:
        number = next((n for n, pair in enumerate(zip(text, normal, strict=False), 1) if len(set(pair)) > 1), len(text))
        raise InvalidMessage(f"{field}: {_named(text[number - 1], number)} isn't in Unicode's normal form NFC")
    first: dict[str, str] = {}
    for number, character in enumerate(text, 1):
        words = unicodedata.name(character, "").split() if character.isalpha() else []
        first |= {each: _named(character, number) for each in ALPHABETS if each in words and each not in first}
    if len(first) > 1:
        (_, one), (alphabet, other), *_ = first.items()
        raise InvalidMessage(f"{field}: {other} is {alphabet.capitalize()}, {one} isn't")


def _named(character: str, number: int) -> str:
    return f"U+{ord(character):04X} at character {number}"


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
