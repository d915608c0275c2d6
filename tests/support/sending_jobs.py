"""Ledgers whose scheduled job sends messages about their accounts to the administration queue."""

import json
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from types import ModuleType
from typing import Any, ClassVar, override

from conditional_writes import Item
from tests.checkers.books import Books, violations
from tests.support.bodies import hold, opening, openings, payment, rate
from tests.support.ledger import Ledger
from tools.local_aws.functions import Context, run_job
from workers.invocation import RESERVED_SECONDS

PAST, JUST, SOON = "2026-02-01T00:00:00Z", "2026-03-01T12:00:00Z", "2026-03-01T12:00:00.000001Z"
FEBRUARY = datetime(2026, 2, 1, tzinfo=UTC)
STEP = 3
"""Accounts of a step of `run_on`."""


class SendingJob(Ledger):
    """A message is about an account, or about a hold of an account. `open_sample` opens the sample accounts."""

    JOB: ClassVar[str]
    SAMPLE: ClassVar[set[Any]]
    """What the messages about the sample accounts are about."""

    @abstractmethod
    def open_sample(self) -> None: ...

    @abstractmethod
    def open_wanted(self, names: Iterable[str]) -> None:
        """Accounts of which each gets a message."""

    @abstractmethod
    def open_others(self, names: Iterable[str]) -> None:
        """Accounts of which none gets a message."""

    @abstractmethod
    def about(self, body: Mapping[str, Any]) -> Any:
        """What a message is about."""

    def wanted(self, names: Iterable[str]) -> set[Any]:
        """What the messages are about that `open_wanted` leads to."""
        return {self.about({"account_id": name, "hold_id": "h-1"}) for name in names}

    def event(self, day: int = 1, hour: int = 12) -> dict[str, Any]:
        return {"job": self.JOB, "scheduled_time": f"2026-03-{day:02}T{hour:02}:00:00Z", "force": True}

    def function(self) -> ModuleType:
        return self.job(self.JOB)

    def run(self, function: ModuleType | None = None, event: Any = None, seconds: float = 60) -> str:
        """Invokes the function, or one in a new process. Returns its outcome."""
        self.clock.seconds += 0.001
        return run_job(function or self.function(), event or self.event(), Context(seconds))

    def run_on(self) -> tuple[list[str], list[list[str]]]:
        """Runs the job until it is done. Each invocation is a process that has time for one step.

        Returns the invocations' outcomes, and the bodies that each of them sent.
        """
        outcomes, sent = list[str](), []
        while not outcomes or outcomes[-1] == "Continued":
            function = self.function()
            function.ACCOUNTS_PER_STEP = STEP
            outcomes.append(self.run(function, seconds=RESERVED_SECONDS))
            sent.append(self.queued())
        return outcomes, sent

    def counted(self, bodies: Iterable[str]) -> Counter[Any]:
        """How many messages there are by what they are about."""
        return Counter(self.about(json.loads(body)) for body in bodies)

    def done(self, day: int = 1) -> dict[Any, Decimal]:
        """The amounts of what the messages have led to, by what they were about. Fails if one was applied twice."""
        prefix = {
            "expire_holds": "teller:expire-hold-",
            "charge_overdraft_interest": f"teller:overdraft-interest-2026-03-{day:02}",
        }
        found = [entry for entry in self.sound_books().entries if entry.transaction_id.startswith(prefix[self.JOB])]
        about = [self.about(entry.request) for entry in found]
        assert len(set(about)) == len(about)
        return {each: entry.outcome.amount for each, entry in zip(about, found, strict=True)}

    def sound_books(self) -> Books:
        """The books, after the invariants were checked, and the dead-letter queue was found empty."""
        books = self.books
        assert not violations(books)
        assert not self.dead_letters()
        return books

    def report(self) -> Item:
        """That of the only run that is done."""
        [report] = [item for item in self.items(self.locks_table) if "finished_at" in item]
        return report


class Interest(SendingJob):
    JOB = "charge_overdraft_interest"
    SAMPLE: ClassVar = {"anna", "emil", "finn"}

    @override
    def open_sample(self) -> None:
        balances = {"anna": "-100", "ben": "-0.01", "cleo": "0", "dora": "50", "emil": "-499.51", "finn": "-1234.56"}
        self.open_with(balances)

    def open_with(self, balances: Mapping[str, str], limit: object = -5000, currency: str = "EUR") -> None:
        """At the beginning of February, at a rate of a thousandth a day."""
        messages = openings(*balances, limit=limit, currency=currency)
        messages += [payment("first", balance, name) for name, balance in balances.items() if Decimal(balance)]
        self.post_at(FEBRUARY, *messages, *(rate("rate", "0.365", name) for name in balances))

    @override
    def open_wanted(self, names: Iterable[str]) -> None:
        self.open_with(dict.fromkeys(names, "-100"))

    @override
    def open_others(self, names: Iterable[str]) -> None:
        self.open_with(dict.fromkeys(names, "1"))

    @override
    def about(self, body: Mapping[str, Any]) -> str:
        return str(body["account_id"])


class Expiry(SendingJob):
    JOB = "expire_holds"
    SAMPLE: ClassVar = {("anna", "a-1"), ("anna", "a-2"), ("dora", "d-1")}
    LATER: ClassVar = {("anna", "a-3"), ("emil", "e-1")}

    @override
    def open_sample(self) -> None:
        self.open_with(
            {
                "anna": {"a-1": PAST, "a-2": JUST, "a-3": SOON},
                "ben": {"b-1": None},
                "cleo": {},
                "dora": {"d-1": JUST},
                "emil": {"e-1": SOON},
            }
        )

    def open_with(self, holds: Mapping[str, Mapping[str, str | None]]) -> None:
        """Accounts with a balance of 100, and holds of 1 each, by id and time of expiry."""
        self.post(*openings(*holds), *(payment("first", 100, name) for name in holds))
        all_holds = [(name, *each) for name, of_account in holds.items() for each in of_account.items()]
        self.post(*(hold(hold_id, 1, name, expires_at=expires_at) for name, hold_id, expires_at in all_holds))

    @override
    def open_wanted(self, names: Iterable[str]) -> None:
        self.open_with({name: {"h-1": PAST, "h-2": SOON} for name in names})

    @override
    def open_others(self, names: Iterable[str]) -> None:
        self.post(*map(opening, names))

    @override
    def about(self, body: Mapping[str, Any]) -> tuple[str, str]:
        return body["account_id"], body["hold_id"]

    @override
    def sound_books(self) -> Books:
        """What is held is compared with the open holds, too."""
        books = super().sound_books()
        for account in books.accounts.values():
            assert account.held == sum(hold.remaining for hold in account.open_holds.values())
            assert account.held == books.journal[account.account_id][-1].outcome.held_after
        return books

    def open_holds(self) -> set[tuple[str, str]]:
        return {(name, each) for name, account in self.books.accounts.items() for each in account.open_holds}
