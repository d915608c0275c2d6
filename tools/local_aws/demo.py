"""`make demo`: deploys the stack on a local AWS, sends a day's messages, and checks books, profiles and events.

The local AWS is left running with the day's data, until `make down` or the next demo.
"""

import argparse
import itertools
import os
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from tests.checkers import books as books_checker
from tests.checkers import event_schemas
from tests.checkers import outcomes as outcomes_checker
from tests.checkers import profiles as profiles_checker
from tests.checkers.books import Books, read_books
from tests.checkers.profiles import Profiles, read_profiles
from tests.checkers.windows import NIGHT_CLAIMS, due_though_charged, open_though_expired
from tools.local_aws import left_running, scheduler, stack
from tools.local_aws.consumers import EVERYTHING, Event, new_consumer
from tools.local_aws.day import believable_day
from tools.local_aws.profiles_day import believable_updates
from tools.local_aws.queues import DeadLetter, messages_in_flight, waiting_messages
from tools.local_aws.server import LocalAwsError, port_number
from tools.local_aws.spinner import at_work
from tools.local_aws.tables import Tables
from tools.local_aws.up import first_commands
from tools.teller.deployment import Deployment
from tools.teller.job_records import JOBS
from tools.teller.letters import QueueName, in_general, look
from tools.teller.message_files import queue_of
from tools.teller.message_queues import MessageQueue

COMMAND = "make demo"
MESSAGES = 3_000
NIGHT = datetime(2026, 11, 21, 0, 30, tzinfo=UTC)
CONSUMERS = {"statements": EVERYTHING, "risk": {"detail-type": ["TransactionRejected", "TransactionRefused"]}}
"""The patterns of two consumers' rules."""
QUIET_SECONDS, STUCK_SECONDS = 20, 960
"""Without progress for so long, the demo says why it waits, and gives up. A message comes again within 900 s."""

console = Console(highlight=False)


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--port", type=port_number, default=4566)
    arguments.add_argument("--messages", type=int, default=MESSAGES)
    options = arguments.parse_args()
    try:
        _stop_an_earlier_demo()
    except LocalAwsError as error:
        console.print(f"[red]{escape(str(error))}")
        return 1
    try:
        return _run(options.port, options.messages)
    except BaseException as error:
        left_running.down()
        if isinstance(error, LocalAwsError):
            console.print(f"[red]{escape(str(error))}")
            return 1
        if isinstance(error, KeyboardInterrupt):
            console.print("\nInterrupted. The local AWS has been stopped.")
            return 130
        raise


def _stop_an_earlier_demo() -> None:
    running = left_running.found()
    if running and running.left_by != COMMAND:
        raise LocalAwsError(f"A local AWS of yours is running on {running.url}. `make down` stops it.")
    left_running.down()


