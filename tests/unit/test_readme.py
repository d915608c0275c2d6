"""What the READMEs and decisions link to is there, and the README's example of a message is one."""

import re
from pathlib import Path

import pytest

from ledger.profiles import ProfileUpdate, decode
from tests.local_aws.server import PROJECT

README = (PROJECT / "README.md").read_text()


PAGES = [PROJECT / "README.md", *PROJECT.glob("layers/*/README.md"), *PROJECT.glob("docs/decisions/*.md")]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(PROJECT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)]+)\)", page.read_text())
    assert links
    for link in links:
        path, _, test = link.partition("#")
        assert (page.parent / path).is_file(), link
        assert not test or f"def {test}(" in (page.parent / path).read_text(), link


def test_the_profiles_example_is_a_message_with_every_field() -> None:
    [body] = re.findall(r"```json\n(.*?)```", README, re.DOTALL)
    assert decode(body)
    for field in ProfileUpdate.__struct_fields__:
        assert f'"{field}": ' in body
