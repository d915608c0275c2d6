"""`teller transaction`: what became of a transaction on an account."""

import shlex
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from ledger.core.reason_codes import ReasonCode
from tools.teller.accounts import AccountId, read, read_account
from tools.teller.dead_letters import letter_table
from tools.teller.failures import Failure, NotFound
from tools.teller.holds import hold_of
from tools.teller.letters import QueueName, is_about, look
from tools.teller.message_queues import Counts, MessageQueue, counts_of
from tools.teller.money import money, most_places
from tools.teller.operator import Operator, subcommand
from tools.teller.plain import as_json
from tools.teller.printed_tables import Rows, fields_table
from tools.teller.times import shown
from tools.teller.words import counted

TransactionId = Annotated[str, typer.Argument(help="The transaction's id.", metavar="TRANSACTION")]
HomeOption = Annotated[
    str | None,
    typer.Option("--home", help="The account that the message names first, if it is another one.", metavar="ACCOUNT"),
]

WRONG_MESSAGES = (ReasonCode.INVALID_MESSAGE, ReasonCode.PAYLOAD_CHANGED)
"""The codes of messages that have to be mended themselves."""
MOST_LETTERS = 3
"""So many are shown, the newest ones."""


def add_to(app: typer.Typer) -> None:
    subcommand(app)(transaction)


def transaction(
    operator: Operator, account_id: AccountId, transaction_id: TransactionId, home: HomeOption = None
) -> None:
    """Show what became of a transaction on an account.

    An id is unique on the account that the message names first, which pays in a transfer. For the side of another
    account, name that account by --home.
    How much of it was reversed is said, too, and what became of a hold. Posted and rejected transactions are in the
    account's journal, with the exit status 0. A dead one is in the dead-letter queue, with its reason. If it is
    neither, it may be on the queue, or was never sent. Exit status 1: dead, or not seen yet.
    """
    answer = what_became_of(operator, account_id, transaction_id, home or account_id)
    if entry := answer["entry"]:
        account = {"currency": entry["currency"], "decimal_places": None}
        try:
            account = read_account(operator, account_id)
            answer["hold"] = hold_of(operator, entry, account)
        except Failure as failure:  # a damaged account, or an entry after this one
            operator.remark(f"No more is known of the account: {failure.reason}")
        operator.show(answer, *_entry_in_words(answer, account))
    else:
        operator.show(answer, *_what_is_known(answer))
    if answer["state"] in ("dead", "not seen"):
        raise typer.Exit(1)


def what_became_of(operator: Operator, account_id: str, transaction_id: str, home_account_id: str) -> dict[str, Any]:
    """The transaction's `state`: posted, rejected, dead or not seen. `entry` is its journal entry, `reversed` has how
    much of it was reversed, and `refusal` why it was refused. Each is None if there is none.

    Without an entry, `dead_letters` has what is known of each letter of it, the newest first, and `queues` has the
    numbers of messages on the queues of transactions and of the administration. `imported_hold` is the open hold with
    this id, which the account was imported with.
    """
    ids = {"account_id": account_id, "home_account_id": home_account_id, "transaction_id": transaction_id}
    answer: dict[str, Any] = {**ids, "state": "not seen"}
    request = {"read": "transaction", **ids}
    found = read(operator, request)
    if found["entry"] is None:
        deployment = operator.deployment
        letters = [
            letter
            for queue in (QueueName.TRANSACTIONS, QueueName.ADMINISTRATION)
            for letter in look(deployment, queue)
            if is_about(letter.body, home_account_id, transaction_id)
        ]
        letters.sort(key=lambda letter: letter.sent_at, reverse=True)
        queues = (MessageQueue.TRANSACTIONS, MessageQueue.ADMINISTRATION)
        waiting = {queue.value: counts_of(deployment, queue.output)._asdict() for queue in queues}
        answer |= {"dead_letters": [letter.as_json() for letter in letters], "queues": waiting}
        account = _account(operator, account_id)
        answer["account_exists"] = account is not None
        holds = account["holds"] if account else []
        answer["imported_hold"] = next((hold for hold in holds if hold["hold_id"] == transaction_id), None)
        answer["state"] = "dead" if letters else "not seen"
        found = read(operator, request)  # it may have been posted in between
    if found["entry"]:
        answer["state"] = found["entry"]["status"].lower()
    return answer | {name: found[name] for name in ("entry", "reversed", "refusal")} | {"hold": None}


