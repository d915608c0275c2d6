"""Decoding of transactions: the canonical payload of each valid body, and the sentence for each invalid one."""

import functools
import json
import string
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from conditional_writes.items import from_dynamodb, to_dynamodb
from ledger.core.decoding import INVISIBLE, MAXIMUM_BODY_BYTES
from ledger.core.reason_codes import InvalidMessage
from ledger.core.transaction_types import (
    TRANSACTION_TYPES,
    ChargeInterest,
    ExpireHold,
    OpenAccount,
    Transaction,
    decode,
    from_payload,
)
from ledger.core.transaction_types.base import TransactionMessage
from tests.support import refusals
from tests.support.numbers import exact_numbers
from tests.support.refusals import NOT_FOR_SQS, REASON_CHARACTERS, as_sent
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
    reversal_body,
    transaction_body,
    transfer_body,
    voiding,
)
from tests.support.strategies import any_message

TYPES = ", ".join(TRANSACTION_TYPES)
NUMBER = 'expected a decimal number, such as "12.50"'
FINITE = "expected a finite decimal number"
RANGE = "expected a number between 1E-130 and 9.9E+125"
CURRENCY = 'expected three capital letters, such as "EUR"'
TIME = 'expected an ISO 8601 time with its offset, such as "2026-02-28T12:00:00Z"'
RATE = 'annual_rate: expected a number above zero and at most 1, such as "0.12" for 12 %'
LIMIT = "expected zero or less: how far below zero the balance may go"

