"""A soak of the deployed template.yaml: function processes are killed while messages and jobs are processed.

`make soak` runs a long one, with TELLER_SOAK_MESSAGES.
"""

import os
import sys
from pathlib import Path

import pytest

from tests.soak.scheduled_runs import RETRY_SETTINGS
from tests.soak.soak import Plan, soak
from tests.support.deployed import Bank
from tests.support.reporting import Say
from tools.local_aws import server, stack
from tools.local_aws.server import free_port, running

SHORT = Plan(
    messages=600,
    minutes=30,
    mean_messages_between_kills=15,  # many kills: one that finds its process idle proves nothing
    seconds_between_runs=15,
    visibility_seconds=5,
    again_share=0.3,
    outage_seconds=15,
)
CONCURRENCY = 4
"""Concurrent batches of each queue: as many as two cores can restart continually, because each kill is a cold start."""


@pytest.mark.exhaustive
@pytest.mark.timeout(2 * 3600)
@pytest.mark.skipif(sys.platform != "linux", reason="finds the functions' processes in /proc")
def test_functions_killed_while_working_do_everything_exactly_once(built: None, tmp_path: Path, say: Say) -> None:
    messages = int(os.environ.get("TELLER_SOAK_MESSAGES", "0"))
    plan = Plan(messages) if messages else SHORT
    log = tmp_path / "ministack.log"
    started = server.ministack(free_port(), log, settings=RETRY_SETTINGS)
    with running(started) as endpoint:
        deployed = stack.deploy(endpoint, MaximumConcurrency=CONCURRENCY)
        soaked = soak(Bank(deployed, started[1].pid, log), plan)
    say(
        f"{soaked.died} processes died; {soaked.tickets:,} tickets, {soaked.runs} scheduled times, "
        f"{len(soaked.books.entries):,} entries, {soaked.events:,} events: {len(soaked.violations)} violations"
    )
    assert soaked.violations == []
    assert soaked.died > 0
    assert soaked.tickets > 0, "workers should wait in line before the hot account"
    assert soaked.books.counts()["POSTED"] > plan.messages / 2
    assert {"hold", "post_hold", "void_hold", "expire_hold", "reverse"} <= soaked.books.types().keys()
    assert soaked.runs >= 2, "one during the kills, and the last one"
