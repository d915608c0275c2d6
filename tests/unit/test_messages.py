"""Decoding of transactions: the canonical payload of each valid body, and the sentence for each invalid one."""

import functools
import json
import string
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from conditional_writes.core.items import from_dynamodb, to_dynamodb
from ledger.core.decoding import MAXIMUM_BODY_BYTES
from ledger.core.reason_codes import InvalidMessage
from ledger.core.replay import from_payload
from ledger.core.transaction_types import TRANSACTION_TYPES, ChargeInterest, ExpireHold, Transaction, decode
from ledger.core.transaction_types.base import NumberRange, TransactionMessage
from tests.support import refusals
from tests.support.numbers import exact_numbers
from tests.support.refusals import as_sent
from tests.support.samples import (
    expiry_body,
    hold_body,
    in_json,
    interest_body,
    largest_transaction,
    largest_transfer,
    opening_body,
    payment,
    posting_body,
    rate_body,
    reversal_body,
    transaction_body,
    transfer_body,
    voiding,
)
from tests.support.strategies import JSON, any_message, nested

TYPES = ", ".join(TRANSACTION_TYPES)
FINITE = "expected a finite decimal number"
CURRENCY = 'expected three capital letters, such as "EUR"'
TIME = 'expected an ISO 8601 time with its offset, such as "2026-02-28T12:00:00Z"'
RATE = 'expected a number from zero to 1, such as "0.12" for 12 %'
IN_UTC = "expected a time between the years 1 and 9999 in UTC"
OTHER_HOLD = "expected the id of a hold, got the message's own"

BODIES = {
    "nothing": ("", "body: expected JSON; Input data was truncated"),
    "words": ("hello", "body: expected JSON; JSON is malformed: invalid character (byte 0)"),
    "half a body": ('{"amount": 1', "body: expected JSON; Input data was truncated"),
    "more than JSON": ("{} {}", "body: expected JSON; JSON is malformed: trailing characters (byte 4)"),
    "an array": ("[]", "body: expected `object`, got `array`"),
    "null": ("null", "body: expected `object`, got `null`"),
    "a string": ('"t-1"', "body: expected `object`, got `str`"),
    "256 KB": ("x" * 262_144, "body: 262,144 bytes, expected at most 131,072"),
    "unknown type": ('{"type": "withdraw"}', f"type: got 'withdraw', expected one of {TYPES}"),
    "type as a number": ('{"type": 7}', "type: expected `str`, got `int`"),
    "two types": (f'{{"type": "{"x" * 200}", {transaction_body(type='"transaction"')[1:]}', "type: expected it once"),
    "one type twice": (transaction_body(type='"transaction", "type": "transaction"'), "type: expected it once"),
    "a field twice": (transaction_body()[:-1] + ', "amount": -9}', "amount: expected it once"),
    "a field twice, spelled otherwise": (transaction_body()[:-1] + ', "amoun\\u0074": -9}', "amount: expected it once"),
    "a name in metadata twice": (transaction_body(metadata='{"shop": "a", "shop": "b"}'), "shop: expected it once"),
    "a surrogate": (transaction_body(description='"\\ud800"'), "body: expected JSON; Input data was truncated"),
}


@pytest.mark.parametrize(("body", "reason"), BODIES.values(), ids=BODIES)
def test_a_refused_body_has_a_sentence_that_says_what_was_expected(body: str, reason: str) -> None:
    assert reason_of(body) == reason