REFUSED = {
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
    "unknown field": (transaction_body(colour="1"), "body: object contains unknown field `colour`"),
    "another type's field": (opening_body(amount="1"), "body: object contains unknown field `amount`"),
    "no amount": (transaction_body(amount=None), "body: object missing required field `amount`"),
    "no transaction id": (
        transaction_body(transaction_id=None),
        "body: object missing required field `transaction_id`",
    ),
    "no account id": (transaction_body(account_id=None), "body: object missing required field `account_id`"),
    "no currency": (opening_body(currency=None), "body: object missing required field `currency`"),
    "empty transaction id": (transaction_body(transaction_id='""'), "transaction_id: expected `str` of length >= 1"),
    "empty account id": (transaction_body(account_id='""'), "account_id: expected `str` of length >= 1"),
    "over-long transaction id": (
        transaction_body(transaction_id=f'"{"t" * 129}"'),
        "transaction_id: expected `str` of length <= 128",
    ),
    "a field twice": (transaction_body()[:-1] + ', "amount": -9}', "amount: expected it once"),
    "a field twice, spelled otherwise": (transaction_body()[:-1] + ', "amoun\\u0074": -9}', "amount: expected it once"),
    "one type twice": (
        transaction_body(type='"transaction"')[:-1] + ', "type": "transaction"}',
        "type: expected it once",
    ),
    "a name in metadata twice": (transaction_body(metadata='{"shop": "a", "shop": "b"}'), "shop: expected it once"),
    "over-long account id": (
        transaction_body(account_id=f'"{"a" * 129}"'),
        "account_id: expected `str` of length <= 128",
    ),
    "id as a number": (transaction_body(transaction_id="1"), "transaction_id: expected `str`, got `int`"),
    "amount as a boolean": (transaction_body(amount="true"), "amount: expected `decimal`, got `bool`"),
    "amount null": (transaction_body(amount="null"), "amount: expected `decimal`, got `null`"),
    "amount as an array": (transaction_body(amount="[1]"), "amount: expected `decimal`, got `array`"),
    "amount with a comma": (transaction_body(amount='"12,50"'), f"amount: {NUMBER}"),
    "empty amount": (transaction_body(amount='""'), f"amount: {NUMBER}"),
    "zero": (transaction_body(amount="0"), "amount: expected a number other than zero"),
    "minus zero": (transaction_body(amount='"-0.00"'), "amount: expected a number other than zero"),
    "NaN": (transaction_body(amount="NaN"), f"amount: {FINITE}, got NaN"),
    "infinity": (transaction_body(amount="Infinity"), f"amount: {FINITE}, got Infinity"),
    "minus infinity": (transaction_body(amount="-Infinity"), f"amount: {FINITE}, got -Infinity"),
    "NaN in a string": (transaction_body(amount='"NaN"'), f"amount: {FINITE}"),
    "infinity in a string": (transaction_body(amount='"-inf"'), f"amount: {FINITE}"),
    "a limit that is NaN": (opening_body(overdraft_limit="NaN"), f"overdraft_limit: {FINITE}, got NaN"),
    "39 digits": (transaction_body(amount="1" * 39), "amount: 39 digits, expected at most 38"),
    "39 digits in a string": (transaction_body(amount=f'"-0.{"1" * 39}"'), "amount: 39 digits, expected at most 38"),
    "60,000 digits": (transaction_body(amount="1" * 60_000), "amount: 60000 digits, expected at most 38"),
    "a limit of 39 digits": (
        opening_body(overdraft_limit="-" + "1" * 39),
        "overdraft_limit: 39 digits, expected at most 38",
    ),
    "too big for DynamoDB": (transaction_body(amount="1e126"), f"amount: {RANGE}"),
    "too close to zero for DynamoDB": (transaction_body(amount="1e-131"), f"amount: {RANGE}"),
    "too fine for DynamoDB": (transaction_body(amount="1.5e-130"), "amount: expected at most 130 decimal places"),
    "an exponent of 20 digits": (transaction_body(amount='"1e99999999999999999999"'), f"amount: {NUMBER}"),
    "a limit above zero": (opening_body(overdraft_limit='"0.01"'), f"overdraft_limit: {LIMIT}"),
    "a limit null": (opening_body(overdraft_limit="null"), "overdraft_limit: expected `decimal`, got `null`"),
    "a transfer of zero": (transfer_body(amount="0.00"), "amount: expected a number greater than zero"),
    "a transfer of less than zero": (transfer_body(amount='"-1"'), "amount: expected a number greater than zero"),
    "a transfer of NaN": (transfer_body(amount="NaN"), f"amount: {FINITE}, got NaN"),
    "a transfer of 39 digits": (transfer_body(amount="1" * 39), "amount: 39 digits, expected at most 38"),
    "a transfer of an amount that is spelled otherwise": (transfer_body(amount='"1_0"'), f"amount: {NUMBER}"),
    "a transfer to oneself": (
        transfer_body(to_account_id='"alice"'),
        "to_account_id: expected another account than from_account_id",
    ),
    "a transfer from nobody": (
        transfer_body(from_account_id=None),
        "body: object missing required field `from_account_id`",
    ),
    "a transfer to an empty account id": (
        transfer_body(to_account_id='""'),
        "to_account_id: expected `str` of length >= 1",
    ),
    "a transfer of an account": (
        transfer_body(account_id='"alice"'),
        "body: object contains unknown field `account_id`",
    ),
    "a transfer's currency": (transfer_body(currency='"EUR"'), "body: object contains unknown field `currency`"),
    "no rate": (interest_body(annual_rate=None), "body: object missing required field `annual_rate`"),
    "a rate of zero": (interest_body(annual_rate="0.0"), RATE),
    "a rate below zero": (interest_body(annual_rate='"-0.12"'), RATE),
    "a rate above 1": (interest_body(annual_rate="1.0001"), RATE),
    "a rate in percent": (interest_body(annual_rate="12"), RATE),
    "a rate that is NaN": (interest_body(annual_rate="NaN"), f"annual_rate: {FINITE}, got NaN"),
    "a rate that is infinite, in a string": (interest_body(annual_rate='"inf"'), f"annual_rate: {FINITE}"),
    "a rate with a percent sign": (interest_body(annual_rate='"12%"'), f"annual_rate: {NUMBER}"),
    "a rate that is spelled otherwise": (interest_body(annual_rate='"0.1_2"'), f"annual_rate: {NUMBER}"),
    "a rate of 39 digits": (
        interest_body(annual_rate="0." + "1" * 39),
        "annual_rate: 39 digits, expected at most 38",
    ),
    "a rate too close to zero for DynamoDB": (interest_body(annual_rate="1e-131"), f"annual_rate: {RANGE}"),
    "a rate null": (interest_body(annual_rate="null"), "annual_rate: expected `decimal`, got `null`"),
    "interest with an amount": (interest_body(amount="1"), "body: object contains unknown field `amount`"),
    "a payment with a rate": (transaction_body(annual_rate="0.1"), "body: object contains unknown field `annual_rate`"),
    "a hold of zero": (hold_body(amount="0"), "amount: expected a number greater than zero"),
    "a hold without an amount": (hold_body(amount=None), "body: object missing required field `amount`"),
    "a hold of null": (hold_body(amount="null"), "amount: expected `decimal`, got `null`"),
    "a hold's expiry without an offset": (
        hold_body(expires_at='"2026-03-01T12:00:00"'),
        "expires_at: expected `datetime` with a timezone component",
    ),
    "a hold's expiry that UTC has no date for": (
        hold_body(expires_at='"9999-12-31T23:59:59-14:00"'),
        "expires_at: expected a time between the years 1 and 9999 in UTC",
    ),
    "a posting of no hold": (posting_body(hold_id=None), "body: object missing required field `hold_id`"),
    "a posting of zero": (posting_body(amount="0.00"), "amount: expected a number greater than zero"),
    "a posting that is spelled otherwise": (posting_body(amount='"1_0"'), f"amount: {NUMBER}"),
    "a posting to the hold's account": (
        posting_body(to_account_id='"alice"'),
        "to_account_id: expected another account than account_id",
    ),
    "a posting that is final in words": (posting_body(final='"yes"'), "final: expected `bool`, got `str`"),
    "a posting that is null final": (posting_body(final="null"), "final: expected `bool`, got `null`"),
    "an expiry as of no time": (expiry_body(as_of=None), "body: object missing required field `as_of`"),
    "an expiry as of a time that UTC has no date for": (
        expiry_body(as_of='"0001-01-01T00:00:00+14:00"'),
        "as_of: expected a time between the years 1 and 9999 in UTC",
    ),
    "a reversal of nothing": (
        reversal_body(of_transaction_id=None),
        "body: object missing required field `of_transaction_id`",
    ),
    "a reversal of itself": (
        reversal_body(of_transaction_id='"t-1"'),
        "of_transaction_id: expected the id of another transaction, got the message's own",
    ),
    "a posting of itself": (
        posting_body(hold_id='"t-1"'),
        "hold_id: expected the id of a hold, got the message's own",
    ),
    "an expiry of itself": (expiry_body(hold_id='"t-1"'), "hold_id: expected the id of a hold, got the message's own"),
    "a reversal of less than zero": (reversal_body(amount='"-1"'), "amount: expected a number greater than zero"),
    "a reversal of NaN": (reversal_body(amount="NaN"), f"amount: {FINITE}, got NaN"),
    "a reversal that is spelled otherwise": (reversal_body(amount='" 1"'), f"amount: {NUMBER}"),
    "currency in small letters": (transaction_body(currency='"eur"'), f"currency: {CURRENCY}"),
    "currency of four letters": (transaction_body(currency='"EURO"'), f"currency: {CURRENCY}"),
    "currency and a newline": (transaction_body(currency='"EUR\\n"'), f"currency: {CURRENCY}"),
    "currency as a number": (transaction_body(currency="978"), "currency: expected `str | null`, got `int`"),
    "time in words": (transaction_body(occurred_at='"yesterday"'), f"occurred_at: {TIME}"),
    "a day that isn't": (transaction_body(occurred_at='"2026-02-30T00:00:00Z"'), f"occurred_at: {TIME}"),
    "time without an offset": (
        transaction_body(occurred_at='"2026-02-28T12:00:00"'),
        "occurred_at: expected `datetime` with a timezone component",
    ),
    "time in seconds": (transaction_body(occurred_at="1"), "occurred_at: expected `datetime | null`, got `int`"),
    "description as a number": (transaction_body(description="1"), "description: expected `str | null`, got `int`"),
    "over-long description": (
        transaction_body(description=f'"{"d" * 501}"'),
        "description: expected `str` of length <= 500",
    ),
    "metadata as an array": (transaction_body(metadata="[]"), "metadata: expected `object | null`, got `array`"),
    "a metadata value as a number": (
        transaction_body(metadata='{"shop": 7}'),
        "metadata[...]: expected `str`, got `int`",
    ),
    "an over-long metadata value": (
        transaction_body(metadata=f'{{"shop": "{"s" * 257}"}}'),
        "metadata[...]: expected `str` of length <= 256",
    ),
    "an empty metadata name": (
        transaction_body(metadata='{"": "x"}'),
        "a name in metadata: expected `str` of length >= 1",
    ),
    "an over-long metadata name": (
        transaction_body(metadata=f'{{"{"n" * 65}": "x"}}'),
        "a name in metadata: expected `str` of length <= 64",
    ),
    "21 metadata": (
        transaction_body(metadata=json.dumps(dict.fromkeys(string.ascii_letters[:21], "x"))),
        "metadata: expected `object` of length <= 20",
    ),
    "an escaped lone surrogate": (
        transaction_body(description='"\\ud800"'),
        "body: expected JSON; Input data was truncated",
    ),
}


