"""Step 3: money that is held can't be spent; a hold is posted in part and voided; a payment is reversed once."""

from collections.abc import Mapping
from typing import Any

from tools.teller.verify.posting import Outcome, check_account
from tools.teller.verify.run import Item, Run, payment
from tools.teller.verify.steps import Step, different


def holds(run: Run, step: Step) -> None:
    buyer, seller = run.account("buyer"), run.account("seller")
    step.sent = "a hold, its posting in part and its void, a debit before and after, a reversal three times"
    run.open(buyer, seller)
    sent = 1

    def post(*messages: Mapping[str, Any]) -> Item:
        """Sends messages of the buyer's, and waits for as many entries. Returns the account."""
        nonlocal sent
        run.send("Transactions", [{"account_id": buyer, **message} for message in messages])
        sent += len({message["transaction_id"] for message in messages})
        run.wait_for_version(buyer, sent)
        return run.item("AccountsTableName", account_id=buyer) or {}

    post(payment(buyer, "credit", "100.00"))
    account = post({"type": "hold", "transaction_id": "hold", "amount": "60"})
    _check_held(step, buyer, account, "60", ["hold"])
    post(payment(buyer, "too-early", "-50"))
    part = {"amount": "25.50", "final": False, "to_account_id": seller}
    account = post({"type": "post_hold", "transaction_id": "post", "hold_id": "hold", **part})
    _check_held(step, buyer, account, "34.5", ["hold"])
    account = post({"type": "void_hold", "transaction_id": "void", "hold_id": "hold"})
    _check_held(step, buyer, account, "0", [])
    post(payment(buyer, "debit", "-50"))
    reversal = {"type": "reverse", "transaction_id": "reversal", "of_transaction_id": "debit"}
    post(reversal, reversal)
    post({**reversal, "transaction_id": "second-reversal"})
    expected: Mapping[str, Mapping[str, Outcome]] = {
        buyer: {
            "open": ("POSTED", "0", None),
            "credit": ("POSTED", "100", None),
            "hold": ("POSTED", "0", None),
            "too-early": ("REJECTED", "0", "OVERDRAFT_LIMIT"),
            "post": ("POSTED", "-25.5", None),
            "void": ("POSTED", "0", None),
            "debit": ("POSTED", "-50", None),
            "reversal": ("POSTED", "50", None),
            "second-reversal": ("REJECTED", "0", "ALREADY_REVERSED"),
        },
        seller: {"open": ("POSTED", "0", None), "post": ("POSTED", "25.5", None)},
    }
    for account_id, outcomes in expected.items():
        check_account(run, step, account_id, outcomes)
    reversed_so_far = run.item("ReversalsTableName", account_id=buyer, transaction_id="debit") or {}
    step.check(
        "the debit is reversed once",
        *different(f"{buyer}, debit: reversed amount", 50, reversed_so_far.get("amount")),
        *different(f"{buyer}, debit: reversals", 1, reversed_so_far.get("version")),
    )


def _check_held(step: Step, account_id: str, account: Item, held: str, open_holds: list[str]) -> None:
    found = account.get("held")
    step.check(
        f"{account_id}: {held} are held",
        *different(f"{account_id}, held", held, None if found is None else format(found.normalize(), "f")),
        *different(f"{account_id}, open holds", open_holds, [*account.get("holds", {})]),
    )
