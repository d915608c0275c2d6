"""Update expressions: an item as it is after one."""

import functools
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any, NamedTuple, Protocol

from conditional_writes.testing.conditions import FUNCTIONS, FUNCTIONS_OF_UPDATES
from conditional_writes.testing.errors import Refused, invalid
from conditional_writes.testing.expressions import REDUNDANT, Element, Parser, Path, Used, check_apart
from conditional_writes.testing.placeholders import Placeholders, value_at
from conditional_writes.testing.projections import project
from conditional_writes.testing.values import EXACT, SET_ORDERS, Item, Value, checked, kind_of, number_text

KIND = "UpdateExpression"
SECTIONS = ("SET", "REMOVE", "ADD", "DELETE")
_LONG_NAMES = {"S": "STRING", "N": "NUMBER", "B": "BINARY", "BOOL": "BOOLEAN", "L": "LIST", "M": "MAP"}


class Operand(Protocol):
    def value(self, item: Item, given: Placeholders) -> Value | None: ...

    def kind(self, given: Placeholders) -> str | None:
        """The type of a value of the request; None if only the item shows it."""

    def check(self, given: Placeholders) -> None: ...


class Attribute(NamedTuple):
    path: Path

    def value(self, item: Item, given: Placeholders) -> Value | None:
        return given.found(self.path, item)

    def kind(self, given: Placeholders) -> str | None:
        return None

    def check(self, given: Placeholders) -> None:
        pass


class Given(NamedTuple):
    """A value of the request."""

    name: str

    def value(self, item: Item, given: Placeholders) -> Value | None:
        return given.values[self.name]

    def kind(self, given: Placeholders) -> str | None:
        return kind_of(given.values[self.name])

    def check(self, given: Placeholders) -> None:
        pass


class Called(NamedTuple):
    """`if_not_exists`, `list_append`, `+` or `-`, each of two operands."""

    name: str
    one: Operand
    other: Operand

    def value(self, item: Item, given: Placeholders) -> Value | None:
        one, other = self.one.value(item, given), self.other.value(item, given)
        if self.name == "if_not_exists":
            return other if one is None else one
        if one is None or other is None:
            raise invalid("The provided expression refers to an attribute that does not exist in the item")
        expected = "L" if self.name == "list_append" else "N"
        if kind_of(one) != expected or kind_of(other) != expected:
            raise _wrong_operand()
        if self.name == "list_append":
            return {"L": one["L"] + other["L"]}
        return {"N": _sum(one["N"], other["N"], -1 if self.name == "-" else 1)}

    def kind(self, given: Placeholders) -> str | None:
        return None

    def check(self, given: Placeholders) -> None:
        self.one.check(given)
        self.other.check(given)
        called = f"operator or function: {self.name}"
        if self.name == "if_not_exists":
            if not isinstance(self.one, Attribute):
                raise _invalid(f"Operator or function requires a document path; {called}")
            return
        expected = "L" if self.name == "list_append" else "N"
        for kind in filter(None, (self.one.kind(given), self.other.kind(given))):
            if kind != expected:
                raise _invalid(f"Incorrect operand type for operator or function; {called}, operand type: {kind}")


class Action(NamedTuple):
    section: str
    path: Path
    operand: Operand | None


class Update(NamedTuple):
    """An update as it was parsed."""

    actions: tuple[Action, ...]
    used: Used

    def checked(self, given: Placeholders) -> "CheckedUpdate":
        """The update with the request's names. Raises Refused if they, or the request's values, don't fit it."""
        given.use(KIND, self.used)
        resolved = [Action(section, given.resolved(path), operand) for section, path, operand in self.actions]
        check_apart(KIND, [action.path for action in resolved])
        for section, _, operand in resolved:
            if operand is None:
                continue
            operand.check(given)
            kind = operand.kind(given)
            if section == "ADD" and kind not in {"N", "SS", "NS", "BS"}:
                raise _wrong_type("ADD", kind)
            if section == "DELETE" and kind not in {"SS", "NS", "BS"}:
                raise _wrong_type("DELETE", kind)
        return CheckedUpdate(resolved, given)


