"""A small scenario of each function. The batches have each kind of message that the larger batches have."""

import json
from typing import Any

from tests.faults.scenarios import Scenario, sending
from tests.faults.scenarios.lines import CASES, InLine
from tests.faults.scenarios.outcomes import Publishing, PublishingAgain
from tests.faults.scenarios.posting import Posting
from tests.faults.scenarios.profiles import Upserting, update
from tests.faults.scenarios.reconciliation import Reconciling
from tests.support.bodies import opening, openings, payment, transfer
from tools.local_aws.server import Endpoint


def posting(aws: Endpoint) -> Scenario:
    """Postings, rejections, a repetition and a changed payload, on one account and on two joined by a transfer."""
    changed, unknown = payment("1", 6), payment("1", 1, "nobody")
    batch = [
        *openings("alice", limit=-10),
        payment("1", 5),
        payment("1", 5),
        changed,
        payment("2", -100),
        *openings("bob", "carol", limit=-10),
        transfer("3", 7, "bob", "carol"),
        transfer("4", 4, "bob", "carol"),
        unknown,
        "not JSON",
    ]
    return Posting(aws, aws, batch, [json.dumps(changed), json.dumps(unknown), "not JSON"], maximum_waits=2)


def upserting(aws: Endpoint) -> Scenario:
    """Existing and missing maps, an earlier entry, a removal, an entry that becomes a map, and an invalid update."""
    there = [update("bob", "limits", 0, card=100, atm=50, web=10)]
    unfit: Any = update("bob", "limits", 5, card=20) | {"path": []}
    batch = [
        update("alice", "preferences.font", 5, size=12),
        update("alice", "preferences.font", 3, size=10, face="serif"),
        update("bob", "limits", 5, "atm", card=200),
        update("bob", "limits.web", 5, day=20),
        unfit,
        update("carol", "preferences", None, theme="dark"),
        "not JSON",
    ]
    return Upserting(aws, aws, there, batch, [json.dumps(unfit), "not JSON"])


def charging(aws: Endpoint) -> Scenario:
    return sending.charging(aws, aws, {"anna": -100, "ben": -200, "cleo": 50}, posted_in_between=True)


def reconciling(aws: Endpoint) -> Scenario:
    books = [*openings("alice", "bob", "carol", limit=-10), transfer("3", 7, "bob", "carol")]
    return Reconciling(aws, aws, books, accounts=3, accounts_per_step=2)


def posting_with_a_killer(aws: Endpoint) -> Scenario:
    """A message that kills its function each time, among others on its account and on another.

    Suspects are processed one after another, in any order, so no two messages of an account could change places.
    """
    killer = json.dumps(payment("2", 7))
    batch = [*openings("alice", limit=-10), payment("1", 5), killer, *openings("bob", limit=-10), "not JSON"]
    return Posting(aws, aws, batch, ["not JSON"], killers=[killer])


def posting_in_line(aws: Endpoint) -> Scenario:
    return InLine(aws, aws, CASES["two lost commits and a dead worker ahead"])


OUTCOMES = [
    opening("bob", -10, transaction_id="open bob"),
    opening("carol", -10, transaction_id="open carol"),
    transfer("1", 7, "bob", "carol"),
    transfer("2", 4, "bob", "carol"),
    payment("3", 5, "bob"),
    payment("4", 6, "bob"),
]
DAMAGED: dict[str, tuple[dict[str, Any], str]] = {"3": ({"status": "HELD"}, "NOT_AN_ENTRY")}
REFUSED = {"4": "InvalidArgument"}


def publishing(aws: Endpoint) -> Scenario:
    """Entries in two batches of a stream. Of two on one account one is damaged, and of the other the bus takes none."""
    return Publishing(aws, aws, OUTCOMES, DAMAGED, REFUSED, batch_size=5)


def publishing_again(aws: Endpoint) -> Scenario:
    return PublishingAgain(aws, aws, OUTCOMES, DAMAGED, REFUSED)


FUNCTIONS = [posting, posting_in_line, upserting, charging, reconciling, publishing, publishing_again]
