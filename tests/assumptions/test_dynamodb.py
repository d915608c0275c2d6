"""What the product assumes of DynamoDB. Each test is one assumption, and names the page that states it."""

import itertools
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from typing import Any

import pytest
from boto3.dynamodb.types import TypeDeserializer, TypeSerializer
from botocore.exceptions import ClientError

from tests.assumptions.conftest import rests_on
from tests.assumptions.places import Place

GUIDE = "https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/"
API = "https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/"
CONDITIONS = GUIDE + "Expressions.ConditionExpressions.html"
TRANSACTIONS = GUIDE + "transaction-apis.html"
TRANSACT = API + "API_TransactWriteItems.html"
TYPES = GUIDE + "HowItWorks.NamingRulesDataTypes.html"
LIMITS = GUIDE + "Constraints.html"
UPDATES = GUIDE + "Expressions.UpdateExpressions.html"
UNITS = GUIDE + "read-write-operations.html"
BATCH_READS = API + "API_BatchGetItem.html"
STREAMS = GUIDE + "Streams.html"

ABSENT = "attribute_not_exists(id)"
KB = 1024


class Items:
    """Items of one partition key in the shared table: `part` tells them apart."""

    def __init__(self, client: Any, table: str) -> None:
        self.client, self.table, self.id = client, table, f"id-{uuid.uuid4().hex[:12]}"

    def key(self, part: str = "a") -> dict[str, Any]:
        return _written({"id": self.id, "part": part})

    def write(self, part: str = "a", condition: str | None = None, **values: Any) -> dict[str, Any]:
        """A put, as PutItem and a transaction take it."""
        request: dict[str, Any] = {"TableName": self.table, "Item": self.key(part) | _written(values)}
        return request | ({"ConditionExpression": condition} if condition else {})

    def put(self, part: str = "a", **values: Any) -> dict[str, Any]:
        return self.client.put_item(**self.write(part, **values), ReturnConsumedCapacity="INDEXES")

    def get(self, part: str = "a") -> dict[str, Any] | None:
        """Its values, by a consistent read."""
        answer = self.client.get_item(TableName=self.table, Key=self.key(part), ConsistentRead=True)
        return _read(answer["Item"]) if "Item" in answer else None

    def update(self, expression: str, part: str = "a", condition: str | None = None, **values: Any) -> dict[str, Any]:
        request: dict[str, Any] = {"TableName": self.table, "Key": self.key(part), "UpdateExpression": expression}
        if values:
            request["ExpressionAttributeValues"] = {f":{name}": one for name, one in _written(values).items()}
        return request | ({"ConditionExpression": condition} if condition else {})

    def query(self, **request: Any) -> dict[str, Any]:
        values = request.pop("values", {})
        values = _written({":id": self.id} | values)
        request |= {"KeyConditionExpression": "id = :id", "ExpressionAttributeValues": values}
        return self.client.query(TableName=self.table, **request)

    def transact(self, *writes: dict[str, Any], token: str | None = None, **more: Any) -> dict[str, Any]:
        """Writes together. A write with an UpdateExpression is an Update, one with an Item a Put, others are checks."""
        kinds = {"UpdateExpression": "Update", "Item": "Put"}
        items = [{next((kind for name, kind in kinds.items() if name in one), "ConditionCheck"): one} for one in writes]
        token = token or uuid.uuid4().hex
        return self.client.transact_write_items(TransactItems=items, ClientRequestToken=token, **more)


@pytest.fixture
def items(place: Place, shared_table: str) -> Items:
    return Items(place.client("dynamodb"), shared_table)


def refused(call: Callable[[], object]) -> dict[str, Any]:
    """The error's answer."""
    with pytest.raises(ClientError) as caught:
        call()
    return dict(caught.value.response)


def code_of(call: Callable[[], object]) -> str:
    return str(refused(call)["Error"]["Code"])


@rests_on(CONDITIONS)
def test_of_two_puts_on_the_condition_that_no_item_is_there_the_second_is_refused(items: Items) -> None:
    items.client.put_item(**items.write(condition=ABSENT, tally=1))
    again = items.write(condition=ABSENT, tally=2)
    assert code_of(lambda: items.client.put_item(**again)) == "ConditionalCheckFailedException"
    assert items.get() == {"tally": 1}


