"""Workers that transfer among the same accounts, in many orders: in virtual time, each order by its seed."""

import pytest

from benchmarks.mesh import FAST, Run, mesh
from conditional_writes.core.items import from_dynamodb
from tests.checkers.books import books_of, violations


@pytest.mark.parametrize("conflict_part", [0.0, 0.4], ids=["", "transactions in progress conflict"])
def test_in_any_order_a_mesh_leaves_whole_books_and_no_ticket(conflict_part: float, every_case: bool) -> None:
    shared_turns = 0
    for seed in range(200 if every_case else 3):
        run = Run(mesh(8), workers=3, messages=60, batch=10, latency=FAST, seed=seed, conflict_part=conflict_part)
        assert not violations(books_of(run.requests.items("accounts"), run.requests.items("journal")))
        records = {item["lock_key"]: item for item in map(from_dynamodb, run.requests.items("locks"))}
        if "lines" in records:
            assert records["lines served"]["ticket_served"] == records["lines"]["last_ticket"], seed
            shared_turns += int(records["lines"]["last_ticket"])
    assert shared_turns
