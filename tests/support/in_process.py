"""The library's own engine in place of a server: every client of its address is answered in the process."""

import contextlib
from collections.abc import Iterator
from typing import Any
from unittest import mock

from botocore.httpsession import URLLib3Session

from conditional_writes.testing import Engine
from conditional_writes.testing.wire import Connection
from tools.local_aws.server import Endpoint

IN_PROCESS = Endpoint("http://engine.invalid")


@contextlib.contextmanager
def answered_by(engine: Engine) -> Iterator[Endpoint]:
    """Clients whose address is `IN_PROCESS` have the engine's answers, however they are made."""
    connection, send = Connection(engine.answer), URLLib3Session.send

    def send_or_answer(session: Any, request: Any) -> Any:
        return connection.send(request) if request.url.startswith(IN_PROCESS.url) else send(session, request)

    with mock.patch.object(URLLib3Session, "send", send_or_answer):
        yield IN_PROCESS
