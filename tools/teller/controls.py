"""`teller freeze` and `teller limits`: what an account doesn't take, by messages of the administration's queue."""

import json
import time
import uuid
from typing import Annotated, Any

import typer

from ledger.core.decoding import check_names
from ledger.core.reason_codes import InvalidMessage
from ledger.core.transaction_types import decode_from
from ledger.core.transaction_types.base import Door
from tools.teller.accounts import AccountId, read, read_account
from tools.teller.failures import WrongUse
from tools.teller.message_queues import MessageQueue
from tools.teller.money import money, most_places
from tools.teller.operator import Operator, YesOption, subcommand
from tools.teller.printed_tables import Rows, table

DescriptionOption = Annotated[
    str | None, typer.Option("--description", help="Why: it stays in the journal.", metavar="TEXT")
]
IdOption = Annotated[
    str | None, typer.Option("--id", help="The transaction's id. Otherwise a new one is made.", metavar="ID")
]

WAITING_SECONDS = 30
"""In which the outcome is asked for."""
PAUSE_SECONDS = 0.5


def add_to(app: typer.Typer) -> None:
    subcommand(app)(freeze)
    subcommand(app)(limits)


def freeze(
    operator: Operator,
    account_id: AccountId,
    debits: Annotated[bool, typer.Option("--debits", help="No money leaves, and nothing is held.")] = False,
    credits_: Annotated[bool, typer.Option("--credits", help="No money comes in.")] = False,
    end: Annotated[bool, typer.Option("--end", help="End the freeze.")] = False,
    description: DescriptionOption = None,
    transaction_id: IdOption = None,
    yes: YesOption = False,
) -> None:
    """Freeze an account for debits, for credits or for both, or end that.

    The account is frozen for what is named, and for nothing else. Open holds can still be voided, and expire. The
    command sends the message to the administration's queue, and waits for its outcome. Exit status 1: it was rejected
    or refused, or isn't known after half a minute.
    """
    if end == (debits or credits_):
        raise WrongUse("expected --debits, --credits or both, or else --end")
    named = " and ".join(name for name, is_named in (("debits", debits), ("credits", credits_)) if is_named)
    change = f"freeze {account_id} for {named}" if named else f"end the freeze of {account_id}"
    fields = {"type": "freeze_account", "debits": debits, "credits": credits_}
    _administer(operator, fields, account_id, description, transaction_id, change, yes=yes)


def limits(
    operator: Operator,
    account_id: AccountId,
    to_set: Annotated[
        typer.FileText | None,
        typer.Option("--set", help="Set the limits in FILE, a list in JSON; - is the standard input.", metavar="FILE"),
    ] = None,
    description: DescriptionOption = None,
    transaction_id: IdOption = None,
    yes: YesOption = False,
) -> None:
    """Show an account's limits and what is left of each, or set them.

    The limits in FILE take the place of all that the account has; an empty list removes them. What was used of a limit
    that stays in the present period is kept. The command sends the message to the administration's queue, and waits for
    its outcome. Exit status 1: it was rejected or refused, or isn't known after half a minute.
    """
    if to_set is None:
        account = read_account(operator, account_id)
        shown = {"account_id": account_id, "limits": account["limits"]}
        operator.show(shown, _table(account) if account["limits"] else f"{account_id} has no limits")
        return
    try:
        text = to_set.read()
        fields = {"type": "set_limits", "limits": json.loads(text, parse_float=str)}
        check_names(text)
    except (ValueError, RecursionError, InvalidMessage) as error:
        raise WrongUse(f"--set: expected a list in JSON; {error}") from None
    _administer(operator, fields, account_id, description, transaction_id, f"set the limits of {account_id}", yes=yes)


def _table(account: dict[str, Any]) -> Rows:
    rows = table("limit", "of", "per", "time zone", "at most", "left", right=("at most", "left"))
    for limit in account["limits"]:
        at_most, left = limit["number"], limit["left"]
        if limit["amount"] is not None:
            places = most_places([limit["amount"], left], account["decimal_places"])
            at_most, left = money(limit["amount"], places), money(left, places)
        rows.add_row(limit["name"], limit["of"], limit["per"] or "", limit["time_zone"] or "", at_most, left)
    return rows


def _administer(
    operator: Operator,
    fields: dict[str, Any],
    account_id: str,
    description: str | None,
    transaction_id: str | None,
    change: str,
    *,
    yes: bool,
) -> None:
    """Sends a message of these fields to the administration's queue, and shows its outcome."""
    operator.agree(change, yes=yes)
    message = fields | {"transaction_id": transaction_id or f"teller-{uuid.uuid4()}", "account_id": account_id}
    message |= {"description": description} if description else {}
    body = json.dumps(message)
    try:
        decode_from(Door.ADMINISTRATION, body)
    except InvalidMessage as error:
        raise WrongUse(str(error)) from None
    deployment = operator.deployment
    deployment.client("sqs").send_message(QueueUrl=deployment[MessageQueue.ADMINISTRATION.output], MessageBody=body)
    ids = {"account_id": account_id, "transaction_id": message["transaction_id"]}
    answer = _outcome(operator, {"read": "transaction"} | ids)
    reason = (answer["entry"] or answer["refusal"] or {}).get("reason")
    operator.show(answer, f"{ids['transaction_id']}: {answer['state']}{f', {reason}' if reason else ''}")
    if answer["state"] != "posted":
        raise typer.Exit(1)


def _outcome(operator: Operator, request: dict[str, Any]) -> dict[str, Any]:
    """The answer of read_accounts, once the transaction is known, or after half a minute."""
    end = time.monotonic() + WAITING_SECONDS
    while (answer := read(operator, request))["state"] == "unknown" and time.monotonic() < end:
        time.sleep(PAUSE_SECONDS)
    return answer
