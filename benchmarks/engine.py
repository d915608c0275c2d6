"""The engine of a benchmark."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from tools.local_aws.server import Endpoint, free_port, ministack, running


@contextlib.contextmanager
def new_ministack() -> Iterator[Endpoint]:
    """Starts a ministack for this benchmark alone, and stops it at the end."""
    with (
        TemporaryDirectory(prefix="teller-") as folder,
        running(ministack(free_port(), Path(folder) / "ministack.log")) as endpoint,
    ):
        yield endpoint