class CheckedUpdate(NamedTuple):
    actions: list[Action]
    given: Placeholders

    @property
    def paths(self) -> list[Path]:
        return [action.path for action in self.actions]

    def applied(self, item: Item) -> Item:
        """The item as it is afterwards. All operands are those of the item before. Raises Refused."""
        found = [operand.value(item, self.given) if operand else None for _, _, operand in self.actions]
        updated = dict(item)
        copies: dict[Path, Value] = {}
        removed: list[Path] = []
        for (section, path, _), operand in sorted(zip(self.actions, found, strict=True), key=_by_position):
            if section == "REMOVE":
                removed.append(path)
            elif operand is None:
                raise invalid("The provided expression refers to an attribute that does not exist in the item")
            elif section == "SET":
                if len(path) > 1:
                    checked(operand, len(path) - 1)  # by itself it isn't nested too deep, but here it may be
                _put(_parent(updated, path, copies), path[-1], operand)
            else:
                change = _added if section == "ADD" else _without
                value = change(value_at(path, item), operand)
                parent = _parent(updated, path, copies)
                if value is not None:
                    _put(parent, path[-1], value)
                elif value_at(path, item) is not None:
                    removed.append(path)
        for path in sorted(removed, reverse=True):  # a list's last elements first, what is in them before them
            _remove(_parent(updated, path, copies), path[-1])
        return updated

    def shown(self, item: Item) -> Item:
        """The attributes that the update is of, as they are in an item."""
        return project(self.paths, item)


def _by_position(action_and_operand: tuple[Action, Value | None]) -> int:
    return _position(action_and_operand[0].path)


def _position(path: Path) -> int:
    return path[-1] if isinstance(path[-1], int) else -1


def _parent(item: Item, path: Path, copies: dict[Path, Value]) -> Any:
    """The dict or the list that has the path's last element: a copy of the item's own."""
    parent: Any = item
    for depth in range(1, len(path)):
        value = _get(parent, path[depth - 1])
        kind = "L" if isinstance(path[depth], int) else "M"
        if value is None or kind not in value:
            raise invalid("The document path provided in the update expression is invalid for update")
        if path[:depth] not in copies:
            copied = {kind: value[kind].copy()}
            copies[path[:depth]] = copied
            _put(parent, path[depth - 1], copied)
        parent = copies[path[:depth]][kind]
    return parent


def _get(parent: Any, element: Element) -> Value | None:
    if isinstance(element, int):
        return parent[element] if element < len(parent) else None
    found: Value | None = parent.get(element)
    return found


def _put(parent: Any, element: Element, value: Value) -> None:
    if isinstance(element, int) and element >= len(parent):
        parent.append(value)
    else:
        parent[element] = value


def _remove(parent: Any, element: Element) -> None:
    if isinstance(element, int):
        del parent[element : element + 1]
    else:
        parent.pop(element, None)


def _added(found: Value | None, operand: Value) -> Value:
    [(kind, content)] = operand.items()
    if found is None:
        return operand
    if kind not in found:
        raise _wrong_operand()
    if kind == "N":
        return {"N": _sum(found["N"], content, 1)}
    return {kind: _sorted(kind, {*found[kind], *content})}


def _without(found: Value | None, operand: Value) -> Value | None:
    [(kind, content)] = operand.items()
    if found is None:
        return None
    if kind not in found:
        raise _wrong_operand()
    left = {*found[kind]} - {*content}
    return {kind: _sorted(kind, left)} if left else None


def _sorted(kind: str, members: set[str]) -> list[str]:
    return sorted(members, key=SET_ORDERS[kind])


def _sum(one: str, other: str, sign: int) -> str:
    return number_text(EXACT.add(Decimal(one), EXACT.multiply(sign, Decimal(other))))


def _wrong_operand() -> Refused:
    return invalid("An operand in the update expression has an incorrect data type")


