"""`post_transactions` answers with what the journal has, or says that nothing was tried, or that it doesn't know."""

import io
import itertools
import json
import re
import time
from base64 import b64encode
from collections import Counter
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest import mock

import pytest
from botocore.exceptions import ReadTimeoutError

from ledger.lines import LONGEST_LINE
from ledger.tables import CONTENDED_SECONDS
from tests.support.bodies import Body, hold, payment, post_hold, reverse, transfer, void_hold
from tests.support.in_process import Aws
from tests.support.ledger import Ledger
from tests.support.template import PROJECT
from tools.local_aws.day import believable_day
from tools.local_aws.functions import Context, post_transactions
from tools.local_aws.meter import Meter
from tools.local_aws.server import Endpoint
from tools.teller.message_files import queue_of
from tools.teller.message_queues import MessageQueue

PERIODS = ("day", "month")
LIMITS: list[dict[str, Any]] = [
    *({"name": per, "of": "debits", "per": per, "time_zone": "Europe/Paris", "amount": "500.25"} for per in PERIODS),
    {"name": "often", "of": "debits", "per": "day", "time_zone": "Europe/Paris", "number": 20},
    {"name": "single", "of": "debits", "per": "transaction", "amount": "200.25"},
    {"name": "ceiling", "of": "balance", "amount": "10000"},
]
PAYMENT = payment("t-1", "-12.50", "a")


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.fixture
def ledger(aws: Endpoint, dynamodb: Endpoint) -> Ledger:
    ledger = Ledger(aws, dynamodb)
    ledger.open("a", "b", limit="-100")
    return ledger


@pytest.fixture
def function(ledger: Ledger) -> ModuleType:
    return post_transactions(ledger.dynamodb, ledger.tables, ledger.locks_table)


@pytest.fixture
def with_url(ledger: Ledger) -> ModuleType:
    return post_transactions(ledger.dynamodb, ledger.tables, ledger.locks_table, HAS_URL="on")


def invoke(function: ModuleType, event: Any, seconds: float = 60) -> dict[str, Any]:
    """The answer, as JSON brings it to the caller."""
    answer: dict[str, Any] = json.loads(json.dumps(function.lambda_handler(event, Context(seconds))))
    return answer


