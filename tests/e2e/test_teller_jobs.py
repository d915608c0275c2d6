"""`teller jobs`, `jobs run` and `jobs release` on the deployed stack."""

import json
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from conditional_writes.items import from_dynamodb, to_dynamodb
from conditional_writes.locks import Lock, LockLost, Locks
from tests.support.command import Command
from tests.support.deployed import NEVER, Bank, opening, until
from tools.local_aws.tables import scan
from tools.teller import job_runs
from tools.teller.deployment import Deployment
from tools.teller.times import shown

CHARGE, RECONCILE = "charge_overdraft_interest", "reconcile_accounts"
TIMES = (f"2025-{month:02}-01T05:00:00+00:00" for month in range(1, 13))
"""Times of no other test. Each is used once."""


@pytest.fixture
def teller(bank: Bank) -> Iterator[Command]:
    """The command. In the end the interest that a run charged is posted."""
    yield Command(bank.stack)
    bank.transactions.wait_until_drained()


@pytest.fixture
def records(bank: Bank) -> Callable[[], dict[str, dict[str, Any]]]:
    """Reads the items of the Locks table, by their keys."""

    def read() -> dict[str, dict[str, Any]]:
        items = map(from_dynamodb, scan(bank.stack.endpoint, bank.stack["LocksTableName"]))
        return {item["lock_key"]: item for item in items}

    return read


@pytest.fixture
def locks(bank: Bank) -> Locks:
    """Takes the jobs' locks, as a run that is then killed."""
    return Locks(bank.stack.endpoint.client("dynamodb"), bank.stack["LocksTableName"])


def hold(locks: Locks, name: str, seconds: float, window: str) -> Lock:
    return locks.acquire(name, lease_seconds=seconds, why=f"for {window}, request r-1", window=window)


@contextmanager
def segments(bank: Bank, job: str, number: int) -> Iterator[None]:
    lambda_ = bank.stack.endpoint.client("lambda")
    function = bank.stack[f"{job.title().replace('_', '')}FunctionName"]
    before = lambda_.get_function_configuration(FunctionName=function)["Environment"]
    after = {"Variables": before["Variables"] | {"JOB_SEGMENTS": str(number)}}
    lambda_.update_function_configuration(FunctionName=function, Environment=after)
    try:
        yield
    finally:
        lambda_.update_function_configuration(FunctionName=function, Environment=before)


def test_a_job_is_run_by_hand_once_and_its_report_is_shown(
    teller: Command, records: Callable[[], dict[str, dict[str, Any]]]
) -> None:
    scheduled_time = next(TIMES)
    arguments = ("jobs", "run", CHARGE, "--for", scheduled_time, "--force")
    answer = teller.json(*arguments)
    record = records()[f"{CHARGE} {scheduled_time}"]
    assert (answer["job"], answer["outcome"], answer["scheduled_time"]) == (CHARGE, "Done", scheduled_time)
    assert (answer["report"], answer["segments"]) == ({"sent": record["sent"]}, 1)
    assert datetime.fromisoformat(answer["finished_at"]) == datetime.fromisoformat(record["finished_at"])
    again = teller.run(*arguments)
    assert again.status == 0
    assert f"was done before for this time: the run was finished at {record['finished_at']}" in " ".join(
        again.err.split()
    )
    assert shown(record["finished_at"]) in again.out
    assert f"{record['sent']:,}" in again.out


def test_a_time_that_counts_as_done_without_a_record_is_not_said_to_be_done(bank: Bank, teller: Command) -> None:
    teller.json("jobs", "run", CHARGE, "--for", next(TIMES), "--force")
    bank.stack.endpoint.client("dynamodb").update_item(
        TableName=bank.stack["LocksTableName"],
        Key=to_dynamodb({"lock_key": CHARGE}),
        UpdateExpression="SET windows_done_through = :time",
        ExpressionAttributeValues=to_dynamodb({":time": "2001-01-01T00:00:00+00:00"}),
    )
    ended = teller.run("jobs", "run", CHARGE, "--for", "2000-01-01T00:00:00Z", "--force")
    assert ended.status == 1
    assert f"{CHARGE} did nothing for 2000-01-01T00:00:00+00:00. No record says that it was done" in ended.err


