"""How many orders there are, and that all of them are tried: the sizes that the explorer was made for."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from conditional_writes.testing import Engine, Fault
from tests.explore.scenario import Scenario
from tests.support.new_tables import definition

KILLS = (Fault.KILLED_BEFORE, Fault.KILLED_AFTER)


def table(engine: Engine) -> Any:
    client = engine.client()
    client.create_table(**definition("Items", {"id": "S"}))
    return client


def putting(*names: str) -> Callable[[Any], None]:
    def work(client: Any) -> None:
        for name in names:
            client.put_item(TableName="Items", Item={"id": {"S": name}})

    return work


def nothing(_: Any, outcomes: Sequence[Any]) -> bool:
    return len(outcomes) > 1


TWO_OF_SIX = Scenario(
    "two workers of six calls of one item, with a kill at each", [putting(*"xxxxxx")] * 2, table, nothing, KILLS
)
THREE_OF_FIVE = Scenario(
    "three workers of five calls, two of them of a common item",
    [putting("a", "x", "a", "x", "a"), putting("b", "x", "b", "x", "b"), putting("c", "x", "c", "x", "c")],
    table,
    nothing,
    (),
)
SCENARIOS = [TWO_OF_SIX, THREE_OF_FIVE]


@pytest.mark.exhaustive  # tests/unit/test_explore.py has smaller ones
@pytest.mark.parametrize("scenario", SCENARIOS, ids=str)
def test_all_orders_are_tried(scenario: Scenario, holds_in_every_order: Callable[[Scenario], None]) -> None:
    holds_in_every_order(scenario)
