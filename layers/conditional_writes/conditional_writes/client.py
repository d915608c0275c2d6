"""Clients with their retries and timeouts chosen, made as fast as a cold start deserves."""

import functools
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, override

import boto3
import botocore.session
from botocore.config import Config
from botocore.loaders import JSONFileLoader, Loader

if TYPE_CHECKING:
    from types_boto3_dynamodb import DynamoDBClient

CONNECTIONS = 32
"""Requests in flight at most from one client; more threads than this would wait for a connection."""

CONFIG = Config(
    # The SDK settles what has no answer in it: throttles, 5xx, lost connections, and the outcome of a transaction
    # that was still in progress (it resends with the same ClientRequestToken). "standard" jitters its back-off and
    # has a retry quota; the older "legacy" default has neither. Conflicts are answers: the loop plans again.
    retries={"mode": "standard", "total_max_attempts": 3},
    # DynamoDB answers in milliseconds. botocore's own 60 s would let one lost packet eat the whole invocation.
    connect_timeout=1,
    read_timeout=2,
    max_pool_connections=CONNECTIONS,
)

SLOWEST_CALL_SECONDS = 3 * (1 + 2) + 3
"""What one call can take with those settings: three attempts, and the back-off of throttles (1 s, then 2 s)."""


def dynamodb_client() -> "DynamoDBClient":
    """A client for `write` and `read`. Make it once, outside of the handler: it is thread-safe, and slow to make."""
    # `as_request` makes well-formed requests: to check them again would be a twentieth of a request's CPU.
    client: DynamoDBClient = new_client("dynamodb", parameter_validation=False)
    return client


def new_client(service: str, **settings: Any) -> Any:
    """A client of any AWS service, made as quickly, with `CONFIG` and these settings of botocore's Config beside it."""
    return _session().client(service, config=CONFIG.merge(Config(**settings)))


@functools.cache
def _session() -> boto3.Session:
    session = botocore.session.get_session()
    session.register_component("data_loader", _QuickLoader(file_loader=_QuickFileLoader()))
    return boto3.Session(botocore_session=session)


class _QuickLoader(Loader):
    """Knows a service by its folder, where botocore looks into each of its 440 folders, twice: 6 ms of a cold start."""

    @override
    def list_available_services(self, type_name: str) -> list[str]:
        paths = [path for path in self.search_paths if Path(path).is_dir()]
        return sorted(name for path in paths for name in os.listdir(path))  # noqa: PTH208 (iterdir takes ten times longer)


class _QuickFileLoader(JSONFileLoader):
    """Reads botocore's models into dicts, where botocore makes OrderedDicts of 1.25 MB: 7 ms of a cold start."""

    def _load_file(self, full_path: str, open_method: Any) -> Any:
        if not Path(full_path).is_file():
            return None
        with open_method(full_path, "rb") as file:
            return json.load(file)
