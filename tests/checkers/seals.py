"""The keys and the seals of journal entries, computed from the tables' items by docs/seals.md alone.

It imports nothing from the product, so that it finds a wrong seal in the product.
"""

import base64
import hashlib
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from typing import Any

from tests.checkers.statement_oracle import text

type Item = Mapping[str, Any]
"""An item of a table in Python's types: numbers are Decimals."""


def canonical_form(entry: Item) -> bytes:
    """What is sealed of a journal entry."""
    fields = {name: _plain(value) for name, value in entry.items() if name not in ("seal", "format", "cw:write_id")}
    fields |= {"account_version": int(entry["account_version"]), "rules": int(entry["rules"])}
    fields |= {"home_account_id": _home(entry), "transaction_id": entry["request"]["transaction_id"]}
    fields.setdefault("held_after", "0")
    if "decimal_places" in entry:
        fields["decimal_places"] = int(entry["decimal_places"])
    if "shards" in entry:
        fields["shards"] = {name: int(number) for name, number in entry["shards"].items()}
    if "reversal" in entry:
        fields["reversal"]["number"] = int(entry["reversal"]["number"])
    return json.dumps(fields, ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode()


def key_of(entry: Item) -> str:
    """The sort key that the entry should have."""
    home, transaction_id = _home(entry), entry["request"]["transaction_id"]
    if entry["account_id"] == home:
        return str(transaction_id)
    return "teller:side:" + _hash(json.dumps([home, transaction_id]).encode())


def seal_of(before: str, entry: Item) -> str:
    """The seal that the entry should have. `before` is that of the version before."""
    return _hash(before.encode() + canonical_form(entry))


def broken(accounts: Iterable[Item], entries: Iterable[Item]) -> Iterator[str]:
    """A sentence for each entry with another key or seal than it should have, and for each account."""
    journals: dict[str, list[Item]] = defaultdict(list)
    for entry in entries:
        journals[entry["account_id"]].append(entry)
    for account in accounts:
        name, seal = account["account_id"], ""
        for entry in sorted(journals[name], key=lambda entry: int(entry["account_version"])):
            seal = seal_of(seal, entry)
            if entry["transaction_id"] != key_of(entry):
                yield f"{name}: version {entry['account_version']} has the key {entry['transaction_id']}"
            if entry["seal"] != seal:
                yield f"{name}: version {entry['account_version']} has the seal {entry['seal']}"
        if journals[name] and account["seal"] != seal:
            yield f"{name}: the account has the seal {account['seal']}, its last entry {seal}"


def _hash(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")


def _home(entry: Item) -> str:
    return str(entry.get("home_account_id", entry["account_id"]))


def _plain(value: Any) -> Any:
    if isinstance(value, Decimal):
        return text(value)
    return {name: _plain(each) for name, each in value.items()} if isinstance(value, Mapping) else value
