"""AWS clients with chosen retries and timeouts, made in a fraction of the usual time, for cold starts."""

import copy
import functools
import inspect
import json
import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, override

from botocore.client import BaseClient
from botocore.config import Config
from botocore.handlers import BUILTIN_HANDLERS
from botocore.loaders import JSONFileLoader, Loader
from botocore.session import Session

from conditional_writes.core.answers import SIGNATURE_VERSION, send_quickly

if TYPE_CHECKING:
    from types_boto3_dynamodb import DynamoDBClient

CONNECTIONS = 16
"""The connections that a client keeps open. More threads than that open connections for one request each.

Sixteen are enough for a CPU: a transaction takes a thread 1.3 ms of CPU time, and some 20 ms of waiting.
"""
MAXIMUM_ATTEMPTS = 3
CONNECT_SECONDS = 1
READ_SECONDS = 2
"""DynamoDB answers in milliseconds. With botocore's own 60 s one lost packet could take the whole invocation."""

CONFIG = Config(
    # The SDK retries throttles, 5xx, lost connections and a transaction that is still in progress (with the same
    # ClientRequestToken). "standard" has jitter and a retry quota; the older default, "legacy", has neither. A conflict
    # is an answer, so the SDK doesn't retry it: the loop plans again.
    retries={"mode": "standard", "total_max_attempts": MAXIMUM_ATTEMPTS},
    connect_timeout=CONNECT_SECONDS,
    read_timeout=READ_SECONDS,
    max_pool_connections=CONNECTIONS,
)

ADDRESSES = 3
"""Of an endpoint: each that doesn't answer costs an attempt CONNECT_SECONDS. A VPC endpoint has one address a zone."""
LONGEST_PAUSES_SECONDS = (1 + 5, 2 + 5)
"""botocore's before the second attempt and the third, each prolonged by a header `x-amz-retry-after` by at most 5 s."""
SLOWEST_CALL_SECONDS = MAXIMUM_ATTEMPTS * (ADDRESSES * CONNECT_SECONDS + READ_SECONDS) + sum(LONGEST_PAUSES_SECONDS)
"""The longest that one call takes: all its attempts are slow, and so are the pauses between them."""


QUICK = {"parameter_validation": False, "signature_version": SIGNATURE_VERSION}
"""Settings of clients for this library. `as_request` makes valid parameters, and botocore's own validation would take a
twentieth of a request's CPU time."""


def dynamodb_client() -> "DynamoDBClient":
    """A client for this library. A client is thread-safe and slow to make: make one, outside of the handler."""
    client = new_client("dynamodb", **QUICK)
    send_quickly(client)
    made: DynamoDBClient = client
    return made


def new_client(service_name: str, **config: Any) -> Any:
    """A client of any service, as quickly made. `config` has botocore's settings that differ from `CONFIG`."""
    # A session keeps its credentials and event handlers. Each client has one of its own, and so those of now: inside of
    # moto's mock_aws those of moto, whatever was made before. What takes the time is shared.
    session = Session(include_builtin_handlers=False)
    session.register_component("event_emitter", copy.copy(_handlers(*BUILTIN_HANDLERS)))
    session.register_component("data_loader", _loader())
    settings = {"user_agent": user_agent(session)} | config
    client = session.create_client(service_name, config=CONFIG.merge(Config(**settings)))
    _load_authorities_once(client)
    return client


def user_agent(session: Session) -> str:
    """The text by which a client calls itself, made once. botocore's own takes a tenth of each request's CPU time.

    It names an application's id (`AWS_SDK_UA_APP_ID`), too. It leaves out the SDK's features that were used, which only
    AWS counts.
    """
    application = session.get_config_variable("user_agent_appid")
    return session.user_agent() + (f" app/{application}" if application else "")


def _load_authorities_once(client: Any) -> None:
    """Loads the file of certificate authorities for the client's first connection, and again when the file changes.

    urllib3 loads the file for each connection, into the context that all of them share: 15 ms of CPU time each
    (urllib3 #3623), so that a cold start's batch took 753 ms instead of 182. The context keeps what it has loaded, and
    checks certificates and host names as before. A file with Amazon's roots alone would be as quick, until AWS uses
    another. There is no public way to the context: if botocore changes, each connection loads the file again.
    """
    try:
        context = client._endpoint.http_session._manager.connection_pool_kw["ssl_context"]
    except (AttributeError, KeyError):
        return
    load, loading, loaded = context.load_verify_locations, threading.Lock(), set[Any]()

    def load_once(cafile: str | None = None, capath: str | None = None, cadata: Any = None) -> None:
        with loading:
            version = cafile, Path(cafile).stat().st_mtime_ns if cafile else None, capath, cadata
            if version not in loaded:
                load(cafile, capath, cadata)
                loaded.add(version)

    context.load_verify_locations = load_once


@functools.lru_cache(1)
def _handlers(*_: object) -> Any:
    """botocore's event handlers. Registering all 120 takes 5 ms, and copying them 0.2.

    They are the cache's key, because moto adds its own to botocore's list: then they are registered anew.
    """
    return Session().get_component("event_emitter")


@functools.cache
def _loader() -> Loader:
    """Loads botocore's models once for all clients."""
    return _QuickLoader(file_loader=_QuickFileLoader())


class _QuickLoader(Loader):
    """Lists services by their folders. botocore looks into each of 440 folders, twice: 6 ms of a cold start."""

    @override
    def list_available_services(self, type_name: str) -> list[str]:
        paths = [path for path in self.search_paths if Path(path).is_dir()]
        return sorted(name for path in paths for name in os.listdir(path))  # noqa: PTH208 (iterdir takes ten times longer)


class _QuickFileLoader(JSONFileLoader):
    """Reads botocore's models into dicts. botocore makes OrderedDicts of 1.25 MB of JSON: 7 ms of a cold start."""

    def _load_file(self, full_path: str, open_method: Any) -> Any:
        if not Path(full_path).is_file():
            return None
        with open_method(full_path, "rb") as file:
            return json.load(file)


def check_plain(client: "DynamoDBClient") -> None:
    """Raises TypeError for the client of a resource: each value would be converted twice.

    There is no public way to ask for a client's event handlers. If botocore changes, such a client isn't recognised,
    and DynamoDB refuses its keys.
    """
    service = getattr(getattr(client, "meta", None), "service_model", None)
    if service is None or service.service_name != "dynamodb":
        raise TypeError(f"expected a client of DynamoDB, got {client!r}: make one with dynamodb_client()")
    events: Any = client.meta.events
    try:
        handlers = events._emitter._handlers.prefix_search("before-parameter-build.dynamodb.GetItem")
    except AttributeError:
        handlers = ()
    if any(type(getattr(handler, "__self__", None)).__module__ == "boto3.dynamodb.transform" for handler in handlers):
        raise TypeError(
            "this client belongs to boto3.resource('dynamodb'), which converts the values of each request and answer:"
            " give the library boto3.client('dynamodb'), or dynamodb_client(), and keep the resource beside it"
        )


def check_awaited(client: Any, *, is_awaited: bool) -> None:
    """Raises TypeError for a client of the other kind: a write would never be made, or its caller told of an error."""
    call = getattr(client, "_make_api_call", None)
    if inspect.iscoroutinefunction(call) and not is_awaited:
        raise TypeError("the calls of this client are awaited: use conditional_writes.asyncio, or give boto3's client")
    if is_awaited and isinstance(client, BaseClient) and not inspect.iscoroutinefunction(call):
        raise TypeError("the calls of this client block: give conditional_writes.asyncio a client of aiobotocore's")
