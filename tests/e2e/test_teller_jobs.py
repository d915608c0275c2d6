"""`teller jobs`, `jobs run` and `jobs release` on the deployed stack."""

import time
from datetime import UTC, datetime, timedelta

import pytest

from conditional_writes.locks import Lock, LockLost, Locks
from tests.support.bodies import opening
from tests.support.command import Command
from tests.support.deployed import NEVER, Bank
from tools.local_aws.tables import scan
from tools.teller import job_runs
from tools.teller.deployment import Deployment
from tools.teller.times import shown

CHARGE, RECONCILE = "charge_overdraft_interest", "reconcile_accounts"
TIMES = (f"2025-{month:02}-01T05:00:00+00:00" for month in range(1, 13))
"""Times of no other test. Each is used once."""


@pytest.fixture
def teller(bank: Bank) -> Command:
    return Command(bank.stack)


@pytest.fixture
def locks(bank: Bank) -> Locks:
    """Takes the jobs' locks, as a run that is then killed."""
    return Locks(bank.stack.endpoint.client("dynamodb"), bank.stack["LocksTableName"])


def hold(locks: Locks, name: str, seconds: float, window: str) -> Lock:
    return locks.acquire(name, lease_seconds=seconds, why=f"for {window}, request r-1", window=window)


def test_a_job_is_run_by_hand_once_and_its_report_is_shown_and_among_the_last_runs(bank: Bank, teller: Command) -> None:
    bank.transactions.process(opening("teller-job"))
    answer = teller.json("jobs", "run", RECONCILE, "--whole")
    scheduled_time = answer["scheduled_time"]
    assert (answer["job"], answer["outcome"]) == (RECONCILE, "Done")
    assert timedelta(0) <= datetime.now(UTC) - datetime.fromisoformat(scheduled_time) < timedelta(minutes=3)
    record = bank.records()[f"{RECONCILE} {scheduled_time}"]
    assert datetime.fromisoformat(answer["finished_at"]) == datetime.fromisoformat(record["finished_at"])
    checked = record["accounts_checked"]
    assert answer["report"]["accounts_replayed_whole"] == answer["report"]["accounts_checked"] == checked
    again = teller.run("jobs", "run", RECONCILE, "--for", scheduled_time, "--force")
    assert (again.status, shown(record["finished_at"]) in again.out) == (0, True)
    assert "trial balance" in again.out
    done = f"was done before for this time: the run was finished at {datetime.fromisoformat(record['finished_at'])}"
    assert done in " ".join(again.err.split())
    [job] = [job for job in teller.json("jobs")["jobs"] if job["name"] == RECONCILE]
    assert scheduled_time in [run["scheduled_time"] for run in job["runs"]]
    assert job["last_done"]["report"] == answer["report"]
    seen = teller.shown("jobs")
    assert f"{NEVER}, in UTC" in seen
    assert f"{checked:,} account" in seen


def test_mismatches_are_shown_whole_and_the_status_says_so(bank: Bank, teller: Command) -> None:
    bank.transactions.process(opening("teller-wrong"))
    client, table = bank.stack.endpoint.client("dynamodb"), bank.stack["AccountsTableName"]
    [item] = [item for item in scan(bank.stack.endpoint, table) if item["account_id"] == {"S": "teller-wrong"}]
    client.put_item(TableName=table, Item=item | {"balance": {"N": "7"}})
    scheduled_time = next(TIMES)
    try:
        answer = teller.json("jobs", "run", RECONCILE, "--for", scheduled_time, "--force", status=1)
        ended = teller.run("jobs", "run", RECONCILE, "--for", scheduled_time)
    finally:
        client.put_item(TableName=table, Item=item)
    [sentence] = answer["report"]["first_mismatches"]
    assert sentence.startswith("teller-wrong: changed account: ")
    assert "".join(sentence.split()) in "".join(ended.out.split())
    assert (ended.status, ended.err.endswith("teller: reconcile_accounts found 1 mismatch\n")) == (1, True)
    assert f"The run that was done last found 1 mismatch: - {sentence}" in " ".join(teller.shown("jobs").split())


def test_lapsed_locks_are_seen_and_released_and_the_run_goes_on(
    bank: Bank, teller: Command, locks: Locks, monkeypatch: pytest.MonkeyPatch
) -> None:
    window = next(TIMES)
    hold(locks, CHARGE, 0.001, window).save_checkpoint({"after": None, "sent": 7, "accounts_skipped": 0})
    time.sleep(1.1)  # the leases have ended
    [job] = [job for job in teller.json("jobs")["jobs"] if job["name"] == CHARGE]
    lock = job["lock"]
    assert (lock["state"], lock["working_on"], lock["checkpoint"]["sent"]) == ("lapsed", window, 7)
    assert "never released; its lease ended" in " ".join(teller.shown("jobs").split())
    with monkeypatch.context() as prod:
        prod.setattr(Deployment, "is_prod", True)
        ended = teller.run("jobs", "release", CHARGE)
    assert (ended.status, ended.out, "is a prod stack: to release" in ended.err) == (2, "", True)
    assert teller.json("jobs", "release", CHARGE)["lock"]["result"] == "released"
    assert "leased_until" not in bank.records()[CHARGE]
    ended = teller.run("jobs", "release", CHARGE)
    assert (ended.status, ended.out.strip() == "", f"The lock of {CHARGE} isn't held" in ended.err) == (0, True, True)
    answer = teller.json("jobs", "run", CHARGE, "--for", window, "--force")
    assert answer["report"]["sent"] >= 7
    bank.transactions.wait_until_drained()


def test_a_lock_that_is_held_stops_a_run_and_is_released_by_force_alone(
    bank: Bank, teller: Command, locks: Locks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_runs, "LOOKS_EVERY_SECONDS", 0.05)
    monkeypatch.setattr(job_runs, "STALLED_AFTER_SECONDS", 0.5)
    window = next(TIMES)
    lock = hold(locks, RECONCILE, 600, window)
    stalled = teller.json("jobs", "run", RECONCILE, "--for", window, "--force", status=1)["error"]
    assert stalled["code"] == "STALLED"
    assert f"the run of {RECONCILE} for {window} hasn't come any further" in stalled["reason"]
    stays = teller.run("jobs", "release", RECONCILE)
    assert (stays.status, stays.err) == (1, f"teller: not released: {RECONCILE}\n")
    assert "--force releases it nevertheless" in " ".join(stays.out.split())
    forced = teller.run("jobs", "release", RECONCILE, "--force")
    assert (forced.status, "Warning: reconcile_accounts is held until" in forced.err) == (0, True)
    assert "leased_until" not in bank.records()[RECONCILE]
    with pytest.raises(LockLost):
        lock.complete()
