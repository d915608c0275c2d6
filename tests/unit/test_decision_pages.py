"""The index and the code name each decision page, and the tests that it names exist. Some figures are computed."""

import re
from decimal import Decimal

import pytest
from msgspec.structs import replace

from conditional_writes.core.items import item_bytes
from ledger.core.accounts import Account, AccountStatus, account_item
from ledger.core.holds import MOST_OPEN_HOLDS, OpenHold, total
from tools.local_aws.server import PROJECT

DECISIONS = PROJECT / "docs" / "decisions"
PAGES = sorted(page for page in DECISIONS.glob("*.md") if page.name != "README.md")
MODULES = [path.read_text() for path in (PROJECT / "tests").rglob("test_*.py")]
TESTS = {name for text in MODULES for name in re.findall(r"^def (test_\w+)\(", text, re.MULTILINE)}


def test_the_pages_name_tests_that_are_there() -> None:
    pages = (PROJECT / "docs").rglob("*.md")
    named = {name for page in pages for name in re.findall(r"`(test_\w+)`", page.read_text())}
    assert named <= TESTS, f"no such tests: {', '.join(sorted(named - TESTS))}"


def test_the_index_and_the_code_name_each_decision_and_no_other() -> None:
    assert PAGES
    pages = {page.name for page in PAGES}
    assert set(re.findall(r"\(([\w-]+\.md)\)", (DECISIONS / "README.md").read_text())) == pages
    code = [PROJECT / "template.yaml", *PROJECT.glob("tools/*.py"), *PROJECT.glob("functions/*/app.py")]
    code += PROJECT.glob("layers/*/*/**/*.py")
    named = {name for path in code for name in re.findall(r"docs/decisions/([\w-]+\.md)", path.read_text())}
    assert named == pages


@pytest.mark.parametrize(("number", "id_letters"), [(0, 36), (8, 36), (9, 36), (20, 36), (20, 128)])
def test_open_holds_take_the_bytes_that_their_page_says(number: int, id_letters: int) -> None:
    page = (DECISIONS / "holds.md").read_text()
    holds = {f"{each:0{id_letters}}": OpenHold(Decimal("12.34"), "2026-03-05T12:00:00+00:00") for each in range(number)}
    account = Account(36 * "a", Decimal("123.45"), Decimal(-50), "EUR", AccountStatus.OPEN, 1234)
    at = "2026-02-28T12:00:00.000+00:00"
    account = replace(account, posted_at=at, held=total(holds), holds=holds or None, decimal_places=2, seal=43 * "s")
    item = account_item(account) | {"cw:version_id": 32 * "x"}
    assert re.search(rf"\b{item_bytes(item):,}\b", page), item_bytes(item)
    assert f"at most {MOST_OPEN_HOLDS}" in page
