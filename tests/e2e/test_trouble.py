"""AWS in trouble, on the deployed stack: outages of DynamoDB and of SQS, and a message that kills its function.

Times are scaled down: a message comes again after at most a second, not after a quarter of an hour.
"""

import contextlib
import io
import json
import time
import zipfile
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.checkers import outcomes
from tests.checkers.books import violations
from tests.support.deployed import Bank, FunctionQueue, log_events, until
from tests.support.reporting import Say
from tools.local_aws.server import PROJECT

NAMES = ("alice", "bob")
DELIVERIES = 60
"""Of each message, in an outage."""


@contextlib.contextmanager
def quick_redelivery(queue: FunctionQueue, seconds: int = 1) -> Iterator[None]:
    """Messages come again after at most so many seconds, and those of a killed function after twice as many."""
    changed = queue.changed_environment(LONGEST_REDELIVERY_SECONDS=str(seconds))
    with changed, queue.visibility_timeout(2 * seconds):
        yield


@contextlib.contextmanager
def refused(bank: Bank, function_name: str, *actions: str) -> Iterator[None]:
    """An outage: the function's role may do none of these on any resource."""
    endpoint = bank.stack.endpoint
    configuration = endpoint.client("lambda").get_function_configuration(FunctionName=function_name)
    role, iam = configuration["Role"].rpartition("/")[2], endpoint.client("iam")
    denied = {"Effect": "Deny", "Action": list(actions), "Resource": "*"}
    document = json.dumps({"Version": "2012-10-17", "Statement": [denied]})
    iam.put_role_policy(RoleName=role, PolicyName="outage", PolicyDocument=document)
    try:
        yield
    finally:
        iam.delete_role_policy(RoleName=role, PolicyName="outage")


def openings(prefix: str) -> list[str]:
    message = {"type": "open_account", "transaction_id": "open", "currency": "EUR"}
    return [json.dumps(message | {"account_id": f"{prefix}-{name}"}) for name in NAMES]


def payments(prefix: str, number: int) -> list[str]:
    return [
        json.dumps({"transaction_id": f"t-{n}", "account_id": f"{prefix}-{NAMES[n % 2]}", "amount": "1.25"})
        for n in range(number)
    ]


def posted(bank: Bank, prefix: str) -> int:
    """The number of journal entries of these accounts."""
    return sum(entry.account_id.startswith(f"{prefix}-") for entry in bank.books().entries)


def returns(queue: FunctionQueue, since: datetime) -> Counter[str]:
    """How often each message went back to the queue, by message id."""
    lines = [json.loads(line) for line in log_events(queue.stack, queue.function_name, since) if line.startswith("{")]
    return Counter(line["message_id"] for line in lines if line.get("message") == "returned to the queue")


def wait_for_deliveries(queue: FunctionQueue, messages: int, deliveries: int, since: datetime) -> None:
    """Waits until each message went back so often. The log may be incomplete, so these are at least as many."""

    def all_returned() -> bool:
        time.sleep(1)
        returned = returns(queue, since)
        return len(returned) == messages and min(returned.values()) >= deliveries

    until(all_returned, f"each of {messages} messages went back {deliveries} times", seconds=400)


@pytest.mark.exhaustive
def test_an_outage_of_dynamodb_gives_up_no_message(bank: Bank, say: Say) -> None:
    queue, bodies = bank.transactions, openings("outage") + payments("outage", 38)
    queue.wait_until_drained()
    queue.take_dead_letters()
    since = datetime.now(UTC)
    with quick_redelivery(queue):
        with refused(bank, queue.function_name, "dynamodb:*"):
            queue.send(bodies)
            wait_for_deliveries(queue, len(bodies), DELIVERIES, since)
            assert not queue.take_dead_letters()
        over = time.monotonic()
        until(lambda: posted(bank, "outage") == len(bodies), "all are posted", seconds=60)
        seconds = time.monotonic() - over
        queue.wait_until_drained()
    assert not queue.take_dead_letters()
    assert violations(bank.books()) == []
    say(
        f"DynamoDB refused {DELIVERIES} deliveries of each of {len(bodies)} messages: 0 dead letters, "
        f"all posted {seconds:.1f} s after the end"
    )