@rests_on(CONDITIONS)
@pytest.mark.parametrize("call", ["put_item", "update_item", "delete_item"])
def test_a_refused_write_hands_back_the_item(items: Items, call: str) -> None:
    items.put(tally=7, note="there")
    request = items.write(condition=ABSENT) if call == "put_item" else {"Key": items.key(), "TableName": items.table}
    request |= {"ConditionExpression": ABSENT, "ReturnValuesOnConditionCheckFailure": "ALL_OLD"}
    answer = refused(lambda: getattr(items.client, call)(**request))
    assert _read(answer["Item"]) == {"tally": 7, "note": "there"}


@rests_on(CONDITIONS)
def test_a_refusal_hands_back_nothing_if_there_is_no_item(items: Items) -> None:
    request = items.update("SET tally = :n", condition="attribute_exists(id)", n=1)
    answer = refused(lambda: items.client.update_item(**request, ReturnValuesOnConditionCheckFailure="ALL_OLD"))
    assert (answer["Error"]["Code"], answer.get("Item")) == ("ConditionalCheckFailedException", None)


@rests_on(CONDITIONS)
def test_no_comparison_holds_for_an_attribute_that_is_not_there(items: Items) -> None:
    items.put(note="t")
    for comparison in ("tally = :n", "tally < :n", "tally <> :n AND attribute_exists(tally)"):
        request = items.update("SET tally = :n", condition=comparison, n=1)
        assert code_of(lambda request=request: items.client.update_item(**request)) == "ConditionalCheckFailedException"


@rests_on(TRANSACT)
def test_a_cancelled_transaction_has_one_reason_for_each_write_in_order(items: Items) -> None:
    items.put("c", tally=2)
    writes = [items.write(part, condition=ABSENT) for part in "abc"]
    reasons = refused(lambda: items.transact(*writes))["CancellationReasons"]
    assert [reason["Code"] for reason in reasons] == ["None", "None", "ConditionalCheckFailed"]


@rests_on(TRANSACT)
def test_a_reason_has_the_item_as_it_is(items: Items) -> None:
    items.put("b", tally=2)
    write = items.write("b", condition=ABSENT) | {"ReturnValuesOnConditionCheckFailure": "ALL_OLD"}
    [_, reason] = refused(lambda: items.transact(items.write("a"), write))["CancellationReasons"]
    assert _read(reason["Item"]) == {"tally": 2}


@rests_on(TRANSACTIONS)
def test_a_cancelled_transaction_changes_nothing(items: Items) -> None:
    items.put("b", tally=2)
    refused(lambda: items.transact(items.write("a", tally=1), items.write("b", condition=ABSENT)))
    assert (items.get("a"), items.get("b")) == (None, {"tally": 2})


@rests_on(TRANSACTIONS)
def test_a_transaction_takes_one_write_to_an_item(items: Items) -> None:
    writes = (items.write(tally=1), items.update("SET tally = :n", n=2))
    assert code_of(lambda: items.transact(*writes)) == "ValidationException"


@rests_on(TRANSACT)
def test_a_transaction_takes_a_hundred_items_and_no_more(items: Items) -> None:
    writes = [items.write(f"{number:03}") for number in range(101)]
    items.transact(*writes[:100])
    assert code_of(lambda: items.transact(*writes)) == "ValidationException"


@rests_on(TRANSACT)
def test_a_transaction_takes_ninety_nine_items_of_31_kilobytes(items: Items) -> None:
    items.transact(*(items.write(f"{number:03}", note="x" * 31_000) for number in range(99)))
    assert items.query(Select="COUNT", Limit=10)["Count"] == 10


@rests_on(TRANSACT)
def test_a_transaction_that_is_sent_again_with_its_token_takes_effect_once(items: Items) -> None:
    items.put(tally=1)
    write = items.update("SET tally = tally + :n", n=1)
    for _ in range(3):
        items.transact(write, token="t-" + items.id)
    assert items.get() == {"tally": 2}


