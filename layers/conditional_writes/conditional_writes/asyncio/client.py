"""A client whose calls are awaited, with the settings of `dynamodb_client`."""

import importlib
from typing import Any

from conditional_writes.core.client import CONFIG, QUICK, user_agent


def async_dynamodb_client() -> Any:
    """aiobotocore's client: `async with async_dynamodb_client() as client`. One is for all tasks of an event loop.

    Raises ModuleNotFoundError if aiobotocore isn't installed.
    """
    session = importlib.import_module("aiobotocore.session").get_session()
    settings = importlib.import_module("aiobotocore.config").AioConfig(user_agent=user_agent(session), **QUICK)
    return session.create_client("dynamodb", config=settings.merge(CONFIG))