CAN_NOT_BE_SEEN = {
    "a zero-width space": ("order\u200b", "U+200B at character 6 can't be seen"),
    "NUL": ("\0", "U+0000 at character 1 can't be seen"),
    "a newline": ("a\nb", "U+000A at character 2 can't be seen"),
    "a C1 control": ("a\x9b", "U+009B at character 2 can't be seen"),
    "a line separator": ("a\u2028b", "U+2028 at character 2 can't be seen"),
    "private use": ("\ue000", "U+E000 at character 1 can't be seen"),
    "unassigned": ("a\U000e0fff", "U+E0FFF at character 2 can't be seen"),
    "a right-to-left override": ("\u202ea", "U+202E at character 1 can't be seen"),
    "a no-break space inside": ("a\xa0b", "U+00A0 at character 2 can't be seen"),
    "an emoji that is joined": ("\U0001f469\u200d\U0001f4bb", "U+200D at character 2 can't be seen"),
    "a variation selector": ("\u2764\ufe0f", "U+FE0F at character 2 can't be seen"),
    "a Hangul filler": ("\u3164", "U+3164 at character 1 can't be seen"),
    "a Braille blank": ("a\u2800", "U+2800 at character 2 can't be seen"),
    "a grapheme joiner": ("a\u034fb", "U+034F at character 2 can't be seen"),
    "a blank at the end": ("order ", "U+0020 at character 6 can't be seen at an end"),
    "a blank at the beginning": (" é", "U+0020 at character 1 can't be seen at an end"),
    "letters apart from their accents": ("cafe\u0301", "U+0065 at character 4 isn't in Unicode's normal form NFC"),
    "a sign that is a letter": ("\u212a", "U+212A at character 1 isn't in Unicode's normal form NFC"),
}


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
@pytest.mark.parametrize(("text", "sentence"), CAN_NOT_BE_SEEN.values(), ids=CAN_NOT_BE_SEEN)
def test_an_id_that_can_not_be_seen_is_refused_with_the_place_of_the_character(
    body: Callable[..., str], field: str, text: str, sentence: str
) -> None:
    assert reason_of(body(**{field: json.dumps(text)})) == f"{field}: {sentence}"


