"""AWS clients with chosen retries and timeouts, made in a fraction of the usual time, for cold starts."""

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
"""The most requests in flight from one client. More threads than this wait for a connection."""

CONFIG = Config(
    # The SDK retries throttles, 5xx, lost connections and a transaction that is still in progress (with the same
    # ClientRequestToken). "standard" has jitter and a retry quota; the older default, "legacy", has neither. A conflict
    # is an answer, so the SDK doesn't retry it: the loop plans again.
    retries={"mode": "standard", "total_max_attempts": 3},
    # DynamoDB answers in milliseconds. With botocore's own 60 s one lost packet could take the whole invocation.
    connect_timeout=1,
    read_timeout=2,
    max_pool_connections=CONNECTIONS,
)

SLOWEST_CALL_SECONDS = 3 * (1 + 2) + 3
"""The longest that one call takes with these settings: three attempts, and pauses of 1 s and 2 s if throttled."""


def dynamodb_client() -> "DynamoDBClient":
    """A client for this library. It is thread-safe and slow to make: make it once, outside of the handler."""
    # `as_request` makes valid parameters. botocore's own validation would be a twentieth of a request's CPU.
    client: DynamoDBClient = new_client("dynamodb", parameter_validation=False)
    return client


def new_client(service_name: str, **config: Any) -> Any:
    """A client of any service, as quickly made. `config` has botocore's settings that differ from `CONFIG`."""
    return _session().client(service_name, config=CONFIG.merge(Config(**config)))


@functools.cache
def _session() -> boto3.Session:
    session = botocore.session.get_session()
    session.register_component("data_loader", _QuickLoader(file_loader=_QuickFileLoader()))
    return boto3.Session(botocore_session=session)


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
