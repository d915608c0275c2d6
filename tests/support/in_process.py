"""AWS in the process, in place of a server: DynamoDB by the library's own engine, and SQS and EventBridge beside it."""

import contextlib
import json
import threading
from collections.abc import Iterator
from email.utils import formatdate
from types import SimpleNamespace
from typing import Any
from unittest import mock

from botocore.awsrequest import AWSResponse

from conditional_writes.testing import Engine
from conditional_writes.testing.wire import Call
from tests.support.answers import answer
from tests.support.event_bus import EventBridge, EventsError
from tests.support.quick_clients import quick_clients
from tests.support.sqs import ARN, Sqs, SqsError
from tools.local_aws import consumers, functions, queues, tables
from tools.local_aws.server import Endpoint, shared_client

IN_PROCESS = Endpoint("http://engine.invalid")


class Aws:
    """Answers clients of the three services. All of them go by the engine's clock."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.sqs = Sqs(engine.clock)
        self.events = EventBridge(engine.clock, self.sqs)
        self._lock = threading.RLock()

    def bring(self, source: str, bus: str, queue: str) -> None:
        """Makes a bus, whose events of this source come to the queue."""
        rule, target = {"EventBusName": bus, "Rule": "all"}, {"Id": queue, "Arn": ARN + queue}
        self.events.answer("CreateEventBus", {"Name": bus})
        self.events.answer("PutRule", rule | {"Name": "all", "EventPattern": json.dumps({"source": [source]})})
        self.events.answer("PutTargets", rule | {"Targets": [target]})

    def answer(self, call: Call) -> AWSResponse:
        service = call.operation.partition(".")[0]
        if service.startswith("DynamoDB"):
            return self.engine.answer(call)
        request: Any = call
        date = {"date": formatdate(self.engine.clock.time(), usegmt=True)}
        with self._lock:
            try:
                if service == "AmazonSQS":
                    return answer(request, 200, self.sqs.answer(call.name, call.request, IN_PROCESS.url), date)
                return answer(request, 200, self.events.answer(call.name, call.request), date)
            except SqsError as error:
                headers = {"x-amzn-query-error": f"{error.query_code};Sender"}
                body = {"__type": f"com.amazonaws.sqs#{error.name}", "message": str(error)}
                return answer(request, 400, body, headers)
            except EventsError as error:
                return answer(request, 400, {"__type": error.name, "message": str(error)})


class _Direct:
    """The client with which tests look at what is there, without botocore: that is nine tenths of a request's time."""

    def __init__(self, aws: Aws, client: Any) -> None:
        self._aws, self._client = aws, client

    def __getattr__(self, name: str) -> Any:
        operation = self._client.meta.method_to_api_mapping.get(name)
        if operation is None:
            return getattr(self._client, name)
        return lambda **request: self._answer(name, operation, request)

    def _answer(self, name: str, operation: str, request: dict[str, Any]) -> Any:
        target = self._client.meta.service_model.metadata["targetPrefix"]
        response = self._aws.answer(Call(f"{target}.{operation}", request, IN_PROCESS.url))
        if response.status_code != 200:
            return getattr(self._client, name)(**request)  # It raises what botocore makes of the refusal.
        return json.loads(response.content or "{}")

    def get_waiter(self, _: str) -> Any:
        """A new table or queue is there at once."""
        return SimpleNamespace(wait=lambda **_: None)

    def get_paginator(self, name: str) -> Any:
        return SimpleNamespace(paginate=lambda **request: self._pages(name, request))

    def _pages(self, name: str, request: dict[str, Any]) -> Iterator[Any]:
        page = {"LastEvaluatedKey": None}
        while "LastEvaluatedKey" in page:
            after = {"ExclusiveStartKey": page["LastEvaluatedKey"]} if page["LastEvaluatedKey"] else {}
            page = getattr(self, name)(**request, **after)
            yield page


@contextlib.contextmanager
def answered_by(aws: Aws) -> Iterator[Endpoint]:
    """Clients whose address is `IN_PROCESS` have these answers, however they are made."""

    def shared(endpoint: Endpoint, service: str) -> Any:
        client = shared_client(endpoint, service)
        return _Direct(aws, client) if endpoint == IN_PROCESS else client

    with contextlib.ExitStack() as patched:
        for module in (consumers, functions, queues, tables):
            patched.enter_context(mock.patch.object(module, "shared_client", shared))
        patched.enter_context(quick_clients(IN_PROCESS.url, aws.answer))
        yield IN_PROCESS
