"""Stubbed AWS clients. botocore validates the stubs' answers and the requests by its model of the service."""

import threading
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, Self

import boto3
from botocore.awsrequest import AWSResponse
from botocore.stub import Stubber

from conditional_writes import Key
from conditional_writes.core.items import to_dynamodb
from tests.support.answers import answer


def client_of(service: str, **options: Any) -> Any:
    keys = {"aws_access_key_id": "test", "aws_secret_access_key": "test"}
    return boto3.client(service, region_name="us-east-1", **keys, **options)


def all_taken_but(*failed: int) -> dict[str, Any]:
    """SQS's answer for a batch of messages, with more than it has: all but those with these numbers are taken."""
    sent = {"MessageId": "1", "MD5OfMessageBody": "0"}
    taken = [{"Id": str(index)} | sent for index in range(1_000) if index not in failed]
    refused = [{"Id": str(index), "SenderFault": False, "Code": "InternalError"} for index in failed]
    return {"Successful": taken, "Failed": refused}


class Answering:
    """A client of DynamoDB whose requests are answered before they are sent, one after another; the last for ever.

    An answer is a status with a body, and maybe with headers, or the error that is raised.
    """

    def __init__(self, *answers: Any, **options: Any) -> None:
        self.answers, self.client = list(answers), client_of("dynamodb", **options)
        self.client.meta.events.register_first("before-send", self._answer)

    def _answer(self, request: Any, **_: Any) -> AWSResponse:
        given = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(given, Exception):
            raise given
        return answer(request, *given)


class Answers(Stubber):
    """The prepared answers, and those of operations that are `always` answered. Threads choose one after another."""

    def __init__(self, client: Any) -> None:
        super().__init__(client)
        self.always: dict[str, tuple[str, dict[str, Any]]] = {}
        self._choice = threading.Lock()

    def _assert_expected_params(self, *_: object, **__: object) -> None:
        """No answer has any. botocore's own looks at an answer that another thread may be about to take."""

    def _get_response_handler(self, model: Any, *given: Any, **more: Any) -> Any:
        with self._choice:
            if model.name in self.always and not (self._queue and self._queue[0]["operation_name"] == model.name):
                self.add_response(*self.always[model.name])
                self._queue.rotate(1)
            return super()._get_response_handler(model, *given, **more)


class Stubbed:
    """A client with prepared answers, which records its requests. At the end all answers must have been used."""

    def __init__(self, service: str) -> None:
        self.client = client_of(service)
        self.requests: list[tuple[str, dict[str, Any]]] = []
        self._stubber = Answers(self.client)
        self._prepared = 0
        self._first_tries: dict[int, int | None] = {}
        self.client.meta.events.register_first(f"before-parameter-build.{service}", self._record)

    def __enter__(self) -> Self:
        self._stubber.activate()
        return self

    def __exit__(self, failed: type[BaseException] | None, *_: object) -> None:
        if failed is None:
            self._stubber.assert_no_pending_responses()

    def answers(self, operation: str, response: dict[str, Any] | None = None) -> None:
        self._prepared += 1
        self._stubber.add_response(operation, response or {})

    def always(self, operation: str, response: dict[str, Any]) -> None:
        """Answers each request of this operation for which nothing was prepared."""
        self._stubber.always[self.client.meta.method_to_api_mapping[operation]] = operation, response

    def finds(self, items: Mapping[Key, Any]) -> None:
        """Prepares the answer to a read of several keys: these items."""
        responses: dict[str, list[Any]] = {}
        for key, item in items.items():
            responses.setdefault(key.table, []).append(to_dynamodb(item))
        self.answers("batch_get_item", {"Responses": responses, "UnprocessedKeys": {}})

    def refuses(self, operation: str, code: str, **fields: Any) -> None:
        """Prepares an error with its fields."""
        self._prepared += 1
        self._stubber.add_client_error(operation, code, code, 400, modeled_fields=fields or None)

    def fails_condition(self, operation: str, item: Mapping[str, Any] | None = None) -> None:
        """Prepares the refusal of a write whose condition failed on this item."""
        found = {} if item is None else {"Item": to_dynamodb(dict(item))}
        self.refuses(operation, "ConditionalCheckFailedException", **found)

    def cancels(self, *reasons: dict[str, Any]) -> None:
        """Prepares a cancelled transaction, with a reason for each of its writes."""
        self.refuses("transact_write_items", "TransactionCanceledException", CancellationReasons=list(reasons))

    def takes_events(self, *codes: str | None) -> None:
        """Prepares an answer for as many events. None: it is on the bus."""
        entries = [{"ErrorCode": code, "ErrorMessage": "for a reason"} if code else {"EventId": "1"} for code in codes]
        self.answers("put_events", {"FailedEntryCount": sum(map(bool, codes)), "Entries": entries})

    def takes_messages_but(self, *failed: int) -> None:
        """Prepares an answer for a batch of messages, of which those with these numbers fail."""
        self.answers("send_message_batch", all_taken_but(*failed))

    def first_fails(self, status: int | None = None) -> None:
        """Prepares the next answer as that to the SDK's second try: the first had this status, None: no answer."""
        self._first_tries[self._prepared] = status

    def forgets_the_rest(self) -> None:
        """Drops the unused answers."""
        self._stubber._queue.clear()

    @property
    def operations(self) -> list[str]:
        return [operation for operation, _ in self.requests]

    @property
    def parameters(self) -> list[dict[str, Any]]:
        return [parameters for _, parameters in self.requests]

    def _record(self, params: dict[str, Any], model: Any, **_: object) -> None:
        number = len(self.requests)
        self.requests.append((model.name, dict(params)))
        if number in self._first_tries:
            status = self._first_tries[number]
            response = None if status is None else (SimpleNamespace(status_code=status, content=b"{}"), {})
            # The stubber answers in place of all tries, so that nobody asks botocore's own handler for a retry.
            service = self.client.meta.service_model.service_id.hyphenize()
            self.client.meta.events.unregister(f"needs-retry.{service}", unique_id=f"retry-config-{service}")
            self.client.meta.events.emit(f"needs-retry.{service}.{model.name}", response=response, operation=model)
