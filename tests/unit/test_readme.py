"""What the README links to is there."""

import re

from tests.local_aws.server import PROJECT

README = (PROJECT / "README.md").read_text()


def test_every_link_leads_somewhere() -> None:
    links = re.findall(r"\]\(([^)]+)\)", README)
    assert links
    for link in links:
        path, _, test = link.partition("#")
        assert (PROJECT / path).is_file(), link
        assert not test or f"def {test}(" in (PROJECT / path).read_text(), link