FIELDS = [
    (transaction_body, "transaction_id", '""', "expected `str` of length >= 1"),
    (transaction_body, "transaction_id", f'"{"t" * 129}"', "expected `str` of length <= 128"),
    (transaction_body, "account_id", '""', "expected `str` of length >= 1"),
    (transaction_body, "account_id", f'"{"a" * 129}"', "expected `str` of length <= 128"),
    (transaction_body, "amount", "true", "expected `decimal`, got `bool`"),
    (transaction_body, "amount", "null", "expected `decimal`, got `null`"),
    (transaction_body, "amount", '"-0.00"', "expected a number other than zero"),
    (transaction_body, "currency", '"eur"', CURRENCY),
    (transaction_body, "currency", '"EURO"', CURRENCY),
    (transaction_body, "currency", '"EUR\\n"', CURRENCY),
    (transaction_body, "occurred_at", '"yesterday"', TIME),
    (transaction_body, "occurred_at", '"2026-02-30T00:00:00Z"', TIME),
    (transaction_body, "occurred_at", '"2026-02-28T12:00:00"', TIME),
    (transaction_body, "occurred_at", '"0001-01-01T00:00:00+14:00"', IN_UTC),
    (transaction_body, "description", f'"{"d" * 501}"', "expected `str` of length <= 500"),
    (transaction_body, "metadata", in_json(dict.fromkeys(range(21), "x")), "expected `object` of length <= 20"),
    (opening_body, "overdraft_limit", "null", "expected `decimal`, got `null`"),
    (rate_body, "annual_rate", "null", "expected `decimal`, got `null`"),
    (rate_body, "annual_rate", "1.01", RATE),
    (rate_body, "annual_rate", "-0.01", RATE),
    (interest_body, "until", '"2026-03-01T00:00:00"', TIME),
    (transfer_body, "to_account_id", '"alice"', "expected another account than from_account_id"),
    (transfer_body, "to_account_id", '""', "expected `str` of length >= 1"),
    (hold_body, "amount", "null", "expected `decimal`, got `null`"),
    (hold_body, "expires_at", '"2026-03-01T12:00:00"', TIME),
    (hold_body, "expires_at", '"9999-12-31T23:59:59-14:00"', IN_UTC),
    (posting_body, "to_account_id", '"alice"', "expected another account than account_id"),
    (posting_body, "final", '"yes"', "expected `bool`, got `str`"),
    (posting_body, "final", "null", "expected `bool`, got `null`"),
    (posting_body, "hold_id", '"t-1"', OTHER_HOLD),
    (expiry_body, "hold_id", '"t-1"', OTHER_HOLD),
    (expiry_body, "as_of", '"0001-01-01T00:00:00+14:00"', IN_UTC),
    (reversal_body, "of_transaction_id", '"t-1"', "expected the id of another transaction, got the message's own"),
]


@pytest.mark.parametrize(("body", "field", "value", "expected"), FIELDS)
def test_a_refusal_names_the_field_and_what_was_expected(
    body: Callable[..., str], field: str, value: str, expected: str
) -> None:
    assert reason_of(body(**{field: value})) == f"{field}: {expected}"


METADATA = [
    ({"shop": 7}, "metadata[...]: expected `str`, got `int`"),
    ({"shop": "s" * 257}, "metadata[...]: expected `str` of length <= 256"),
    ({"": "x"}, "a name in metadata: expected `str` of length >= 1"),
    ({"n" * 65: "x"}, "a name in metadata: expected `str` of length <= 64"),
]


@pytest.mark.parametrize(("metadata", "reason"), METADATA)
def test_a_refusal_of_metadata_says_whether_a_name_or_a_value_is_wrong(metadata: dict[str, Any], reason: str) -> None:
    assert reason_of(transaction_body(metadata=in_json(metadata))) == reason


UNKNOWN = [
    (transaction_body, "colour"),
    (transaction_body, "annual_rate"),
    (opening_body, "amount"),
    (transfer_body, "account_id"),
    (transfer_body, "currency"),
    (rate_body, "amount"),
    (interest_body, "annual_rate"),
]


@pytest.mark.parametrize(("body", "field"), UNKNOWN)
def test_a_field_that_the_type_does_not_have_is_refused(body: Callable[..., str], field: str) -> None:
    assert reason_of(body(**{field: "1"})) == f"body: object contains unknown field `{field}`"


REQUIRED = [
    (name, field.name)
    for name, message_type in TRANSACTION_TYPES.items()
    for field in msgspec.structs.fields(message_type)
    if field.required
]


@pytest.mark.parametrize(("name", "field"), REQUIRED)
def test_a_field_that_is_missing_is_named(name: str, field: str) -> None:
    assert reason_of(body_with(name, field, None)) == f"body: object missing required field `{field}`"


def body_with(name: str, field: str, value: str | None) -> str:
    """A body of this type with a valid value in each other field that it must have. `value` is JSON."""
    kind = TRANSACTION_TYPES[name]
    required = {each.name: each.name for each in msgspec.structs.fields(kind) if each.required}
    values: dict[str, Any] = {"currency": "EUR", "debits": True, "credits": True, "limits": []}
    values |= dict.fromkeys(("as_of", "until"), "2026-03-01T12:00:00Z") | {number: "0.12" for number, _ in kind.numbers}
    values["legs"] = [{"account_id": "a", "amount": "1"}, {"account_id": "b", "amount": "-1"}]
    fields = {each: json.dumps(values.get(each, each)) for each in required} | {field: value}
    return transaction_body(type=json.dumps(name), **dict.fromkeys(("account_id", "amount")) | fields)


