"""Files of messages: a line of JSON each. The queue of a message is told from its content."""

import hashlib
import itertools
import re
from codecs import BOM_UTF8
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO, NamedTuple

import msgspec

from ledger.core import profile_messages, transaction_types
from ledger.core.decoding import MAXIMUM_BODY_BYTES
from ledger.core.reason_codes import InvalidMessage
from ledger.core.transaction_types.base import Door
from tools.teller.message_queues import MessageQueue

MOST_SENTENCES = 10
"""About lines that are wrong. The others are counted."""


class FileMessage(NamedTuple):
    """`end` is the number of bytes of the file up to the end of the line."""

    queue: MessageQueue
    body: str
    end: int


class _Envelope(msgspec.Struct):
    """The fields that tell the queue."""

    path: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    type: msgspec.Raw = msgspec.Raw(b"null")
    forced: msgspec.Raw = msgspec.Raw(b"false")


_decoder = msgspec.json.Decoder(_Envelope)
_QUEUES = {profile_messages.ERASE_PROFILE: MessageQueue.PROFILES} | {
    name: MessageQueue(kind.door) for name, kind in transaction_types.TRANSACTION_TYPES.items()
}
NOT_FOR_SQS = re.compile("[\ufffe\uffff]")
"""SQS refuses these characters. JSON has the control characters that it refuses only as escapes."""


def queue_of(body: bytes) -> MessageQueue:
    """The queue of a message. Profile updates have a path. A message of no known type counts as a transaction."""
    try:
        envelope = _decoder.decode(body)
        kind = msgspec.json.decode(envelope.type)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return MessageQueue.TRANSACTIONS
    if envelope.path is not msgspec.UNSET:
        return MessageQueue.PROFILES
    if bytes(envelope.forced) == b"true":
        return MessageQueue.ADMINISTRATION
    return _QUEUES.get(kind, MessageQueue.TRANSACTIONS) if isinstance(kind, str) else MessageQueue.TRANSACTIONS


def check(queue: MessageQueue, body: str) -> None:
    """Raises a Refusal, as the queue's function would, if the message were sent now."""
    if queue is MessageQueue.PROFILES:
        profile_messages.check_as_of(profile_messages.decode(body), datetime.now(UTC))
    else:
        transaction_types.decode_from(Door(queue), body)
    if NOT_FOR_SQS.search(body):
        raise InvalidMessage("body: SQS takes no characters U+FFFE and U+FFFF. Write them as \\ufffe and \\uffff")


@dataclass
class Checked:
    """The content of a file: the numbers of `messages` by their queues, its size, and its hash.

    `problems` has sentences about the first lines that are wrong; `wrong` counts all of them.
    """

    messages: Counter[MessageQueue] = field(default_factory=Counter)
    bytes: int = 0
    sha256: str = ""
    wrong: int = 0
    problems: list[str] = field(default_factory=list)


def checked(path: Path, progress: Callable[[int], None] = lambda number: None) -> Checked:
    """Checks each line of the file. `progress` is told how many bytes were read."""
    found, content = Checked(), hashlib.sha256()
    with path.open("rb") as file:
        for number in itertools.count(1):
            line = file.readline(_LONGEST_LINE)
            if not line:
                break
            for piece in itertools.chain([line], _rest_of(file, line)):
                content.update(piece)
                found.bytes += len(piece)
                progress(len(piece))
            try:
                _check_line(line, found)
            except InvalidMessage as error:
                add_problem(found, f"line {number:,}: {error}")
    found.sha256 = content.hexdigest()
    return found


def add_problem(found: Checked, sentence: str) -> None:
    found.wrong += 1
    if len(found.problems) < MOST_SENTENCES:
        found.problems.append(sentence)


_LONGEST_LINE = 4 * MAXIMUM_BODY_BYTES
"""A longer one is wrong, whatever comes after."""


def _is_cut(line: bytes) -> bool:
    return len(line) == _LONGEST_LINE and not line.endswith(b"\n")


def _rest_of(file: BinaryIO, line: bytes) -> Iterator[bytes]:
    """The pieces of a line that is too long to be read whole."""
    while _is_cut(line):
        line = file.readline(_LONGEST_LINE)
        yield line


def _body_of(line: bytes) -> bytes:
    """Without the mark of UTF-8 that some programs begin a file with."""
    return line.removeprefix(BOM_UTF8).strip()


def _check_line(line: bytes, found: Checked) -> None:
    if _is_cut(line):
        raise InvalidMessage(f"expected at most {MAXIMUM_BODY_BYTES:,} bytes, got more than {len(line):,}")
    body = _body_of(line)
    if not body:
        return
    queue = queue_of(body)
    try:
        check(queue, body.decode())
    except UnicodeDecodeError as error:
        raise InvalidMessage(f"expected UTF-8, got the byte {body[error.start]:#04x}") from None
    found.messages[queue] += 1


def messages_from(file: BinaryIO, start: int) -> Iterator[FileMessage]:
    """The messages of a checked file from that byte on."""
    file.seek(start)
    for line in file:
        start += len(line)
        if body := _body_of(line):
            yield FileMessage(queue_of(body), body.decode(), start)
