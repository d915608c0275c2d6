"""What the README links to is there, and its example of a message is one."""

import re

from ledger.profiles import ProfileUpdate, decode
from tests.local_aws.server import PROJECT

README = (PROJECT / "README.md").read_text()


def test_every_link_leads_somewhere() -> None:
    links = re.findall(r"\]\(([^)]+)\)", README)
    assert links
    for link in links:
        path, _, test = link.partition("#")
        assert (PROJECT / path).is_file(), link
        assert not test or f"def {test}(" in (PROJECT / path).read_text(), link


def test_the_profiles_example_is_a_message_with_every_field() -> None:
    [body] = re.findall(r"```json\n(.*?)```", README, re.DOTALL)
    assert decode(body)
    for field in ProfileUpdate.__struct_fields__:
        assert f'"{field}": ' in body
