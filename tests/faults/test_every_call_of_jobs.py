"""Every fault injected at every AWS call of a job, run until it is done: it does all of its work once."""

from unittest import mock

import pytest

from tests.faults.conftest import Inject
from tests.faults.scenarios.reconciliation import Reconciling
from tests.faults.scenarios.sending import NIGHT, charging, expiring
from tests.support.bodies import openings, payment, transfer
from tools.local_aws.server import Endpoint

BALANCES = {"anna": -100, "ben": -200, "cleo": 50, "dora": -300, "emil": -400, "finn": -500, "gina": 75}
EXPIRED, AT_ONCE, LATER = "2026-03-01T12:00:00Z", NIGHT.isoformat(), "2026-03-02T00:00:00.000001Z"
HOLDS = {"anna": [EXPIRED, LATER, AT_ONCE], "ben": [], "cleo": [None, EXPIRED], "dora": [LATER], "emil": [EXPIRED]}

in_between = pytest.mark.parametrize(
    "posted_in_between",
    [pytest.param(False, marks=pytest.mark.exhaustive), True],
    ids=["posted at the end", "posted before it is run again"],
)


@in_between
def test_each_overdrawn_account_is_charged_a_months_interest_once(
    aws: Endpoint, dynamodb: Endpoint, posted_in_between: bool, inject: Inject
) -> None:
    left = inject(charging(aws, dynamodb, BALANCES, accounts_per_step=3, posted_in_between=posted_in_between))
    charged = {name: 1000 * (BALANCES[name] - balance) for name, (balance, _, _) in left.items()}
    assert charged == {name: 28 * max(0, -balance) for name, balance in BALANCES.items()}


@in_between
def test_each_expired_hold_is_released_once(
    aws: Endpoint, dynamodb: Endpoint, posted_in_between: bool, inject: Inject
) -> None:
    left = inject(expiring(aws, dynamodb, HOLDS, posted_in_between=posted_in_between))
    held_and_versions = {name: tuple(rest) for name, (_, *rest) in left.items()}
    assert held_and_versions == {"anna": (10, 6), "ben": (0, 1), "cleo": (1, 4), "dora": (1, 2), "emil": (0, 3)}


NAMES = ["alice", "bob", "carol", "dave", "erin"]
BOOKS = [
    *openings(*NAMES, limit=-100),
    *(payment("1", 50, name) for name in NAMES[:3]),
    transfer("2", 70),
    transfer("3", 1000, "bob", "erin"),
]
ADDED = [*(payment("4", 5, name) for name in NAMES[1:]), transfer("5", 7, "bob", "carol")]


def test_a_reconciliation_counts_each_account_once_in_one_report(
    aws: Endpoint, dynamodb: Endpoint, inject: Inject
) -> None:
    left = inject(Reconciling(aws, dynamodb, BOOKS, accounts=len(NAMES), accounts_per_step=2))
    assert len(left) == 3  # The report, the lock and the root.


@pytest.mark.parametrize("damaged", ["alice", "carol"], ids=["unchanged", "with new entries"])
def test_the_night_after_finds_the_damage_and_leaves_the_checkpoints_of_the_others(
    aws: Endpoint, dynamodb: Endpoint, inject: Inject, damaged: str
) -> None:
    books = {"accounts": len(NAMES), "accounts_per_step": 3}
    with mock.patch("ledger.reconciler.PAUSES_SECONDS", (0, 0, 0)):
        inject(Reconciling(aws, dynamodb, BOOKS, added=ADDED, damaged=damaged, **books))