@rests_on(TRANSACT)
def test_a_token_with_another_transaction_is_refused(items: Items) -> None:
    items.transact(items.write(tally=1), token="t-" + items.id)
    again = code_of(lambda: items.transact(items.write(tally=2), token="t-" + items.id))
    assert (again, items.get()) == ("IdempotentParameterMismatchException", {"tally": 1})


@rests_on(TRANSACT)
def test_after_a_cancellation_another_token_commits(items: Items) -> None:
    items.put(tally=1)
    write = items.update("SET note = :t", condition="tally = :n", t="done", n=2)
    refused(lambda: items.transact(write))
    items.put(tally=2)
    items.transact(write)
    assert items.get() == {"tally": 2, "note": "done"}


@rests_on(TRANSACTIONS)
def test_a_check_in_a_transaction_writes_nothing_and_holds_the_others_to_it(items: Items) -> None:
    items.put("checked", tally=1)

    def check(number: int) -> dict[str, Any]:
        values = _written({":n": number})
        request = {"TableName": items.table, "Key": items.key("checked"), "ExpressionAttributeValues": values}
        return request | {"ConditionExpression": "tally = :n"}

    items.transact(check(1), items.write("a"))
    assert code_of(lambda: items.transact(check(2), items.write("b"))) == "TransactionCanceledException"
    assert (items.get("a"), items.get("b"), items.get("checked")) == ({}, None, {"tally": 1})


@rests_on(GUIDE + "transaction-apis.html#transaction-conflict-handling")
def test_transactions_of_one_item_at_the_same_time_lose_no_update(items: Items) -> None:
    items.put("hot", tally=0)

    def try_once(number: int) -> str:
        try:
            write = items.update("SET tally = tally + :n", "hot", n=1)
            items.transact(write, items.write(f"{number}", condition=ABSENT))
        except ClientError as error:
            answer: Any = error.response
            assert answer["Error"]["Code"] == "TransactionCanceledException"
            return str(answer["CancellationReasons"][0]["Code"])
        return "committed"

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(try_once, range(40)))
    assert set(answers) <= {"committed", "TransactionConflict"}
    assert items.get("hot") == {"tally": answers.count("committed")}
    assert items.query(Select="COUNT")["Count"] == answers.count("committed") + 1


@rests_on(UPDATES)
def test_an_update_whose_condition_fails_says_so_before_it_says_that_a_path_is_missing(items: Items) -> None:
    items.put(tally=1)
    request = items.update("SET #map.part = :n", condition="attribute_exists(#map)", n=1)
    request["ExpressionAttributeNames"] = {"#map": "missing"}
    assert code_of(lambda: items.client.update_item(**request)) == "ConditionalCheckFailedException"


@rests_on(UPDATES)
def test_a_path_into_a_map_that_is_not_there_is_refused(items: Items) -> None:
    items.put(tally=1)
    request = items.update("SET #map.part = :n", n=1) | {"ExpressionAttributeNames": {"#map": "missing"}}
    assert code_of(lambda: items.client.update_item(**request)) == "ValidationException"


@rests_on(UPDATES)
def test_two_updates_of_different_entries_of_a_map_keep_each_others(items: Items) -> None:
    items.put(map={"a": 1})
    for name in ("b", "c.d"):
        names = {"#map": "map", "#name": name}
        items.client.update_item(**items.update("SET #map.#name = :n", n=2), ExpressionAttributeNames=names)
    assert items.get() == {"map": {"a": 1, "b": 2, "c.d": 2}}


@rests_on(API + "API_UpdateItem.html")
def test_an_update_makes_an_item_that_is_not_there_and_returns_it_as_it_is_then(items: Items) -> None:
    answer = items.client.update_item(**items.update("SET tally = :n", n=3), ReturnValues="ALL_NEW")
    assert _read(answer["Attributes"]) == items.get() == {"tally": 3}


@rests_on(UPDATES)
def test_to_remove_an_attribute_that_is_not_there_is_no_error(items: Items) -> None:
    items.put(tally=1)
    items.client.update_item(**items.update("REMOVE another"))
    assert items.get() == {"tally": 1}


