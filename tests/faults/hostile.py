"""Strategies for hostile input: bodies for both queues.

A body is a valid message with changes, or no message at all. In it `@@` stands for the record's number, two digits that
are unique in the batch. SECRET is in values only, because names may be quoted in reasons.
"""

import json
from typing import Any, NamedTuple

from hypothesis import strategies as st

from tests.support.bodies import interest, openings, payment, rate, set_limit, transfer
from tests.support.refusals import NOT_FOR_SQS
from tests.support.strategies import JSON, nested

SECRET = "hush-5f0c"
LONG_SECRET = f"{'x' * 200}{SECRET}"
"""A secret that must not be logged. It is too long for an id, and only the first forty letters of a type are quoted."""
LONGEST_BODY = 262_144
"""More levels than the decoders accept."""

OPENINGS = openings("alice", "bob", limit=-100)
TRANSACTIONS = [
    payment("t-@@", "1.50", description=SECRET),
    transfer("t-@@", 1, "bob", "alice"),
    set_limit("t-@@", -200, "bob"),
    rate("t-@@", "0.1", "bob"),
    interest("t-@@", account_id="bob"),
    payment("t-@@", -1, "bob", type="transaction", metadata={"shop": SECRET}),
]
UPDATES: list[dict[str, Any]] = [
    {"account_id": "alice", "path": ["preferences"], "entries": {"theme": SECRET, "size@@": 12}},
    {"account_id": "alice", "path": ["preferences", "font"], "entries": {"size": 1}, "removed": ["face"]},
    {"account_id": "bob", "path": ["a", "b", "c"], "entries": {"d": {"e": [SECRET, 1, None]}}},
    {"account_id": "bob", "path": ["limits"], "entries": {"card": 100}, "as_of": "2026-03-01T12:00:@@Z"},
    {"account_id": "bob", "path": ["limits", "card"], "entries": {"day": 50}, "as_of": "2026-03-01T12:00:05Z"},
    {"account_id": "alice", "path": ["preferences"], "entries": {}, "removed": ["font"]},
    {"type": "erase_profile", "account_id": "bob", "as_of": "2026-03-01T12:00:05Z"},
]

_NUMBERS = [
    *("0", "-0", "0.0", "007", "+1", ".5", "1.", "0x10", "1_000", "1e", "--1", "1e5", "9" * 38, "1" * 39, "1e-130"),
    *("1e400", "-1e400", "1e126", "1e-131", "1e999999999", "0e999999999", "1e-999999999", "1e99999999999999999999"),
    *("NaN", "Infinity", "-Infinity", "nan", "true", "false", "null", "1" * 5_000, f"0.{'0' * 5_000}1"),
]
_TEXTS = [
    *("", " ", "\ufeff", "\u0000", "\u2028", "\u202e", "\uffff", "\u00e9", "e\u0301", "\U0001f3e6" * 128, "a" * 129),
    *("a.b", "a[0]", "#0", ":v", "~", "cw:as_of ", 'cw:as_of ["preferences"]', "NULL", "status", "size", "account_id"),
    *("cw:write_id", "cw:version_id", "cw:item_bytes", "version", "balance", "__proto__", "_aws", "{}", "[]", "%s"),
    "'; --",
    '\r\n{"level":"INFO","message":"injected"}',
    LONG_SECRET,
    LONG_SECRET * 100,
]
_LISTS_AND_OBJECTS = [
    *("[]", "{}", "[[]]", *("[" * depth + "]" * depth for depth in (31, 5_000))),
    *('{"a":' * 40 + "1" + "}" * 40, '{"a":' * 9_000),
    *("[" + ",".join(["1"] * 9_000) + "]", "[" + ",".join(["1"] * 30_000) + "]", '{"k":1,"k":2}', '{"":1}'),
    json.dumps({f"n{number}": number for number in range(100)}),
    json.dumps({f"n{number}": number for number in range(101)}),
    json.dumps([f"level {number}" for number in range(16)]),
    json.dumps([f"level {number}" for number in range(17)]),
    json.dumps({"x": SECRET, "y": [SECRET] * 20}),
    f'["{SECRET}", 1]',
]
_BROKEN_TEXTS = ['"\\ud800"', '"\\udfff\\ud800"', '"\\x"', '"\n"', '"', "'a'", "\\"]


