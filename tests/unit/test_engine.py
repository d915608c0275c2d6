"""The strict engine: what it refuses, and in which words; what it counts; what a test can make it do.

That it agrees with DynamoDB Local and ministack is in tests/integration/test_engine_beside_others.py, and that it does
what is assumed of DynamoDB in tests/assumptions.
"""

import math
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from boto3.dynamodb.types import TypeSerializer
from botocore.exceptions import ClientError

from conditional_writes import VersionedTable, dynamodb_client
from conditional_writes.testing import Engine
from conditional_writes.testing.errors import Refused
from tests.support.new_tables import definition, index

KEYS_ONLY = {"ProjectionType": "KEYS_ONLY"}
TABLE = definition(
    "Orders",
    {"id": "S", "seq": "N"},
    {"status": "S", "at": "N"},
    GlobalSecondaryIndexes=[index("by_status", "status", "at", projection=KEYS_ONLY)],
    LocalSecondaryIndexes=[index("by_at", "id", "at", projection=KEYS_ONLY)],
    StreamSpecification={"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"},
)


def wire(item: dict[str, Any]) -> dict[str, Any]:
    serializer = TypeSerializer()
    return {name: serializer.serialize(value) for name, value in item.items()}


def key(number: int = 1, of: str = "a") -> dict[str, Any]:
    return {"id": {"S": of}, "seq": {"N": str(number)}}


@pytest.fixture
def engine() -> Iterator[Engine]:
    with Engine() as engine:
        engine.client().create_table(**TABLE)
        yield engine


@pytest.fixture
def client(engine: Engine) -> Any:
    return engine.client(parameter_validation=False)


ITEM = wire(
    {"id": "a", "seq": 1, "words": "abc", "many": [1, {"x": 2}], "nested": {"n": 5}, "tags": {"r", "g"}, "n": 7}
    | {"teams": [{"r"}, 1]}
)


def condition(text: str, names: dict[str, str] | None = None, **values: Any) -> dict[str, Any]:
    request: dict[str, Any] = {"TableName": "Orders", "Key": key(), "ConditionExpression": text}
    if names:
        request["ExpressionAttributeNames"] = names
    if values:
        request["ExpressionAttributeValues"] = {f":{name}": each for name, each in wire(values).items()}
    return request


def update(text: str, names: dict[str, str] | None = None, **values: Any) -> dict[str, Any]:
    request = condition(text, names, **values)
    request["UpdateExpression"] = request.pop("ConditionExpression")
    return request | {"ReturnValues": "ALL_NEW"}


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("n = :v", {"v": 7}),
        ("n <> :v AND absent <> :v", {"v": 8}),
        ("n BETWEEN :low AND :high", {"low": 7, "high": 8}),
        ("n IN (:one, :two)", {"one": 1, "two": 7}),
        ("attribute_exists(many[1].x) AND attribute_not_exists(many[2])", {}),
        ("NOT attribute_exists(absent) OR n = :v AND n <> :v", {"v": 1}),
        ("(n = :v OR n > :low) AND size(tags) = :two", {"v": 1, "low": 2, "two": 2}),
        ("begins_with(words, :v) AND contains(words, :w)", {"v": "ab", "w": "bc"}),
        ("contains(tags, :v) AND contains(many, :one)", {"v": "r", "one": 1}),
        ("attribute_type(nested, :v) AND nested.n > :n", {"v": "M", "n": 4}),
        ("(words) < (:v)", {"v": "abd"}),
        ("NOT (words < :v)", {"v": 5}),
        ("size(:v) = :n", {"v": "a😀", "n": 3}),
    ],
)
def test_a_condition_that_holds_lets_the_write_through(client: Any, text: str, values: dict[str, Any]) -> None:
    client.put_item(TableName="Orders", Item=ITEM)
    client.delete_item(**condition(text, **values))
    client.put_item(TableName="Orders", Item=ITEM)
    with pytest.raises(client.exceptions.ConditionalCheckFailedException) as refused:
        client.delete_item(**condition(f"NOT ({text})", **values))
    assert refused.value.response["message"] == "The conditional request failed"