@pytest.mark.parametrize("text", ["a b", "café", "\U0001f3e6", "订单-1", "ご注文", "заказ", "#/=%", "ß"])
def test_an_id_in_any_script_is_valid(text: str) -> None:
    assert decode(transaction_body(transaction_id=json.dumps(text))).transaction_id == text


def test_each_character_of_unicode_that_is_ignored_by_default_is_refused() -> None:
    """The ranges are those of DerivedCoreProperties.txt, Unicode 15.1: Default_Ignorable_Code_Point."""
    ranges = "00AD 034F 061C 115F-1160 17B4-17B5 180B-180F 200B-200F 202A-202E 2060-206F 3164 FE00-FE0F FEFF FFA0"
    ranges += " FFF0-FFF8 1BCA0-1BCA3 1D173-1D17A E0000-E0FFF"
    for first, _, last in (each.partition("-") for each in ranges.split()):
        for number in range(int(first, 16), int(last or first, 16) + 1):
            assert not chr(number).isprintable() or chr(number) in INVISIBLE, hex(number)


OF_DAY = ChargeInterest.of_day("alice", date(2026, 2, 28), Decimal("0.12"))
OF_HOLD = ExpireHold.at("alice", "h-1", datetime(2026, 3, 1, 12, tzinfo=UTC))
ONLY_A_JOB = "transaction_id: only the job's own message has one that begins with overdraft-interest- or expire-hold-"
TAKEN: dict[str, TransactionMessage] = {
    "a payment": payment(1, transaction_id=OF_HOLD.transaction_id),
    "another id of the kind": payment(1, transaction_id="overdraft-interest-mine"),
    "another type": voiding(OF_HOLD.transaction_id),
    "another hold": replace(OF_HOLD, hold_id="h-2"),
    "another account": replace(OF_HOLD, account_id="bob"),
    "another description": replace(OF_HOLD, description="mine"),
    "a time that the job doesn't give": replace(OF_HOLD, occurred_at=OF_HOLD.as_of),
    "another day": replace(OF_DAY, occurred_at=datetime(2026, 3, 1, tzinfo=UTC)),
    "another time of the day": replace(OF_DAY, occurred_at=datetime(2026, 2, 28, 1, tzinfo=UTC)),
    "no day": replace(OF_DAY, occurred_at=None),
    "another account's day": replace(OF_DAY, account_id="bob"),
    "the other job's id": replace(OF_DAY, transaction_id=OF_HOLD.transaction_id),
}


