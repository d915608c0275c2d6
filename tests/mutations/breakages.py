"""Deliberate breakages of the product: for each guarantee that no mutant of `operators` breaks, one or two that do.

breakages.diff and races.diff have them as changes of whole lines: a sentence, of a race the words of the scenario that
finds it, the file, and the lines.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from types import CodeType
from typing import NamedTuple, Self

from tools.local_aws.server import PROJECT


class Breakage(NamedTuple):
    """A mutant made by hand: replaces `old`, which is in the file once, by `new`."""

    what: str
    path: str
    old: str
    new: str
    scenario: str = ""

    @classmethod
    def of(cls, part: str) -> Self:
        head, path, changes = re.split("^--- (.*)\n", part, flags=re.MULTILINE)
        what, _, scenario = head.rstrip("\n").partition("\n@@ ")
        lines = changes.rstrip("\n").split("\n")
        old, new = ("".join(line[1:] + "\n" for line in lines if line[0] in signs) for signs in (" -", " +"))
        return cls(what, path, old, new, scenario)

    def __str__(self) -> str:
        return f"{self.path}: {self.what}"

    @property
    def name(self) -> tuple[str, str, str]:
        return self.path, "by hand", self.what

    @property
    def lines(self) -> Sequence[int]:
        text = self._text
        first = text[: text.index(self.old)].count("\n") + 1
        return range(first, first + self.old.count("\n"))

    def patched(self) -> str:
        """The file's text. Raises ValueError if the product has changed: its breakages must, too."""
        text = self._text
        if (found := text.count(self.old)) != 1:
            raise ValueError(f"{self.what}: found {found} times, expected once: {self.old!r}")
        return text.replace(self.old, self.new)

    def compiled(self, filename: str) -> CodeType:
        return compile(self.patched(), filename, "exec")

    @property
    def _text(self) -> str:
        return (PROJECT / self.path).read_text()


def _read(name: str) -> list[Breakage]:
    return [Breakage.of(part) for part in Path(__file__).with_name(name).read_text().removeprefix("# ").split("\n# ")]


BREAKAGES, RACES = _read("breakages.diff"), _read("races.diff")
