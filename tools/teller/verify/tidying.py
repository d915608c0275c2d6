"""Tidies up after a run: its accounts are closed at the balance 0, its profiles and dead letters deleted."""

from contextlib import suppress
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from conditional_writes.core.items import to_dynamodb
from tools.teller.failures import Failure, failure_of
from tools.teller.letters import QueueName
from tools.teller.verify.own_letters import take_those_there
from tools.teller.verify.run import USUAL_SECONDS, Run, TimeIsUp, opening, payment

MOST_ATTEMPTS = 10
SECONDS_OF_AN_ATTEMPT = 10


def tidy_up(run: Run) -> list[str]:
    """Returns a sentence for each thing that is left behind, beside the journal, which is never changed."""
    left: list[str] = []
    for tidy in (_close_accounts, _delete_profiles, _delete_dead_letters):
        try:
            tidy(run)
        except Failure as error:
            left.append(error.reason)
        except (ClientError, BotoCoreError) as error:
            left.append(failure_of(error).reason)
    return left


def _delete_profiles(run: Run) -> None:
    for profile_id in run.profiles:
        run.client("dynamodb").delete_item(
            TableName=run.deployment["ProfilesTableName"], Key=to_dynamodb({"account_id": profile_id})
        )


def _delete_dead_letters(run: Run) -> None:
    """Those that a step left, because it failed before."""
    for queue in (QueueName.TRANSACTIONS, QueueName.ADMINISTRATION, QueueName.PROFILES, QueueName.JOBS):
        take_those_there(run, queue)


def _close_accounts(run: Run) -> None:
    """An account that isn't open is opened first: then no transaction waits for it for hours. Holds are voided.

    After an interruption the run's own messages may still change the balances. Then an account isn't closed at once.
    """
    accounts: dict[str, Any] = {
        account_id: run.item("AccountsTableName", account_id=account_id) for account_id in run.accounts
    }
    missing = [account_id for account_id, account in accounts.items() if account is None]
    run.send("Administration", map(opening, missing))
    for account_id in missing:
        run.wait_for_version(account_id, 1)
    for attempt in range(1, MOST_ATTEMPTS + 1):
        accounts = {account_id: run.item("AccountsTableName", account_id=account_id) for account_id in run.accounts}
        left = {account_id: account for account_id, account in accounts.items() if account["status"] != "CLOSED"}
        if not left:
            return
        for account_id, account in left.items():
            _void_holds(run, account_id, account, attempt)
        drained = {account_id: account for account_id, account in left.items() if account["balance"]}
        drains = [
            payment(account_id, f"drain-{attempt}", format(-account["balance"], "f"))
            for account_id, account in drained.items()
        ]
        run.send("Transactions", drains)
        for account_id, account in drained.items():
            run.wait_for_version(account_id, int(account["version"]) + len(account.get("holds", {})) + 1)
        closing = {"type": "close_account", "transaction_id": f"close-{attempt}"}
        run.send("Administration", [closing | {"account_id": account_id} for account_id in left])
        with suppress(TimeIsUp):
            for account_id in left:
                _wait_until_closed(run, account_id, SECONDS_OF_AN_ATTEMPT)
    for account_id in left:
        _wait_until_closed(run, account_id, USUAL_SECONDS)


def _void_holds(run: Run, account_id: str, account: Any, attempt: int) -> None:
    void = {"type": "void_hold", "account_id": account_id}
    voids = [void | {"transaction_id": f"void-{attempt}-{each}", "hold_id": each} for each in account.get("holds", {})]
    if voids:
        run.send("Transactions", voids)
        run.wait_for_version(account_id, int(account["version"]) + len(voids))


def _wait_until_closed(run: Run, account_id: str, seconds: float) -> None:
    def status() -> Any:
        return (run.item("AccountsTableName", account_id=account_id) or {}).get("status")

    run.wait(
        lambda: status() == "CLOSED",
        lambda: f"{account_id}: expected a closed account, got the status {status()}",
        seconds,
    )
