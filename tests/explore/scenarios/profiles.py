"""Upserts, removals and erasures of one profile at once: it ends as the set of them says, whatever their order."""

import json
from collections.abc import Callable, Sequence
from typing import Any

from conditional_writes import Deadline
from conditional_writes.core.items import from_dynamodb
from conditional_writes.testing import Outcome
from conditional_writes.upserts import plan
from ledger.core.profile_messages import decode
from ledger.profile_writer import ProfileWriter
from tests.checkers.profiles import is_mark, latest, violations
from tests.explore.bank import DELIVERY_SECONDS, LAST, NOW, PROFILES, Bank, Opened, assert_none, raised_none
from tests.explore.scenario import Scenario
from workers.queue_messages import Disposition, Done, QueueMessage

type Body = dict[str, Any]


def update(at: int, path: str = "contact", *, removed: Sequence[str] = (), **entries: Any) -> Body:
    as_of = f"2026-12-01T12:00:{at:02}+00:00"
    body = {
        "account_id": "alice",
        "path": path.split("."),
        "entries": entries,
        "removed": list(removed),
        "as_of": as_of,
    }
    return {name: value for name, value in body.items() if value}


def erasure(at: int) -> Body:
    return {"type": "erase_profile", "account_id": "alice", "as_of": f"2026-12-01T12:00:{at:02}+00:00"}


def write(bank: Bank, worker: int, *bodies: Body) -> list[Disposition | None]:
    plan.recent_depths = plan.RecentDepths()  # of a new process
    texts = list(map(json.dumps, bodies))
    messages: list[Any] = [QueueMessage("m", "r", text, 1, NOW, {}, content=decode(text)) for text in texts]
    ProfileWriter(bank.clients[worker], PROFILES).write(messages, Deadline.after(DELIVERY_SECONDS))
    return [message.disposition for message in messages]


def writing(worker: int, *bodies: Body) -> Callable[[Bank], Any]:
    return lambda bank: write(bank, worker, *bodies)


BEFORE = [update(1, email="old", phone="1"), update(2, "contact.home", street="Elm")]


def as_the_set_says(before: Sequence[Body], bodies: Sequence[Body]) -> Callable[[Bank, Sequence[Outcome]], None]:
    def check(bank: Bank, outcomes: Sequence[Outcome]) -> None:
        done = [outcome for outcome in outcomes if not outcome.was_killed]
        all_done = len(done) == len(outcomes) and all(
            isinstance(each, Done) for outcome in done for each in raised_none(outcome)
        )
        for is_final in (False, True):
            if is_final:
                assert all(isinstance(each, Done) for each in write(bank, LAST, *bodies))
            if is_final or all_done:
                found = {item["account_id"]: item for item in map(from_dynamodb, bank.items(PROFILES))}
                profiles = {
                    name: {each: item[each] for each in item if not is_mark(each)} for name, item in found.items()
                }
                messages = [(decode(json.dumps(body)), NOW) for body in (*before, *bodies)]
                assert_none(violations(profiles, latest(messages)))

    return check


def of(*batches: Body | tuple[Body, ...], is_new: bool = False) -> dict[str, Any]:
    before, whole = [] if is_new else BEFORE, [each if isinstance(each, tuple) else (each,) for each in batches]
    return {
        "workers": [writing(number, *batch) for number, batch in enumerate(whole)],
        "setup": Opened(then=lambda bank: [write(bank, LAST, body) for body in before]),
        "check": as_the_set_says(before, [body for batch in whole for body in batch]),
    }


KINDS = (
    update(4, "contact.email", work="a"),  # a map in the place of an entry
    update(4, "contact", home="none"),  # an entry in the place of a map
    update(5, "contact", phone="2"),
    update(3, "contact", removed=["phone", "fax"]),
    update(4, "look.colours", text="black", page="white"),
    update(6, "look", removed=["colours"]),  # of a map
    update(7, "look.colours", text="late"),
    update(5, "sessions.phone", **{f"s{number}": number for number in range(60)}),  # more than a request takes
)
OTHERS = (
    update(5, "contact", email="b", phone="3"),
    update(5, "contact.home", city="Ghent"),
    update(8, "look.colours.links", new="blue"),
    update(4, "sessions", tablet=True),
    update(6, "sessions.phone", s3="another's"),
)


SCENARIOS = [
    Scenario("of two values of one entry the later stays", **of(update(4, email="a"), update(5, email="b"))),
    Scenario("of two values of one time the same one stays", **of(update(5, email="a"), update(5, email="b"))),
    Scenario("a value and a later removal leave nothing", **of(update(4, email="a"), update(6, removed=["email"]))),
    Scenario(
        "a map and an entry within it",
        **of(update(4, "contact.home", city="Ghent"), update(5, home="none")),
        completes=False,
    ),
    Scenario("an erasure and a later value leave the value", **of(erasure(4), update(5, email="a")), completes=False),
    Scenario(
        "an erasure and an earlier value leave nothing",
        **of(erasure(5), update(4, "preferences", color="red")),
        completes=False,
    ),
    Scenario(
        "three writers of a profile that nobody had",
        **of(update(4, email="a"), update(5, email="b"), update(3, "contact.home", city="Ghent"), is_new=True),
        completes=False,
    ),
    Scenario("batches with changes of all kinds", **of(KINDS, OTHERS), budget=20, completes=False),
    Scenario("a batch and an erasure", **of((*KINDS, erasure(5)), OTHERS), completes=False),
]
