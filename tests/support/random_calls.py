"""Random calls of DynamoDB, good and bad ones, on one table. The same seed makes the same calls."""

import random
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple


class RandomCall(NamedTuple):
    method: str
    request: dict[str, Any]


def table(name: str) -> dict[str, Any]:
    """A table with a global index of some attributes, and a local one of all."""
    types = {"id": "S", "seq": "N", "kind": "S", "place": "N"}

    def schema(*keys: str) -> list[dict[str, str]]:
        return [{"AttributeName": key, "KeyType": kind} for key, kind in zip(keys, ("HASH", "RANGE"), strict=False)]

    some = {"ProjectionType": "INCLUDE", "NonKeyAttributes": ["n"]}
    return {
        "TableName": name,
        "BillingMode": "PAY_PER_REQUEST",
        "AttributeDefinitions": [{"AttributeName": each, "AttributeType": kind} for each, kind in types.items()],
        "KeySchema": schema("id", "seq"),
        "GlobalSecondaryIndexes": [{"IndexName": "by_kind", "KeySchema": schema("kind", "place"), "Projection": some}],
        "LocalSecondaryIndexes": [
            {"IndexName": "by_rank", "KeySchema": schema("id", "place"), "Projection": {"ProjectionType": "ALL"}}
        ],
    }


PATHS = ("n", "t", "s", "ns", "x.a", "x.b", "many[0]", "many[1]", "many[1].a", "x.a.b", "many[7]", "gone", "x", "many")
MISTAKEN_PATHS = ("id", "seq", "kind", "status", "number", "a b", "remove", "id.a", "kind[0]")
INTO_SCALARS = ("many[1].a", "id.a", "kind[0]")
NUMBERS = ("0", "1", "-1", "2.50", "1e3", "12345678901234567890123456789012345678", "0.001", "7")
TEXTS = ("", "a", "ab", "b", "é", "zz")
TYPES = ("S", "N", "B", "SS", "NS", "L", "M", "BOOL", "NULL", "Z")


