"""Every fault injected at every AWS call of a batch of profile updates, delivered until the queue is empty."""

import json
from collections.abc import Sequence
from typing import Any

import pytest

from tests.faults.every_call import inject_every_fault
from tests.faults.scenarios.profiles import Upserting, update
from tests.support.reporting import Say
from tools.local_aws.server import Endpoint

# The first update decides whether a name is an entry or a map, and a fault may change the order. So the maps exist
# before. Each account has maps of its own, so that depths learned for one don't change the requests for another.
THERE = [
    update("bob", "limits", 0, card=100, atm=50),
    update("dave", "contact", 0, phone="1", mail="d@example.com"),
    update("erin", "font", 2, size=12),
]
BATCH: list[Any] = [
    update("alice", "preferences", 5, theme="dark", language="de"),
    update("alice", "preferences.font", 5, size=12),
    update("alice", "preferences", 3, "size", theme="light", contrast=1),
    update("alice", "preferences", 5, theme="dark", language="de"),
    update("bob", "limits", 5, card=200),
    update("bob", "limits.atm", 5, day=20),  # An entry, not a map.
    update("bob", "limits", 6, "card", abroad=0),
    *(
        update("carol", "sessions.phone", number, **{f"s{number}": number, f"t{number}": number})
        for number in range(70)
    ),
    update("dave", "contact", None, phone="2"),
    update("dave", "contact", 1, phone="0", post="here"),
    update("erin", "font.size", 3, x=1),  # An entry, too.
    update("erin", "font", 3),
    "not JSON",
]
DEAD = [json.dumps(BATCH[5]), *(json.dumps(message) for message in BATCH[-3:-1]), "not JSON"]
OTHERS = [
    update("alice", "preferences", 4, theme="blue", contrast=2, sound="off"),
    update("alice", "preferences.font", 6, size=14),
    update("bob", "limits", 7, card=300, web=10),
    update("carol", "sessions", 1, tablet=True),
    update("carol", "sessions.phone", 500, s3="another's"),
    update("dave", "contact", 2, fax="0"),
    update("erin", "font", 0, face="serif"),
    update("frank", "preferences", 1, theme="dark"),
]

COMPETING: dict[str, Sequence[Any]] = {
    "nobody": [],
    "a worker with the same batch": BATCH,
    "a worker with others' entries": OTHERS,
}


@pytest.mark.filterwarnings("ignore:No application metrics")  # A killed handler has no metrics.
@pytest.mark.parametrize("competing", COMPETING)
def test_every_fault_at_every_call_leaves_what_no_fault_leaves(
    ministack: Endpoint, dynamodb: Endpoint, competing: str, say: Say, every_case: bool
) -> None:
    scenario = Upserting(ministack, dynamodb, THERE, BATCH, DEAD, competing=COMPETING[competing])
    profiles = inject_every_fault(scenario, say, every_case=every_case)
    assert profiles["bob"]["limits"]["atm"] == 50
    assert profiles["dave"]["contact"]["phone"] == "2"
    assert len(profiles["carol"]["sessions"]["phone"]) == 140
    assert ("frank" in profiles) == (competing == "a worker with others' entries")