def _wrong_type(section: str, kind: str | None) -> Refused:
    named = _LONG_NAMES.get(kind or "", kind)
    return _invalid(
        f"Incorrect operand type for operator or function; operator: {section}, operand type: {named},"
        " typeSet: ALLOWED_FOR_" + section + "_OPERAND"
    )


def _invalid(why: str) -> Refused:
    return invalid(f"Invalid {KIND}: {why}")


@functools.lru_cache(1024)
def parsed(text: str) -> Update:
    """Parses an update. Raises Refused."""
    parser = Parser(KIND, text)
    actions: list[Action] = []
    sections: set[str] = set()
    while not sections or parser.next != "<EOF>":
        section = parser.next.upper()
        if section not in SECTIONS:
            parser.refuse_token()
        parser.take()
        if section in sections:
            parser.refuse(f'The "{section}" section can only be used once in an update expression;')
        sections.add(section)
        read = _READERS[section]
        actions.append(read(parser))
        while parser.takes(","):
            actions.append(read(parser))
    return Update(tuple(actions), parser.used)


def _set(parser: Parser) -> Action:
    path = parser.path()
    parser.expect("=")
    return Action("SET", path, _sum_of(parser))


def _removal(parser: Parser) -> Action:
    return Action("REMOVE", parser.path(), None)


def _with_value(section: str) -> Callable[[Parser], Action]:
    def read(parser: Parser) -> Action:
        return Action(section, parser.path(), Given(parser.value()))

    return read


_READERS: dict[str, Callable[[Parser], Action]] = {
    "SET": _set,
    "REMOVE": _removal,
    "ADD": _with_value("ADD"),
    "DELETE": _with_value("DELETE"),
}


def _sum_of(parser: Parser, *, is_inside: bool = False) -> Operand:
    if parser.next == "(" and _is_sum_in_parentheses(parser):
        if is_inside:
            parser.refuse(REDUNDANT)
        parser.take()
        whole = _sum_of(parser, is_inside=True)
        parser.expect(")")
        return whole
    one = _operand(parser)
    if parser.next not in {"+", "-"}:
        return one
    parser.operator()
    called = Called(parser.take(), one, _operand(parser))
    _check_operands(parser, called)
    return called


def _check_operands(parser: Parser, called: Called) -> None:
    if any(isinstance(operand, Called) and operand.name == "list_append" for operand in (called.one, called.other)):
        parser.refuse("The function is not allowed to be used this way in an expression; function: list_append")


def _is_sum_in_parentheses(parser: Parser) -> bool:
    """As in `(a + :b)`, and not as in `(a) + :b`."""
    depth, number, has_sign = 0, 0, False
    while True:
        word = parser.ahead(number)
        depth += (word == "(") - (word == ")")
        has_sign |= word in {"+", "-"}
        number += 1
        if depth == 0 or word == "<EOF>":
            return has_sign


def _operand(parser: Parser) -> Operand:
    if parser.takes("("):
        if parser.next == "(":
            parser.refuse(REDUNDANT)
        operand = _operand(parser)
        parser.expect(")")
        return operand
    if parser.is_value():
        return Given(parser.value())
    if parser.is_call():
        return _function(parser)
    return Attribute(parser.path())


def _function(parser: Parser) -> Operand:
    name = parser.take()
    parser.operator()
    parser.expect("(")
    operands = [*_operands(parser)]
    parser.expect(")")
    if name in FUNCTIONS:
        parser.refuse(f"The function is not allowed in an update expression; function: {name}")
    if name not in FUNCTIONS_OF_UPDATES:
        parser.refuse(f"Invalid function name; function: {name}")
    if len(operands) != 2:
        parser.refuse(
            "Incorrect number of operands for operator or function;"
            f" operator or function: {name}, number of operands: {len(operands)}"
        )
    called = Called(name, *operands)
    _check_operands(parser, called)
    return called


def _operands(parser: Parser) -> Iterator[Operand]:
    yield _operand(parser)
    while parser.takes(","):
        yield _operand(parser)