class RandomCalls:
    """`has_mistakes`: some keys, numbers and sets are none that DynamoDB takes, and some paths go into scalars."""

    def __init__(self, table_name: str, seed: int, *, has_mistakes: bool) -> None:
        self._has_mistakes = has_mistakes
        self._paths, self._mistaken_paths = (
            [path for path in paths if has_mistakes or path not in INTO_SCALARS] for paths in (PATHS, MISTAKEN_PATHS)
        )
        self._table, self._random = table_name, random.Random(seed)
        self._values: dict[str, Any] = {}
        self._names: dict[str, str] = {}

    def __iter__(self) -> Iterator[RandomCall]:
        makers: list[tuple[Callable[[], RandomCall], int]] = [
            (self._put, 4),
            (self._update, 6),
            (self._delete, 2),
            (self._get, 2),
            (self._query, 3),
            (self._scan, 1),
            (self._batch_get, 1),
            (self._batch_write, 1),
            (self._transaction, 3),
            (self._transact_get, 1),
        ]
        while True:
            [make] = self._random.choices([maker for maker, _ in makers], [weight for _, weight in makers])
            self._values, self._names = {}, {}
            yield make()

    def _one(self, *choices: Any) -> Any:
        return self._random.choice(choices)

    def _is(self, probability: float) -> bool:
        return self._random.random() < probability

    def _is_mistaken(self) -> bool:
        return self._is(0.02) and self._has_mistakes

    def _key(self) -> dict[str, Any]:
        if self._is_mistaken():
            return self._one(
                {"id": {"S": "a"}}, {"id": {"S": ""}, "seq": {"N": "1"}}, {"id": {"N": "1"}, "seq": {"N": "1"}}
            )
        return {"id": {"S": self._one("a", "b", "c")}, "seq": {"N": self._one("1", "2", "3", "-4")}}

    def _value(self, depth: int = 0) -> dict[str, Any]:  # noqa: C901 (a case for each type)
        kind = self._one(*"SSNNBLM", "SS", "NS", "BS", "BOOL", "NULL")
        match kind:
            case "S":
                return {"S": self._one(*TEXTS)}
            case "N":
                return {
                    "N": self._one(*NUMBERS) if not self._is_mistaken() else self._one("1e126", "x", "1" * 39, "1e-131")
                }
            case "B":
                return {"B": self._one(b"", b"a", b"ab", b"\xff")}
            case "SS":
                return {"SS": self._some(["a", "b", "c"])}
            case "NS":
                return {"NS": self._some(["1", "2.0", "1e2"])}
            case "BS":
                return {"BS": self._some([b"a", b"b"])}
            case "BOOL":
                return {"BOOL": self._is(0.5)}
            case "NULL":
                return {"NULL": True}
        if depth == 2:
            return {"S": "deep"}
        if kind == "L":
            return {"L": [self._value(depth + 1) for _ in range(self._random.randrange(3))]}
        return {"M": {name: self._value(depth + 1) for name in self._some(["a", "b"])}}

    def _some(self, members: list[Any]) -> list[Any]:
        return (
            self._random.sample(members, self._random.randrange(1, len(members) + 1)) if not self._is_mistaken() else []
        )

    def _item(self) -> dict[str, Any]:
        item = {name: self._value() for name in self._random.sample(("n", "m", "t", "s", "ns"), 3)}
        item |= {"x": {"M": {"a": self._value(), "b": {"N": "1"}}}, "many": {"L": [{"N": "1"}, self._value()]}}
        item |= {"n": {"N": self._one("1", "2", "3")}} if self._is(0.7) else {}
        item |= {"ns": {"NS": ["1", "2"]}} if self._is(0.5) else {}
        item |= {"kind": {"S": self._one("k", "l")}, "place": {"N": self._one("1", "2", "3")}} if self._is(0.6) else {}
        item |= {"t": {"S": "x" * self._one(1000, 5000)}} if self._is(0.1) else {}
        return item | {"kind": self._value()} if self._is_mistaken() else item

    # --- expressions

    def _path(self) -> str:
        path: str = self._one(*self._paths)
        if self._is(0.1):
            head, dot, rest = path.partition(".")
            name = f"#{len(self._names)}"
            if "[" not in head:
                self._names[name] = head
                return name + dot + rest
        return path if self._is(0.99) else self._one(*self._mistaken_paths)

    def _given(self, value: dict[str, Any] | None = None) -> str:
        name = f":{len(self._values)}"
        self._values[name] = self._value() if value is None else value
        return name if self._is(0.995) else ":none"

    def _number(self) -> str:
        return self._given({"N": self._one(*NUMBERS)}) if self._is(0.9) else self._given()

    def _operand(self) -> str:
        return self._one(self._path, self._path, self._given, self._number, lambda: f"size({self._path()})")()

    def _condition(self, depth: int = 0) -> str:
        if depth < 2 and self._is(0.4):
            one, other = self._condition(depth + 1), self._condition(depth + 1)
            return self._one(f"{one} AND {other}", f"{one} OR {other}", f"NOT {one}", f"({one} OR {other})")
        match self._random.randrange(9):
            case 0:
                return f"attribute_exists({self._path()})"
            case 1:
                return f"attribute_not_exists({self._path()})"
            case 2:
                return f"attribute_type({self._path()}, {self._given({'S': self._one(*TYPES)})})"
            case 3:
                return f"begins_with({self._path()}, {self._given()})"
            case 4:
                return f"contains({self._path()}, {self._given()})"
            case 5:
                return f"{self._path()} BETWEEN {self._number()} AND {self._one(self._number, self._path)()}"
            case 6:
                return f"{self._operand()} IN ({self._operand()}, {self._given()})"
            case _:
                comparison = self._one("=", "<>", "<", "<=", ">", ">=")
                return f"{self._operand()} {comparison} {self._operand()}"

    def _update_expression(self) -> str:
        sections = self._random.sample(("SET", "REMOVE", "ADD", "DELETE"), self._random.randrange(1, 3))
        return " ".join(f"{section} {self._actions(section)}" for section in sections)

    def _actions(self, section: str) -> str:
        return ", ".join(self._action(section) for _ in range(self._random.randrange(1, 3)))

    def _action(self, section: str) -> str:
        path = self._path()
        match section:
            case "SET":
                return f"{path} = {self._set_value()}"
            case "REMOVE":
                return path
            case "ADD":
                return f"{path} {self._one(self._number(), self._given({'NS': ['1', '9']}), self._given())}"
        return f"{path} {self._one(self._given({'NS': ['1']}), self._given({'SS': ['a']}), self._given())}"

    def _set_value(self) -> str:
        match self._random.randrange(6):
            case 0:
                return f"{self._path()} {self._one('+', '-')} {self._number()}"
            case 1:
                return f"if_not_exists({self._path()}, {self._given()})"
            case 2:
                return f"list_append({self._path()}, {self._given({'L': [{'S': 'new'}]})})"
            case 3:
                return self._path()
        return self._given() if self._is(0.98) else f"(({self._given()}))"

    def _with_placeholders(self, request: dict[str, Any]) -> dict[str, Any]:
        texts = " ".join(str(each) for name, each in request.items() if name.endswith("Expression"))
        keep = self._is(0.02)
        values = {name: each for name, each in self._values.items() if keep or f"{name}" in texts}
        names = {name: each for name, each in self._names.items() if keep or name in texts}
        request |= {"ExpressionAttributeValues": values} if values else {}
        return request | ({"ExpressionAttributeNames": names} if names else {})

    # --- calls

    def _capacity(self) -> dict[str, Any]:
        return {"ReturnConsumedCapacity": self._one("INDEXES", "TOTAL")} if self._is(0.5) else {}

    def _conditional(self, probability: float = 0.5) -> dict[str, Any]:
        if not self._is(probability):
            return {}
        request = {"ConditionExpression": self._condition()}
        return request | ({"ReturnValuesOnConditionCheckFailure": "ALL_OLD"} if self._is(0.5) else {})

    def _put_request(self) -> dict[str, Any]:
        item = {**self._key(), **self._item()}
        return self._with_placeholders({"TableName": self._table, "Item": item, **self._conditional(0.3)})

    def _update_request(self) -> dict[str, Any]:
        request = {"TableName": self._table, "Key": self._key(), "UpdateExpression": self._update_expression()}
        return self._with_placeholders(request | self._conditional(0.3))

    def _delete_request(self) -> dict[str, Any]:
        return self._with_placeholders({"TableName": self._table, "Key": self._key(), **self._conditional()})

    def _put(self) -> RandomCall:
        returned = {"ReturnValues": self._one("ALL_OLD", "NONE")}
        return RandomCall("put_item", self._put_request() | self._capacity() | returned)

    def _update(self) -> RandomCall:
        returned = {"ReturnValues": self._one("ALL_OLD", "ALL_NEW", "UPDATED_OLD", "UPDATED_NEW", "NONE")}
        return RandomCall("update_item", self._update_request() | self._capacity() | returned)

    def _delete(self) -> RandomCall:
        return RandomCall("delete_item", self._delete_request() | self._capacity())

    def _projection(self) -> dict[str, Any]:
        if self._is(0.6):
            return {}
        return {"ProjectionExpression": ", ".join(self._path() for _ in range(self._random.randrange(1, 4)))}

    def _get(self) -> RandomCall:
        request = {"TableName": self._table, "Key": self._key(), "ConsistentRead": True, **self._projection()}
        return RandomCall("get_item", self._with_placeholders(request) | self._capacity())

    def _query(self) -> RandomCall:
        index = self._one(None, "by_kind", "by_rank")
        key, sort = ("kind", "place") if index == "by_kind" else ("id", "place" if index else "seq")
        of = self._one("a", "b", "k", "l")
        text = f"{key} = {self._given({'S': of})}"
        if self._is(0.5):
            first = self._given({"N": self._one("1", "2", "3")})
            bounded = f"{sort} BETWEEN {first} AND {self._given({'N': '3'})}"
            text += " AND " + self._one(f"{sort} {self._one('=', '<', '>=')} {first}", bounded)
        request: dict[str, Any] = {"TableName": self._table, "KeyConditionExpression": text}
        request |= {"IndexName": index} if index else {}
        request |= {"FilterExpression": self._condition(1)} if self._is(0.4) else {}
        request |= {"ScanIndexForward": False} if self._is(0.3) else {}
        request |= {"Limit": self._one(1, 2)} if self._is(0.3) and index is None else {}
        after = {"id": {"S": of}, "seq": {"N": self._one("1", "2", "3", "-4")}}
        request |= {"ExclusiveStartKey": after} if self._is(0.2) and index is None else {}
        request |= {"Select": "COUNT"} if self._is(0.1) else self._projection() if index != "by_kind" else {}
        return RandomCall("query", self._with_placeholders(request) | self._capacity())

    def _scan(self) -> RandomCall:
        request: dict[str, Any] = {"TableName": self._table, "ConsistentRead": True}
        request |= {"FilterExpression": self._condition()} if self._is(0.7) else {}
        return RandomCall("scan", self._with_placeholders(request | self._projection()) | self._capacity())

    def _batch_get(self) -> RandomCall:
        wanted = {"Keys": [self._key() for _ in range(self._random.randrange(1, 4))], "ConsistentRead": True}
        return RandomCall("batch_get_item", {"RequestItems": {self._table: wanted}, **self._capacity()})

    def _batch_write(self) -> RandomCall:
        writes = [
            {"PutRequest": {"Item": {**self._key(), **self._item()}}}
            if self._is(0.6)
            else {"DeleteRequest": {"Key": self._key()}}
            for _ in range(self._random.randrange(1, 4))
        ]
        return RandomCall("batch_write_item", {"RequestItems": {self._table: writes}, **self._capacity()})

    def _transaction(self) -> RandomCall:
        actions = []
        for _ in range(self._random.randrange(1, 4)):
            self._values, self._names = {}, {}
            kind = self._one("Put", "Update", "Delete", "ConditionCheck")
            if kind == "ConditionCheck":
                checked = {"TableName": self._table, "Key": self._key(), **self._conditional(1)}
                actions.append({kind: self._with_placeholders(checked)})
            else:
                made = {"Put": self._put_request, "Update": self._update_request, "Delete": self._delete_request}
                actions.append({kind: made[kind]()})
        return RandomCall("transact_write_items", {"TransactItems": actions, **self._capacity()})

    def _transact_get(self) -> RandomCall:
        gets = [{"Get": {"TableName": self._table, "Key": self._key()}} for _ in range(self._random.randrange(1, 4))]
        return RandomCall("transact_get_items", {"TransactItems": gets, **self._capacity()})
