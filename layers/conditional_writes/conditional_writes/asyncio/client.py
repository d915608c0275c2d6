"""A client whose calls are awaited, with the settings of `dynamodb_client`."""

import contextlib
import importlib
from collections.abc import AsyncIterator
from typing import Any

from conditional_writes.asyncio.connections import QuickSession
from conditional_writes.core.client import CONFIG, QUICK, user_agent


@contextlib.asynccontextmanager
async def async_dynamodb_client() -> AsyncIterator[Any]:
    """aiobotocore's client: `async with async_dynamodb_client() as client`. One is for all tasks of an event loop.

    Raises ModuleNotFoundError if aiobotocore isn't installed.
    """
    try:
        session = importlib.import_module("aiobotocore.session").get_session()
    except ModuleNotFoundError as error:
        if error.name not in {"aiobotocore", "aiobotocore.session"}:
            raise
        needed = 'async_dynamodb_client needs aiobotocore: pip install "conditional-writes[asyncio]"'
        raise ModuleNotFoundError(needed, name=error.name) from None
    settings = importlib.import_module("aiobotocore.config").AioConfig(user_agent=user_agent(session), **QUICK)
    async with session.create_client("dynamodb", config=settings.merge(CONFIG)) as client:
        # There is no public way to its session: if aiobotocore changes, that sends all requests.
        with contextlib.suppress(AttributeError):
            client._endpoint.http_session = QuickSession(client._endpoint.http_session)
        yield client
