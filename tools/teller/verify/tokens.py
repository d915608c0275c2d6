"""Step 6: transactions on one item at once, each sent again with its client token until DynamoDB says how it ended.

It shows DynamoDB itself, which the library's loop relies on: a token has one effect, and no cancellation sticks to it.
"""

import threading
import time
import uuid
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from botocore.exceptions import ClientError

from tools.teller.verify.run import Run
from tools.teller.verify.steps import Step, different

THREADS = 50
SECONDS = 60
"""Of one transaction with all its tries."""
MAXIMUM_PAUSE_SECONDS = 0.5


def tokens(run: Run, step: Step) -> None:
    item_id = run.profile("tokens")
    table = run.deployment["ProfilesTableName"]
    client = run.deployment.new_client(
        "dynamodb", retries={"mode": "standard", "total_max_attempts": 1}, max_pool_connections=THREADS
    )
    client.put_item(TableName=table, Item={"account_id": {"S": item_id}, "count": {"N": "0"}})
    together = threading.Barrier(THREADS)
    answers: Counter[str] = Counter()

    def transaction(token: str) -> bool:
        together.wait()
        deadline, pause = time.monotonic() + SECONDS, 0.02
        while time.monotonic() < deadline:
            answer = _send(client, table, item_id, token)
            answers[answer] += 1
            if answer == "done":
                return True
            time.sleep(pause)
            pause = min(2 * pause, MAXIMUM_PAUSE_SECONDS)
        return False

    sent = [str(uuid.uuid4()) for _ in range(THREADS)]
    with ThreadPoolExecutor(THREADS) as pool:
        ended = list(pool.map(transaction, sent))
        step.sent = f"{THREADS} transactions on one item at once, each until it was done; then all of them again"
        list(pool.map(transaction, sent))
    found: Any = (run.item("ProfilesTableName", account_id=item_id) or {}).get("count")
    step.check("a token has one effect, however often it is sent", *different(f"{item_id}, count", sum(ended), found))
    step.measure(", ".join(f"{count:,} {answer}" for answer, count in sorted(answers.items())))
    step.check("each transaction is done at last", *different("transactions done", THREADS, sum(ended)))
    claim = "what DynamoDB cancelled, or had in progress, is done when it comes again with its token"
    if len(answers) > 1:
        step.check(claim, *different("transactions done", THREADS, sum(ended)))
    elif run.deployment.is_local:
        step.only_on_aws(claim, "a local AWS answers one request at a time")
    else:
        step.not_tried(claim, "no two transactions met")


def _send(client: Any, table: str, item_id: str, token: str) -> str:
    """How DynamoDB answered: `done`, or why not."""
    update = {
        "TableName": table,
        "Key": {"account_id": {"S": item_id}},
        "UpdateExpression": "ADD #count :one",
        "ExpressionAttributeNames": {"#count": "count"},
        "ExpressionAttributeValues": {":one": {"N": "1"}},
    }
    try:
        client.transact_write_items(TransactItems=[{"Update": update}], ClientRequestToken=token)
    except ClientError as error:
        reasons = error.response.get("CancellationReasons", [])
        codes = {reason["Code"] for reason in reasons} - {"None"}
        return " ".join(sorted(codes)) or error.response["Error"]["Code"]
    return "done"