def outcomes(function: ModuleType, *messages: Any, **more: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = invoke(function, {"transactions": list(messages)} | more)["outcomes"]
    return found


def states(found: list[dict[str, Any]]) -> list[str]:
    return [outcome["state"] for outcome in found]


def signed_by(user_id: Any) -> dict[str, Any]:
    return {"iam": {"userId": user_id}}


def by_url(
    function: ModuleType, body: str | bytes, authorizer: Any = None, *, encoded: bool = False
) -> tuple[int, Any]:
    http = {"method": "POST", "path": "/"}
    text = b64encode(body.encode() if isinstance(body, str) else body).decode() if encoded else body
    context = {"http": http, "authorizer": authorizer}
    event = {"version": "2.0", "requestContext": context, "body": text, "isBase64Encoded": encoded}
    response = invoke(function, event)
    return response["statusCode"], json.loads(response["body"])


def test_each_transaction_is_answered_in_its_place_with_its_entry(ledger: Ledger, function: ModuleType) -> None:
    found = outcomes(
        function,
        PAYMENT,
        payment("t-2", "-1000", "a"),
        payment("t-3", "twelve", "a"),
        payment("t-4", 5, "nobody"),
        transfer("t-5", 1, "a", "b"),
        "no object",
    )
    assert states(found) == ["posted", "rejected", "invalid", "waiting", "posted", "invalid"]
    assert [outcome["transaction_id"] for outcome in found] == ["t-1", "t-2", None, "t-4", "t-5", None]
    assert (found[0]["amount"], found[0]["balance_after"], found[0]["account_version"]) == ("-12.5", "-12.5", 2)
    assert found[1]["reason"] == "OVERDRAFT_LIMIT"
    assert found[2]["reason"] == 'amount: expected a decimal number, such as "12.50"'
    assert found[3]["reason"] == "account_id: no account 'nobody' has been opened"
    entries = [entry for entry in ledger.books.entries if entry.transaction_id in ("t-1", "t-2", "t-5")]
    assert {(entry.transaction_id, entry.account_id) for entry in entries} == {
        *((f"t-{number}", "a") for number in (1, 2, 5)),
        ("t-5", "b"),
    }


def senders(ledger: Ledger) -> dict[str, str]:
    """By the id of the transaction."""
    return {
        each["transaction_id"]: each["sent"]["sent_by"]
        for each in ledger.items(ledger.tables.journal)
        if each["account_version"] > 1
    }


def test_the_sender_is_the_caller_of_the_url_and_of_a_repetition_the_first(
    ledger: Ledger, with_url: ModuleType
) -> None:
    event = json.loads((PROJECT / "events/post_transactions/06-by-its-url.json").read_text())
    [of_role] = json.loads(invoke(with_url, event | {"body": json.dumps({"transactions": [PAYMENT]})})["body"])[
        "outcomes"
    ]
    two = json.dumps({"transactions": [PAYMENT, PAYMENT | {"transaction_id": "t-2"}]})
    status, answer = by_url(with_url, two, signed_by("AIDAEXAMPLE"))
    assert (status, answer["outcomes"][0]) == (200, of_role)
    assert senders(ledger) == {"t-1": "AROA4EXAMPLE7PAYMENTS:payments-api", "t-2": "AIDAEXAMPLE"}
    places = {each["sent"]["message_id"][-2:] for each in ledger.items(ledger.tables.journal)}
    assert {"#0", "#1"} <= places


def test_a_direct_invocation_says_lambda_and_without_a_url_no_event_is_believed_that_looks_like_a_urls(
    ledger: Ledger, function: ModuleType, with_url: ModuleType
) -> None:
    for number, authorizer in enumerate([signed_by("AROAVICTIM:payments"), None, signed_by(7)]):
        body = json.dumps({"transactions": [PAYMENT | {"transaction_id": f"t-{number}"}]})
        assert by_url(function, body, authorizer)[0] == 200
    outcomes(function, PAYMENT | {"transaction_id": "t-3"})
    outcomes(with_url, PAYMENT | {"transaction_id": "t-4"})
    assert senders(ledger) == dict.fromkeys((f"t-{number}" for number in range(5)), "lambda")


UNCHECKED: list[Any] = [
    None,  # as of a URL that checks nobody
    {"jwt": {"claims": {"sub": "AROAVICTIM:payments"}}},
    {"iam": {"userArn": "arn:aws:iam::123456789012:user/u", "callerId": "AIDAEXAMPLE"}},
    [signed_by("AIDAEXAMPLE")],
    *map(signed_by, ("", 7, None, ["AIDAEXAMPLE"], "AIDA EXAMPLE", "AIDAEXAMPLE\n", "A" * 257)),
    signed_by("АIDAEXAMPLE"),  # noqa: RUF001 (it looks like another)
]


def test_an_event_of_a_url_without_a_checked_caller_is_refused(ledger: Ledger, with_url: ModuleType) -> None:
    reason = "requestContext: expected the caller's id, as a URL of the type AWS_IAM has it"
    refused = (400, {"error": {"code": "INVALID_REQUEST", "reason": reason}})
    for authorizer, dry_run in itertools.product(UNCHECKED, (False, True)):
        body = json.dumps({"transactions": [PAYMENT], "dry_run": dry_run})
        assert by_url(with_url, body, authorizer) == refused, authorizer
    assert ledger.account("a").version == 1


def test_a_caller_of_the_url_cannot_name_another_in_its_request(ledger: Ledger, with_url: ModuleType) -> None:
    victim = {"requestContext": {"http": {}, "authorizer": signed_by("AROAVICTIM:payments")}}
    for more in (victim, {"sent_by": "AROAVICTIM:payments"}):
        status, answer = by_url(with_url, json.dumps({"transactions": [PAYMENT]} | more), signed_by("AIDAEXAMPLE"))
        assert (status, answer["error"]["code"]) == (400, "INVALID_REQUEST")
        forged = json.dumps({"transactions": [PAYMENT | more]})
        assert states(by_url(with_url, forged, signed_by("AIDAEXAMPLE"))[1]["outcomes"]) == ["invalid"]
    assert ledger.account("a").version == 1


def test_an_id_is_posted_once_by_both_ways_and_has_one_answer(ledger: Ledger, function: ModuleType) -> None:
    ledger.post(PAYMENT)
    [again] = outcomes(function, PAYMENT)
    assert (again["state"], again["account_version"]) == ("posted", 2)
    assert outcomes(function, PAYMENT, PAYMENT) == [again, again]
    ledger.post(PAYMENT)
    assert ledger.account("a").version == 2
    for changed in (
        {"amount": "-13"},
        {"amount": "-12.505"},  # it would be invalid anyway
        {"type": "post_hold", "hold_id": "none", "amount": 1},  # it would be waiting: nothing is written that conflicts
    ):
        for dry_run in (True, False):
            [other] = outcomes(function, PAYMENT | changed, dry_run=dry_run)
            found = other["state"], other["reason_code"], other["original_status"]
            assert found == ("invalid", "PAYLOAD_CHANGED", "POSTED")


@pytest.mark.parametrize("limits", [[], LIMITS], ids=["without limits", "with five"])
def test_a_transaction_takes_two_requests_and_five_write_units(
    ledger: Ledger, function: ModuleType, limits: list[dict[str, Any]]
) -> None:
    ledger.post({"type": "set_limits", "transaction_id": "limits", "account_id": "a", "limits": limits})
    meter = Meter(function.poster.client)
    outcomes(function, PAYMENT)
    assert (meter.requests, meter.write_units) == ({"BatchGetItem": 1, "TransactWriteItems": 1}, 5)


def test_a_dry_run_says_what_the_outcome_would_be_and_writes_nothing(ledger: Ledger, function: ModuleType) -> None:
    ledger.post(hold("h-1", 20, "a"))
    messages: list[Body] = [
        PAYMENT,
        post_hold("p-1", 15, "a"),
        post_hold("p-2", None, "a"),
        reverse("r-1", None, "a"),
        payment("t-9", "-1000", "a"),
        payment("t-10", 1, "nobody"),
    ]
    before = ledger.books
    dry = outcomes(function, *messages, dry_run=True)
    assert ledger.books == before
    wet = outcomes(function, *messages)

    assert without_times(dry) == without_times(wet)
    assert without_times(outcomes(function, *messages, dry_run=True)) == without_times(wet)


@pytest.mark.timeout(900)
def test_of_a_days_messages_each_dry_run_says_the_outcome_that_follows(
    ledger: Ledger, services: Aws, every_case: bool
) -> None:
    quiet = {"POWERTOOLS_LOG_LEVEL": "CRITICAL"}
    function = post_transactions(ledger.dynamodb, ledger.tables, ledger.locks_table, **quiet)
    is_whole, said = every_case and ledger.dynamodb is ledger.aws, Counter[str]()
    for body in believable_day(6_000 if is_whole else 300, accounts=200 if is_whole else 15):
        services.engine.clock.sleep(60)  # DynamoDB forgets tokens after ten minutes
        if queue_of(body.encode()) is MessageQueue.ADMINISTRATION:
            ledger.post(body)
        elif is_json(body):
            [dry], [wet] = (without_times(outcomes(function, json.loads(body), dry_run=dry)) for dry in (True, False))
            assert dry == wet
            said[wet["state"]] += 1
    assert said.keys() == {"posted", "rejected", "invalid", "waiting"}
    assert said.total() > (5_000 if is_whole else 200), said


def is_json(body: str) -> bool:
    try:
        json.loads(body, parse_constant=int)
    except ValueError:
        return False
    return True


def without_times(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: value for name, value in outcome.items() if name != "posted_at"} for outcome in found]


