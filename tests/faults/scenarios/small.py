"""A small scenario of each function. The batches have each kind of message that the larger batches have."""

import json
from typing import Any

from tests.faults.scenarios import Scenario
from tests.faults.scenarios.interest import Charging
from tests.faults.scenarios.lines import CASES, InLine
from tests.faults.scenarios.outcomes import Publishing, PublishingAgain
from tests.faults.scenarios.posting import Posting
from tests.faults.scenarios.profiles import Upserting, update
from tests.faults.scenarios.reconciliation import Reconciling
from tools.local_aws.server import Endpoint

OPEN = {"type": "open_account", "transaction_id": "open", "currency": "EUR", "overdraft_limit": -10}
TRANSFER = {"type": "transfer", "from_account_id": "bob", "to_account_id": "carol"}


def posting(aws: Endpoint) -> Scenario:
    """Postings, rejections, a repetition and a changed payload, on one account and on two joined by a transfer."""
    changed: Any = {"transaction_id": "1", "account_id": "alice", "amount": 6}
    unknown: Any = {"transaction_id": "1", "account_id": "nobody", "amount": 1}
    batch = [
        OPEN | {"account_id": "alice"},
        {"transaction_id": "1", "account_id": "alice", "amount": 5},
        {"transaction_id": "1", "account_id": "alice", "amount": 5},
        changed,
        {"transaction_id": "2", "account_id": "alice", "amount": -100},
        OPEN | {"account_id": "bob"},
        OPEN | {"account_id": "carol"},
        TRANSFER | {"transaction_id": "3", "amount": 7},
        TRANSFER | {"transaction_id": "4", "amount": 4},
        unknown,
        "not JSON",
    ]
    dead = [json.dumps(changed), json.dumps(unknown), "not JSON"]
    return Posting(aws, aws, batch, dead, maximum_waits=2)


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
    return Charging(aws, aws, {"anna": -100, "ben": -200, "cleo": 50}, accounts_per_step=2, posted_in_between=True)


def reconciling(aws: Endpoint) -> Scenario:
    """Three accounts in two steps. A transfer joins two of them."""
    opened: list[Any] = [OPEN | {"account_id": name} for name in ("alice", "bob", "carol")]
    books = [*opened, TRANSFER | {"transaction_id": "3", "amount": 7}]
    return Reconciling(aws, aws, books, accounts=3, accounts_per_step=2)


def posting_with_a_killer(aws: Endpoint) -> Scenario:
    """A message that kills its function each time, among others on its account and on another.

    Suspects are processed one after another, in any order, so no two messages of an account could change places.
    """
    killer = json.dumps({"transaction_id": "2", "account_id": "alice", "amount": 7})
    batch = [
        OPEN | {"account_id": "alice"},
        {"transaction_id": "1", "account_id": "alice", "amount": 5},
        killer,
        OPEN | {"account_id": "bob"},
        "not JSON",
    ]
    return Posting(aws, aws, batch, ["not JSON"], killers=[killer])


def posting_in_line(aws: Endpoint) -> Scenario:
    """Two lost commits on an account in whose line a dead worker is ahead."""
    return InLine(aws, aws, CASES["two lost commits and a dead worker ahead"])


OUTCOMES: list[Any] = [
    OPEN | {"transaction_id": "open bob", "account_id": "bob"},
    OPEN | {"transaction_id": "open carol", "account_id": "carol"},
    TRANSFER | {"transaction_id": "1", "amount": 7},
    TRANSFER | {"transaction_id": "2", "amount": 4},
    {"transaction_id": "3", "account_id": "bob", "amount": 5},
    {"transaction_id": "4", "account_id": "bob", "amount": 6},
]
DAMAGED: dict[str, tuple[dict[str, Any], str]] = {"3": ({"status": "HELD"}, "NOT_AN_ENTRY")}
REFUSED = {"4": "InvalidArgument"}


def publishing(aws: Endpoint) -> Scenario:
    """Entries in two batches of a stream. Of two on one account one is damaged, and of the other the bus takes none."""
    return Publishing(aws, aws, OUTCOMES, DAMAGED, REFUSED, batch_size=5)


def publishing_again(aws: Endpoint) -> Scenario:
    """The same entries, account by account."""
    return PublishingAgain(aws, aws, OUTCOMES, DAMAGED, REFUSED)


FUNCTIONS = [posting, posting_in_line, upserting, charging, reconciling, publishing, publishing_again]
