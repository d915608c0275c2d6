"""Asserts that unit tests can't use the network."""

import urllib.request

import pytest


def test_a_unit_test_that_uses_the_network_fails() -> None:
    with pytest.raises(pytest.fail.Exception, match="used the network"):
        urllib.request.urlopen("http://127.0.0.1:9")
