"""`teller transaction`: what became of a transaction on an account."""

import json
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from ledger.core.reason_codes import ReasonCode
from tools.teller.accounts import AccountId, read
from tools.teller.dead_letters import letter_table
from tools.teller.failures import NotFound
from tools.teller.letters import QueueName, look
from tools.teller.operator import Operator, subcommand
from tools.teller.queues import Counts, MessageQueue, counts_of
from tools.teller.tables import fields_table
from tools.teller.words import counted

TransactionId = Annotated[str, typer.Argument(help="The transaction's id.", metavar="TRANSACTION")]

WRONG_MESSAGES = (ReasonCode.INVALID_MESSAGE, ReasonCode.PAYLOAD_CHANGED)
"""The codes of messages that have to be mended themselves."""


def add_to(app: typer.Typer) -> None:
    subcommand(app)(transaction)


def transaction(operator: Operator, account_id: AccountId, transaction_id: TransactionId) -> None:
    """Show what became of a transaction on an account.

    How much of it was reversed is said, too. Posted and rejected transactions are in the account's journal, with the
    exit status 0. A dead one is in the dead-letter queue, with its reason. If it is neither, it may be on the queue, or
    was never sent. Exit status 1: dead, or not seen yet.
    """
    answer = what_became_of(operator, account_id, transaction_id)
    if operator.as_json:
        operator.show(answer)
    elif answer["entry"]:
        entry = answer["entry"]
        fields = {name: value for name, value in entry.items() if name not in ("request", "reversal")}
        for sentence in (f"{transaction_id} on {account_id} was {answer['state']}.", *_about_reversals(answer)):
            operator.console.print(sentence)
        operator.show(answer, fields_table(fields | {"request": json.dumps(entry["request"], ensure_ascii=False)}))
    else:
        _show_what_is_known(operator, answer)
    if answer["state"] in ("dead", "not seen"):
        raise typer.Exit(1)


def what_became_of(operator: Operator, account_id: str, transaction_id: str) -> dict[str, Any]:
    """The transaction's `state`: posted, rejected, dead or not seen. `entry` is its journal entry, or None. `reversed`
    has how much of it was reversed, or is None.

    Without an entry, `dead_letters` has what is known of each letter of it, and `queue` has the numbers of messages on
    the transactions queue.
    """
    answer = {"account_id": account_id, "transaction_id": transaction_id, "state": "not seen"}
    request = {"read": "transaction", "account_id": account_id, "transaction_id": transaction_id}
    found = read(operator, request)
    if found["entry"] is None:
        deployment = operator.deployment
        letters = [
            letter
            for letter in look(deployment, QueueName.TRANSACTIONS)
            if is_about(letter.body, account_id, transaction_id)
        ]
        queue = counts_of(deployment, MessageQueue.TRANSACTIONS.output)
        answer |= {"dead_letters": [letter.as_json() for letter in letters], "queue": queue._asdict()}
        answer["account_exists"] = _exists(operator, account_id)
        answer["state"] = "dead" if letters else "not seen"
        found = read(operator, request)  # it may have been posted in between
    if found["entry"]:
        answer["state"] = found["entry"]["status"].lower()
    return answer | {"entry": found["entry"], "reversed": found["reversed"]}


def is_about(body: str, account_id: str, transaction_id: str) -> bool:
    """Whether a message is this transaction on this account. One that isn't JSON is, if it quotes both ids."""
    try:
        fields = json.loads(body)
    except (ValueError, RecursionError):
        return all(json.dumps(name, ensure_ascii=False) in body for name in (account_id, transaction_id))
    if not isinstance(fields, dict) or fields.get("transaction_id") != transaction_id:
        return False
    return account_id in [fields.get(name) for name in ("account_id", "from_account_id", "to_account_id")]


def _about_reversals(answer: dict[str, Any]) -> Iterator[str]:
    """How much of the transaction was reversed, or of the one that it was to reverse."""
    entry, found = answer["entry"], answer["reversed"]
    if reversal := entry.get("reversal"):
        of, number = entry["request"].get("of_transaction_id"), reversal["number"]
        amount = reversal["reversed_after"]
        if answer["state"] == "posted":
            yield f"It is reversal {number} of {of}. {amount} of {of} had been reversed after it."
        else:
            yield f"{amount} of {of} had been reversed before, by {counted(number, 'reversal')}."
    if found:
        total = entry["amount"].removeprefix("-")
        by = f"by {counted(found['number'], 'reversal')}, the last of which is {found['reversed_by']}"
        yield f"{found['amount']} of its {total} has been reversed, {by}."


def _exists(operator: Operator, account_id: str) -> bool:
    try:
        read(operator, {"read": "account", "account_id": account_id})
    except NotFound:
        return False
    return True


def _show_what_is_known(operator: Operator, answer: dict[str, Any]) -> None:
    name = f"{answer['transaction_id']} on {answer['account_id']}"
    letters, queue = answer["dead_letters"], Counts(**answer["queue"])
    console = operator.console
    if letters:
        console.print(f"{name} is dead: it is in the dead-letter queue, and wasn't posted.")
        for letter in letters:
            console.print(letter_table(letter))
        is_wrong = letters[0]["code"] in WRONG_MESSAGES
        console.print("To mend it and send it again:" if is_wrong else "When the cause is mended, send it again:")
        edit = "--edit " if is_wrong else ""
        console.print(f"teller dead-letters redrive transactions {edit}\\\n  --id {letters[0]['id']}")
    else:
        console.print(f"{name} hasn't been seen: the account has no entry of it, and no dead letter is about it.")
        console.print(f"Messages on the transactions queue: {queue}.")
    if not answer["account_exists"]:
        console.print(f"No account {answer['account_id']!r} has been opened. Its transactions wait for the opening.")