@pytest.mark.parametrize(
    ("expression", "after"),
    [
        (update("SET n = n + :v, m = if_not_exists(absent, :v) - n", v=3), {"n": 10, "m": -4}),
        (update("SET many = list_append(:v, many)", v=[0]), {"many": [0, 1, {"x": 2}]}),
        (update("SET many[9] = :v, many[1].x = :v REMOVE many[0]", v=9), {"many": [{"x": 9}, 9]}),
        (update("REMOVE many[0], many[1].x"), {"many": [{}]}),
        (update("DELETE teams[0] :t SET teams[1] = :v", v=9, t={"r"}), {"teams": [9]}),
        (update("SET a = n, n = :v", v=1), {"a": 7, "n": 1}),
        (update("SET " + ", ".join(f"n{i} = n" for i in range(301))), {f"n{i}": 7 for i in range(301)}),
        (update("ADD n :v, counted :v, tags :t", v=1, t={"b"}), {"n": 8, "counted": 1, "tags": {"r", "g", "b"}}),
        (update("DELETE tags :t REMOVE nested.n", t={"r", "g"}), {"tags": None, "nested": {}}),
    ],
)
def test_an_update_sees_the_item_as_it_was(client: Any, expression: dict[str, Any], after: dict[str, Any]) -> None:
    client.put_item(TableName="Orders", Item=ITEM)
    updated = client.update_item(**expression)["Attributes"]
    wanted = ITEM | wire({name: value for name, value in after.items() if value is not None})
    for name in [name for name, value in after.items() if value is None]:
        del wanted[name]
    assert _sorted(updated) == _sorted(wanted)


def _sorted(item: dict[str, Any]) -> dict[str, Any]:
    def in_order(value: dict[str, Any]) -> dict[str, Any]:
        return {kind: sorted(each) if kind == "SS" else each for kind, each in value.items()}

    return {name: in_order(value) for name, value in item.items()}


def nested(levels: int) -> Any:
    return {"x": nested(levels - 1)} if levels else 1


