"""The words of DynamoDB's expressions, and the part that all kinds of expressions share: paths to attributes."""

import re
from typing import NamedTuple, NoReturn

from conditional_writes.testing.errors import Refused, invalid
from conditional_writes.testing.reserved_words import RESERVED_WORDS

MAXIMUM_BYTES = 4096
MAXIMUM_OPERATORS = 300
MAXIMUM_ELEMENTS = 32
LARGEST_NUMBER = 2**31 - 1
"""Of a list's element."""
REDUNDANT = "The expression has redundant parentheses;"
_END = "<EOF>"
_TOKEN = re.compile(r"[#:][A-Za-z0-9_]+|[A-Za-z][A-Za-z0-9_]*|0|[1-9][0-9]*|<=|>=|<>|[^ \t\r\n]")
_WORD = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_GRAMMAR = {"ADD", "AND", "BETWEEN", "DELETE", "IN", "NOT", "OR", "REMOVE", "SET"}
"""Words that are no attribute's name wherever they stand, reserved or not."""

type Element = str | int
"""Of a path: an attribute's name, its placeholder as in `#name`, or the number of a list's element."""
type Path = tuple[Element, ...]


class Used(NamedTuple):
    """The placeholders of names and of values, and the paths, of an expression, in the order of their first use."""

    names: dict[str, None]
    values: dict[str, None]
    paths: dict[Path, None]


class Parser:
    """Reads an expression from left to right. Raises Refused with DynamoDB's sentence for what it doesn't take."""

    def __init__(self, kind: str, text: str) -> None:
        self.kind, self.used = kind, Used({}, {}, {})
        if not text:
            self.refuse("The expression can not be empty;")
        if len(text.encode()) > MAXIMUM_BYTES:
            self.refuse(f"Expression size has exceeded the maximum allowed size; expression size: {len(text.encode())}")
        found = list(_TOKEN.finditer(text))
        self._tokens = [*(match[0] for match in found), _END]
        self._spans = [*(match.span() for match in found), (len(text), len(text))]
        self._text, self._at, self._operators = text, 0, 0

    def refuse(self, why: str) -> NoReturn:
        raise invalid(f"Invalid {self.kind}: {why}")

    def refuse_token(self) -> NoReturn:
        """The next word can't stand here."""
        around = self._spans[max(0, self._at - 1) : self._at + 2]
        near = self._text[around[0][0] : around[-1][1]]
        self.refuse(f'Syntax error; token: "{self._tokens[self._at]}", near: "{near}"')

    @property
    def next(self) -> str:
        return self._tokens[self._at]

    def ahead(self, number: int) -> str:
        """The word after so many others."""
        return self._tokens[min(self._at + number, len(self._tokens) - 1)]

    def take(self) -> str:
        word = self._tokens[self._at]
        if word == _END:
            self.refuse_token()
        self._at += 1
        return word

    def takes(self, *tokens: str) -> bool:
        """Takes the next word if it is one of these, in any case of its letters."""
        if self._tokens[self._at].upper() in tokens:
            self._at += 1
            return True
        return False

    def expect(self, word: str) -> None:
        if not self.takes(word):
            self.refuse_token()

    def expect_end(self) -> None:
        if self.next != _END:
            self.refuse_token()

    def operator(self) -> None:
        """Counts an operator or a function."""
        self._operators += 1
        if self._operators > MAXIMUM_OPERATORS:
            self.refuse(f"The expression contains too many operators; operator count: {self._operators}")

    def is_value(self) -> bool:
        return len(self.next) > 1 and self.next[0] == ":"

    def value(self) -> str:
        """A value's placeholder."""
        if not self.is_value():
            self.refuse_token()
        self.used.values.setdefault(self.next)
        return self.take()

    def is_call(self) -> bool:
        """Whether a function's name is next."""
        return self._is_word() and self.ahead(1) == "("

    def _is_word(self) -> bool:
        return bool(_WORD.fullmatch(self.next)) and self.next.upper() not in _GRAMMAR

    def path(self) -> Path:
        elements: list[Element] = [self._name()]
        while True:
            if self.takes("."):
                elements.append(self._name())
            elif self.takes("["):
                elements.append(self._number())
                self.expect("]")
            else:
                break
        if len(elements) > MAXIMUM_ELEMENTS:
            self.refuse(f"The document path has too many nesting levels; nesting levels: {len(elements)}")
        path = tuple(elements)
        self.used.paths.setdefault(path)
        return path

    def _number(self) -> int:
        """The number of a list's element."""
        if not (self.next.isascii() and self.next.isdecimal()):
            self.refuse_token()
        number = int(self.take())
        if number > LARGEST_NUMBER:
            self.refuse(f"List index is not within the allowable range; index: [{number}]")
        return number

    def _name(self) -> str:
        word = self.next
        if word[0] == "#" and len(word) > 1:
            self.used.names.setdefault(word)
        elif not self._is_word():
            self.refuse_token()
        elif word.upper() in RESERVED_WORDS:
            self.refuse(f"Attribute name is a reserved keyword; reserved keyword: {word}")
        return self.take()


def shown(path: Path) -> str:
    """The path as DynamoDB's messages show it."""
    return "[" + ", ".join(f"[{each}]" if isinstance(each, int) else each for each in path) + "]"


def check_apart(kind: str, paths: list[Path]) -> None:
    """Raises Refused if one path is a part of another, or takes a list for a map. Their names are resolved."""
    steps = {(path[:at], type(path[at])) for path in paths for at in range(len(path))}
    around = {before for before, _ in steps}
    if len({*paths}) == len(paths) and len(around) == len(steps) and around.isdisjoint(paths):
        return
    for number, second in enumerate(paths):
        for first in paths[:number]:
            _check_pair(kind, first, second)


def _check_pair(kind: str, first: Path, second: Path) -> None:
    verb = "overlap"
    for one, other in zip(first, second, strict=False):
        if type(one) is not type(other):
            verb = "conflict"
            break
        if one != other:
            return
    raise Refused(
        "ValidationException",
        f"Invalid {kind}: Two document paths {verb} with each other; must remove or rewrite one of these paths;"
        f" path one: {shown(first)}, path two: {shown(second)}",
    )
