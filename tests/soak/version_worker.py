"""A process that posts a queue's messages by the checkout in its current directory, until it is killed.

Its argument is a JSON object: `url` of the local AWS, `tables`, and the function's `variables`. For each batch it
prints two numbers: of the messages that are done, and of those that go back.
"""

import contextlib
import io
import itertools
import json
import sys
import time
from pathlib import Path

LAYERS = ("conditional_writes", "workers", "ledger")
BATCH = 100
sys.path[:0] = [str(Path.cwd()), *(str(Path.cwd() / "layers" / layer) for layer in LAYERS)]


def main() -> None:
    import ledger  # noqa: PLC0415 (after the path is set, as are those below)
    from ledger.core.transaction_types import decode  # noqa: PLC0415
    from tools.local_aws.functions import Context, process_transactions, record  # noqa: PLC0415
    from tools.local_aws.server import Endpoint  # noqa: PLC0415
    from tools.local_aws.tables import Tables  # noqa: PLC0415

    assert Path(ledger.__file__).is_relative_to(Path.cwd())
    given = json.loads(sys.argv[1])
    endpoint = Endpoint(given["url"])
    function = process_transactions(endpoint, Tables(**given["tables"]), **given["variables"])
    function.worker = function.administration = function.worker._replace(decode=decode)
    sqs, queue = endpoint.client("sqs"), {"QueueUrl": given["variables"]["QUEUE_URL"]}
    while True:
        messages = []
        while len(messages) < BATCH and (
            page := sqs.receive_message(**queue, MaxNumberOfMessages=10, AttributeNames=["All"]).get("Messages")
        ):
            messages += page
        if not messages:
            time.sleep(0.2)
            continue
        records = [
            record(message["Body"])
            | {
                "messageId": message["MessageId"],
                "receiptHandle": message["ReceiptHandle"],
                "attributes": message["Attributes"],
                "eventSourceARN": "arn:aws:sqs:us-east-1:000000000000:transactions",
            }
            for message in messages
        ]
        with contextlib.redirect_stdout(io.StringIO()):  # the function's metrics
            answer = function.lambda_handler({"Records": records}, Context())
        returned = {failure["itemIdentifier"] for failure in answer["batchItemFailures"]}
        done = [message["ReceiptHandle"] for message in messages if message["MessageId"] not in returned]
        for receipts in itertools.batched(done, 10, strict=False):
            entries = [{"Id": str(number), "ReceiptHandle": each} for number, each in enumerate(receipts)]
            sqs.delete_message_batch(**queue, Entries=entries)
        print(len(done), len(returned), flush=True)


main()