REFUSED = [
    (
        "update_item",
        update("SET n = :v", v=1, unused=2),
        "ExpressionAttributeValues unused in expressions: keys: {:unused}",
    ),
    ("delete_item", condition("n = :v", v=1) | {"ExpressionAttributeNames": {"#n": "n"}}, "Names unused in"),
    ("delete_item", condition("n = :v"), "value used in expression is not defined; attribute value: :v"),
    ("delete_item", condition("#n = :v", v=1), "name used in the document path is not defined; attribute name: #n"),
    ("delete_item", condition("status = :v", v=1), "Attribute name is a reserved keyword; reserved keyword: status"),
    ("delete_item", condition("n == :v", v=1), 'Syntax error; token: "=", near: "== :v"'),
    ("delete_item", condition("n = "), 'Syntax error; token: "<EOF>", near: "= '),
    ("delete_item", condition(""), "Invalid ConditionExpression: The expression can not be empty;"),
    ("delete_item", condition("((n = :v))", v=1), "The expression has redundant parentheses;"),
    ("delete_item", condition("(" * 2000 + "n = :v" + ")" * 2000, v=1), "The expression has redundant parentheses;"),
    ("delete_item", condition("size(n)"), "not allowed to be used this way in an expression; function: size"),
    ("delete_item", condition("sise(n) = :v", v=1), "Invalid function name; function: sise"),
    ("delete_item", condition("begins_with(n, :v)", v=1), "operator or function: begins_with, operand type: N"),
    ("delete_item", condition("n BETWEEN :v AND :w", v=2, w=1), "upper bound to be greater than or equal to lower"),
    ("delete_item", condition("n = n"), "The first operand must be distinct"),
    ("delete_item", condition("n IN (" + ",".join(f":v{i}" for i in range(101)) + ")"), "IN operator is provided with"),
    ("delete_item", condition("n = :v", v=1) | {"Key": {"id": {"S": "a"}}}, "key element does not match the schema"),
    ("delete_item", condition("n = :v", v=1) | {"Key": key() | {"id": {"S": ""}}}, "empty string value. Key: id"),
    ("update_item", update("SET a.b = :v, a = :v", v=1), "Two document paths overlap"),
    ("update_item", update("SET a.b = :v, a[1] = :v", v=1), "Two document paths conflict"),
    ("update_item", update("SET a = :v SET b = :v", v=1), 'The "SET" section can only be used once'),
    ("update_item", update("SET status = :v", v=1), "reserved keyword: status"),
    ("update_item", update("SET id = :v", v="b"), "Cannot update attribute id. This attribute is part of the key"),
    ("update_item", update("SET a = absent"), "refers to an attribute that does not exist in the item"),
    ("update_item", update("SET a.b = :v", v=1), "The document path provided in the update expression is invalid"),
    ("update_item", update("ADD txt :v", v="1"), "operator: ADD, operand type: STRING"),
    ("put_item", {"Item": key(), "ReturnValues": "ALL_NEW"}, "ReturnValues can only be ALL_OLD or NONE"),
    ("update_item", update("SET n = :v", v=1) | {"ReturnValues": "OLD"}, "value set: [NONE, ALL_OLD, UPDATED_OLD, AL"),
    ("put_item", {"Item": key() | {"status": {"N": "1"}}}, "Type mismatch for Index Key status Expected: S Actual: N"),
    ("put_item", {"Item": key() | {"status": {"S": ""}}}, "IndexName: by_status, IndexKey: status"),
    ("put_item", {"Item": {"id": {"S": "a"}}}, "Missing the key seq in the item"),
    ("put_item", {"Item": key() | {"s": {"SS": []}}}, "An string set  may not be empty"),
    ("put_item", {"Item": key() | {"s": {"NS": ["1", "1.0"]}}}, "Input collection contains duplicates"),
    ("put_item", {"Item": key() | {"s": {"SS": ["a", "a"]}}}, "Input collection [a, a] contains duplicates."),
    ("put_item", {"Item": key() | {"s": {"BS": [b"a", b"a"]}}}, "[YQ==, YQ==]of type BS contains duplicates."),
    ("put_item", {"Item": key() | {"n": {"N": "1E999999999"}}}, "Number overflow"),
    ("put_item", {"Item": key() | {"n": {"N": "1E9999999999"}}}, "cannot be converted to a numeric value: 1E999"),
    ("put_item", {"Item": key() | {"n": {"N": "1" * 39}}}, "more than 38 significant digits"),
    ("put_item", {"Item": key() | {"n": {"N": "1E126"}}}, "Number overflow"),
    ("put_item", {"Item": key() | {"n": {"N": "1E-131"}}}, "Number underflow"),
    ("put_item", {"Item": key() | {"n": {"N": "one"}}}, "cannot be converted to a numeric value: one"),
    ("put_item", {"Item": key() | {"n": {"N": "\u0663"}}}, "cannot be converted to a numeric value: \u0663"),
    ("put_item", {"Item": key() | {"t": {"S": "x" * 409_600}}}, "Item size has exceeded the maximum allowed size"),
    ("put_item", {"Item": key() | {"": {"N": "1"}}}, "Empty attribute name"),
    ("put_item", {"Item": key() | {"m": {"M": {"x" * 65_536: {"N": "1"}}}}}, "Attribute name is too large"),
    ("put_item", {"Item": key() | {"status": {"S": "x" * 2049}}}, "Size of hashkey has exceeded the maximum size"),
    ("update_item", update("SET #s = :v", {"#s": "status"}, v="x" * 2049), "index key beyond allowed size limits"),
    ("update_item", update("SET #s = :v", {"#s": "status"}, v=""), "update a secondary index key to a value that is"),
    ("update_item", update("SET #s = :v", {"#s": "status"}, v=1), "Type mismatch for Index Key status Expected: S Act"),
    ("update_item", update("SET #s = n", {"#s": "status"}), "update the secondary index key to unsupported type"),
    ("update_item", update("SET a = if_not_exists(id.x, :v)", v=1), "Key attributes must be scalars; list random acc"),
    ("delete_item", condition("attribute_not_exists(seq[0])"), "map lookup '.' are not allowed: Key: seq"),
    ("get_item", {"Key": key(), "ProjectionExpression": "id.x"}, "map lookup '.' are not allowed: Key: id"),
    ("scan", {"ProjectionExpression": "n, #s.x", "ExpressionAttributeNames": {"#s": "status"}}, "IndexKey: status"),
    ("query", {"KeyConditionExpression": "id = :v", "FilterExpression": "id.x = :v"}, "not allowed: Key: id"),
    ("batch_get_item", {"RequestItems": {"Orders": {"Keys": [key()], "ProjectionExpression": "id[1]"}}}, "Key: id"),
    ("batch_write_item", {"RequestItems": {"Orders": [{}]}}, "Supplied AttributeValue is empty, must contain"),
    ("query", {"KeyConditionExpression": "id = :v", "Select": "COUNT", "ProjectionExpression": "n"}, "only the Count"),
    ("update_item", update("SET #s = :v", {"#s": ""}, v=1), "invalid value: Empty attribute name for key #s"),
    ("update_item", update("SET many[1].x = :v", v=nested(31)), "Nesting Levels have exceeded supported limits"),
    ("update_item", update("SET a = list_append(list_append(many, :v), :v)", v=[1]), "function: list_append"),
    ("update_item", update("REMOVE many[00]"), 'Syntax error; token: "0", near: "00]"'),
    ("update_item", update("REMOVE many[2147483648]"), "List index is not within the allowable range"),
    ("update_item", update("SET _a = :v", v=1), 'Syntax error; token: "_", near: "SET _a"'),
    ("delete_item", condition("n\xa0= :v", v=1), "Syntax error; token:"),
    ("delete_item", condition("n = :v\xa0", v=1), "Syntax error; token:"),
    ("delete_item", condition(" "), 'Syntax error; token: "<EOF>"'),
    ("delete_item", condition("n != :v", v=1), 'Syntax error; token: "!", near: "n !="'),
    ("delete_item", condition("n = :v AND AND", v=1), 'Syntax error; token: "AND", near: "AND AND"'),
    ("delete_item", condition("remove = :v", v=1), 'Syntax error; token: "remove", near: "remove ="'),
    ("delete_item", condition("n BETWEEN :v AND n", v=1), "The first operand must be distinct"),
    ("delete_item", condition("nested < :v", v=[1]), "operator or function: <, operand type: L"),
    ("delete_item", condition("attribute_exists(n) = :v", v=1), "used this way in an expression; function: attribute"),
    ("delete_item", condition("if_not_exists(n, :v) = :v", v=1), "not allowed in a condition expression; function: if"),
    ("delete_item", condition("n = :v" + " OR n = :v" * 151, v=1), "too many operators; operator count: 301"),
    ("delete_item", condition("n = :" + "v" * 255, **{"v" * 255: 1}), "a key that is too long; size of key: 256"),
    ("delete_item", condition("n = :v", v="x" * 2_097_151), "ExpressionAttributeValues exceeds max size"),
    ("update_item", update("SET a = ((:v))", v=1), "The expression has redundant parentheses;"),
    ("update_item", update("SET a = ((n + :v))", v=1), "The expression has redundant parentheses;"),
    ("update_item", update("SET a = size(n)"), "not allowed in an update expression; function: size"),
    ("update_item", update("SET a = n + list_append(many, many)"), "used this way in an expression; function: list_a"),
    ("delete_item", condition("attribute_exists(a" + ".b" * 32 + ")"), "too many nesting levels; nesting levels: 33"),
    ("delete_item", condition("n = :v", v=1) | {"ReturnValuesOnConditionCheckFailure": "OLD"}, "satisfy enum value"),
    ("batch_get_item", {"RequestItems": {}}, "1 validation error detected: Value '{}' at 'requestItems' failed to"),
    ("batch_get_item", {"RequestItems": {"Orders": {"Keys": []}}}, "Value '[]' at 'requestItems.Orders.member.keys'"),
    ("batch_get_item", {"RequestItems": {"Orders": {}}}, "Value null at 'requestItems.Orders.member.keys' failed to"),
    ("batch_write_item", {"RequestItems": {"Orders": []}}, "Map value must satisfy constraint: [Member must have len"),
    ("transact_get_items", {"TransactItems": [{}]}, "'transactItems.1.member.get' failed to satisfy constraint: Mem"),
    ("get_item", {"Key": key(), "ReturnConsumedCapacity": "ALL"}, "Member must satisfy enum value set: [INDEXES, TOT"),
    ("query", {"KeyConditionExpression": "id = :v", "IndexName": "by_at", "FilterExpression": "n = :v"}, "project one"),
    ("query", {"KeyConditionExpression": "id = :v AND n = :v"}, "Query condition missed key schema element: seq"),
    ("scan", {"Select": "ALL", "Limit": 0}, "2 validation errors detected: Value"),
    ("scan", {"Segment": -1, "TotalSegments": 2}, "'segment' failed to satisfy constraint: Member must have value gre"),
    ("scan", {"Segment": 0, "TotalSegments": 1_000_001}, "Member must have value less than or equal to 1000000"),
    ("query", {"KeyConditionExpression": "id > :v"}, "Query key condition not supported"),
    ("query", {"KeyConditionExpression": "id = :v", "FilterExpression": "id <> :v"}, "Primary key attribute: id"),
    ("query", {"KeyConditionExpression": "id = :v", "IndexName": "none"}, "does not have the specified index: none"),
]