@pytest.mark.exhaustive
def test_an_outage_of_the_dead_letter_queue_loses_no_dead_letter(bank: Bank) -> None:
    queue, bodies = bank.transactions, [f"junk {number}" for number in range(20)]
    queue.wait_until_drained()
    queue.take_dead_letters()
    since = datetime.now(UTC)
    with quick_redelivery(queue):
        with refused(bank, queue.function_name, "sqs:SendMessage", "sqs:SendMessageBatch"):
            queue.send(bodies + openings("letters") + payments("letters", 18))
            wait_for_deliveries(queue, len(bodies), DELIVERIES, since)
            assert not queue.take_dead_letters()
            assert posted(bank, "letters") == 20, "the others are posted meanwhile"
        until(lambda: not queue.waiting(), "all are dead-lettered", seconds=60)
    letters = queue.take_dead_letters()
    assert {letter.body for letter in letters} == set(bodies)  # as times are scaled down, some may be sent twice
    assert {letter.attributes["reason_code"] for letter in letters} == {"INVALID_MESSAGE"}


@pytest.mark.exhaustive
def test_an_outage_of_eventbridge_delays_the_events_of_outcomes_and_loses_none(bank: Bank, say: Say) -> None:
    queue, bodies = bank.transactions, openings("silent") + payments("silent", 98)
    queue.wait_until_drained()
    bank.take_unpublished()
    consumer = bank.new_consumer("after-the-outage", {"detail": {"account_id": [{"prefix": "silent-"}]}})
    # It is shorter than an invocation tries: the local AWS takes entries that a response names as failed for done.
    with refused(bank, bank.publisher, "events:PutEvents"):
        queue.send(bodies)
        time.sleep(15)
        assert consumer.take() == []
    over = time.monotonic()
    queue.wait_until_drained()
    entries = [entry for name in NAMES for entry in bank.books().journal[f"silent-{name}"]]
    events = consumer.take_until_heard(entries)
    seconds = time.monotonic() - over
    assert len(entries) == len(bodies)
    assert outcomes.violations(entries, events) == []
    assert not bank.take_unpublished()
    say(f"EventBridge refused events for 15 s: {len(events)} were heard of {seconds:.1f} s after the end")


DEADLY = """
import os
import original

decode = original.worker.decode

def deadly(body):
    if "deadly" in body:
        os._exit(9)
    return decode(body)

original.worker = original.worker._replace(decode=deadly)
lambda_handler = original.lambda_handler
"""


@contextlib.contextmanager
def deadly_function(queue: FunctionQueue, folder: str) -> Iterator[None]:
    """The deployed function, in which a body with the word "deadly" ends the process."""
    source = (PROJECT / "functions" / folder / "app.py").read_text()
    lambda_ = queue.stack.endpoint.client("lambda")
    lambda_.update_function_code(FunctionName=queue.function_name, ZipFile=zipped(original=source, app=DEADLY))
    try:
        yield
    finally:
        lambda_.update_function_code(FunctionName=queue.function_name, ZipFile=zipped(app=source))


def zipped(**modules: str) -> bytes:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        for name, source in modules.items():
            file.writestr(str(Path(f"{name}.py")), source)
    return archive.getvalue()


@pytest.mark.exhaustive
def test_a_message_that_kills_its_function_is_dead_lettered_and_its_neighbours_are_posted(bank: Bank, say: Say) -> None:
    queue, good = bank.transactions, openings("neighbours") + payments("neighbours", 97)
    deadly = json.dumps({"transaction_id": "deadly", "account_id": "neighbours-alice", "amount": 1})
    queue.wait_until_drained()
    queue.take_dead_letters()
    died = bank.died_at_work(queue.function_name)
    with quick_redelivery(queue, seconds=3), deadly_function(queue, "process_transactions"):
        queue.send([*good[:50], deadly, *good[50:]])
        until(lambda: posted(bank, "neighbours") == len(good), "the good ones are posted", seconds=120)
        posted_before = bank.died_at_work(queue.function_name) - died
        until(lambda: not queue.waiting(), "the deadly one is given up", seconds=120)
    [letter] = queue.take_dead_letters()
    kills = bank.died_at_work(queue.function_name) - died
    assert letter.body == deadly
    assert letter.attributes["reason_code"] == "FUNCTION_KILLED"
    assert letter.reason == "each of 5 attempts to process it killed its function: exit, memory or timeout"
    # Two deliveries that anything may have killed, then five attempts. On a busy machine a delivery may begin before
    # the one before it has ended, because the times are scaled down: the two may count as one.
    assert 5 <= kills <= 14
    assert violations(bank.books()) == []
    say(f"a message killed its function {kills} times; its {len(good)} neighbours were posted after {posted_before}")
