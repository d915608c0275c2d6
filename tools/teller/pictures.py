"""Makes docs/pictures/teller-*.svg again: what the command prints, on a local stack that has just been deployed.

make up && .venv/bin/python -m tools.teller.pictures
"""

import contextlib
import io
import json
import re
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import typer
from rich.console import Console

from tools.teller.job_records import JOBS
from tools.teller.job_runs import begin, event_of
from tools.teller.message_queues import MessageQueue, counts_of
from tools.teller.operator import Operator
from tools.teller.statement import statement
from tools.teller.status import status
from tools.teller.transaction import transaction

PICTURES = Path(__file__).parents[2] / "docs" / "pictures"
COLUMNS = 80
STACK, ENDPOINT_URL = "teller-dev", "http://127.0.0.1:4566"
OPENING = {"type": "open_account", "account_id": "acc-1", "currency": "EUR", "overdraft_limit": "-800"}
PAYMENTS = [
    ("t-2", "1250.00", "wages"),
    ("t-3", "-640.50", "rent"),
    ("t-4", "-9000", "a car"),
    ("t-5", "-12,50", "lunch"),
]
HOLDS_AND_A_REVERSAL: list[dict[str, object]] = [
    {"type": "hold", "transaction_id": "h-1", "amount": "40"},
    {"type": "hold", "transaction_id": "h-2", "amount": "12.75", "expires_at": "2026-11-29T12:00:00Z"},
    {"type": "post_hold", "transaction_id": "p-1", "hold_id": "h-1", "amount": "15", "final": False},
    {"type": "reverse", "transaction_id": "r-1", "of_transaction_id": "t-3", "amount": "40.50"},
]
UPDATE = {"account_id": "acc-1", "path": ["preferences"], "entries": {"theme": "dark", "statements": "mail"}}


def main() -> None:
    endpoint_url = sys.argv[1] if len(sys.argv) > 1 else ENDPOINT_URL
    operator = Operator(STACK, endpoint_url, as_json=False)
    _post(operator)
    picture(operator, "teller statement acc-1", lambda: statement(operator, "acc-1"))
    picture(operator, "teller transaction acc-1 t-5", lambda: transaction(operator, "acc-1", "t-5"))
    picture(operator, "teller status", lambda: status(operator))


def picture(operator: Operator, command: str, run: Callable[[], None]) -> None:
    """Runs a subcommand, and makes a picture of its answer."""
    operator.console = Console(
        file=io.StringIO(), record=True, width=COLUMNS, force_terminal=True, highlight=False, markup=False, emoji=False
    )
    with contextlib.suppress(typer.Exit):  # something isn't well
        run()
    name = command.split(maxsplit=2)[1]
    svg = operator.console.export_svg(title=command, unique_id=f"teller-{name}")
    without_fonts = re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)  # the viewer's own will do
    (PICTURES / f"teller-{name}.svg").write_text(without_fonts)
    print(f"{PICTURES / f'teller-{name}.svg'}")


def _post(operator: Operator) -> None:
    """An account with a few transactions, one of them dead, with holds and a reversal; a profile; a run of each job."""
    deployment = operator.deployment
    sqs, queue_url = deployment.client("sqs"), deployment["TransactionsQueueUrl"]
    opening = json.dumps(OPENING | {"transaction_id": "t-1"})
    sqs.send_message(QueueUrl=deployment["AdministrationQueueUrl"], MessageBody=opening)
    _wait(operator)
    for name, amount, description in PAYMENTS:
        message = {"transaction_id": name, "account_id": "acc-1", "amount": amount, "description": description}
        sqs.send_message(QueueUrl=queue_url, MessageBody=json.dumps(message))
        _wait(operator)
    for about_it in HOLDS_AND_A_REVERSAL:
        sqs.send_message(QueueUrl=queue_url, MessageBody=json.dumps(about_it | {"account_id": "acc-1"}))
        _wait(operator)
    sqs.send_message(QueueUrl=deployment["ProfilesQueueUrl"], MessageBody=json.dumps(UPDATE))
    now = datetime.now(UTC).replace(second=0, microsecond=0)
    for job in JOBS.values():
        begin(deployment, job, event_of(job, now))
    _wait(operator)


def _wait(operator: Operator) -> None:
    outputs = [*(queue.output for queue in MessageQueue), *(job.queue_output for job in JOBS.values())]
    while sum(counts_of(operator.deployment, output).total for output in outputs):
        time.sleep(0.2)


if __name__ == "__main__":
    main()
