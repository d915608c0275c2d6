"""The oracle of statements: the answers of read_accounts as plain arithmetic on all items of the journal.

Written from docs/statements.md. It imports nothing from the product.
"""

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any, NamedTuple

type Answer = dict[str, Any]


class Journal(NamedTuple):
    """An account's item, and the items of its entries in the order of their versions."""

    account: dict[str, Any]
    entries: Sequence[dict[str, Any]]

    def account_answer(self) -> Answer:
        shown = {name: self.account[name] for name in ("account_id", "currency", "status")}
        amounts = {name: text(self.account[name]) for name in ("balance", "overdraft_limit")}
        rest = {"version": int(self.account["version"]), "posted_at": self.account["posted_at"]}
        return shown | amounts | rest

    def statement(self, wanted: Iterable[int], limit: int, unknown: Collection[int] = ()) -> Answer:
        """The statement of these versions, a run without a gap. The entries of the `unknown` ones can't be found."""
        existing = [version for version in wanted if 1 <= version <= len(self.entries)]
        page, rest = existing[:limit], existing[limit:]
        missing = [version for version in page if version in unknown]
        return {
            "account_id": self.account["account_id"],
            "account_version": len(self.entries),
            "entries": [shown(self.entries[version - 1]) for version in page if version not in unknown],
            "complete": not missing,
            "missing_versions": missing,
            "next": {"from_version": rest[0], "to_version": rest[-1]} if rest else None,
        }

    def last(self, count: int) -> range:
        return range(len(self.entries) - count + 1, len(self.entries) + 1)

    def between(self, begin: datetime, end: datetime | None) -> list[int]:
        """The versions that were posted at `begin` or later, and before `end`."""
        return [
            version
            for version, entry in enumerate(self.entries, 1)
            if begin <= time_of(entry) and (end is None or time_of(entry) < end)
        ]

    def balance(self, at: datetime) -> Answer:
        earlier = [entry for entry in self.entries if time_of(entry) < at]
        last = earlier[-1] if earlier else None
        return {
            "account_id": self.account["account_id"],
            "balance": text(sum((entry["amount"] for entry in earlier), Decimal(0))) if last else None,
            "account_version": len(earlier),
            "posted_at": last["posted_at"] if last else None,
            "complete": True,
        }

    def transaction(self, transaction_id: str) -> Answer:
        found = [shown(entry) for entry in self.entries if entry["transaction_id"] == transaction_id]
        answer = {"account_id": self.account["account_id"], "transaction_id": transaction_id}
        return answer | {"entry": found[0] if found else None}


def journals(accounts: Iterable[dict[str, Any]], entries: Iterable[dict[str, Any]]) -> dict[str, Journal]:
    """The journal of each account, by its id, of all items of both tables."""
    ordered = sorted(entries, key=lambda entry: int(entry["account_version"]))
    found = {account["account_id"]: Journal(account, []) for account in accounts}
    return {
        name: journal._replace(entries=[entry for entry in ordered if entry["account_id"] == name])
        for name, journal in found.items()
    }


def shown(entry: dict[str, Any]) -> Answer:
    same = {
        name: entry[name] for name in ("transaction_id", "status", "reason", "posted_at", "request") if name in entry
    }
    amounts = {name: text(entry[name]) for name in ("amount", "balance_after")}
    return same | amounts | {"account_version": int(entry["account_version"])}


def time_of(entry: dict[str, Any]) -> datetime:
    return datetime.fromisoformat(entry["posted_at"])


def text(number: Decimal) -> str:
    """All digits, without zeros that say nothing."""
    digits = f"{number:f}"
    if "." in digits:
        digits = digits.rstrip("0").rstrip(".")
    return "0" if digits == "-0" else digits
