"""The library's own engine is held to the truth: random calls get the answers of DynamoDB Local and of ministack.

Each answer is equal — items, counts, units, errors' codes, cancellation reasons —, or it differs in a way that is named
here with its reason. Messages are compared in tests/unit/test_engine.py alone: the engines differ in many.
"""

import itertools
import re
from collections.abc import Callable
from decimal import Context, Decimal
from typing import Any, NamedTuple

import pytest
from botocore.exceptions import ClientError

from conditional_writes.testing import Engine
from tests.support.random_calls import RandomCall, RandomCalls, table
from tests.support.reporting import Say
from tools.local_aws.server import Endpoint

CALLS, ALL_CALLS = 300, 25_000

type Answer = dict[str, Any]
MODEL = "botocore's model of DynamoDB"


class Difference(NamedTuple):
    """How another engine's answer differs from this one's, and why this one's is taken for DynamoDB's."""

    what: str
    source: str
    fits: Callable[[RandomCall, Answer, Answer], bool]
    of: str = "ministack dynamodb_local"


def is_refused(answer: Answer, *codes: str) -> bool:
    return answer.get("code") in codes


def has_reason(answer: Answer, code: str) -> bool:
    return any(reason["Code"] == code for reason in answer.get("reasons", ()))


def differ_in(ours: Answer, others: Answer, *names: str) -> bool:
    return {name for name in {*ours, *others} if ours.get(name) != others.get(name)} <= {*names}


DIFFERENCES: list[Difference] = [
    Difference(
        "units: of an index in a transaction, of a read that finds nothing, of sizes at the edge of a unit, of no wish",
        "https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/read-write-operations.html: reading an item"
        " that doesn't exist consumes; docs/decisions/journal-index.md: an index is written once",
        lambda _, ours, others: differ_in(ours, others, "ConsumedCapacity"),
    ),
    Difference(
        "a transaction's update that the item doesn't fit is a ValidationException, without reasons",
        f"{MODEL}, TransactionCanceledException: its reasons have the code ValidationError",
        lambda call, ours, others: (
            call.method.startswith("transact")
            and has_reason(ours, "ValidationError")
            and is_refused(others, "ValidationException", "TransactionCanceledException")
        ),
    ),
    Difference(
        "of a map or a list in which a part is updated, all of it is returned as updated",
        "dynalite, whose tests run against the service, returns the parts that the paths name",
        lambda call, ours, others: (
            bool(re.search(r"[.\[]", call.request.get("UpdateExpression", "")))
            and call.request["ReturnValues"].startswith("UPDATED")
            and differ_in(ours, others, "Attributes", "ConsumedCapacity")
        ),
    ),
    Difference(
        "a page that ends at its limit with the last item has no LastEvaluatedKey",
        "https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Query.Pagination.html: a key may be there"
        " though nothing follows",
        lambda call, ours, others: "Limit" in call.request and differ_in(ours, others, "LastEvaluatedKey"),
        of="dynamodb_local",
    ),
    Difference(
        "ministack rounds sums to 28 digits",
        f"{MODEL}, AttributeValue: 38 digits; DynamoDB Local has them",
        lambda call, ours, others: (
            bool(re.search(r"ADD|[+-]", call.request.get("UpdateExpression", "")))
            and differ_in(ours, others, "Attributes", "ConsumedCapacity")
        ),
        of="ministack",
    ),
    Difference(
        "ministack's conditions hold otherwise of what is missing, and of sets in IN",
        "DynamoDB Local answers the same calls of the same seeds as this engine",
        lambda call, ours, others: (
            bool(re.search("ConditionExpression|FilterExpression", repr(call.request)))
            and (differ_in(ours, others, "Items", "Count", "ConsumedCapacity") or "code" in others)
        ),
        of="ministack",
    ),
    Difference(
        "ministack takes what DynamoDB refuses",
        "DynamoDB Local refuses the same calls of the same seeds",
        lambda _, ours, others: "code" in ours and "code" not in others,
        of="ministack",
    ),
    Difference(
        "which of several faults of one request is named",
        "no documentation says; both refuse, and nothing is written",
        lambda _, ours, others: "code" in ours and "code" in others,
    ),
]
"""Beside these, sets and numbers in answers are compared as sets and numbers."""


def asked(client: Any, call: RandomCall) -> Answer:
    try:
        answer: Answer = getattr(client, call.method)(**call.request)
    except ClientError as error:
        response: Any = error.response
        reasons = [
            {"Code": each["Code"], "Item": comparable(each.get("Item"))}
            for each in response.get("CancellationReasons", ())
        ]
        return {"code": response["Error"]["Code"], "item": comparable(response.get("Item")), "reasons": reasons}
    answer.pop("ResponseMetadata")
    answer = {name: part for name, part in comparable(answer).items() if name != "Attributes" or part}
    if call.method == "batch_get_item":
        answer["Responses"] = {name: sorted(items, key=repr) for name, items in answer["Responses"].items()}
    if call.method == "scan" or "IndexName" in call.request:  # items of one sort key are in no order
        answer["Items"] = sorted(answer.get("Items", ()), key=repr)
    return answer


def comparable(part: Any) -> Any:
    """Equal for equal values, whatever their text is."""
    if isinstance(part, dict):
        if len(part) == 1:
            [(kind, content)] = part.items()
            if kind in {"SS", "BS"}:
                return {kind: sorted(content)}
            if kind in {"N", "NS"} and content:
                return {kind: number(content) if kind == "N" else sorted(map(number, content))}
        return {name: comparable(each) for name, each in sorted(part.items())}
    return [comparable(each) for each in part] if isinstance(part, list) else part


def number(text: str) -> str:
    return f"{Decimal(text).normalize(Context(prec=100)):f}"


@pytest.mark.parametrize("seed", [1, 2])
def test_random_calls_get_equal_answers_or_differences_that_are_named(
    dynamodb: Endpoint, request: pytest.FixtureRequest, seed: int, every_case: bool, say: Say
) -> None:
    engine_name = request.node.callspec.params["dynamodb"]
    name, number_of_calls = f"random-{seed}", ALL_CALLS if every_case else CALLS
    other = dynamodb.client("dynamodb", parameter_validation=False)
    found: dict[str, int] = {}
    with Engine() as engine:
        ours = engine.client(parameter_validation=False)
        for client in (ours, other):
            client.create_table(**table(name))
        for call in itertools.islice(RandomCalls(name, seed, has_mistakes=engine_name != "ministack"), number_of_calls):
            answers = asked(ours, call), asked(other, call)
            if answers[0] != answers[1]:
                difference = next(
                    (each for each in DIFFERENCES if engine_name in each.of and each.fits(call, *answers)), None
                )
                assert difference, f"{call}\nours:  {answers[0]}\nother: {answers[1]}"
                found[difference.what] = found.get(difference.what, 0) + 1
            if is_write(call) and answers[0] != answers[1]:
                make_equal(name, ours, other)
    other.delete_table(TableName=name)
    say(f"{number_of_calls} calls, {number_of_calls - sum(found.values())} equal; {found}")


def is_write(call: RandomCall) -> bool:
    return bool(re.search("put|update|delete|write", call.method))


def make_equal(name: str, ours: Any, other: Any) -> None:
    """The other engine has this one's items."""
    for item in other.scan(TableName=name, ConsistentRead=True)["Items"]:
        other.delete_item(TableName=name, Key={key: item[key] for key in ("id", "seq")})
    for item in ours.scan(TableName=name)["Items"]:
        other.put_item(TableName=name, Item=item)