@pytest.mark.parametrize(("call", "request_", "message"), REFUSED, ids=lambda part: str(part)[:60])
def test_what_dynamodb_refuses_is_in_its_words(client: Any, call: str, request_: dict[str, Any], message: str) -> None:
    if call == "query":
        request_ = request_ | {"ExpressionAttributeValues": {":v": {"S": "a"}}}
    client.put_item(TableName="Orders", Item=ITEM)
    if not call.startswith(("batch", "transact")):
        request_ = {"TableName": "Orders", **request_}
    with pytest.raises(ClientError) as refused:
        getattr(client, call)(**request_)
    assert refused.value.response["Error"]["Code"] == "ValidationException"
    assert message in refused.value.response["Error"]["Message"]


@pytest.mark.parametrize(
    ("after", "why"),
    [(key(2), "does not match the range key predicate"), (key(3, of="b"), "is outside query boundaries")],
)
def test_a_query_goes_on_within_its_conditions(client: Any, after: dict[str, Any], why: str) -> None:
    values = {":a": {"S": "a"}, ":two": {"N": "2"}}
    request = {"TableName": "Orders", "ExpressionAttributeValues": values, "ExclusiveStartKey": after}
    with pytest.raises(ClientError, match=f"The provided starting key {why}"):
        client.query(**request, KeyConditionExpression="id = :a AND seq > :two")