@rests_on(API + "API_DeleteItem.html")
def test_to_delete_an_item_that_is_not_there_is_no_error(items: Items) -> None:
    items.client.delete_item(TableName=items.table, Key=items.key())


@rests_on(TYPES)
def test_a_number_keeps_38_digits(items: Items) -> None:
    longest = Decimal("1234567890.1234567890123456789012345678")
    items.put(amount=longest)
    assert items.get() == {"amount": longest}


@rests_on(TYPES)
def test_a_number_of_39_digits_is_refused(items: Items) -> None:
    item = items.key() | {"amount": {"N": "1" * 39}}
    assert code_of(lambda: items.client.put_item(TableName=items.table, Item=item)) == "ValidationException"


@rests_on(TYPES)
def test_a_sum_in_an_update_keeps_38_digits(items: Items) -> None:
    items.put(amount=Decimal("1" * 37 + "0"))
    items.client.update_item(**items.update("SET amount = amount + :one", one=1))
    assert items.get() == {"amount": Decimal("1" * 38)}


@rests_on(TYPES)
def test_zeroes_at_the_end_of_a_fraction_make_no_other_number(items: Items) -> None:
    items.put(amount=Decimal("1.50"))
    items.client.update_item(**items.update("SET tally = :n", condition="amount = :a", n=1, a=Decimal("1.5")))


@rests_on(TYPES)
def test_an_empty_text_is_a_value_and_no_key(items: Items) -> None:
    items.put(note="")
    assert items.get() == {"note": ""}
    assert code_of(lambda: items.put("")) == "ValidationException"


@rests_on(TYPES)
def test_an_empty_set_is_refused(items: Items) -> None:
    item = items.key() | {"texts": {"SS": []}}
    assert code_of(lambda: items.client.put_item(TableName=items.table, Item=item)) == "ValidationException"


@rests_on(LIMITS)
def test_an_item_has_at_most_400_kilobytes(items: Items) -> None:
    own = sum(len(name) for name in ("id", "part", "note")) + len(items.id) + len("a")
    items.put(note="x" * (400 * KB - own))
    assert code_of(lambda: items.put(note="x" * (400 * KB - own + 1))) == "ValidationException"


@rests_on(LIMITS)
def test_maps_are_nested_32_deep_at_most(items: Items) -> None:
    def nested(levels: int) -> Any:
        return {"n": nested(levels - 1)} if levels else 1

    items.put(map=nested(31))
    assert code_of(lambda: items.put(map=nested(32))) == "ValidationException"


@rests_on(LIMITS)
def test_an_expression_has_at_most_4_kilobytes(items: Items) -> None:
    def expression(length: int) -> str:
        return "SET " + "n" * (length - len("SET  = :n")) + " = :n"

    longest, longer = (items.update(expression(length), n=1) for length in (4 * KB, 4 * KB + 1))
    items.client.update_item(**longest)
    assert code_of(lambda: items.client.update_item(**longer)) == "ValidationException"


@rests_on(GUIDE + "HowItWorks.ReadConsistency.html")
def test_a_consistent_read_sees_each_write_that_was_answered(items: Items) -> None:
    for number in range(10):
        items.put(tally=number)
        assert items.get() == {"tally": number}


@rests_on(BATCH_READS)
def test_a_batch_read_leaves_out_the_items_that_are_not_there(items: Items) -> None:
    items.put("b", tally=2)
    wanted = {items.table: {"Keys": [items.key(part) for part in "abc"], "ConsistentRead": True}}
    answer = items.client.batch_get_item(RequestItems=wanted)
    assert [_read(item) for item in answer["Responses"][items.table]] == [{"tally": 2}]
    assert answer["UnprocessedKeys"] == {}


@rests_on(BATCH_READS)
@pytest.mark.parametrize("parts", [["a", "a"], list(map(str, range(101)))], ids=["a key twice", "101 keys"])
def test_a_batch_read_refuses(items: Items, parts: list[str]) -> None:
    wanted = {items.table: {"Keys": [items.key(part) for part in parts]}}
    assert code_of(lambda: items.client.batch_get_item(RequestItems=wanted)) == "ValidationException"


