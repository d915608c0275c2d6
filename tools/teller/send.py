"""`teller send`: the messages of a file to their queues. Killed at any time and started again, it goes on."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import typer
from msgspec.structs import replace

from conditional_writes import Deadline
from conditional_writes.core.client import CONNECTIONS
from conditional_writes.core.packing import packed
from tools.teller.deployment import Deployment
from tools.teller.failures import Failure, WrongUse
from tools.teller.message_files import Checked, FileMessage, checked, messages_from
from tools.teller.message_queues import MessageQueue
from tools.teller.operator import Operator, YesOption, subcommand
from tools.teller.places import Place, at_work_on, path_of, read_place, remove_place, write_place
from tools.teller.progress import progress_bar
from tools.teller.words import counted
from workers.failed_entries import until_deadline
from workers.sending import Message
from workers.sending import send as send_messages

MOST_MESSAGES = 1_000
MOST_BYTES = 16 * 1_048_576
"""Between two places: so much is sent again after a break, and is in memory."""
SENDING_SECONDS = 60
"""In which messages that their queue refuses are sent again and again."""

File = Annotated[
    Path,
    typer.Argument(help="Its lines are messages in JSON.", metavar="FILE", exists=True, dir_okay=False, readable=True),
]


def add_to(app: typer.Typer) -> None:
    subcommand(app)(send)


def send(
    operator: Operator,
    file: File,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Send nothing: check the lines.")] = False,
    yes: YesOption = False,
) -> None:
    """Send the messages of a file, each to its queue.

    Each line is a message in JSON: a transaction, or an update or erasure of a profile. Empty lines are skipped. First
    all lines are checked as the functions check messages. If one is wrong, nothing is sent: exit status 1.

    Then the messages are sent, in no order. How far is kept beside FILE, in FILE.place. After a break the same command
    goes on from there: it sends some messages again, which are posted once all the same.
    """
    check_regular(file)
    checked_at = time_of_change(file)
    with progress_bar(operator, "checking", file.stat().st_size) as progress:
        found = checked(file, progress)
    if found.wrong:
        more = found.wrong - len(found.problems)
        details = [*found.problems, *([f"and {more:,} more"] if more else [])]
        raise Failure(f"{file}: nothing was sent. Wrong lines: {found.wrong:,}", details=details)
    total, counts = found.messages.total(), _counts(found)
    if dry_run:
        operator.show({"valid": found.messages}, f"valid: {counts}")
        return
    urls = {queue: operator.deployment[queue.output] for queue in MessageQueue}
    place = read_place(file, Place(found.sha256, dict(urls)))
    if place.messages:
        operator.remark(f"going on after {place.messages:,} of {total:,} messages, by {path_of(file)}")
    operator.agree(f"send {counts}", yes=yes)
    send_rest(operator, file, place, total, partial(send_from, checked_at=checked_at))
    remove_place(file)
    operator.show({"sent": found.messages}, f"sent: {counts}")


def send_rest(operator: Operator, file: Path, place: Place, total: int, sending: Callable[..., None]) -> None:
    """Sends what comes after the place, by a `send_from`. Raises Failure, if it is interrupted, too."""
    with (
        at_work_on(file, alone=True),
        progress_bar(operator, "sending", total, place.messages) as progress,
    ):
        write_place(file, place)
        try:
            sending(operator.deployment, file, place, progress=progress)
        except KeyboardInterrupt:
            sent = read_place(file, place).messages
            raise Failure(
                f"interrupted. At least {sent:,} of {counted(total, 'message')} were sent; the same command goes on "
                "after them",
                "INTERRUPTED",
            ) from None


def send_from(
    deployment: Deployment,
    file: Path,
    place: Place,
    checked_at: object,
    progress: Callable[[int], None],
    messages_of: Callable[[BinaryIO, int], Iterator[FileMessage]] = messages_from,
    before_each: Callable[[], None] = lambda: None,
) -> None:
    """Sends what comes after the place, and writes the new place again and again.

    `messages_of` gives a file's messages from a byte on. `before_each` is called before a thousand messages are sent.

    Raises Failure if a queue doesn't take a message for a minute, or if the file isn't as it was when it was checked.
    """
    sqs = deployment.new_client("sqs", max_pool_connections=CONNECTIONS)
    with file.open("rb") as lines:
        messages = messages_of(lines, place.bytes)
        for part in packed(messages, lambda message: len(message.body), MOST_MESSAGES, MOST_BYTES):
            before_each()
            if time_of_change(file) != checked_at:
                raise Failure(f"{file} is being changed. {place.messages:,} of its messages were sent")
            if refusal := _refusal(sqs, place.queue_urls, part):
                raise Failure(
                    f"{place.messages:,} messages were sent. A queue doesn't take the next ones: {refusal}. The same "
                    "command goes on from there"
                )
            place = replace(place, messages=place.messages + len(part), bytes=part[-1].end)
            write_place(file, place)
            progress(len(part))


def _refusal(sqs: Any, queue_urls: Mapping[str, str], part: Sequence[FileMessage]) -> str | None:
    """Sends the messages. Returns why one of them wasn't sent, or None."""
    deadline = Deadline.after(SENDING_SECONDS)
    for queue, url in queue_urls.items():
        messages = [Message(message.body) for message in part if message.queue == queue]
        failures = until_deadline(partial(send_messages, sqs, url, deadline=deadline), messages, deadline)
        if refusal := next(filter(None, failures), None):
            return refusal
    return None


def check_regular(file: Path) -> None:
    """Raises WrongUse for a pipe, or a device."""
    if not file.is_file():
        raise WrongUse(f"{file}: expected a regular file, which can be read twice")


def time_of_change(file: Path) -> tuple[int, int]:
    """Raises Failure if the file is gone."""
    try:
        status = file.stat()
    except OSError as error:
        raise Failure(f"{file} can't be read: {error.strerror}. Put it back, and the same command goes on") from None
    return status.st_mtime_ns, status.st_size


def _counts(found: Checked) -> str:
    """3,002 messages (transactions 3,001, profiles 1), or 1 message (profiles 1)."""
    listed = ", ".join(f"{queue} {number:,}" for queue, number in found.messages.most_common())
    return f"{counted(found.messages.total(), 'message')}{f' ({listed})' if listed else ''}"
