"""Step 3: a message that can never be processed is a dead letter with its reason, and nothing is posted for it."""

import json

from tools.teller.job_records import JOBS
from tools.teller.job_runs import begin
from tools.teller.letters import QueueName
from tools.teller.verify.own_letters import take_own
from tools.teller.verify.run import Run, payment
from tools.teller.verify.steps import Step, different


def poison(run: Run, step: Step) -> None:
    account_id = run.account("poison")
    run.open(account_id)
    run.send("Transactions", [payment(account_id, "t", "1")])
    run.wait_for_version(account_id, 2)
    expected = {
        QueueName.TRANSACTIONS: {
            f"junk of {run.name}": "INVALID_MESSAGE",
            json.dumps(payment(account_id, "comma", "12,50")): "INVALID_MESSAGE",
            json.dumps(payment(account_id, "t", "2")): "PAYLOAD_CHANGED",
        },
        QueueName.PROFILES: {json.dumps({"account_id": run.profile("poison"), "entries": {"a": 1}}): "INVALID_MESSAGE"},
    }
    for queue, codes in expected.items():
        run.send(queue.capitalize(), codes)
    job = {"job": f"none of {run.name}"}
    begin(run.deployment, JOBS["reconcile_accounts"], job)
    expected[QueueName.JOBS] = {json.dumps(job): "INVALID_EVENT"}
    step.sent = "3 transactions, a profile update and a job's message that can't be processed"
    for queue, codes in expected.items():
        letters = take_own(run, queue, len(codes))
        step.check(
            f"{queue}: each is a dead letter, unchanged and with its code",
            *different(queue, codes, {letter.body: letter.code for letter in letters}),
        )
        unexplained = [letter.body for letter in letters if not letter.reason]
        step.check(f"{queue}: each has its reason", *(f"{body}: expected a reason" for body in unexplained))
    step.check(
        "nothing is posted for them",
        *different(account_id, ["open", "t"], [entry["transaction_id"] for entry in run.entries(account_id)]),
    )
