"""A night over many accounts in 1, 4 and 16 segments: the same findings, killed at random or with another number."""

import itertools
import random
from collections import deque
from collections.abc import Sequence
from typing import Any

import pytest

from conditional_writes.core.items import from_dynamodb
from ledger.core.accounts import account_item
from tests.support.faults import Killed
from tests.support.in_process import IN_PROCESS
from tests.support.night import account, entry
from tests.support.reconciling import Reconciled, event
from tools.local_aws.functions import Context
from tools.local_aws.server import Endpoint
from workers import scheduled_jobs as jobs

# A handler that is killed has no metrics.
pytestmark = pytest.mark.filterwarnings("ignore:No application metrics")

LEASE_SECONDS = 3600


def plant(ledger: Reconciled, accounts: int) -> tuple[int, ...]:
    """Accounts with an opening each. Of fifty, three are damaged. Returns the findings."""
    for number in range(accounts):
        name = f"acc-{number:04}"
        damage: dict[int, dict[str, Any]] = {0: {"balance": 7}, 2: {"balance": "text"}}
        ledger.put(ledger.tables.accounts, account_item(account(name, 1)) | damage.get(number % 50, {}))
        if number % 50 != 1:
            ledger.put_entry(from_dynamodb(entry(name, 1)))
    damaged = accounts // 50
    return accounts - damaged, damaged, 2 * damaged


def run_night(
    ledger: Reconciled, monkeypatch: pytest.MonkeyPatch, segments: Sequence[int], kills_every: int | None = None
) -> dict[str, Any]:
    """A night's report, after Lambda's asynchronous invocations of the function until none is left.

    Invocation after invocation, the parameter JobSegments has the next of these numbers. About each so many calls, the
    function is killed. Each night begins without checkpoints: otherwise it would do less than the one before.
    """
    ledger.empty([ledger.locks_table, ledger.tables.checkpoints])
    choose, numbers = random.Random(20_261_122), itertools.cycle(segments)
    waiting, outcomes = deque([(event(), "the schedule's")]), list[str]()
    monkeypatch.setattr(jobs, "_invoke_again", lambda again, _: waiting.append((again, f"{len(outcomes)}")))
    while waiting:
        assert len(outcomes) < 2_000
        again, request = waiting.popleft()
        function = ledger.job("reconcile_accounts", segments=next(numbers))
        # More than the check of one account takes: an account that is killed twice would be skipped.
        calls = choose.randrange(kills_every // 2, 2 * kills_every) if kills_every else None
        left = itertools.count(calls, -1) if calls else itertools.repeat(1)

        def kill(left: Any = left, **_: Any) -> None:
            if next(left) <= 0:
                raise Killed

        function.client.meta.events.register("before-call.dynamodb", kill)
        try:
            outcomes.append(function.lambda_handler(again, Context(150, aws_request_id=request))["outcome"])
        except Killed:
            outcomes.append("Killed")
            ledger.clock.sleep(LEASE_SECONDS)  # Lambda's last retry comes when the lease is over.
            waiting.append((again, request))
    assert outcomes.count("Done") == 1
    assert ("Killed" in outcomes) == bool(kills_every)
    return ledger.report()


def findings(report: dict[str, Any]) -> tuple[int, ...]:
    assert all("it can't be read" in sentence for sentence in report["first_skipped"])
    assert len(report["first_mismatches"]) == min(20, report["mismatches"])
    return tuple(int(report[name]) for name in ("accounts_checked", "accounts_skipped", "mismatches"))


@pytest.mark.timeout(900)
def test_the_findings_are_those_of_the_books_however_many_segments_there_are(
    aws: Endpoint, dynamodb: Endpoint, every_case: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = Reconciled(aws, dynamodb, monkeypatch)
    expected = plant(ledger, 5_000 if every_case and dynamodb == IN_PROCESS else 150)
    for segments in (1, 4, 16):
        report = run_night(ledger, monkeypatch, [segments])
        assert (findings(report), report["segments"]) == (expected, segments)


@pytest.mark.parametrize("segments", [[4], [4, 1, 16]], ids=["4", "4, then 1, then 16"])
def test_kills_and_a_number_that_changes_meanwhile_lose_and_double_nothing(
    aws: Endpoint, dynamodb: Endpoint, monkeypatch: pytest.MonkeyPatch, segments: list[int]
) -> None:
    ledger = Reconciled(aws, dynamodb, monkeypatch)
    expected = plant(ledger, 150)
    report = run_night(ledger, monkeypatch, segments, kills_every=60)
    assert (findings(report), report["segments"]) == (expected, 4)
