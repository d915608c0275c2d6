"""Dead letters in an editor: a line of JSON each, whose body is mended. Numbers and spaces stay as they are spelled."""

import contextlib
import json
import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

import msgspec

from ledger.core.reason_codes import InvalidMessage, Refusal
from tools.teller.failures import Failure, WrongUse
from tools.teller.letters import Letter
from tools.teller.message_files import check
from tools.teller.message_queues import MessageQueue
from workers.queue_messages import printable

COMMENT = "#"
"""A line that begins so isn't a letter's."""


class _Line(msgspec.Struct, forbid_unknown_fields=True):
    """`body` is the letter's, if it is JSON; otherwise it is in `text`, as a JSON string."""

    id: str
    reason: str | None = None
    body: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    text: str | msgspec.UnsetType = msgspec.UNSET


_decoder = msgspec.json.Decoder(_Line)


def lines_of(letters: Iterable[Letter]) -> str:
    return "".join(f"{_line(letter)}\n" for letter in letters)


def _line(letter: Letter) -> str:
    about = json.dumps({"id": letter.message_id, "reason": letter.reason}, ensure_ascii=False)[:-1]
    try:
        msgspec.json.decode(letter.body)
    except (ValueError, RecursionError):
        return f'{about}, "text": {json.dumps(letter.body, ensure_ascii=False)}}}'
    return f'{about}, "body": {_on_one_line(letter.body)}}}'


def _on_one_line(body: str) -> str:
    """JSON has no line breaks inside of its strings."""
    return body.replace("\r", " ").replace("\n", " ").strip()


@contextlib.contextmanager
def draft(text: str, said: Callable[[str], None]) -> Iterator[Path]:
    """A file with the text, for an editor. If the block doesn't come to its end, edits stay there, which is `said`."""
    path = Path(tempfile.mkdtemp(prefix="teller-")) / "dead-letters.jsonl"
    path.write_text(text, encoding="utf-8")
    is_done = False
    try:
        yield path
        is_done = True
    finally:
        if not is_done and path.exists() and path.read_bytes() != text.encode():
            said(f"Your edits are kept in {path}. Its lines can be pasted into another --edit.")
        else:
            shutil.rmtree(path.parent)


def edited(path: Path) -> str:
    """The file's text as the person leaves it in the editor of VISUAL or EDITOR."""
    command = os.environ.get("VISUAL") or os.environ.get("EDITOR")
    if not command:
        raise WrongUse("no editor: name it in the variable EDITOR")
    try:
        subprocess.run([*shlex.split(command), str(path)], check=True)
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError, subprocess.CalledProcessError) as error:
        raise Failure(f"the editor failed, so nothing was sent: {error}") from None


def with_comments(text: str, problems: Mapping[int, str]) -> str:
    """The text with a comment above each wrong line, and without earlier comments."""
    commented = []
    for number, line in enumerate(text.split("\n"), 1):
        if number in problems:
            commented.append(f"{COMMENT} {printable(problems[number].partition(': ')[2])}")
        if not line.startswith(COMMENT):
            commented.append(line)
    return "\n".join(commented)


class InvalidLines(Exception):
    """Some lines aren't what they have to be. `problems` has a sentence each, by the lines' numbers."""

    def __init__(self, problems: Mapping[int, str]) -> None:
        super().__init__("; ".join(problems.values()))
        self.problems = problems


def changed_bodies(text: str, letters: Mapping[str, Letter]) -> dict[str, str]:
    """The new bodies by the letters' ids, of the letters whose body was changed. Raises InvalidLines.

    A line that was deleted leaves its letter as it is.
    """
    bodies, problems = dict[str, str](), dict[int, str]()
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip() and not line.startswith(COMMENT):
            try:
                changed = _changed_body(line, letters)
            except (msgspec.ValidationError, msgspec.DecodeError, Refusal, UnicodeEncodeError) as error:
                problems[number] = f"line {number}: {error}"
            else:
                bodies |= changed
    if problems:
        raise InvalidLines(problems)
    return bodies


def _changed_body(line: str, letters: Mapping[str, Letter]) -> dict[str, str]:
    fields = _decoder.decode(line)
    letter = letters.get(fields.id)
    if letter is None:
        raise InvalidMessage(f"no letter of this redrive has the id {fields.id!r}")
    if fields.text is not msgspec.UNSET:
        body = fields.text
    elif fields.body is not msgspec.UNSET:
        body = bytes(fields.body).decode()
    else:
        raise InvalidMessage("expected a body, or a text")
    if body in (letter.body, _on_one_line(letter.body)):
        return {}
    check(MessageQueue(letter.queue), body)
    return {fields.id: body}
