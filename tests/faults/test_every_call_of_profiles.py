"""Every fault injected at every AWS call of a batch of profile updates, delivered until the queue is empty."""

import json
from collections.abc import Sequence
from typing import Any

import pytest

from tests.faults.conftest import Inject
from tests.faults.scenarios.profiles import Upserting, erase, update
from tools.local_aws.server import Endpoint

# Each account has maps of its own, so that depths learned for one don't change the requests for another.
THERE = [
    update("bob", "limits", 0, card=100, atm=50),
    update("dave", "contact", 0, phone="1", mail="d@example.com"),
    update("erin", "font", 2, size=12),
    update("erin", "look.colours", 1, text="black", page="white"),
    update("erin", "look.colours.links", 2, new="blue"),
    update("erin", "devices.phone", 1, seen=1, trusted=True),
    update("grace", "contact", 1, phone="1", mail="g@example.com"),
    update("grace", "visits", 5, first="as late as the erasure"),
    update("grace", "contact", 6, fax="later"),
    update("iris", "visits", 0, *(f"visit {number}" for number in range(40))),  # Months ago: they are forgotten.
]
BATCH: list[Any] = [
    update("alice", "preferences", 5, theme="dark", language="de"),
    update("alice", "preferences.font", 5, size=12),
    update("alice", "preferences", 3, "size", theme="light", contrast=1),
    update("alice", "preferences", 5, theme="dark", language="de"),
    update("alice", "preferences.theme", 6, accent="blue"),  # A map in the place of an entry of the same batch.
    update("bob", "limits", 5, card=200),
    update("bob", "limits.atm", 5, day=20),  # A map in the place of an entry.
    update("bob", "limits", 6, "card", abroad=0),
    *(
        update("carol", "sessions.phone", number, **{f"s{number}": number, f"t{number}": number})
        for number in range(70)
    ),
    update("dave", "contact", None, phone="2"),
    update("dave", "contact", 1, phone="0", post="here"),
    update("erin", "font.size", 3, "unit", x=1),
    update("erin", "font", 4, "size"),  # The removal of a map that was an entry before.
    update("erin", "look", 3, colours="none"),  # An entry in the place of a map with another inside.
    update("erin", "look.colours", 2, text="late"),
    update("erin", "devices", 2, "phone"),  # The removal of a map, and one entry of it that is later.
    update("erin", "devices.phone", 3, seen=3),
    update("iris", "visits", 5, "visit 41", "visit 42", last="visit 43"),  # Needs a tidy profile.
    erase("grace", 5),
    erase("grace", 2),
    update("grace", "contact", 4, phone="late"),
    update("grace", "contact.mail", 7, work="g@work.example.com"),
    erase("henry", None),  # Nobody knows of him.
    update("henry", "contact", 8, phone="late"),
    update("erin", "font", 3),
    update("alice", "preferences", 9 + 301, theme="of the future"),
    "not JSON",
]
DEAD = [*(json.dumps(message) for message in BATCH[-3:-1]), "not JSON"]
OTHERS = [
    update("alice", "preferences", 4, theme="blue", contrast=2, sound="off"),
    update("alice", "preferences.font", 6, size=14),
    update("alice", "preferences", 7, theme="plain"),
    update("bob", "limits", 7, card=300, web=10),
    update("bob", "limits", 4, "atm"),
    update("carol", "sessions", 1, tablet=True),
    update("carol", "sessions.phone", 300, s3="another's"),
    update("dave", "contact", 2, fax="0"),
    update("erin", "font", 0, face="serif"),
    update("frank", "preferences", 1, theme="dark"),
    update("grace", "visits", 3, second="late"),
    update("grace", "visits.all", 8, third="later"),
    erase("grace", 6),
    update("henry", "preferences", 9, theme="as late as the erasure"),
    update("erin", "look.colours.links", 4, old="grey"),
    update("erin", "devices.phone.screen", 4, width=5),
    update("iris", "visits", 6, "visit 44"),
]

COMPETING: dict[str, Sequence[Any]] = {
    "nobody": [],
    "a worker with the same batch": BATCH,
    "a worker with others' entries": OTHERS,
}


@pytest.mark.parametrize("competing", COMPETING)
def test_every_fault_at_every_call_leaves_what_no_fault_leaves(
    aws: Endpoint, dynamodb: Endpoint, competing: str, inject: Inject
) -> None:
    profiles = inject(Upserting(aws, dynamodb, THERE, BATCH, DEAD, competing=COMPETING[competing]))
    assert profiles["bob"]["limits"]["atm"] == {"day": 20}
    assert profiles["dave"]["contact"]["phone"] == "2"
    assert len(profiles["carol"]["sessions"]["phone"]) == 140
    assert not any("visit 7" in of_map for of_map in profiles["iris"].values()), "its removal is forgotten"
    assert not profiles["henry"].keys() - {"account_id", "cw:erased_as_of"}
    assert profiles["grace"]["contact"] == {"mail": {"work": "g@work.example.com"}} | (
        {} if competing == "a worker with others' entries" else {"fax": "later"}
    )
    assert ("frank" in profiles) == (competing == "a worker with others' entries")
