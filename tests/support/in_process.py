"""AWS in the process, in place of a server: DynamoDB by the library's own engine, and SQS and EventBridge beside it."""

import contextlib
import threading
from collections.abc import Iterator
from typing import Any
from unittest import mock

from botocore.awsrequest import AWSResponse
from botocore.httpsession import URLLib3Session

from conditional_writes.testing import Engine
from conditional_writes.testing.wire import Call, Connection
from tests.support.answers import answer
from tests.support.event_bus import EventBridge, EventsError
from tests.support.sqs import Sqs, SqsError
from tools.local_aws.server import Endpoint

IN_PROCESS = Endpoint("http://engine.invalid")


class Aws:
    """Answers clients of the three services. All of them go by the engine's clock."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.sqs = Sqs(engine.clock)
        self.events = EventBridge(engine.clock, self.sqs)
        self._lock = threading.RLock()

    def answer(self, call: Call) -> AWSResponse:
        service = call.operation.partition(".")[0]
        if service.startswith("DynamoDB"):
            return self.engine.answer(call)
        request: Any = call
        with self._lock:
            try:
                if service == "AmazonSQS":
                    return answer(request, 200, self.sqs.answer(call.name, call.request, IN_PROCESS.url))
                return answer(request, 200, self.events.answer(call.name, call.request))
            except SqsError as error:
                headers = {"x-amzn-query-error": f"{error.query_code};Sender"}
                body = {"__type": f"com.amazonaws.sqs#{error.name}", "message": str(error)}
                return answer(request, 400, body, headers)
            except EventsError as error:
                return answer(request, 400, {"__type": error.name, "message": str(error)})


@contextlib.contextmanager
def answered_by(aws: Aws) -> Iterator[Endpoint]:
    """Clients whose address is `IN_PROCESS` have these answers, however they are made."""
    connection, send = Connection(aws.answer), URLLib3Session.send

    def send_or_answer(session: Any, request: Any) -> Any:
        return connection.send(request) if request.url.startswith(IN_PROCESS.url) else send(session, request)

    with mock.patch.object(URLLib3Session, "send", send_or_answer):
        yield IN_PROCESS
