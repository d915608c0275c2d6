"""Each decision page is in the index, and the tests that it names exist."""

import re

import pytest

from tools.local_aws.server import PROJECT

DECISIONS = PROJECT / "docs" / "decisions"
PAGES = sorted(page for page in DECISIONS.glob("*.md") if page.name != "README.md")
TESTS = {
    name
    for path in (PROJECT / "tests").rglob("test_*.py")
    for name in re.findall(r"^def (test_\w+)\(", path.read_text(), re.MULTILINE)
}


@pytest.mark.parametrize("page", [pytest.param(page, id=page.stem) for page in PAGES])
def test_a_decision_names_tests_that_are_there(page) -> None:
    named = set(re.findall(r"`(test_\w+)`", page.read_text()))
    assert named <= TESTS, f"no such tests: {', '.join(sorted(named - TESTS))}"


def test_the_index_has_a_row_for_each_decision() -> None:
    index = (DECISIONS / "README.md").read_text()
    assert PAGES
    assert [page.name for page in PAGES if f"({page.name})" not in index] == []
