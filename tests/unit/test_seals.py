"""Seals: docs/seals.md has test vectors, which Python's own json and hashlib give, and so does the product."""

import base64
import hashlib
import json
import re
from decimal import Decimal

import pytest
from hypothesis import given
from msgspec.structs import replace

from conditional_writes.core.items import from_dynamodb, item_bytes, to_dynamodb
from ledger.core.journal import FORMAT, EntryId, canonical_form, entry_from_item, entry_item, seal_of
from tests.checkers import seals
from tests.support.samples import entry_of
from tests.support.strategies import any_message
from tests.unit.test_items_of_the_ledger import OUTCOMES, REDRIVEN
from tools.local_aws.server import PROJECT

PAGE = (PROJECT / "docs" / "seals.md").read_text()
[VECTORS, *_] = re.findall(r"^```text\n(.*?)\n*^```", PAGE, re.DOTALL | re.MULTILINE)
CASES = [vector.split("\n") for vector in VECTORS.split("\n\n")]


@pytest.mark.parametrize(("before", "form", "seal"), CASES)
def test_the_vectors_are_what_pythons_own_modules_give(before: str, form: str, seal: str) -> None:
    before = before.removeprefix("(none)")
    assert json.dumps(json.loads(form), sort_keys=True, ensure_ascii=False, separators=(",", ":")) == form
    digest = hashlib.sha256((before + form).encode()).digest()
    assert base64.urlsafe_b64encode(digest).decode() == f"{seal}="


@pytest.mark.parametrize(("before", "form", "seal"), CASES)
def test_the_vectors_are_what_the_product_gives_of_the_items(before: str, form: str, seal: str) -> None:
    fields = json.loads(form)
    numbers = {name: Decimal(fields[name]) for name in ("amount", "balance_after", "account_version", "rules")}
    key = EntryId.on(fields["account_id"], fields.pop("home_account_id"), fields["transaction_id"])
    home = {"home_account_id": json.loads(form)["home_account_id"]} if key[1] != fields["transaction_id"] else {}
    fields.pop("held_after")
    entry = entry_from_item(fields | numbers | key._asdict() | home | {"format": FORMAT, "seal": seal})
    assert canonical_form(entry).decode() == form
    assert seal_of(before.removeprefix("(none)"), entry) == seal
    assert item_bytes(entry_item(entry) | {"cw:write_id": "0" * 32}) < 1024


@given(any_message())
def test_the_checkers_canonical_form_is_the_products(message: object) -> None:
    for outcome in OUTCOMES.values():
        for account_id in message.account_ids:
            entry = entry_of(message, outcome, account_id)
            for each in (entry, replace(entry, sender=REDRIVEN)):
                item = from_dynamodb(to_dynamodb(entry_item(each)))
                assert seals.canonical_form(item) == canonical_form(each)
                assert seals.key_of(item) == item["transaction_id"]