def _run(port: int, messages: int) -> int:
    transactions, updates = believable_day(messages), believable_updates(messages // 3)
    with at_work(console, f"[bold]1[/]  Starting a local AWS on 127.0.0.1:{port} (ministack, IAM enforced)"):
        endpoint = left_running.start("127.0.0.1", port, COMMAND).endpoint
        os.environ.update(endpoint.environment)
    with at_work(console, "[bold]2[/]  Building the functions and layers (sam build)") as say:
        stack.build(say)
    with at_work(console, "[bold]3[/]  Deploying template.yaml, unchanged (sam deploy)") as say:
        deployed = stack.deploy(endpoint, say)
    consumers = {
        name: new_consumer(endpoint, deployed["OutcomesBusName"], name, pattern) for name, pattern in CONSUMERS.items()
    }
    console.print(f"[bold]4[/]  Sending the day: {len(transactions):,} transactions, {len(updates):,} profile updates")
    # Closings have a queue of their own: sent with the day, they would come before payments that were sent earlier.
    closings = [body for body in transactions if "close_account" in body]
    before = [(queue_of(body.encode()), body) for body in transactions if body not in closings]
    seconds = _send_and_wait(deployed, before, [(MessageQueue.PROFILES, body) for body in updates])
    seconds += _send_and_wait(deployed, [(queue_of(body.encode()), body) for body in closings])
    accounts, journal, reversals = (deployed[f"{name}TableName"] for name in ("Accounts", "Journal", "Reversals"))
    tables = Tables(accounts, journal, reversals=reversals)
    before_interest = read_books(endpoint, tables)
    console.print("[bold]5[/]  Running the nightly jobs, each of them twice")
    job_violations = _run_jobs_twice(deployed)
    console.print("[bold]6[/]  Checking the accounts, the journal, the profiles and the consumers' events\n")
    books = read_books(endpoint, tables)
    entries = {"statements": books.entries, "risk": [each for each in books.entries if each.outcome.reason]}
    heard = {name: consumer.take_until_heard(entries[name]) for name, consumer in consumers.items()}
    profiles = read_profiles(endpoint, deployed["ProfilesTableName"])
    refused_transactions = [
        *_dead_letters(deployed, QueueName.TRANSACTIONS),
        *_dead_letters(deployed, QueueName.ADMINISTRATION),
    ]
    refused_updates = _dead_letters(deployed, QueueName.PROFILES)
    table = Table(title="The day", title_justify="left", show_header=False, min_width=72)
    table.add_column(style="bold")
    table.add_column(justify="right")
    _add_transactions(table, transactions, before_interest, refused_transactions)
    _add_profiles(table, updates, profiles, refused_updates)
    _add_events(table, heard)
    table.add_row("messages per second", f"{(len(transactions) + len(updates)) / seconds:,.0f}")
    console.print(table)
    console.print()
    winners = profiles_checker.upserted(updates, refused_updates)
    status = _check(
        {
            books_checker.CLAIMS: [
                *books_checker.violations(books),
                *books_checker.vanished(transactions, books, refused_transactions),
            ],
            NIGHT_CLAIMS: [
                *job_violations,
                *due_though_charged(books),
                *open_though_expired(books, NIGHT),
            ],
            profiles_checker.CLAIMS: [
                *profiles_checker.violations(profiles, winners),
                *profiles_checker.vanished(updates, refused_updates),
            ],
            (*outcomes_checker.CLAIMS, *event_schemas.CLAIMS, "an event tells of every dead letter"): [
                f"{name}: {sentence}"
                for name, events in heard.items()
                for sentence in (
                    *outcomes_checker.violations(entries[name], events),
                    *outcomes_checker.refusal_violations(refused_transactions, events),
                    *outcomes_checker.untold(refused_transactions, events),
                    *event_schemas.violations(events),
                )
            ],
        }
    )
    [(busiest, _)] = Counter(entry.account_id for entry in books.entries).most_common(1)
    commands = ("status", f"statement {busiest}", "dead-letters transactions", "page")
    console.print(f"\n{first_commands(deployed, *commands)}", markup=False, soft_wrap=True)
    letters = len(refused_transactions) + len(refused_updates)
    console.print(f"`teller status` will say that {letters:,} dead letters aren't well: the day has them on purpose.")
    return status


def _dead_letters(deployed: stack.Stack, queue: QueueName) -> list[DeadLetter]:
    """The letters stay on their queue, for the commands to try."""
    letters = look(Deployment(deployed.name, deployed.endpoint.url), queue)
    return [DeadLetter(letter.body, letter.reason, letter.attributes) for letter in letters]


def _send_and_wait(deployed: stack.Stack, *messages: Sequence[tuple[MessageQueue, str]]) -> float:
    """Sends the messages, each list in its order, while the functions process them. Returns the seconds until the
    queues are empty."""
    sent = Counter(queue for queue, _ in itertools.chain(*messages))
    started = time.monotonic()
    columns = (TextColumn("   {task.description:<12}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as progress:
        bars = {queue: progress.add_task(queue, total=number) for queue, number in sent.items()}

        def show(waiting: Mapping[MessageQueue, int]) -> None:
            for queue, number in sent.items():
                progress.update(bars[queue], completed=number - waiting[queue])

        _send(deployed, *messages)
        _wait_until_empty(deployed, *sent, show=show)
    return time.monotonic() - started


def _send(deployed: stack.Stack, *messages: Sequence[tuple[MessageQueue, str]]) -> None:
    """Sends ten messages of each list in turn, each message to its queue."""
    sqs = deployed.endpoint.client("sqs")
    batches = [itertools.batched(each, 10, strict=False) for each in messages]
    for turn in itertools.zip_longest(*batches, fillvalue=()):
        entries = defaultdict[MessageQueue, list[Any]](list)
        for index, (queue, body) in enumerate(itertools.chain(*turn)):
            entries[queue].append({"Id": str(index), "MessageBody": body})
        for queue, each in entries.items():
            response = sqs.send_message_batch(QueueUrl=deployed[queue.output], Entries=each)
            if response.get("Failed"):
                raise LocalAwsError(f"the queue refused messages: {response['Failed']}")


def _run_jobs_twice(deployed: stack.Stack) -> list[str]:
    """Returns a sentence for each violation."""
    found = []
    for name in reversed(JOBS):  # the reconciliation is the last
        reports = [scheduler.run_job(deployed, name, NIGHT) for _ in range(2)]
        console.print(f"   {name:<27}done, and the second message did nothing")
        if reports[0] != reports[1]:
            found.append(f"{name}: two messages for one time left two reports: {reports}")
        _wait_until_empty(deployed, MessageQueue.ADMINISTRATION)
    report = scheduler.read_report(deployed, NIGHT)
    console.print(f"   Reconciled {report['accounts_checked']} accounts: {report['mismatches']} mismatches")
    return found + [f"reconciliation: {sentence}" for sentence in report["first_mismatches"]]


def _wait_until_empty(
    deployed: stack.Stack,
    *queues: MessageQueue,
    show: Callable[[Mapping[MessageQueue, int]], None] = lambda waiting: None,
) -> None:
    """Shows the numbers of waiting messages again and again. Raises LocalAwsError if they stay as they are."""
    sqs = deployed.endpoint.client("sqs")
    before: Mapping[MessageQueue, int] = {}
    while True:
        waiting = {queue: waiting_messages(sqs, deployed[queue.output]) for queue in queues}
        show(waiting)
        left, now = sum(waiting.values()), time.monotonic()
        if not left:
            return
        if waiting != before:
            before, since, said = waiting, now, False
        if now - since > STUCK_SECONDS:
            raise LocalAwsError(f"after {STUCK_SECONDS} s without progress {left} messages are still on their queues")
        if now - since > QUIET_SECONDS and not said:
            delivered = sum(messages_in_flight(sqs, deployed[queue.output]) for queue in queues)
            console.print(Padding(_why_it_waits(delivered, left - delivered), (0, 0, 0, 3), expand=False))
            said = True
        time.sleep(0.25)


def _why_it_waits(delivered: int, others: int) -> str:
    sentences = [f"No progress for {QUIET_SECONDS} s."]
    if others > 0:
        sentences.append(f"{others:,} messages wait for a function to take them: it is starting, or is busy.")
    if delivered:
        sentences.append(
            f"{delivered:,} messages were delivered: a function is at work on them, or they come again up to 15 "
            "minutes after a delivery that failed."
        )
    return " ".join([*sentences, "Ctrl-C ends the demo."])


def _add_transactions(table: Table, bodies: Sequence[str], books: Books, letters: Sequence[DeadLetter]) -> None:
    counts = books.counts()
    repeated = len(bodies) - counts.total() - len(letters)
    table.add_row("transactions sent", f"{len(bodies):,}")
    table.add_row("accounts", f"{len(books.accounts):,}")
    table.add_row("posted", f"{counts.pop('POSTED', 0):,}", style="green")
    for what, kind in (("sales with a fee", "compound"), ("holds placed", "hold"), ("reversals", "reverse")):
        table.add_row(f"  {what}", f"{books.types()[kind]:,}", style="dim green")
    table.add_row("rejected", f"{counts.total():,}", style="yellow")
    for reason, count in counts.most_common():
        table.add_row(f"  {reason}", f"{count:,}", style="dim yellow")
    table.add_row("duplicates absorbed", f"{repeated:,}")
    _add_dead_letters(table, letters)


def _add_profiles(table: Table, bodies: Sequence[str], profiles: Profiles, letters: Sequence[DeadLetter]) -> None:
    table.add_row("profile updates sent", f"{len(bodies):,}")
    table.add_row("profiles", f"{len(profiles):,}")
    table.add_row("profile entries", f"{sum(map(_entries, profiles.values())):,}", style="green")
    _add_dead_letters(table, letters)


def _add_events(table: Table, heard: Mapping[str, Sequence[Event]]) -> None:
    for name, events in heard.items():
        table.add_row(f"events heard by “{name}”", f"{len(events):,}", style="green")
        for detail_type, count in Counter(event["detail-type"] for event in events).most_common():
            table.add_row(f"  {detail_type}", f"{count:,}", style="dim green")
    table.add_section()


def _entries(value: Any) -> int:
    """The number of map entries in an item, nested maps included."""
    return sum(map(_entries, value.values())) if isinstance(value, dict) else 1


def _add_dead_letters(table: Table, letters: Sequence[DeadLetter]) -> None:
    table.add_row("dead-lettered", f"{len(letters):,}", style="red")
    for reason, count in Counter(in_general(letter.reason) or "no reason" for letter in letters).most_common():
        table.add_row(f"  {reason}", f"{count:,}", style="dim red")
    table.add_section()


def _check(found: Mapping[Sequence[str], Sequence[str]]) -> int:
    """Prints each group of claims and its violations. Returns the exit code."""
    for claims, violations in found.items():
        for claim in claims:
            mark = "[red]?[/]" if violations else "[green]✓[/]"
            console.print(Padding(f"{mark} {claim}", (0, 0, 0, 2), expand=False))
        for violation in violations:
            console.print(f"  [red]✗ {escape(violation)}")
    return 1 if any(found.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
