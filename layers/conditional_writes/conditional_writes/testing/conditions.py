"""Conditions and filters: whether they hold for an item."""

import base64
import functools
import operator
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from conditional_writes.testing.errors import invalid
from conditional_writes.testing.expressions import REDUNDANT, Parser, Path, Used, shown
from conditional_writes.testing.placeholders import Placeholders
from conditional_writes.testing.values import Item, Value, kind_of, scalar

MAXIMUM_IN = 100
TYPES = ("B", "NULL", "SS", "BOOL", "L", "BS", "N", "NS", "S", "M")
ORDERED = {"S", "N", "B"}


class Operand(Protocol):
    def value(self, item: Item, given: Placeholders) -> Value | None: ...


class Condition(Protocol):
    def holds(self, item: Item, given: Placeholders) -> bool: ...

    def check(self, refuse: "Refuse", given: Placeholders) -> None:
        """Refuses operands of a wrong type, as far as the request's own values show them."""


type Refuse = Callable[[str], object]


class Attribute(NamedTuple):
    path: Path

    def value(self, item: Item, given: Placeholders) -> Value | None:
        return given.found(self.path, item)


class Given(NamedTuple):
    """A value of the request."""

    name: str

    def value(self, item: Item, given: Placeholders) -> Value | None:
        return given.values[self.name]


class Size(NamedTuple):
    of: Operand

    def value(self, item: Item, given: Placeholders) -> Value | None:
        value = self.of.value(item, given)
        if value is None:
            return None
        [(kind, content)] = value.items()
        if kind in {"N", "BOOL", "NULL"}:
            return None
        size = len(base64.b64decode(content) if kind == "B" else content)
        if kind == "S":
            size += sum(each > "\uffff" for each in content)  # Java's characters, as DynamoDB Local counts
        return {"N": str(size)}

    def check(self, refuse: Refuse, given: Placeholders) -> None:
        kind = _kind(self.of, given)
        if kind in {"N", "BOOL", "NULL"}:
            _refuse_operand(refuse, "size", kind)


