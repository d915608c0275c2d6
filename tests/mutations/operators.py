"""Mutants: a module with one small change in the body of one of its functions.

The changes are those of mutmut and cosmic-ray, and statements, handlers, cases and operands that are left out. Neither
tool keeps a process with the tests imported, so a mutant costs them some ten seconds. Not changed, for no page claims
anything of it: log lines, the texts of errors, `__str__`, and guards of what must hold: assertions, `strict` of a zip.
"""

import ast
import copy
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from types import CodeType
from typing import Any, NamedTuple

type Function = ast.FunctionDef | ast.AsyncFunctionDef
type Operator = Callable[[Any], Iterable[ast.AST]]
UNCLAIMED = ("__str__", "__repr__")


class _Place(NamedTuple):
    """A node with its parent: `new` takes the place of `old`."""

    function: str
    statement: ast.stmt
    parent: ast.AST
    field: str
    position: int | None
    old: ast.AST
    new: ast.AST

    def put(self, node: ast.AST) -> None:
        if self.position is None:
            setattr(self.parent, self.field, node)
        else:
            getattr(self.parent, self.field)[self.position] = node


class Mutant(NamedTuple):
    """A change of the module at `path`. `change` has `old → new`, and a number if the function has it several times.

    `lines` are those of the changed statement, or of its head.
    """

    path: str
    function: str
    change: str
    lines: range
    tree: ast.Module
    place: _Place

    def __str__(self) -> str:
        return f"{self.path}:{self.lines.start} {self.function}: {self.change}"

    @property
    def name(self) -> tuple[str, str, str]:
        """It stays when lines are added to the module."""
        return self.path, self.function, self.change

    def compiled(self, filename: str) -> CodeType:
        """The changed module. All that isn't changed is on its lines."""
        self.place.put(ast.fix_missing_locations(ast.copy_location(self.place.new, self.place.old)))
        code = compile(self.tree, filename, "exec")
        self.place.put(self.place.old)
        return code


def mutants(path: str, source: str) -> list[Mutant]:
    tree, seen, found = ast.parse(source), Counter[tuple[str, str]](), []
    for place in [*_places(tree)]:
        change = _shown(place)
        seen[place.function, change] += 1
        times = seen[place.function, change]
        numbered = change if times == 1 else f"{change} #{times}"
        found.append(Mutant(path, place.function, numbered, _lines(place.statement), tree, place))
    return found


def _shown(place: _Place) -> str:
    """The change within the smallest expression that says something: a number alone doesn't."""
    outer = place.parent if isinstance(place.parent, ast.expr | ast.keyword) else place.old
    before = _heads(outer)
    if outer is place.old:
        after = _heads(ast.fix_missing_locations(ast.copy_location(place.new, place.old)))
    else:
        place.put(place.new)
        after = _heads(outer)
        place.put(place.old)
    return f"{_shortened(before, after)} → {_shortened(after, before)}"


def _heads(node: ast.AST) -> str:
    """Of a statement with others in it, only what is its own."""
    lines = ast.unparse(node).split("\n")
    return " ".join(line.strip() for line in lines if not line.startswith("    ") or line.startswith("    case "))


def _shortened(text: str, other: str) -> str:
    """The text's first line, from a few words before where the two begin to differ. At most 60 characters."""
    differences = (at for at, (one, two) in enumerate(zip(text, other, strict=False)) if one != two)
    same = next(differences, min(len(text), len(other)))
    first = max(0, text.rfind(" ", 0, max(0, same - 24)) + 1) if same > 50 else 0
    return " ".join(text[first : first + 60].split())


def _lines(statement: ast.stmt) -> range:
    bodies = [child.lineno for child in getattr(statement, "body", []) if isinstance(child, ast.stmt)]
    bodies += [case.pattern.lineno for case in getattr(statement, "cases", [])]
    end = min(bodies) if bodies else (statement.end_lineno or statement.lineno) + 1
    return range(statement.lineno, max(end, statement.lineno + 1))


def _places(tree: ast.Module) -> Iterator[_Place]:
    for name, function in _functions(tree, ""):
        for position, statement in enumerate(function.body):
            yield from _in_node(name, statement, function, "body", position, statement)


def _functions(node: ast.AST, prefix: str) -> Iterator[tuple[str, Function]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef) and child.name not in UNCLAIMED:
            yield prefix + child.name, child
        elif isinstance(child, ast.ClassDef):
            yield from _functions(child, f"{prefix}{child.name}.")


def _in_node(
    function: str, node: ast.AST, parent: ast.AST, field: str, position: int | None, statement: ast.stmt
) -> Iterator[_Place]:
    if _is_left_alone(node):
        return
    if isinstance(node, ast.stmt):
        statement = node
    operator = OPERATORS.get(type(node))
    if operator and not _says_no_more(node, parent, field):
        for new in operator(node):
            yield _Place(function, statement, parent, field, position, node, new)
    if isinstance(node, ast.Raise):
        return
    for name, value in ast.iter_fields(node):
        if name in {"annotation", "returns", "decorator_list", "type_params", "pattern"}:
            continue
        for at, child in enumerate(value) if isinstance(value, list) else [(None, value)]:
            if isinstance(child, ast.AST):
                yield from _in_node(function, child, node, name, at, statement)


