"""The function republish_outcomes: the events are those of the first time."""

import contextlib
import itertools
import json
import random
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import datetime
from types import ModuleType
from typing import Any

import pytest
from botocore.exceptions import ClientError
from hypothesis import given
from hypothesis import strategies as st

from conditional_writes import DeadlinePassed
from conditional_writes.core.client import SLOWEST_CALL_SECONDS
from ledger import republishing, table_reading
from ledger.republishing import NO_ENTRY, NOT_FOUND, NotPublished
from tests.support.bodies import Body, opening, openings, payment, transfer
from tests.support.histories import (
    HOUR,
    INDEXES,
    Step,
    histories,
    in_fewer_examples,
    post_history,
    reads_by,
    spoil,
    times_of,
)
from tests.support.late_index import AWAY, THROTTLED, LateIndex
from tests.support.ledger import YEAR_2020, Ledger
from tools.local_aws.consumers import new_consumer
from tools.local_aws.functions import Context, publish_outcomes, republish_outcomes, stream_record
from tools.local_aws.meter import Meter
from tools.local_aws.queues import DeadLetter, take_dead_letters
from tools.local_aws.server import Endpoint
from tools.local_aws.tables import scan
from workers.invocation import RESERVED_SECONDS

# A handler that fails has no metrics.
pytestmark = pytest.mark.filterwarnings("ignore:No application metrics")

LONG_AGO = {"from": "2000-01-01T00:00:00Z"}

type Answer = dict[str, Any]
type Events = dict[str, Any]
"""Events by their ids, each its detail type and its detail."""


class Republished(Ledger):
    """The functions that post, publish and publish again, and a consumer of all events.

    `index` is the index as it is seen when entries are published again.
    """

    def __init__(self, aws: Endpoint, dynamodb: Endpoint) -> None:
        super().__init__(aws, dynamodb)
        self.function: ModuleType = republish_outcomes(aws, self.tables, dynamodb)
        bus = self.function.bus
        self.of_the_stream = publish_outcomes(aws, OUTCOMES_BUS=bus.name)
        self.consumer = new_consumer(aws, bus.name, f"{bus.name}-consumer")
        self.reads = self.function.republisher.client
        self.meter, self.index = Meter(self.reads, bus.client), LateIndex(self.reads)

    def publish(self) -> Events:
        """The events of the whole journal, published from the stream."""
        for items in itertools.batched(scan(self.dynamodb, self.tables.journal), 100, strict=False):
            self.of_the_stream.lambda_handler({"Records": [stream_record(item) for item in items]}, Context())
        return self.events()

    def events(self) -> Events:
        """The events since they were taken last. None came twice."""
        events = self.consumer.take()
        found = {event["detail"]["id"]: (event["detail-type"], event["detail"]) for event in events}
        assert len(found) == len(events)
        return found

    def republish(self, seconds: float = 60, **request: Any) -> Answer:
        """Reads entries for so many seconds."""
        context = Context(seconds + republishing.PUBLISHING_SECONDS + SLOWEST_CALL_SECONDS + RESERVED_SECONDS)
        answer: Answer = self.function.lambda_handler({"republish": request}, context)
        return answer

    def republish_all(self, seconds: float = 60, **request: Any) -> Answer:
        """The answers until there is no further request, together."""
        together, requests, self.invocations = Counter[str](), [request], 0
        missing: list[Any] = []
        while requests:
            answer = self.republish(seconds, **requests.pop(0))
            assert json.dumps(answer)
            requests += (event["republish"] for event in answer["next"])
            missing += answer["missing_versions"]
            together.update({name: answer[name] for name in ("published", "dead_lettered")})
            self.invocations += 1
        return together | {"missing_versions": missing}

    def unpublished(self) -> list[DeadLetter]:
        return take_dead_letters(self.aws, self.function.publisher.dead_letter_queue_url)