@pytest.mark.parametrize("message", TAKEN.values(), ids=TAKEN)
def test_an_id_of_a_job_is_refused_on_any_message_but_the_jobs_own(message: TransactionMessage) -> None:
    assert reason_of(json.dumps(message.canonical_payload())) == ONLY_A_JOB


@pytest.mark.parametrize("message", [OF_HOLD, OF_DAY, replace(OF_DAY, annual_rate=Decimal(1))])
def test_a_jobs_own_message_is_valid_whoever_sends_it_and_whatever_its_rate(message: TransactionMessage) -> None:
    assert decode(json.dumps(message.canonical_payload())) == message


reason_of = functools.partial(refusals.reason_of, decode)


@pytest.mark.parametrize(("body", "reason"), REFUSED.values(), ids=REFUSED)
def test_a_refusal_names_the_field_and_what_was_expected(body: str, reason: str) -> None:
    assert reason_of(body) == reason


HOSTILE = {
    "a zero with a huge exponent": transaction_body(amount='"0e999999999"'),
    "a bare zero with a huge exponent": transaction_body(amount="0e999999999"),
    "a rate with a huge negative exponent": interest_body(annual_rate="1e-999999999"),
    "a huge exponent": transaction_body(amount="1e999999999"),
    "a huge exponent in a string": transaction_body(amount='"1e999999999"'),
    "a huge negative exponent": transaction_body(amount="1e-999999999"),
    "a zero limit with a huge negative exponent, and a field that isn't": opening_body(
        overdraft_limit="0e-999999999", x="1"
    ),
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
}


@pytest.mark.parametrize("body", HOSTILE.values(), ids=HOSTILE)
def test_what_is_hostile_is_refused_with_a_short_sentence(body: str) -> None:
    assert len(reason_of(body)) < REASON_CHARACTERS


def test_a_zero_with_a_huge_exponent_is_just_zero() -> None:
    opened = decode(opening_body(overdraft_limit='"0e999999999"'))
    assert opened.canonical_payload()["overdraft_limit"] == "0"