def test_a_local_index_has_the_table_asked_for_what_it_lacks(client: Any) -> None:
    client.put_item(TableName="Orders", Item=ITEM | wire({"at": 3}))
    query = {"KeyConditionExpression": "id = :a", "ExpressionAttributeValues": {":a": {"S": "a"}}}
    found = client.query(TableName="Orders", IndexName="by_at", ProjectionExpression="n, nested.n", **query)
    assert found["Items"] == [wire({"n": 7, "nested": {"n": 5}})]


@pytest.mark.parametrize("spelling", ["100", "100.0", "1e2", "+1E+2", "0100"])
def test_a_key_of_a_number_is_found_however_it_is_spelled(engine: Engine, client: Any, spelling: str) -> None:
    client.create_table(**definition("Numbers", {"number": "N"}))
    client.put_item(TableName="Numbers", Item={"number": {"N": "100"}})
    spelled = {"number": {"N": spelling}}
    assert client.get_item(TableName="Numbers", Key=spelled)["Item"] == {"number": {"N": "100"}}
    assert client.scan(TableName="Numbers", ExclusiveStartKey=spelled)["Items"] == []


def test_expressions_and_what_they_have_replaced_are_not_mixed(client: Any) -> None:
    with pytest.raises(
        ClientError, match=r"parameters: {AttributesToGet} Expression parameters: {ProjectionExpression}"
    ):
        client.get_item(TableName="Orders", Key=key(), ProjectionExpression="n", AttributesToGet=["n"])
    with pytest.raises(NotImplementedError, match="AttributesToGet: this engine has expressions alone"):
        client.get_item(TableName="Orders", Key=key(), AttributesToGet=["n"])


