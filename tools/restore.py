"""Restores the eight tables of a stack to one second, as new tables, and stops its queues meanwhile: docs/restoring.md.

Each command may be run again: what was done before is left as it is. The stack goes on with the new tables by a
parameter, which a deployment keeps: another template would be replaced by the next ordinary deployment, and the stack
would post into the damaged tables. To copy the restored items would take 125 dollars and hours for a hundred million
entries, and publish each as an event again; a table that is imported from S3 is described by its import for ever.
"""

import argparse
import os
import re
import sys
import time
from datetime import datetime
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from tools.teller.deployment import Deployment
from tools.teller.failures import Failure, WrongUse, failure_of
from tools.template import TEMPLATE

TABLES = ("Accounts", "Journal", "Reversals", "Refusals", "Profiles", "Locks", "Attempts", "Checkpoints")
EXPIRING = ("Refusals", "Locks", "Attempts")
"""The tables whose items expire, by the attribute `expires_at`."""
WORKERS = ("ProcessTransactionsFunctionName", "UpsertProfilesFunctionName")
"""The outputs with the names of the queues' functions."""
DAY_OF_WAITING = {"Delay": 20, "MaxAttempts": 24 * 3600 // 20}


def main(arguments: list[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    try:
        deployment = Deployment(options.stack, options.endpoint_url)
        match options.command:
            case "stop":
                deliver(deployment, is_wanted=False)
                print("Messages wait on their queues, for up to 7 days after each was sent.")
            case "tables":
                label = restore(deployment, _prefix(options.prefix), _second(options.to))
                print(f"RestoredTables={options.prefix} RestoredJournalStreamLabel={label}")
            case "start":
                deliver(deployment, is_wanted=True)
                print("Messages are delivered again.")
    except (ClientError, BotoCoreError) as error:
        print(failure_of(error).reason, file=sys.stderr)
        return 1
    except Failure as error:
        print(error.reason, file=sys.stderr)
        return error.status
    return 0


def deliver(deployment: Deployment, *, is_wanted: bool) -> None:
    """Lets the queues' functions have messages, or stops them; and waits until it is so."""
    lambda_ = deployment.client("lambda")
    mappings = [
        mapping
        for worker in WORKERS
        for mapping in lambda_.list_event_source_mappings(FunctionName=deployment[worker])["EventSourceMappings"]
    ]
    wanted = "Enabled" if is_wanted else "Disabled"
    for mapping in mappings:
        if mapping["State"] != wanted:
            lambda_.update_event_source_mapping(UUID=mapping["UUID"], Enabled=is_wanted)
    for mapping in mappings:
        while lambda_.get_event_source_mapping(UUID=mapping["UUID"])["State"] != wanted:
            time.sleep(1)


def restore(deployment: Deployment, prefix: str, second: datetime) -> str:
    """Restores all tables to the second, with `prefix` before their names. Returns the label of the journal's stream.

    A restored table has the items, the index and the encryption of the stack's own. Point-in-time recovery, the stream,
    the expiry and the protection from deletion are set here. A large table takes hours.
    """
    dynamodb = deployment.client("dynamodb")
    for table in TABLES:
        own, restored = deployment[f"{table}TableName"], f"{prefix}-{table}"
        if own == restored:
            raise WrongUse(f"the stack's tables are {prefix}-…: name another prefix")
        if _exists(dynamodb, restored):
            print(f"{restored} is there already", file=sys.stderr)
            continue
        print(f"restoring {own} as {restored}", file=sys.stderr)
        dynamodb.restore_table_to_point_in_time(SourceTableName=own, TargetTableName=restored, RestoreDateTime=second)
    for table in TABLES:
        restored = f"{prefix}-{table}"
        _wait(dynamodb, restored)
        print(f"{restored} is restored", file=sys.stderr)
        if table in EXPIRING:
            _expire(dynamodb, restored)
        _recover(dynamodb, restored)
        if deployment.is_prod:
            dynamodb.update_table(TableName=restored, DeletionProtectionEnabled=True)
            _wait(dynamodb, restored)
    return _stream_label(dynamodb, f"{prefix}-Journal")


def _exists(dynamodb: Any, table: str) -> bool:
    try:
        dynamodb.describe_table(TableName=table)
    except dynamodb.exceptions.ResourceNotFoundException:
        return False
    return True


def _wait(dynamodb: Any, table: str) -> None:
    dynamodb.get_waiter("table_exists").wait(TableName=table, WaiterConfig=DAY_OF_WAITING)


def _expire(dynamodb: Any, table: str) -> None:
    status = dynamodb.describe_time_to_live(TableName=table)["TimeToLiveDescription"]["TimeToLiveStatus"]
    if status == "DISABLED":
        dynamodb.update_time_to_live(
            TableName=table, TimeToLiveSpecification={"AttributeName": "expires_at", "Enabled": True}
        )


def _recover(dynamodb: Any, table: str) -> None:
    """Turns point-in-time recovery on. A new table refuses that until its backups are enabled, some seconds."""
    settings = {"TableName": table, "PointInTimeRecoverySpecification": {"PointInTimeRecoveryEnabled": True}}
    while True:
        try:
            dynamodb.update_continuous_backups(**settings)
        except dynamodb.exceptions.ContinuousBackupsUnavailableException:
            time.sleep(1)
        else:
            return


def _stream_label(dynamodb: Any, journal: str) -> str:
    described = dynamodb.describe_table(TableName=journal)["Table"]
    if not described.get("StreamSpecification", {}).get("StreamEnabled"):
        images = {"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"}
        dynamodb.update_table(TableName=journal, StreamSpecification=images)
        _wait(dynamodb, journal)
        described = dynamodb.describe_table(TableName=journal)["Table"]
    return str(described["LatestStreamLabel"])


def _prefix(text: str) -> str:
    pattern = TEMPLATE["Parameters"]["RestoredTables"]["AllowedPattern"]
    if not text or not re.fullmatch(pattern, text):
        raise WrongUse(f"--prefix: expected what the parameter RestoredTables takes, {pattern}, got {text!r}")
    return text


def _second(text: str) -> datetime:
    try:
        second = datetime.fromisoformat(text)
    except ValueError:
        second = None
    if second is None or second.tzinfo is None or second.microsecond:
        raise WrongUse(f"--to: expected a second with its offset, such as 2026-11-21T20:45:00Z, got {text!r}")
    return second


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tools.restore", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("stop", help="stop the delivery of messages to the queues' functions")
    tables = commands.add_parser("tables", help="restore the tables under new names")
    tables.add_argument("--to", required=True, help="the second, such as 2026-11-21T20:45:00Z")
    tables.add_argument("--prefix", required=True, help="the beginning of the new tables' names, such as teller-prod-2")
    commands.add_parser("start", help="let messages be delivered again")
    for command in commands.choices.values():
        command.add_argument("--stack", required=True, help="the stack's name, such as teller-prod")
        command.add_argument("--endpoint-url", default=os.environ.get("AWS_ENDPOINT_URL"), help="of a local AWS")
    return parser


if __name__ == "__main__":
    sys.exit(main())