@rests_on(BATCH_READS)
def test_a_batch_read_names_the_keys_that_it_has_left(items: Items) -> None:
    parts = [f"{number:02}" for number in range(44)]
    for part in parts:
        items.put(part, note="x" * 390_000)
    wanted: Any = {items.table: {"Keys": [items.key(part) for part in parts], "ConsistentRead": True}}
    answer = items.client.batch_get_item(RequestItems=wanted)
    left = answer["UnprocessedKeys"][items.table]["Keys"]
    read = answer["Responses"][items.table]
    assert (len(read) < 44, len(read) + len(left)) == (True, 44)
    for batch in itertools.batched(parts, 25, strict=False):
        requests = [{"DeleteRequest": {"Key": items.key(part)}} for part in batch]
        items.client.batch_write_item(RequestItems={items.table: requests})


@rests_on(GUIDE + "Query.Pagination.html")
def test_a_page_ends_at_a_megabyte_and_names_its_last_key(items: Items) -> None:
    for part in "abcd":
        items.put(part, note="x" * 350_000)
    first = items.query()
    rest = items.query(ExclusiveStartKey=first["LastEvaluatedKey"])
    assert [item["part"]["S"] for item in first["Items"] + rest["Items"]] == list("abcd")
    assert len(first["Items"]) in (2, 3)


@rests_on(GUIDE + "Query.FilterExpression.html")
def test_a_filter_is_applied_after_the_page_was_read(items: Items) -> None:
    for number in range(4):
        items.put(f"{number}", tally=number)
    answer = items.query(Limit=2, FilterExpression="tally = :n", values={":n": 3}, ConsistentRead=True)
    assert (answer["Count"], answer["ScannedCount"], "LastEvaluatedKey" in answer) == (0, 2, True)


@rests_on(GUIDE + "Query.html")
def test_texts_are_sorted_by_their_bytes_in_utf_8(items: Items) -> None:
    texts = ["Z", "a", "z", "ä", "\uff5e", "\U0001f600"]
    for text in reversed(texts):
        items.put(text)
    first = items.query(ConsistentRead=True, Limit=4)
    others = items.query(ConsistentRead=True, ExclusiveStartKey=first["LastEvaluatedKey"])
    assert [item["part"]["S"] for item in first["Items"] + others["Items"]] == texts


@rests_on(GUIDE + "GSI.html")
def test_an_index_has_each_item_soon_and_sorts_numbers_as_numbers(place: Place, items: Items) -> None:
    for number in (10, 9, 100):
        items.put(f"{number}", tally=number)

    def in_index() -> list[Any] | None:
        found = [_read(item)["tally"] for item in items.query(IndexName="by_tally")["Items"]]
        return found if len(found) == 3 else None

    assert place.eventually(in_index) == [9, 10, 100]


@rests_on(GUIDE + "GSI.html")
def test_an_index_is_not_read_consistently(items: Items) -> None:
    assert code_of(lambda: items.query(IndexName="by_tally", ConsistentRead=True)) == "ValidationException"


@rests_on(GUIDE + "Scan.html#Scan.ParallelScan")
def test_a_parallel_scan_has_each_item_in_one_segment(items: Items) -> None:
    for part in "abcdef":
        items.put(part, mark=items.id)
    found: list[str] = []
    for segment in range(3):
        pages = items.client.get_paginator("scan").paginate(
            TableName=items.table,
            Segment=segment,
            TotalSegments=3,
            ConsistentRead=True,
            FilterExpression="mark = :mark",
            ExpressionAttributeValues=_written({":mark": items.id}),
        )
        found += [item["part"]["S"] for page in pages for item in page["Items"]]
    assert sorted(found) == list("abcdef")