def puts(*numbers: int, **fields: Any) -> list[dict[str, Any]]:
    return [{"Put": {"TableName": "Orders", "Item": key(number)} | fields} for number in numbers]


def test_a_token_is_known_for_ten_minutes(engine: Engine, client: Any) -> None:
    add: Any = [{"Update": update("ADD n :v", v=1) | {"Key": key(9)}}]
    del add[0]["Update"]["ReturnValues"]  # a transaction returns none
    for _ in range(2):
        client.transact_write_items(TransactItems=add, ClientRequestToken="t")
    with pytest.raises(client.exceptions.IdempotentParameterMismatchException):
        client.transact_write_items(TransactItems=puts(1), ClientRequestToken="t")
    engine.clock.advance(600)
    client.transact_write_items(TransactItems=add, ClientRequestToken="t")
    assert client.get_item(TableName="Orders", Key=key(9))["Item"]["n"] == {"N": "2"}
    with pytest.raises(ClientError, match="Member must have length less than or equal to 36"):
        client.transact_write_items(TransactItems=add, ClientRequestToken="t" * 37)


UNITS = [
    ("put_item", {"Item": key() | {"t": {"S": "x" * 1025}}}, 2, {}),
    ("put_item", {"Item": key() | wire({"status": "new", "at": 1})}, 1, {"by_status": 1}),
    ("update_item", {"Key": key(5), "UpdateExpression": "SET a = :v"}, 1, {"by_status": 0}),
    ("update_item", {"Key": key(5), "UpdateExpression": "SET at = :v"}, 1, {"by_status": 2}),
    ("delete_item", {"Key": key(5)}, 2, {"by_status": 1}),
    ("get_item", {"Key": key(5), "ConsistentRead": True}, 1, {}),
    ("get_item", {"Key": key(6)}, 0.5, {}),
    ("scan", {"ConsistentRead": True}, 1, {}),
]


@pytest.mark.parametrize(("call", "request_", "table_units", "index_units"), UNITS, ids=lambda part: str(part)[:40])
def test_units_are_those_of_the_published_rules(
    client: Any, call: str, request_: dict[str, Any], table_units: float, index_units: dict[str, float]
) -> None:
    client.put_item(TableName="Orders", Item=key(5) | wire({"status": "new", "at": 1, "t": "x" * 1500}))
    if "UpdateExpression" in request_:
        text = request_["UpdateExpression"].replace("at ", "#at ")
        request_ = request_ | {"UpdateExpression": text, "ExpressionAttributeValues": {":v": {"N": "2"}}}
        request_ |= {"ExpressionAttributeNames": {"#at": "at"}} if "#at" in text else {}
    answer = getattr(client, call)(TableName="Orders", ReturnConsumedCapacity="INDEXES", **request_)
    consumed = answer["ConsumedCapacity"]
    of_indexes = consumed.get("GlobalSecondaryIndexes", {})
    expected = 2 if call == "update_item" else table_units
    assert consumed["Table"]["CapacityUnits"] == expected
    assert {name: of_indexes.get(name, {}).get("CapacityUnits", 0) for name in index_units} == index_units


def test_a_page_ends_with_the_item_that_reaches_a_megabyte(client: Any) -> None:
    for number in range(1, 5):
        client.put_item(TableName="Orders", Item=key(number) | {"t": {"S": "x" * 400_000}})
    page = client.scan(TableName="Orders", Select="COUNT")
    assert (page["Count"], page["LastEvaluatedKey"]) == (3, key(3))