@pytest.mark.parametrize(
    ("lost", "seconds", "dry_run", "state"),
    [
        ("TransactWriteItems", 60, False, "unknown"),
        ("BatchGetItem", 60, False, "busy"),
        ("BatchGetItem after the first", 60, False, "busy"),
        ("BatchGetItem", 60, True, "busy"),
        ("nothing", 5, False, "busy"),
    ],
    ids=["AWS says nothing of a write", "of a read", "of a later read", "of a read in a dry run", "no time is left"],
)
def test_what_isnt_known_is_said_as_unknown_and_what_wasnt_tried_as_busy(
    ledger: Ledger, function: ModuleType, lost: str, seconds: float, state: str, *, dry_run: bool
) -> None:
    def lose(**_: Any) -> None:
        if not answered or answered.pop():
            raise ReadTimeoutError(endpoint_url="lost")

    operation, _, is_later = lost.partition(" ")
    answered = [False] if is_later else []
    function.poster.client.meta.events.register(f"before-send.dynamodb.{operation}", lose)
    message = void_hold("v-1", "a") if is_later else PAYMENT  # whether there was such a hold is read last
    with mock.patch("time.sleep"):
        answer = invoke(function, {"transactions": [message], "dry_run": dry_run}, seconds)
    assert states(answer["outcomes"]) == [state]
    assert ledger.account("a").version == 1


