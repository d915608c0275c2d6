"""Asserts that unit tests can't use the network."""

import socket
import urllib.request
from collections.abc import Callable

import pytest


def connect() -> None:
    with socket.socket() as client:
        client.connect(("127.0.0.1", 9))


@pytest.mark.parametrize(
    "reach",
    [
        pytest.param(connect, id="a socket"),
        pytest.param(lambda: socket.create_connection(("127.0.0.1", 9)), id="a connection"),
        pytest.param(lambda: urllib.request.urlopen("http://127.0.0.1:9"), id="a page"),
    ],
)
def test_a_unit_test_that_uses_the_network_fails(reach: Callable[[], object]) -> None:
    with pytest.raises(pytest.fail.Exception, match="used the network"):
        reach()