NUMBERS = [(name, *each) for name, message_type in TRANSACTION_TYPES.items() for each in message_type.numbers]
MISSPELLED = ['"12,50"', '""', '"12%"', '"0.1_2"', '"1e99999999999999999999"', '" 0.1"', r'"0.1\n"', '"\u0660.\u0661"']
NO_NUMBERS = {
    **{value: f"{FINITE}, got {value}" for value in ("NaN", "Infinity", "-Infinity")},
    **dict.fromkeys(['"NaN"', '"-inf"'], FINITE),
    **dict.fromkeys(["1" * 39, f'"-0.{"1" * 39}"', "0." + "1" * 39], "39 digits, expected at most 38"),
    "1" * 60_000: "60000 digits, expected at most 38",
    **dict.fromkeys(["1e126", "1e-131"], "expected a number between 1E-130 and 9.9E+125"),
    "1.5e-130": "expected at most 130 decimal places",
}
OUT_OF_RANGE: dict[NumberRange, list[str]] = {
    NumberRange.ANY: [],
    NumberRange.NOT_ZERO: ["0"],
    NumberRange.ABOVE_ZERO: ["0", "0.00", '"-1"'],
    NumberRange.ZERO_OR_LESS: ['"0.01"'],
    NumberRange.RATE: ['"-0.12"', "1.0001", "12"],
    NumberRange.SHARDS: ["0", "1", "3", "2.5", '"-4"', "512"],
}


def test_a_number_in_a_string_may_have_escapes() -> None:
    assert decode(transaction_body(amount=r'"1E\u002B2"')) == decode(transaction_body(amount="100"))


@pytest.mark.parametrize(("name", "field", "expected"), NUMBERS)
def test_a_number_of_any_message_is_in_its_range_and_as_in_json(name: str, field: str, expected: NumberRange) -> None:
    """A field that fails here may be missing in the envelope, which is decoded first."""
    misspelled = MISSPELLED
    if expected is NumberRange.ZERO_OR_LESS:
        misspelled = [each.replace('"', '"-', 1) for each in MISSPELLED]
    elif expected is NumberRange.SHARDS:
        misspelled = ['"12,50"', '""', '"6_4"', '" 64"', r'"64\n"', '"\u0666\u0664"']
    wrong = NO_NUMBERS | dict.fromkeys(misspelled, 'expected a decimal number, such as "12.50"')
    wrong |= dict.fromkeys(OUT_OF_RANGE[expected], f"expected {expected.value}")
    reasons = {value: reason_of(body_with(name, field, value)) for value in wrong}
    assert reasons == {value: f"{field}: {sentence}" for value, sentence in wrong.items()}


OF_MONTH = ChargeInterest.at("alice", datetime(2026, 3, 1, tzinfo=UTC))
OF_HOLD = ExpireHold.at("alice", "h-1", datetime(2026, 3, 1, 12, tzinfo=UTC))
ONLY_A_JOB = "transaction_id: only a job's own message has one that begins with teller:"
TAKEN: dict[str, TransactionMessage] = {
    "a payment": payment(1, transaction_id=OF_HOLD.transaction_id),
    "another id of the kind": payment(1, transaction_id="teller:mine"),
    "another type": voiding(OF_HOLD.transaction_id),
    "another hold": replace(OF_HOLD, hold_id="h-2"),
    "another account": replace(OF_HOLD, account_id="bob"),
    "another description": replace(OF_HOLD, description="mine"),
    "a time that the job doesn't give": replace(OF_HOLD, occurred_at=OF_HOLD.as_of),
    "another month": replace(OF_MONTH, until=datetime(2026, 2, 1, tzinfo=UTC)),
    "another time of the day": replace(OF_MONTH, until=datetime(2026, 3, 1, 1, tzinfo=UTC)),
    "another account's month": replace(OF_MONTH, account_id="bob"),
    "the other job's id": replace(OF_MONTH, transaction_id=OF_HOLD.transaction_id),
}


@pytest.mark.parametrize("message", TAKEN.values(), ids=TAKEN)
def test_an_id_of_a_job_is_refused_on_any_message_but_the_jobs_own(message: TransactionMessage) -> None:
    assert reason_of(json.dumps(message.canonical_payload())) == ONLY_A_JOB


@pytest.mark.parametrize("message", [OF_HOLD, OF_MONTH])
def test_a_jobs_own_message_is_valid_whoever_sends_it_and_whatever_its_rate(message: TransactionMessage) -> None:
    assert decode(json.dumps(message.canonical_payload())) == message


reason_of = functools.partial(refusals.reason_of, decode)