def _entry_in_words(answer: dict[str, Any], account: dict[str, Any]) -> Iterator[str | Rows]:
    """What became of it in sentences, and the entry's fields. All amounts have the account's decimals."""
    entry = answer["entry"]
    yield f"{answer['transaction_id']} on {answer['account_id']} was {answer['state']}."
    yield from _about_the_hold(answer["hold"], account)
    yield from _about_reversals(answer, account)
    request = entry["request"]
    fields = {name: value for name, value in entry.items() if name not in ("request", "reversal", "sent", "first_sent")}
    for name in ("amount", "balance_after", "held_after"):
        fields[name] = _in_currency(entry[name], account)
    first = {"transaction_id": entry["transaction_id"], "type": request.get("type", "transaction")}
    if str(request.get("amount", entry["amount"])) != entry["amount"]:
        first["held" if answer["hold"] else "asked for"] = _in_currency(str(request["amount"]), account)
    asked = {"sent": entry["sent"], "first sent": entry.get("first_sent")}
    sent = {
        name: f"{each['sent_at']} by {each['sent_by']}, {each['message_id']}" for name, each in asked.items() if each
    }
    yield fields_table(first | fields | sent | {"request": as_json(request)})


def _in_currency(amount: str, account: dict[str, Any]) -> str:
    return f"{money(amount, most_places([amount], account['decimal_places']))} {account['currency']}"


def _about_the_hold(hold: dict[str, Any] | None, account: dict[str, Any]) -> Iterator[str]:
    if hold is None:
        return
    held = f"It placed a hold of {_in_currency(hold['amount'], account)}"
    match hold["state"]:
        case "open":
            yield f"{held}. {_in_currency(hold['remaining'], account)} of it is held, {_until(hold)}."
        case "unknown":
            yield f"{held}. The hold isn't open any more. Its end isn't among the next entries of the account."
        case state:
            how = "has expired" if state == "expired" else f"was {state}"
            yield f"{held}. The hold {how} at {shown(hold['ended_at'])}, by {hold['ended_by']}."


def _until(hold: dict[str, Any]) -> str:
    return f"until {shown(hold['expires_at'])}" if hold["expires_at"] else "without an end"


def _about_reversals(answer: dict[str, Any], account: dict[str, Any]) -> Iterator[str]:
    """How much of the transaction was reversed, or of the one that it was to reverse."""
    entry, found = answer["entry"], answer["reversed"]
    if reversal := entry.get("reversal"):
        of, number = entry["request"].get("of_transaction_id"), reversal["number"]
        amount = _in_currency(reversal["reversed_after"], account)
        if answer["state"] == "posted":
            yield f"It is reversal {number} of {of}. {amount} of {of} had been reversed after it."
        else:
            yield f"{amount} of {of} had been reversed before, by {counted(number, 'reversal')}."
    if found:
        amount, total = (_in_currency(each, account) for each in (found["amount"], entry["amount"].removeprefix("-")))
        by = f"by {counted(found['number'], 'reversal')}, the last of which is {found['reversed_by']}"
        yield f"{amount} of its {total} has been reversed, {by}."


def _account(operator: Operator, account_id: str) -> dict[str, Any] | None:
    try:
        return read_account(operator, account_id)
    except NotFound:
        return None


def _what_is_known(answer: dict[str, Any]) -> Iterator[str | Rows]:
    """Of a transaction without an entry."""
    name = f"{answer['transaction_id']} on {answer['account_id']}"
    letters = answer["dead_letters"]
    if letters:
        queue = letters[0]["queue"]
        which = shlex.join(["--about", answer["home_account_id"], answer["transaction_id"]])
        times = f", {len(letters):,} times" if len(letters) > 1 else ""
        yield f"{name} is dead: it is in the dead-letter queue{times}, and wasn't posted."
        yield from map(letter_table, letters[:MOST_LETTERS])
        if len(letters) > MOST_LETTERS:
            yield f"These are the newest {MOST_LETTERS}. All of them: teller dead-letters show {queue} {which}"
        is_wrong = any(letter["code"] in WRONG_MESSAGES for letter in letters)
        yield "To mend it and send it again:" if is_wrong else "When the cause is mended, send it again:"
        yield f"teller dead-letters redrive {queue} {'--edit ' if is_wrong else ''}{which}"
    elif hold := answer["imported_hold"]:
        yield f"{name} has no entry: it is an open hold that the account was imported with, {_until(hold)}."
        yield f"Of it {hold['remaining']} is held."
    else:
        yield f"{name} hasn't been seen: the account has no entry of it, and no dead letter is about it."
        if refusal := answer["refusal"]:
            yield f"It was refused at {refusal['refused_at']}: {refusal['reason_code']}, {refusal['reason']}."
            yield "Its dead letter was dropped, or sent again and not yet decided."
        for queue, counts in answer["queues"].items():
            yield f"Messages on the {queue} queue: {Counts(**counts)}."
        if answer["home_account_id"] == answer["account_id"]:
            yield "If its message names another account first, as a transfer its payer: --home ACCOUNT"
    if not answer["account_exists"]:
        yield f"No account {answer['account_id']!r} has been opened. Its transactions wait for the opening."
