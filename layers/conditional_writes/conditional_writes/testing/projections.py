"""Projection expressions: parts of an item."""

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

from conditional_writes.testing.expressions import Parser, Path, Used, check_apart
from conditional_writes.testing.placeholders import Placeholders, value_at
from conditional_writes.testing.values import Item, Value

KIND = "ProjectionExpression"


class Projection(NamedTuple):
    """A projection as it was parsed."""

    parsed_paths: tuple[Path, ...]
    used: Used

    def paths(self, given: Placeholders) -> list[Path]:
        """The paths with the request's names. Raises Refused if names are missing, or if paths overlap."""
        given.use(KIND, self.used)
        paths = [given.resolved(path) for path in self.parsed_paths]
        check_apart(KIND, paths)
        return paths


@functools.lru_cache(1024)
def parsed(text: str) -> Projection:
    """Parses a projection. Raises Refused."""
    parser = Parser(KIND, text)
    paths = [parser.path()]
    while parser.takes(","):
        paths.append(parser.path())
    parser.expect_end()
    return Projection(tuple(paths), parser.used)


def project(paths: Sequence[Path], item: Item) -> Item:
    """The item with these paths alone. Elements of a list close up."""
    if all(len(path) == 1 for path in paths):
        return {str(name): item[str(name)] for (name,) in paths if name in item}
    tree: dict[Any, Any] = {}
    for path in paths:
        value = value_at(path, item)
        if value is None:
            continue
        node = tree
        for element in path[:-1]:
            node = node.setdefault(element, {})
        node[path[-1]] = _Leaf(value)
    return {name: _value_of(node) for name, node in tree.items()}


class _Leaf(NamedTuple):
    value: Value


def _value_of(node: Any) -> Value:
    if isinstance(node, _Leaf):
        return node.value
    if isinstance(next(iter(node)), int):
        return {"L": [_value_of(node[number]) for number in sorted(node)]}
    return {"M": {name: _value_of(each) for name, each in node.items()}}