HOSTILE = {
    "a zero with a huge exponent": transaction_body(amount='"0e999999999"'),
    "a bare zero with a huge exponent": transaction_body(amount="0e999999999"),
    "a rate with a huge negative exponent": rate_body(annual_rate="1e-999999999"),
    "a huge exponent": transaction_body(amount="1e999999999"),
    "a huge exponent in a string": transaction_body(amount='"1e999999999"'),
    "a huge negative exponent": transaction_body(amount="1e-999999999"),
    "a zero with a huge negative exponent, and a field that isn't": opening_body(overdraft_limit="0e-999999999", x="1"),
    "60,000 decimal places": transaction_body(amount=f"0.{'0' * 60_000}1"),
    "60,000 digits and an exponent": transaction_body(amount=f'"{"9" * 60_000}e999999"'),
    "arrays 60,000 deep": "[" * 60_000,
    "objects 10,000 deep": '{"a":' * 10_000,
    "arrays 20,000 deep in a field": transaction_body(amount="[" * 20_000 + "]" * 20_000),
    "arrays 20,000 deep in a field that isn't, and NaN": transaction_body(x="[" * 20_000 + "NaN" + "]" * 20_000),
    "5,000 fields that aren't": transaction_body(**{f"x{number}": "1" for number in range(5_000)}),
    "a lone surrogate": transaction_body(description='"\ud800"'),
    "a lone surrogate alone": "\udfff",
    "1 MB": "[" * 1_048_576,
    "an unknown field of 60,000 letters": transaction_body(**{"x" * 60_000: "1"}),
    "a field of 60,000 letters that is NaN": transaction_body(**{"x" * 60_000: "NaN"}),
    "5,000 fields that are NaN": transaction_body(**{f"x{number}": "NaN" for number in range(5_000)}),
    "an unknown field of 1,000 control characters": transaction_body(**{"\\u0001" * 1_000: "1"}),
    "a type of 60,000 letters": f'{{"type": "{"x" * 60_000}"}}',
    "an unknown field with a control character": transaction_body(**{"\\u0000\\u001b[2J": "1"}),
    "an unknown field that is no character": transaction_body(**{"\\uffff": "1"}),
    "a lone surrogate that is NaN": transaction_body(**{"\\ud800": "NaN"}),
    "a type with a control character": '{"type": "\\u0007"}',
}


@pytest.mark.parametrize("body", HOSTILE.values(), ids=HOSTILE)
def test_what_is_hostile_is_refused_with_a_short_sentence_of_characters_that_a_queue_takes(body: str) -> None:
    assert reason_of(body)


def test_a_body_is_measured_in_bytes() -> None:
    body = transaction_body(description='"é"')
    body += " " * (MAXIMUM_BODY_BYTES - len(body.encode()))
    assert decode(body).description == "é"
    assert reason_of(body + " ") == f"body: {MAXIMUM_BODY_BYTES + 1:,} bytes, expected at most {MAXIMUM_BODY_BYTES:,}"


@pytest.mark.parametrize("ensure_ascii", [False, True], ids=["as UTF-8", "as escapes"])
@pytest.mark.parametrize("largest", [largest_transaction(), largest_transfer()], ids=["transaction", "transfer"])
def test_the_largest_message_is_as_large_as_a_body_may_be(largest: TransactionMessage, ensure_ascii: bool) -> None:
    assert decode(json.dumps(largest.canonical_payload(), ensure_ascii=ensure_ascii)) == largest


READ_EXACTLY = {
    "1.00": "1",
    "1e2": "100",
    "10e-2": "0.1",
    "0.1000000000000000055511151231257827021": "0.1000000000000000055511151231257827021",  # Almost the float 0.1.
    "1" + "0" * 60: "1" + "0" * 60,
    "1" * 38 + "." + "0" * 200: "1" * 38,
}


@pytest.mark.parametrize("quotes", ["", '"'], ids=["a number", "a string"])
@pytest.mark.parametrize(("spelling", "plain"), READ_EXACTLY.items())
def test_an_amount_is_read_exactly_and_has_one_spelling(spelling: str, plain: str, quotes: str) -> None:
    message = decode(transaction_body(amount=quotes + spelling + quotes))
    assert isinstance(message, Transaction)
    assert message.amount == Decimal(spelling)
    assert message.canonical_payload()["amount"] == plain


@pytest.mark.parametrize("spelling", ["0", "1", "1.000", "1e-130", "0." + "9" * 38])
def test_a_rate_is_from_zero_to_1(spelling: str) -> None:
    message = decode(rate_body(annual_rate=spelling))
    assert Decimal(message.canonical_payload()["annual_rate"]) == Decimal(spelling)


