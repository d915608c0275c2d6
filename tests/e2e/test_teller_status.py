"""`teller status` on the deployed stack, held against its queues, logs and tables."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

from conditional_writes.items import to_dynamodb
from tests.support.command import COLUMNS, Command
from tests.support.deployed import Bank, opening, until
from tools.local_aws.jobs import run_job

LINES = 40


def test_the_screen_says_what_waits_and_what_is_dead(bank: Bank) -> None:
    command = Command(bank.stack)
    bank.transactions.wait_until_drained()
    bank.transactions.take_dead_letters()
    bank.transactions.send(["not JSON", "nor this"])
    bank.transactions.wait_until_drained()
    answer = command.json("status", status=1)
    assert answer["dead_letters"]["transactions"] == 2
    assert answer["queues"]["transactions"]["waiting"] == 0
    assert answer["queues"]["transactions"]["oldest_seconds"] is None, "a local AWS doesn't know"
    ended = command.run("status")
    assert ended.status == 1
    assert "2 dead letters of transactions: teller dead-letters transactions" in ended.out
    assert "not known here" in ended.out
    assert len(bank.transactions.take_dead_letters()) == 2, "the letters weren't touched"
    assert command.run("status", "--json").out.count("dead letters of transactions") == 0


def test_what_became_of_messages_is_that_of_the_journal(bank: Bank) -> None:
    command, name = Command(bank.stack), "status-counts"
    bank.transactions.wait_until_drained()
    before = became(command)
    bank.post(name, "1", "2", "-90")
    bank.transactions.send([opening(name)])
    bank.transactions.wait_until_drained()
    entries = bank.books().journal[name]
    rejected = sum(bool(entry.outcome.reason) for entry in entries)
    expected = {"Posted": len(entries) - rejected, "Rejected": rejected, "Duplicates": 1}

    def are_counted() -> bool:
        after = became(command)
        counted = {metric: after[metric] - before[metric] for metric in expected}
        if counted != expected:
            bank.transactions.send(["not JSON"])  # a local AWS may hold lines back until the next invocation
            bank.transactions.wait_until_drained()
        return counted == expected

    until(are_counted, "the figures are the journal's")
    bank.transactions.take_dead_letters()


def became(command: Command) -> dict[str, int]:
    return command.json_of_any_status("status")["became_in_the_last_hour"]["transactions"]


@contextmanager
def ringing(bank: Bank, alarm: str) -> Iterator[None]:
    """Makes an alarm of the stack ring."""
    resources = bank.stack.endpoint.client("cloudformation").list_stack_resources(StackName=bank.stack.name)
    names = {each["LogicalResourceId"]: each["PhysicalResourceId"] for each in resources["StackResourceSummaries"]}
    cloudwatch = bank.stack.endpoint.client("cloudwatch")
    cloudwatch.set_alarm_state(AlarmName=names[alarm], StateValue="ALARM", StateReason="a test")
    try:
        yield
    finally:
        cloudwatch.set_alarm_state(AlarmName=names[alarm], StateValue="INSUFFICIENT_DATA", StateReason="a test")


@contextmanager
def lock_record(bank: Bank, name: str, leased_until: datetime) -> Iterator[None]:
    """A lock whose holder hasn't released it."""
    dynamodb, table = bank.stack.endpoint.client("dynamodb"), bank.stack["LocksTableName"]
    holder = {"who": "a function", "why": "for 2026-11-21T02:00:00+00:00, request r"}
    item = {"lock_key": name, "owner": "o", "token": 1, "leased_until": leased_until.isoformat(), "holder": holder}
    dynamodb.put_item(TableName=table, Item=to_dynamodb(item))
    try:
        yield
    finally:
        dynamodb.delete_item(TableName=table, Key=to_dynamodb({"lock_key": name}))


def test_alarms_that_ring_and_lapsed_locks_are_named(bank: Bank) -> None:
    command, now = Command(bank.stack), datetime.now(UTC)
    lapsed, held = "charge_overdraft_interest segment 1 of 7", "charge_overdraft_interest segment 2 of 7"
    with (
        ringing(bank, "OutcomesLateAlarm"),
        lock_record(bank, lapsed, now - timedelta(minutes=1)),
        lock_record(bank, held, now + timedelta(hours=1)),
    ):
        answer = command.json("status", status=1)
        screen = command.run("status").out
    [alarm] = answer["alarms"]["ringing"]
    assert alarm["name"] == "OutcomesLateAlarm"
    locks = {lock["name"]: lock for lock in answer["jobs"]["charge_overdraft_interest"]["locks"]}
    assert {name: locks[name]["state"] for name in (lapsed, held)} == {lapsed: "lapsed", held: "held"}
    assert locks[held]["working_on"] == "2026-11-21T02:00:00+00:00"
    troubles = " ".join(answer["not_well"])
    assert "OutcomesLateAlarm rings" in troubles
    assert f"'{lapsed}' has lapsed" in troubles
    assert held not in troubles
    assert "OutcomesLateAlarm since" in screen
    assert (len(screen.splitlines()) <= LINES, max(map(len, screen.splitlines())) <= COLUMNS) == (True, True)


def test_a_jobs_last_time_is_that_of_its_report(bank: Bank) -> None:
    command, time = Command(bank.stack), datetime.now(UTC).replace(microsecond=0)
    assert run_job(bank.stack, "reconcile_accounts", time)["outcome"] == "Done"
    job = command.json_of_any_status("status")["jobs"]["reconcile_accounts"]
    assert (job["last_done"]["scheduled_time"], job["is_enabled"]) == (time.isoformat(), True)
    assert job["last_done"]["report"]["accounts_checked"] == len(bank.books().accounts)
    assert datetime.now(UTC) - datetime.fromisoformat(job["last_done"]["finished_at"]) < timedelta(minutes=2)
    assert f"{time:%Y-%m-%d %H:%M} " in command.run("status").out


def test_a_stack_that_isnt_there_is_a_sentence_and_a_status(bank: Bank) -> None:
    ended = Command(bank.stack).run("status", "--stack", "nobody")
    assert (ended.status, ended.out) == (1, "")
    assert "there is no stack 'nobody' in" in ended.err
