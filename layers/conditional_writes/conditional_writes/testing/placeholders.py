"""A request's ExpressionAttributeNames and ExpressionAttributeValues, and what its expressions make of them."""

import re
from collections.abc import Mapping
from typing import Any

from conditional_writes.testing.errors import Refused, invalid
from conditional_writes.testing.expressions import Path, Used
from conditional_writes.testing.values import Item, Value, check_name, checked, item_bytes, kind_of

MAXIMUM_PLACEHOLDER_BYTES = 255
MAXIMUM_BYTES = 2 * 1024 * 1024
"""Of all names, and of all values.

https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Constraints.html
"""
_NAME, _VALUE = re.compile(r"#[0-9a-zA-Z_]+"), re.compile(r":[0-9a-zA-Z_]+")


class Placeholders:
    """The names and values of one request. Each has to be used by an expression, and each that is used has to be here.

    Raises Refused for a placeholder of another form, and for a value that isn't valid. `paths` are those of the
    expressions that were used, with names in place of placeholders.
    """

    def __init__(self, request: Mapping[str, Any], *expressions: str) -> None:
        names, values = request.get("ExpressionAttributeNames"), request.get("ExpressionAttributeValues")
        if not any(each in request for each in expressions):
            _refuse_without_expressions(expressions, names, values)
        self.names: dict[str, str] = names or {}
        self.values: dict[str, Value] = {}
        self.paths: list[Path] = []
        self._unused = {*self.names}
        if names is not None:
            _check_placeholders("ExpressionAttributeNames", names, _NAME)
            for placeholder, name in names.items():
                try:
                    check_name(name)
                except Refused as refused:
                    raise invalid(
                        f"ExpressionAttributeNames contains invalid value: {refused.message} for key {placeholder}"
                    ) from None
            if sum(len(each.encode()) for part in names.items() for each in part) > MAXIMUM_BYTES:
                raise invalid("ExpressionAttributeNames exceeds max size")
        if values is not None:
            _check_placeholders("ExpressionAttributeValues", values, _VALUE)
            for name, value in values.items():
                try:
                    self.values[name] = checked(value)
                except Refused as refused:
                    raise invalid(
                        f"ExpressionAttributeValues contains invalid value: {refused.message} for key {name}"
                    ) from None
            if item_bytes(self.values) > MAXIMUM_BYTES:
                raise invalid("ExpressionAttributeValues exceeds max size")
            self._unused.update(values)

    def use(self, kind: str, used: Used) -> None:
        """An expression uses these. Raises Refused if one of them isn't there."""
        for name in used.names:
            if name not in self.names:
                raise invalid(
                    f"Invalid {kind}: An expression attribute name used in the document path is not defined;"
                    f" attribute name: {name}"
                )
            self._unused.discard(name)
        for name in used.values:
            if name not in self.values:
                raise invalid(
                    f"Invalid {kind}: An expression attribute value used in expression is not defined;"
                    f" attribute value: {name}"
                )
            self._unused.discard(name)
        self.paths.extend(self.resolved(path) for path in used.paths)

    def check_all_used(self) -> None:
        if not self._unused:
            return
        for kind, given in (("Names", self.names), ("Values", self.values)):
            unused = [name for name in given if name in self._unused]
            if unused:
                raise invalid(
                    f"Value provided in ExpressionAttribute{kind} unused in expressions: keys: {{{', '.join(unused)}}}"
                )

    def resolved(self, path: Path) -> Path:
        """The path with names in place of their placeholders."""
        names = self.names
        if not names:
            return path
        return tuple(names[each] if isinstance(each, str) and each[0] == "#" else each for each in path)

    def found(self, path: Path, item: Item) -> Value | None:
        """The value at the path, None if there is none."""
        return value_at(self.resolved(path), item)


def value_at(path: Path, item: Item) -> Value | None:
    """The value at a path of names, None if there is none."""
    value: Value | None = item.get(str(path[0]))
    for element in path[1:]:
        if value is None:
            return None
        if isinstance(element, int):
            elements = value.get("L")
            value = elements[element] if elements is not None and element < len(elements) else None
        else:
            value = value["M"].get(element) if kind_of(value) == "M" else None
    return value


def _check_placeholders(parameter: str, given: Mapping[str, Any], form: re.Pattern[str]) -> None:
    if not given:
        raise invalid(f"{parameter} must not be empty")
    for name in given:
        if not form.fullmatch(name):
            raise invalid(f'{parameter} contains invalid key: Syntax error; key: "{name}"')
        if len(name) > MAXIMUM_PLACEHOLDER_BYTES:
            raise invalid(
                f"{parameter} contains invalid key: The expression attribute map contains a key that is too long;"
                f" size of key: {len(name)}"
            )


def _refuse_without_expressions(expressions: tuple[str, ...], names: object, values: object) -> None:
    if names is not None:
        raise invalid("ExpressionAttributeNames can only be specified when using expressions")
    if values is not None:
        taking = [each for each in expressions if each != "ProjectionExpression"]
        verb = "are" if len(taking) > 1 else "is"
        raise invalid(
            "ExpressionAttributeValues can only be specified when using expressions:"
            f" {' and '.join(taking)} {verb} null"
        )