@given(exact_numbers(), st.booleans())
@example(Decimal("1E+38"), True)
def test_any_number_that_dynamodb_holds_is_read_exactly(number: Decimal, quoted: bool) -> None:
    for spelling in (f"{number}", f"{number:f}"):
        message = decode(transaction_body(amount=f'"{spelling}"' if quoted else spelling))
        assert isinstance(message, Transaction)
        assert message.amount == number == Decimal(message.canonical_payload()["amount"])
        assert from_dynamodb(to_dynamodb({"amount": message.amount})) == {"amount": number}


TIMES = {
    "2026-02-28T12:00:00Z": "2026-02-28T12:00:00+00:00",
    "2026-02-28T12:00:00+05:30": "2026-02-28T06:30:00+00:00",
    "2026-02-28T23:30:00-01:00": "2026-03-01T00:30:00+00:00",
    "2026-02-28T12:00:00.000001Z": "2026-02-28T12:00:00.000001+00:00",
}


@pytest.mark.parametrize(("spelling", "in_utc"), TIMES.items())
def test_a_time_has_one_spelling(spelling: str, in_utc: str) -> None:
    assert decode(transaction_body(occurred_at=f'"{spelling}"')).canonical_payload()["occurred_at"] == in_utc


NULLS = dict.fromkeys(["currency", "occurred_at", "description", "metadata"], "null")
SAME = {
    "no type": (transaction_body(), transaction_body(type='"transaction"')),
    "null": (transaction_body(), transaction_body(**NULLS)),
    "empty metadata": (transaction_body(), transaction_body(metadata="{}")),
    "no limit": (opening_body(), opening_body(overdraft_limit="0")),
    "a limit of minus zero": (opening_body(), opening_body(overdraft_limit='"-0.00"')),
    "a limit of zero with a huge exponent": (opening_body(), opening_body(overdraft_limit='"0e999999999"')),
    "an expiry that is null": (hold_body(), hold_body(expires_at="null")),
    "a posting of all": (posting_body(), posting_body(amount="null", to_account_id="null")),
    "a posting that is final": (posting_body(), posting_body(final="true")),
    "a reversal of all": (reversal_body(), reversal_body(amount="null", description="null")),
    **{f"the rate {rate}": (rate_body(), rate_body(annual_rate=rate)) for rate in ('"0.1200"', "12e-2")},
}


@pytest.mark.parametrize(("body", "same"), SAME.values(), ids=SAME)
def test_what_says_the_same_has_one_payload(body: str, same: str) -> None:
    assert decode(same) == decode(body)
    assert decode(same).canonical_payload() == decode(body).canonical_payload()
    assert "null" not in json.dumps(decode(body).canonical_payload())


@given(any_message())
def test_a_request_gives_its_message_back_from_a_table_too_and_is_a_body_of_it(message: TransactionMessage) -> None:
    assert from_payload(message.canonical_payload()) == message
    item = from_dynamodb(to_dynamodb({"request": message.canonical_payload()}))
    assert from_payload(item["request"]) == message
    decoded = decode(json.dumps(message.canonical_payload(), ensure_ascii=False))
    assert decoded == message
    assert decoded.canonical_payload() == message.canonical_payload()


names = st.sampled_from(
    [
        *("type", "transaction_id", "account_id", "from_account_id", "to_account_id"),
        *("amount", "currency", "overdraft_limit", "annual_rate", "occurred_at", "metadata"),
        *("hold_id", "final", "expires_at", "as_of", "of_transaction_id"),
    ]
)
numbers = st.text(string.digits + "+-eE._ ", max_size=12)
texts = st.sampled_from(["open_account", "transfer", "alice", "EUR", "2026-02-28T12:00:00Z", "1e999999999"])
values = nested(JSON | numbers | texts, names | st.text())
every_body = [transaction_body, transfer_body, rate_body, interest_body, hold_body, posting_body]
every_body += [expiry_body, reversal_body]
valid = st.sampled_from([json.loads(body()) for body in every_body])
bodies = (
    st.text()
    | st.text(st.characters())  # Lone surrogates, too.
    | values.map(json.dumps)
    | st.builds(lambda start, more: json.dumps(start | more), valid, st.dictionaries(names | st.text(), values))
    | st.builds(lambda body, cut: json.dumps(body)[:cut], valid, st.integers(0, 60))
)


@given(bodies)
@settings(max_examples=100)
def test_whatever_the_body_it_is_a_message_or_refused_with_a_sentence(body: str) -> None:
    try:
        message = decode(body)
    except InvalidMessage as invalid:
        reason = as_sent(invalid)
        assert len(body) <= 80 or body not in reason
    else:
        assert from_payload(message.canonical_payload()) == message