@pytest.fixture
def bank(aws: Endpoint, dynamodb: Endpoint, monkeypatch: pytest.MonkeyPatch) -> Republished:
    bank = Republished(aws, dynamodb)
    reads_by(bank.clock, monkeypatch)
    monkeypatch.setattr("workers.failed_entries.time", bank.clock)
    return bank


def payments(count: int, amount: int = 1) -> list[Body]:
    return [payment(f"t-{number}", amount) for number in range(1, count + 1)]


def since(hours: float) -> dict[str, str]:
    return {"from": (YEAR_2020 + hours * HOUR).isoformat()}


def ids(account_id: str, *versions: int) -> set[str]:
    return {f"{account_id}#{version}" for version in versions}


def done(published: int, dead_lettered: int = 0) -> Answer:
    return {"published": published, "dead_lettered": dead_lettered, "missing_versions": [], "next": []}


def test_a_range_takes_few_requests(bank: Republished) -> None:
    """Ten events are one PutEvents."""
    for hour in range(32):
        bank.post_at(YEAR_2020 + hour * HOUR, payment(f"t-{hour}") if hour else opening())

    def requests(**request: Any) -> dict[str, int]:
        bank.meter.reset()
        assert not bank.republish(**request)["next"]
        return dict(bank.meter.requests)

    since = (YEAR_2020 + 17 * HOUR).isoformat()
    until = (YEAR_2020 + 25 * HOUR).isoformat()
    assert requests(account_id="alice") == {"GetItem": 1, "Query": 1, "PutEvents": 4}
    assert requests(account_id="alice", from_version=11, to_version=15) == {"GetItem": 1, "Query": 1, "PutEvents": 1}
    searched = requests(account_id="alice", **{"from": since})
    assert searched["Query"] in (6, 7), "the binary logarithm of 32 versions, and the page of entries"
    assert requests(**{"from": since}) == {"Scan": 1, "Query": searched["Query"], "PutEvents": 2}
    assert requests(**{"from": since, "to": until})["Query"] in (11, 12)


# --- what is left to other invocations ----------------------------------------------------------------------


def slow(bank: Republished, seconds: float) -> None:
    bank.reads.meta.events.register("before-call.dynamodb.Query", lambda **_: bank.clock.sleep(seconds))


