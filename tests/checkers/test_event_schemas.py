"""Tests of the events' schemas and their checker: the events of all messages fit, and each planted fault is found."""

import copy
import json
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema_rs import Draft202012Validator, meta
from msgspec.structs import replace

from conditional_writes.core.items import from_dynamodb, to_dynamodb
from ledger.core import outcome_events
from ledger.core.accounts import timestamp
from ledger.core.journal import JournalEntry, entry_item
from ledger.core.outcome_events import OutcomeEvent, outcome_event, refusal_event
from ledger.core.reason_codes import ReasonCode
from ledger.core.reversals import Reversal
from ledger.core.rules import Decision, RejectionReason
from ledger.core.transaction_types import TRANSACTION_TYPES, Reverse, decode
from ledger.core.transaction_types.base import TransactionMessage, outcome_of
from ledger.core.transaction_types.legs import MOST_LEGS
from ledger.core.values import normalized
from tests.checkers import outcomes
from tests.checkers.event_schemas import problems, schema, strict, violations
from tests.support import samples
from tests.support.numbers import exact_numbers
from tests.support.samples import ALICE, hold, posting, reversing
from tests.support.strategies import any_message, ids
from workers.batches import GivenUp

SCHEMAS = ("outcome", "transaction_refused")
REASON_CODES = {*ReasonCode, *GivenUp} - {ReasonCode.NOT_A_MAP, ReasonCode.ITEM_TOO_LARGE}
"""Of messages of the transactions queue."""
NOW = datetime(2026, 11, 22, 14, 30, tzinfo=UTC)

type Event = dict[str, Any]
balances = (exact_numbers() | st.just(Decimal(0))).map(normalized)
NEVER_ZERO = {"HoldPosted", "TransactionReversed"}
"""The detail types whose amount is never 0; that of an interest may be."""
id_fields = st.sampled_from(["transaction_id", "account_id", "from_account_id", "to_account_id"])
any_ids = st.dictionaries(id_fields, ids | st.integers())
SHARED = {field.name for field in msgspec.structs.fields(TransactionMessage)}


def delivered(event: OutcomeEvent) -> Event:
    """The event as EventBridge delivers it to a queue."""
    return {
        "version": "0",
        "id": "5a9ffb7c-9b3c-4b4f-8d2f-2f7f4d0c6f43",
        "detail-type": event.detail_type,
        "source": outcome_events.SOURCE,
        "account": "123456789012",
        "time": event.time.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "region": "eu-west-1",
        "resources": [],
        "detail": json.loads(event.detail),
    }


def entry_of(
    message: TransactionMessage, account_id: str, decision: Decision, version: int = 1, held: Decimal = Decimal(0)
) -> JournalEntry:
    """The entry of this decision, which leaves so much `held`."""
    after = replace(ALICE, version=version, held=held, posted_at=timestamp(NOW))
    return samples.entry_of(message, outcome_of(decision, after), account_id)


def told(*arguments: Any, **fields: Any) -> Event:
    """The event of `entry_of` these arguments."""
    return delivered(outcome_event(entry_item(entry_of(*arguments, **fields))))


@st.composite
def entries(draw: st.DrawFn) -> JournalEntry:
    """The entry of any decision on any message."""
    message, reason = draw(any_message()), draw(st.none() | st.sampled_from(RejectionReason))
    account_id, amount, reversal = draw(st.sampled_from(message.account_ids)), Decimal(0), None
    if message.posted_event in {TransactionMessage.posted_event, *NEVER_ZERO} and not reason:
        amount = draw(balances.filter(bool) if message.posted_event in NEVER_ZERO else balances)
    held = draw(balances).copy_abs()
    if message.posted_event == "HoldPlaced" and not reason:
        held = held or Decimal("0.01")
    if isinstance(message, Reverse):
        others = draw(st.lists(ids.filter(lambda name: name != account_id), unique=True, max_size=MOST_LEGS - 1))
        reversal = Reversal(draw(st.integers(0, 99)), draw(balances).copy_abs(), tuple(others))
        if others and draw(st.booleans()):
            first, *rest = others
            account_id, reversal = first, replace(reversal, other_account_ids=(account_id, *rest))
    is_opening = message.posted_event == "AccountOpened" and not reason
    decimal_places = draw(st.none() | st.integers(0, 4)) if is_opening else None
    by = account_id if reason and draw(st.booleans()) else None
    decision = Decision(amount, draw(balances), reason, decimal_places, reversal, by)
    return entry_of(message, account_id, decision, draw(st.integers(1, 10**12)), held)


