"""Batches beside items that nearly fill DynamoDB's 400 kB: their memory and time, as on Lambda."""

import json
import subprocess
import sys

import pytest

from tests.support.big_profiles import FILLINGS, LATE, NEW, Batch, Refusals, serving
from tests.support.reporting import Say
from tools.local_aws.server import PROJECT

LAMBDA_MEGABYTES = 512
LAMBDA_CPUS = 512 / 1769
"""https://docs.aws.amazon.com/lambda/latest/dg/configuration-memory.html: at 1,769 MB a function has one vCPU."""
WORK_SECONDS = 33
"""Of the function's timeout: what its last requests may take is left out."""
PROFILES = 40


def run_batch(filling: str, as_of: str) -> tuple[Batch, Refusals]:
    with serving(filling) as (endpoint, refusals):
        ran = subprocess.run(
            [sys.executable, "-m", "tests.support.big_profiles", endpoint.url, str(PROFILES), as_of],
            cwd=PROJECT,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
    return Batch(**json.loads(ran.stdout.splitlines()[-1])), refusals


def check(batch: Batch) -> str:
    assert batch.returned == 0
    assert batch.megabytes < LAMBDA_MEGABYTES
    seconds = batch.cpu_seconds / LAMBDA_CPUS
    assert seconds < WORK_SECONDS
    return f"{batch.megabytes:.0f} MB at most, {batch.idle_megabytes:.0f} before, {seconds:.1f} s at 0.29 CPU"


def test_late_messages_of_40_big_profiles_are_done_in_512_mb(say: Say) -> None:
    batch, refusals = run_batch("numbers", LATE)
    say(check(batch))
    assert len(refusals.requests) == 2 * PROFILES


@pytest.mark.exhaustive
@pytest.mark.parametrize("as_of", [LATE, NEW])
@pytest.mark.parametrize("filling", FILLINGS)
def test_messages_of_40_big_profiles_are_done_in_512_mb(filling: str, as_of: str, say: Say) -> None:
    batch, _ = run_batch(filling, as_of)
    say(f"{filling}, {as_of}: {check(batch)}")
