"""Outcomes on their way to the bus: from the journal's stream, or published again at request."""

import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any, override
from unittest import mock

from botocore.awsrequest import AWSPreparedRequest, AWSResponse

from conditional_writes.core.items import to_dynamodb
from ledger.core.journal import entry_from_item
from tests.checkers.outcomes import violations
from tests.faults.scenarios import ScenarioResult
from tests.support.answers import answer
from tests.support.faults import Faults, FaultsAt, Killed, put_others
from tests.support.ledger import Ledger
from tools.local_aws.consumers import new_consumer
from tools.local_aws.functions import Context, Stream, publish_outcomes, republish_outcomes, stream_record
from tools.local_aws.queues import take_dead_letters
from tools.local_aws.server import Endpoint
from tools.local_aws.tables import Tables, refill

MOST_INVOCATIONS = 60


class Publishing:
    """Publishes the entries that these messages make, from the journal's stream. Each has a transaction id of its own.

    `damaged` has, by transaction id, changes to the entry's item; None removes an attribute. `refused` has transactions
    whose events the bus never takes: with "InvalidArgument" it refuses the event, with "ValidationException" the whole
    request. Each of these entries must be in the dead-letter queue with this code, and all others must be heard of.
    """

    def __init__(
        self,
        aws: Endpoint,
        dynamodb: Endpoint,
        messages: Sequence[Any],
        damaged: Mapping[str, tuple[Mapping[str, Any], str]] | None = None,
        refused: Mapping[str, str] | None = None,
        *,
        batch_size: int = 100,
    ) -> None:
        self._aws, self._batch_size, self._refused = aws, batch_size, refused or {}
        ledger = Ledger(aws, dynamodb, POWERTOOLS_LOG_LEVEL="CRITICAL")
        ledger.post(*messages)
        tables = ledger.tables
        written = sorted(ledger.items(tables.journal), key=lambda item: item["account_version"])
        codes = {name: code for name, (_, code) in (damaged or {}).items()} | dict.fromkeys(
            self._refused, "EVENT_REFUSED"
        )
        self._entries = [entry_from_item(item) for item in written if item["transaction_id"] not in codes]
        changes = {name: change for name, (change, _) in (damaged or {}).items()}
        items = [_changed(item, changes.get(item["transaction_id"], {})) for item in written]
        self._dead = {
            _letter_of(item): codes[item["transaction_id"]] for item in items if item["transaction_id"] in codes
        }
        self._items = list(map(to_dynamodb, items))
        refill(dynamodb, tables.journal, self._items)
        self._function = self._load(aws, tables, dynamodb)
        self._consumer = new_consumer(aws, self._function.bus.name, self._function.bus.name)

    def __call__(self, faults: FaultsAt) -> ScenarioResult:
        publisher = self._function.publisher
        with _refusing(publisher.bus.client, self._refused), faults.on(*self._clients()):
            wrong = self._publish(faults)
        events = self._consumer.take()
        letters = take_dead_letters(self._aws, publisher.dead_letter_queue_url)
        dead = {letter.body: letter.attributes.get("reason_code") for letter in letters if letter.reason}
        if dead != self._dead:
            wrong.append(f"the dead letters are {dead}, expected {self._dead}")
        heard = {f"{event['detail-type']} {json.dumps(event['detail'], sort_keys=True)}" for event in events}
        return ScenarioResult(faults, (sorted(heard), dead), [*wrong, *violations(self._entries, events)])

    def _load(self, aws: Endpoint, tables: Tables, dynamodb: Endpoint) -> ModuleType:
        return publish_outcomes(aws, POWERTOOLS_LOG_LEVEL="CRITICAL")

    def _clients(self) -> list[Any]:
        publisher = self._function.publisher
        return [publisher.bus.client, publisher.queue_client]

    def _publish(self, faults: Faults) -> list[str]:
        """Returns a sentence for everything that wasn't published."""
        stream = Stream(list(map(stream_record, self._items)), self._batch_size)
        for _ in range(MOST_INVOCATIONS + faults.outage.invocations):
            if stream.is_quiet:
                break
            faults.revive()
            stream.deliver(self._function, Killed)
        return [] if stream.is_quiet and not stream.given_up else [f"still in the stream, or given up: {stream}"]


class PublishingAgain(Publishing):
    """Publishes the entries again, account by account. A request that fails is repeated, and `next` is followed."""

    @override
    def _load(self, aws: Endpoint, tables: Tables, dynamodb: Endpoint) -> ModuleType:
        return republish_outcomes(aws, tables, dynamodb, POWERTOOLS_LOG_LEVEL="CRITICAL")

    @override
    def _clients(self) -> list[Any]:
        return [*super()._clients(), self._function.republisher.client]

    @override
    def _publish(self, faults: Faults) -> list[str]:
        requests = self._requests()
        wrong: list[str] = []
        for _ in range(MOST_INVOCATIONS + faults.outage.invocations):
            if not requests:
                return wrong
            faults.revive()
            request = requests.pop(0)
            try:
                response = self._function.lambda_handler(request, Context())
            except (Killed, Exception):  # noqa: BLE001 (the caller sees that it failed, and tries again)
                requests.append(request)
            else:
                requests += response.get("next", [])
                wrong += [f"{name} in {response}" for name in ("error", "missing_versions") if response.get(name)]
        return [*wrong, f"not published again: {requests}"]

    def _requests(self) -> list[Any]:
        accounts = {item["account_id"]["S"]: None for item in self._items}
        return [{"republish": {"account_id": account_id}} for account_id in accounts]


class PublishingAllAgain(PublishingAgain):
    """Publishes the entries of all accounts again, one after the other, so that the calls are the same each time."""

    @override
    def _publish(self, faults: Faults) -> list[str]:
        with mock.patch("ledger.republishing.MAX_PARALLEL", 1):
            return super()._publish(faults)

    @override
    def _requests(self) -> list[Any]:
        return [{"republish": {"from": "2000-01-01T00:00:00Z"}}]


def _changed(item: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in {**item, **changes}.items() if value is not None}


def _letter_of(item: Mapping[str, Any]) -> str:
    """The body of the entry's dead letter: the request to publish it again, or its key if it has no version."""
    ids = {name: item[name] for name in ("account_id", "transaction_id")}
    if (version := item.get("account_version")) is None:
        return json.dumps(ids)
    versions = {"from_version": int(version), "to_version": int(version)}
    return json.dumps({"republish": {"account_id": item["account_id"], **versions}})


@contextlib.contextmanager
def _refusing(client: Any, refused: Mapping[str, str]) -> Iterator[None]:
    """Within it the bus doesn't take the events of these transactions."""
    session = client._endpoint.http_session
    send = session.send

    def refusing(request: AWSPreparedRequest) -> AWSResponse:
        events = json.loads(request.body)["Entries"]
        names = [json.loads(event["Detail"])["transaction_id"] for event in events]
        codes = {index: refused[name] for index, name in enumerate(names) if name in refused}
        if "ValidationException" in codes.values():
            return answer(request, 400, {"__type": "ValidationException", "message": "injected"})
        return put_others(codes, request, send)

    with mock.patch.object(session, "send", refusing):
        yield
