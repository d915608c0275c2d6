"""`make up`: starts a local AWS, deploys the stack on it and leaves it running until `make down`.

If one is running, the stack is deployed on it again. Its tables and queues keep what they have.
"""

import argparse
import sys

from rich.console import Console

from tools.local_aws import left_running, stack
from tools.local_aws.sam_local import write_settings
from tools.local_aws.server import PROJECT, Endpoint, LocalAwsError, port_number
from tools.local_aws.spinner import at_work

COMMAND = "make up"
LOOPBACK = "127.0.0.1"

console = Console(highlight=False, markup=False, soft_wrap=True)


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--port", type=port_number, default=4566)
    arguments.add_argument("--host", default=LOOPBACK, help="the address to listen on")
    arguments.add_argument("parameters", nargs="*", metavar="NAME=VALUE", help="the template's parameters")
    options = arguments.parse_args()
    try:
        parameters = dict(each.split("=", 1) for each in options.parameters)
        deployed = _deployed_again(parameters) or _deployed_anew(options.host, options.port, parameters)
    except LocalAwsError as error:
        console.print(str(error), style="red")
        return 1
    except KeyboardInterrupt:
        console.print("\nInterrupted.")
        return 130
    write_settings(deployed, PROJECT / ".aws-sam")
    console.print(_help(deployed, options.host))
    return 0


def _deployed_again(parameters: dict[str, str]) -> stack.Stack | None:
    running = left_running.found()
    if running is None:
        return None
    console.print(f"A local AWS is running on {running.url}. The stack is deployed on it again, and keeps its data")
    left_running.leave(running._replace(left_by=COMMAND))
    return _deployed(running.endpoint, parameters)


def _deployed_anew(host: str, port: int, parameters: dict[str, str]) -> stack.Stack:
    left_running.down()  # one that has already stopped
    try:
        with at_work(console, f"Starting a local AWS on {host}:{port} (ministack, IAM enforced)"):
            running = left_running.start(host, port, COMMAND)
        return _deployed(running.endpoint, parameters)
    except BaseException:
        left_running.down()
        raise


def _deployed(endpoint: Endpoint, parameters: dict[str, str]) -> stack.Stack:
    with at_work(console, "Building the functions and layers (sam build)") as say:
        stack.build(say)
    with at_work(console, "Deploying the stack (sam deploy)") as say:
        return stack.deploy(endpoint, say, **parameters)


def first_commands(deployed: stack.Stack, *commands: str) -> str:
    """Shows how to use the stack from a shell: the variables, and commands to try."""
    variables = " ".join(
        f"{name}={deployed.endpoint.environment[name]}"
        for name in ("AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_DEFAULT_REGION")
    )
    lines = "\n".join(f"  .venv/bin/teller {command}" for command in commands)
    return f"""\
The stack is running. `make down` stops it, and deletes its data. Point your shell at it:

  export TELLER_STACK={deployed.name} {variables}

Then try:

{lines}
"""


def _help(deployed: stack.Stack, host: str) -> str:
    first = first_commands(deployed, "send events/messages.jsonl", "transaction acc-1 t-2", "status", "page")
    in_a_container = "Run a function in Lambda's container. That needs Docker"
    if host == LOOPBACK and sys.platform == "linux":
        in_a_container += ", and a stack on Docker's bridge, by `make up HOST=172.17.0.1`"
    return f"""
{first}
Invoke a function with a sample event. events/ has a folder for each function; send its events in order:

  .venv-tools/bin/sam remote invoke UpsertProfilesFunction --stack-name {deployed.name} \\
    --event-file events/upsert_profiles/01-first-entries.json

{in_a_container}:

  .venv-tools/bin/sam local invoke ProcessTransactionsFunction --config-file .aws-sam/local.toml \\
    --event events/process_transactions/01-open-accounts.json
"""


if __name__ == "__main__":
    sys.exit(main())
