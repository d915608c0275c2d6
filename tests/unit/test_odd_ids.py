"""Ids that look alike, are invisible, or are hostile to a terminal or a spreadsheet: refused, or shown as text."""

import csv
import functools
import json
from collections.abc import Callable
from typing import Any

import pytest

from ledger.core.decoding import INVISIBLE
from ledger.core.transaction_types import decode
from tests.support import refusals
from tests.support.samples import posting_body, reversal_body, transaction_body, transfer_body
from tests.unit.test_teller_accounts import entry, statement_of
from tools.teller.statement import FORMULAS

UNSEEN: dict[str, tuple[str, int]] = {
    "a zero-width space": ("order\u200b", 6),
    "a zero-width no-break space": ("\ufefforder", 1),
    "a soft hyphen": ("or\xadder", 3),
    "NUL": ("\0", 1),
    "a newline that forges a line": ("a\nFORGED", 2),
    "a clearing of the screen": ("\x1b[2J", 1),
    "a writing of the clipboard": ("a\x1b]52;c;aGk=\x07", 2),
    "a C1 control": ("a\x9b", 2),
    "a line separator": ("a\u2028b", 2),
    "private use": ("\ue000", 1),
    "unassigned": ("a\U000e0fff", 2),
    "a tag": ("a\U000e0041", 2),
    "a right-to-left override": ("\u202ea", 1),
    "an isolate": ("\u2066a", 1),
    "a no-break space inside": ("a\xa0b", 2),
    "an ideographic space": ("a\u3000b", 2),
    "an emoji that is joined": ("\U0001f469\u200d\U0001f4bb", 2),
    "a variation selector": ("\u2764\ufe0f", 2),
    "a Hangul filler": ("\u3164", 1),
    "a Braille blank": ("a\u2800", 2),
    "a grapheme joiner": ("a\u034fb", 2),
    "a formula after a tab": ("\t=1", 1),
    "a formula after a return": ("\r=1", 1),
}
"""With the place of the character that can't be seen."""
REFUSED: dict[str, tuple[str, str]] = {
    **{name: (text, f"U+{ord(text[n - 1]):04X} at character {n} can't be seen") for name, (text, n) in UNSEEN.items()},
    "a blank at the end": ("order ", "U+0020 at character 6 can't be seen at an end"),
    "a blank at the beginning": (" é", "U+0020 at character 1 can't be seen at an end"),
    "letters apart from their accents": ("cafe\u0301", "U+0065 at character 4 isn't in Unicode's normal form NFC"),
    "a sign that is a letter": ("\u212a", "U+212A at character 1 isn't in Unicode's normal form NFC"),
    "a Cyrillic letter in Latin": ("p\u0430y", "U+0430 at character 2 is Cyrillic, U+0070 at character 1 isn't"),
    "a Latin letter in Greek": ("\u03b1a", "U+0061 at character 2 is Latin, U+03B1 at character 1 isn't"),
    "a Greek letter in Cyrillic": ("\u0430\u03bf", "U+03BF at character 2 is Greek, U+0430 at character 1 isn't"),
    "a wide Latin letter in Cyrillic": ("\u0430\uff41", "U+FF41 at character 2 is Latin, U+0430 at character 1 isn't"),
    "a key": ("teller:side:x", "expected the id of a transaction and its home, got an entry's key, teller:side:…"),
}
TAKEN = [
    *("=1+1", "+1", "-1", "@SUM(1)", "\uff1d1", "\uff0b1", "\uff0d1", "\uff201"),
    *("<img src=x onerror=alert(1)>", "[red]a[/]", '"a","b"', "a;b", "%s{0}", "\\x1b[2J", "#/=%"),
    *("a b", "café", "\U0001f3e6", "订单A", "ご注文", "заказ-1", "\u03b1\u03b2", "ß"),
    *("\u0440\u0430\u0443", "\uff21", "O0Il1"),
    *("заказ ✝", "заказ \U0001f17f"),  # named LATIN CROSS and NEGATIVE SQUARED LATIN CAPITAL LETTER P, and no letters
]
"""Formulas, markup, and letters of any script; the last ones look like others."""
TEXTS = [*(text for text, _ in REFUSED.values()), *TAKEN]
reason_of = functools.partial(refusals.reason_of, decode)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (transaction_body, "transaction_id"),
        (transaction_body, "account_id"),
        (transfer_body, "to_account_id"),
        (posting_body, "hold_id"),
        (posting_body, "to_account_id"),
        (reversal_body, "of_transaction_id"),
    ],
)
def test_an_id_is_refused_with_the_place_of_what_is_wrong_or_taken(body: Callable[..., str], field: str) -> None:
    for text, sentence in REFUSED.values():
        assert reason_of(body(**{field: json.dumps(text)})) == f"{field}: {sentence}"
    for text in TAKEN:
        assert getattr(decode(body(**{field: json.dumps(text)})), field) == text


@pytest.mark.parametrize("form", ["", "--wide", "--csv", "--json"])
def test_whatever_an_id_is_the_command_shows_it_as_text(form: str) -> None:
    """Ids that are refused today, too, as an item may have them."""
    fields = ("description", "hold_id", "occurred_at")
    asked = [{"type": "transaction", "amount": "-15"} | dict.fromkeys(fields, text) for text in TEXTS]
    entries = [entry(text, "-15", each, reason=text) for text, each in zip(TEXTS, asked, strict=True)]
    shown = statement_of(*entries, options=(form,) if form else (), columns=None)
    lines = shown.split("\n")
    assert all(line.isprintable() for line in lines)
    assert not any(line.strip(" |-").startswith("FORGED") for line in lines)
    if form == "--json":
        assert [each["transaction_id"] for each in json.loads(shown)["entries"]] == TEXTS
    elif form == "--csv":
        rows: list[dict[str, Any]] = list(csv.DictReader(lines[:-1]))
        for row, text in zip(rows, TEXTS, strict=True):
            cells = [row[name] for name in ("transaction_id", "description", "hold_id", "reason")]
            assert [cell.startswith("'") for cell in cells] == [text.startswith(FORMULAS)] * 4
            assert row["amount"] == "-15"
    else:
        assert all(text in shown for text in TAKEN if " " not in text)


def test_each_character_of_unicode_that_is_ignored_by_default_is_refused() -> None:
    """The ranges are those of DerivedCoreProperties.txt, Unicode 15.1: Default_Ignorable_Code_Point."""
    ranges = "00AD 034F 061C 115F-1160 17B4-17B5 180B-180F 200B-200F 202A-202E 2060-206F 3164 FE00-FE0F FEFF FFA0"
    ranges += " FFF0-FFF8 1BCA0-1BCA3 1D173-1D17A E0000-E0FFF"
    for first, _, last in (each.partition("-") for each in ranges.split()):
        for number in range(int(first, 16), int(last or first, 16) + 1):
            assert not chr(number).isprintable() or chr(number) in INVISIBLE, hex(number)
