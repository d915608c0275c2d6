"""Steps 1 and 2: each kind of transaction has its outcome once, and a payment waits for its account."""

import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from tools.teller.verify.run import USUAL_SECONDS, Run, opening, payment, problems_of
from tools.teller.verify.steps import Step, different

type EntryOutcome = tuple[str, str, str | None]
"""A journal entry's status, amount and reason."""


def each_outcome(run: Run, step: Step) -> None:
    payer, payee = run.account("payer"), run.account("payee")
    step.sent = "2 openings, a credit three times, a debit, a debit that is too large, a transfer"
    run.open(payer, payee)
    credit = payment(payer, "credit", "100.00")
    run.send("Transactions", [credit, credit])
    run.wait_for_version(payer, 2)
    transfer = {"from_account_id": payer, "to_account_id": payee, "amount": "20"}
    others = [
        payment(payer, "debit", "-30.50"),
        payment(payer, "too-large", "-500"),
        {"type": "transfer", "transaction_id": "transfer", **transfer},
        credit,
    ]
    run.send("Transactions", others)
    run.wait_for_version(payer, 5)
    expected: Mapping[str, Mapping[str, EntryOutcome]] = {
        payer: {
            "open": ("POSTED", "0", None),
            "credit": ("POSTED", "100", None),
            "debit": ("POSTED", "-30.5", None),
            "too-large": ("REJECTED", "0", "OVERDRAFT_LIMIT"),
            "transfer": ("POSTED", "-20", None),
        },
        payee: {"open": ("POSTED", "0", None), "transfer": ("POSTED", "20", None)},
    }
    for account_id, outcomes in expected.items():
        check_account(run, step, account_id, outcomes)
    _check_statement(run, step, payer, len(expected[payer]))
    _later_wins(run, step)


def check_account(run: Run, step: Step, account_id: str, expected: Mapping[str, EntryOutcome]) -> None:
    entries = run.entries(account_id)
    found = {entry["request"]["transaction_id"]: outcome_of(entry) for entry in entries}
    problems = [
        problem
        for transaction_id in sorted(expected.keys() | found.keys())
        for problem in different(
            f"{account_id}, {transaction_id}", expected.get(transaction_id), found.get(transaction_id)
        )
    ]
    step.check(f"{account_id}: each transaction has its outcome, once", *problems)
    account = run.item("AccountsTableName", account_id=account_id)
    step.check(
        f"{account_id}: versions are 1…n, and the balance is the sum", *problems_of(account, entries, account_id)
    )


def _check_statement(run: Run, step: Step, account_id: str, entries: int) -> None:
    answer = run.deployment.invoke(
        "ReadAccountsFunctionName", {"read": "statement", "account_id": account_id, "last": 100}
    )
    problems = [
        *different("complete", True, answer.get("complete")),
        *different(
            "versions",
            [*range(1, entries + 1)],
            [entry["account_version"] for entry in answer.get("entries", [])],
        ),
    ]
    step.check(f"{account_id}: the statement is complete", *problems)


def outcome_of(entry: Mapping[str, Any]) -> EntryOutcome:
    return entry["status"], format(entry["amount"].normalize(), "f"), entry.get("reason")


def _later_wins(run: Run, step: Step) -> None:
    """The later entry of a profile stays, though the earlier one arrives after it."""
    profile_id, now = run.profile("profile"), datetime.now(UTC)

    def send(as_of: datetime, entries: Mapping[str, object]) -> None:
        update = {"account_id": profile_id, "path": ["preferences"], "entries": entries}
        run.send("Profiles", [update | {"as_of": as_of.isoformat()}])

    def preferences() -> Mapping[str, Any]:
        found: Mapping[str, Any] = (run.item("ProfilesTableName", account_id=profile_id) or {}).get("preferences", {})
        return found

    send(now, {"theme": "dark"})
    run.wait(
        lambda: "theme" in preferences(),
        lambda: f"{profile_id}: expected an entry, got {preferences()}",
        USUAL_SECONDS,
    )
    send(now - timedelta(minutes=1), {"theme": "light", "arrived": "second"})
    run.wait(
        lambda: "arrived" in preferences(),
        lambda: f"{profile_id}: expected a second update, got {preferences()}",
        USUAL_SECONDS,
    )
    step.sent += "; two updates of a profile, the later one first"
    step.check(
        "the later entry of a profile wins",
        *different(f"{profile_id}, theme", "dark", preferences().get("theme")),
    )


def a_payment_before_its_account(run: Run, step: Step) -> None:
    account_id = run.account("late")
    run.send("Transactions", [payment(account_id, "early", "12.50")])
    time.sleep(3 + int(run.deployment.parameters.get("BatchWindowSeconds", "1")))
    step.check("nothing is posted before the account is open", *different(account_id, 0, len(run.entries(account_id))))
    run.send("Administration", [opening(account_id)])
    opened = time.monotonic()
    step.sent = "a payment, and its account's opening some seconds later"
    run.wait_for_version(account_id, 2)
    seconds = time.monotonic() - opened
    step.measure(f"posted {seconds:.1f} s after the opening was sent")
    outcomes = [(entry["transaction_id"], entry["status"]) for entry in run.entries(account_id)]
    step.check(
        f"a payment that overtook its account's opening is posted within {USUAL_SECONDS} s",
        *different(account_id, [("open", "POSTED"), ("early", "POSTED")], outcomes),
    )
