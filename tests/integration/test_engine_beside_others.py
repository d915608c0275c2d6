"""The library's own engine is held to the truth: random calls get the answers of DynamoDB Local and of ministack.

Each answer is equal — items, counts, units, errors' codes, cancellation reasons —, or it differs in a way that is named
here with its source. Messages are compared in tests/unit/test_engine.py alone: the engines differ in many.
"""

import itertools
import re
from collections import Counter
from collections.abc import Callable
from decimal import Context, Decimal
from typing import Any, NamedTuple

import pytest
from botocore.exceptions import ClientError

from conditional_writes.testing import Engine
from tests.support.random_calls import RandomCall, RandomCalls, table
from tests.support.reporting import Say

CALLS = 25_000

type Answer = dict[str, Any]
REFUSAL = "ValidationException"
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
        lambda call, ours, others: has_sums(call) and differ_in(ours, others, "Attributes", "ConsumedCapacity"),
        of="ministack",
    ),
    Difference(
        "a query can't go on after the last key that its conditions allow",
        "https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Query.Pagination.html: the key of the last"
        " item of a full page may be such a key, and the next page is empty",
        lambda call, ours, others: (
            "ExclusiveStartKey" in call.request and ours.get("Count") == 0 and is_refused(others, "ValidationException")
        ),
        of="dynamodb_local",
    ),
    Difference(
        "an update gives an index's key another type, as no put can",
        "https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/GSI.OnlineOps.html: a write whose key of an"
        " index has another type than the index is refused",
        lambda call, ours, others: "code" in ours and "code" not in others and sets_a_key_of_an_index(call),
        of="dynamodb_local",
    ),
    Difference(
        "ministack takes 2 and 2.0 in sets for two numbers",
        "https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/HowItWorks.NamingRulesDataTypes.html: zeroes"
        " at the ends of a number are trimmed",
        lambda call, ours, others: (
            any(re.search("ADD|DELETE", text) for text in updates(call))
            and differ_in(ours, others, "Attributes", "ConsumedCapacity")
        ),
        of="ministack",
    ),
    Difference(
        "ministack removes the elements of a list one after another, each from the list as it is left",
        "https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Expressions.UpdateExpressions.html#"
        "Expressions.UpdateExpressions.REMOVE.RemovingListElements: the others are shifted after all of them are gone",
        lambda call, ours, others: (
            removes_several_elements(call) and differ_in(ours, others, "Attributes", "ConsumedCapacity")
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
        "ministack makes a scalar in a list, or in a map, two things by an update into it, and takes no further update",
        "DynamoDB Local refuses an update into a scalar, and answers as this engine after it",
        lambda call, ours, others: "code" not in ours and is_refused(others, REFUSAL) and any(updates(call)),
        of="ministack",
    ),
    Difference(
        "ministack takes what DynamoDB refuses",
        "DynamoDB Local refuses the same calls of the same seeds",
        lambda _, ours, others: "code" in ours and "code" not in others,
        of="ministack",
    ),
    Difference(
        "a transaction's condition has a path into a key's attribute, which no other expression may have",
        "dynalite, whose tests run against the service, refuses it in every expression; DynamoDB Local in all others",
        lambda call, ours, others: (
            bool(re.search(r"id\.a|kind\[0\]", repr(call.request)))
            and has_reason(ours, "ValidationError")
            and "code" not in others
        ),
        of="dynamodb_local",
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


@pytest.mark.exhaustive
@pytest.mark.timeout(3_000)
@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("engine_name", ["ministack", "dynamodb_local"])
def test_random_calls_get_equal_answers_or_differences_that_are_named(
    request: pytest.FixtureRequest, engine_name: str, seed: int, say: Say
) -> None:
    name, other = f"random-{seed}", request.getfixturevalue(engine_name).client("dynamodb", parameter_validation=False)
    found = Counter[str]()
    with Engine() as engine:
        ours = engine.client(parameter_validation=False)
        for client in (ours, other):
            client.create_table(**table(name))
        for call in itertools.islice(RandomCalls(name, seed, has_mistakes=engine_name != "ministack"), CALLS):
            answers = asked(ours, call), asked(other, call)
            if answers[0] != answers[1]:
                difference = next(
                    (each for each in DIFFERENCES if engine_name in each.of and each.fits(call, *answers)), None
                )
                assert difference, f"{call}\nours:  {answers[0]}\nother: {answers[1]}"
                found[difference.what] += 1
            # An answer doesn't show all that ministack has done otherwise.
            if is_write(call) and (answers[0] != answers[1] or (engine_name == "ministack" and any(updates(call)))):
                make_equal(name, ours, other)
    other.delete_table(TableName=name)
    say(f"{CALLS} calls, {CALLS - found.total()} equal; {dict(found)}")


def is_write(call: RandomCall) -> bool:
    return bool(re.search("put|update|delete|write", call.method))


def updates(call: RandomCall) -> list[str]:
    """The update expressions of a call, with names in place of their placeholders."""
    requests = [call.request, *(each.get("Update", {}) for each in call.request.get("TransactItems", ()))]
    texts = []
    for each in requests:
        text = each.get("UpdateExpression", "")
        for placeholder, name in each.get("ExpressionAttributeNames", {}).items():
            text = text.replace(placeholder, name)
        texts.append(text)
    return texts


def sets_a_key_of_an_index(call: RandomCall) -> bool:
    return any(re.search(r"\b(kind|place)\b", text) for text in updates(call))


def removes_several_elements(call: RandomCall) -> bool:
    return any(re.search(r"REMOVE many\[\d\], many\[\d\]", text) for text in updates(call))


def has_sums(call: RandomCall) -> bool:
    return any(re.search(r"ADD|[+-]", text) for text in updates(call))


def make_equal(name: str, ours: Any, other: Any) -> None:
    here, there = (
        {
            (item["id"]["S"], item["seq"]["N"]): item
            for item in client.scan(TableName=name, ConsistentRead=True)["Items"]
        }
        for client in (ours, other)
    )
    for key in here.keys() | there.keys():
        if key not in here:
            other.delete_item(TableName=name, Key={each: there[key][each] for each in ("id", "seq")})
        elif comparable(here[key]) != comparable(there.get(key)):
            other.put_item(TableName=name, Item=here[key])