def test_a_transaction_reads_four_megabytes_at_most(client: Any) -> None:
    for number in range(11):
        client.put_item(TableName="Orders", Item=key(number) | {"t": {"S": "x" * 400_000}})
    gets: Any = [{"Get": {"TableName": "Orders", "Key": key(number)}} for number in range(11)]
    assert len(client.transact_get_items(TransactItems=gets[:10])["Responses"]) == 10
    with pytest.raises(ClientError, match="maximum allowed size of 4 MB"):
        client.transact_get_items(TransactItems=gets)


def test_an_index_and_eventual_reads_lag_until_they_catch_up(engine: Engine, client: Any) -> None:
    query = {
        "TableName": "Orders",
        "IndexName": "by_status",
        "KeyConditionExpression": "#s = :s",
        "ExpressionAttributeNames": {"#s": "status"},
        "ExpressionAttributeValues": {":s": {"S": "new"}},
    }
    engine.hold_back("Orders", "by_status")
    engine.hold_back("Orders")
    client.put_item(TableName="Orders", Item=key() | wire({"status": "new", "at": 1}))
    assert client.query(**query)["Items"] == []
    assert "Item" not in client.get_item(TableName="Orders", Key=key())
    assert "Item" in client.get_item(TableName="Orders", Key=key(), ConsistentRead=True)
    engine.catch_up("Orders", "by_status")
    engine.catch_up("Orders")
    assert client.query(**query)["Items"] == [key() | wire({"status": "new", "at": 1})]
    assert "Item" in client.get_item(TableName="Orders", Key=key())


def test_what_a_test_wants_refused_is_refused(engine: Engine, client: Any) -> None:
    engine.conflict("Orders", {"id": "a", "seq": 1})
    assert "Item" not in client.get_item(TableName="Orders", Key=key())
    assert not client.batch_get_item(RequestItems={"Orders": {"Keys": [key()]}})["UnprocessedKeys"]
    with pytest.raises(client.exceptions.TransactionConflictException):
        client.put_item(TableName="Orders", Item=key())
    engine.throttle("Orders", {"id": "a", "seq": 1})
    batch = client.batch_get_item(RequestItems={"Orders": {"Keys": [key(1), key(2)]}})
    assert batch["UnprocessedKeys"]["Orders"]["Keys"] == [key(1)]
    engine.throttle("Orders", {"id": "a", "seq": 1})
    with pytest.raises(ClientError) as cancelled:
        client.transact_write_items(TransactItems=puts(2, 1))
    assert [each["Code"] for each in cancelled.value.response["CancellationReasons"]] == ["None", "ThrottlingError"]
    engine.throttle("Orders", times=math.inf)
    with engine.simulated_time(), pytest.raises(ClientError, match="ThrottlingException"):
        client.get_item(TableName="Orders", Key=key())


def test_what_is_to_be_refused_must_be_there(engine: Engine) -> None:
    with pytest.raises(Refused, match="Requested resource not found"):
        engine.throttle("Order")
    with pytest.raises(Refused, match="does not have the specified index: by_statu"):
        engine.throttle("Orders", index="by_statu")