@given(entries())
def test_the_event_of_each_entry_fits_its_schema_and_says_the_same_each_time(entry: JournalEntry) -> None:
    item = entry_item(entry)
    from_the_stream = from_dynamodb(to_dynamodb(item))
    event = delivered(outcome_event(from_the_stream))
    assert outcome_event(from_the_stream) == outcome_event(item)
    assert problems(event) == outcomes.violations([entry], [event, event]) == []
    Draft202012Validator(schema("outcome")).validate(event)


@given(
    st.uuids().map(str),
    st.none() | any_message() | st.text() | any_ids.map(json.dumps),
    st.sampled_from(sorted(REASON_CODES)),
    st.text(),
    st.sampled_from([{}, {"original_status": "POSTED"}, {"original_status": "REJECTED"}]),
)
def test_the_event_of_each_refused_message_fits_its_schema(
    message_id: str, content: TransactionMessage | str | None, code: str, reason: str, details: dict[str, str]
) -> None:
    event = delivered(refusal_event(message_id, content, (code, reason), NOW, details))
    assert problems(event) == []
    Draft202012Validator(schema("transaction_refused")).validate(event)


@pytest.mark.parametrize("name", SCHEMAS)
def test_each_schema_is_one_for_consumers_and_for_us(name: str) -> None:
    meta.validate(schema(name))
    meta.validate(strict(schema(name)))


def test_the_schemas_have_what_the_code_has() -> None:
    outcome, refused = map(schema, SCHEMAS)
    detail_types = {each.posted_event for each in TRANSACTION_TYPES.values()} | {outcome_events.REJECTED}
    assert set(outcome["properties"]["detail-type"]["examples"]) == detail_types
    assert refused["properties"]["detail-type"] == {"const": outcome_events.REFUSED}
    request = outcome["$defs"]["request"]
    assert request["properties"]["type"]["examples"] == list(TRANSACTION_TYPES)
    assert [each["if"]["properties"]["type"]["const"] for each in request["allOf"]] == list(TRANSACTION_TYPES)
    details = [each["$defs"]["detail"]["properties"] for each in (outcome, refused)]
    assert details[0]["reason"]["examples"] == [None, *sorted(RejectionReason)]
    assert set(details[1]["reason_code"]["examples"]) == REASON_CODES
    for detail in details:
        assert detail["schema_version"]["const"] == outcome_events.SCHEMA_VERSION


@pytest.mark.parametrize("name", TRANSACTION_TYPES)
def test_a_request_has_the_fields_of_its_type(name: str) -> None:
    cases = schema("outcome")["$defs"]["request"]["allOf"]
    [case] = [each["then"] for each in cases if each["if"]["properties"]["type"]["const"] == name]
    fields = [field for field in msgspec.structs.fields(TRANSACTION_TYPES[name]) if field.name not in SHARED]
    assert set(case["properties"]) == {field.name for field in fields}
    assert set(case["required"]) == {field.name for field in fields if field.required}


def test_each_request_may_have_the_fields_of_all_types() -> None:
    request = schema("outcome")["$defs"]["request"]
    assert request["properties"].keys() - {"type"} == SHARED
    assert request["required"] == ["type", "transaction_id"]


DEBIT = decode('{"transaction_id": "t-1", "account_id": "a", "amount": "-12.50"}')
OPENING = decode('{"type": "open_account", "transaction_id": "t-0", "account_id": "a", "currency": "EUR"}')
NOTHING, FIVE = Decimal(0), Decimal(5)
POSTED = told(DEBIT, "a", Decision(Decimal("-12.5"), FIVE), 3)
OPENED = told(OPENING, "a", Decision(NOTHING, NOTHING))
REJECTED = told(DEBIT, "a", Decision(NOTHING, FIVE, RejectionReason.OVERDRAFT_LIMIT), 4)
HELD = told(hold("5", account_id="a"), "a", Decision(NOTHING, FIVE), 5, FIVE)
HOLD_POSTED = told(posting("2", final=False, account_id="a"), "a", Decision(Decimal(-2), FIVE), 6, Decimal(3))
REVERSED = told(reversing(account_id="a"), "a", Decision(FIVE, FIVE, reversal=Reversal(1, FIVE, ("b",))), 8)
OTHER_SIDE = told(reversing(account_id="a"), "b", Decision(-FIVE, FIVE, reversal=Reversal(1, FIVE, ("a",))), 9)
REFUSED = delivered(refusal_event("m-1", DEBIT, ("PAYLOAD_CHANGED", "amount: another one"), NOW))


