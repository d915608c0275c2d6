"""Each folder's pinned requirements have hashes, and `make lock` and dependabot update them."""

import re
from pathlib import Path

import pytest
import yaml

from tests.support.template import PROJECT

FILES = [*PROJECT.glob("*/requirements.in"), *PROJECT.glob("*/*/requirements.in")]
FOLDERS = sorted(path.parent.relative_to(PROJECT) for path in FILES)


@pytest.mark.parametrize("folder", FOLDERS, ids=str)
def test_every_pin_has_hashes_and_no_file_names_an_index(folder: Path) -> None:
    text = (PROJECT / folder / "requirements.txt").read_text()
    pins = re.findall(r"^[a-z].*", text, re.MULTILINE)
    assert pins
    assert [pin for pin in pins if not pin.endswith("\\")] == []
    assert not re.search(r"://|--(extra-)?index-url|--find-links", text)


def test_make_lock_pins_each_folder_anew() -> None:
    [loop] = re.findall(r"^\tfor folder in (.*); do", (PROJECT / "Makefile").read_text(), re.MULTILINE)
    assert sorted(loop.split()) == [str(folder) for folder in FOLDERS]


def test_dependabot_looks_after_each_folder() -> None:
    updates = yaml.safe_load((PROJECT / ".github" / "dependabot.yml").read_text())["updates"]
    pip = sorted(update["directory"] for update in updates if update["package-ecosystem"] == "pip")
    assert pip == [f"/{folder}" for folder in FOLDERS]
