"""Queries and scans: the requests, and their items page by page."""

import base64
import itertools
import json
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, override

from botocore.exceptions import ClientError

from conditional_writes.core.items import Item
from conditional_writes.core.requests import AttributePath, Condition, expression, placeholders
from conditional_writes.core.steps import (
    Deadline,
    Pause,
    Request,
    Steps,
    blocking,
    deadline_or_default,
    growing_pauses,
    steps,
)
from conditional_writes.core.table_errors import explain_key, explain_table
from conditional_writes.core.unconditional import found_items

if TYPE_CHECKING:
    from types_boto3_dynamodb import DynamoDBClient

type Operation = Literal["query", "scan"]


def query_request(
    table: str, key_names: Sequence[str], condition: Condition, index: str | None, matching: Condition | None
) -> dict[str, Any]:
    """The parameters of a query that come from its conditions.

    Raises ValueError if the condition isn't one on the key of the table, or on any index's.
    """
    if not isinstance(condition, Condition):
        raise TypeError(f"{table}: {condition!r} is no condition: make one with equals, of the partition key")
    on_the_key = _key_condition(table, key_names, condition, index)
    request = _conditions(KeyConditionExpression=on_the_key, FilterExpression=matching)
    if index is None and matching is not None:
        _check_filter(table, key_names, matching)
    return request


def scan_request(matching: Condition | None) -> dict[str, Any]:
    return _conditions(FilterExpression=matching)


class Page[Element](NamedTuple):
    """The items of one page. It may have none, and not be the last: they didn't match, or their partition is empty.

    `token` is a text that a later call takes as `after`: its items are those of the next page. None: there is none.
    """

    items: list[Element]
    token: str | None


class PagesToRead[Element]:
    """The pages of a query or scan, and what is made of the items that are wanted.

    Without a `deadline` each page has ten seconds. A throttled page is read again until then. If threads, or tasks,
    share the pages, each item comes to one of them.
    """

    _kind_of_turn: Callable[[], Any]

    def __init__(  # noqa: PLR0913, PLR0917 (its subclasses alone pass them on)
        self,
        client: "DynamoDBClient",
        operation: Operation,
        request: dict[str, Any],
        deadline: Deadline | None,
        wanted: Callable[[Item], bool],
        made: Callable[[Item], Element],
    ) -> None:
        self._client, self._operation, self._deadline = client, operation, deadline
        self._wanted, self._made = wanted, made
        self._following: dict[str, Any] | None = request
        self._left: Iterator[Item] = iter(())
        self._turn = self._kind_of_turn()

    def _making(self, make: Callable[[Element], Any]) -> tuple[Any, ...]:
        """The arguments of such pages, whose elements `make` has made of these."""
        same = self._client, self._operation, self._following, self._deadline, self._wanted
        return *same, lambda item: make(self._made(item))

    def _begin(self, answer: Any) -> None:
        """Goes on with the page in DynamoDB's answer."""
        assert self._following is not None
        last = answer.get("LastEvaluatedKey")
        self._following = self._following | {"ExclusiveStartKey": last} if last else None
        self._left = filter(self._wanted, found_items(answer))

    def _rest(self) -> Page[Element]:
        last = (self._following or {}).get("ExclusiveStartKey")
        left = [*self._left]
        self._left = iter(left)  # still, if one of them can't be made
        page = Page([*map(self._made, left)], last and token_of(last))
        self._left = iter(())
        return page


class Pages[Element](PagesToRead[Element], Iterator[Element]):
    """The items of all pages, one after another: a page is read when its first item is asked for."""

    _kind_of_turn = threading.Lock

    def each[Other](self, make: Callable[[Element], Other]) -> "Pages[Other]":
        """In place of these pages: those with what `make` makes of each element."""
        return Pages(*self._making(make))

    @blocking
    def read_page(self) -> Steps[None]:
        """Reads the next page, if there is one."""
        if self._following is not None:
            deadline = deadline_or_default(self._deadline)
            self._begin((yield from steps(page_of)(self._client, self._operation, self._following, deadline)))

    @override
    def __next__(self) -> Element:
        with self._turn:
            while True:
                for item in self._left:
                    return self._made(item)
                if self._following is None:
                    raise StopIteration
                self.read_page()

    def page(self) -> Page[Element]:
        """The next page; after an item, the rest of the page that it is in."""
        with self._turn:
            page = self._rest()
            if not page.items:
                self.read_page()
                page = self._rest()
            return page


