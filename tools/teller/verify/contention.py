"""Step 4: thousands of messages of a few accounts, which all workers want at once."""

import random
import time
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from tools.teller.figures import logged_sums
from tools.teller.verify.run import Run, payment, problems_of
from tools.teller.verify.steps import Step, different

MESSAGES = 5_000
ACCOUNTS = 3
SECONDS = 300
CLOCKS_DIFFER = timedelta(minutes=5)


def contention(run: Run, step: Step, messages: int = MESSAGES) -> None:
    began = time.monotonic()
    account_ids = [run.account(f"hot-{number}") for number in range(1, ACCOUNTS + 1)]
    run.open(*account_ids)
    bodies = [payment(account_ids[number % ACCOUNTS], f"t-{number}", str(1 + number % 7)) for number in range(messages)]
    random.shuffle(bodies)
    run.send("Transactions", bodies)
    step.sent = f"{messages:,} payments on {ACCOUNTS} accounts, in no order"
    for account_id in account_ids:
        number = 1 + sum(body["account_id"] == account_id for body in bodies)
        _wait_for_entries(run, account_id, number)
    seconds = time.monotonic() - began
    step.measure(f"{messages / seconds:,.0f} a second, from the first sending to the last posting")
    for account_id in account_ids:
        entries, account = run.entries(account_id), run.item("AccountsTableName", account_id=account_id)
        expected = sum((Decimal(body["amount"]) for body in bodies if body["account_id"] == account_id), Decimal(0))
        step.check(
            f"{account_id}: versions are 1…n, each once, and the balance is the sum",
            *problems_of(account, entries, account_id),
            *different(f"{account_id}, balance by what was sent", expected, account["balance"] if account else None),
        )
    _check_conflicts(run, step)


def _wait_for_entries(run: Run, account_id: str, number: int) -> None:
    """Waits until the journal has so many entries. The version alone doesn't tell, if updates were lost."""
    run.wait(
        lambda: run.version(account_id) >= number or len(run.entries(account_id)) >= number,
        lambda: f"{account_id}: expected {number} entries, got {len(run.entries(account_id))}",
        SECONDS,
    )


def _check_conflicts(run: Run, step: Step) -> None:
    now = datetime.now(UTC) + CLOCKS_DIFFER
    number = int(logged_sums(run.deployment, "process_transactions", run.began, now)["Conflicts"])
    claim = "workers met on an account: commits were refused, and planned again"
    step.measure(
        f"{number:,} refused commits" + (" (a local AWS commits one at a time)" if run.deployment.is_local else "")
    )
    if number:
        step.check(claim)
    elif run.deployment.is_local:
        step.only_on_aws(claim, "a local AWS may have none: it answers one request at a time")
    else:
        step.not_tried(claim, "no commit was refused, or its metric isn't there yet: the messages came too slowly")
