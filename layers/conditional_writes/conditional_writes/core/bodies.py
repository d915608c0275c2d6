"""The bodies of DynamoDB's answers, read in one pass over the JSON to items in Python's types.

botocore makes DynamoDB's types of the JSON, by its model, and boto3 Python's types of these: many times the CPU time.
What DynamoDB doesn't send is an error here, and botocore's parser says what is wrong with it, or takes it.
"""

import base64
import functools
import json
from collections.abc import Callable
from decimal import Decimal
from typing import Any, NoReturn

from conditional_writes.core.items import to_dynamodb


class Structure(dict[str, Any]):
    """An object of the body that is no item, map or value: the whole answer, or a transaction's reason."""


def read_body(body: bytes) -> Any:
    """A body of items: each is a plain dict. Raises errors of any kind for what DynamoDB doesn't send."""
    return json.loads(body, object_hook=_value_of)


READS = {"get_item": "Item", "query": "Items", "scan": "Items", "batch_get_item": "Responses"}
"""The methods that read, and the field of their answers that has items."""


def found_and_rest(body: bytes, method: str) -> tuple[Any, bytes]:
    """The method's finds, which are an item, a list of items, or lists by table; and the body without them.

    Raises errors of any kind for what DynamoDB doesn't send, and for a body without items.
    """
    answer = read_body(body)
    found = answer.pop(READS[method])
    match method:
        case "get_item":
            _check_item(found)
        case "batch_get_item":
            _check_tables(found)
            for table in answer.get("UnprocessedKeys", {}).values():
                table["Keys"] = [*map(_in_dynamodbs_types, table["Keys"])]
        case _:
            _check_items(found)
            if "LastEvaluatedKey" in answer:
                answer["LastEvaluatedKey"] = _in_dynamodbs_types(answer["LastEvaluatedKey"])
    return found, json.dumps(answer, default=lambda binary: base64.b64encode(binary).decode()).encode()


def _check_item(found: Any) -> None:
    if type(found) is not dict:
        _refuse(found)


def _check_items(found: Any) -> None:
    if type(found) is not list or not set(map(type, found)) <= {dict}:
        _refuse(found)


def _check_tables(found: Any) -> None:
    if found and type(found) is not Structure:
        _refuse(found)
    for items in found.values():
        _check_items(items)


def _in_dynamodbs_types(key: Any) -> dict[str, Any]:
    _check_item(key)
    return to_dynamodb(key)


def _value_of(read: dict[str, Any]) -> Any:
    """The value of an object in DynamoDB's JSON whose own values were read before.

    The value of `{"N": "1"}` is returned in a tuple, as no JSON is: `{"S": …}` may also be a map with the name `S`.
    This is called for each value of each item: what most values are comes first, and a map is changed in place.
    """
    if len(read) == 1:
        name, value = read.popitem()
        if type(value) is str and name in ("S", "N"):
            return (value,) if name == "S" else _number_of(value)
        if type(value) is tuple:
            return {name: value[0]}
        return _READERS[name](value) if name in _READERS else Structure({name: value})
    for name, value in read.items():
        if type(value) is not tuple:
            return _structure(read, name)
        read[name] = value[0]
    return read


def _structure(read: dict[str, Any], name: str) -> Structure:
    """The object whose first value that is none of an item's has this name: so has none of the others."""
    if name != next(iter(read)) or tuple in map(type, read.values()):
        _refuse(read)
    return Structure(read)


def _refuse(read: object) -> NoReturn:
    raise TypeError(f"{type(read)}: DynamoDB sends no such value here")


def _text(read: Any) -> tuple[str]:
    return (read,) if type(read) is str else _refuse(read)


@functools.lru_cache(1024)
def _number_of(digits: str) -> tuple[Decimal]:
    return (Decimal(digits),)


def _number(read: Any) -> tuple[Decimal]:
    return _number_of(read) if type(read) is str else _refuse(read)


def _map(read: Any) -> tuple[dict[str, Any]]:
    return (read,) if type(read) is dict else _refuse(read)


def _list(read: Any) -> tuple[list[Any]]:
    if type(read) is not list or not set(map(type, read)) <= {tuple}:
        _refuse(read)
    return ([value for (value,) in read],)


def _bool(read: Any) -> tuple[bool]:
    return (read,) if type(read) is bool else _refuse(read)


def _null(read: Any) -> tuple[None]:
    return (None,) if read is True else _refuse(read)


def _binary(read: Any) -> tuple[bytes]:
    return (base64.b64decode(read),) if type(read) is str else _refuse(read)


def _set_of(read_element: Callable[[Any], tuple[Any]]) -> Callable[[Any], tuple[set[Any]]]:
    return lambda read: ({read_element(each)[0] for each in read},) if type(read) is list else _refuse(read)


_READERS: dict[str, Callable[[Any], tuple[Any]]] = {
    "S": _text,
    "N": _number,
    "B": _binary,
    "BOOL": _bool,
    "NULL": _null,
    "M": _map,
    "L": _list,
    "SS": _set_of(_text),
    "NS": _set_of(_number),
    "BS": _set_of(_binary),
}
