"""Step 7: a batch of the largest transactions, and then the same ids with other payloads: refusals of megabytes."""

import time
from typing import Any

from tools.teller.letters import QueueName
from tools.teller.verify.dead_letters import take_own
from tools.teller.verify.run import Run, payment, problems_of
from tools.teller.verify.steps import Step, different

MESSAGES = 99
"""With their account as many as a commit takes."""
METADATA = {f"{number:02}{'𝄞' * 62}": "𝄞" * 256 for number in range(20)}
DESCRIPTION = "𝄞" * 500
"""Both as long as a message may have them: 28 KB, at 4 bytes a character."""
SECONDS = 120


def large_messages(run: Run, step: Step) -> None:
    account_id = run.account("large")
    run.open(account_id)
    began = time.monotonic()
    run.send("Transactions", [_payment(account_id, number, "1") for number in range(MESSAGES)])
    run.wait_for_version(account_id, 1 + MESSAGES, SECONDS)
    step.measure(f"posted in {time.monotonic() - began:.1f} s")
    before, account = run.entries(account_id), run.item("AccountsTableName", account_id=account_id)
    step.check("each is posted once", *problems_of(account, before, account_id))
    began = time.monotonic()
    run.send("Transactions", [_payment(account_id, number, "2") for number in range(MESSAGES)])
    step.sent = f"{MESSAGES} payments of 28 KB, and again with other amounts"
    letters = take_own(run, QueueName.TRANSACTIONS, MESSAGES, SECONDS)
    step.measure(f"refused in {time.monotonic() - began:.1f} s")
    codes = [letter.code for letter in letters]
    step.check(
        "each with a changed payload is a dead letter that says so",
        *different(account_id, {"PAYLOAD_CHANGED": len(letters)}, {code: codes.count(code) for code in set(codes)}),
    )
    step.check("the first outcomes stand", *different(account_id, len(before), len(run.entries(account_id))))


def _payment(account_id: str, number: int, amount: str) -> dict[str, Any]:
    return payment(account_id, f"t-{number}", amount, description=DESCRIPTION, metadata=METADATA)
