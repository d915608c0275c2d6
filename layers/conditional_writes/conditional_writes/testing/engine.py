"""DynamoDB in the process: a strict engine that answers boto3's clients."""

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Self

from boto3.dynamodb.types import TypeSerializer
from boto3.session import Session
from botocore.awsrequest import AWSResponse
from botocore.config import Config

from conditional_writes.testing import constraints, wire
from conditional_writes.testing.clock import Clock
from conditional_writes.testing.database import CONFLICT, EXCEEDED, THROTTLED, Database, Refusal
from conditional_writes.testing.errors import Refused
from conditional_writes.testing.operations import OPERATIONS
from conditional_writes.testing.store import Place
from conditional_writes.testing.streams import stream_record
from conditional_writes.testing.tables import REGION
from conditional_writes.testing.wire import Attached, Call


class Engine:
    """Answers clients' calls of DynamoDB without a server, as strictly as the service.

    Use it in a `with` block: at its end attached clients have their connections again. Those that the engine has made
    stay its own. Each engine has tables of its own. Calls of several threads are answered one after the other.

    `clock` is what the engine goes by; the code under test does so inside of `simulated_time`. `others` has what
    answers clients of other services, by the services' names in `X-Amz-Target`, as `AmazonSQS`: functions of a call.
    Each returns the body of the answer, or a response that `wire.answer` makes, as of a refusal.
    """

    def __init__(self, clock: Clock | None = None) -> None:
        self.clock = clock or Clock()
        self.database = Database(self.clock)
        self.others: dict[str, Callable[[Call], AWSResponse | dict[str, Any]]] = {}
        self._attached: list[Attached] = []
        self._lock = threading.RLock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        while self._attached:
            self._attached.pop().detach()

    def client(self, service: str = "dynamodb", **config: Any) -> Any:
        """A new boto3 client of this engine, for `dynamodb`, `dynamodbstreams`, or a service that is in `others`.

        `config` is botocore's Config.
        """
        return self._made(_session().client(service, config=Config(**_CONFIG | config)))

    def resource(self, **config: Any) -> Any:
        """A new boto3 resource of this engine."""
        return self._made(_session().resource("dynamodb", config=Config(**_CONFIG | config)))

    def _made[Client](self, client: Client) -> Client:
        """The engine's for ever: it has no credentials of AWS."""
        Attached.to(client, self.answer)
        return client

    def attach[Client](self, client: Client) -> Client:
        """The client, or the resource, whose calls the engine answers from now on. It needs no credentials."""
        self._attached.append(Attached.to(client, self.answer))
        return client

    @contextlib.contextmanager
    def simulated_time(self) -> Iterator[Clock]:
        """The code under test goes by the engine's clock, on which pauses cost nothing: `Clock.simulated_time`."""
        with self.clock.simulated_time():
            yield self.clock

    def throttle(
        self,
        table: str,
        key: Mapping[str, Any] | None = None,
        *,
        index: str | None = None,
        times: float = 1,
        provisioned: bool = False,
    ) -> None:
        """Throttles so many calls of the table, of one item of it, or of an index. `math.inf` throttles for ever.

        In a batch the items are left unprocessed; a transaction is cancelled. botocore repeats the other calls.
        """
        self._refuse(EXCEEDED if provisioned else THROTTLED, table, key, index, times)

    def conflict(self, table: str, key: Mapping[str, Any], *, times: float = 1) -> None:
        """Refuses so many writes of the item, or transactions with it, as if another transaction were at it."""
        self._refuse(CONFLICT, table, key, None, times)

    def _refuse(self, code: str, table: str, key: Mapping[str, Any] | None, index: str | None, times: float) -> None:
        with self._lock:
            held = self.database.table(table)
            if index is not None:
                held.index(index)
            place = None if key is None else self._place(table, key)
            self.database.refusals.append(Refusal(code, table, place, index, times))

    def _place(self, table: str, key: Mapping[str, Any]) -> Place:
        serializer = TypeSerializer()
        serialized: Any = {name: serializer.serialize(value) for name, value in key.items()}
        return self.database.table(table).place_of_key(serialized)

    def hold_back(self, table: str, index: str | None = None) -> None:
        """From now on eventually consistent reads of the table, or of the index, see it as it is now."""
        with self._lock:
            held = self.database.table(table)
            lagging = held if index is None else held.index(index)
            lagging.lagging = lagging.store.copy()

    def catch_up(self, table: str, index: str | None = None) -> None:
        """Eventually consistent reads see all again."""
        with self._lock:
            held = self.database.table(table)
            lagging = held if index is None else held.index(index)
            lagging.lagging = None

    def delete_expired(self, table: str) -> int:
        """Deletes items whose time to live is over, as DynamoDB does it within days. Returns their number.

        Items stay whose time was over more than five years ago, which DynamoDB takes for a mistake.
        """
        with self._lock:
            held, now = self.database.table(table), self.clock.time()
            attribute = held.time_to_live
            expired = [
                place
                for place, item in held.store.items.items()
                if attribute is not None
                and "N" in item.get(attribute, {})
                and now - _FORGOTTEN_SECONDS < float(item[attribute]["N"]) < now
            ]
            for place in expired:
                held.write(place, None, now, is_expiry=True)
            return len(expired)

    def stream_records(self, table: str) -> list[dict[str, Any]]:
        """All records since the table has its stream, as Lambda gets them; none if it has no stream."""
        with self._lock:
            held = self.database.table(table)
            return [stream_record(held, record) for record in held.records]

    def answer(self, call: Call) -> AWSResponse:
        """The answer to a client's call."""
        operation = OPERATIONS.get(call.operation)
        if operation is None and (other := self.others.get(call.service)):
            answered = other(call)
            return wire.answer(call, 200, answered) if isinstance(answered, dict) else answered
        if operation is None:
            raise NotImplementedError(f"this engine has no {call.operation}")
        with self._lock:
            try:
                constraints.check(call.operation, call.request)
                return wire.answer(call, 200, operation(self.database, call.request))
            except Refused as refused:
                return wire.answer(call, 400, refused.as_body())


_FORGOTTEN_SECONDS = 5 * 365 * 24 * 3600
"""https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/time-to-live-ttl-before-you-start.html"""
_CONFIG = {
    "retries": {"mode": "standard", "total_max_attempts": 3},
    # Nobody reads how a client calls itself, and botocore takes a third of a request's CPU time to find out.
    "user_agent": "conditional_writes.testing",
}


@functools.cache
def _session() -> Session:
    return Session(aws_access_key_id="engine", aws_secret_access_key="engine", region_name=REGION)  # noqa: S106
