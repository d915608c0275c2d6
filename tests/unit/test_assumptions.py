"""An engine that answers wrongly is named by the assumption that it breaks, and the page has each assumption."""

from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError

from conditional_writes.testing import Engine
from tests.assumptions import bill, test_dynamodb
from tests.assumptions.bill import Bill
from tests.assumptions.page import PAGE, page
from tests.assumptions.places import KEY, Place, heard, remove_leftovers, table
from tests.support.new_tables import definition
from tools.local_aws.server import Endpoint


def _reverse_reasons(parsed: dict[str, Any]) -> None:
    parsed.get("CancellationReasons", []).reverse()


def _lose_the_item(parsed: dict[str, Any]) -> None:
    parsed.pop("Item", None)


WRONG: list[tuple[Callable[[dict[str, Any]], None], Callable[..., None]]] = [
    (_reverse_reasons, test_dynamodb.test_a_cancelled_transaction_has_one_reason_for_each_write_in_order),
    (_lose_the_item, test_dynamodb.test_a_consistent_read_sees_each_write_that_was_answered),
]


@pytest.mark.parametrize(("wrong", "assumption"), WRONG, ids=[wrong.__name__.strip("_") for wrong, _ in WRONG])
def test_a_wrong_answer_is_named(wrong: Callable[[dict[str, Any]], None], assumption: Callable[..., None]) -> None:
    with Engine() as engine:
        client = engine.client()
        with table(Place("wrong", engine.client, engine.clock)) as name:
            assumption(test_dynamodb.Items(client, name))
            client.meta.events.register("after-call.dynamodb", lambda parsed, **_: wrong(parsed))
            with pytest.raises((AssertionError, KeyError)):
                assumption(test_dynamodb.Items(client, name))


def test_a_bus_that_cant_be_removed_isnt_passed_over(aws: Endpoint) -> None:
    client = aws.client("events")

    def deny(**_: Any) -> None:
        raise ClientError({"Error": {"Code": "AccessDeniedException", "Message": "no right"}}, "DeleteEventBus")

    client.meta.events.register("before-call.events.DeleteEventBus", deny)
    place = Place("denied", lambda service: client if service == "events" else aws.client(service))
    with pytest.raises(ClientError, match="no right"), heard(place, {"source": ["s"]}):
        pass


def test_what_a_run_has_left_is_removed_though_something_may_not_even_be_listed(aws: Endpoint) -> None:
    def deny(model: Any, **_: Any) -> None:
        raise ClientError({"Error": {"Code": "AccessDenied", "Message": "no right"}}, model.name)

    def client(service: str) -> Any:
        made = aws.client(service)
        if service not in ("dynamodb", "sqs"):
            made.meta.events.register("before-call", deny)
        return made

    place = Place("left", client)
    client("dynamodb").create_table(**definition(place.new_name(), KEY, {}))
    for name in (place.new_name(), place.new_name(), "anothers"):
        client("sqs").create_queue(QueueName=name)
    said = remove_leftovers(place, place.prefix)
    assert [sentence.rpartition(": ")[2] for sentence in said] == ["no right"] * 4 + ["removed"] * 3
    assert not client("sqs").list_queues(QueueNamePrefix=place.prefix).get("QueueUrls")
    assert client("sqs").list_queues(QueueNamePrefix="anothers")["QueueUrls"]
    assert not [name for name in client("dynamodb").list_tables()["TableNames"] if name.startswith(place.prefix)]


def test_a_run_that_may_have_cost_too_much_is_interrupted_once(aws: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    interrupted: list[float] = []
    counted = Bill(most_dollars=2e-6)
    monkeypatch.setattr(bill._thread, "interrupt_main", lambda: interrupted.append(counted.dollars))
    client = counted.counting(aws.client("sqs"))
    for _ in range(8):
        client.list_queues()
    assert interrupted == [pytest.approx(6 * 0.4e-6)]


def test_the_page_has_each_assumption_and_each_difference() -> None:
    assert PAGE.read_text() == page(), "make it: .venv/bin/python -m tests.assumptions --page"