def test_a_body_is_measured_in_bytes() -> None:
    body = transaction_body(description='"é"')
    body += " " * (MAXIMUM_BODY_BYTES - len(body.encode()))
    assert decode(body).description == "é"
    assert reason_of(body + " ") == f"body: {MAXIMUM_BODY_BYTES + 1:,} bytes, expected at most {MAXIMUM_BODY_BYTES:,}"


@pytest.mark.parametrize("ensure_ascii", [False, True], ids=["as UTF-8", "as escapes"])
@pytest.mark.parametrize("largest", [largest_transaction(), largest_transfer()], ids=["transaction", "transfer"])
def test_the_largest_valid_message_is_no_larger_than_a_body_may_be(
    largest: TransactionMessage, ensure_ascii: bool
) -> None:
    assert decode(json.dumps(largest.canonical_payload(), ensure_ascii=ensure_ascii)) == largest


LONG_WINDED = {
    "an unknown field of 60,000 letters": transaction_body(**{"x" * 60_000: "1"}),
    "a field of 60,000 letters that is NaN": transaction_body(**{"x" * 60_000: "NaN"}),
    "5,000 fields that are NaN": transaction_body(**{f"x{number}": "NaN" for number in range(5_000)}),
    "an unknown field of 1,000 control characters": transaction_body(**{"\\u0001" * 1_000: "1"}),
    "a type of 60,000 letters": f'{{"type": "{"x" * 60_000}"}}',
}


@pytest.mark.parametrize("body", LONG_WINDED.values(), ids=LONG_WINDED)
def test_a_reason_is_a_sentence_however_long_the_producers_names_are(body: str) -> None:
    assert len(reason_of(body)) <= REASON_CHARACTERS


UNSPEAKABLE = {
    "an unknown field with a control character": transaction_body(**{"\\u0000\\u001b[2J": "1"}),
    "an unknown field that is no character": transaction_body(**{"\\uffff": "1"}),
    "a lone surrogate that is NaN": transaction_body(**{"\\ud800": "NaN"}),
    "a type with a control character": '{"type": "\\u0007"}',
}


@pytest.mark.parametrize("body", UNSPEAKABLE.values(), ids=UNSPEAKABLE)
def test_a_reason_has_only_characters_that_a_queue_takes(body: str) -> None:
    assert not NOT_FOR_SQS.search(reason_of(body))


READ_EXACTLY = {
    "1": "1",
    "1.00": "1",
    "1e0": "1",
    "100": "100",
    "1e2": "100",
    "1E+2": "100",
    "-12.50": "-12.5",
    "0.1": "0.1",
    "10e-2": "0.1",
    "9007199254740993": "9007199254740993",  # A float can't represent this number.
    "0.1000000000000000055511151231257827021": "0.1000000000000000055511151231257827021",  # Almost the float 0.1.
    "12345678901234567890.123456789012345678": "12345678901234567890.123456789012345678",
    "9" * 38: "9" * 38,
    "1" + "0" * 60: "1" + "0" * 60,
    "1" * 38 + "." + "0" * 40: "1" * 38,
    "1e-130": "0." + "0" * 129 + "1",
    "9.9e125": "99" + "0" * 124,
}


@pytest.mark.parametrize("quotes", ["", '"'], ids=["a number", "a string"])
@pytest.mark.parametrize(("spelling", "plain"), READ_EXACTLY.items())
def test_an_amount_is_read_exactly_and_has_one_spelling(spelling: str, plain: str, quotes: str) -> None:
    message = decode(transaction_body(amount=quotes + spelling + quotes))
    assert isinstance(message, Transaction)
    assert message.amount == Decimal(spelling)
    assert message.canonical_payload()["amount"] == plain


NUMBERS = [
    (name, field.name)
    for name, message in TRANSACTION_TYPES.items()
    for field in msgspec.structs.fields(message)
    if field.type in (Decimal, Decimal | None)
]