def _says_no_more(node: ast.AST, parent: ast.AST, field: str) -> bool:
    """Whether the parent's own changes, a condition that always holds and one that never does, are the same or more."""
    if isinstance(parent, ast.If) and field == "body" and not parent.orelse:
        return len(parent.body) == 1 and OPERATORS[type(node)] is _nothing
    if isinstance(node, ast.Compare):
        ordered = any(isinstance(operator, ast.Lt | ast.LtE | ast.Gt | ast.GtE) for operator in node.ops)
        return field == "test" and not ordered
    return field == "test" and isinstance(node, ast.UnaryOp)


def _is_left_alone(node: ast.AST) -> bool:
    match node:
        case ast.Assert() | ast.JoinedStr() | ast.Import() | ast.ImportFrom() | ast.Global() | ast.Nonlocal():
            return True
        case ast.Expr(value=ast.Constant()):
            return True  # a docstring
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id="logger") | ast.Attribute(attr="logger")))):
            return True
        case ast.keyword(arg="strict") | ast.Raise(exc=ast.Name(id="NotImplementedError")):
            return True
    return False


_SWAPPED: dict[type[ast.AST], type[Any]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
}
_OTHER_FUNCTIONS = {"min": "max", "max": "min", "any": "all", "all": "any"}


def _with(node: Any, **fields: object) -> Any:
    changed = copy.copy(node)
    for name, value in fields.items():
        setattr(changed, name, value)
    return changed


def _without[Node](nodes: list[Node]) -> Iterator[list[Node]]:
    for at in range(len(nodes)):
        yield [*nodes[:at], *nodes[at + 1 :]]


def _tested(node: ast.If | ast.While, value: bool) -> ast.AST:
    return _with(node, test=ast.copy_location(ast.Constant(value), node.test))


def _other_operator(node: ast.BinOp | ast.AugAssign) -> list[ast.AST]:
    return [_with(node, op=_SWAPPED[type(node.op)]())] if type(node.op) in _SWAPPED else []


def _constant(node: ast.Constant) -> list[ast.AST]:
    match node.value:
        case bool():
            return [ast.Constant(not node.value)]
        case int() | float():
            return [ast.Constant(node.value + 1)]
        case str():
            return [ast.Constant(f"XX{node.value}XX")]
    return []


def _call(node: ast.Call) -> Iterator[ast.AST]:
    if isinstance(node.func, ast.Name) and node.func.id in _OTHER_FUNCTIONS:
        yield _with(node, func=ast.copy_location(ast.Name(_OTHER_FUNCTIONS[node.func.id], ast.Load()), node.func))
    for keyword, others in zip(node.keywords, _without(node.keywords), strict=True):
        if keyword.arg != "strict":
            yield _with(node, keywords=others)


def _nothing(_: ast.stmt) -> list[ast.AST]:
    return [ast.Pass()]


def _return(node: ast.Return) -> list[ast.AST]:
    is_plain = node.value is None or isinstance(node.value, ast.Constant)
    return [] if is_plain else [ast.Return(ast.copy_location(ast.Constant(None), node.value))]


def _try(node: ast.Try) -> Iterator[ast.AST]:
    for handlers in _without(node.handlers):
        if handlers or node.finalbody:
            yield _with(node, handlers=handlers, orelse=node.orelse if handlers else [])
        else:
            yield ast.If(ast.Constant(value=True), [*node.body, *node.orelse], [])
    if node.finalbody and node.handlers:
        yield _with(node, finalbody=[])
    elif node.finalbody:
        yield ast.If(ast.Constant(value=True), node.body, [])


OPERATORS: dict[type[ast.AST], Operator] = {
    ast.Compare: lambda node: [
        _with(node, ops=[*node.ops[:at], _SWAPPED[type(each)](), *node.ops[at + 1 :]])
        for at, each in enumerate(node.ops)
    ],
    ast.BoolOp: lambda node: [one[0] if len(one) == 1 else _with(node, values=one) for one in _without(node.values)],
    ast.UnaryOp: lambda node: [node.operand],
    ast.BinOp: _other_operator,
    ast.Constant: _constant,
    ast.IfExp: lambda node: [node.body, node.orelse],
    ast.Call: _call,
    ast.comprehension: lambda node: [_with(node, ifs=each) for each in _without(node.ifs)],
    ast.Dict: lambda node: [
        _with(node, keys=keys, values=values)
        for keys, values in zip(_without(node.keys), _without(node.values), strict=True)
    ],
    ast.If: lambda node: [_tested(node, value=True), _tested(node, value=False)],
    ast.While: lambda node: [_tested(node, value=False)],
    ast.AugAssign: lambda node: [ast.Pass(), *_other_operator(node)],
    ast.Expr: _nothing,
    ast.Delete: _nothing,
    ast.Raise: _nothing,
    ast.Return: _return,
    ast.Break: lambda _: [ast.Return(None)],
    ast.Continue: lambda _: [ast.Break()],
    ast.Match: lambda node: [_with(node, cases=each) for each in _without(node.cases) if each],
    ast.match_case: lambda node: [_with(node, guard=None)] if node.guard else [],
    ast.Try: _try,
}
