"""Profiles on a DynamoDB that is slow and fails: each delivery gets further, until all messages are done."""

import contextlib
import random
from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import UTC, datetime
from types import ModuleType
from typing import Any

import pytest
from botocore.awsrequest import AWSPreparedRequest, AWSResponse

from conditional_writes import Deadline
from conditional_writes.testing import Clock, Engine
from conditional_writes.upserts import plan
from ledger.core.profile_messages import decode
from tests.checkers.profiles import latest, read_profiles, violations
from tests.support.faults import internal_error
from tests.support.in_process import Aws, answered_by
from tests.support.reporting import Say
from tools.local_aws.functions import Context, again, invoke, record, upsert_profiles
from tools.local_aws.queues import take_dead_letters
from tools.local_aws.server import Endpoint
from tools.local_aws.tables import create_profiles_table
from workers.invocation import RESERVED_SECONDS, SETTLING_SECONDS
from workers.queue_messages import Again, Done, message_from_record

WORK_SECONDS = Context.timeout_seconds - RESERVED_SECONDS - SETTLING_SECONDS
"""The time that an invocation has for its requests."""
DEEPEST = [f"level {number}" for number in range(16)]
MOST_DELIVERIES = 5_000


def bodies(messages: int) -> list[dict[str, Any]]:
    """Each with 100 entries of the same map, 16 levels deep: 27 entries fit a request."""
    as_of = datetime.now(UTC).isoformat()
    return [
        {"account_id": "alice", "path": DEEPEST, "as_of": as_of}
        | {"entries": {f"{message} {entry}": entry for entry in range(100)}}
        for message in range(messages)
    ]


class Delivering:
    """A function that nobody called before, on a clock that nothing waits for, and one profile's messages."""

    def __init__(self, aws: Endpoint, clock: Clock) -> None:
        self.aws, self.clock, self.table = aws, clock, create_profiles_table(aws, "slow")
        self.function: ModuleType = upsert_profiles(aws, self.table, POWERTOOLS_LOG_LEVEL="CRITICAL")
        self.client = self.function.writer.client
        self.requests = 0
        self.records: list[dict[str, Any]] = []
        self.bodies: list[str] = []

    def send(self, *messages: dict[str, Any]) -> None:
        self.records = list(map(record, messages))
        self.bodies += [one["body"] for one in self.records]

    @contextlib.contextmanager
    def slowly(
        self, seconds: float, failing_share: float = 0.0, is_out: Callable[[], bool] = lambda: False
    ) -> Iterator[None]:
        """Each try of a call takes `seconds`. A share of the tries fail, every second of them after it took effect.

        While `is_out()`, all of them fail without an effect.
        """
        send, chance = self.client._endpoint.http_session.send, random.Random(1)

        def before_send(request: AWSPreparedRequest, **_: Any) -> AWSResponse | None:
            self.requests += 1
            self.clock.advance(seconds)
            if not is_out():
                if chance.random() >= failing_share:
                    return None
                if chance.random() < 0.5:
                    send(request)
            return internal_error(request)

        self.client.meta.events.register_first("before-send", before_send)
        yield
        self.client.meta.events.unregister("before-send", before_send)

    def until_done(self, deliver: Callable[[Sequence[dict[str, Any]]], set[str]]) -> int:
        """Returns the number of deliveries until all messages are done. `deliver` returns the ids of the others."""
        for delivery in range(1, MOST_DELIVERIES):
            back = deliver(self.records)
            self.records = [again(one) for one in self.records if one["messageId"] in back]
            if not self.records:
                self._check()
                return delivery
        raise AssertionError(f"{len(self.records)} messages aren't done after {MOST_DELIVERIES} deliveries")

    def write(self, records: Sequence[dict[str, Any]]) -> set[str]:
        """Without what the worker adds to the function's own requests: those of its attempts."""
        messages = [message_from_record(one) for one in records]
        for message in messages:
            message.content = decode(message.body)
        self.function.writer.write(messages, Deadline.after(WORK_SECONDS))
        assert all(isinstance(message.disposition, Again | Done) for message in messages)
        return {message.message_id for message in messages if isinstance(message.disposition, Again)}

    def _check(self) -> None:
        sent = latest((decode(body), datetime.now(UTC)) for body in self.bodies)
        assert list(violations(read_profiles(self.aws, self.table), sent)) == []
        assert not take_dead_letters(self.aws, self.function.worker.queue.dead_letter_url)


@pytest.fixture
def delivering(new_process: None) -> Iterator[Delivering]:
    services = Aws(Engine())
    with answered_by(services) as aws, services.engine.simulated_time() as clock:
        yield Delivering(aws, clock)


@pytest.mark.parametrize("share", [0, 0.3, 0.7])
def test_all_messages_of_a_profile_are_done_in_the_end(delivering: Delivering, share: float, say: Say) -> None:
    delivering.send(*bodies(4))
    with delivering.slowly(2, share):
        deliveries = delivering.until_done(lambda records: invoke(delivering.function, records, Context()))
    say(f"{deliveries} deliveries, {delivering.requests} requests")


@pytest.mark.parametrize(
    ("is_new", "statuses"),
    [(True, {200}), (False, {200}), (True, {200, 400})],
    ids=["written by a new process", "written by a warm one", "answered"],
)
def test_a_message_of_several_requests_is_done_although_only_one_is_taken_in_each_delivery(
    delivering: Delivering, monkeypatch: pytest.MonkeyPatch, statuses: Collection[int], say: Say, *, is_new: bool
) -> None:
    """After the first answer with one of these statuses each try fails.

    The answer to a request whose entries are all there is a refusal: then the profile and its map exist before.
    """
    answered = list[int]()
    if 400 in statuses:
        delivering.send({"account_id": "alice", "path": DEEPEST, "entries": {"first": 1}})
        delivering.write(delivering.records)
    delivering.send(*bodies(1))

    def deliver(records: Sequence[dict[str, Any]]) -> set[str]:
        answered.clear()
        if is_new:
            monkeypatch.setattr(plan, "recent_depths", plan.RecentDepths())
        return delivering.write(records)

    def note(http_response: AWSResponse, **_: Any) -> None:
        if http_response.status_code in statuses:
            answered.append(http_response.status_code)

    delivering.client.meta.events.register("after-call", note)
    with delivering.slowly(0.1, is_out=lambda: bool(answered)):
        say(f"{delivering.until_done(deliver)} deliveries, {delivering.requests} requests")
