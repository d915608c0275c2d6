"""Accounts that are read while others post: each answer is true of a moment, and has what was acknowledged."""

from collections.abc import Callable, Sequence
from typing import Any

from conditional_writes import Deadline
from conditional_writes.core.items import from_dynamodb
from conditional_writes.testing import Outcome
from ledger.statements import AccountReader
from tests.checkers.books import violations
from tests.checkers.statement_oracle import Journal, journals
from tests.explore.bank import DELIVERY_SECONDS, NAMES, Bank, Opened, assert_none, posting, raised_none
from tests.explore.scenario import Scenario
from tests.support.bodies import opening, payment, transfer
from workers.queue_messages import Done


def reading(worker: int, **request: Any) -> Callable[[Bank], dict[str, Any]]:
    def read(bank: Bank) -> dict[str, Any]:
        reader = AccountReader(bank.clients[worker], NAMES)
        return reader.answer({"account_id": "alice"} | request, Deadline.after(DELIVERY_SECONDS))

    return read


def posting_then_reading(worker: int, body: dict[str, Any], **request: Any) -> Callable[[Bank], Any]:
    def work(bank: Bank) -> tuple[str | None, dict[str, Any]]:
        [delivered] = bank.deliver(worker, body)
        is_done = isinstance(delivered.disposition, Done)
        return body["transaction_id"] if is_done else None, reading(worker, **request)(bank)

    return work


def true_of_a_moment(bank: Bank, outcomes: Sequence[Outcome]) -> None:
    assert_none(violations(bank.books))
    accounts, entries = (list(map(from_dynamodb, bank.items(table))) for table in NAMES[:2])
    whole = journals(accounts, entries)["alice"]
    for outcome in outcomes:
        if outcome.was_killed:
            continue
        value = raised_none(outcome)
        acknowledged, answer = value if isinstance(value, tuple) else (None, value)
        if isinstance(answer, list):  # of a worker that posts
            continue
        if "entries" in answer:
            version = answer["account_version"]
            then = Journal(whole.account, whole.entries[:version])
            expected = then.statement(then.last(10), 10)
            if answer["complete"]:
                assert {name: answer[name] for name in expected} == expected
            found = {entry["transaction_id"] for entry in answer["entries"]}
            assert acknowledged in {None, *found} or not answer["complete"], answer
        elif "version" in answer:
            entry = whole.entries[answer["version"] - 1]
            assert float(answer["balance"]) == float(entry["balance_after"]), answer
        else:
            assert answer["state"] in {"posted", "unknown"}, answer
            assert acknowledged is None or answer["state"] == "posted", answer


POSTED = Opened(opening("alice"), opening("bob"), payment("p-1", 50), payment("p-2", -20))
LATE = Opened(
    opening("alice"),
    opening("bob"),
    payment("p-1", 50),
    then=lambda bank: bank.engine.hold_back(NAMES.journal, "by_version"),
)
P, T = payment("p-3", 5), transfer("t-1", 7)

SCENARIOS = [
    Scenario(
        "a statement beside a payment is that of a moment",
        [reading(0, read="statement", last=10), posting(1, P)],
        POSTED,
        true_of_a_moment,
    ),
    Scenario(
        "a statement has what was acknowledged before, though its index is late",
        [posting_then_reading(0, P, read="statement", last=10), posting(1, T)],
        LATE,
        true_of_a_moment,
        completes=False,
    ),
    Scenario(
        "an account beside a transfer and a payment is that of a moment",
        [reading(0, read="account"), posting(1, T), posting(2, P)],
        POSTED,
        true_of_a_moment,
        completes=False,
    ),
    Scenario(
        "a transaction that was acknowledged is found",
        [posting_then_reading(0, P, read="transaction", transaction_id="p-3"), posting(1, P)],
        LATE,
        true_of_a_moment,
    ),
]