def body_with(name: str, field: str, spelled: str) -> str:
    """A body of this type, with a word in each other field that it must have."""
    required = {each.name for each in msgspec.structs.fields(TRANSACTION_TYPES[name]) if each.required}
    words = {each: "EUR" if each == "currency" else each for each in required}
    return json.dumps(words | {"type": name, field: spelled})


@pytest.mark.parametrize(("name", "field"), NUMBERS)
def test_each_number_of_each_message_has_a_numbers_spelling(name: str, field: str) -> None:
    """A field that fails here is missing in the envelope, which is decoded first."""
    spelled = "-0.1_2" if field == "overdraft_limit" else "0.1_2"
    assert reason_of(body_with(name, field, spelled)) == f"{field}: {NUMBER}"


@pytest.mark.parametrize("spelling", ['"-0"', '"-0.00"', "-0", "0e5", '"0.000"', "0"])
def test_a_limit_of_zero_has_one_spelling(spelling: str) -> None:
    assert (
        decode(opening_body(overdraft_limit=spelling)).canonical_payload() == decode(opening_body()).canonical_payload()
    )


@pytest.mark.parametrize("spelling", ["0.12", '"0.12"', "12e-2", '"0.1200"', '"1.2E-1"'])
def test_a_rate_is_read_exactly_and_has_one_spelling(spelling: str) -> None:
    assert decode(interest_body(annual_rate=spelling)).canonical_payload()["annual_rate"] == "0.12"


@pytest.mark.parametrize("spelling", ["1", "1.000", "1e-130", "0." + "9" * 38])
def test_a_rate_is_above_zero_and_at_most_1(spelling: str) -> None:
    message = decode(interest_body(annual_rate=spelling))
    assert Decimal(message.canonical_payload()["annual_rate"]) == Decimal(spelling)


@pytest.mark.parametrize("spelling", ["12_50", "\u0661\u0662", "\uff11", " 1", "1\n"])
def test_an_amount_is_spelled_as_in_json(spelling: str) -> None:
    assert reason_of(transaction_body(amount=in_json(spelling))) == f"amount: {NUMBER}"


def test_trailing_zeros_are_no_digits_however_many() -> None:
    message = decode(transaction_body(amount="1." + "0" * 200))
    assert message.canonical_payload()["amount"] == "1"


@given(exact_numbers(), st.booleans())
def test_any_number_that_dynamodb_holds_is_read_exactly(number: Decimal, quoted: bool) -> None:
    message = decode(transaction_body(amount=f'"{number}"' if quoted else str(number)))
    assert isinstance(message, Transaction)
    assert message.amount == number == Decimal(message.canonical_payload()["amount"])


@given(exact_numbers())
@example(Decimal("1E+38"))
def test_any_amount_that_is_accepted_can_be_written(number: Decimal) -> None:
    for spelling in (f"{number}", f"{number:f}"):
        amount = payment(spelling).amount
        assert from_dynamodb(to_dynamodb({"amount": amount})) == {"amount": number}


TIMES = {
    "in UTC": ("2026-02-28T12:00:00Z", "2026-02-28T12:00:00+00:00"),
    "east of it": ("2026-02-28T12:00:00+05:30", "2026-02-28T06:30:00+00:00"),
    "west of it": ("2026-02-28T23:30:00-01:00", "2026-03-01T00:30:00+00:00"),
    "to the microsecond": ("2026-02-28T12:00:00.000001Z", "2026-02-28T12:00:00.000001+00:00"),
}


@pytest.mark.parametrize(("spelling", "in_utc"), TIMES.values(), ids=TIMES)
def test_a_time_has_one_spelling(spelling: str, in_utc: str) -> None:
    assert decode(transaction_body(occurred_at=f'"{spelling}"')).canonical_payload()["occurred_at"] == in_utc