_IN_ORDER: dict[str, Callable[[Any, Any], object]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


class Compared(NamedTuple):
    operator: str
    one: Operand
    other: Operand

    def holds(self, item: Item, given: Placeholders) -> bool:
        one, other = self.one.value(item, given), self.other.value(item, given)
        if self.operator == "=":
            return one is not None and one == other
        if self.operator == "<>":
            return one is None or other is None or one != other
        return ordered(self.operator, one, other)

    def check(self, refuse: Refuse, given: Placeholders) -> None:
        _check_distinct(refuse, self.operator, self.one, self.other, given)
        for operand in (self.one, self.other):
            _check_operand(operand, refuse, given)
            kind = _kind(operand, given)
            if self.operator not in {"=", "<>"} and kind and kind not in ORDERED:
                _refuse_operand(refuse, self.operator, kind)


def ordered(comparison: str, one: Value | None, other: Value | None) -> bool:
    """Whether two values are in this order. Those of different types are in none."""
    if one is None or other is None or kind_of(one) != kind_of(other) or kind_of(one) not in ORDERED:
        return False
    return bool(_IN_ORDER[comparison](scalar(one), scalar(other)))


class Between(NamedTuple):
    one: Operand
    lowest: Operand
    highest: Operand

    def holds(self, item: Item, given: Placeholders) -> bool:
        one = self.one.value(item, given)
        return ordered(">=", one, self.lowest.value(item, given)) and ordered(
            "<=", one, self.highest.value(item, given)
        )

    def check(self, refuse: Refuse, given: Placeholders) -> None:
        for bound in (self.lowest, self.highest):
            _check_distinct(refuse, "BETWEEN", self.one, bound, given)
        for operand in self:
            _check_operand(operand, refuse, given)
            kind = _kind(operand, given)
            if kind and kind not in ORDERED:
                _refuse_operand(refuse, "BETWEEN", kind)
        if not isinstance(self.lowest, Given) or not isinstance(self.highest, Given):
            return
        lowest, highest = given.values[self.lowest.name], given.values[self.highest.name]
        bounds = f"lower bound operand: {_shown(lowest)}, upper bound operand: {_shown(highest)}"
        if kind_of(lowest) != kind_of(highest):
            refuse(f"The BETWEEN operator requires same data type for lower and upper bounds; {bounds}")
        if ordered(">", lowest, highest):
            refuse("The BETWEEN operator requires upper bound to be greater than or equal to lower bound; " + bounds)


class In(NamedTuple):
    one: Operand
    others: tuple[Operand, ...]

    def holds(self, item: Item, given: Placeholders) -> bool:
        one = self.one.value(item, given)
        return one is not None and any(one == other.value(item, given) for other in self.others)

    def check(self, refuse: Refuse, given: Placeholders) -> None:
        _check_operand(self.one, refuse, given)
        for operand in self.others:
            _check_operand(operand, refuse, given)
            _check_distinct(refuse, "IN", self.one, operand, given)


class Function(NamedTuple):
    name: str
    operands: tuple[Operand, ...]

    def holds(self, item: Item, given: Placeholders) -> bool:
        found = [operand.value(item, given) for operand in self.operands]
        match self.name:
            case "attribute_exists":
                return found[0] is not None
            case "attribute_not_exists":
                return found[0] is None
        one, other = found
        if one is None or other is None:
            return False
        match self.name:
            case "attribute_type":
                return kind_of(one) == str(other["S"])
            case "begins_with":
                return _begins_with(one, other)
        return contains(one, other)

    def check(self, refuse: Refuse, given: Placeholders) -> None:
        for operand in self.operands:
            _check_operand(operand, refuse, given)
        if len(self.operands) == 2:
            _check_distinct(refuse, self.name, *self.operands, given)
        if self.name.startswith("attribute_") and self.name != "attribute_type":
            if not isinstance(self.operands[0], Attribute):
                refuse(f"Operator or function requires a document path; operator or function: {self.name}")
        elif self.name == "begins_with":
            for kind in (_kind(operand, given) for operand in self.operands):
                if kind and kind not in {"S", "B"}:
                    _refuse_operand(refuse, self.name, kind)
        elif self.name == "attribute_type":
            self._check_type(refuse, given)

    def _check_type(self, refuse: Refuse, given: Placeholders) -> None:
        named = self.operands[1]
        found = _kind(named, given)
        if found != "S":
            _refuse_operand(refuse, self.name, found or "{NS,SS,L,BS,N,M,B,BOOL,NULL,S}")
        value = named.value({}, given)
        if value is not None and value["S"] not in TYPES:
            refuse(f"Invalid attribute type name found; type: {value['S']}, valid types: {{{','.join(TYPES)}}}")


class Not(NamedTuple):
    condition: Condition

    def holds(self, item: Item, given: Placeholders) -> bool:
        return not self.condition.holds(item, given)

    def check(self, refuse: Refuse, given: Placeholders) -> None:
        self.condition.check(refuse, given)


class AllOf(NamedTuple):
    conditions: tuple[Condition, ...]

    def holds(self, item: Item, given: Placeholders) -> bool:
        return all(condition.holds(item, given) for condition in self.conditions)

    def check(self, refuse: Refuse, given: Placeholders) -> None:
        for condition in self.conditions:
            condition.check(refuse, given)


class AnyOf(NamedTuple):
    conditions: tuple[Condition, ...]

    def holds(self, item: Item, given: Placeholders) -> bool:
        return any(condition.holds(item, given) for condition in self.conditions)

    def check(self, refuse: Refuse, given: Placeholders) -> None:
        for condition in self.conditions:
            condition.check(refuse, given)


def _begins_with(one: Value, other: Value) -> bool:
    kind = kind_of(one)
    if kind != kind_of(other) or kind not in {"S", "B"}:
        return False
    whole, prefix = scalar(one), scalar(other)
    return whole.startswith(prefix)  # type: ignore[union-attr, arg-type]  # both are text, or both are bytes


def contains(one: Value, other: Value) -> bool:
    """Whether a text has a part, a binary one, or a set or a list an element."""
    [(kind, content)], [(other_kind, sought)] = one.items(), other.items()
    if kind == "L":
        return other in content
    if kind in {"SS", "NS", "BS"}:
        return kind == f"{other_kind}S" and sought in content
    if kind != other_kind or kind not in {"S", "B"}:
        return False
    return scalar(other) in scalar(one)  # type: ignore[operator]  # both are text, or both are bytes


def _kind(operand: Operand, given: Placeholders) -> str | None:
    """The operand's type, None if only the item shows it."""
    if isinstance(operand, Given):
        return kind_of(given.values[operand.name])
    return "N" if isinstance(operand, Size) else None


def _check_operand(operand: Operand, refuse: Refuse, given: Placeholders) -> None:
    if isinstance(operand, Size):
        operand.check(refuse, given)


def _check_distinct(refuse: Refuse, called: str, one: Operand, other: Operand, given: Placeholders) -> None:
    if isinstance(one, Attribute) and isinstance(other, Attribute):
        path = given.resolved(one.path)
        if path == given.resolved(other.path):
            refuse(
                "The first operand must be distinct from the remaining operands for this operator or function;"
                f" operator: {called}, first operand: {shown(path)}"
            )


def _refuse_operand(refuse: Refuse, called: str, kind: str) -> None:
    refuse(f"Incorrect operand type for operator or function; operator or function: {called}, operand type: {kind}")


def _shown(value: Value) -> str:
    [(kind, content)] = value.items()
    return f"AttributeValue: {{{kind}:{content}}}"


class Parsed(NamedTuple):
    """A condition as it was parsed, and the placeholders that it uses."""

    condition: Condition
    used: Used
    kind: str

    def check(self, given: Placeholders) -> Condition:
        """The condition. Raises Refused if placeholders are missing, or values are of a wrong type."""
        given.use(self.kind, self.used)
        self.condition.check(self._refuse, given)
        return self.condition

    def _refuse(self, why: str) -> object:
        raise invalid(f"Invalid {self.kind}: {why}")


@functools.lru_cache(1024)
def parsed(kind: str, text: str) -> Parsed:
    """Parses a condition. `kind` is the parameter's name. Raises Refused."""
    parser = Parser(kind, text)
    try:
        condition = _any(parser)
    except RecursionError:  # by parentheses: without them 300 operators aren't so many levels
        parser.refuse(REDUNDANT)
    parser.expect_end()
    return Parsed(condition, parser.used, kind)


def _any(parser: Parser) -> Condition:
    conditions = [_all(parser)]
    while parser.takes("OR"):
        parser.operator()
        conditions.append(_all(parser))
    return conditions[0] if len(conditions) == 1 else AnyOf(tuple(conditions))


def _all(parser: Parser) -> Condition:
    conditions = [_not(parser)]
    while parser.takes("AND"):
        parser.operator()
        conditions.append(_not(parser))
    return conditions[0] if len(conditions) == 1 else AllOf(tuple(conditions))


def _not(parser: Parser) -> Condition:
    if parser.takes("NOT"):
        parser.operator()
        return Not(_not(parser))
    return _single(parser)


COMPARISONS = ("=", "<>", "<", "<=", ">", ">=")
FUNCTIONS_OF_UPDATES = {"if_not_exists", "list_append"}
FUNCTIONS = {
    "attribute_exists": 1,
    "attribute_not_exists": 1,
    "attribute_type": 2,
    "begins_with": 2,
    "contains": 2,
    "size": 1,
}


def _single(parser: Parser) -> Condition:
    if parser.next == "(" and not _is_operand_in_parentheses(parser):
        parser.take()
        is_doubled = parser.next == "("
        condition = _any(parser)
        is_closed_twice = is_doubled and parser.ahead(-1) == ")" and parser.next == ")"
        if is_closed_twice and _wraps_all(parser):
            parser.refuse(REDUNDANT)
        parser.expect(")")
        return condition
    one = _operand(parser)
    if isinstance(one, Function) and parser.next.upper() not in {*COMPARISONS, "BETWEEN", "IN"}:
        return one
    if parser.takes("BETWEEN"):
        parser.operator()
        lowest = _plain_operand(parser)
        parser.expect("AND")
        return Between(_plain(parser, one), lowest, _plain_operand(parser))
    if parser.takes("IN"):
        parser.operator()
        return In(_plain(parser, one), _list_of_in(parser))
    if parser.next not in COMPARISONS:
        if isinstance(one, Size):
            parser.refuse("The function is not allowed to be used this way in an expression; function: size")
        parser.refuse_token()
    parser.operator()
    return Compared(parser.take(), _plain(parser, one), _plain_operand(parser))


def _is_operand_in_parentheses(parser: Parser) -> bool:
    """As in `(a) = :b`, which has no condition in its parentheses."""
    depth, number = 0, 0
    while True:
        word = parser.ahead(number)
        if word == "<EOF>":
            return False
        if word in COMPARISONS or word.upper() in {"AND", "OR", "NOT", "BETWEEN", "IN"}:
            return False
        if word.lower() in FUNCTIONS and word.lower() != "size" and parser.ahead(number + 1) == "(":
            return False
        depth += (word == "(") - (word == ")")
        number += 1
        if depth == 0:
            return True


def _wraps_all(parser: Parser) -> bool:
    """Whether the two closing parentheses before the next word close the two that were opened together."""
    depth, number = -1, -1
    while depth:
        number -= 1
        word = parser.ahead(number)
        depth += (word == "(") - (word == ")")
    return parser.ahead(number - 1) == "("


def _list_of_in(parser: Parser) -> tuple[Operand, ...]:
    parser.expect("(")
    operands = [_plain_operand(parser)]
    while parser.takes(","):
        operands.append(_plain_operand(parser))
    parser.expect(")")
    if len(operands) > MAXIMUM_IN:
        parser.refuse(f"The IN operator is provided with too many operands; number of operands: {len(operands)}")
    return tuple(operands)


def _plain_operand(parser: Parser) -> Operand:
    return _plain(parser, _operand(parser))


def _plain(parser: Parser, operand: "Operand | Function") -> Operand:
    if isinstance(operand, Function):
        parser.refuse(f"The function is not allowed to be used this way in an expression; function: {operand.name}")
    return operand


def _operand(parser: Parser) -> "Operand | Function":
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


def _function(parser: Parser) -> "Operand | Function":
    name = parser.take()
    parser.operator()
    operands = []
    parser.expect("(")
    operands.append(_plain_operand(parser))
    while parser.takes(","):
        operands.append(_plain_operand(parser))
    parser.expect(")")
    if name in FUNCTIONS_OF_UPDATES:
        parser.refuse(f"The function is not allowed in a condition expression; function: {name}")
    if name not in FUNCTIONS:
        parser.refuse(f"Invalid function name; function: {name}")
    if len(operands) != FUNCTIONS[name]:
        parser.refuse(
            "Incorrect number of operands for operator or function;"
            f" operator or function: {name}, number of operands: {len(operands)}"
        )
    return Size(operands[0]) if name == "size" else Function(name, tuple(operands))
