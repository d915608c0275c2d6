"""Clients of the services in the process, made in a fraction of the usual time: tests make thousands of them."""

import contextlib
import copy
import os
from collections.abc import Iterator
from functools import cache
from typing import Any
from unittest import mock
from weakref import WeakKeyDictionary

from botocore.awsrequest import AWSResponse
from botocore.client import ClientCreator
from botocore.credentials import Credentials
from botocore.endpoint import Endpoint
from botocore.hooks import EventAliaser, HierarchicalEmitter, NodeList, _PrefixTrie
from botocore.loaders import JSONFileLoader
from botocore.regions import EndpointRulesetResolver
from botocore.session import Session
from botocore.signers import RequestSigner
from urllib3 import PoolManager

from conditional_writes.testing.wire import Call, Connection, Handle


@contextlib.contextmanager
def quick_clients(url: str, handle: Handle) -> Iterator[None]:
    """Clients of this address have these answers, and what doesn't differ between them is found out once.

    Each has a connection, handlers, retries and a signer of its own. A request isn't signed: nobody checks it, and it
    is a fifth of its time.
    """
    with (
        _answering(handle),
        _made_once(url),
        _credentials_of_the_environment(url),
        _unsigned(url),
        _resolved_once(url),
    ):
        yield


@contextlib.contextmanager
def quick_botocore() -> Iterator[None]:
    """botocore's work that is the same for each session, client or request is done once."""
    read, alias = cache(JSONFileLoader().load_file), cache(EventAliaser(HierarchicalEmitter())._alias_event_name)
    with (
        _handlers_copied_late(),
        mock.patch.object(JSONFileLoader, "load_file", lambda _, path: read(path)),
        mock.patch.object(EventAliaser, "_alias_event_name", lambda _, name: alias(name)),
        mock.patch("botocore.hooks.accepts_kwargs", callable),
    ):
        yield


_handles: list[Handle] = []
"""The last one answers all clients, those too that were made before it."""


@contextlib.contextmanager
def _answering(handle: Handle) -> Iterator[None]:
    _handles.append(handle)
    try:
        yield
    finally:
        _handles.pop()


class _InProcess(Connection):
    """The library asks botocore's session for its pool of open connections, too: here none is open."""

    _manager = PoolManager()

    def __init__(self) -> None:
        super().__init__(_answer)


def _answer(call: Call) -> AWSResponse:
    return _handles[-1](call)


@contextlib.contextmanager
def _made_once(url: str) -> Iterator[None]:
    make, make_class = ClientCreator._get_client_args, ClientCreator._create_client_class
    made, classes = dict[Any, dict[str, Any]](), dict[Any, type]()

    def class_of(creator: Any, service: str, model: Any) -> type:
        key = service, creator._user_agent.startswith("Boto3")
        if key not in classes:
            classes[key] = make_class(creator, service, model)
        return classes[key]

    def arguments_of(creator: Any, model: Any, *given: Any) -> dict[str, Any]:
        region, is_secure, endpoint_url, verify, credentials, _, config, *_ = given
        settings = repr(sorted(config._user_provided_options.items())) if config else ""
        environment = frozenset(each for each in os.environ.items() if each[0].startswith("AWS_"))
        key = model.service_name, region, is_secure, endpoint_url, verify, settings, environment
        if key not in made:
            first = make(creator, model, *given)
            if not first["endpoint"].host.startswith(url):
                return first
            made[key] = first
        first = made[key]
        events, signer, endpoint = copy.copy(creator._event_emitter), first["request_signer"], first["endpoint"]
        return first | {
            "event_emitter": events,
            "endpoint": Endpoint(
                endpoint.host, endpoint._endpoint_prefix, events, endpoint._response_parser_factory, _InProcess()
            ),
            "request_signer": RequestSigner(
                signer._service_id,
                signer._region_name,
                signer._signing_name,
                signer._signature_version,
                credentials,
                events,
            ),
        }

    with (
        mock.patch.object(ClientCreator, "_get_client_args", arguments_of),
        mock.patch.object(ClientCreator, "_create_client_class", class_of),
    ):
        yield


@contextlib.contextmanager
def _credentials_of_the_environment(url: str) -> Iterator[None]:
    """botocore makes ten providers of credentials, two of them with connections, before it asks one."""
    find = Session.get_credentials

    def get_credentials(session: Any) -> Any:
        if os.environ.get("AWS_ENDPOINT_URL") != url:
            return find(session)
        return Credentials(os.environ["AWS_ACCESS_KEY_ID"], os.environ["AWS_SECRET_ACCESS_KEY"], method="env")

    with mock.patch.object(Session, "get_credentials", get_credentials):
        yield


@contextlib.contextmanager
def _unsigned(url: str) -> Iterator[None]:
    sign = RequestSigner.sign

    def sign_or_not(signer: Any, operation_name: str, request: Any, *rest: Any, **more: Any) -> None:
        if not request.url.startswith(url):
            sign(signer, operation_name, request, *rest, **more)

    with mock.patch.object(RequestSigner, "sign", sign_or_not):
        yield


@contextlib.contextmanager
def _resolved_once(url: str) -> Iterator[None]:
    """botocore finds out a client's address anew for each request: 5 % of its time."""
    resolve = EndpointRulesetResolver.construct_endpoint
    addresses = WeakKeyDictionary[Any, Any]()

    def resolve_once(resolver: Any, **given: Any) -> Any:
        if resolver not in addresses:
            address = resolve(resolver, **given)
            if address.url != url:
                return address
            addresses[resolver] = address
        return addresses[resolver]

    with mock.patch.object(EndpointRulesetResolver, "construct_endpoint", resolve_once):
        yield


@contextlib.contextmanager
def _handlers_copied_late() -> Iterator[None]:
    """botocore copies all handlers for each client. Here a copy shares them, until one is added or taken away."""
    append, remove = _PrefixTrie.append_item, _PrefixTrie.remove_item

    def share(trie: Any) -> Any:
        shared = _PrefixTrie()
        shared._root = trie._root
        return shared

    def append_to_own(trie: Any, key: str, *item: Any, **section: Any) -> None:
        _copy_path(trie, key)
        append(trie, key, *item, **section)

    def remove_from_own(trie: Any, key: str, value: Any) -> None:
        _copy_path(trie, key)
        remove(trie, key, value)

    with mock.patch.multiple(_PrefixTrie, __copy__=share, append_item=append_to_own, remove_item=remove_from_own):
        yield


def _copy_path(trie: Any, key: str) -> None:
    parent = root = {"children": {"": trie._root}}
    for part in ["", *key.split(".")]:
        if not (shared := parent["children"].get(part)):
            break
        values = shared["values"] and NodeList(*map(list, shared["values"]))
        own = {"chunk": shared["chunk"], "values": values, "children": dict(shared["children"])}
        parent["children"][part] = parent = own
    trie._root = root["children"][""]