@pytest.mark.parametrize("spelling", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"])
def test_a_time_that_utc_has_no_date_for_is_refused(spelling: str) -> None:
    assert reason_of(transaction_body(occurred_at=f'"{spelling}"')).startswith("occurred_at: expected ")


def test_what_is_left_out_has_its_default() -> None:
    opened, paid = decode(opening_body()), decode(transaction_body())
    assert isinstance(opened, OpenAccount)
    assert isinstance(paid, Transaction)
    assert opened.overdraft_limit == 0
    assert (paid.currency, paid.occurred_at, paid.description, paid.metadata) == (None, None, None, None)


@pytest.mark.parametrize(
    ("body", "names"),
    [
        (hold_body, ["expires_at"]),
        (posting_body, ["amount", "to_account_id"]),
        (reversal_body, ["amount", "description"]),
    ],
)
def test_an_optional_field_that_is_null_is_left_out(body: Callable[..., str], names: list[str]) -> None:
    left_out = decode(body())
    assert decode(body(**dict.fromkeys(names, "null"))) == left_out
    assert not set(names) & left_out.canonical_payload().keys()


def test_a_posting_is_final_unless_it_says_otherwise() -> None:
    assert decode(posting_body(final="true")).canonical_payload() == decode(posting_body()).canonical_payload()
    assert decode(posting_body(final="false")).canonical_payload()["final"] is False


def test_empty_metadata_is_the_same_as_none() -> None:
    assert decode(transaction_body(metadata="{}")).canonical_payload() == decode(transaction_body()).canonical_payload()


def test_null_is_the_same_as_left_out() -> None:
    nulls = dict.fromkeys(["currency", "occurred_at", "description", "metadata"], "null")
    assert decode(transaction_body(**nulls)).canonical_payload() == decode(transaction_body()).canonical_payload()


def test_a_message_without_a_type_is_a_transaction() -> None:
    assert (
        decode(transaction_body()).canonical_payload()
        == decode(transaction_body(type='"transaction"')).canonical_payload()
    )


DIFFERENT = {
    "amount": "2",
    "currency": '"EUR"',
    "occurred_at": '"2026-02-28T12:00:00Z"',
    "description": '""',
    "metadata": '{"shop": ""}',
}


@pytest.mark.parametrize(("name", "value"), DIFFERENT.items(), ids=DIFFERENT)
def test_another_payload_has_another_request(name: str, value: str) -> None:
    assert (
        decode(transaction_body(**{name: value})).canonical_payload() != decode(transaction_body()).canonical_payload()
    )


@given(any_message())
def test_a_request_gives_its_message_back(message: TransactionMessage) -> None:
    assert from_payload(message.canonical_payload()) == message


@given(any_message())
def test_a_request_gives_its_message_back_from_a_table_too(message: TransactionMessage) -> None:
    item = from_dynamodb(to_dynamodb({"request": message.canonical_payload()}))
    assert from_payload(item["request"]) == message


@given(any_message())
def test_a_request_is_a_body_of_the_same_message(message: TransactionMessage) -> None:
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
values: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.text(string.digits + "+-eE._ ", max_size=12)
    | st.sampled_from(["open_account", "transfer", "alice", "EUR", "2026-02-28T12:00:00Z", "1e999999999"]),
    lambda inner: st.lists(inner) | st.dictionaries(names | st.text(), inner),
    max_leaves=8,
)
valid = st.sampled_from(
    list(
        map(
            json.loads,
            [
                *(transaction_body(), transfer_body(), interest_body()),
                *(hold_body(), posting_body(), expiry_body(), reversal_body()),
            ],
        )
    )
)
bodies = (
    st.text()
    | st.text(st.characters())  # Lone surrogates, too.
    | values.map(json.dumps)
    | st.builds(lambda start, more: json.dumps(start | more), valid, st.dictionaries(names | st.text(), values))
    | st.builds(lambda body, cut: json.dumps(body)[:cut], valid, st.integers(0, 60))
)


@given(bodies)
@settings(max_examples=600)
def test_whatever_the_body_it_is_a_message_or_refused_with_a_sentence(body: str) -> None:
    try:
        message = decode(body)
    except InvalidMessage as invalid:
        reason = as_sent(invalid)
        assert len(reason) <= REASON_CHARACTERS
        assert len(body) <= 80 or body not in reason
        assert not NOT_FOR_SQS.search(reason)
    else:
        assert from_payload(message.canonical_payload()) == message
