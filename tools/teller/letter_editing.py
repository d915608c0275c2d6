"""Dead letters in an editor: a line of JSON each, whose body is mended. Numbers and spaces stay as they are spelled."""

import json
import os
import shlex
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from ledger.core.reason_codes import InvalidMessage
from tools.teller.failures import Failure, WrongUse
from tools.teller.letters import Letter
from tools.teller.message_files import check
from tools.teller.queues import MessageQueue


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


def edited(text: str) -> str:
    """The text as the person leaves it in the editor of VISUAL or EDITOR."""
    command = os.environ.get("VISUAL") or os.environ.get("EDITOR")
    if not command:
        raise WrongUse("no editor: name it in the variable EDITOR")
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "dead-letters.jsonl"
        path.write_text(text, encoding="utf-8")
        try:
            subprocess.run([*shlex.split(command), str(path)], check=True)
        except (OSError, ValueError, subprocess.CalledProcessError) as error:
            raise Failure(f"the editor failed, so nothing was sent: {error}") from None
        return path.read_text(encoding="utf-8")


class InvalidLines(Exception):
    """Some lines aren't what they have to be. `problems` has a sentence each."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


def changed_bodies(text: str, letters: Mapping[str, Letter]) -> dict[str, str]:
    """The new bodies by the letters' ids, of the letters whose body was changed. Raises InvalidLines.

    A line that was deleted leaves its letter as it is.
    """
    bodies, problems = dict[str, str](), list[str]()
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            try:
                changed = _changed_body(line, letters)
            except (msgspec.ValidationError, msgspec.DecodeError, InvalidMessage, UnicodeEncodeError) as error:
                problems.append(f"line {number}: {error}")
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
