"""`make up`: starts a local AWS, deploys the stack on it and leaves it running until `make down`."""

import argparse
import json
import sys
import threading

from rich.console import Console

from tools.local_aws import stack
from tools.local_aws.sam_local import write_settings
from tools.local_aws.server import CACHE, PROJECT, LocalAwsError, is_running, ministack, port_number, stop

STATE, LOG = CACHE / "local-aws.json", CACHE / "local-aws.log"
LOOPBACK = "127.0.0.1"

console = Console(highlight=False, markup=False, soft_wrap=True)


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--port", type=port_number, default=4566)
    arguments.add_argument("--host", default=LOOPBACK, help="the address to listen on")
    options = arguments.parse_args()
    try:
        _refuse_a_second()
        deployed = _up(options.host, options.port)
    except LocalAwsError as error:
        console.print(str(error), style="red")
        return 1
    except KeyboardInterrupt:
        console.print("\nInterrupted. The local AWS has been stopped.")
        return 130
    console.print(_help(deployed, options.host))
    return 0


def down() -> str | None:
    """Stops the local AWS that `up` started. Returns a sentence about it, or None if `up` hasn't been run."""
    if not STATE.exists():
        return None
    state = json.loads(STATE.read_text())
    running = is_running(LOG)
    if running:
        stop(state["pid"])
    STATE.unlink()
    if not running:
        return f"The local AWS on {state['url']} had already stopped."
    return f"Stopped the local AWS on {state['url']} and deleted its tables and queues."


def _refuse_a_second() -> None:
    if STATE.exists():
        if is_running(LOG):
            url = json.loads(STATE.read_text())["url"]
            raise LocalAwsError(f"A local AWS is already running on {url}. `make down` stops it.")
        console.print(down())


def _up(host: str, port: int) -> stack.Stack:
    console.print(f"Starting a local AWS on {host}:{port} (ministack, IAM enforced)")
    endpoint, process = ministack(port, LOG, host)
    threading.Thread(target=process.wait, daemon=True).start()  # Reaps the process if `down` stops it below.
    STATE.write_text(json.dumps({"pid": process.pid, "url": endpoint.url}))
    try:
        console.print("Building and deploying the stack (sam build, sam deploy)")
        stack.build()
        deployed = stack.deploy(endpoint)
        write_settings(deployed, PROJECT / ".aws-sam")
    except BaseException:
        down()
        raise
    return deployed


def _help(deployed: stack.Stack, host: str) -> str:
    variables = " ".join(
        f"{name}={deployed.endpoint.environment[name]}"
        for name in ("AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_DEFAULT_REGION")
    )
    opening = '{"type": "open_account", "transaction_id": "t-1", "account_id": "acc-1", "currency": "EUR"}'
    update = '{"account_id": "acc-1", "path": ["preferences"], "entries": {"theme": "dark"}}'
    in_a_container = "Run a function in Lambda's container (needs Docker"
    if host == LOOPBACK and sys.platform == "linux":
        in_a_container += ", and a stack on Docker's bridge: `make up HOST=172.17.0.1`"
    return f"""
The stack is running. `make down` stops it. Point your shell at it:

  export {variables}

Open an account with a message, and read the account a second later:

{_send_and_read(deployed["TransactionsQueueUrl"], opening, deployed["AccountsTableName"])}

Write an entry into a profile, and read the profile a second later:

{_send_and_read(deployed["ProfilesQueueUrl"], update, deployed["ProfilesTableName"])}

Invoke a function with a sample event. events/ has a folder for each function; send its events in order:

  .venv-tools/bin/sam remote invoke ProcessTransactionsFunction --stack-name {stack.NAME} \\
    --event-file events/process_transactions/01-open-accounts.json
  .venv-tools/bin/sam remote invoke UpsertProfilesFunction --stack-name {stack.NAME} \\
    --event-file events/upsert_profiles/01-first-entries.json
  .venv-tools/bin/sam remote invoke ReconcileAccountsFunction --stack-name {stack.NAME} \\
    --event-file events/reconcile_accounts/01-a-night.json

{in_a_container}):

  .venv-tools/bin/sam local invoke UpsertProfilesFunction --config-file .aws-sam/local.toml \\
    --event events/upsert_profiles/01-first-entries.json
"""


def _send_and_read(queue_url: str, body: str, table: str) -> str:
    return f"""\
  aws sqs send-message --endpoint-url $AWS_ENDPOINT_URL \\
    --queue-url {queue_url} \\
    --message-body '{body}'
  aws dynamodb get-item --endpoint-url $AWS_ENDPOINT_URL \\
    --table-name {table} \\
    --key '{{"account_id": {{"S": "acc-1"}}}}'"""


if __name__ == "__main__":
    sys.exit(main())