def token_of(key: dict[str, Any]) -> str:
    """A key in DynamoDB's types as a text that fits into a URL."""
    text = json.dumps(key, default=lambda binary: base64.b64encode(binary).decode(), separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def key_in(token: str) -> dict[str, Any]:
    """The key. Raises ValueError for a text that is no token."""
    try:
        read = json.loads(base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True))
        key = {name: _key_value(*value.items()) for name, value in read.items()}
    except (ValueError, TypeError, AttributeError, RecursionError):
        key = {}
    if not key:
        raise ValueError(f"after: {token!r}, expected the key of one of its items, or the token of a page")
    return key


def _key_value(value: tuple[str, Any]) -> dict[str, Any]:
    kind, text = value
    if kind not in {"S", "N", "B"} or not isinstance(text, str):
        raise ValueError(kind)
    return {kind: base64.b64decode(text, validate=True) if kind == "B" else text}


_THROTTLING_ERRORS = {"ProvisionedThroughputExceededException", "RequestLimitExceeded", "ThrottlingException"}


@blocking
def page_of(client: "DynamoDBClient", operation: Operation, request: dict[str, Any], deadline: Deadline) -> Steps[Any]:
    """DynamoDB's answer. A throttled page is read again until the deadline."""
    pauses = growing_pauses()
    while True:
        deadline.check(f"reading {request['TableName']}")
        try:
            return (yield Request(client, operation, request))
        except ClientError as error:
            _explain(client, error, request)
            pause_seconds = next(pauses)
            if error.response["Error"]["Code"] not in _THROTTLING_ERRORS or deadline.remaining_seconds < pause_seconds:
                raise
        yield Pause(pause_seconds)


def _explain(client: "DynamoDBClient", error: ClientError, request: dict[str, Any]) -> None:
    table = request["TableName"]
    explain_table(client, error, [table])
    named = f"{table}, index {request['IndexName']}" if "IndexName" in request else table
    explain_key(error, error.response["Error"].get("Message", ""), named)


_EQUAL = "{} = []"
_ON_THE_KEY = re.compile(r"\{\} (=|<|<=|>|>=) \[\]|\{\} BETWEEN \[\] AND \[\]|begins_with\(\{\}, \[\]\)")


def _key_condition(table: str, key_names: Sequence[str], condition: Condition, index: str | None) -> Condition:
    """The condition without parentheses, and its `equals` first: as every engine and mock takes it."""
    comparisons = [comparison[0] for comparison in _ON_THE_KEY.finditer(condition.template)]
    rest = _ON_THE_KEY.sub("", condition.template)
    if not comparisons or re.sub(r" AND |[()]", "", rest):
        raise ValueError(
            f"{table}: a query's condition is made of equals, less_than, at_most, more_than, at_least, between and"
            f" begins_with, joined by &: put {condition.template!r} into `matching`"
        )
    expression(condition, {}, {})  # a name and a value for each placeholder, also if the condition is the caller's own
    for name, count in Counter(condition.names).items():
        if index is None and name not in key_names:
            raise ValueError(
                f"{table}: {_text(name)} isn't in the key ({', '.join(key_names)}): use `matching`, or give an `index`"
            )
        if count > 1:
            raise ValueError(f"{table}: two conditions on {_text(name)}, and a query takes one: use `between`")
    values = iter(condition.values)
    parts = [
        Condition(comparison, (name,), tuple(itertools.islice(values, comparison.count("[]"))))
        for comparison, name in zip(comparisons, condition.names, strict=True)
    ]
    parts.sort(key=lambda part: part.template != _EQUAL)
    equal = {part.names[0] for part in parts if part.template == _EQUAL}
    if not equal or (index is None and key_names[0] not in equal):
        partition_key = key_names[0] if index is None else f"partition key of {index}"
        raise ValueError(f"{table}: a query is of one {partition_key}, with `equals`: use `scan` for all")
    return Condition(
        " AND ".join(part.template for part in parts),
        tuple(name for part in parts for name in part.names),
        tuple(value for part in parts for value in part.values),
    )


def _text(name: AttributePath) -> str:
    return name if isinstance(name, str) else ".".join(name)


def _check_filter(table: str, key_names: Sequence[str], matching: Condition) -> None:
    for name in matching.names:
        if name in key_names:
            raise ValueError(f"{table}: {name} is in the key, which a query can't match: put it into the condition")


def _conditions(**conditions: Condition | None) -> dict[str, Any]:
    names: dict[str, str] = {}
    values: dict[str, Any] = {}
    request: dict[str, Any] = {
        parameter: expression(condition, names, values)
        for parameter, condition in conditions.items()
        if condition is not None
    }
    return request | placeholders(names, values)
