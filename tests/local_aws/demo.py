"""`make demo`: a believable day through the real queue, on a local AWS, and the books checked at the end."""

import argparse
import itertools
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from ledger.messages import InvalidMessage, decode
from tests.local_aws import stack
from tests.local_aws.checker import CLAIMS, Books, read_books, violations
from tests.local_aws.day import believable_day
from tests.local_aws.dead_letters import DeadLetter, take_dead_letters
from tests.local_aws.server import LocalAwsError, ministack, running
from tests.local_aws.tables import Tables

MESSAGES = 3_000

console = Console(highlight=False)


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--port", type=int, default=4566)
    arguments.add_argument("--messages", type=int, default=MESSAGES)
    options = arguments.parse_args()
    try:
        with tempfile.TemporaryDirectory(prefix="teller-") as folder:
            return _run(options.port, options.messages, Path(folder))
    except LocalAwsError as error:
        console.print(f"[red]{error}")
        return 1
    except KeyboardInterrupt:
        console.print("\nStopped, and the local AWS with it.")
        return 130


def _run(port: int, messages: int, folder: Path) -> int:
    console.print(f"[bold]1[/]  Starting an AWS on 127.0.0.1:{port} (ministack, IAM enforced)")
    with running(ministack(port, folder / "ministack.log")) as endpoint:
        console.print("[bold]2[/]  sam build")
        stack.build()
        console.print("[bold]3[/]  sam deploy: template.yaml, as it goes to AWS")
        deployed = stack.deploy(endpoint)
        console.print(f"[bold]4[/]  A day of {messages:,} messages through the transactions queue")
        bodies = believable_day(messages)
        seconds = _send_and_wait(deployed, bodies)
        console.print("[bold]5[/]  Reading the books, and checking them\n")
        books = read_books(endpoint, Tables(deployed["AccountsTableName"], deployed["JournalTableName"]))
        return _report(bodies, books, take_dead_letters(endpoint, deployed["TransactionsDeadLetterQueueUrl"]), seconds)


def _send_and_wait(deployed: stack.Stack, bodies: list[str]) -> float:
    """Sends while the functions are working already. Returns the seconds until the queue was empty."""
    sqs = deployed.endpoint.client("sqs", max_pool_connections=8)
    queue_url = deployed["TransactionsQueueUrl"]
    started = time.monotonic()
    with (
        Progress(
            TextColumn("   {task.description:<10}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=console,
        ) as progress,
        ThreadPoolExecutor(2) as pool,
    ):
        sent = progress.add_task("sent", total=len(bodies))
        done = progress.add_task("done", total=len(bodies))

        def send(batch: tuple[str, ...]) -> None:
            entries = [{"Id": str(index), "MessageBody": body} for index, body in enumerate(batch)]
            response = sqs.send_message_batch(QueueUrl=queue_url, Entries=entries)
            if response.get("Failed"):
                raise LocalAwsError(f"the queue refused messages: {response['Failed']}")
            progress.advance(sent, len(batch))

        sending = [pool.submit(send, batch) for batch in itertools.batched(bodies, 10, strict=False)]
        deadline = started + 600
        while True:
            waiting = waiting_messages(sqs, queue_url)
            progress.update(done, completed=max(0, progress.tasks[sent].completed - waiting))
            if all(future.done() for future in sending):
                for future in sending:
                    future.result()
                if not waiting:
                    break
            if time.monotonic() > deadline:
                raise LocalAwsError(f"after {deadline - started:.0f} s {waiting} messages are still on the queue")
            time.sleep(0.25)
    return time.monotonic() - started


def waiting_messages(sqs, queue_url: str) -> int:
    """Messages on a queue, those being worked on and those that wait for a while included."""
    attributes = sqs.get_queue_attributes(QueueUrl=queue_url, AttributeNames=["All"])["Attributes"]
    return sum(int(attributes[f"ApproximateNumberOfMessages{which}"]) for which in ("", "NotVisible", "Delayed"))


def _report(bodies: list[str], books: Books, letters: list[DeadLetter], seconds: float) -> int:
    counts = books.counts()
    table = Table(title="The day", title_justify="left", show_header=False, min_width=72)
    table.add_column(style="bold")
    table.add_column(justify="right")
    table.add_row("messages sent", f"{len(bodies):,}")
    table.add_row("accounts", f"{len(books.accounts):,}")
    repeated = len(bodies) - counts.total() - len(letters)
    table.add_row("posted", f"{counts.pop('POSTED', 0):,}", style="green")
    table.add_row("rejected", f"{counts.total():,}", style="yellow")
    for reason, count in counts.most_common():
        table.add_row(f"  {reason}", f"{count:,}", style="dim yellow")
    table.add_row("duplicates absorbed", f"{repeated:,}")
    table.add_row("dead-lettered", f"{len(letters):,}", style="red")
    for reason, count in Counter(_in_general(letter.reason) for letter in letters).most_common():
        table.add_row(f"  {reason}", f"{count:,}", style="dim red")
    table.add_section()
    table.add_row("messages a second", f"{len(bodies) / seconds:,.0f}")
    console.print(table)
    console.print()
    found = [*violations(books), *vanished(bodies, books, letters)]
    for claim in (*CLAIMS, "every message is in the journal, or in the dead-letter queue with a reason"):
        console.print(f"  [red]?[/] {claim}" if found else f"  [green]✓[/] {claim}")
    for violation in found:
        console.print(f"  [red]✗ {violation}")
    return 1 if found else 0


def vanished(bodies: list[str], books: Books, letters: list[DeadLetter]) -> Iterator[str]:
    """A sentence for each message that is neither posted, nor rejected, nor dead-lettered with a reason."""
    posted = {(entry.account_id, entry.transaction_id) for entry in books.entries}
    dead = {letter.body for letter in letters if letter.reason}
    for body in bodies:
        if body in dead:
            continue
        try:
            message = decode(body)
        except InvalidMessage:
            yield f"an invalid message vanished: {body}"
        else:
            if any((account_id, message.transaction_id) not in posted for account_id in message.account_ids):
                yield f"a message vanished: {body}"


def _in_general(reason: str | None) -> str:
    """The reason without what is particular to one message."""
    if reason is None:
        return "no reason"
    return "transaction_id: used before with another payload" if "was used before" in reason else reason[:60]


if __name__ == "__main__":
    sys.exit(main())