def test_a_stream_has_each_change_in_order(engine: Engine, client: Any) -> None:
    for value in ("1", "1", "2"):  # a write that changes nothing is no record
        client.put_item(TableName="Orders", Item=key() | {"n": {"N": value}})
    client.delete_item(TableName="Orders", Key=key())
    streams = engine.client("dynamodbstreams")
    [stream] = streams.list_streams(TableName="Orders")["Streams"]
    [shard] = streams.describe_stream(StreamArn=stream["StreamArn"])["StreamDescription"]["Shards"]
    which = {"StreamArn": stream["StreamArn"], "ShardId": shard["ShardId"]}
    iterator = streams.get_shard_iterator(**which, ShardIteratorType="TRIM_HORIZON")["ShardIterator"]
    records = streams.get_records(ShardIterator=iterator)["Records"]
    assert [record["eventName"] for record in records] == ["INSERT", "MODIFY", "REMOVE"]
    assert records[1]["dynamodb"]["OldImage"]["n"] == {"N": "1"}
    for wrong, why in (
        ({"ShardId": "shardId-00000000000000000000-elsewhere"}, "Shard does not exist"),
        ({"ShardIteratorType": "AT_SEQUENCE_NUMBER"}, "Invalid SequenceNumber"),
        ({"SequenceNumber": "1".zfill(21)}, "SequenceNumber should not be passed for this iterator type"),
    ):
        with pytest.raises(ClientError, match=why):
            streams.get_shard_iterator(**which | {"ShardIteratorType": "LATEST"} | wrong)
    with pytest.raises(ClientError, match="Limit should be less than or equal to 1000"):
        streams.get_records(ShardIterator=iterator, Limit=1001)
    engine.clock.advance(24 * 3600)
    with pytest.raises(streams.exceptions.ExpiredIteratorException):
        streams.get_records(ShardIterator=iterator)
    iterator = streams.get_shard_iterator(**which, ShardIteratorType="TRIM_HORIZON")["ShardIterator"]
    assert streams.get_records(ShardIterator=iterator)["Records"] == []


def test_expired_items_are_deleted_when_the_test_says_so(engine: Engine, client: Any) -> None:
    client.update_time_to_live(TableName="Orders", TimeToLiveSpecification={"AttributeName": "ends", "Enabled": True})
    for number, seconds in ((1, 10), (2, 1000), (3, -5 * 366 * 24 * 3600)):  # the last one looks like a mistake
        ends = {"N": str(int(engine.clock.time()) + seconds)}
        client.put_item(TableName="Orders", Item=key(number) | {"ends": ends})
    engine.clock.advance(500)
    assert engine.delete_expired("Orders") == 1
    deleted = engine.stream_records("Orders")[-1]
    assert deleted["userIdentity"] == {"type": "Service", "principalId": "dynamodb.amazonaws.com"}
    assert not any("userIdentity" in record for record in engine.stream_records("Orders")[:-1])
    assert [item["seq"] for item in client.scan(TableName="Orders")["Items"]] == [{"N": "2"}, {"N": "3"}]


def test_a_client_made_elsewhere_is_answered_until_the_end_of_the_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-north-1")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    client = dynamodb_client()
    before = client._endpoint.http_session
    with Engine() as engine:
        engine.attach(client)
        client.create_table(**TABLE)
        VersionedTable(client, "Orders", "id", "seq").save({"id": "a", "seq": 1})
        assert engine.resource().Table("Orders").item_count == 1
        own = engine.client()
    assert client._endpoint.http_session is before
    assert own.list_tables()["TableNames"] == ["Orders"]  # it would call AWS with the engine's credentials


def test_a_service_that_the_engine_cannot_answer_is_named(engine: Engine) -> None:
    with pytest.raises(NotImplementedError, match=r"this engine has no AmazonSQS\.ListQueues"):
        engine.client("sqs").list_queues()
    with pytest.raises(NotImplementedError, match=r"sns\..*: the engine answers services that are called in JSON"):
        engine.client("sns").list_topics()


def test_the_code_goes_by_the_simulated_clock_and_pauses_cost_nothing(engine: Engine) -> None:
    with engine.simulated_time() as clock:
        before = datetime.now(UTC), time.time(), time.monotonic()
        time.sleep(7 * 24 * 3600)
        assert datetime.now(UTC) - before[0] == timedelta(days=7)
        assert time.time() - before[1] == time.monotonic() - before[2] == 7 * 24 * 3600
        assert datetime.now(UTC).timestamp() == pytest.approx(clock.time())
        assert type(datetime.now()) is datetime  # noqa: DTZ005
        assert time.gmtime()[:6] == datetime.fromtimestamp(clock.time(), UTC).timetuple()[:6]
        assert (time.localtime(), time.ctime()) == (time.localtime(clock.time()), time.ctime(clock.time()))
        assert time.strftime("%F %T") == time.strftime("%F %T", time.localtime(clock.time()))
    assert abs(datetime.now(UTC).timestamp() - time.time()) < 1000
    assert abs(time.time() - clock.time()) > 24 * 3600
