"""Nights with long journals, a million entries in one of them, an unreadable account, and one of 380 KB."""

import json
import subprocess
import sys
from datetime import timedelta

import pytest

from conditional_writes.core.items import from_dynamodb, item_bytes
from ledger.checkpoints import Checkpoint
from ledger.core.totals import HashTree
from tests.support.night import DAY, PAGE_BYTES, Night, account, entry
from tests.support.reporting import Say
from tools.local_aws.server import PROJECT

LAMBDA_MEGABYTES = 1024
MOST_MEGABYTES = 100


def run_night(say: Say, journals: dict[str, int], checkpoints: dict[str, int]) -> Night:
    """In a process of its own: its memory is measured. The unreadable account is named."""
    arguments = [sys.executable, "-m", "tests.support.night", json.dumps([journals, checkpoints])]
    ran = subprocess.run(arguments, cwd=PROJECT, stdout=subprocess.PIPE, text=True, check=True)
    night = Night(**json.loads(ran.stdout.splitlines()[-1]))
    say(
        f"{night.seconds:.0f} s in {len(night.outcomes)} invocations, {night.megabytes:.0f} MB at most,"
        f" {night.idle_megabytes:.0f} MB before, requests: {night.requests}"
    )
    [skipped] = night.skipped
    assert skipped.startswith("unreadable: it can't be read: TypeError: balance")
    return night


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_a_night_with_long_journals_checks_them_and_the_others_inside_1_gb(say: Say) -> None:
    """The journal of `most` is replayed page by page. The eight of `many` nearly fill the bounds of a page."""
    night = run_night(say, {"most": 240_000} | {f"many-{number}": 14_000 for number in range(8)}, {})
    assert night.counts == [50, 50, 1, 0]
    assert night.megabytes < LAMBDA_MEGABYTES


@pytest.mark.soak
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("since", [0, 100], ids=["whole", "from its checkpoint"])
def test_a_million_entries_are_replayed_in_constant_memory(say: Say, since: int) -> None:
    """The whole replay reads the index and then the table, the other one the index alone."""
    assert not Checkpoint(account("million", 1), DAY - timedelta(days=1), HashTree()).is_whole_due(DAY)
    night = run_night(say, {"million": 1_000_000}, {"million": since} if since else {})
    assert night.counts == [42, 41 + (not since), 1, 0]
    assert night.megabytes - night.idle_megabytes < MOST_MEGABYTES
    pages = 1_000_000 * item_bytes(from_dynamodb(entry("million", 1_000_000))) / PAGE_BYTES
    assert night.queries["million"] < (1.1 if since else 2.2) * pages
