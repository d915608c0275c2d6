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

    @property
    def name(self) -> str:
        return str(self.account["account_id"])

    def account_answer(self) -> Answer:
        """The holds are those that the entries leave open. Without the interest, which is as of the read."""
        shown = {name: self.account[name] for name in ("account_id", "currency", "status")}
        holds = open_holds(self.entries, self.account["account_id"])
        held = sum((amount for amount, _ in holds.values()), Decimal(0))
        amounts = {name: self.account[name] for name in ("balance", "overdraft_limit")} | {"held": held}
        spendable = amounts["balance"] - held - amounts["overdraft_limit"]
        frozen = self.account.get("frozen", {"debits": False, "credits": False})
        amounts["available"] = spendable if shown["status"] == "OPEN" and not frozen["debits"] else Decimal(0)
        rest = {"version": int(self.account["version"]), "frozen": frozen, "limits": []} | {
            name: self.account[name] for name in ("posted_at", "seal")
        }
        places = self.account.get("decimal_places")
        rest["decimal_places"] = None if places is None else int(places)
        in_order = sorted(holds.items(), key=lambda hold: (hold[1][1] is None, hold[1][1] or "", hold[0]))
        rest["holds"] = [
            {"hold_id": name, "remaining": text(amount), "expires_at": time} for name, (amount, time) in in_order
        ]
        return shown | {name: text(amount) for name, amount in amounts.items()} | rest

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
        times = enumerate(map(time_of, self.entries), 1)
        return [version for version, time in times if begin <= time and (end is None or time < end)]

    def balance(self, at: datetime) -> Answer:
        earlier = [entry for entry in self.entries if time_of(entry) < at]
        last = earlier[-1] if earlier else None
        holds = open_holds(earlier, self.account["account_id"])
        return {
            "account_id": self.account["account_id"],
            "balance": text(sum((entry["amount"] for entry in earlier), Decimal(0))) if last else None,
            "held": text(sum((amount for amount, _ in holds.values()), Decimal(0))) if last else None,
            "account_version": len(earlier),
            "posted_at": last["posted_at"] if last else None,
            "complete": True,
        }

    def transaction(self, transaction_id: str, home: str = "") -> Answer:
        """Of a transaction of this home; if none is given, of the account's own."""
        name = self.account["account_id"]
        ids = {"home_account_id": home or name, "transaction_id": transaction_id}
        found = [entry for entry in map(shown, self.entries) if entry | ids == entry]
        state = found[0]["status"].lower() if found else "unknown"
        answer = {"account_id": name, **ids, "state": state}
        rest = {"reversed": self.reversed(transaction_id, home), "refusal": None}
        return answer | {"entry": found[0] if found else None} | rest

    def reversed(self, transaction_id: str, home: str = "") -> Answer | None:
        """What was reversed of a transaction: each of its accounts has an entry of each reversal."""
        reversals = [
            entry
            for entry in self.entries
            if entry["status"] == "POSTED"
            and entry["request"]["type"] == "reverse"
            and entry["request"]["of_transaction_id"] == transaction_id
            and entry["request"].get("of_account_id", entry["request"]["account_id"]) == (home or self.name)
        ]
        amount = abs(sum((entry["amount"] for entry in reversals), Decimal(0)))
        if not reversals:
            return None
        last = reversals[-1]["request"]["transaction_id"]
        return {"amount": text(amount), "number": len(reversals), "reversed_by": last}


def open_holds(entries: Iterable[dict[str, Any]], account_id: str) -> dict[str, tuple[Decimal, str | None]]:
    """What remains of each hold after these entries of the account, and when it expires."""
    holds = dict[str, tuple[Decimal, str | None]]()
    for entry in entries:
        request = entry["request"]
        if entry["status"] != "POSTED" or request.get("account_id") != account_id:
            continue  # a payee has no part in a hold
        match request["type"]:
            case "hold":
                holds[entry["transaction_id"]] = Decimal(request["amount"]), request.get("expires_at")
            case "post_hold":
                remaining, expires_at = holds.pop(request["hold_id"])
                if not request.get("final", True) and remaining + entry["amount"] > 0:
                    holds[request["hold_id"]] = remaining + entry["amount"], expires_at
            case "void_hold" | "expire_hold":
                del holds[request["hold_id"]]
    return holds


def journals(accounts: Iterable[dict[str, Any]], entries: Iterable[dict[str, Any]]) -> dict[str, Journal]:
    """The journal of each account, by its id, of all items of both tables."""
    ordered = sorted(entries, key=lambda entry: int(entry["account_version"]))
    found = {account["account_id"]: Journal(account, []) for account in accounts}
    return {
        name: journal._replace(entries=[entry for entry in ordered if entry["account_id"] == name])
        for name, journal in found.items()
    }


def shown(entry: dict[str, Any]) -> Answer:
    names = ("account_id", "status", "reason", "rejecting_account_id", "posted_at", "currency")
    names += ("request", "sent", "first_sent", "seal")
    same = {name: entry[name] for name in names if name in entry}
    same["home_account_id"] = entry.get("home_account_id", entry["account_id"])
    same["transaction_id"] = entry["request"]["transaction_id"]
    amounts = {name: text(entry[name]) for name in ("amount", "balance_after")}
    amounts["held_after"] = text(entry.get("held_after", Decimal(0)))
    numbers = {name: int(entry[name]) for name in ("account_version", "rules", "decimal_places") if name in entry}
    if reversal := entry.get("reversal"):
        after = text(reversal["reversed_after"])
        same["reversal"] = reversal | {"number": int(reversal["number"]), "reversed_after": after}
    if exceeded := entry.get("exceeded"):
        same["exceeded"] = exceeded | {"left": text(exceeded["left"])}
    return same | amounts | numbers


def time_of(entry: dict[str, Any]) -> datetime:
    return datetime.fromisoformat(entry["posted_at"])


def text(number: Decimal) -> str:
    """All digits, without zeros that say nothing."""
    digits = f"{number:f}"
    if "." in digits:
        digits = digits.rstrip("0").rstrip(".")
    return "0" if digits == "-0" else digits
