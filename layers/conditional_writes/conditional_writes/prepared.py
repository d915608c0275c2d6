"""Prepares each client once: the library's handlers of its events, and a sentence if it belongs to a boto3 resource."""

import weakref
from typing import TYPE_CHECKING, Any

from conditional_writes.bodies import take_read_item
from conditional_writes.handed_back import take_refused_items
from conditional_writes.tries import note_try, take_no_other_json

if TYPE_CHECKING:
    from types_boto3_dynamodb import DynamoDBClient

_prepared: "weakref.WeakSet[DynamoDBClient]" = weakref.WeakSet()


def prepare(client: "DynamoDBClient") -> None:
    """Called before each request, because a client may be the user's own.

    Raises TypeError for the client of a resource.
    """
    if client in _prepared:
        return
    _check_plain(client)
    events = client.meta.events
    events.register("before-parse.dynamodb.GetItem", take_read_item)
    events.register("before-parse.dynamodb", take_refused_items)
    events.register_first("before-parse.dynamodb", take_no_other_json)
    events.register_first("needs-retry.dynamodb", note_try)
    _prepared.add(client)


def _check_plain(client: "DynamoDBClient") -> None:
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