def _in_json(text: str) -> st.SearchStrategy[str]:
    return st.sampled_from([json.dumps(text), json.dumps(text, ensure_ascii=False)])


_texts = st.sampled_from(_TEXTS).flatmap(_in_json)
_names = st.sampled_from([text for text in _TEXTS if SECRET not in text]).flatmap(_in_json)
_random_values = nested(JSON, most=4)
_values = st.one_of(
    st.sampled_from(_NUMBERS),
    st.sampled_from(_NUMBERS).map(lambda number: f'"{number}"'),
    _texts,
    _texts.map(lambda text: f"[{text}]"),
    _texts.map(lambda text: f'["preferences", {text}]'),
    _names.map(lambda name: f'{{{name}: "{SECRET}"}}'),
    _names.map(lambda name: f'{{"theme": {{{name}: 1}}}}'),
    st.sampled_from(_LISTS_AND_OBJECTS),
    st.sampled_from(_BROKEN_TEXTS),
    st.sampled_from(
        ['"9999-12-31T23:59:@@Z"', '"0001-01-01T00:00:@@+14:00"', '"2026-02-30T00:00:00Z"', f'"{LONG_SECRET}"']
    ),
    _random_values.map(json.dumps),
)


@st.composite
def _changed(draw: st.DrawFn, valid: list[dict[str, Any]]) -> str:
    """A valid body whose fields are left out, repeated, added, or replaced by another type or size."""
    message = draw(st.sampled_from(valid))
    fields = [(json.dumps(name), json.dumps(value)) for name, value in message.items()]
    names = st.sampled_from(sorted({json.dumps(name) for one in valid for name in one}))
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(fields)))
        match draw(st.sampled_from(["replace", "replace", "replace", "drop", "add", "other"])):
            case "replace" if at < len(fields):
                fields[at] = (fields[at][0], draw(_values))
            case "drop" if at < len(fields):
                del fields[at]
            case "add":
                fields.insert(at, (draw(names), draw(_values)))
            case "other":
                fields.insert(at, (draw(_names), draw(_values)))
    return "{" + ", ".join(f"{name}: {value}" for name, value in fields) + "}"


def _no_messages(valid: list[dict[str, Any]]) -> st.SearchStrategy[str]:
    bodies = st.sampled_from([json.dumps(message) for message in valid])
    return st.one_of(
        st.text(st.characters(codec="utf-8"), min_size=1),
        st.binary(min_size=1).map(lambda some: some.decode("latin-1")),
        _random_values.map(json.dumps),
        st.builds(lambda body, cut: body[:cut], bodies, st.integers(1, 60)),
        st.builds(
            "{}{}{}".format, st.sampled_from(["", "\ufeff", "\n", "[", "null "]), bodies, st.sampled_from("]},\t{")
        ),
        st.sampled_from(
            ["[" * LONGEST_BODY, '{"a":' * (LONGEST_BODY // 5), SECRET * (LONGEST_BODY // len(SECRET)), "NaN"]
        ),
    )


class Sent(NamedTuple):
    """A body, whether it is valid, and its receive count. Valid ones must be done despite the rest of the batch."""

    body: str
    good: bool
    deliveries: int


def batches(valid: list[dict[str, Any]]) -> st.SearchStrategy[list[Sent]]:
    """Batches of up to ten bodies. Some are known to be valid. The others are changed, and may still be valid.

    All characters are such that SQS accepts them.
    """
    good = st.sampled_from(valid).map(json.dumps)
    changed, no_message = (
        bodies.filter(lambda body: body != "" and not NOT_FOR_SQS.search(body))
        for bodies in (_changed(valid), _no_messages(valid))
    )
    kinds = {
        True: [good],
        False: [changed, changed, changed, no_message, good.map(lambda body: body.replace('"alice"', '"nobody"'))],
    }
    sent = st.booleans().flatmap(
        lambda is_good: st.builds(
            Sent,
            st.sampled_from(kinds[is_good]).flatmap(lambda kind: kind),
            st.just(is_good),
            st.sampled_from([1, 1, 1, 2, 60]),
        )
    )
    return st.lists(sent, min_size=1, max_size=10)