def test_the_accounts_that_are_left_at_the_deadline_are_those_after_the_last_that_was_begun(
    bank: Republished, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(republishing, "ACCOUNTS_OF_A_PAGE", 7)
    monkeypatch.setattr(republishing, "MAX_PARALLEL", 1)  # So the clock goes on by a thread's own requests alone.
    names = [f"a-{number}" for number in range(24)]
    bank.post_at(YEAR_2020, *openings(*names))
    bank.post_at(YEAR_2020 + HOUR, *(payment(f"t-{number}", account_id=name) for number, name in enumerate(names)))
    slow(bank, 0.3)
    answer = bank.republish(seconds=1, **LONG_AGO)
    assert "after" in answer["next"][-1]["republish"]
    assert len(answer["next"]) <= 2
    published = bank.events()
    assert len(published) == answer["published"] < 48
    for event in answer["next"]:
        bank.republish_all(seconds=1, **event["republish"])
        rest = bank.events()
        assert not rest.keys() & published.keys()
        published |= rest
    assert published.keys() == set().union(*(ids(name, 1, 2) for name in names))


def test_a_pool_has_its_own_entries_and_each_shard_its(bank: Republished) -> None:
    bank.post(
        opening("pool", shards=4), opening(limit=-5), transfer("t-1", 5, "alice", "pool"), payment("t-2", 7, "pool")
    )
    published = bank.publish()
    shards = {detail["account_id"] for _, detail in published.values()} - {"alice", "pool"}
    assert bank.republish(account_id="pool") == done(1)
    of_shards = [bank.republish(account_id=name)["published"] for name in shards]
    assert (sum(of_shards), bank.republish(account_id="alice")) == (2, done(2))
    assert bank.events() == published


def test_without_time_for_anything_the_invocation_fails(bank: Republished) -> None:
    bank.post(opening())
    for request in ({"account_id": "alice"}, LONG_AGO):
        with pytest.raises(DeadlinePassed):
            bank.republish(seconds=0, **request)


def test_no_request_begins_after_its_time_however_slow_the_answers_are(
    bank: Republished, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(republishing, "MAX_PARALLEL", 1)  # So the clock goes on by a thread's own requests alone.
    names = ["alice", *(f"a-{number}" for number in range(20))]
    bank.post(*openings(*names), *(payment("t-1", account_id=name) for name in names))
    bank.change_entry("t-1", status=None)
    publisher, begun = bank.function.publisher, list[tuple[str, float]]()

    def answer_slowly(model: Any, **_: Any) -> None:
        begun.append((model.name, bank.clock()))
        bank.clock.sleep(0.3)

    ends = {"PutEvents": 1 + republishing.PUBLISHING_SECONDS, "SendMessageBatch": SLOWEST_CALL_SECONDS}
    for request in (LONG_AGO, {"account_id": "alice"}):
        begun.clear()
        with contextlib.ExitStack() as hooks:
            for client in (bank.reads, publisher.bus.client, publisher.queue_client):
                hooks.enter_context(hooked(client, "before-call", answer_slowly))
            beginning = bank.clock()
            bank.republish(seconds=1, **request)
        assert [each for each in begun if each[1] > beginning + ends.get(each[0], 1)] == []
        assert {"Query", "PutEvents"} <= {operation for operation, _ in begun}


def test_an_account_that_takes_too_much_of_the_table_for_one_of_several_gets_an_invocation_of_its_own(
    bank: Republished, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(republishing, "TABLE_PAGES_IN_PARALLEL", 1)
    bank.post_hourly(opening(limit=-200), *payments(9), opening("bob"))
    bank.index.error, bank.index.limits = AWAY, {"table": 4}
    answer = bank.republish(**LONG_AGO)
    assert answer == done(1) | {"next": [{"republish": {"account_id": "alice", "from_version": 1, "to_version": 10}}]}
    assert bank.events().keys() == ids("bob", 1)
    assert bank.republish(**answer["next"][0]["republish"]) == done(10)
    since = {"from": "2020-01-01T07:00:00Z"}
    answer = bank.republish(**since)
    assert answer == done(1) | {"next": [{"republish": {"account_id": "alice"} | since}]}
    assert bank.republish(**answer["next"][0]["republish"]) == done(3)


# --- trouble ------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def failing(bank: Republished, is_failing: Callable[[dict[str, Any]], bool]) -> Iterator[None]:
    """EventBridge fails for the events whose details are so."""

    def keep(params: dict[str, Any], context: dict[str, Any], **_: Any) -> None:
        context["details"] = [json.loads(entry["Detail"]) for entry in json.loads(params["body"])["Entries"]]

    def fail(parsed: dict[str, Any], context: dict[str, Any], **_: Any) -> None:
        for index, detail in enumerate(context["details"]):
            if is_failing(detail):
                parsed["Entries"][index] = {"ErrorCode": "InternalFailure", "ErrorMessage": "try again"}

    client = bank.function.bus.client  # the same of all functions in this process
    with (
        hooked(client, "before-call.eventbridge.PutEvents", keep),
        hooked(client, "after-call.eventbridge.PutEvents", fail),
    ):
        yield


@contextlib.contextmanager
def hooked(client: Any, event: str, hook: Callable[..., Any]) -> Iterator[None]:
    client.meta.events.register(event, hook)
    yield
    client.meta.events.unregister(event, hook)


def test_what_comes_after_an_event_that_eventbridge_does_not_take_is_left_with_it(bank: Republished) -> None:
    bank.post(opening(limit=-200), *payments(19))
    with failing(bank, lambda detail: detail["account_version"] in (4, 12)):
        answer = bank.republish(seconds=2, account_id="alice", from_version=2)
        left = {"republish": {"account_id": "alice", "from_version": 4, "to_version": 20}}
        assert answer == done(17) | {"next": [left]}
        with pytest.raises(NotPublished, match="InternalFailure: try again"):
            bank.republish(seconds=2, **left["republish"])
    assert bank.republish(**left["republish"]) == done(17)


def test_while_the_index_fails_versions_that_a_long_table_may_have_are_not_missing(
    bank: Republished, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(republishing, "MOST_TABLE_PAGES", 1)
    bank.post_hourly(opening(limit=-200), *payments(7))
    bank.index.error, bank.index.limits = THROTTLED, {"table": 1}
    for request in ({}, LONG_AGO):
        with pytest.raises((ClientError, DeadlinePassed)):
            bank.republish(account_id="alice", **request)
    bank.index.error = None
    assert bank.republish(account_id="alice") == done(8)


def test_while_eventbridge_fails_the_accounts_that_are_not_begun_are_left(
    bank: Republished, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(republishing, "MAX_PARALLEL", 1)
    names = [f"a-{number}" for number in range(5)]
    bank.post(*openings(*names))
    order = [item["account_id"]["S"] for item in scan(bank.dynamodb, bank.tables.accounts)]
    with failing(bank, lambda detail: detail["account_id"] == order[2]):
        answer = bank.republish(seconds=2, **LONG_AGO)
    assert answer == done(2) | {
        "next": [
            {"republish": {"account_id": order[2], "from_version": 1, "to_version": 1}},
            {"republish": LONG_AGO | {"after": order[2]}},
        ]
    }
    assert bank.republish(**answer["next"][1]["republish"]) == done(2)


def test_trouble_of_the_tables_fails_the_invocation_if_nothing_was_done_before(bank: Republished) -> None:
    bank.post(opening(), payment("t-1"))
    refusal = LateIndex.refusal("InternalServerError", "try again")
    for operation, requests in {
        "Query": [{"account_id": "alice"}, {"account_id": "alice"} | LONG_AGO, LONG_AGO],
        "Scan": [LONG_AGO],
        "GetItem": [{"account_id": "alice"}],
    }.items():
        with hooked(bank.reads, f"before-call.dynamodb.{operation}", lambda **_: refusal):
            for request in requests:
                with pytest.raises(ClientError, match="try again"):
                    bank.republish(**request)
    assert bank.republish(**LONG_AGO) == done(2)


def test_an_invocation_publishes_so_many_entries_and_leaves_the_rest_to_its_caller(
    bank: Republished, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One request never publishes everything, however fast: events have a quota, and a price."""
    monkeypatch.setattr(republishing, "MOST_PUBLISHED", 3)
    monkeypatch.setattr(republishing, "MAX_PARALLEL", 1)
    names = [f"a-{number}" for number in range(5)]
    bank.post(*(message for name in names for message in (opening(name), payment("t-1", account_id=name))))
    answer = bank.republish(**LONG_AGO)
    assert (answer["published"], [*answer["next"][0]["republish"]]) == (4, ["from", "after"])
    assert (bank.republish_all(**LONG_AGO)["published"], bank.invocations) == (10, 3)


# --- entries and accounts that were damaged -----------------------------------------------------------------


def test_a_damaged_entry_goes_to_the_dead_letter_queue_and_once_mended_its_letter_publishes_it(
    bank: Republished,
) -> None:
    bank.post(opening(), *payments(2))
    whole = bank.publish()
    bank.change_entry("t-1", status=None)
    assert bank.republish(account_id="alice") == done(2, dead_lettered=1)
    assert bank.events().keys() == ids("alice", 1, 3)
    [letter] = bank.unpublished()
    assert letter.attributes == {"reason_code": "NOT_AN_ENTRY"}
    bank.change_entry("t-1", status="POSTED")
    assert bank.republish(**json.loads(letter.body)["republish"]) == done(1)
    assert bank.events() == {"alice#2": whole["alice#2"]}


@pytest.mark.parametrize("limit", [1, 2, 100])
def test_an_entry_that_is_not_as_it_was_sealed_is_published_again_when_it_is_mended(
    bank: Republished, limit: int
) -> None:
    """From its own version on, too: the entry before it is read with the page, of which each has so many entries."""
    bank.index.limits = {"index": limit}
    bank.post_hourly(opening(), *payments(4))
    whole, sound = bank.publish(), bank.entry("t-2")
    bank.change_entry("t-2", amount=1_000)
    wrong = {"BROKEN_SEAL": "its seal doesn't follow from it and the entry before: one of them was changed"}
    for request, others in (({}, (1, 2, 4, 5)), ({"from_version": 3}, (4, 5)), ({"to_version": 3}, (1, 2))):
        assert bank.republish(account_id="alice", **request) == done(len(others), dead_lettered=1)
        assert bank.events().keys() == ids("alice", *others)
        [letter] = bank.unpublished()
        assert {letter.attributes["reason_code"]: letter.reason} == wrong
    bank.put_entry(sound)
    assert bank.republish(**json.loads(letter.body)["republish"]) == done(1)
    assert bank.events() == {"alice#3": whole["alice#3"]}
    bank.change_entry("t-2", seal="0" * 43)
    assert bank.republish(account_id="alice") == done(3, dead_lettered=2), "and the one after it can't be checked"


def test_an_entry_that_is_gone_is_missing_by_its_version(bank: Republished) -> None:
    bank.post_hourly(opening(), *payments(4))
    bank.delete_entry("t-2")
    bank.delete_entry("t-3")
    missing = [{"account_id": "alice", "from_version": 3, "to_version": 4, "reason": NO_ENTRY}]
    assert bank.republish(account_id="alice") == done(3) | {"missing_versions": missing}
    assert bank.republish(**LONG_AGO) == done(3) | {"missing_versions": missing}
    since_the_second = {"account_id": "alice", "from": (YEAR_2020 + 3 * HOUR).isoformat()}
    assert bank.republish(**since_the_second) == done(1) | {"missing_versions": missing}


def test_an_account_of_a_version_that_no_journal_reaches_takes_no_longer_than_its_journal(bank: Republished) -> None:
    bank.post(opening(), payment("t-1"))
    bank.change_account(version=10**14)
    bank.change_entry("t-1", account_version=10**12)
    together = bank.republish_all(account_id="alice")
    named = [range(each["from_version"], each["to_version"] + 1) for each in together["missing_versions"]]
    assert (together["published"], bank.invocations) == (2, 1)
    assert len(named) < 5
    assert sum(versions.stop - versions.start for versions in named) == 10**14 - 2


def test_many_missing_versions_are_named_in_several_answers(bank: Republished, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(republishing, "MOST_RANGES", 2)
    monkeypatch.setattr(republishing, "MOST_NAMED", 2)
    bank.post(opening(limit=-200), *payments(11))
    for number in range(2, 12, 2):
        bank.delete_entry(f"t-{number}")
    answer = bank.republish(account_id="alice")
    assert [each["from_version"] for each in answer["missing_versions"]] == [3, 5]
    assert answer["next"] == [{"republish": {"account_id": "alice", "from_version": 7, "to_version": 12}}]
    together = bank.republish_all(account_id="alice")
    assert [each["from_version"] for each in together["missing_versions"]] == [3, 5, 7, 9, 11]
    assert (together["published"], bank.invocations) == (7, 3)


def test_versions_of_which_neither_the_index_nor_a_long_table_can_tell_the_time_are_named(
    bank: Republished, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (republishing, table_reading):
        monkeypatch.setattr(module, "MOST_TABLE_PAGES", 1)
    monkeypatch.setattr(republishing, "TABLE_PAGES_IN_PARALLEL", 1)
    bank.post_hourly(opening(limit=-200), *payments(7))
    bank.index.hidden, bank.index.limits = {5}, {"table": 1}
    between = {"from": (YEAR_2020 + 5 * HOUR).isoformat(), "to": (YEAR_2020 + 7 * HOUR).isoformat()}
    missing = [{"account_id": "alice", "from_version": 5, "to_version": 5, "reason": NOT_FOUND}]
    for request in (between, {"account_id": "alice"} | between):
        assert bank.republish(**request) == done(2) | {"missing_versions": missing}
        assert bank.events().keys() == ids("alice", 6, 7)
    assert bank.republish(account_id="alice", from_version=4, to_version=6) == done(2) | {"missing_versions": missing}
    bank.index.hidden = set(range(2, 9))
    missing = [{"account_id": "alice", "from_version": 2, "to_version": 8, "reason": NOT_FOUND}]
    assert bank.republish(account_id="alice", **between) == done(0) | {"missing_versions": missing}


def test_a_damaged_account_is_named_and_the_others_are_published(bank: Republished) -> None:
    bank.post_hourly(opening(), opening("bob"), payment("t-1"), payment("t-2"))
    bank.change_account(balance="12")
    reason = "the account can't be read: TypeError: balance: expected Decimal, got str"
    assert bank.republish(account_id="alice") == {"error": {"code": "UNREADABLE", "reason": reason}}
    named = [{"account_id": "alice", "reason": reason}]
    assert bank.republish(**LONG_AGO) == done(1) | {"missing_versions": named}
    bank.change_account(balance=2, posted_at=None)
    bank.change_entry("t-1", posted_at="yesterday")
    reason = "entry 't-1': posted_at: expected a time with its offset, got 'yesterday'"
    assert bank.republish(account_id="alice", **LONG_AGO) == {"error": {"code": "UNREADABLE", "reason": reason}}
    named = [{"account_id": "alice", "reason": reason}]
    assert bank.republish(**LONG_AGO) == done(1) | {"missing_versions": named}


def test_of_any_history_exactly_the_range_is_published_again_in_any_state_of_the_index(bank: Republished) -> None:
    @in_fewer_examples
    @given(histories, st.randoms(use_true_random=False))
    def try_history(history: list[Step], choose: random.Random) -> None:
        post_history(bank, history)
        first = bank.publish()
        journals = bank.journals()
        times = sorted({time for journal in journals.values() for time in times_of(journal, choose)})
        for request in requests(list(journals), times, choose):
            wanted = set[str]()
            for name, journal in journals.items():
                if request.get("account_id", name) != name:
                    continue
                if "from" in request:
                    begin, end = (
                        datetime.fromisoformat(request[name]) if name in request else None for name in ("from", "to")
                    )
                    wanted |= ids(name, *journal.between(begin, end))
                else:
                    last = min(request.get("to_version", 1000), len(journal.entries))
                    wanted |= ids(name, *range(request.get("from_version", 1), last + 1))
            spoil(bank.index, choose.choice(INDEXES), choose)
            bank.index.limits = {"index": choose.randint(2, 40), "table": choose.randint(1, 40)}
            together = bank.republish_all(**request)
            assert together == {"published": len(wanted), "dead_lettered": 0, "missing_versions": []}
            assert bank.events() == {name: first[name] for name in wanted}

    try_history()


def requests(names: list[str], times: list[datetime], choose: random.Random) -> Iterator[Answer]:
    name = choose.choice(names)
    first = choose.randint(1, 20)
    yield {"account_id": name}
    yield {"account_id": name, "from_version": first, "to_version": choose.randint(first, 40)}
    begin, end = sorted(choose.sample(times, 2))
    since = {"from": begin.isoformat()}
    until = {"to": end.isoformat()}
    yield since
    yield since | until
    yield {"account_id": name} | since
    yield {"account_id": name} | since | until
