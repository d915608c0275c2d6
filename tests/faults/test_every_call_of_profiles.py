"""Every AWS call of a batch of profiles' entries, struck by every fault, then delivered again until it is quiet."""

import itertools
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from conditional_writes.items import from_dynamodb
from ledger.profiles import ProfileUpdate, decode
from tests.faults.every_call import (
    Played,
    deliver_to_a_rival_first,
    deliver_until_quiet,
    strike_every_call,
    wrongly_queued,
)
from tests.faults.faults import Fault, Faults
from tests.local_aws.dead_letters import take_dead_letters
from tests.local_aws.function import Queue, invoke, record, upsert_profiles
from tests.local_aws.profiles_checker import latest, read_profiles, violations
from tests.local_aws.server import Endpoint
from tests.local_aws.tables import create_profiles_table, scan

START = datetime(2026, 3, 1, 12, tzinfo=UTC)


def update(account_id: str, path: str, seconds: float | None, *removed: str, **entries: Any) -> dict[str, Any]:
    body = {"account_id": account_id, "path": path.split("."), "entries": entries, "removed": removed}
    return body if seconds is None else body | {"as_of": (START + timedelta(seconds=seconds)).isoformat()}


# Whether a name is an entry's or a map's is up to who comes first, which a fault may change: those are there before.
# Each account has maps of its own: what is learned of one's doesn't change the number of requests for another's.
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
    update("bob", "limits.atm", 5, day=20),  # an entry, no map
    update("bob", "limits", 6, "card", abroad=0),
    *(
        update("carol", "sessions.phone", number, **{f"s{number}": number, f"t{number}": number})
        for number in range(70)
    ),
    update("dave", "contact", None, phone="2"),
    update("dave", "contact", 1, phone="0", post="here"),
    update("erin", "font.size", 3, x=1),  # an entry, too
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

_numbers = itertools.count(1)


def play(aws: Endpoint, dynamodb: Endpoint, rival: str, fault: Fault | None, at: int) -> Played:
    """Delivers the batch until the queue is quiet."""
    table = create_profiles_table(dynamodb, f"fault-{next(_numbers)}")
    function = upsert_profiles(aws, table, dynamodb)
    client = function.profiles.client
    assert not invoke(function, map(record, THERE))
    queue = Queue([record(message, sent_at=START + timedelta(seconds=9)) for message in BATCH])
    sent, faults = [*THERE, *BATCH], Faults(fault, at)
    if rival == "a worker with the same batch":
        deliver_to_a_rival_first(client, "UpdateItem", upsert_profiles(aws, table, dynamodb), queue.records)
    if rival == "a worker with others' entries":
        others = list(map(record, OTHERS))
        sent += OTHERS
        deliver_to_a_rival_first(client, "UpdateItem", upsert_profiles(aws, table, dynamodb), others)
    deliver_until_quiet(function, queue, faults, client, function.sqs)
    letters = take_dead_letters(aws, function.DEAD_LETTER_QUEUE_URL)
    alive: list[ProfileUpdate] = [decode(body) for body in map(json.dumps, sent) if body not in [*DEAD, '"not JSON"']]
    winners = latest((one, START + timedelta(seconds=9)) for one in alive)
    wrong = [*violations(read_profiles(dynamodb, table), winners), *wrongly_queued(queue, letters, DEAD)]
    return Played(faults, left(dynamodb, table), wrong)


def left(dynamodb: Endpoint, table: str) -> dict[str, Any]:
    """The profiles with their clocks, without the marks of which write was the last."""
    items = map(from_dynamodb, scan(dynamodb, table))
    marks = {"write_id", "item_bytes"}
    return {item["account_id"]: {name: item[name] for name in item if name not in marks} for item in items}


@pytest.mark.filterwarnings("ignore:No application metrics")  # a killed handler has none
@pytest.mark.parametrize("rival", ["nobody", "a worker with the same batch", "a worker with others' entries"])
def test_every_fault_at_every_call_leaves_what_no_fault_leaves(
    ministack: Endpoint, dynamodb: Endpoint, rival: str, capsys: pytest.CaptureFixture[str]
) -> None:
    profiles: Any = strike_every_call(lambda fault, at: play(ministack, dynamodb, rival, fault, at), capsys)
    assert profiles["bob"]["limits"]["atm"] == 50
    assert profiles["dave"]["contact"]["phone"] == "2"
    assert len(profiles["carol"]["sessions"]["phone"]) == 140
    assert ("frank" in profiles) == (rival == "a worker with others' entries")
