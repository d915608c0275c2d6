"""Refuses a client that belongs to a boto3 resource, which converts the values of every request and answer itself."""

import weakref
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types_boto3_dynamodb import DynamoDBClient

_plain: "weakref.WeakSet[DynamoDBClient]" = weakref.WeakSet()
"""Clients that were looked at before."""


def check_plain(client: "DynamoDBClient") -> None:
    """Raises TypeError for the client of a resource: each value would be converted twice.

    There is no public way to ask for a client's event handlers. If botocore changes, such a client isn't recognised,
    and DynamoDB refuses its keys.
    """
    if client in _plain:
        return
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
    _plain.add(client)
