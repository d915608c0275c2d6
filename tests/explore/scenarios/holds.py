"""A hold that is posted, voided and expires at once, and holds of the same money."""

from datetime import timedelta

from tests.explore.bank import NOW, Opened, at_once
from tests.support.bodies import expire_hold, hold, opening, payment, post_hold, void_hold

EXPIRY = (NOW - timedelta(hours=1)).isoformat()
HELD = Opened(
    opening("alice"), opening("bob"), payment("first", 100), hold("h-1", 60, expires_at=EXPIRY), payment("later", -30)
)
POST, PART, VOID, EXPIRE = (
    post_hold("p-1", 50, to_account_id="bob"),
    post_hold("p-2", 40, final=False),
    void_hold(),
    expire_hold(as_of=EXPIRY),
)

SCENARIOS = [
    at_once("a hold is posted or voided", HELD, POST, VOID),
    at_once("a hold is posted or expires", HELD, PART, EXPIRE),
    at_once("a hold is posted, voided or expires", HELD, POST, VOID, EXPIRE, completes=False),
    at_once("two postings of one hold don't exceed it", HELD, POST, PART),
    at_once("a hold is posted to an account that is paid meanwhile", HELD, POST, payment("p-5", 7, "bob")),
    at_once("a hold and a payment don't take the same money", HELD, hold("h-2", 8), payment("p-3", -6)),
    at_once(
        "a hold and its own posting are in order",
        HELD,
        hold("h-2", 8),
        (hold("h-2", 8), post_hold("p-4", 8, hold_id="h-2")),
    ),
]
