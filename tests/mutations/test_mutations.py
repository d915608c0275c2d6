"""The breakages of `make mutations` fit the current product. `make mutations` itself takes minutes."""

import ast
from pathlib import Path

import pytest

from tests.mutations.breakages import BREAKAGES, Breakage
from tests.mutations.patching import patched
from tools.local_aws.server import PROJECT


@pytest.mark.parametrize("breakage", BREAKAGES, ids=lambda breakage: breakage.what)
def test_each_breakage_changes_one_place_and_leaves_python(breakage: Breakage) -> None:
    whole = (PROJECT / breakage.path).read_text()
    assert ast.dump(ast.parse(patched(whole, breakage))) != ast.dump(ast.parse(whole))
    assert all(Path(PROJECT / tests).exists() for tests in breakage.tests)


def test_a_breakage_that_no_longer_fits_is_an_error() -> None:
    for text in ("", BREAKAGES[0].old * 2):
        with pytest.raises(ValueError, match=f"{BREAKAGES[0].what}: found .* times in .*, expected once"):
            patched(text, BREAKAGES[0])