def test_without_a_time_the_job_runs_for_this_minute_and_is_among_the_last_runs(bank: Bank, teller: Command) -> None:
    bank.transactions.send([opening("teller-job-1"), opening("teller-job-2")])
    bank.transactions.wait_until_drained()
    answer = teller.json("jobs", "run", RECONCILE, "--whole")
    age = datetime.now(UTC) - datetime.fromisoformat(answer["scheduled_time"])
    assert timedelta(0) <= age < timedelta(minutes=3)
    assert answer["report"]["accounts_replayed_whole"] == answer["report"]["accounts_checked"]
    [job] = [job for job in teller.json("jobs")["jobs"] if job["name"] == RECONCILE]
    assert answer["scheduled_time"] in [run["scheduled_time"] for run in job["runs"]]
    assert job["last_done"]["report"] == answer["report"]
    assert "ScheduleTimezone" not in job
    seen = teller.shown("jobs")
    assert f"{NEVER}, in UTC" in seen
    assert f"{answer['report']['accounts_checked']:,} accounts checked" in seen


def test_a_run_in_segments_is_waited_for(
    bank: Bank, teller: Command, records: Callable[[], dict[str, dict[str, Any]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    scheduled_time, seen = next(TIMES), list[job_runs.Progress]()
    monkeypatch.setattr(job_runs, "LOOKS_EVERY_SECONDS", 0.1)
    look = job_runs.progress_of
    monkeypatch.setattr(job_runs, "progress_of", lambda *about: seen.append(look(*about)) or seen[-1])
    with segments(bank, RECONCILE, 2):
        answer = teller.json("jobs", "run", RECONCILE, "--for", scheduled_time, "--force")
    assert (answer["outcome"], answer["segments"]) == ("Continued", 2)
    assert answer["report"]["accounts_checked"] == records()[f"{RECONCILE} {scheduled_time}"]["accounts_checked"]
    assert (seen[-1].done, seen[-1].segments) == (2, 2)
    assert [each.done for each in seen] == sorted(each.done for each in seen)


def test_mismatches_are_shown_whole_and_the_status_says_so(bank: Bank, teller: Command) -> None:
    bank.post("teller-wrong")
    client, table = bank.stack.endpoint.client("dynamodb"), bank.stack["AccountsTableName"]
    [item] = [item for item in scan(bank.stack.endpoint, table) if item["account_id"] == {"S": "teller-wrong"}]
    client.put_item(TableName=table, Item=item | {"balance": {"N": "7"}})
    scheduled_time = next(TIMES)
    try:
        answer = teller.json("jobs", "run", RECONCILE, "--for", scheduled_time, "--force", status=1)
        ended = teller.run("jobs", "run", RECONCILE, "--for", scheduled_time)
        jobs = teller.shown("jobs")
    finally:
        client.put_item(TableName=table, Item=item)
    [sentence] = answer["report"]["first_mismatches"]
    assert sentence.startswith("teller-wrong: changed account: ")
    assert "".join(sentence.split()) in "".join(ended.out.split())
    assert ended.status == 1
    assert ended.err.endswith("teller: reconcile_accounts found 1 mismatch\n")
    assert f"The run that was done last found 1 mismatch: - {sentence}" in " ".join(jobs.split())


def test_a_time_that_the_function_would_refuse_is_refused_with_its_sentence(bank: Bank, teller: Command) -> None:
    ahead = (datetime.now(UTC) + timedelta(days=900)).isoformat(timespec="seconds")
    error = teller.json("jobs", "run", CHARGE, "--for", ahead, status=2)["error"]
    assert error["code"] == "WRONG_USE"
    lambda_ = bank.stack.endpoint.client("lambda")
    event = json.dumps({"job": CHARGE, "scheduled_time": ahead})
    refused = lambda_.invoke(FunctionName=bank.stack["ChargeOverdraftInterestFunctionName"], Payload=event)
    answer = json.loads(refused["Payload"].read())
    until_now = "and now it is"
    assert error["reason"].partition(until_now)[0] == answer["errorMessage"].partition(until_now)[0]
    keys = [item["lock_key"]["S"] for item in scan(bank.stack.endpoint, bank.stack["LocksTableName"])]
    assert not [name for name in keys if ahead in name]


WRONG = {
    "another job": (
        ("jobs", "run", "reconcile"),
        "expected reconcile_accounts, charge_overdraft_interest or expire_holds",
    ),
    "a lock of another job": (("jobs", "release", "line"), "there is no job 'line'"),
    "whole interest": (("jobs", "run", CHARGE, "--whole"), "--whole is for reconcile_accounts"),
    "a time in words": (("jobs", "run", CHARGE, "--for", "tonight"), "expected an ISO 8601 time"),
    "an unknown subcommand": (("jobs", "start"), "No such command 'start'"),
}


@pytest.mark.parametrize(("arguments", "sentence"), WRONG.values(), ids=WRONG)
def test_a_wrong_use_is_a_sentence_and_changes_nothing(
    bank: Bank, teller: Command, arguments: tuple[str, ...], sentence: str
) -> None:
    before = list(scan(bank.stack.endpoint, bank.stack["LocksTableName"]))
    ended = teller.run(*arguments)
    assert (ended.status, ended.out) == (2, "")
    assert sentence in " ".join(ended.err.replace("│", " ").split())
    assert list(scan(bank.stack.endpoint, bank.stack["LocksTableName"])) == before


def test_a_prod_stack_is_not_changed_without_a_yes(
    bank: Bank, teller: Command, locks: Locks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Deployment, "is_prod", True)
    window = next(TIMES)
    lock = hold(locks, CHARGE, 0.001, window)
    time.sleep(1.1)
    before = list(scan(bank.stack.endpoint, bank.stack["LocksTableName"]))
    for arguments in (("jobs", "run", CHARGE), ("jobs", "release", CHARGE)):
        ended = teller.run(*arguments)
        assert (ended.status, ended.out) == (2, "")
        assert "is a prod stack: to r" in ended.err
    assert list(scan(bank.stack.endpoint, bank.stack["LocksTableName"])) == before
    lock.release()


def test_a_lapsed_lock_is_seen_released_and_the_run_goes_on(
    teller: Command, locks: Locks, records: Callable[[], dict[str, dict[str, Any]]]
) -> None:
    window = next(TIMES)
    hold(locks, CHARGE, 0.001, window).save_checkpoint({"after": None, "sent": 7})
    time.sleep(1.1)
    [job] = [job for job in teller.json("jobs")["jobs"] if job["name"] == CHARGE]
    [lock] = [lock for lock in job["locks"] if lock["state"] != "free"]
    assert (lock["state"], lock["working_on"], lock["checkpoint"]) == ("lapsed", window, {"after": None, "sent": 7})
    seen = " ".join(teller.shown("jobs").split())
    assert "never released; its lease ended" in seen
    assert "7 messages sent" in seen
    [released] = teller.json("jobs", "release", CHARGE)["locks"]
    assert (released["name"], released["result"]) == (CHARGE, "released")
    assert "leased_until" not in records()[CHARGE]
    ended = teller.run("jobs", "release", CHARGE)
    assert (ended.status, ended.out) == (0, "")
    assert f"No lock of {CHARGE} is held" in ended.err
    answer = teller.json("jobs", "run", CHARGE, "--for", window, "--force")
    assert answer["report"]["sent"] >= 7
    assert records()[CHARGE]["last_released"] == records()[CHARGE]["times_acquired"]


def test_the_lapsed_locks_of_segments_are_released(teller: Command, locks: Locks) -> None:
    window = next(TIMES)
    for number in (1, 3):
        hold(locks, f"{CHARGE} segment {number} of 3", 0.001, window)
    hold(locks, f"{CHARGE} segment 2 of 3", 0.001, window).release()
    time.sleep(1.1)
    released = {lock["name"]: lock["result"] for lock in teller.json("jobs", "release", CHARGE)["locks"]}
    assert released == {f"{CHARGE} segment {number} of 3": "released" for number in (1, 3)}


def test_a_lock_that_is_held_is_released_by_force_alone(
    teller: Command, locks: Locks, records: Callable[[], dict[str, dict[str, Any]]]
) -> None:
    window = next(TIMES)
    lock = hold(locks, RECONCILE, 600, window)
    stays = teller.run("jobs", "release", RECONCILE)
    assert (stays.status, stays.err) == (1, f"teller: not released: {RECONCILE}\n")
    assert "--force releases it nevertheless" in " ".join(stays.out.split())
    assert "request r-1" in " ".join(teller.shown("jobs").split())
    lock.save_checkpoint({"after": None})
    forced = teller.run("jobs", "release", RECONCILE, "--force")
    assert forced.status == 0
    assert "Warning: reconcile_accounts is held until" in forced.err
    assert "leased_until" not in records()[RECONCILE]
    with pytest.raises(LockLost):
        lock.complete()


def test_a_record_that_cannot_be_read_is_named_with_its_attribute(bank: Bank, teller: Command) -> None:
    client, table = bank.stack.endpoint.client("dynamodb"), bank.stack["LocksTableName"]
    damaged = {"lock_key": f"{CHARGE} segment 1 of 2", "leased_until": 5}
    client.put_item(TableName=table, Item=to_dynamodb(damaged))
    try:
        ended = teller.run("jobs", "release", CHARGE, "--force")
        seen = teller.shown("jobs")
    finally:
        client.delete_item(TableName=table, Key=to_dynamodb({"lock_key": damaged["lock_key"]}))
    assert ended.status == 1
    assert "leased_until: expected a text, got 5" in " ".join(ended.out.split())
    assert "leased_until: expected a text, got 5" in " ".join(seen.split())


def test_a_function_that_fails_is_the_commands_failure(bank: Bank, teller: Command, locks: Locks) -> None:
    lock = hold(locks, CHARGE, 600, "2025-01-01T00:00:00+00:00")
    try:
        ended = teller.run("jobs", "run", CHARGE, "--json")
    finally:
        lock.release()
    error = json.loads(ended.out)["error"]
    assert "lock 'charge_overdraft_interest' is taken until" in error["reason"]
    assert re.search(r"With --for \S+ the same command resumes the run from its checkpoint$", error["reason"])
    assert f"The lock {CHARGE} is held until " in " ".join(ended.err.split())
    assert "request r-1." in " ".join(ended.err.split())


def test_a_run_goes_on_without_the_command(
    teller: Command, records: Callable[[], dict[str, dict[str, Any]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    scheduled_time = next(TIMES)
    with monkeypatch.context() as patches:
        patches.setattr(job_runs, "progress_of", interrupt)
        ended = teller.run("jobs", "run", RECONCILE, "--for", scheduled_time, "--force")
    assert (ended.status, ended.out) == (1, "")
    assert f"interrupted. The run of {RECONCILE} goes on by itself" in ended.err
    until(lambda: "finished_at" in records().get(f"{RECONCILE} {scheduled_time}", {}), "the run is finished")


def test_a_run_that_comes_no_further_is_given_up(
    teller: Command, locks: Locks, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another invocation holds the lock for the same time, and was killed."""
    monkeypatch.setattr(job_runs, "LOOKS_EVERY_SECONDS", 0.05)
    monkeypatch.setattr(job_runs, "STALLED_AFTER_SECONDS", 1)
    scheduled_time = next(TIMES)
    lock = hold(locks, RECONCILE, 600, scheduled_time)
    error = teller.json("jobs", "run", RECONCILE, "--for", scheduled_time, "--force", status=1)["error"]
    lock.release()
    assert error["code"] == "STALLED"
    assert f"the run of {RECONCILE} for {scheduled_time} hasn't come any further" in error["reason"]
