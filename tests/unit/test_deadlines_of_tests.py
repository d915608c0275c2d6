"""The deadline that each test has. It is the timer's, so this takes a second of the wall clock."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.clock import RanTooLong


@pytest.mark.timeout(1, func_only=True)
def test_a_deadline_that_passes_while_an_example_is_drawn_ends_the_test_and_is_called_by_its_name() -> None:
    draws = []

    @given(st.builds(lambda: draws.append(time.sleep(60))))
    def drawing(_: None) -> None: ...

    with pytest.raises(RanTooLong, match="hasn't ended after 1 s"):
        drawing()
    assert not draws