@pytest.mark.parametrize("event", [POSTED, REJECTED, REFUSED])
def test_a_consumer_takes_further_fields(event: Event) -> None:
    later = event | {"replay-name": "again", "detail": event["detail"] | {"settled_on": "2026-11-24"}}
    Draft202012Validator(schema("transaction_refused" if event is REFUSED else "outcome")).validate(later)
    assert len(problems(later)) == 2


def test_a_consumer_takes_further_types_and_reasons() -> None:
    detail = REJECTED["detail"]
    request = {"type": "freeze", "transaction_id": "t-1", "account_id": "a", "amount": "5", "until": "further notice"}
    later = REJECTED | {"detail": detail | {"reason": "ACCOUNT_FROZEN", "request": request}}
    Draft202012Validator(schema("outcome")).validate(later)
    assert problems(later)


@pytest.mark.parametrize(
    ("event", "path", "value", "problem"),
    [
        (POSTED, "source", "aws.events", 'source: "teller" was expected'),
        (POSTED, "detail-type", "AccountOpened", 'detail.request.type: "open_account" was expected'),
        (REJECTED, "detail-type", "TransactionPosted", 'detail.status: "POSTED" was expected'),
        (REJECTED, "detail.reason", "NO_MONEY", 'detail.reason: "NO_MONEY" is not one of'),
        (POSTED, "detail.reason", "OVERDRAFT_LIMIT", 'detail.reason: "OVERDRAFT_LIMIT" is not of type "null"'),
        (POSTED, "detail.id", "a#4", "detail.id: 'a#4', expected 'a#3'"),
        (POSTED, "detail.account_version", 0, "detail.account_version: 0 is less than the minimum of 1"),
        (POSTED, "detail.amount", "-12.50", 'detail.amount: "-12.50" does not match'),
        (POSTED, "detail.posted_at", "2026-11-22T14:30:00", 'detail.posted_at: "2026-11-22T14:30:00" does not match'),
        (POSTED, "detail.held_after", "-1", 'detail.held_after: "-1" does not match'),
        (POSTED, "detail.reversal", REVERSED["detail"]["reversal"], 'detail: {"required":["reversal"]} is not allowed'),
        (HELD, "detail.held_after", "0", 'detail.held_after: "0" does not match'),
        (HOLD_POSTED, "detail.request.final", True, "detail.request.final: false was expected"),
        (REVERSED, "detail.reversal.reversed_after", "-5", 'detail.reversal.reversed_after: "-5" does not match'),
        (REVERSED, "detail.reversal.other_account_ids", ["a"], "detail.account_id: 'a', expected 'another one'"),
        (OTHER_SIDE, "detail.reversal.other_account_ids", ["c"], "detail.account_id: 'b', expected 'a'"),
        (POSTED, "detail.request.colour", "green", "detail.request: Unevaluated properties are not allowed ('colour'"),
        (POSTED, "detail.request.transaction_id", "t-9", "detail.transaction_id: 't-1', expected 't-9'"),
        (REFUSED, "detail.reason_code", "NOT_A_MAP", 'detail.reason_code: "NOT_A_MAP" is not one of'),
        (REFUSED, "detail.id", "message#m-2", "detail.id: 'message#m-2', expected 'message#m-1'"),
    ],
)
def test_each_planted_fault_is_found(event: Event, path: str, value: Any, problem: str) -> None:
    wrong = copy.deepcopy(event)
    *folders, name = path.split(".")
    place = wrong
    for folder in folders:
        place = place[folder]
    place[name] = value
    assert [each for each in problems(wrong) if each.startswith(problem)], problems(wrong)


def test_a_violation_names_its_event() -> None:
    wrong = POSTED | {"source": "another"}
    assert list(violations([OPENED, wrong, REFUSED])) == ['a#3: source: "teller" was expected']


@pytest.mark.parametrize("event", [POSTED, REVERSED, REFUSED])
def test_each_field_is_needed(event: Event) -> None:
    for name in event["detail"]:
        detail = {other: value for other, value in event["detail"].items() if other != name}
        assert f'detail: "{name}" is a required property' in problems(event | {"detail": detail})
