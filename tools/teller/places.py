"""The place of a file that is being sent: how far it was sent, kept in a file beside it, FILE.place."""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

import msgspec

from tools.teller.failures import Failure


class Place(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The file's content, the queues that it is sent to, and how many `messages` and `bytes` of it were sent."""

    sha256: str
    queue_urls: dict[str, str]
    messages: int = 0
    bytes: int = 0


def path_of(file: Path) -> Path:
    return file.with_name(f"{file.name}.place")


def read_place(file: Path, beginning: Place) -> Place:
    """The place that was written, or the `beginning`. Raises Failure if it is the place of another content or stack."""
    path = path_of(file)
    try:
        place = msgspec.json.decode(path.read_bytes(), type=Place)
    except FileNotFoundError:
        return beginning
    except (msgspec.DecodeError, UnicodeDecodeError, OSError) as error:
        raise Failure(f"{path} can't be read: {error}. Remove it to send all of {file}") from None
    if place.queue_urls != beginning.queue_urls:
        raise Failure(
            f"{place.messages:,} messages of {file} were sent to another stack. Finish that, or remove {path} to send "
            "all of it to this one"
        )
    if place.sha256 != beginning.sha256:
        raise Failure(
            f"{file} was changed after {place.messages:,} of its messages were sent. Restore it, or remove {path} to "
            "send all of it: what is sent twice is posted once"
        )
    return place


def write_place(file: Path, place: Place) -> None:
    """Raises Failure."""
    path = path_of(file)
    try:
        write_whole(path, msgspec.json.encode(place))
    except OSError as error:
        raise Failure(f"the place in {file} can't be written to {path}: {error.strerror}") from None


def write_whole(path: Path, content: bytes) -> None:
    """Killed at any time, or on a full disk, it leaves the old file or the new one."""
    new = path.with_name(f"{path.name}.new")
    with new.open("wb") as out:
        out.write(content)
        out.flush()
        os.fsync(out.fileno())
    new.replace(path)


def remove_place(file: Path) -> None:
    path_of(file).unlink(missing_ok=True)


@contextlib.contextmanager
def at_work_on(path: Path, *, alone: bool) -> Iterator[None]:
    """Raises Failure if another command is at work on the file or directory, or a process that a killed one has left.

    If not `alone`, it is a process of a command that is. The locks are the system's: a killed process has none.
    """
    descriptor = os.open(path, os.O_RDONLY)
    try:
        try:
            for lock in [*[fcntl.LOCK_EX] * alone, fcntl.LOCK_SH]:
                fcntl.flock(descriptor, lock | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Failure(f"another command is at work on {path}") from None
        except OSError:
            pass  # on NFS only a file that is open for writing can be locked
        yield
    finally:
        os.close(descriptor)
