"""A short soak of the deployed template.yaml: function processes are killed while messages and jobs are processed.

`make soak` runs a long one.
"""

import sys

import pytest

from tests.soak.run import Plan, soak
from tests.support.deployed import Bank
from tests.support.reporting import Say


@pytest.mark.timeout(900)
@pytest.mark.skipif(sys.platform != "linux", reason="finds the functions' processes in /proc")
def test_functions_killed_while_working_do_everything_exactly_once(bank: Bank, say: Say, every_case: bool) -> None:
    messages = 1_200 if every_case else 600
    plan = Plan(
        messages=messages,
        seed=1,
        minutes=10,
        mean_messages_between_kills=15,  # many kills: one that finds its process idle proves nothing
        seconds_between_runs=15,
        visibility_seconds=5,
        again_share=0.3,
        outage_seconds=15,
    )
    soaked = soak(bank, plan, lambda *_: None)
    died, hearing = sum(soaked.died.values()), soaked.hearing
    say(
        f"{soaked.tickets:,} tickets, {died} processes died; {hearing.events:,} events, {hearing.twice:,} again, "
        f"{hearing.gaps:,} gaps closed: {len(soaked.violations)} violations"
    )
    assert soaked.violations == []
    assert sum(soaked.died.values()) > 0
    assert soaked.tickets > 0, "workers should wait in line before the hot account"
    assert soaked.quiescence.books.counts()["POSTED"] > messages / 2
    types = soaked.quiescence.books.types()
    assert {"hold", "post_hold", "void_hold", "expire_hold", "reverse"} <= types.keys()
    assert len(soaked.scheduled_runs.times) >= 2, "one during the kills, and the last one"
