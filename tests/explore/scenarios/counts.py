"""How many orders there are, and that all of them are tried: the sizes that the explorer was made for."""

from collections.abc import Callable, Sequence
from typing import Any

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


SCENARIOS = [
    Scenario(
        "two workers of six calls of one item, with a kill at each", [putting(*"xxxxxx")] * 2, table, nothing, KILLS
    ),
    Scenario(
        "three workers of five calls, two of them of a common item",
        [putting(name, "x", name, "x", name) for name in "abc"],
        table,
        nothing,
        (),
    ),
]
