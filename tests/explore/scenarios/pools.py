"""Transactions of pools, while the pools get more shards."""

from tests.explore.bank import Opened, each_once, posting
from tests.explore.scenario import Scenario
from tests.support.bodies import compound, opening, reverse, set_shards, transfer

POOLS = Opened(opening("alice", -100), opening("bob"), opening("pool", shards=2), opening("till", shards=2))
INTO, OUT = transfer("t-1", 60, "alice", "pool"), transfer("t-2", 30, "pool", "bob")
IN_TOO, BETWEEN, GROWN = (
    transfer("t-4", 1, "alice", "pool"),
    transfer("t-3", 5, "till", "pool"),
    set_shards("more", 256),
)
WITH_FEE = compound("t-5", alice=-10, pool=9, till=1)
BACK, OUT_BACK = reverse("r-1", None, "alice", "t-5"), reverse("r-2", 7, "bob", "t-2", of_account_id="pool")
"""A worker chooses other shards of a pool of 2 than the next one."""

SCENARIOS = [
    Scenario(
        "two deliveries of a transfer into a pool that grows post it once",
        [posting(0, INTO), posting(1, INTO, receive_count=2), posting(2, GROWN)],
        POOLS,
        each_once(INTO, GROWN),
        completes=False,
    ),
    Scenario(
        "two deliveries of a transfer out of a pool that grows post it once",
        [posting(0, OUT), posting(1, OUT), posting(2, GROWN)],
        POOLS,
        each_once(OUT, GROWN),
        completes=False,
    ),
    Scenario(
        "two transfers that make one shard both count",
        [posting(0, INTO, BETWEEN), posting(2, BETWEEN, IN_TOO)],
        POOLS,
        each_once(INTO, BETWEEN, IN_TOO),
        completes=False,
    ),
    Scenario(
        "two workers that choose other shards post a payment with a fee once, and its reversal finds the right ones",
        [posting(0, WITH_FEE), posting(1, WITH_FEE, BACK)],
        POOLS,
        each_once(WITH_FEE, BACK),
        completes=False,
    ),
    Scenario(
        "a reversal that names the pool as the home waits for the transfer out of it, and both are posted once",
        [posting(0, OUT), posting(1, OUT_BACK), posting(2, GROWN)],
        POOLS,
        each_once(OUT, OUT_BACK, GROWN),
        completes=False,
    ),
]
