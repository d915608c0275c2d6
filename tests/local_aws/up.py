"""`make up`: the local AWS with the stack on it, left running; `make down` ends it."""

import argparse
import json
import sys

from rich.console import Console

from tests.local_aws import stack
from tests.local_aws.server import CACHE, PROJECT, LocalAwsError, ministack, stop

STATE = CACHE / "local-aws.json"
SAM_LOCAL_VARIABLES = PROJECT / ".aws-sam" / "local-variables.json"

console = Console(highlight=False, soft_wrap=True)


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--port", type=int, default=4566)
    arguments.add_argument("--host", default="127.0.0.1", help="where to listen; 0.0.0.0 for `sam local invoke`")
    options = arguments.parse_args()
    if STATE.exists():
        console.print("[red]A stack is up already: `make down` ends it.")
        return 1
    try:
        console.print(f"Starting an AWS on {options.host}:{options.port} (ministack, IAM enforced)")
        endpoint, process = ministack(options.port, CACHE / "local-aws.log", options.host)
        STATE.write_text(json.dumps({"pid": process.pid}))
        console.print("sam build, sam deploy")
        stack.build()
        deployed = stack.deploy(endpoint)
    except LocalAwsError as error:
        console.print(f"[red]{error}")
        down()
        return 1
    console.print(_help(deployed))
    return 0


def down() -> None:
    if STATE.exists():
        stop(json.loads(STATE.read_text())["pid"])
        STATE.unlink()


def _help(deployed: stack.Stack) -> str:
    variables = " ".join(
        f"{name}={deployed.endpoint.environment[name]}"
        for name in ("AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_DEFAULT_REGION")
    )
    body = '{"type": "open_account", "transaction_id": "t-1", "account_id": "acc-1", "currency": "EUR"}'
    return f"""
The stack is up. `make down` ends it. Have your shell speak to it:

  export {variables}

Send a message, and read the account that it opened:

  aws sqs send-message --queue-url {deployed["TransactionsQueueUrl"]} \\
    --message-body '{body}'
  aws dynamodb get-item --table-name {deployed["AccountsTableName"]} \\
    --key '{{"account_id": {{"S": "acc-1"}}}}'

Invoke the function with an event:

  .venv-tools/bin/sam remote invoke ProcessTransactionsFunction --stack-name {stack.NAME} \\
    --event-file events/process_transactions/02-one-posting.json
"""


if __name__ == "__main__":
    sys.exit(main())