@rests_on(UNITS)
@pytest.mark.parametrize(("size", "units"), [(500, 1), (1_500, 2)])
def test_a_write_takes_a_unit_for_each_kilobyte_and_two_in_a_transaction(items: Items, size: int, units: int) -> None:
    write = items.write(note="x" * size)
    alone = items.client.put_item(**write, ReturnConsumedCapacity="TOTAL")["ConsumedCapacity"]
    [together] = items.transact(write, ReturnConsumedCapacity="TOTAL")["ConsumedCapacity"]
    assert (alone["CapacityUnits"], together["CapacityUnits"]) == (units, 2 * units)


@rests_on(GUIDE + "GSI.html#GSI.ThroughputConsiderations")
def test_an_index_takes_a_unit_more_for_a_new_item_in_it(items: Items) -> None:
    capacity = items.put(tally=1)["ConsumedCapacity"]
    assert (capacity["CapacityUnits"], capacity["GlobalSecondaryIndexes"]["by_tally"]["CapacityUnits"]) == (2, 1)


@rests_on(UNITS)
@pytest.mark.parametrize("consistent", [True, False])
def test_a_read_of_an_item_that_is_not_there_takes_as_much_as_one_of_4_kilobytes(
    items: Items, consistent: bool
) -> None:
    request = {"TableName": items.table, "Key": items.key(), "ConsistentRead": consistent}
    answer = items.client.get_item(**request, ReturnConsumedCapacity="TOTAL")
    assert answer["ConsumedCapacity"]["CapacityUnits"] == (1 if consistent else 0.5)


@rests_on(GUIDE + "TTL.html")
def test_an_expired_item_is_read_until_it_is_deleted(items: Items) -> None:
    items.put(expires_at=1)
    assert items.get() == {"expires_at": 1}


@rests_on(STREAMS)
def test_the_stream_has_a_record_of_each_change_in_order_with_both_images(place: Place, items: Items) -> None:
    items.put(tally=1)
    items.put(tally=2)
    items.client.delete_item(TableName=items.table, Key=items.key())
    records = [
        (record["eventName"], *(_read(record["dynamodb"].get(image, {})) for image in ("OldImage", "NewImage")))
        for record in _stream_records(place, items, 3)
    ]
    one, two = {"tally": 1}, {"tally": 2}
    assert records == [("INSERT", {}, one), ("MODIFY", one, two), ("REMOVE", two, {})]


@rests_on(STREAMS)
def test_the_stream_has_a_record_of_each_write_of_a_transaction_and_none_of_its_cancellations(
    place: Place, items: Items
) -> None:
    items.transact(items.write("a"), items.write("b"))
    refused(lambda: items.transact(items.write("a", condition=ABSENT), items.write("c")))
    items.put("d")
    parts = [record["dynamodb"]["Keys"]["part"]["S"] for record in _stream_records(place, items, 3)]
    assert sorted(parts) == ["a", "b", "d"]


def _stream_records(place: Place, items: Items, count: int) -> list[dict[str, Any]]:
    """The records of these items: so many at least, or all that came in time."""
    streams = place.client("dynamodbstreams")
    arn = items.client.describe_table(TableName=items.table)["Table"]["LatestStreamArn"]

    def read() -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        for shard in streams.describe_stream(StreamArn=arn)["StreamDescription"]["Shards"]:
            which = {"StreamArn": arn, "ShardId": shard["ShardId"], "ShardIteratorType": "TRIM_HORIZON"}
            iterator = streams.get_shard_iterator(**which)["ShardIterator"]
            empty = 0
            while iterator and empty < 3:
                answer = streams.get_records(ShardIterator=iterator)
                found += [each for each in answer["Records"] if each["dynamodb"]["Keys"]["id"]["S"] == items.id]
                empty = 0 if answer["Records"] else empty + 1
                iterator = answer.get("NextShardIterator")
        return found

    place.eventually(lambda: len(read()) >= count)
    return read()


def _written(values: dict[str, Any]) -> dict[str, Any]:
    serializer = TypeSerializer()
    return {name: serializer.serialize(value) for name, value in values.items()}


def _read(item: dict[str, Any]) -> dict[str, Any]:
    """The item's values, without its key."""
    deserializer = TypeDeserializer()
    return {name: deserializer.deserialize(value) for name, value in item.items() if name not in ("id", "part")}