def test_in_a_line_that_is_too_long_a_call_is_busy_and_a_quiet_accounts_is_posted(
    ledger: Ledger, function: ModuleType
) -> None:
    ledger.change_account("a", contended_until=round((time.time() + CONTENDED_SECONDS) * 1000), ticket_served=1)
    ledger.put(ledger.locks_table, {"lock_key": "line a", "last_ticket": LONGEST_LINE + 2})
    found = outcomes(function, PAYMENT, PAYMENT | {"account_id": "b"})
    assert states(found) == ["busy", "posted"]
    assert found[0]["reason"] == f"account a: more than {LONGEST_LINE} commits are ahead in its line"
    assert ledger.account("a").version == 1


NO_REQUESTS: list[tuple[Any, str]] = [
    ({}, "body: object missing required field `transactions`"),
    ({"transactions": []}, "transactions: expected `array` of length >= 1"),
    ({"transactions": [PAYMENT] * 101}, "transactions: expected `array` of length <= 100"),
    ({"transactions": [PAYMENT], "dry": True}, "body: object contains unknown field `dry`"),
    ({"transactions": [PAYMENT | {"amount": 1234567890.1234567}]}, "transactions[0].amount: expected a text"),
    ({"transactions": [PAYMENT | {"amount": -562949953421312.01}]}, "transactions[0].amount: expected a text"),
    (
        {"transactions": [{"legs": [{"amount": 1234567890123456.78}]}]},
        "transactions[0].legs[0].amount: expected a text",
    ),
    ({"transactions": [PAYMENT | {"metadata": nested(100_000)}]}, "body: expected JSON; it is nested too deeply"),
    ("text", "body: expected `object`, got `str`"),
    *(
        ({"requestContext": {"http": {}}, "isBase64Encoded": True, "body": body}, "body: expected JSON")
        for body in ("abc", "é", 5, None)
    ),
]


def test_a_request_that_is_none_is_refused_with_a_sentence(function: ModuleType) -> None:
    for event, reason in NO_REQUESTS:
        answer = invoke(function, event)
        error = json.loads(answer.get("body", json.dumps(answer)))["error"]
        assert (error["code"], error["reason"][: len(reason)]) == ("INVALID_REQUEST", reason)


def test_the_pages_code_posts(ledger: Ledger, function: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its code for the URL: tests/integration/test_function_url.py."""
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    page = (PROJECT / "docs/synchronous.md").read_text()
    code, _ = re.findall(r"^```python\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    names: dict[str, Any] = {}
    exec(code, names)

    def as_lambda(FunctionName: str, Payload: str) -> dict[str, Any]:  # noqa: N803
        return {"Payload": io.StringIO(json.dumps(invoke(function, json.loads(Payload))))}

    names["functions"] = SimpleNamespace(invoke=as_lambda)
    [outcome] = names["post"]("a function", PAYMENT)
    assert (outcome["state"], outcome["account_version"]) == ("posted", 2)
    with pytest.raises(RuntimeError, match="array"):
        names["post"]("a function")


def test_the_url_takes_the_same_request_with_all_digits(ledger: Ledger, function: ModuleType) -> None:
    body = '{"transactions": [{"transaction_id": "t-1", "account_id": "a", "amount": 0.10}]}'
    for encoded in (False, True):
        status, answer = by_url(function, body, encoded=encoded)
        assert (status, states(answer["outcomes"])) == (200, ["posted"])
    for byte in (b"\xff", b"\xfe"):  # replaced by one character, both would be one id
        damaged = body.encode().replace(b"t-1", byte)
        assert by_url(function, damaged, encoded=True) == (400, {"error": mock.ANY})
    twice = '{"transactions": [{"transaction_id": "t-2", "account_id": "a", "amount": 1, "amount": 2}]}'
    assert by_url(function, twice) == (
        400,
        {"error": {"code": "INVALID_REQUEST", "reason": "amount: expected it once"}},
    )
    assert ledger.account("a").version == 2
