"""Tests of the product. Asserts in the modules that tests share say what they found, as those of tests do."""

import pytest

pytest.register_assert_rewrite("tests.support", "tests.checkers")
