"""Clients of the services in the process, made in a fraction of the usual time: tests make thousands of them."""

import contextlib
import copy
import os
from collections.abc import Iterator
from functools import cache
from typing import Any
from unittest import mock

import botocore
from botocore.awsrequest import AWSResponse
from botocore.client import ClientCreator
from botocore.endpoint import Endpoint
from botocore.hooks import EventAliaser, HierarchicalEmitter, NodeList, _PrefixTrie
from botocore.loaders import JSONFileLoader
from urllib3 import PoolManager

from conditional_writes.testing.wire import Call, Connection, Handle

_handles: list[Handle] = []
"""The last one answers all clients, those too that were made before it."""


def _answer(call: Call) -> AWSResponse:
    return _handles[-1](call)


class _InProcess(Connection):
    """The library asks botocore's session for its pool of open connections, too: here none is open."""

    _manager = PoolManager()

    def __init__(self) -> None:
        super().__init__(_answer)


@contextlib.contextmanager
def quick_clients(url: str, handle: Handle) -> Iterator[None]:
    """Clients of this address have these answers, and what doesn't differ between them is found out once.

    Each has a connection, handlers and retries of its own. No request is signed, for nobody checks it.
    """
    make, made = ClientCreator._get_client_args, dict[Any, dict[str, Any]]()

    def arguments_of(creator: Any, model: Any, *given: Any) -> dict[str, Any]:
        region, _, endpoint_url, _, _, _, config, *_ = given
        settings = repr(sorted(config._user_provided_options.items())) if config else ""
        environment = frozenset(each for each in os.environ.items() if each[0].startswith("AWS_"))
        key = model.service_name, region, endpoint_url, settings, environment
        first = made.get(key) or make(creator, model, *given)
        before = first["endpoint"]
        if not before.host.startswith(url):
            return first
        made[key] = first
        first["event_emitter"].register_first("choose-signer", lambda **_: botocore.UNSIGNED)
        events = copy.copy(creator._event_emitter)
        endpoint = Endpoint(before.host, before._endpoint_prefix, events, before._response_parser_factory, _InProcess())
        return first | {"event_emitter": events, "endpoint": endpoint}

    _handles.append(handle)
    try:
        with mock.patch.object(ClientCreator, "_get_client_args", arguments_of):
            yield
    finally:
        _handles.pop()


@contextlib.contextmanager
def quick_botocore() -> Iterator[None]:
    """botocore's work that is the same for each session, client or request is done once."""
    read, alias = cache(JSONFileLoader().load_file), cache(EventAliaser(HierarchicalEmitter())._alias_event_name)
    with (
        mock.patch.object(JSONFileLoader, "load_file", lambda _, path: read(path)),
        mock.patch.object(EventAliaser, "_alias_event_name", lambda _, name: alias(name)),
        mock.patch("botocore.hooks.accepts_kwargs", callable),
        mock.patch.object(_PrefixTrie, "__copy__", _copied),
    ):
        yield


def _copied(trie: Any) -> Any:
    """A trie of handlers, in half of the time that botocore takes for it."""

    def copied(node: dict[str, Any]) -> dict[str, Any]:
        values = node["values"] and NodeList(*map(list, node["values"]))
        children = {part: copied(child) for part, child in node["children"].items()}
        return {"chunk": node["chunk"], "values": values, "children": children}

    copy = _PrefixTrie()
    copy._root = copied(trie._root)
    return copy
