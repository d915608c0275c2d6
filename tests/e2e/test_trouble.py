"""A message that kills its function, on the deployed stack, with times that are scaled down."""

import contextlib
import io
import json
import zipfile
from collections.abc import Iterator

import pytest

from tests.checkers.books import violations
from tests.support.bodies import opening, payment
from tests.support.deployed import Bank, FunctionQueue, until
from tests.support.reporting import Say
from tools.local_aws.server import PROJECT
from tools.local_aws.stack import publish, unqualified

pytestmark = pytest.mark.exhaustive
"""Of each message, in an outage."""


@contextlib.contextmanager
def quick_redelivery(queue: FunctionQueue, seconds: int = 1) -> Iterator[None]:
    """Messages come again after at most so many seconds, and those of a killed function after twice as many."""
    queue.wait_until_drained()
    queue.take_dead_letters()
    changed = queue.changed_environment(LONGEST_REDELIVERY_SECONDS=str(seconds))
    with changed, queue.visibility_timeout(2 * seconds):
        yield


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
    name = unqualified(queue.function_name)
    lambda_.update_function_code(FunctionName=name, ZipFile=zipped(original=source, app=DEADLY))
    publish(lambda_, queue.function_name)
    try:
        yield
    finally:
        lambda_.update_function_code(FunctionName=name, ZipFile=zipped(app=source))
        publish(lambda_, queue.function_name)


def zipped(**modules: str) -> bytes:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        for name, source in modules.items():
            file.writestr(f"{name}.py", source)
    return archive.getvalue()


def test_a_message_that_kills_its_function_is_dead_lettered_and_its_neighbours_are_posted(bank: Bank, say: Say) -> None:
    queue, good = (
        bank.transactions,
        [opening("neighbours"), *(payment(f"t-{n}", "1.25", "neighbours") for n in range(98))],
    )
    deadly = json.dumps(payment("t-0", "1.25", "neighbours") | {"transaction_id": "deadly"})
    died = bank.died_at_work(queue.function_name)
    with quick_redelivery(queue, seconds=3), deadly_function(queue, "process_transactions"):
        queue.send(*good[:50], deadly, *good[50:])
        until(
            lambda: len(bank.books().journal.get("neighbours", [])) == len(good),
            "the good ones are posted",
            seconds=120,
        )
        posted_before = bank.died_at_work(queue.function_name) - died
        until(lambda: not queue.waiting(), "the deadly one is given up", seconds=120)
    [letter] = queue.take_dead_letters()
    kills = bank.died_at_work(queue.function_name) - died
    assert (letter.body, letter.attributes["reason_code"]) == (deadly, "FUNCTION_KILLED")
    assert letter.reason == "each of 5 attempts to process it killed its function: exit, memory or timeout"
    # Two deliveries that anything may have killed, then five attempts. On a busy machine a delivery may begin before
    # the one before it has ended, because the times are scaled down: the two may count as one.
    assert 5 <= kills <= 14
    assert violations(bank.books()) == []
    say(f"a message killed its function {kills} times; its {len(good)} neighbours were posted after {posted_before}")
